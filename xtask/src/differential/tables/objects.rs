//! Random objects of the kinds that have tables: as an API server sends them, and odd ones.

use jiff::{SignedDuration, Timestamp};
use larder_resource::Kind;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Map, Value, json};

/// The time at which ages are told. It is no whole second, so that a wrong rounding shows.
pub(super) const NOW: &str = "2031-06-01T12:00:00.25Z";

/// The values of Secrets, which no metadata may show.
pub(super) const SECRET_VALUE: &str = "c2VjcmV0LXZhbHVl";

/// A field that upstream's types do not have.
pub(super) const UNKNOWN_FIELD: &str = "larderUnknown";

/// Ages in seconds at which the words for them change.
const AGES: [i64; 20] = [
    0,
    1,
    2,
    59,
    60,
    119,
    120,
    180,
    600,
    10_800,
    28_800,
    86_400,
    172_800,
    176_400,
    691_200,
    31_536_000,
    63_072_000,
    63_158_400,
    252_288_000,
    9_300_000_000,
];

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// Reasons of containers and pods, among them those that printers treat in their own way.
const REASONS: [&str; 14] = [
    "",
    "Completed",
    "Completed",
    "Error",
    "OOMKilled",
    "CrashLoopBackOff",
    "ImagePullBackOff",
    "PodInitializing",
    "ContainerCreating",
    "NodeLost",
    "NodeLost",
    "SchedulingGated",
    "Evicted",
    "\u{e9} <&> \"\n\u{1f980}",
];

/// What may stand in the place of a value.
fn odd_values() -> [Value; 16] {
    [
        json!(null),
        json!(0),
        json!(1),
        json!(-1),
        json!(1.5),
        json!(2_147_483_648_i64),
        json!(18_446_744_073_709_551_615_u64),
        json!(true),
        json!(false),
        json!(""),
        json!("True"),
        json!("2031-13-01T00:00:00Z"),
        json!([]),
        json!([null]),
        json!({}),
        json!({"a": null}),
    ]
}

/// A source of random objects.
pub(super) struct Objects {
    random: Xoshiro256PlusPlus,
    now: Timestamp,
}

impl Objects {
    pub(super) fn new(seed: u64) -> Self {
        let now = NOW.parse().unwrap_or(Timestamp::UNIX_EPOCH);
        Self { random: Xoshiro256PlusPlus::seed_from_u64(seed), now }
    }

    pub(super) fn percent(&mut self, percent: u32) -> bool {
        self.random.random_range(0..100) < percent
    }

    pub(super) fn up_to(&mut self, most: usize) -> usize {
        self.random.random_range(0..=most)
    }

    pub(super) fn pick<T: Clone, const N: usize>(&mut self, from: &[T; N]) -> T {
        from[self.random.random_range(0..N)].clone()
    }

    pub(super) fn version(&mut self) -> String {
        if self.percent(10) { String::new() } else { self.up_to(1_000_000).to_string() }
    }

    /// An object of a bookmark.
    pub(super) fn bookmark(&mut self, kind: Kind) -> Value {
        let mut object =
            json!({"kind": kind.as_str(), "apiVersion": "v1", "metadata": {"resourceVersion": self.version()}});
        if self.percent(50) {
            object["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        object
    }

    /// An object; one in twelve has a value of another type somewhere.
    pub(super) fn object(&mut self, kind: Kind) -> Value {
        let mut object = match kind {
            Kind::Secret => self.secret(),
            Kind::ConfigMap => self.config_map(),
            Kind::Pod => self.pod(),
            Kind::Node => self.node(),
            Kind::Namespace => self.namespace(),
        };
        self.field(&mut object, 95, "metadata", Self::metadata);
        self.field(&mut object, 5, UNKNOWN_FIELD, |_| json!({"a": [1e300, null]}));
        if self.percent(8) {
            let mut at = self.random.random_range(0..values(&object));
            let odd = self.pick(&odd_values());
            replace(&mut object, &mut at, &odd);
        }
        object["kind"] = kind.as_str().into();
        object["apiVersion"] = "v1".into();
        object
    }

    /// Sets a field in so many of a hundred cases, now and then to `null`.
    fn field(&mut self, object: &mut Value, percent: u32, name: &str, value: impl FnOnce(&mut Self) -> Value) {
        if self.percent(percent) {
            object[name] = if self.percent(3) { Value::Null } else { value(self) };
        }
    }

    fn several(&mut self, most: usize, mut one: impl FnMut(&mut Self) -> Value) -> Value {
        (0..self.up_to(most)).map(|_| if self.percent(1) { Value::Null } else { one(self) }).collect()
    }

    fn word<const N: usize>(&mut self, from: [&str; N]) -> Value {
        self.pick(&from).into()
    }

    /// A time near one at which the words for ages change; now and then in the future, with a fraction, or not set.
    fn time(&mut self) -> Value {
        if self.percent(8) {
            return "0001-01-01T00:00:00Z".into();
        }
        let age = if self.percent(60) {
            self.pick(&AGES) + self.random.random_range(-2..=2)
        } else {
            let most = self.pick(&[200, 4_000, 40_000, 1_000_000, 400_000_000]);
            self.random.random_range(-10..most)
        };
        let nanos = if self.percent(30) { self.random.random_range(0..1_000_000_000) } else { 250_000_000 };
        let then = self.now - SignedDuration::new(age, nanos);
        let then = if self.percent(80) { then.round(jiff::Unit::Second).unwrap_or(then) } else { then };
        if self.percent(5) {
            return then.to_string().replace('Z', "+00:00").into();
        }
        then.to_string().into()
    }

    fn map<const N: usize, const M: usize>(&mut self, keys: [&str; N], values: [&str; M]) -> Value {
        let mut map = Map::new();
        for _ in 0..self.up_to(4) {
            let value = if self.percent(2) { Value::Null } else { self.word(values) };
            map.insert(self.pick(&keys).to_owned(), value);
        }
        Value::Object(map)
    }

    fn metadata(&mut self) -> Value {
        let mut metadata = json!({});
        self.field(&mut metadata, 97, "name", |this| this.word(["web", "web-0", "\u{e9}\"<", "", "a.b"]));
        self.field(&mut metadata, 60, "namespace", |this| this.word(NAMES));
        self.field(&mut metadata, 60, "uid", |_| "0b5e7e0c-2f0f-4d5e-9a61-1d7b54c7a7f5".into());
        self.field(&mut metadata, 80, "resourceVersion", |this| this.version().into());
        self.field(&mut metadata, 30, "generation", |this| this.pick(&[1, 9_007_199_254_740_993, i64::MAX, -1]).into());
        self.field(&mut metadata, 95, "creationTimestamp", Self::time);
        self.field(&mut metadata, 20, "deletionTimestamp", Self::time);
        self.field(&mut metadata, 20, "deletionGracePeriodSeconds", |this| this.pick(&[0, 30]).into());
        self.field(&mut metadata, 50, "labels", |this| {
            let keys = [
                "app",
                "node-role.kubernetes.io/worker",
                "node-role.kubernetes.io/control-plane",
                "node-role.kubernetes.io/",
                "node-role.kubernetes.io/\u{e9}",
                "kubernetes.io/role",
                "kubernetes.io/metadata.name",
            ];
            this.map(keys, ["", "web", "edge", "worker"])
        });
        self.field(&mut metadata, 50, "annotations", |this| {
            let mut annotations = this.map(["a", "b", "k8s.io/initial-events-end"], ["", "true", "{}"]);
            this.field(&mut annotations, 40, "kubectl.kubernetes.io/last-applied-configuration", |_| {
                SECRET_VALUE.into()
            });
            annotations
        });
        self.field(&mut metadata, 20, "finalizers", |this| this.pick(&[json!([]), json!(["example.com/a"])]));
        self.field(&mut metadata, 20, "ownerReferences", |this| {
            json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": this.percent(50)}])
        });
        self.field(&mut metadata, 30, "managedFields", |this| {
            json!([{"manager": "kubectl", "operation": "Update", "apiVersion": "v1", "time": this.time(), "fieldsType": "FieldsV1",
                "fieldsV1": {"f:data": {".": {}, format!("f:{SECRET_VALUE}"): {}}}}])
        });
        self.field(&mut metadata, 10, UNKNOWN_FIELD, |_| json!(1e300));
        metadata
    }

    fn secret(&mut self) -> Value {
        let mut secret = json!({});
        self.field(&mut secret, 85, "type", |this| this.word(["Opaque", "kubernetes.io/tls", "", "x y"]));
        self.field(&mut secret, 85, "data", |this| this.map(NAMES, ["", SECRET_VALUE]));
        self.field(&mut secret, 5, "stringData", |this| this.map(NAMES, ["", SECRET_VALUE]));
        self.field(&mut secret, 20, "immutable", |_| true.into());
        secret
    }

    fn config_map(&mut self) -> Value {
        let mut map = json!({});
        self.field(&mut map, 80, "data", |this| this.map(NAMES, ["", "x"]));
        self.field(&mut map, 40, "binaryData", |this| this.map(NAMES, ["", "AAEC"]));
        map
    }

    fn namespace(&mut self) -> Value {
        let mut namespace = json!({});
        self.field(&mut namespace, 80, "spec", |_| json!({"finalizers": ["kubernetes"]}));
        self.field(&mut namespace, 80, "status", |this| {
            let mut status = json!({});
            this.field(&mut status, 90, "phase", |this| this.word(["Active", "Terminating", "", "Odd"]));
            status
        });
        namespace
    }

    fn node(&mut self) -> Value {
        let mut node = json!({});
        self.field(&mut node, 90, "spec", |this| {
            let mut spec = json!({});
            this.field(&mut spec, 40, "unschedulable", |this| this.percent(70).into());
            spec
        });
        self.field(&mut node, 90, "status", |this| {
            let mut status = json!({});
            this.field(&mut status, 90, "conditions", |this| {
                this.several(3, |this| this.condition(["Ready", "Ready", "DiskPressure", ""], ["KubeletReady", ""]))
            });
            this.field(&mut status, 90, "addresses", |this| {
                this.several(4, |this| {
                    let mut address = json!({});
                    let types = ["InternalIP", "ExternalIP", "Hostname", "InternalDNS", ""];
                    this.field(&mut address, 95, "type", |this| this.word(types));
                    this.field(&mut address, 95, "address", |this| this.word(["10.0.0.1", "fd00::1", ""]));
                    address
                })
            });
            this.field(&mut status, 90, "nodeInfo", |this| {
                let mut info = json!({});
                for name in ["kubeletVersion", "osImage", "kernelVersion", "containerRuntimeVersion", "architecture"] {
                    this.field(&mut info, 85, name, |this| this.word(["", "v1.37.2", "containerd://2.4.0", "a b (c)"]));
                }
                info
            });
            status
        });
        node
    }

    fn condition<const N: usize, const M: usize>(&mut self, types: [&str; N], reasons: [&str; M]) -> Value {
        let mut condition = json!({});
        self.field(&mut condition, 95, "type", |this| this.word(types));
        self.field(&mut condition, 95, "status", |this| this.word(["True", "True", "False", "Unknown", ""]));
        self.field(&mut condition, 40, "reason", |this| this.word(reasons));
        condition
    }

    fn pod(&mut self) -> Value {
        let mut pod = json!({});
        self.field(&mut pod, 95, "spec", |this| {
            let mut spec = json!({});
            this.field(&mut spec, 95, "containers", |this| this.several(3, Self::container));
            this.field(&mut spec, 60, "initContainers", |this| this.several(4, Self::container));
            this.field(&mut spec, 70, "nodeName", |this| this.word(["n1", "n2", ""]));
            this.field(&mut spec, 40, "readinessGates", |this| {
                this.several(3, |this| {
                    this.pick(&[json!({"conditionType": "gate"}), json!({"conditionType": "Ready"}), json!({})])
                })
            });
            spec
        });
        self.field(&mut pod, 95, "status", |this| {
            let mut status = json!({});
            let phases = ["Pending", "Running", "Running", "Succeeded", "Failed", "Unknown", ""];
            this.field(&mut status, 95, "phase", |this| this.word(phases));
            this.field(&mut status, 20, "reason", |this| this.word(REASONS));
            this.field(&mut status, 60, "conditions", |this| {
                let types = ["Ready", "Initialized", "PodScheduled", "gate", ""];
                this.several(5, |this| this.condition(types, ["SchedulingGated", "x"]))
            });
            this.field(&mut status, 60, "podIP", |this| this.word(["10.0.0.1", "10.0.0.2", ""]));
            this.field(&mut status, 60, "podIPs", |this| {
                this.several(2, |this| {
                    this.pick(&[json!({"ip": "10.0.0.1"}), json!({"ip": "fd00::1"}), json!({"ip": ""}), json!({})])
                })
            });
            this.field(&mut status, 30, "nominatedNodeName", |this| this.word(["n3", ""]));
            this.field(&mut status, 55, "initContainerStatuses", |this| this.several(4, Self::container_status));
            this.field(&mut status, 90, "containerStatuses", |this| this.several(3, Self::container_status));
            status
        });
        pod
    }

    fn container(&mut self) -> Value {
        let mut container = json!({});
        self.field(&mut container, 95, "name", |this| this.word(NAMES));
        self.field(&mut container, 50, "restartPolicy", |this| this.word(["Always", "Always", "OnFailure", ""]));
        container
    }

    fn container_status(&mut self) -> Value {
        let mut status = json!({});
        self.field(&mut status, 95, "name", |this| this.word(NAMES));
        self.field(&mut status, 90, "restartCount", |this| this.pick(&[0, 0, 1, 12, i32::MAX, -1]).into());
        self.field(&mut status, 90, "ready", |this| this.percent(60).into());
        self.field(&mut status, 60, "started", |this| this.percent(70).into());
        self.field(&mut status, 90, "state", Self::state);
        self.field(&mut status, 50, "lastState", Self::state);
        status
    }

    /// The state of a container; now and then none, or several at once.
    fn state(&mut self) -> Value {
        let mut state = json!({});
        for _ in 0..self.pick(&[0, 1, 1, 1, 1, 1, 1, 2]) {
            match self.up_to(2) {
                0 => self.field(&mut state, 100, "running", |this| json!({"startedAt": this.time()})),
                1 => self.field(&mut state, 100, "waiting", |this| {
                    let mut waiting = json!({});
                    this.field(&mut waiting, 90, "reason", |this| this.word(REASONS));
                    waiting
                }),
                _ => self.field(&mut state, 100, "terminated", |this| {
                    let mut end = json!({});
                    this.field(&mut end, 95, "exitCode", |this| this.pick(&[0, 0, 0, 1, 137, -1]).into());
                    this.field(&mut end, 40, "signal", |this| this.pick(&[0, 9, 15]).into());
                    this.field(&mut end, 70, "reason", |this| this.word(REASONS));
                    this.field(&mut end, 90, "finishedAt", Self::time);
                    end
                }),
            }
        }
        state
    }
}

/// How many values are in this one, itself included.
fn values(value: &Value) -> usize {
    1 + match value {
        Value::Array(elements) => elements.iter().map(values).sum(),
        Value::Object(fields) => fields.values().map(values).sum(),
        _ => 0,
    }
}

/// Replaces the value with this number, but for the outermost.
fn replace(value: &mut Value, at: &mut usize, odd: &Value) {
    let inner: Vec<&mut Value> = match value {
        Value::Array(elements) => elements.iter_mut().collect(),
        Value::Object(fields) => fields.values_mut().collect(),
        _ => return,
    };
    for value in inner {
        if *at == 1 {
            *value = odd.clone();
        }
        *at = at.saturating_sub(1);
        if *at == 0 {
            return;
        }
        replace(value, at, odd);
        if *at == 0 {
            return;
        }
    }
}
