//! What containers of a pod mount, or have in their environment, of Secrets and ConfigMaps.
//!
//! Read as the kubelet reads it: the environment as `makeEnvironmentVariables` (`pkg/kubelet/kubelet_pods.go`), the keys of volumes
//! as `MakePayload` (`pkg/volume/secret`, `configmap`, `projected`), and a `subPath` as `makeMounts`.
//!
//! # Limits
//!
//! - Nothing is granted of what the kubelet or a driver reads for the pod and the container does not get: image pull secrets, and the
//!   secrets of drivers of volumes.
//! - A reference counts even if a later one hides its value: a variable that is set twice, or two keys that have the same path.
//! - `envFrom` grants every key, also those of `binaryData`, which Kubernetes makes no variables of.
//! - `subPathExpr` grants nothing. The pod alone does not say to which path it expands.
//! - A pod is read as the API server validates it: each volume has one source, and a name of a volume or container stands once.

use crate::extent::Keys;
use k8s_openapi::api::core::v1::{EnvFromSource, EnvVar, KeyToPath, Pod, Volume, VolumeMount};
use larder_resource::{ObjectKind, PerKind};
use std::collections::BTreeMap;

/// The keys of Secrets and ConfigMaps, in a pod's namespace, that containers of the pod refer to.
///
/// ```
/// use larder_policy::{Grants, Keys};
/// use larder_resource::ObjectKind;
///
/// let pod = serde_json::from_str(r#"{"spec": {
///     "containers": [{"name": "app", "volumeMounts": [{"name": "flags", "mountPath": "/flags", "subPath": "beta"}]}],
///     "volumes": [{"name": "flags", "configMap": {"name": "feature-flags"}}]
/// }}"#)?;
/// let grants = Grants::of(&pod, |container| container == "app");
/// assert_eq!(grants.keys(ObjectKind::ConfigMap, "feature-flags"), Some(&Keys::named(["beta"])));
/// assert_eq!(Grants::of(&pod, |container| container == "proxy"), Grants::default());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants(PerKind<BTreeMap<String, Keys>>);

impl Grants {
    /// What the containers of these names refer to, of init, main and ephemeral containers.
    pub fn of(pod: &Pod, container: impl Fn(&str) -> bool) -> Self {
        let mut grants = Self::default();
        let Some(spec) = &pod.spec else { return grants };
        let volumes = spec.volumes.as_deref().unwrap_or_default();
        for of in spec.init_containers.iter().flatten().chain(&spec.containers).filter(|of| container(&of.name)) {
            grants.add(volumes, of.env_from.as_deref(), of.env.as_deref(), of.volume_mounts.as_deref());
        }
        for of in spec.ephemeral_containers.iter().flatten().filter(|of| container(&of.name)) {
            grants.add(volumes, of.env_from.as_deref(), of.env.as_deref(), of.volume_mounts.as_deref());
        }
        grants
    }

    /// The keys of one object, where the containers refer to it.
    pub fn keys(&self, kind: ObjectKind, name: &str) -> Option<&Keys> {
        self.0.of(kind).get(name)
    }

    /// Every object that the containers refer to, by kind and name.
    pub fn iter(&self) -> impl Iterator<Item = (ObjectKind, &str, &Keys)> {
        self.0.iter().flat_map(|(kind, names)| names.iter().map(move |(name, keys)| (kind, &**name, keys)))
    }

    fn add(
        &mut self,
        volumes: &[Volume],
        env_from: Option<&[EnvFromSource]>,
        env: Option<&[EnvVar]>,
        mounts: Option<&[VolumeMount]>,
    ) {
        for source in env_from.unwrap_or_default() {
            if let Some(of) = &source.config_map_ref {
                self.grant(ObjectKind::ConfigMap, &of.name, Keys::All);
            } else if let Some(of) = &source.secret_ref {
                self.grant(ObjectKind::Secret, &of.name, Keys::All);
            }
        }
        for var in env.unwrap_or_default() {
            self.add_variable(var);
        }
        for mount in mounts.unwrap_or_default() {
            let Some(path) = MountedPath::of(mount) else { continue };
            for volume in volumes.iter().filter(|volume| volume.name == mount.name) {
                self.add_volume(volume, &path);
            }
        }
    }

    /// The kubelet reads the first of a variable's sources, and none if the variable has a value.
    fn add_variable(&mut self, var: &EnvVar) {
        let has_value = var.value.as_ref().is_some_and(|value| !value.is_empty());
        let Some(from) = var.value_from.as_ref().filter(|_| !has_value) else { return };
        if from.field_ref.is_some() || from.resource_field_ref.is_some() {
            return;
        }
        if let Some(of) = &from.config_map_key_ref {
            self.grant(ObjectKind::ConfigMap, &of.name, Keys::named([&*of.key]));
        } else if let Some(of) = &from.secret_key_ref {
            self.grant(ObjectKind::Secret, &of.name, Keys::named([&*of.key]));
        }
    }

    /// A volume has one source. The kubelet mounts none that has several.
    fn add_volume(&mut self, volume: &Volume, path: &MountedPath) {
        match (&volume.secret, &volume.config_map, &volume.projected) {
            (Some(of), None, None) => {
                let name = of.secret_name.as_deref().unwrap_or_default();
                self.grant(ObjectKind::Secret, name, path.keys(of.items.as_deref()));
            }
            (None, Some(of), None) => {
                self.grant(ObjectKind::ConfigMap, &of.name, path.keys(of.items.as_deref()));
            }
            (None, None, Some(projected)) => {
                for source in projected.sources.iter().flatten() {
                    match (&source.secret, &source.config_map) {
                        (Some(of), _) => self.grant(ObjectKind::Secret, &of.name, path.keys(of.items.as_deref())),
                        (None, Some(of)) => {
                            self.grant(ObjectKind::ConfigMap, &of.name, path.keys(of.items.as_deref()));
                        }
                        (None, None) => {}
                    }
                }
            }
            _ => {}
        }
    }

    fn grant(&mut self, kind: ObjectKind, name: &str, keys: Keys) {
        if name.is_empty() || keys == Keys::none() {
            return;
        }
        let PerKind { secrets, config_maps } = &mut self.0;
        let names = match kind {
            ObjectKind::Secret => secrets,
            ObjectKind::ConfigMap => config_maps,
        };
        match names.get_mut(name) {
            Some(before) => *before = std::mem::replace(before, Keys::All).and(keys),
            None => {
                names.insert(name.to_owned(), keys);
            }
        }
    }
}

/// The path in a volume that a container mounts, by its steps; without a step, the whole volume.
struct MountedPath<'a>(Vec<&'a str>);

impl<'a> MountedPath<'a> {
    /// `None` where it is not known, or leads out of the volume.
    fn of(mount: &'a VolumeMount) -> Option<Self> {
        // Only the kubelet knows the variables of the expression.
        if mount.sub_path_expr.as_ref().is_some_and(|path| !path.is_empty()) {
            return None;
        }
        let path = mount.sub_path.as_deref().unwrap_or_default();
        let mut steps = (!path.starts_with('/')).then(|| steps(path)).flatten()?;
        // The link to the folder with the files, which the kubelet replaces as one.
        if steps.first() == Some(&"..data") {
            steps.remove(0);
        }
        Some(Self(steps))
    }

    /// The keys whose files are at this path or below it.
    fn keys(&self, items: Option<&[KeyToPath]>) -> Keys {
        match items.unwrap_or_default() {
            [] => match &*self.0 {
                [] => Keys::All,
                // The file of a key has the key's name.
                [key] => Keys::named([*key]),
                _ => Keys::none(),
            },
            items => {
                let seen = items.iter().filter(|item| steps(&item.path).is_some_and(|path| path.starts_with(&self.0)));
                Keys::named(seen.map(|item| &*item.key))
            }
        }
    }
}

/// The steps of a path; `None` where one leads back.
fn steps(path: &str) -> Option<Vec<&str>> {
    let steps = path.split('/').filter(|step| !matches!(*step, "" | "."));
    steps.map(|step| (step != "..").then_some(step)).collect()
}

#[cfg(test)]
mod tests;
