//! Prints the meaning of a kubeconfig for the differential test against client-go.

use super::{Blob, load};
use crate::connect::{Configuration, Origin};
use crate::error::KubeError;
use crate::file::Files;
use crate::options::KubeOptions;
use crate::pool::Transport;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// Returns the settings that larder reads from a kubeconfig, secrets included, to compare with client-go. As at a start, this
/// reads all files that the kubeconfig names and sets up TLS. It connects to nothing and runs no plugin.
///
/// # Errors
///
/// As [`KubeClient::from_kubeconfig`](crate::KubeClient::from_kubeconfig).
///
/// ```
/// assert!(larder_kube::kubeconfig_meaning("/none".as_ref()).is_err());
/// ```
#[doc(hidden)]
pub fn kubeconfig_meaning(path: &Path) -> Result<Value, KubeError> {
    let files = Files::default();
    let settings = load(path, None, &files)?;
    let (origin, options) = (Origin::Kubeconfig { path: path.to_owned(), context: None }, KubeOptions::default());
    let Configuration { endpoint, headers, plugin, .. } = origin.read(&options, &files)?;
    let pool = endpoint.pool(&options, &Transport::new()).map_err(|problem| origin.config(&problem))?;
    pool.close();
    let mut sent: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (name, value) in &headers {
        sent.entry(name.as_str()).or_default().push(String::from_utf8_lossy(value.as_bytes()).into_owned());
    }
    for values in sent.values_mut() {
        values.sort_unstable();
    }
    let secret = |secret: &Option<SecretString>| secret.as_ref().map(|secret| secret.expose_secret().to_owned());
    let user = &settings.user;
    let mut meaning = json!({
        "server": settings.server.to_string(),
        "server_name": settings.tls_server_name,
        "insecure": settings.insecure_skip_tls_verify,
        "authorities": blob(settings.authorities.as_ref()),
        "certificate": blob(user.client_certificate.as_ref()),
        "key": blob(user.client_key.as_ref()),
        "token_file": user.token_file,
        "username": user.username,
        "password": secret(&user.password),
        "namespace": settings.namespace,
        "compression": !settings.disable_compression,
        "proxy": settings.proxy_url,
        "headers": sent,
        "exec_info": plugin.map(|plugin| plugin.info()),
    });
    if user.token_file.is_none() {
        meaning["token"] = secret(&user.token).into();
    }
    if let Some(other) = &user.impersonate {
        meaning["as"] = other.user.as_str().into();
        meaning["as_uid"] = other.uid.clone().into();
        meaning["as_groups"] = other.groups.clone().into();
        meaning["as_extra"] = json!(other.extra);
    }
    if let Some(exec) = &user.exec {
        let env: Vec<Value> =
            exec.env.iter().map(|(name, value)| json!({"name": name, "value": value.expose_secret()})).collect();
        meaning["exec"] = json!({
            "command": exec.command, "args": exec.args, "env": env, "version": exec.api_version,
            "hint": exec.install_hint, "info": exec.provide_cluster_info,
            "mode": format!("{:?}", exec.interactive_mode), "config": exec.cluster_config,
        });
    }
    Ok(meaning)
}

fn blob(blob: Option<&Blob>) -> Value {
    match blob {
        None => Value::Null,
        Some(Blob::Inline(data)) => STANDARD.encode(data.as_slice()).into(),
        Some(Blob::File(path)) => json!({"file": path}),
    }
}
