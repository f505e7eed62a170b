//! Every way that a `v1.Pod` refers to a Secret or a ConfigMap.
//!
//! The same as the kubelet's visitors (`pkg/api/v1/pod`): image pull secrets, the environment of init, main and ephemeral
//! containers, and volumes. Names that are empty are skipped. A volume has one source; of one that has several, which the
//! API server does not admit, the first in the order below counts.

use super::{PodIdentity, Reference, References};
use k8s_openapi::api::core::v1::{EnvFromSource, EnvVar, LocalObjectReference, Pod, PodSpec, Volume};

/// The Secrets that a pod refers to.
///
/// ```
/// use k8s_openapi::api::core::v1::{LocalObjectReference, Pod, PodSpec};
/// use larder_objects::references::{PodIdentity, References, Secrets, secrets};
///
/// let pull = LocalObjectReference { name: "registry".into() };
/// let spec = PodSpec { image_pull_secrets: Some(vec![pull]), ..PodSpec::default() };
/// let pod = Pod { spec: Some(spec), ..Pod::default() };
/// assert_eq!(secrets(&pod)[0].name, "registry");
/// assert_eq!(Secrets.identity(&pod), PodIdentity { namespace: "", name: "", uid: "" });
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Secrets;

/// The ConfigMaps that a pod refers to.
///
/// ```
/// use k8s_openapi::api::core::v1::{ConfigMapVolumeSource, Pod, PodSpec, Volume};
/// use larder_objects::references::config_maps;
///
/// let source = ConfigMapVolumeSource { name: "flags".into(), optional: Some(true), ..ConfigMapVolumeSource::default() };
/// let volume = Volume { config_map: Some(source), ..Volume::default() };
/// let spec = PodSpec { volumes: Some(vec![volume]), ..PodSpec::default() };
/// let pod = Pod { spec: Some(spec), ..Pod::default() };
/// assert!(config_maps(&pod)[0].optional);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct ConfigMaps;

/// Every reference to a Secret in a pod, in the order of the pod; the same name may come more than once.
///
/// ```
/// # use k8s_openapi::api::core::v1::Pod;
/// assert!(larder_objects::references::secrets(&Pod::default()).is_empty());
/// ```
pub fn secrets(pod: &Pod) -> Vec<Reference<'_>> {
    let mut all = Vec::new();
    Secrets.visit(pod, |reference| all.push(reference));
    all
}

/// Every reference to a ConfigMap in a pod, in the order of the pod; the same name may come more than once.
///
/// ```
/// # use k8s_openapi::api::core::v1::Pod;
/// assert!(larder_objects::references::config_maps(&Pod::default()).is_empty());
/// ```
pub fn config_maps(pod: &Pod) -> Vec<Reference<'_>> {
    let mut all = Vec::new();
    ConfigMaps.visit(pod, |reference| all.push(reference));
    all
}

impl References<Pod> for Secrets {
    fn identity<'p>(&self, pod: &'p Pod) -> PodIdentity<'p> {
        identity(pod)
    }

    fn visit<'p>(&self, pod: &'p Pod, mut visit: impl FnMut(Reference<'p>)) {
        let Some(spec) = &pod.spec else { return };
        let mut see = |name: &'p str, optional| skip_empty(name, optional, &mut visit);
        for pull in spec.image_pull_secrets.iter().flatten() {
            see(&pull.name, None);
        }
        for_each_environment(spec, |env_from, env| {
            for source in env_from.iter().filter_map(|source| source.secret_ref.as_ref()) {
                see(&source.name, source.optional);
            }
            for key in env.iter().filter_map(|var| var.value_from.as_ref()?.secret_key_ref.as_ref()) {
                see(&key.name, key.optional);
            }
        });
        for volume in spec.volumes.iter().flatten() {
            volume_secrets(volume, &mut see);
        }
    }
}

impl References<Pod> for ConfigMaps {
    fn identity<'p>(&self, pod: &'p Pod) -> PodIdentity<'p> {
        identity(pod)
    }

    fn visit<'p>(&self, pod: &'p Pod, mut visit: impl FnMut(Reference<'p>)) {
        let Some(spec) = &pod.spec else { return };
        let mut see = |name: &'p str, optional| skip_empty(name, optional, &mut visit);
        for_each_environment(spec, |env_from, env| {
            for source in env_from.iter().filter_map(|source| source.config_map_ref.as_ref()) {
                see(&source.name, source.optional);
            }
            for key in env.iter().filter_map(|var| var.value_from.as_ref()?.config_map_key_ref.as_ref()) {
                see(&key.name, key.optional);
            }
        });
        for volume in spec.volumes.iter().flatten() {
            if let Some(projected) = &volume.projected {
                for source in projected.sources.iter().flatten().filter_map(|source| source.config_map.as_ref()) {
                    see(&source.name, source.optional);
                }
            } else if let Some(source) = &volume.config_map {
                see(&source.name, source.optional);
            }
        }
    }
}

fn identity(pod: &Pod) -> PodIdentity<'_> {
    PodIdentity {
        namespace: pod.metadata.namespace.as_deref().unwrap_or_default(),
        name: pod.metadata.name.as_deref().unwrap_or_default(),
        uid: pod.metadata.uid.as_deref().unwrap_or_default(),
    }
}

fn skip_empty<'p>(name: &'p str, optional: Option<bool>, mut visit: impl FnMut(Reference<'p>)) {
    if !name.is_empty() {
        visit(Reference { name, optional: optional.unwrap_or(false) });
    }
}

/// The environment of each init, main and ephemeral container.
fn for_each_environment<'p>(spec: &'p PodSpec, mut visit: impl FnMut(&'p [EnvFromSource], &'p [EnvVar])) {
    for container in spec.init_containers.iter().flatten().chain(&spec.containers) {
        visit(container.env_from.as_deref().unwrap_or_default(), container.env.as_deref().unwrap_or_default());
    }
    for container in spec.ephemeral_containers.iter().flatten() {
        visit(container.env_from.as_deref().unwrap_or_default(), container.env.as_deref().unwrap_or_default());
    }
}

fn volume_secrets<'p>(volume: &'p Volume, mut see: impl FnMut(&'p str, Option<bool>)) {
    let mut see_ref = |secret: Option<&'p LocalObjectReference>| secret.into_iter().for_each(|it| see(&it.name, None));
    if let Some(source) = &volume.azure_file {
        see(&source.secret_name, None);
    } else if let Some(source) = &volume.cephfs {
        see_ref(source.secret_ref.as_ref());
    } else if let Some(source) = &volume.cinder {
        see_ref(source.secret_ref.as_ref());
    } else if let Some(source) = &volume.flex_volume {
        see_ref(source.secret_ref.as_ref());
    } else if let Some(projected) = &volume.projected {
        for source in projected.sources.iter().flatten().filter_map(|source| source.secret.as_ref()) {
            see(&source.name, source.optional);
        }
    } else if let Some(source) = &volume.rbd {
        see_ref(source.secret_ref.as_ref());
    } else if let Some(source) = &volume.secret {
        see(source.secret_name.as_deref().unwrap_or_default(), source.optional);
    } else if let Some(source) = &volume.scale_io {
        see_ref(Some(&source.secret_ref));
    } else if let Some(source) = &volume.iscsi {
        see_ref(source.secret_ref.as_ref());
    } else if let Some(source) = &volume.storageos {
        see_ref(source.secret_ref.as_ref());
    } else if let Some(source) = &volume.csi {
        see_ref(source.node_publish_secret_ref.as_ref());
    }
}
