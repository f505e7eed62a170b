//! The fields of a kubeconfig of version `v1`, as the file has them.

use larder_yaml::{Bytes, Mistake, Node};
use secrecy::SecretString;
use serde::Deserialize;
use std::collections::{BTreeMap, HashSet};

/// A kubeconfig, with the lists of named parts as maps.
#[derive(Default)]
pub(super) struct Config {
    pub(super) clusters: BTreeMap<String, Cluster>,
    pub(super) users: BTreeMap<String, AuthInfo>,
    pub(super) contexts: BTreeMap<String, Context>,
    pub(super) current_context: String,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "kebab-case")]
struct File {
    preferences: Preferences,
    clusters: Vec<NamedCluster>,
    users: Vec<NamedAuthInfo>,
    contexts: Vec<NamedContext>,
    current_context: String,
    extensions: Vec<NamedExtension>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Preferences {
    /// For its type alone.
    #[serde(rename = "colors")]
    _colors: bool,
    extensions: Vec<NamedExtension>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct NamedCluster {
    name: String,
    cluster: Cluster,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct NamedAuthInfo {
    name: String,
    user: AuthInfo,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct NamedContext {
    name: String,
    context: Context,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct NamedExtension {
    pub(super) name: String,
    pub(super) extension: serde_json::Value,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "kebab-case")]
pub(super) struct Cluster {
    pub(super) server: String,
    pub(super) tls_server_name: String,
    pub(super) insecure_skip_tls_verify: bool,
    pub(super) certificate_authority: String,
    pub(super) certificate_authority_data: Bytes,
    pub(super) proxy_url: String,
    pub(super) disable_compression: bool,
    pub(super) extensions: Vec<NamedExtension>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct AuthInfo {
    #[serde(rename = "client-certificate")]
    pub(super) client_certificate: String,
    #[serde(rename = "client-certificate-data")]
    pub(super) client_certificate_data: Bytes,
    #[serde(rename = "client-key")]
    pub(super) client_key: String,
    #[serde(rename = "client-key-data")]
    pub(super) client_key_data: Bytes,
    pub(super) token: Option<SecretString>,
    #[serde(rename = "tokenFile")]
    pub(super) token_file: String,
    #[serde(rename = "as")]
    pub(super) impersonate: String,
    #[serde(rename = "as-uid")]
    pub(super) impersonate_uid: String,
    #[serde(rename = "as-groups")]
    pub(super) impersonate_groups: Vec<String>,
    #[serde(rename = "as-user-extra")]
    pub(super) impersonate_extra: BTreeMap<String, Vec<String>>,
    pub(super) username: String,
    pub(super) password: Option<SecretString>,
    #[serde(rename = "auth-provider")]
    pub(super) auth_provider: Option<AuthProvider>,
    pub(super) exec: Option<Exec>,
    extensions: Vec<NamedExtension>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct AuthProvider {
    pub(super) name: String,
    /// For its type alone.
    #[serde(rename = "config")]
    _config: BTreeMap<String, Option<SecretString>>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Exec {
    pub(super) command: String,
    pub(super) args: Vec<String>,
    pub(super) env: Vec<ExecEnv>,
    pub(super) api_version: String,
    pub(super) install_hint: String,
    pub(super) provide_cluster_info: bool,
    pub(super) interactive_mode: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct ExecEnv {
    pub(super) name: String,
    pub(super) value: Option<SecretString>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Context {
    pub(super) cluster: String,
    pub(super) user: String,
    pub(super) namespace: String,
    extensions: Vec<NamedExtension>,
}

impl Config {
    /// Reads the text of a kubeconfig.
    pub(super) fn read(text: &str) -> Result<Self, Mistake> {
        let node = larder_yaml::yaml(text)?;
        head(&node)?;
        let file: File = node.decode()?;
        unique("preferences.extensions", &file.preferences.extensions, &node)?;
        unique("extensions", &file.extensions, &node)?;
        for named in &file.clusters {
            unique("clusters[].cluster.extensions", &named.cluster.extensions, &node)?;
        }
        for named in &file.users {
            unique("users[].user.extensions", &named.user.extensions, &node)?;
        }
        for named in &file.contexts {
            unique("contexts[].context.extensions", &named.context.extensions, &node)?;
        }
        Ok(Self {
            clusters: named("clusters", file.clusters.into_iter().map(|named| (named.name, named.cluster)), &node)?,
            users: named("users", file.users.into_iter().map(|named| (named.name, named.user)), &node)?,
            contexts: named("contexts", file.contexts.into_iter().map(|named| (named.name, named.context)), &node)?,
            current_context: file.current_context,
        })
    }
}

/// Checks kind and version; both may be missing.
fn head(node: &Node) -> Result<(), Mistake> {
    for (name, expected, known) in
        [("kind", "Config", &["", "Config"][..]), ("apiVersion", "v1", &["", "/", "v1", "/v1"][..])]
    {
        if !known.contains(&node.head(name)?.as_str()) {
            return Err(node.get(name).unwrap_or(node).mistake(name, format!("a kubeconfig has {expected} here")));
        }
    }
    Ok(())
}

fn unique(field: &'static str, extensions: &[NamedExtension], node: &Node) -> Result<(), Mistake> {
    let mut seen = HashSet::new();
    match extensions.iter().find(|named| !seen.insert(named.name.as_str())) {
        Some(named) => Err(node.mistake(field, twice(&named.name))),
        None => Ok(()),
    }
}

fn named<T>(
    field: &'static str,
    parts: impl Iterator<Item = (String, T)>,
    node: &Node,
) -> Result<BTreeMap<String, T>, Mistake> {
    let mut all = BTreeMap::new();
    for (name, part) in parts {
        if all.contains_key(&name) {
            return Err(node.get(field).unwrap_or(node).mistake(field, twice(&name)));
        }
        all.insert(name, part);
    }
    Ok(all)
}

fn twice(name: &str) -> String {
    format!("two entries have the name {name:?}; remove or rename one")
}
