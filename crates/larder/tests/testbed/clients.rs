//! Clients that others wrote, unchanged from their registries, see through larder what the API server did.
//!
//! A seed chooses random changes, which the test makes at the API server. A watch of the API server itself is the reference:
//! it tells the order of the states of each object. Each client prints what its library tells it.
//!
//! | client | how it begins |
//! | --- | --- |
//! | client-go's informers | with a streaming list; with list and watch |
//! | controller-runtime's cache | with a streaming list |
//! | kube's watchers and reflectors | with list and watch; with a streaming list |
//! | Python's `kubernetes` and its watch | with list and watch, over TLS with the kubeconfig that larder writes |
//!
//! `LARDER_SEED` repeats a run. `LARDER_RESTARTS=20` restarts larder and the API server so often each.

mod changes;
mod client;
mod history;
mod recorder;
mod reference;

use crate::cluster::Cluster;
use crate::daemon::Daemon;
use changes::Changes;
use client::{Client, KINDS};
use history::{Change, How, Key, State, Told, difference, expected, kind_of};
use kube::runtime::watcher;
use larder_testbed::programs::Program;
use larder_testbed::python::PythonProgram;
use larder_testbed::{Options, Testbed};
use rand::RngExt as _;
use rand::seq::SliceRandom as _;
use recorder::{Exchange, Recorder};
use reference::Reference;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;
use tokio::process::Command;

/// How many changes are made.
const CHANGES: usize = 500;
/// How often larder and the API server are restarted each, without `LARDER_RESTARTS`.
const RESTARTS: usize = 2;
/// How long a client may take to see what there is. Informers pause for up to half a minute after failures.
const LIMIT: Duration = Duration::from_mins(2);

struct Bench {
    testbed: Testbed,
    folder: PathBuf,
    /// Where larder listens with TLS, at each start.
    address: String,
    daemon: Option<Daemon>,
    reference: Reference,
    changes: Changes,
    clients: Vec<Client>,
}

impl Bench {
    async fn start() -> Self {
        let seed = number("LARDER_SEED").unwrap_or_else(rand::random);
        println!("LARDER_SEED={seed}");
        let testbed = Testbed::start(Options::default()).await.expect("testbed");
        let cluster = Cluster::new(&testbed).await;
        let reference = Reference::start(&testbed).await;
        let changes = Changes::begin(&testbed, cluster, seed).await;
        let folder = testbed.folder().join("larder");
        let address = format!("127.0.0.1:{}", testbed.spare_port());
        let mut bench = Self { testbed, folder, address, daemon: None, reference, changes, clients: Vec::new() };
        bench.start_larder().await;
        bench.clients = bench.start_clients().await;
        bench.settle().await;
        bench
    }

    async fn start_larder(&mut self) {
        let kubeconfig = self.testbed.node_kubeconfig().display().to_string();
        let node = self.testbed.node_name();
        let arguments = ["--kubeconfig", &kubeconfig, "--node-name", node, "--runtime-endpoint", "none"];
        let keys = self.folder.join("tls").display().to_string();
        let listen = ["--listen", &self.address, "--tls-directory", &keys];
        let daemon = Daemon::spawn_in(&self.folder, &[&arguments[..], &listen].concat(), &[]);
        daemon.wait_until_ready().await;
        self.daemon = Some(daemon);
    }

    /// Makes so many changes, one after the other.
    async fn change(&mut self, count: usize) {
        let mut writes = 0;
        while writes < count {
            for write in self.changes.plan() {
                self.changes.make(write).await;
                writes += 1;
            }
        }
    }

    /// Waits until each client has been told of all objects that it should see.
    async fn settle(&self) {
        self.reference.wait_for(self.changes.written()).await;
        let visible = self.reference.visible();
        for client in &self.clients {
            if let Err(why) = client.log.wait_for(&visible, LIMIT).await {
                let told = client.log.told();
                let last = &told[told.len().saturating_sub(20)..];
                panic!("{} does not see what there is:\n{why}\nThe last that it saw: {last:#?}", client.name);
            }
        }
    }

    /// Shows that each client holds what it should.
    async fn compare_stores(&self) {
        let visible = self.reference.visible();
        for client in &self.clients {
            let held = client.held().await;
            assert!(held == visible, "{} holds something else:\n{}", client.name, difference(&held, &visible));
        }
    }

    /// All clients, in front of larder's socket or its TLS listener.
    async fn start_clients(&self) -> Vec<Client> {
        let socket = self.folder.join("larder.sock");
        let protobuf = ["-accept", "application/vnd.kubernetes.protobuf,application/json"];
        vec![
            self.go("informers", "client-go", &[], &[]).await,
            self.go("list-informers", "client-go", &protobuf, &[("KUBE_FEATURE_WatchListClient", "false")]).await,
            self.go("controller-runtime", "controller-runtime", &[], &[]).await,
            Client::kube("kube", &socket, watcher::Config::default()).await,
            Client::kube("kube-streaming", &socket, watcher::Config::default().streaming_lists()).await,
            self.python().await,
        ]
    }

    async fn go(&self, name: &'static str, library: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Client {
        let recorder = Recorder::start(&self.folder.join("larder.sock"), name).await;
        let mut command = Command::new(Program::Clients.build().expect("the Go clients"));
        command.args(["-library", library, "-socket"]).arg(recorder.socket()).args(arguments);
        command.env_clear().envs(environment.iter().copied());
        Client::program(name, &self.folder, command, Some(recorder))
    }

    async fn python(&self) -> Client {
        let kubeconfig = self.folder.join("kubeconfig");
        let daemon = self.daemon.as_ref().expect("a daemon");
        daemon.larder(&["kubeconfig", "--output", &kubeconfig.display().to_string()]).await.ok();
        let mut command = Command::new(PythonProgram::Client.interpreter().expect("the Python client"));
        command.arg(PythonProgram::Client.folder().join("main.py")).arg("--kubeconfig").arg(kubeconfig).env_clear();
        Client::program("python", &self.folder, command, None)
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number")))
}

#[tokio::test]
async fn clients_see_each_state_once_and_in_order() {
    let mut bench = Bench::start().await;
    let mut writes = 0;
    while writes < CHANGES {
        for write in bench.changes.plan() {
            // Between the pod that refers to an object and the object itself there is no order. So what comes into view and
            // goes out of view is at rest then.
            if write.changes_references() {
                bench.settle().await;
            }
            bench.changes.make(write).await;
            if write.changes_references() {
                bench.settle().await;
            }
            writes += 1;
        }
    }
    bench.settle().await;
    bench.compare_stores().await;

    let (expected, _) = expected(&bench.reference.changes());
    for client in &bench.clients {
        let told = client.log.told();
        let mut seen: BTreeMap<Key, Vec<(How, State)>> = BTreeMap::new();
        for told in told {
            if let Told::Event(how, key, state) = told {
                seen.entry(key).or_default().push((how, state));
            }
        }
        assert_eq!(seen.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{}", client.name);
        for (key, expected) in &expected {
            let is_same = |(seen, expected): (&(How, State), &(How, State))| {
                let how = seen.0 == expected.0 || (seen.0 == How::Applied && expected.0 != How::Deleted);
                how && seen.1 == expected.1
            };
            let seen = &seen[key];
            let first = seen.iter().zip(expected).position(|pair| !is_same(pair));
            let at = first.unwrap_or_else(|| seen.len().min(expected.len()));
            assert!(
                first.is_none() && seen.len() == expected.len(),
                "{} sees other states of {key} from number {at} on:\n{:#?}\nexpected:\n{:#?}",
                client.name,
                seen.iter().skip(at).take(3).collect::<Vec<_>>(),
                expected.iter().skip(at).take(3).collect::<Vec<_>>(),
            );
        }
        for kind in KINDS {
            let lists = client.exchanges().iter().filter(|exchange| exchange.is_list_of(kind)).count();
            assert_eq!(lists, 1, "{} lists {kind} once", client.name);
        }
        check_exchanges(client);
    }
}

/// Shows what each client exchanged with larder.
fn check_exchanges(client: &Client) {
    let exchanges = client.exchanges();
    let is_of_objects = |exchange: &&Exchange| exchange.status == 200 && exchange.path.starts_with("/api/v1/");
    let answered = exchanges.iter().filter(is_of_objects);
    let types: BTreeSet<(&str, &str)> =
        answered.map(|exchange| (exchange.accept.as_str(), exchange.content_type.as_str())).collect();
    println!("{}: {types:?}", client.name);
    assert!(types.iter().all(|(_, content_type)| *content_type == "application/json"), "{}: {types:?}", client.name);
    let is_streaming = matches!(client.name, "informers" | "controller-runtime" | "kube-streaming");
    for kind in KINDS {
        let lists: Vec<_> = exchanges.iter().filter(|exchange| exchange.is_list_of(kind)).collect();
        assert!(!lists.is_empty(), "{} lists {kind}", client.name);
        let fits = |list: &&Exchange| list.sends_initial_events() == is_streaming;
        assert!(lists.iter().all(fits), "{} lists {kind} by {lists:#?}", client.name);
    }
}

/// Shows that the client saw the states of each object in the API server's order, and none again but in a new list or after
/// the object had gone out of view. Returns how many it saw.
fn check_order(client: &Client, changes: &[Change]) -> usize {
    let mut history: BTreeMap<&Key, Vec<(&State, bool)>> = BTreeMap::new();
    for change in changes {
        history.entry(&change.key).or_default().push((&change.state, change.is_gone));
    }
    let exchanges = client.exchanges();
    let count_lists = |kind: &str| exchanges.iter().filter(|exchange| exchange.is_list_of(kind)).count();
    // Informers do not say when a list begins. Each of their lists may bring each state once more.
    let announces = client.log.told().iter().any(|told| matches!(told, Told::ListBegins(_)));
    let mut latest: BTreeMap<Key, (usize, bool, usize)> = BTreeMap::new();
    let mut again: BTreeMap<Key, usize> = BTreeMap::new();
    let mut begun: BTreeMap<&str, usize> = BTreeMap::new();
    let mut count = 0;
    for told in client.log.told() {
        match told {
            Told::ListBegins(kind) => *begun.entry(kind).or_default() += 1,
            Told::Event(how, key, state) => {
                count += 1;
                let is_gone = how == How::Deleted;
                // An object that goes out of view has the state that it had.
                let at = history[&key].iter().position(|(known, gone)| **known == state && (is_gone || !gone));
                let at = at.unwrap_or_else(|| panic!("{}: {key} never was {state:?}", client.name));
                let list = begun.get(kind_of(&key)).copied().unwrap_or_default();
                if let Some((before, was_gone, in_list)) = latest.get(&key).copied() {
                    assert!(before <= at, "{}: {key} is {state:?} after a later state", client.name);
                    let is_again = before == at && was_gone == is_gone;
                    assert!(
                        !is_again || !announces || in_list < list,
                        "{}: {key} is {state:?} twice without a list between",
                        client.name
                    );
                    if is_again {
                        *again.entry(key.clone()).or_default() += 1;
                    }
                }
                latest.insert(key, (at, is_gone, list));
            }
            Told::ListEnds(_) | Told::Error(_) => {}
        }
    }
    for (key, again) in again {
        let lists = count_lists(kind_of(&key));
        assert!(again < lists, "{}: {key} has {again} states twice in {lists} lists", client.name);
    }
    count
}

#[tokio::test]
async fn clients_see_states_in_order_across_restarts_and_the_same_in_the_end() {
    let mut bench = Bench::start().await;
    let each = number("LARDER_RESTARTS").map_or(RESTARTS, |number| usize::try_from(number).expect("a small number"));
    let mut restarts: Vec<Restart> = [Restart::Larder, Restart::ApiServer].repeat(each);
    restarts.shuffle(bench.changes.random());
    let part = CHANGES / (restarts.len() + 1);
    for restart in restarts {
        bench.change(part).await;
        match restart {
            Restart::Larder => {
                let daemon = bench.daemon.take().expect("a daemon");
                if bench.changes.random().random_bool(0.5) {
                    daemon.terminate();
                } else {
                    // This kills it.
                    drop(daemon);
                }
                // Some changes happen while there is none.
                bench.change(part / 4).await;
                bench.start_larder().await;
            }
            Restart::ApiServer => {
                // What the API server did not tell before its end would be lost to the reference alone.
                bench.reference.wait_for(bench.changes.written()).await;
                bench.testbed.api_server().kill().expect("killed");
                bench.testbed.api_server().start().expect("started");
                bench.testbed.wait_for_api_server().await.expect("API server");
            }
        }
        if bench.changes.random().random_bool(0.5) {
            bench.settle().await;
        }
    }
    bench.change(part).await;
    bench.settle().await;
    bench.compare_stores().await;
    let changes = bench.reference.changes();
    for client in &bench.clients {
        let seen = check_order(client, &changes);
        println!("{}: {seen} events of {} changes", client.name, changes.len());
        check_exchanges(client);
    }
}

#[derive(Clone, Copy)]
enum Restart {
    Larder,
    ApiServer,
}
