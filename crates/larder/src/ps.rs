//! `larder ps`: the containers of this node, as the runtime has them.

use crate::client::{Connection, Query};
use crate::output::table::Table;
use crate::output::{self, Format, age};
use jiff::Timestamp;
use larder_pleg::{ContainerState, ContainerStatus};
use larder_server::wire::{PodStatusAnswer, PodStatusAnswers};
use std::process::ExitCode;
use std::time::Duration;

/// Characters of a container's identifier that are shown.
const SHORT_ID: usize = 13;
const TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  larder ps
  larder ps --state exited
  larder ps -n kube-system -o wide")]
pub(crate) struct Args {
    /// Show only containers of this namespace
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// Show only containers of pods with this name
    #[arg(long, value_name = "NAME")]
    pod: Option<String>,
    /// Show only containers in this state
    #[arg(long, value_name = "STATE", value_parser = ["created", "running", "exited", "unknown"])]
    state: Option<String>,
    /// Output format: wide adds reason, times, pod UID and freshness, name prints the full container IDs
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
    /// Print full container IDs
    #[arg(long)]
    no_trunc: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Prints the containers.
pub(crate) async fn main(args: Args) -> anyhow::Result<ExitCode> {
    let query = Query::new(&["larder", "v1", "pods"]).with_some("namespace", args.namespace.as_deref());
    let client = args.connection.client();
    let reply = client.get(&query, TIMEOUT).await?;
    let mut answers: PodStatusAnswers = reply.json()?;
    answers.items.retain(|item| args.pod.as_ref().is_none_or(|pod| *pod == item.name));
    for item in &mut answers.items {
        if let Some(status) = &mut item.status {
            status
                .containers
                .retain(|container| args.state.as_deref().is_none_or(|state| state == container.state.as_str()));
        }
    }
    if let Some(error) = &answers.runtime.error {
        let listed = match answers.runtime.age_seconds {
            Some(ago) => format!("was last listed {} ago", whole(ago)),
            None => "has never been listed".to_owned(),
        };
        output::complain(&format!("Warning: stale: the runtime {listed}: {error}"));
    }
    let text = match args.output {
        Format::Json => output::json(&serde_json::to_value(&answers)?)?,
        Format::Yaml => output::yaml(&serde_json::to_value(&answers)?)?,
        Format::Name => names(&answers).into_bytes(),
        Format::Table | Format::Wide => {
            table(&answers, args.output == Format::Wide, args.no_trunc, Timestamp::now()).into_bytes()
        }
    };
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn whole(seconds: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "it saturates, and a person reads it")]
    age::seconds(seconds as i64)
}

/// Every container with its pod, the newest first.
fn containers(answers: &PodStatusAnswers) -> Vec<(&PodStatusAnswer, &ContainerStatus)> {
    let of = |item| PodStatusAnswer::containers(item).map(move |container| (item, container));
    let mut all: Vec<_> = answers.items.iter().flat_map(of).collect();
    all.sort_by_key(|(item, container)| (std::cmp::Reverse(container.created_at), &item.namespace, &item.name));
    all
}

/// The containers of an answer.
trait Containers {
    fn containers(&self) -> impl Iterator<Item = &ContainerStatus>;
}

impl Containers for PodStatusAnswer {
    fn containers(&self) -> impl Iterator<Item = &ContainerStatus> {
        self.status.iter().flat_map(|status| &status.containers)
    }
}

fn names(answers: &PodStatusAnswers) -> String {
    output::lines(containers(answers).iter().map(|(_, container)| container.id.id.clone()))
}

fn table(answers: &PodStatusAnswers, wide: bool, whole_ids: bool, now: Timestamp) -> String {
    let mut columns = vec!["CONTAINER", "IMAGE", "AGE", "STATE", "EXIT", "RESTARTS", "NAME", "POD", "NAMESPACE"];
    if wide {
        columns.extend(["REASON", "STARTED", "FINISHED", "POD UID", "FRESHNESS"]);
    }
    let mut table = Table::new(&columns);
    for (item, container) in containers(answers) {
        let id: String =
            if whole_ids { container.id.id.clone() } else { container.id.id.chars().take(SHORT_ID).collect() };
        let has_exited = container.state == ContainerState::Exited;
        let mut row = vec![
            id,
            container.image.clone(),
            age::since(time(container.created_at), now),
            capitalized(container.state.as_str()),
            if has_exited { container.exit_code.to_string() } else { "-".to_owned() },
            container.restart_count.to_string(),
            container.name.clone(),
            item.name.clone(),
            item.namespace.clone(),
        ];
        if wide {
            let ago = |at| time(at).map_or_else(|| "-".to_owned(), |at| age::since(Some(at), now));
            row.extend([
                if container.reason.is_empty() { "-".to_owned() } else { container.reason.clone() },
                ago(container.started_at),
                ago(container.finished_at),
                item.uid.clone(),
                output::freshness(&item.freshness),
            ]);
        }
        table.row(row);
    }
    table.render()
}

/// Nanoseconds since the Unix epoch as a time; none for 0, which is not set.
fn time(nanoseconds: i64) -> Option<Timestamp> {
    (nanoseconds != 0).then(|| Timestamp::from_nanosecond(nanoseconds.into()).ok()).flatten()
}

fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
}

#[cfg(test)]
mod tests;
