//! Short ways to write the objects that tests and the demo need.
//!
//! ```
//! use larder_testkit::objects::{pod, secret};
//!
//! let web = pod("shop", "web-0").node("n1").container("web", "shop/web:2").secret_volume("tls").env_secret("login", "password");
//! let web = web.build();
//! assert_eq!(web.spec.unwrap_or_default().containers[0].image.as_deref(), Some("shop/web:2"));
//! assert_eq!(secret("shop", "tls", &[("key", "k")]).type_.as_deref(), Some("Opaque"));
//! ```

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{
    ConfigMap, ConfigMapEnvSource, ConfigMapKeySelector, ConfigMapVolumeSource, Container, EnvFromSource, EnvVar,
    EnvVarSource, LocalObjectReference, Namespace, NamespaceSpec, NamespaceStatus, Node, Pod, PodSpec, PodStatus,
    Secret, SecretEnvSource, SecretKeySelector, SecretVolumeSource, Volume,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

fn metadata(namespace: &str, name: &str) -> ObjectMeta {
    let namespace = (!namespace.is_empty()).then(|| namespace.to_owned());
    ObjectMeta { name: Some(name.to_owned()), namespace, ..ObjectMeta::default() }
}

/// A Secret of type `Opaque`.
pub fn secret(namespace: &str, name: &str, data: &[(&str, &str)]) -> Secret {
    let data = data.iter().map(|(key, value)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec()))).collect();
    Secret { metadata: metadata(namespace, name), type_: Some("Opaque".into()), data: Some(data), ..Secret::default() }
}

/// A `ConfigMap`.
pub fn config_map(namespace: &str, name: &str, data: &[(&str, &str)]) -> ConfigMap {
    let data = data.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    ConfigMap { metadata: metadata(namespace, name), data: Some(data), ..ConfigMap::default() }
}

/// A Node.
pub fn node(name: &str) -> Node {
    Node { metadata: metadata("", name), ..Node::default() }
}

/// An active Namespace.
pub fn namespace(name: &str) -> Namespace {
    let spec = NamespaceSpec { finalizers: Some(vec!["kubernetes".to_owned()]) };
    let status = NamespaceStatus { phase: Some("Active".to_owned()), ..NamespaceStatus::default() };
    Namespace { metadata: metadata("", name), spec: Some(spec), status: Some(status) }
}

/// A pending pod without containers, to be added to.
pub fn pod(namespace: &str, name: &str) -> PodBuilder {
    let status = PodStatus { phase: Some("Pending".into()), ..PodStatus::default() };
    PodBuilder {
        pod: Pod { metadata: metadata(namespace, name), spec: Some(PodSpec::default()), status: Some(status) },
    }
}

/// A pod that is being written; [`pod`] begins one.
#[derive(Clone, Debug)]
#[must_use = "a pod comes of it with `build`"]
pub struct PodBuilder {
    pod: Pod,
}

impl PodBuilder {
    fn spec(&mut self) -> &mut PodSpec {
        self.pod.spec.get_or_insert_default()
    }

    /// The container that was added last; one named `main` if there is none yet.
    fn last_container(&mut self) -> &mut Container {
        let containers = &mut self.spec().containers;
        if containers.is_empty() {
            containers.push(Container { name: "main".into(), image: Some("main:1".into()), ..Container::default() });
        }
        let last = containers.len() - 1;
        &mut containers[last]
    }

    /// The node that it is bound to.
    pub fn node(mut self, name: &str) -> Self {
        self.spec().node_name = Some(name.to_owned());
        self
    }

    /// The service account that it runs as.
    pub fn service_account(mut self, name: &str) -> Self {
        self.spec().service_account_name = Some(name.to_owned());
        self
    }

    /// A UID, instead of one that the store draws.
    pub fn uid(mut self, uid: &str) -> Self {
        self.pod.metadata.uid = Some(uid.to_owned());
        self
    }

    /// A label.
    pub fn label(mut self, name: &str, value: &str) -> Self {
        self.pod.metadata.labels.get_or_insert_default().insert(name.to_owned(), value.to_owned());
        self
    }

    /// An annotation.
    pub fn annotation(mut self, name: &str, value: &str) -> Self {
        self.pod.metadata.annotations.get_or_insert_default().insert(name.to_owned(), value.to_owned());
        self
    }

    /// One more container; what is said of env after it is about this one.
    pub fn container(mut self, name: &str, image: &str) -> Self {
        let container = Container { name: name.to_owned(), image: Some(image.to_owned()), ..Container::default() };
        self.spec().containers.push(container);
        self
    }

    /// A Secret that is mounted as a volume.
    pub fn secret_volume(mut self, name: &str) -> Self {
        let source = SecretVolumeSource { secret_name: Some(name.to_owned()), ..SecretVolumeSource::default() };
        let volume = Volume { name: format!("secret-{name}"), secret: Some(source), ..Volume::default() };
        self.spec().volumes.get_or_insert_default().push(volume);
        self
    }

    /// A `ConfigMap` that is mounted as a volume.
    pub fn config_map_volume(mut self, name: &str) -> Self {
        let source = ConfigMapVolumeSource { name: name.to_owned(), ..ConfigMapVolumeSource::default() };
        let volume = Volume { name: format!("config-{name}"), config_map: Some(source), ..Volume::default() };
        self.spec().volumes.get_or_insert_default().push(volume);
        self
    }

    /// One variable of the last container, from a key of a Secret.
    pub fn env_secret(mut self, name: &str, key: &str) -> Self {
        let selector = SecretKeySelector { name: name.to_owned(), key: key.to_owned(), optional: None };
        let source = EnvVarSource { secret_key_ref: Some(selector), ..EnvVarSource::default() };
        self.push_env(key, source);
        self
    }

    /// One variable of the last container, from a key of a `ConfigMap`.
    pub fn env_config_map(mut self, name: &str, key: &str) -> Self {
        let selector = ConfigMapKeySelector { name: name.to_owned(), key: key.to_owned(), optional: None };
        let source = EnvVarSource { config_map_key_ref: Some(selector), ..EnvVarSource::default() };
        self.push_env(key, source);
        self
    }

    /// All keys of a Secret as variables of the last container.
    pub fn env_from_secret(mut self, name: &str) -> Self {
        let source = SecretEnvSource { name: name.to_owned(), optional: None };
        let source = EnvFromSource { secret_ref: Some(source), ..EnvFromSource::default() };
        self.last_container().env_from.get_or_insert_default().push(source);
        self
    }

    /// All keys of a `ConfigMap` as variables of the last container.
    pub fn env_from_config_map(mut self, name: &str) -> Self {
        let source = ConfigMapEnvSource { name: name.to_owned(), optional: None };
        let source = EnvFromSource { config_map_ref: Some(source), ..EnvFromSource::default() };
        self.last_container().env_from.get_or_insert_default().push(source);
        self
    }

    /// A Secret to pull the images with.
    pub fn image_pull_secret(mut self, name: &str) -> Self {
        self.spec().image_pull_secrets.get_or_insert_default().push(LocalObjectReference { name: name.to_owned() });
        self
    }

    /// Whether its containers are started again: `Always` (the default), `OnFailure` or `Never`.
    pub fn restart_policy(mut self, policy: &str) -> Self {
        self.spec().restart_policy = Some(policy.to_owned());
        self
    }

    /// The phase of its status; `Pending` unless it is said.
    pub fn phase(mut self, phase: &str) -> Self {
        self.pod.status.get_or_insert_default().phase = Some(phase.to_owned());
        self
    }

    /// The pod.
    #[must_use]
    pub fn build(self) -> Pod {
        self.pod
    }

    fn push_env(&mut self, key: &str, source: EnvVarSource) {
        let name = key.to_uppercase().replace(['-', '.'], "_");
        let variable = EnvVar { name, value: None, value_from: Some(source) };
        self.last_container().env.get_or_insert_default().push(variable);
    }
}
