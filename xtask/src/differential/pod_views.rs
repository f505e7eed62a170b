//! Pods as their node knows them: to larder, and to the kubelet's own functions.
//!
//! Each pod goes through two moments. Of the first, the kubelet makes the status that the API server has. Since then, containers have
//! started, ended, been restarted, or been removed. Of the second moment, both sides make the status anew.

use super::oracle;
use anyhow::{Context as _, Result, bail, ensure};
use larder_pleg::{ContainerId, ContainerState, ContainerStatus, PodStatus};
use larder_pods::{Seen, bring_up_to_date};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// Differences that are shown in full.
const SHOWN: usize = 5;
/// The fields of a container's status that follow from the runtime.
const OF_CONTAINER: [&str; 8] =
    ["state", "lastState", "ready", "started", "restartCount", "image", "imageID", "containerID"];
const LISTS: [&str; 3] = ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"];

/// What came of the pods.
pub(super) struct Agreement {
    /// How many of them larder has brought up to date.
    pub(super) changed: usize,
}

/// Compares so many random pods.
pub(super) fn check(program: &Path, seed: u64, count: usize) -> Result<Agreement> {
    let mut random = Random { random: Xoshiro256PlusPlus::seed_from_u64(seed), time: 1_700_000_000_000_000_000 };
    let mut pods: Vec<Pod> = (0..count).map(|_| random.pod()).collect();
    let before = answers(program, &pods)?;
    for (pod, status) in pods.iter_mut().zip(before) {
        pod.object["status"] = status;
        random.probe(&mut pod.object);
        random.go_on(pod);
    }
    let after = answers(program, &pods)?;
    let (mut changed, mut differences, mut phases) = (0, 0, BTreeMap::<String, usize>::new());
    for (pod, right) in pods.iter().zip(&after) {
        let ours = pod.brought(i64::MAX)?;
        *phases.entry(right["phase"].to_string()).or_default() += 1;
        let difference = match &ours {
            Some(ours) => {
                changed += 1;
                difference(&ours["status"], right, true)
            }
            None => difference(&pod.object["status"], right, false),
        };
        if let Some(why) = difference {
            differences += 1;
            if differences <= SHOWN {
                println!("\n{}\nthe runtime has {}\nlarder differs: {why}", pod.object, json!(pod.runtime()));
            }
        }
    }
    ensure!(differences == 0, "{differences} of {count} pods differ, seed {seed}");
    // Where hardly any changes, the comparison shows nothing.
    ensure!(changed * 2 >= count, "only {changed} of {count} pods changed");
    ensure!(count < 500 || phases.len() == 4, "the phases are only {phases:?}");
    Ok(Agreement { changed })
}

/// The kubelet's status of each pod.
fn answers(program: &Path, pods: &[Pod]) -> Result<Vec<Value>> {
    let lines: Vec<String> = pods.iter().map(|pod| pod.line().to_string()).collect();
    let answers = oracle::answer_lines(program, "pods", &lines)?;
    answers.iter().map(|line| serde_json::from_str(line).with_context(|| format!("the oracle's {line:?}"))).collect()
}

/// The first difference. Of a pod in which nothing has changed, larder does not compute the phase and the conditions.
fn difference(ours: &Value, right: &Value, is_changed: bool) -> Option<String> {
    for list in LISTS {
        let names = |status: &Value| -> Vec<Value> {
            status[list].as_array().into_iter().flatten().map(|container| container["name"].clone()).collect()
        };
        if names(ours) != names(right) {
            return Some(format!("{list}: {:?} and not {:?}", names(ours), names(right)));
        }
        for (ours, right) in
            ours[list].as_array().into_iter().flatten().zip(right[list].as_array().into_iter().flatten())
        {
            for field in OF_CONTAINER {
                let of_ephemeral = list == LISTS[2] && matches!(field, "ready" | "started");
                if ours[field] != right[field] && !of_ephemeral {
                    return Some(format!("{list}, {field}: {ours} and not {right}"));
                }
            }
        }
    }
    if !is_changed {
        return None;
    }
    for field in ["phase", "reason", "message"] {
        if ours[field] != right[field] {
            return Some(format!("{field}: {} and not {}", ours[field], right[field]));
        }
    }
    let conditions = |status: &Value| -> BTreeMap<String, [Value; 4]> {
        let own = status["conditions"].as_array().into_iter().flatten().map(|condition| {
            let fields = ["status", "reason", "message", "observedGeneration"];
            (condition["type"].to_string(), fields.map(|field| condition[field].clone()))
        });
        own.collect()
    };
    let (ours, right) = (conditions(ours), conditions(right));
    right
        .iter()
        .find(|(name, condition)| ours.get(*name) != Some(*condition))
        .map(|(name, condition)| format!("{name}: {:?} and not {condition:?}", ours.get(name)))
}

/// A pod, and the history of its containers.
struct Pod {
    object: Value,
    containers: Vec<Container>,
    sandbox: u32,
}

struct Container {
    name: String,
    lives: Vec<ContainerStatus>,
    /// The runtime has removed those before.
    kept_from: usize,
}

impl Pod {
    /// The containers that the runtime has, newest first.
    fn runtime(&self) -> Vec<ContainerStatus> {
        let kept = self.containers.iter().flat_map(|container| &container.lives[container.kept_from..]);
        let mut kept: Vec<_> = kept.cloned().collect();
        kept.sort_by_key(|life| std::cmp::Reverse(life.created_at));
        kept
    }

    fn active(&self) -> String {
        format!("s{}", self.sandbox)
    }

    /// The question as the oracle takes it.
    fn line(&self) -> Value {
        let containers = self.runtime().into_iter().map(|life| {
            json!({"id": life.id.id, "name": life.name, "sandbox": life.sandbox_id, "state": life.state.as_str(), "createdAt": life.created_at,
                "startedAt": life.started_at, "finishedAt": life.finished_at, "exitCode": life.exit_code, "reason": life.reason,
                "message": life.message, "restartCount": life.restart_count, "image": life.image, "imageRef": life.image_ref})
        });
        json!({"pod": self.object, "active": self.active(), "containers": containers.collect::<Vec<_>>()})
    }

    /// What larder makes of it.
    fn brought(&self, as_of: i64) -> Result<Option<Value>> {
        let mut status = PodStatus::new("u".into(), "shop", "web");
        (status.active_sandbox_id, status.containers) = (Some(self.active()), self.runtime());
        let json = self.object.to_string();
        let brought = bring_up_to_date(json.as_bytes(), &Seen { status: Some(&status), as_of })?;
        if brought.is_undecided {
            bail!("larder is undecided about {json}");
        }
        brought.json.map(|json| serde_json::from_slice(&json).context("parse larder's pod")).transpose()
    }
}

struct Random {
    random: Xoshiro256PlusPlus,
    /// Nanoseconds since the Unix epoch.
    time: i64,
}

impl Random {
    fn percent(&mut self, percent: u32) -> bool {
        self.random.random_range(0..100) < percent
    }

    fn up_to(&mut self, most: usize) -> usize {
        self.random.random_range(0..=most)
    }

    fn pick<T: Clone, const N: usize>(&mut self, from: &[T; N]) -> T {
        from[self.random.random_range(0..N)].clone()
    }

    fn later(&mut self) -> i64 {
        self.time += self.random.random_range(1_000_000..5_000_000_000);
        self.time
    }

    /// A pod without a status, some of whose containers have begun to live.
    fn pod(&mut self) -> Pod {
        let mut spec = json!({"restartPolicy": self.pick(&["Always", "OnFailure", "Never"])});
        let mut containers = Vec::new();
        for (list, prefix, most) in
            [("initContainers", "i", 2), ("containers", "c", 2), ("ephemeralContainers", "e", 1)]
        {
            let least = usize::from(list == "containers");
            let names: Vec<String> = (0..least + self.up_to(most)).map(|at| format!("{prefix}{}", 9 - at)).collect();
            if !names.is_empty() {
                spec[list] = names.iter().map(|name| self.container(name, list)).collect();
            }
            containers.extend(names.into_iter().map(|name| Container { name, lives: Vec::new(), kept_from: 0 }));
        }
        let mut metadata = json!({"namespace": "shop", "name": "web", "uid": "u", "generation": 3});
        if self.percent(20) {
            metadata["deletionTimestamp"] = "2026-01-02T03:04:05Z".into();
        }
        if self.percent(20) {
            let source = self.pick(&["api", "file"]);
            metadata["annotations"] = json!({"kubernetes.io/config.source": source});
        }
        if self.percent(20) {
            spec["readinessGates"] = json!([{"conditionType": "example.com/gate"}]);
        }
        let object = json!({"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": spec, "status": {}});
        let mut pod = Pod { object, containers, sandbox: 0 };
        if self.percent(80) {
            self.live(&mut pod, false);
        }
        pod
    }

    fn container(&mut self, name: &str, list: &str) -> Value {
        let mut container = Map::from_iter([("name".to_owned(), name.into()), ("image".to_owned(), "app:1".into())]);
        let mut put = |name: &str, value: Value| container.insert(name.to_owned(), value);
        if list == "initContainers" && self.percent(40) {
            put("restartPolicy", "Always".into());
        } else if list != "ephemeralContainers" && self.percent(20) {
            put("restartPolicy", self.pick(&["OnFailure", "Never"]).into());
            if self.percent(50) {
                let codes = json!({"operator": self.pick(&["In", "NotIn"]), "values": [self.exit_code(), 42]});
                put("restartPolicyRules", json!([{"action": "Restart", "exitCodes": codes}]));
            }
        }
        for probe in ["readinessProbe", "startupProbe"] {
            if list != "ephemeralContainers" && self.percent(30) {
                put(probe, json!({"tcpSocket": {"port": 80}}));
            }
        }
        Value::Object(container)
    }

    fn exit_code(&mut self) -> i32 {
        self.pick(&[0, 0, 1, 3, 137])
    }

    /// Sets what probes and controllers have said of the pod since.
    fn probe(&mut self, pod: &mut Value) {
        for list in ["containerStatuses", "initContainerStatuses"] {
            for status in pod["status"][list].as_array_mut().into_iter().flatten() {
                if status["state"]["running"].is_object() && list == "containerStatuses" {
                    let started = self.percent(80);
                    (status["started"], status["ready"]) = (started.into(), (started && self.percent(80)).into());
                }
            }
        }
        if let Some(conditions) = pod["status"]["conditions"].as_array_mut()
            && self.percent(50)
        {
            let status = self.pick(&["True", "False"]);
            conditions.push(json!({"type": "example.com/gate", "status": status, "observedGeneration": 2}));
        }
        if self.percent(10) {
            pod["status"]["reason"] = "Because".into();
        }
    }

    /// Lets time pass.
    fn go_on(&mut self, pod: &mut Pod) {
        for _ in 0..self.up_to(2) {
            self.live(pod, true);
        }
        for container in &mut pod.containers {
            // Of a container that the API server has as created, and that is gone, larder keeps the API server's status.
            let status = pod_status(&pod.object, &container.name);
            let is_created =
                |status: &Value| status["containerID"].is_string() && status["state"]["waiting"].is_object();
            let is_seen = container.lives.last().is_some_and(|life| life.state != ContainerState::Created)
                && !status.is_some_and(is_created);
            container.kept_from = match self.up_to(9) {
                0 if is_seen => container.lives.len(),
                1 | 2 => container.lives.len().saturating_sub(1),
                _ => container.kept_from,
            };
            let was_running = container.lives.last().is_some_and(|life| life.state == ContainerState::Running);
            if was_running
                && container.lives.len() == 1
                && self.percent(5)
                && is_running(pod_status(&pod.object, &container.name), container)
            {
                let life = &mut container.lives[0];
                (life.state, life.started_at) = (ContainerState::Unknown, 0);
            }
        }
    }

    /// Some containers start, end, or are restarted, perhaps in a new sandbox.
    fn live(&mut self, pod: &mut Pod, may_restart: bool) {
        if may_restart && self.percent(5) {
            pod.sandbox += 1;
        }
        let sandbox = pod.active();
        for container in &mut pod.containers {
            for _ in 0..self.up_to(2) {
                self.step(container, &sandbox);
            }
        }
    }

    fn step(&mut self, container: &mut Container, sandbox: &str) {
        let (at, code) = (self.later(), self.exit_code());
        match container.lives.last_mut() {
            Some(life) if life.state == ContainerState::Created => {
                (life.state, life.started_at) = (ContainerState::Running, at);
            }
            Some(life) if life.state == ContainerState::Running => {
                (life.state, life.finished_at, life.exit_code) = (ContainerState::Exited, at, code);
                life.reason = String::from(if code == 0 { "Completed" } else { "Error" });
                life.message = String::from(self.pick(&["", "out \"of\" luck"]));
            }
            last => {
                let restart_count = last.map_or(0, |life| life.restart_count + 1);
                container.lives.push(ContainerStatus {
                    id: ContainerId::new("containerd", format!("{}-{restart_count}", container.name)),
                    name: container.name.clone(),
                    sandbox_id: sandbox.to_owned(),
                    state: ContainerState::Created,
                    created_at: at,
                    restart_count,
                    image: "registry.example/app:1".to_owned(),
                    image_ref: format!("registry.example/app@sha256:{}", self.up_to(9)),
                    ..ContainerStatus::default()
                });
            }
        }
    }
}

/// The API server's status of a container.
fn pod_status<'p>(pod: &'p Value, name: &str) -> Option<&'p Value> {
    let all = LISTS.into_iter().flat_map(|list| pod["status"][list].as_array().into_iter().flatten());
    all.into_iter().find(|status| status["name"] == name)
}

/// Whether the API server has the newest life of a container as running.
fn is_running(status: Option<&Value>, container: &Container) -> bool {
    let newest = container.lives.last().map(|life| life.id.to_string());
    status.is_some_and(|status| {
        status["state"]["running"].is_object() && status["containerID"].as_str() == newest.as_deref()
    })
}
