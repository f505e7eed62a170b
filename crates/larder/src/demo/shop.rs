//! What runs in the demo: a small shop, whose configuration changes every so often.

use anyhow::Context as _;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use larder_testkit::api_server::{Kind, ObjectStore};
use larder_testkit::cluster::{Behaviour, Cluster};
use larder_testkit::objects::{PodBuilder, config_map, pod, secret};
use std::time::Duration;

/// The namespace of the shop.
pub(super) const NAMESPACE: &str = "shop";
/// How many pods it begins with.
pub(super) const PODS: usize = 5;
/// The time between two changes.
pub(super) const CHANGES: Duration = Duration::from_secs(12);

/// A change that was made to an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Changed {
    pub(super) kind: Kind,
    pub(super) name: &'static str,
    pub(super) resource_version: String,
    /// What it was, in words.
    pub(super) what: String,
}

/// The shop, and what has been changed in it.
#[derive(Debug, Default)]
pub(super) struct Shop {
    changes: u32,
    passwords: u32,
    reports: u32,
}

impl Shop {
    /// Creates the shop's objects and pods.
    pub(super) fn open(cluster: &Cluster) -> anyhow::Result<Self> {
        let store = cluster.api().store();
        let registry = r#"{"auths":{"registry.shop.example":{"auth":"c2hvcDpzaW11bGF0ZWQ="}}}"#;
        let mut pull = secret(NAMESPACE, "registry", &[(".dockerconfigjson", registry)]);
        pull.type_ = Some("kubernetes.io/dockerconfigjson".into());
        for secret in [
            pull,
            secret(NAMESPACE, "web-tls", &[("tls.crt", "simulated certificate"), ("tls.key", "simulated key")]),
            secret(NAMESPACE, "api-login", &[("user", "shop"), ("password", "simulated-0")]),
            secret(NAMESPACE, "queue-token", &[("TOKEN", "simulated")]),
            secret("finance", "payroll", &[("key", "no pod of this node refers to it")]),
        ] {
            store.create(secret)?;
        }
        for map in [
            config_map(NAMESPACE, "web-settings", &[("colour", "green"), ("banner", "Welcome")]),
            config_map(NAMESPACE, "api-settings", &[("LOG_LEVEL", "info"), ("WORKERS", "4")]),
            config_map(NAMESPACE, "worker-settings", &[("batch", "100")]),
        ] {
            store.create(map)?;
        }
        let pods = [
            runs("web").secret_volume("web-tls").config_map_volume("web-settings").image_pull_secret("registry"),
            runs("api").env_secret("api-login", "password").env_from_config_map("api-settings"),
            runs("worker").env_from_secret("queue-token").env_config_map("worker-settings", "batch"),
            exits("flaky", 3, 6..=10).config_map_volume("worker-settings"),
        ];
        for pod in pods {
            store.create(pod.node(cluster.node()).build())?;
        }
        let mut shop = Self::default();
        shop.report(cluster)?;
        Ok(shop)
    }

    /// Makes the next of the changes that come by themselves.
    pub(super) fn change(&mut self, cluster: &Cluster) -> anyhow::Result<Option<Changed>> {
        self.changes += 1;
        match self.changes % 3 {
            1 => self.repaint(cluster.api().store()).map(Some),
            2 => self.rotate(cluster).map(Some),
            _ => self.report(cluster).map(|()| None),
        }
    }

    /// Gives the Secret of the pod `api` another password.
    pub(super) fn rotate(&mut self, cluster: &Cluster) -> anyhow::Result<Changed> {
        self.passwords += 1;
        let password = format!("simulated-{}", self.passwords);
        let changed = cluster.api().store().modify(NAMESPACE, "api-login", |secret: &mut Secret| {
            secret.data.get_or_insert_default().insert("password".into(), ByteString(password.into_bytes()));
        })?;
        Ok(Changed {
            kind: Kind::Secret,
            name: "api-login",
            resource_version: changed.metadata.resource_version.unwrap_or_default(),
            what: "its password has been rotated".into(),
        })
    }

    fn repaint(&self, store: &ObjectStore) -> anyhow::Result<Changed> {
        let colour = ["red", "blue", "green"][self.changes as usize / 3 % 3];
        let changed = store.modify(NAMESPACE, "web-settings", |map: &mut ConfigMap| {
            map.data.get_or_insert_default().insert("colour".into(), colour.into());
        })?;
        Ok(Changed {
            kind: Kind::ConfigMap,
            name: "web-settings",
            resource_version: changed.metadata.resource_version.unwrap_or_default(),
            what: format!("its colour is now {colour}"),
        })
    }

    /// Creates another job, and deletes the one before.
    fn report(&mut self, cluster: &Cluster) -> anyhow::Result<()> {
        if self.reports > 0 {
            let before = format!("report-{}", self.reports);
            cluster.delete_pod(NAMESPACE, &before).context("cannot delete the previous report")?;
        }
        self.reports += 1;
        let job = exits(&format!("report-{}", self.reports), 0, 5..=8);
        let job = job.restart_policy("Never").env_from_config_map("api-settings");
        cluster.api().store().create(job.node(cluster.node()).build())?;
        Ok(())
    }
}

/// A pod of one container, which bears the name of its app.
fn runs(name: &str) -> PodBuilder {
    let app = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-');
    pod(NAMESPACE, name).label("app", app).container(app, &format!("registry.shop.example/{app}:2"))
}

/// The same, and its container ends with a code after so many seconds.
fn exits(name: &str, code: i32, seconds: std::ops::RangeInclusive<u64>) -> PodBuilder {
    let after = Duration::from_secs(*seconds.start())..=Duration::from_secs(*seconds.end());
    let app = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-');
    runs(name).annotation(&Behaviour::annotation(app), &Behaviour::exits(code, after).to_string())
}
