//! `larder whois`: which pod and container a process, a container's ID or a cgroup belongs to.

use crate::client::{Connection, Query};
use crate::output::table::Table;
use crate::output::{self, Format};
use crate::run::duration;
use larder_pleg::ContainerStatus;
use larder_server::wire::{WhoisAnswer, WhoisScope};
use std::process::ExitCode;
use std::time::Duration;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  larder whois 4711                        a process, by its PID
  larder whois 5f0c1d2e3f4a5               a container, by its ID or the beginning of it
  larder whois /kubepods/pod7f/4f5e        a cgroup, as /proc/PID/cgroup has it
  larder whois $(pidof nginx) -o json
A number of up to 10 digits is a PID. --pid, --container and --cgroup say which it is.")]
pub(crate) struct Args {
    /// A PID, a container's ID, or the path of a cgroup
    #[arg(value_name = "PID|ID|CGROUP", required_unless_present_any = ["pid", "container", "cgroup"])]
    what: Option<String>,
    /// The process with this PID, in the PID namespace of the daemon
    #[arg(long, value_name = "PID", group = "target", conflicts_with = "what")]
    pid: Option<String>,
    /// The container or sandbox with this ID, or with the only ID that begins so
    #[arg(long, value_name = "ID", group = "target", conflicts_with = "what")]
    container: Option<String>,
    /// Whatever runs in this cgroup
    #[arg(long, value_name = "PATH", group = "target", conflicts_with = "what")]
    cgroup: Option<String>,
    /// How long to wait for a container that the runtime has not told of yet
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration)]
    timeout: Duration,
    /// Output format: wide adds the service account, the container's image and IDs, name prints pod/NAME or host
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
    #[command(flatten)]
    connection: Connection,
}

impl Args {
    /// The parameter of the local API, and its value.
    fn target(&self) -> (&'static str, &str) {
        let what = self.what.as_deref().unwrap_or_default();
        let named = [("pid", &self.pid), ("containerID", &self.container), ("cgroup", &self.cgroup)];
        let named = named.into_iter().find_map(|(name, value)| Some((name, value.as_deref()?)));
        let is_pid = what.len() <= 10 && what.bytes().all(|byte| byte.is_ascii_digit());
        let name = match what {
            _ if what.starts_with('/') => "cgroup",
            _ if is_pid => "pid",
            _ => "containerID",
        };
        named.unwrap_or((name, what))
    }
}

/// Prints whose it is.
pub(crate) async fn main(args: Args) -> anyhow::Result<ExitCode> {
    let (name, value) = args.target();
    let query = Query::new(&["larder", "v1", "whois"])
        .with(name, value)
        .with("timeout", format!("{}ms", args.timeout.as_millis()));
    let reply = args.connection.client().get(&query, args.timeout).await?;
    let answer: WhoisAnswer = reply.json()?;
    let text = match args.output {
        Format::Json => output::json(&reply.json()?)?,
        Format::Yaml => output::yaml(&reply.json()?)?,
        Format::Name => {
            answer.pod.as_ref().map_or("host\n".to_owned(), |pod| format!("pod/{}\n", pod.name)).into_bytes()
        }
        Format::Table | Format::Wide => table(&answer, args.output == Format::Wide).into_bytes(),
    };
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn table(answer: &WhoisAnswer, wide: bool) -> String {
    let mut columns = vec!["SCOPE", "NAMESPACE", "POD", "CONTAINER", "STATE", "OWNER"];
    if wide {
        columns.extend(["SERVICE ACCOUNT", "IMAGE", "ID", "POD UID", "FRESHNESS"]);
    }
    let mut table = Table::new(&columns);
    let or_dash = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
    let pod = answer.pod.clone().unwrap_or_default();
    let of_container = |text: fn(&ContainerStatus) -> &str| or_dash(answer.container.as_ref().map_or("", text));
    let mut row = vec![
        scope(answer.scope).to_owned(),
        or_dash(&pod.namespace),
        or_dash(&pod.name),
        of_container(|container| &container.name),
        of_container(|container| container.state.as_str()),
        pod.owner.as_ref().map_or("-".to_owned(), |owner| format!("{}/{}", owner.kind, owner.name)),
    ];
    if wide {
        row.extend([
            or_dash(&pod.service_account_name),
            of_container(|container| &container.image),
            or_dash(answer.id.as_deref().unwrap_or_default()),
            or_dash(&pod.uid),
            answer.freshness.as_ref().map_or("-".to_owned(), output::freshness),
        ]);
    }
    table.row(row);
    table.render()
}

fn scope(scope: WhoisScope) -> &'static str {
    match scope {
        WhoisScope::Container => "container",
        WhoisScope::Sandbox => "sandbox",
        WhoisScope::Host => "host",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Whois {
        #[command(flatten)]
        args: Args,
    }

    fn target(line: &str) -> (String, String) {
        let whois = Whois::try_parse_from(format!("whois {line}").split(' ')).unwrap();
        let (name, value) = whois.args.target();
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn what_is_asked_for_is_told_by_its_form_or_by_a_flag() {
        for (line, name, value) in [
            ("4711", "pid", "4711"),
            ("5f0c1d2e3f4a5", "containerID", "5f0c1d2e3f4a5"),
            ("1234567890123", "containerID", "1234567890123"),
            ("containerd://4f5e", "containerID", "containerd://4f5e"),
            ("/kubepods/x", "cgroup", "/kubepods/x"),
            ("--container 12345678", "containerID", "12345678"),
            ("--pid 7", "pid", "7"),
            ("--cgroup /x", "cgroup", "/x"),
        ] {
            assert_eq!(target(line), (name.to_owned(), value.to_owned()), "{line}");
        }
        for line in ["whois", "whois 1 --pid 2", "whois --pid 1 --cgroup /x"] {
            assert!(Whois::try_parse_from(line.split(' ')).is_err(), "{line}");
        }
    }
}
