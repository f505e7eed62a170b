//! `larder wait`: waits until a pod is in a state, or until its status is newer than a time.

use crate::client::{Client, Connection, Error, Query, message};
use crate::kinds::{KindOrName, Target, parse_targets};
use crate::output;
use crate::run::duration;
use jiff::Timestamp;
use larder_pleg::{ContainerState, ContainerStatus};
use larder_resource::Kind;
use larder_server::DaemonError;
use larder_server::ErrorBody;
use larder_server::wire::PodStatusAnswer;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;
use tokio::time::Instant;

/// The longest that the daemon is asked to wait at a time.
const LONGEST_WAIT: Duration = Duration::from_mins(5);
/// The shortest that it takes.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);
/// The pause before asking again where the daemon does not say.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # Until every container of the pod has exited
  larder wait pod web --for=state=exited --timeout=60s
  # Until the container app runs
  larder wait pod/web -c app --for=state=running
  # Until larder has checked the pod's status again
  larder wait pod web --for=newer-than=now
  # Until the runtime no longer has the pod
  larder wait pod web --for=delete")]
pub(crate) struct Args {
    /// pod NAME, or pod/NAME
    #[arg(required = true, value_name = "POD", value_parser = KindOrName(&["pod"]), hide_possible_values = true)]
    targets: Vec<String>,
    /// The pod's namespace
    #[arg(short, long, value_name = "NAME", default_value = "default", value_parser = crate::kinds::namespace)]
    namespace: String,
    /// What to wait for: state=created|running|exited, newer-than=TIME|now, delete
    #[arg(long = "for", value_name = "CONDITION")]
    condition: Condition,
    /// Check only this container of the pod
    #[arg(short, long, value_name = "NAME")]
    container: Option<String>,
    /// How long to wait; 0 checks once
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    timeout: Duration,
    #[command(flatten)]
    connection: Connection,
}

/// What is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Condition {
    State(ContainerState),
    NewerThan(Timestamp),
    Delete,
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(time) = text.strip_prefix("newer-than=") {
            return match time {
                "now" => Ok(Self::NewerThan(Timestamp::now())),
                _ => time.parse().map(Self::NewerThan).map_err(|_| {
                    format!("\"{time}\" is not 'now' or a time in RFC 3339, such as 2026-01-02T15:04:05Z")
                }),
            };
        }
        match text.strip_prefix("state=").unwrap_or(text) {
            "delete" if !text.contains('=') => Ok(Self::Delete),
            "created" => Ok(Self::State(ContainerState::Created)),
            "running" => Ok(Self::State(ContainerState::Running)),
            "exited" => Ok(Self::State(ContainerState::Exited)),
            _ => Err("expected state=created|running|exited, newer-than=TIME|now or delete".to_owned()),
        }
    }
}

/// How a wait ended.
#[derive(Debug, PartialEq, Eq)]
enum Ended {
    Met,
    TimedOut { why: String },
}

/// Waits, and says how it ended.
pub(crate) async fn main(args: Args) -> anyhow::Result<ExitCode> {
    let mut names = Vec::new();
    for target in parse_targets(&args.targets)? {
        match target {
            Target { kind: Kind::Pod, name: Some(name) } => names.push(name),
            Target { kind: Kind::Pod, name: None } => anyhow::bail!("name the pod to wait for: larder wait pod NAME"),
            Target { kind, .. } => anyhow::bail!("cannot wait for a {}, only for pods", kind.singular()),
        }
    }
    let client = args.connection.client();
    // One deadline for all, as kubectl has it.
    let deadline = Instant::now() + args.timeout;
    let mut code = ExitCode::SUCCESS;
    for name in names {
        let wait = Wait { client: &client, namespace: &args.namespace, name: &name, deadline };
        match wait.run(&args.condition, args.container.as_deref()).await? {
            Ended::Met => output::print(format!("pod/{name} condition met\n").as_bytes())?,
            Ended::TimedOut { why } => {
                output::complain(&format!("error: timed out waiting for the condition on pods/{name}: {why}"));
                code = ExitCode::FAILURE;
            }
        }
    }
    Ok(code)
}

struct Wait<'a> {
    client: &'a Client,
    namespace: &'a str,
    name: &'a str,
    deadline: Instant,
}

impl Wait<'_> {
    async fn run(&self, condition: &Condition, container: Option<&str>) -> Result<Ended, Error> {
        // What the next answer has to be newer than, or the status changed after; none asks for what is known.
        let mut after = match condition {
            Condition::NewerThan(time) => Some(("newerThan", *time)),
            _ => None,
        };
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            let timeout = left.clamp(SHORTEST_WAIT, LONGEST_WAIT);
            let why = match self.ask(after, timeout).await {
                Ok(answer) if is_met(condition, container, &answer) => return Ok(Ended::Met),
                Ok(answer) => {
                    // As it was is not enough from here on. What is not there is waited for to come.
                    after = Some(("changedAfter", answer.modified_at.unwrap_or(Timestamp::UNIX_EPOCH)));
                    describe(container, &answer)
                }
                Err(Error::Server { body }) => match body.status.code {
                    Some(404) if *condition == Condition::Delete => return Ok(Ended::Met),
                    Some(503) => {
                        self.pause(&body).await;
                        message(&body).to_owned()
                    }
                    Some(504) => in_vain(condition, container, &body),
                    _ => return Err(Error::Server { body }),
                },
                Err(error) => return Err(error),
            };
            if self.deadline <= Instant::now() {
                return Ok(Ended::TimedOut { why });
            }
        }
    }

    async fn ask(&self, after: Option<(&'static str, Timestamp)>, timeout: Duration) -> Result<PodStatusAnswer, Error> {
        let path = ["larder", "v1", "namespaces", self.namespace, "pods", self.name, "status"];
        let mut query = Query::new(&path).with("timeout", format!("{}ms", timeout.as_millis().max(1)));
        if let Some((parameter, time)) = after {
            query = query.with(parameter, format!("{time:.9}"));
        }
        let reply = self.client.get(&query, timeout).await?;
        reply.json().map_err(|error| {
            DaemonError::Broken { socket: self.client.socket().to_owned(), problem: format!("{error:#}") }.into()
        })
    }

    /// Waits as long as the daemon says before asking again, but not beyond the deadline.
    async fn pause(&self, body: &ErrorBody) {
        let seconds = body.status.details.as_ref().and_then(|details| details.retry_after_seconds);
        let pause = seconds.and_then(|seconds| seconds.try_into().ok()).map_or(PAUSE, Duration::from_secs);
        tokio::time::sleep_until((Instant::now() + pause).min(self.deadline)).await;
    }
}

/// The newest life of each container that is looked at.
fn newest<'a>(container: Option<&'a str>, answer: &'a PodStatusAnswer) -> Vec<&'a ContainerStatus> {
    let mut newest: Vec<&ContainerStatus> = Vec::new();
    let all = answer.status.iter().flat_map(|status| &status.containers);
    // The newest life of a container comes first.
    for one in all.filter(|one| container.is_none_or(|name| name == one.name)) {
        if !newest.iter().any(|known| known.name == one.name) {
            newest.push(one);
        }
    }
    newest
}

fn is_met(condition: &Condition, container: Option<&str>, answer: &PodStatusAnswer) -> bool {
    match condition {
        // The daemon has waited for it.
        Condition::NewerThan(_) => true,
        // Where the runtime has not been asked, nothing is known to be gone.
        Condition::Delete => answer.status.is_none() && answer.error.is_none() && answer.as_of.is_some(),
        Condition::State(state) => {
            let newest = newest(container, answer);
            !newest.is_empty() && newest.iter().all(|container| container.state == *state)
        }
    }
}

/// Why nothing newer came: the runtime's fault if it has one, else what was last known.
fn in_vain(condition: &Condition, container: Option<&str>, body: &ErrorBody) -> String {
    match &body.last_known {
        Some(known) if known.runtime.error.is_none() && !matches!(condition, Condition::NewerThan(_)) => {
            describe(container, known)
        }
        _ => message(body).to_owned(),
    }
}

/// What was last known, for whoever waited in vain.
fn describe(container: Option<&str>, answer: &PodStatusAnswer) -> String {
    let states: Vec<_> = newest(container, answer)
        .iter()
        .map(|container| match container.state {
            ContainerState::Exited => format!("{} exited with {}", container.name, container.exit_code),
            state => format!("{} is {state}", container.name),
        })
        .collect();
    match (states.is_empty(), container, &answer.error) {
        (_, _, Some(error)) => error.clone(),
        (true, Some(name), None) => format!("the pod has no container \"{name}\""),
        (true, None, None) => "the pod has no containers".to_owned(),
        (false, _, None) => states.join(", "),
    }
}

#[cfg(test)]
mod tests;
