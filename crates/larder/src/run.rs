//! `larder run`: the daemon.

mod open_files;
mod settings;
mod sleep;

use crate::client::DEFAULT_SOCKET;
use crate::output;
use crate::output::table::printable;
use crate::signals::Signals;
use anyhow::Context as _;
use clap::ValueEnum;
use larder_node::{Config, Node, Report, SourceState};
use larder_server::{ServeOptions, Server};
use larder_tls::TlsOptions;
use settings::Settings;
pub(crate) use settings::duration;
use sleep::SleepTimer;
use std::fmt::Write as _;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::{ParseError, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// How long the start waits for the sources before it says what is held; it serves meanwhile.
const SETTLE: Duration = Duration::from_secs(3);
/// How long the end waits for what still runs on threads of its own.
const LEFT_BEHIND: Duration = Duration::from_secs(1);
/// Lines of the log that wait to be written.
const LOG_LINES: usize = 4096;
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # On a node of a cluster, with the kubelet's own identity
  larder run --kubeconfig /etc/kubernetes/kubelet.conf --node-name \"$(hostname)\"
  # Without a cluster: pods, Secrets and ConfigMaps from a directory
  larder run --manifests /etc/larder/manifests
  # In a DaemonSet, with NODE_NAME from the downward API
  larder run --metrics-address 0.0.0.0:9464")]
pub(crate) struct Args {
    /// Read settings from this YAML file; flags override it. --print-config prints all settings in this form
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Check the settings of the file and the flags without contacting a server, print all of them in the form of
    /// --config, and exit
    #[arg(long)]
    print_config: bool,
    #[command(flatten)]
    flags: settings::Flags,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    /// Lines for people
    #[default]
    Text,
    /// One JSON object per line
    Json,
}

/// Runs the daemon until it is told to end.
pub(crate) fn main(args: &Args) -> anyhow::Result<ExitCode> {
    // Before anything that is secret can be read.
    keep_memory_private()?;
    let settings = Settings::of(args.config.as_deref(), &args.flags)?;
    if args.print_config {
        settings.check()?;
        output::print(&settings.to_yaml()?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let _log = log_to_stderr(&settings)?;
    let (config, serve) = settings.options()?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start the async runtime")?;
    let code = runtime.block_on(daemon(config, serve));
    // A credential plugin that does not end, or a file system that does not answer, holds a thread that nobody waits for.
    runtime.shutdown_timeout(LEFT_BEHIND);
    code.map_err(|error| error.downcast_ref().and_then(|error| settings.refused(error)).unwrap_or(error))
}

async fn daemon(config: Config, serve: ServeOptions) -> anyhow::Result<ExitCode> {
    let token = CancellationToken::new();
    // Before anything starts: a signal from here on ends it cleanly.
    let mut signals = Signals::listen()?;
    let starting = start_apart(config, serve, token.clone());
    let running = tokio::select! {
        running = starting => running?,
        signal = signals.any() => {
            token.cancel();
            return Ok(signal.exit_code());
        }
    };
    let ended = tokio::select! {
        signal = signals.any() => Some(signal),
        () = running.settled() => None,
    };
    let signal = if let Some(signal) = ended {
        signal
    } else {
        // Nobody may be reading it; that is no reason to end.
        let _ = output::print(running.greeting().as_bytes());
        signals.any().await
    };
    tracing::info!(signal = signal.name(), "stopping");
    running.stop().await;
    Ok(signal.exit_code())
}

/// [`start`] on a thread that ends with it. It needs ten times the stack that the daemon needs later, and the pages of a stack stay
/// resident as long as its thread.
async fn start_apart(config: Config, serve: ServeOptions, token: CancellationToken) -> anyhow::Result<Running> {
    let runtime = tokio::runtime::Handle::current();
    let start = move || runtime.block_on(token.clone().run_until_cancelled_owned(start(config, serve, token)));
    let started = tokio::task::spawn_blocking(start).await.context("the start has failed")?;
    started.context("ended before it had started")?
}

/// A daemon that runs in this process.
pub(crate) struct Running {
    node: Arc<Node>,
    socket: PathBuf,
    metrics_address: Option<SocketAddr>,
    listen: Option<Listening>,
    server: JoinHandle<()>,
    /// Notes when the machine has slept.
    sleep: JoinHandle<()>,
    token: CancellationToken,
}

/// The API over TLS, as the greeting tells of it.
struct Listening {
    address: SocketAddr,
    tls: TlsOptions,
}

/// Starts the daemon in this process: `larder run` and `larder demo` are the same daemon. It answers from here on, and ends
/// when the token is cancelled; [`Running::stop`] does that and waits for it.
///
/// To be called within a tokio runtime.
pub(crate) async fn start(
    mut config: Config,
    mut serve: ServeOptions,
    token: CancellationToken,
) -> anyhow::Result<Running> {
    config.kube.plugin_open_files = open_files::raise_limit(&config, &mut serve);
    let (socket, tls) = (serve.socket.clone(), serve.tls.clone());
    let sleep = SleepTimer::start().context("cannot create a timer that counts the time this machine sleeps")?;
    let node = Node::start(config, token.clone()).await?;
    let server = match Server::bind(Arc::clone(&node), serve, token.clone()).await {
        Ok(server) => server,
        Err(error) => {
            node.stop().await;
            return Err(error.into());
        }
    };
    tracing::info!(socket = %socket.display(), node = node.name(), "serving");
    let metrics_address = server.metrics_address();
    let listen = server.listen_address().map(|address| Listening { address, tls });
    let server = tokio::spawn(server.run());
    let sleeper = Arc::clone(&node);
    let sleep = tokio::spawn(sleep.run(move || sleeper.note_sleep(), token.clone()));
    Ok(Running { node, socket, metrics_address, listen, server, sleep, token })
}

impl Running {
    /// Waits until each source has answered or failed once, but not for long.
    pub(crate) async fn settled(&self) {
        // What is not there by then is told as it is.
        let _ = tokio::time::timeout(SETTLE, self.node.settled()).await;
    }

    /// The node's larder.
    #[cfg_attr(not(feature = "demo"), allow(dead_code))]
    pub(crate) fn node(&self) -> &Arc<Node> {
        &self.node
    }

    /// What it holds and how to ask, in a few lines.
    pub(crate) fn greeting(&self) -> String {
        greeting(&self.node.report(), &self.socket, self.metrics_address, self.listen.as_ref())
    }

    /// Ends it, and waits for it.
    pub(crate) async fn stop(self) {
        self.token.cancel();
        if let Err(error) = self.server.await {
            tracing::error!(%error, "the server has failed");
        }
        if let Err(error) = self.sleep.await {
            tracing::error!(%error, "the task that detects sleep has failed");
        }
        self.node.stop().await;
    }
}

fn greeting(report: &Report, socket: &Path, metrics_address: Option<SocketAddr>, listen: Option<&Listening>) -> String {
    let mut text = String::new();
    let counts = &report.counts;
    let plural = |count: u64, one: &str| format!("{count} {one}{}", if count == 1 { "" } else { "s" });
    // Writing to a string cannot fail.
    let _ = writeln!(text, "larder {} on node {}", report.version, report.node);
    let mut holds = vec![plural(counts.pods, "pod")];
    holds.extend(counts.objects.iter().map(|(kind, counts)| plural(counts.referenced, kind.kind().singular())));
    holds.push(plural(counts.containers.total(), "container"));
    let _ = writeln!(text, "  holds    {}", holds.join(", "));
    for source in report.sources.iter().filter(|source| matches!(source.name.as_str(), "pods" | "runtime")) {
        let state = match source.state {
            SourceState::Off => "off".to_owned(),
            _ => format!("{} ({})", source.from, source.state),
        };
        let _ = writeln!(text, "  {:<8} {state}", source.name);
    }
    for line in &report.degraded {
        let _ = writeln!(text, "  degraded {}", printable(line));
    }
    let at =
        if socket == Path::new(DEFAULT_SOCKET) { String::new() } else { format!(" --socket {}", socket.display()) };
    let _ = writeln!(text, "  ask      larder get pods -A{at}");
    let _ = writeln!(text, "           larder ps{at}");
    let _ = writeln!(text, "           larder status{at}");
    if let Some(address) = metrics_address {
        let _ = writeln!(text, "  metrics  http://{address}/metrics");
    }
    if let Some(Listening { address, tls }) = listen {
        let how = if !tls.needs_authority() {
            format!("for clients with a certificate of --client-ca, of the group {:?}", tls.admin_group)
        } else if tls.cert_file.is_some() {
            format!("larder kubeconfig{at} --certificate-authority FILE")
        } else {
            format!("larder kubeconfig{at}")
        };
        let _ = writeln!(text, "  listen   https://{address} ({how})");
    }
    text
}

/// The node's name as the kubelet takes it from `--hostname-override`, or else from the host: trimmed, and in lower case.
///
/// # Errors
///
/// No name is given, and the host's cannot be read.
fn node_name(given: Option<&str>) -> anyhow::Result<String> {
    let name = match given {
        None | Some("") => std::fs::read_to_string("/proc/sys/kernel/hostname")
            .context("cannot read the host's name: name the node with --node-name")?,
        Some(name) => name.to_owned(),
    };
    Ok(name.trim().to_lowercase())
}

/// What to log. A word alone is a level, or one of larder's own targets: a level that is misspelt would be taken for a
/// target that nobody has, and nothing would be logged.
fn log_filter(text: &str) -> Result<Targets, String> {
    let refused = |part: &str| {
        format!(
            "\"{part}\" is not a log level: write off, error, warn, info, debug or trace, or directives such as \
             larder_kube=debug,info"
        )
    };
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    for part in parts.iter().copied() {
        let is_level = LEVELS.iter().any(|level| level.eq_ignore_ascii_case(part));
        let is_own = part == "larder" || part.starts_with("larder_");
        // larder has no spans, and what names one would be taken for a target.
        let of_span = part.contains(['[', '{']);
        if of_span || !(is_level || is_own || part.contains('=')) {
            return Err(refused(part));
        }
    }
    parts.join(",").parse().map_err(|error: ParseError| format!("{}: {error}", refused(text)))
}

/// Logs to standard error until the guard is dropped. Nobody waits for a standard error that takes nothing: what does not
/// fit into the buffer is lost.
fn log_to_stderr(settings: &Settings) -> anyhow::Result<WorkerGuard> {
    let filter = settings.log_filter()?;
    let (writer, guard) = NonBlockingBuilder::default()
        .lossy(true)
        .buffered_lines_limit(LOG_LINES)
        .thread_name("log")
        .finish(OneLine(std::io::stderr()));
    // A line that cannot be written is lost: telling of that on standard error as well would panic.
    let lines = tracing_subscriber::fmt::layer().with_writer(writer).log_internal_errors(false);
    let registry = tracing_subscriber::registry().with(filter);
    let result = match settings.log_format {
        LogFormat::Text => {
            registry.with(lines.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))).try_init()
        }
        LogFormat::Json => registry.with(lines.json()).try_init(),
    };
    result.map_err(|error| anyhow::anyhow!("cannot set up logging: {error}"))?;
    Ok(guard)
}

/// Writes what is a line of the log as one line, whatever names of files stand in it.
struct OneLine<W>(W);

impl<W: Write> Write for OneLine<W> {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        let (text, end) = line.strip_suffix(b"\n").map_or((line, &b""[..]), |text| (text, &b"\n"[..]));
        if text.contains(&b'\n') || text.contains(&b'\r') {
            let escaped: Vec<u8> = text
                .iter()
                .flat_map(|byte| match byte {
                    b'\n' => &b"\\n"[..],
                    b'\r' => &b"\\r"[..],
                    other => std::slice::from_ref(other),
                })
                .copied()
                .collect();
            self.0.write_all(&escaped)?;
        } else {
            self.0.write_all(text)?;
        }
        self.0.write_all(end)?;
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

/// Keeps Secrets in this process: nothing dumps its memory to a disk, and other processes of its user may not read it.
///
/// The limit alone does not do: a kernel that pipes core dumps to a program passes over it.
pub(crate) fn keep_memory_private() -> anyhow::Result<()> {
    use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .context("cannot keep other processes from reading this process's memory")?;
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) }).context("cannot disable core dumps")
}

#[cfg(test)]
mod tests;
