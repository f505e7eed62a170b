//! `larder get`: what the daemon holds, as kubectl shows it.
//!
//! The columns and cells are those of the API server ([`larder_resource::representation`]); `-o wide` adds the freshness. A table
//! needs no data, and none is asked for it: a Secret's values leave the daemon only for `-o json` and `-o yaml`.

use crate::client::{Client, Connection, Error, Query, Reply};
use crate::kinds::{KINDS, Target, namespace, parse_targets};
use crate::output::table::Table;
use crate::output::{self, Format, age};
use crate::run::duration;
use jiff::Timestamp;
use larder_resource::representation::{self, ObjectSummary};
use larder_resource::{Kind, ObjectKind};
use larder_server::cache_status::CacheStatus;
use larder_server::wire::{FreshnessState, ObjectEntries, ObjectEntry};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::Duration;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Kinds: secrets, configmaps (cm), pods (po), nodes (no), namespaces (ns). larder has only \
the Secrets and ConfigMaps that pods of this node refer to, and the namespaces that they are in. \
Pods are as this node knows them: their containers as the container runtime has them.

Examples:
  larder get pods -A
  larder get secret db -n shop -o yaml
  larder get cm -l app=web -o wide
  larder get secret/db configmap/settings")]
pub(crate) struct Args {
    /// KIND [NAME...], KIND,KIND... or KIND/NAME...
    #[arg(required = true, value_name = "KIND [NAME]", value_parser = KINDS, hide_possible_values = true)]
    targets: Vec<String>,
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    connection: Connection,
}

/// What is asked for, beside the kinds and names.
#[derive(Debug, clap::Args)]
struct Options {
    /// The namespace of the objects
    #[arg(short, long, value_name = "NAME", default_value = "default", value_parser = namespace, conflicts_with = "all_namespaces")]
    namespace: String,
    /// List the objects of all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// List only objects that match this label selector, such as app=web,tier!=cache
    #[arg(short = 'l', long, value_name = "LABELS")]
    selector: Option<String>,
    /// List only objects that match this field selector, such as metadata.name=web
    #[arg(long, value_name = "FIELDS")]
    field_selector: Option<String>,
    /// Output format: wide adds columns such as the freshness, name prints kind/name
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
    /// Print tables without headers
    #[arg(long)]
    no_headers: bool,
    /// Print the managed fields of the objects with -o json and -o yaml
    #[arg(long)]
    show_managed_fields: bool,
    /// How long the daemon may try to fetch an object before it serves the one it holds
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    timeout: Duration,
}

/// Prints what is asked for.
pub(crate) async fn main(args: Args) -> anyhow::Result<ExitCode> {
    let Args { targets, options, connection } = args;
    let targets = parse_targets(&targets)?;
    let is_named = targets.iter().any(|target| target.name.is_some());
    if is_named && options.all_namespaces {
        anyhow::bail!("a resource cannot be retrieved by name across all namespaces");
    }
    if is_named && (options.selector.is_some() || options.field_selector.is_some()) {
        anyhow::bail!("name cannot be provided when a selector is specified");
    }
    let mut get = Get::new(connection.client(), options, &targets);
    match get.options.output {
        Format::Json | Format::Yaml => get.documents(&targets).await?,
        Format::Table | Format::Wide | Format::Name => get.tables(&targets).await?,
    }
    Ok(if get.failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

struct Get {
    client: Client,
    options: Options,
    several_kinds: bool,
    is_named: bool,
    /// Something that was asked for is not in what was printed, and was told.
    failed: bool,
}

impl Get {
    fn new(client: Client, options: Options, targets: &[Target]) -> Self {
        let several_kinds = targets.windows(2).any(|pair| pair[0].kind != pair[1].kind);
        let is_named = targets.iter().any(|target| target.name.is_some());
        Self { client, options, several_kinds, is_named, failed: false }
    }

    /// An error about one of several things that were asked for: told, and the others are gone on with.
    fn tell(&mut self, error: Error) -> anyhow::Result<()> {
        match error {
            Error::Server { .. } => {
                output::complain(&error.to_string());
                self.failed = true;
                Ok(())
            }
            error @ Error::Daemon(_) => Err(error.into()),
        }
    }

    fn warn(&mut self, warnings: &[String]) {
        for warning in warnings {
            output::complain(&format!("Warning: {warning}"));
        }
        // What is not known is missing in the answer.
        self.failed |= !warnings.is_empty();
    }

    async fn ask(&self, query: &Query) -> Result<Reply, Error> {
        self.client.get(query, self.options.timeout).await
    }

    /// The Kubernetes path of a list, or of one object.
    fn kubernetes(&self, target: &Target) -> Query {
        let mut path = match target.kind {
            // As this node knows them.
            Kind::Pod => vec!["node", "api", "v1"],
            Kind::Node | Kind::Secret | Kind::ConfigMap | Kind::Namespace => vec!["api", "v1"],
        };
        if target.kind.is_namespaced() && !self.options.all_namespaces {
            path.extend(["namespaces", &self.options.namespace]);
        }
        path.push(target.kind.resource());
        path.extend(target.name.as_deref());
        self.with_selectors(Query::new(&path), target)
    }

    /// larder's own path of what is known of a list, or of one object, without its data.
    fn entries(&self, target: &Target) -> Query {
        let mut path = vec!["larder", "v1", "objects", target.kind.resource()];
        if let Some(name) = &target.name {
            path.extend([self.options.namespace.as_str(), name]);
        }
        let query = self.with_selectors(Query::new(&path), target);
        let is_all = self.options.all_namespaces || target.name.is_some();
        query.with_some("namespace", (!is_all).then_some(self.options.namespace.as_str()))
    }

    fn with_selectors(&self, query: Query, target: &Target) -> Query {
        let query = query.with("timeout", format!("{}ms", self.options.timeout.as_millis()));
        if target.name.is_some() {
            return query;
        }
        query
            .with_some("labelSelector", self.options.selector.as_deref())
            .with_some("fieldSelector", self.options.field_selector.as_deref())
    }

    /// `-o json` and `-o yaml`: the objects whole, as one document.
    async fn documents(&mut self, targets: &[Target]) -> anyhow::Result<()> {
        let mut items = Vec::new();
        for target in targets {
            let mut query = self.kubernetes(target);
            if target.name.is_none() {
                query = query.with("partial", "true");
            }
            let reply = match self.ask(&query).await {
                Ok(reply) => reply,
                Err(error) => {
                    self.tell(error)?;
                    continue;
                }
            };
            self.warn(&reply.warnings());
            let mut document: Value = reply.json()?;
            match document.get_mut("items").map(Value::take) {
                Some(Value::Array(list)) if target.name.is_none() => items.extend(list),
                _ => items.push(document),
            }
        }
        if !self.options.show_managed_fields {
            items.iter_mut().for_each(omit_managed_fields);
        }
        let is_one = self.is_named && targets.len() == 1;
        if is_one && items.is_empty() {
            return Ok(());
        }
        let document = match items.pop() {
            Some(one) if is_one => one,
            last => {
                items.extend(last);
                json!({"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}})
            }
        };
        let text = if self.options.output == Format::Json { output::json(&document) } else { output::yaml(&document) };
        output::print(&text?)
    }

    /// Tables, one a kind, and `-o name`.
    async fn tables(&mut self, targets: &[Target]) -> anyhow::Result<()> {
        let now = Timestamp::now();
        let mut texts: Vec<String> = Vec::new();
        let mut rest = targets;
        while let Some(first) = rest.first() {
            let same = rest.iter().take_while(|target| target.kind == first.kind).count();
            let (of_kind, others) = rest.split_at(same);
            rest = others;
            let rows = match first.kind.object_kind() {
                Some(kind) => self.object_rows(kind, of_kind, now).await?,
                None => self.document_rows(of_kind, now).await?,
            };
            if !rows.is_empty() {
                texts.push(self.render(first.kind, rows));
            }
        }
        if texts.is_empty() {
            if !self.is_named && !self.failed {
                let place = if self.options.all_namespaces || targets.iter().all(|target| !target.kind.is_namespaced())
                {
                    String::new()
                } else {
                    format!(" in {} namespace.", self.options.namespace)
                };
                output::complain(&format!("No resources found{place}"));
            }
            return Ok(());
        }
        let between = if self.options.output == Format::Name { "" } else { "\n" };
        output::print(texts.join(between).as_bytes())
    }

    async fn object_rows(&mut self, kind: ObjectKind, targets: &[Target], now: Timestamp) -> anyhow::Result<Vec<Row>> {
        let mut rows = Vec::new();
        for target in targets {
            let reply = match self.ask(&self.entries(target)).await {
                Ok(reply) => reply,
                Err(error) => {
                    self.tell(error)?;
                    continue;
                }
            };
            let entries = if target.name.is_some() {
                vec![reply.json::<ObjectEntry>()?]
            } else {
                reply.json::<ObjectEntries>()?.items
            };
            for entry in &entries {
                self.complain_of(target.kind, entry);
                rows.extend(object_row(kind, entry, now));
            }
        }
        Ok(rows)
    }

    /// Says what a table cannot: that an object is stale, or not known.
    fn complain_of(&mut self, kind: Kind, entry: &ObjectEntry) {
        let what = format!("{} \"{}/{}\"", kind.singular(), entry.namespace, entry.name);
        let why = entry.freshness.reason.as_deref().unwrap_or("no reason given");
        match entry.freshness.state {
            FreshnessState::Unknown => self.warn(&[format!("{what} is not known yet: {why}")]),
            FreshnessState::Stale => output::complain(&format!("Warning: {what} is {}", stale(&entry.freshness, why))),
            _ => {}
        }
    }

    async fn document_rows(&mut self, targets: &[Target], now: Timestamp) -> anyhow::Result<Vec<Row>> {
        let mut rows = Vec::new();
        for target in targets {
            let reply = match self.ask(&self.kubernetes(target)).await {
                Ok(reply) => reply,
                Err(error) => {
                    self.tell(error)?;
                    continue;
                }
            };
            let freshness = freshness_of(&reply);
            if let Some(stale) = freshness.strip_prefix("stale ") {
                let detail = cache_status(&reply).and_then(|status| status.detail).unwrap_or_default();
                let why = detail.strip_prefix("stale: ").unwrap_or(&detail);
                let kind = target.kind.resource();
                output::complain(&format!("Warning: {kind} are stale, confirmed {stale} ago: {why}"));
            }
            let items = match reply.json::<Items>()?.items {
                Some(items) if target.name.is_none() => items,
                _ => vec![reply.json()?],
            };
            rows.extend(items.iter().map(|item| document_row(target.kind, item.get(), &freshness, now)));
        }
        Ok(rows)
    }

    fn render(&self, kind: Kind, rows: Vec<Row>) -> String {
        if self.options.output == Format::Name {
            return output::lines(rows.iter().map(|row| format!("{}/{}", kind.singular(), row.name)));
        }
        let is_wide = self.options.output == Format::Wide;
        let with_namespace = self.options.all_namespaces && kind.is_namespaced();
        let is_shown = |column: &representation::Column| is_wide || column.priority == 0;
        let columns = representation::columns(kind);
        let names = columns.iter().filter(|column| is_shown(column)).map(|column| column.name.to_uppercase());
        let mut header: Vec<String> = with_namespace.then(|| "NAMESPACE".to_owned()).into_iter().chain(names).collect();
        header.extend(is_wide.then(|| "FRESHNESS".to_owned()));
        let mut table = Table::new(&header);
        for row in rows {
            let name = if self.several_kinds { format!("{}/{}", kind.singular(), row.name) } else { row.name };
            let others = columns.iter().zip(row.cells).skip(1);
            let others = others.filter(|(column, _)| is_shown(column)).map(|(_, cell)| match cell {
                Value::String(text) => text,
                number => number.to_string(),
            });
            let namespace = with_namespace.then_some(row.namespace);
            table.row(namespace.into_iter().chain([name]).chain(others).chain(is_wide.then_some(row.freshness)));
        }
        let text = table.render();
        match text.split_once('\n') {
            Some((_, rest)) if self.options.no_headers => rest.to_owned(),
            _ => text,
        }
    }
}

/// A row of a table.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    namespace: String,
    name: String,
    /// One for each column of the kind; the first is the name.
    cells: Vec<Value>,
    freshness: String,
}

/// The row of an object that is there.
fn object_row(kind: ObjectKind, entry: &ObjectEntry, now: Timestamp) -> Option<Row> {
    let object = entry.object.as_ref()?;
    let summary = ObjectSummary {
        name: &entry.name,
        type_: &object.type_,
        entries: object.data.into(),
        created: object.created_at,
    };
    Some(Row {
        namespace: entry.namespace.clone(),
        name: entry.name.clone(),
        cells: summary.cells(kind, now),
        freshness: output::freshness(&entry.freshness),
    })
}

/// The row of a document. One that cannot be read has a row all the same, and takes nothing from the others.
fn document_row(kind: Kind, json: &str, freshness: &str, now: Timestamp) -> Row {
    let Named { metadata } = serde_json::from_str(json).unwrap_or_default();
    let cells = match representation::row(kind, json.as_bytes(), now) {
        Ok(row) => row.cells,
        Err(error) => {
            let Name { namespace, name } = &metadata;
            let key = if kind.is_namespaced() { format!("{namespace}/{name}") } else { name.clone() };
            output::complain(&format!("Warning: {} \"{key}\" cannot be read: {error}", kind.singular()));
            let columns = representation::columns(kind).iter().skip(1);
            let words = columns.map(|column| if column.name == "Status" { "Unreadable" } else { "<unknown>" });
            std::iter::once(metadata.name.as_str()).chain(words).map(Value::from).collect()
        }
    };
    Row { namespace: metadata.namespace, name: metadata.name, cells, freshness: freshness.to_owned() }
}

/// Removes what kubectl hides too.
fn omit_managed_fields(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

/// The items of a list.
#[derive(Deserialize)]
struct Items {
    items: Option<Vec<Box<RawValue>>>,
}

#[derive(Deserialize, Default)]
struct Named {
    #[serde(default)]
    metadata: Name,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Name {
    namespace: String,
    name: String,
}

fn stale(freshness: &larder_server::wire::Freshness, why: &str) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "it saturates, and a person reads it")]
    let ago = freshness.age_seconds.map(|age| age::seconds(age as i64));
    format!("stale, confirmed {} ago: {why}", ago.as_deref().unwrap_or("some time"))
}

fn cache_status(reply: &Reply) -> Option<CacheStatus> {
    reply.headers.get("cache-status").and_then(|value| CacheStatus::parse(value.to_str().ok()?))
}

/// The freshness of a whole answer, as its headers tell it.
fn freshness_of(reply: &Reply) -> String {
    let age = reply.headers.get(http::header::AGE).and_then(|value| value.to_str().ok()?.parse().ok());
    let age = age.map(|age| format!(" {}", age::seconds(age))).unwrap_or_default();
    let is_stale =
        cache_status(reply).and_then(|status| status.detail).is_some_and(|detail| detail.starts_with("stale"));
    format!("{}{age}", if is_stale { "stale" } else { "fresh" })
}

#[cfg(test)]
mod tests;
