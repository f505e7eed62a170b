//! The clients: how each is started, and what it is asked.

use super::history::{How, Log, Objects, State, Told, key};
use super::recorder::{Exchange, Exchanges, Recorder};
use super::reference::describe;
use futures_util::StreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret};
use kube::runtime::reflector::{self, reflector};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Config, Resource};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::fs::File;
use std::path::Path;
use std::pin::pin;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// How long a program may take to tell what it holds.
const LIMIT: Duration = Duration::from_mins(1);

/// The kinds that each client watches.
pub(super) const KINDS: [&str; 4] = ["Pod", "Node", "Secret", "ConfigMap"];

/// A client that reads from larder. Dropping it ends it.
pub(super) struct Client {
    pub(super) name: &'static str,
    pub(super) log: Arc<Log>,
    exchanges: Exchanges,
    /// The way to larder, but for a client that notes its own exchanges.
    _recorder: Option<Recorder>,
    store: Store,
    _tasks: JoinSet<()>,
}

/// How the client's own store is read.
enum Store {
    Program { stdin: tokio::sync::Mutex<(ChildStdin, mpsc::Receiver<Objects>)>, _child: Box<Child> },
    InProcess(Vec<Box<dyn Fn() -> Objects + Send + Sync>>),
}

/// A line that a program prints.
#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Held { held: Vec<Printed> },
    List { list: String, kind: String },
    Error { error: String },
    Exchange { exchange: Exchange },
    Event(PrintedEvent),
}

#[derive(Deserialize)]
struct PrintedEvent {
    r#type: String,
    #[serde(flatten)]
    object: Printed,
}

#[derive(Deserialize)]
struct Printed {
    kind: String,
    name: String,
    uid: String,
    version: String,
}

impl Printed {
    fn read(self) -> (String, State) {
        let version = self.version.parse().expect("a version");
        (key(&self.kind, &self.name), State { uid: self.uid, version })
    }
}

impl Client {
    /// Starts a program that reaches larder through the recorder, or prints its own exchanges.
    pub(super) fn program(name: &'static str, folder: &Path, command: Command, recorder: Option<Recorder>) -> Self {
        let log = File::create(folder.join(format!("{name}.log"))).expect("its log");
        let mut command = command;
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| panic!("start {name}: {error}"));
        let stdin = child.stdin.take().expect("its input");
        let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let (holds, held) = mpsc::channel(1);
        let log = Arc::new(Log::new());
        let mut tasks = JoinSet::new();
        let told = Arc::clone(&log);
        let exchanges = recorder.as_ref().map(|recorder| recorder.exchanges().clone()).unwrap_or_default();
        let notes = exchanges.clone();
        tasks.spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                match serde_json::from_str(&line).unwrap_or_else(|error| panic!("{name} printed {line:?}: {error}")) {
                    Line::Held { held } => {
                        let held = held.into_iter().map(Printed::read).collect();
                        holds.send(held).await.expect("somebody asked");
                    }
                    Line::List { list, kind } => {
                        let kind = KINDS.into_iter().find(|known| *known == kind).expect("a kind");
                        told.push(if list == "begins" { Told::ListBegins(kind) } else { Told::ListEnds(kind) });
                    }
                    Line::Error { error } => told.push(Told::Error(error)),
                    Line::Exchange { exchange } => notes.push(exchange),
                    Line::Event(event) => {
                        let how = match event.r#type.as_str() {
                            "ADDED" => How::Added,
                            "MODIFIED" => How::Modified,
                            "DELETED" => How::Deleted,
                            other => panic!("{name} printed an event {other:?}"),
                        };
                        let (key, state) = event.object.read();
                        told.push(Told::Event(how, key, state));
                    }
                }
            }
        });
        let store = Store::Program { stdin: tokio::sync::Mutex::new((stdin, held)), _child: Box::new(child) };
        Self { name, log, exchanges, _recorder: recorder, store, _tasks: tasks }
    }

    /// kube's watchers and reflectors.
    pub(super) async fn kube(name: &'static str, larder: &Path, config: watcher::Config) -> Self {
        let recorder = Recorder::start(larder, name).await;
        let url = recorder.url().parse().expect("a URL");
        let client = kube::Client::try_from(Config::new(url)).expect("a client");
        let log = Arc::new(Log::new());
        let mut tasks = JoinSet::new();
        let stores = vec![
            reflect::<Pod>("Pod", client.clone(), config.clone(), Arc::clone(&log), &mut tasks),
            reflect::<Node>("Node", client.clone(), config.clone(), Arc::clone(&log), &mut tasks),
            reflect::<Secret>("Secret", client.clone(), config.clone(), Arc::clone(&log), &mut tasks),
            reflect::<ConfigMap>("ConfigMap", client, config, Arc::clone(&log), &mut tasks),
        ];
        let exchanges = recorder.exchanges().clone();
        Self { name, log, exchanges, _recorder: Some(recorder), store: Store::InProcess(stores), _tasks: tasks }
    }

    /// What it exchanged with larder so far.
    pub(super) fn exchanges(&self) -> Vec<Exchange> {
        self.exchanges.all()
    }

    /// What the client's own store holds.
    pub(super) async fn held(&self) -> Objects {
        match &self.store {
            Store::InProcess(stores) => stores.iter().flat_map(|store| store()).collect(),
            Store::Program { stdin, .. } => {
                let mut program = stdin.lock().await;
                let (stdin, held) = &mut *program;
                stdin.write_all(b"\n").await.unwrap_or_else(|error| panic!("{} has ended: {error}", self.name));
                let held = tokio::time::timeout(LIMIT, held.recv()).await;
                held.ok().flatten().unwrap_or_else(|| panic!("{} does not say what it holds", self.name))
            }
        }
    }
}

fn reflect<K>(
    kind: &'static str,
    client: kube::Client,
    config: watcher::Config,
    log: Arc<Log>,
    tasks: &mut JoinSet<()>,
) -> Box<dyn Fn() -> Objects + Send + Sync>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    let (store, writer) = reflector::store::<K>();
    let events = reflector(writer, watcher(Api::<K>::all(client), config).default_backoff());
    tasks.spawn(async move {
        let mut events = pin!(events);
        while let Some(event) = events.next().await {
            let object = |how, object: K| {
                let (key, state) = describe(kind, &object);
                Told::Event(how, key, state)
            };
            log.push(match event {
                Ok(watcher::Event::Init) => Told::ListBegins(kind),
                Ok(watcher::Event::InitApply(listed)) => object(How::Added, listed),
                Ok(watcher::Event::InitDone) => Told::ListEnds(kind),
                Ok(watcher::Event::Apply(applied)) => object(How::Applied, applied),
                Ok(watcher::Event::Delete(gone)) => object(How::Deleted, gone),
                Err(error) => Told::Error(error.to_string()),
            });
        }
    });
    Box::new(move || store.state().iter().map(|object| describe(kind, &**object)).collect())
}
