//! A demo from its start to its end.

use super::agent::{self, Answers, look_out_for_change, look_out_for_exit};
use super::control::{self, Command, Order};
use super::folder::Folder;
use super::shop::{CHANGES, Changed, NAMESPACE, PODS, Shop};
use super::{Start, guide};
use crate::output;
use crate::run::{self, Running};
use crate::signals::Signals;
use anyhow::Context as _;
use larder_node::{ChangeDetection, Cluster as Sources, Config, RuntimeEndpoint, Strategy};
use larder_server::ServeOptions;
use larder_testkit::api_server::{ApiServerOptions, Kind, Verb};
use larder_testkit::cluster::{Cluster, ClusterOptions, KubeletOptions, What};
use std::fmt;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixListener;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// The node's annotation: how long an object is fresh. Short, so that a change is seen while one looks on.
const OBJECT_TTL_SECONDS: i64 = 10;
/// How long the pods may take to start before it goes on without.
const PODS_START: Duration = Duration::from_secs(5);
/// How many look-outs run at a time; more are left out.
const LOOK_OUTS: usize = 16;

pub(super) fn main(args: Start) -> anyhow::Result<ExitCode> {
    let filter: Targets = args
        .log_level
        .parse()
        .with_context(|| format!("--log-level: \"{}\" is not a level or a list of directives", args.log_level))?;
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let log = tracing_subscriber::registry().with(filter).with(lines).try_init();
    log.map_err(|error| anyhow::anyhow!("cannot set up logging: {error}"))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.context("cannot start the async runtime")?.block_on(run(args))
}

async fn run(args: Start) -> anyhow::Result<ExitCode> {
    // Before anything is made: a signal from here on leaves nothing behind.
    let mut signals = Signals::listen()?;
    let folder = Folder::create(args.dir.as_deref())?;
    let starting = Demo::start(&folder, args.seed);
    let mut demo = tokio::select! {
        demo = starting => demo?,
        _ = signals.any() => return Ok(ExitCode::SUCCESS),
    };
    let told = demo.tell_until_the_end(&args, &mut signals).await;
    let summary = demo.stop().await;
    let place = folder.path().display().to_string();
    drop(folder);
    told?;
    output::print(format!("{summary}The demo has ended and has removed {place}.\n").as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// All that runs.
pub(super) struct Demo {
    pub(super) cluster: Cluster,
    pub(super) larder: Running,
    socket: PathBuf,
    shop: Shop,
    pub(super) orders: mpsc::Receiver<Order>,
    looking_out: JoinSet<Option<String>>,
    answers: Arc<Answers>,
    token: CancellationToken,
    /// Those that only listen and read, until the token is cancelled.
    tasks: Vec<JoinHandle<()>>,
}

impl Demo {
    pub(super) async fn start(folder: &Folder, seed: u64) -> anyhow::Result<Self> {
        let kubelet = KubeletOptions {
            node: "laptop".into(),
            seed,
            backoff: Duration::from_secs(2),
            backoff_max: Duration::from_secs(8),
            ..KubeletOptions::default()
        };
        let api = ApiServerOptions { tls: true, ..ApiServerOptions::default() };
        let object_ttl_seconds = Some(OBJECT_TTL_SECONDS);
        let options = ClusterOptions { api, kubelet, object_ttl_seconds, ..ClusterOptions::default() };
        let cluster = Cluster::start(folder.path(), options).await.context("cannot start the simulation")?;
        let mut happenings = cluster.happenings();
        let shop = Shop::open(&cluster)?;
        // So that there is something to be seen from the first command on.
        let start = async {
            let mut started = 0;
            while started < PODS {
                let Ok(happening) = happenings.recv().await else { return };
                started += usize::from(matches!(happening.what, What::Started { .. }));
            }
        };
        // What is not there by then comes later.
        let _ = tokio::time::timeout(PODS_START, start).await;

        let sources = Sources::Kubeconfig { path: cluster.kubeconfig().to_owned(), context: None };
        let mut config = Config::new(cluster.node(), sources);
        config.runtime = RuntimeEndpoint::At(cluster.cri().endpoint());
        // Ages and TTLs are easier to follow by eye than watches, by which everything is new at once.
        config.change_detection = ChangeDetection::same(Strategy::Ttl);
        let socket = folder.path().join("larder.sock");
        let serve = ServeOptions::new(&socket);
        let token = CancellationToken::new();
        let larder = run::start(config, serve, token.child_token()).await?;
        let control = control::beside(&socket);
        let listener =
            UnixListener::bind(&control).with_context(|| format!("cannot listen on {}", control.display()))?;
        let (sender, orders) = mpsc::channel(16);
        if std::io::stdin().is_terminal() {
            control::listen_to_stdin(sender.clone());
        }
        let tasks = vec![tokio::spawn(control::listen(listener, sender, token.child_token()))];
        let answers = Arc::new(Answers::default());
        Ok(Self { cluster, larder, socket, shop, orders, looking_out: JoinSet::new(), answers, token, tasks })
    }

    /// Prints the guide, and then a line for whatever happens, until it is to end.
    async fn tell_until_the_end(&mut self, args: &Start, signals: &mut Signals) -> anyhow::Result<()> {
        let mut happenings = self.cluster.happenings();
        tokio::select! {
            () = self.larder.settled() => {}
            _ = signals.any() => return Ok(()),
        }
        let guide = guide::text(self.cluster.api().url(), &self.socket, std::io::stdin().is_terminal());
        output::print(format!("{}\n{guide}\n", self.larder.greeting()).as_bytes())?;

        let (node, answers) = (Arc::clone(self.larder.node()), Arc::clone(&self.answers));
        self.tasks.push(tokio::spawn(agent::run(node, answers, self.token.child_token())));
        let began = Instant::now();
        let end = args.lasts.map(|lasts| began + lasts);
        let mut outage = args.outage_after.map(|after| (began + after, Command::Outage));
        let mut change = began + CHANGES;
        loop {
            tokio::select! {
                _ = signals.any() => return Ok(()),
                () = at(end) => return Ok(()),
                Some(seen) = self.looking_out.join_next() => if let Ok(Some(line)) = seen { say(&line)? },
                happening = happenings.recv() => match happening {
                    Ok(happening) => {
                        say(&happening)?;
                        if self.looking_out.len() < LOOK_OUTS && matches!(happening.what, What::Exited { .. }) {
                            self.looking_out.spawn(look_out_for_exit(Arc::clone(self.larder.node()), happening));
                        }
                    }
                    Err(RecvError::Lagged(lost)) => say(&format_args!("{lost} lines lost"))?,
                    Err(RecvError::Closed) => return Ok(()),
                },
                () = tokio::time::sleep_until(change) => {
                    change += CHANGES;
                    // Nobody changes anything while there is no API server.
                    if self.cluster.api().is_up()
                        && let Some(changed) = self.shop.change(&self.cluster)?
                    {
                        self.tell_change(changed)?;
                    }
                }
                () = at(outage.as_ref().map(|(due, _)| *due)) => if let Some((due, command)) = outage.take() {
                    if command == Command::Outage {
                        outage = Some((due + args.outage_for, Command::Restore));
                    }
                    // It may have been done by hand before.
                    let _ = self.obey(&command).await?;
                },
                Some(order) = self.orders.recv() => if self.carry_out(order).await? == Command::Quit { return Ok(()) },
            }
        }
    }

    /// Obeys an order and answers it; what it was.
    pub(super) async fn carry_out(&mut self, order: Order) -> anyhow::Result<Command> {
        let Order { command, answer } = order;
        let done = self.obey(&command).await?;
        // Whoever has gone needs no answer.
        let _ = answer.send(done);
        Ok(command)
    }

    /// Does what it is told: what was done, or why it could not be.
    pub(super) async fn obey(&mut self, command: &Command) -> anyhow::Result<Result<String, String>> {
        let is_up = self.cluster.api().is_up();
        let done = match command {
            Command::Outage if !is_up => return Ok(Err("the API server is away already".into())),
            Command::Restore if is_up => return Ok(Err("the API server is up already".into())),
            Command::Rotate if !is_up => return Ok(Err("the API server is away: restore it first".into())),
            Command::Outage => {
                self.cluster.outage().await;
                "the API server is gone: larder serves what it holds, as stale once the TTL has passed"
            }
            Command::Restore => {
                self.cluster.restore().await.context("cannot start the API server again")?;
                "the API server is back: larder is fresh again after its next fetches"
            }
            Command::Crash { pod, code } => {
                let (namespace, name) = pod.split_once('/').unwrap_or((NAMESPACE, pod));
                // Narrated by what comes of it.
                return Ok(match self.cluster.crash(namespace, name, *code) {
                    Ok(()) => Ok(format!("pod {namespace}/{name}: exits with code {code}")),
                    Err(error) => Err(error.to_string()),
                });
            }
            Command::Rotate => {
                let changed = self.shop.rotate(&self.cluster)?;
                let done = changed.to_string();
                self.tell_change(changed)?;
                return Ok(Ok(done));
            }
            Command::Quit => "the demo ends",
        };
        say(&done)?;
        Ok(Ok(done.to_owned()))
    }

    fn tell_change(&mut self, changed: Changed) -> anyhow::Result<()> {
        say(&changed)?;
        if self.looking_out.len() < LOOK_OUTS {
            self.looking_out.spawn(look_out_for_change(Arc::clone(self.larder.node()), changed));
        }
        Ok(())
    }

    /// Ends it all; how much was read of larder, and how much larder asked for it.
    pub(super) async fn stop(mut self) -> String {
        self.looking_out.shutdown().await;
        self.token.cancel();
        for task in self.tasks {
            // A panic in it has been reported by tokio.
            let _ = task.await;
        }
        self.larder.stop().await;
        let counts = &self.cluster.api().counts();
        let asked = Kind::ALL.into_iter().flat_map(|kind| {
            let verbs = [Verb::Get, Verb::List, Verb::Watch].into_iter();
            let counted = verbs.map(move |verb| (verb, counts.of(verb, kind))).filter(|(_, count)| *count > 0);
            counted.map(move |(verb, count)| format!("{} {} {count}", verb.name(), kind.plural()))
        });
        let asked: Vec<String> = asked.collect();
        self.cluster.shutdown().await;
        format!(
            "\nThe agent's reads from larder: {}.\nlarder's requests to the API server: {}.\n",
            self.answers,
            asked.join(", ")
        )
    }
}

/// One line: the time, and what happened.
fn say(what: &dyn fmt::Display) -> anyhow::Result<()> {
    output::print(format!("{}  {what}\n", jiff::Zoned::now().strftime("%H:%M:%S")).as_bytes())
}

impl fmt::Display for Changed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind.name().to_lowercase();
        write!(f, "{kind} {NAMESPACE}/{}: {} (resourceVersion {})", self.name, self.what, self.resource_version)
    }
}

async fn at(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
