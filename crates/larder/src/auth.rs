//! `larder auth`: whom larder takes this process for, what it may see, and which rule says so.

use crate::client::{Connection, Query};
use crate::kinds::{KINDS, namespace, parse_targets};
use crate::output::table::{Table, printable};
use crate::output::{self, Format};
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Show whom the daemon takes this process for
    Whoami(WhoamiArgs),
    /// Say whether this process may read something, and which rule says so; the exit code is 1 if it may not
    CanI(CanIArgs),
}

#[derive(Debug, clap::Args)]
struct WhoamiArgs {
    /// Output format: name prints the name of the user
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  larder auth can-i list pods                     any pod of the namespace default
  larder auth can-i get secret db -n shop         one Secret
  larder auth can-i watch secrets -A              any Secret of any namespace
  larder auth can-i get /metrics                  a path")]
struct CanIArgs {
    /// What to do: get, list or watch
    #[arg(value_name = "VERB")]
    verb: String,
    /// A kind, KIND/NAME, or the path of a document
    #[arg(value_name = "KIND", value_parser = KINDS)]
    what: String,
    /// The name of an object
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// The namespace of the object
    #[arg(short, long, value_name = "NAME", default_value = "default", value_parser = namespace, conflicts_with = "all_namespaces")]
    namespace: String,
    /// Ask about all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Output format: name prints yes or no alone
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
    #[command(flatten)]
    connection: Connection,
}

/// Prints what the daemon says of this process.
pub(crate) async fn main(args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::Whoami(args) => whoami(args).await,
        Command::CanI(args) => can_i(args).await,
    }
}

async fn whoami(args: WhoamiArgs) -> anyhow::Result<ExitCode> {
    let query = Query::new(&["apis", "authentication.k8s.io", "v1", "selfsubjectreviews"]);
    let reply = args.connection.client().post(&query, &json!({}), TIMEOUT).await?;
    let review: Value = reply.json()?;
    let user = &review["status"]["userInfo"];
    let text = match args.output {
        Format::Json => output::json(&review)?,
        Format::Yaml => output::yaml(&review)?,
        Format::Name => format!("{}\n", printable(text_of(&user["username"]))).into_bytes(),
        Format::Table | Format::Wide => attributes(user).into_bytes(),
    };
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// A user, as `kubectl auth whoami` shows it.
fn attributes(user: &Value) -> String {
    let mut table = Table::new(&["ATTRIBUTE", "VALUE"]);
    let list = |values: &Value| {
        let values = values.as_array().map(Vec::as_slice).unwrap_or_default();
        format!("[{}]", values.iter().map(|value| printable(text_of(value))).collect::<Vec<_>>().join(" "))
    };
    table.row(vec!["Username".to_owned(), printable(text_of(&user["username"]))]);
    if user["groups"].is_array() {
        table.row(vec!["Groups".to_owned(), list(&user["groups"])]);
    }
    for (name, values) in user["extra"].as_object().into_iter().flatten() {
        table.row(vec![format!("Extra: {}", printable(name)), list(values)]);
    }
    table.render()
}

async fn can_i(args: CanIArgs) -> anyhow::Result<ExitCode> {
    let spec = args.spec()?;
    let query = Query::new(&["apis", "authorization.k8s.io", "v1", "selfsubjectaccessreviews"]);
    let reply = args.connection.client().post(&query, &json!({ "spec": spec }), TIMEOUT).await?;
    let review: Value = reply.json()?;
    let is_allowed = review["status"]["allowed"] == true;
    let answer = if is_allowed { "yes" } else { "no" };
    let text = match args.output {
        Format::Json => output::json(&review)?,
        Format::Yaml => output::yaml(&review)?,
        Format::Name => format!("{answer}\n").into_bytes(),
        Format::Table | Format::Wide => match text_of(&review["status"]["reason"]) {
            "" => format!("{answer}\n").into_bytes(),
            reason => format!("{answer} - {}\n", printable(reason)).into_bytes(),
        },
    };
    output::print(&text)?;
    Ok(if is_allowed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl CanIArgs {
    /// What to review.
    fn spec(&self) -> anyhow::Result<Value> {
        if self.what.starts_with('/') {
            anyhow::ensure!(
                self.name.is_none(),
                "a path has no name: leave out {:?}",
                self.name.as_deref().unwrap_or_default()
            );
            return Ok(json!({"nonResourceAttributes": {"verb": self.verb, "path": self.what}}));
        }
        let words: Vec<_> = std::iter::once(&self.what).chain(&self.name).cloned().collect();
        let targets = parse_targets(&words)?;
        let [target] = &targets[..] else { anyhow::bail!("ask about one kind at a time") };
        let namespace = if self.all_namespaces || !target.kind.is_namespaced() { "" } else { &self.namespace };
        let mut attributes =
            json!({"verb": self.verb, "version": "v1", "resource": target.kind.resource(), "namespace": namespace});
        if let Some(name) = &target.name {
            attributes["name"] = name.as_str().into();
        }
        Ok(json!({ "resourceAttributes": attributes }))
    }
}

fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct Cli {
        #[command(flatten)]
        args: CanIArgs,
    }

    fn spec(line: &str) -> Result<Value, String> {
        let cli = Cli::try_parse_from(std::iter::once("can-i").chain(line.split(' '))).unwrap();
        cli.args.spec().map_err(|error| error.to_string())
    }

    #[test]
    fn a_line_asks_for_one_thing() {
        let resource = |verb: &str, resource: &str, namespace: &str| json!({"verb": verb, "version": "v1", "resource": resource, "namespace": namespace});
        let mut named = resource("get", "secrets", "shop");
        named["name"] = "db".into();
        for (line, expected) in [
            ("list po", json!({"resourceAttributes": resource("list", "pods", "default")})),
            ("get secret db -n shop", json!({"resourceAttributes": named})),
            ("get secret/db -n shop", json!({"resourceAttributes": named})),
            ("watch cm -A", json!({"resourceAttributes": resource("watch", "configmaps", "")})),
            ("list nodes -n shop", json!({"resourceAttributes": resource("list", "nodes", "")})),
            ("get /metrics", json!({"nonResourceAttributes": {"verb": "get", "path": "/metrics"}})),
        ] {
            assert_eq!(spec(line), Ok(expected), "{line}");
        }
        assert!(spec("get pods,secrets").unwrap_err().contains("one kind at a time"));
        assert!(spec("get deployments").unwrap_err().contains("no resource type"));
        assert!(spec("get /metrics x").unwrap_err().contains("a path has no name"));
    }

    #[test]
    fn a_user_is_shown_with_what_is_known() {
        assert_eq!(attributes(&json!({"username": "user 0"})), "ATTRIBUTE   VALUE\nUsername    user 0\n");
        let user = json!({"username": "a", "groups": ["b", "c"], "extra": {"pod": ["d"]}});
        let table = attributes(&user);
        assert!(table.contains("[b c]") && table.contains("Extra: pod"), "{table}");
    }
}
