//! Reads a kubeconfig, with the meaning that client-go's `clientcmd` gives the fields.
//!
//! [`load`] returns the [`ClientSettings`] of a context: `decode` parses the file, `validate` applies the rules of `clientcmd`.
//! [`connect`](crate::connect) reads the files that the kubeconfig names. `validate` opens a file only where `clientcmd` opens it.
//!
//! # Guarantees
//!
//! - *As clientcmd*: larder accepts and refuses the same kubeconfigs. The file is YAML as the tools of Kubernetes read it; an
//!   empty field counts as missing; relative paths start at the kubeconfig's folder.
//! - *Plain*: an error names the file, the line or field, and the remedy, and never shows a secret.

mod decode;
mod meaning;
mod server;
mod validate;

pub use meaning::kubeconfig_meaning;

use crate::error::KubeError;
use crate::file::Files;
use secrecy::SecretString;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zeroize::Zeroizing;

/// The largest kubeconfig, in bytes.
const LARGEST: u64 = 10 << 20;

/// The settings of a client that a context names.
pub(crate) struct ClientSettings {
    /// The server's address, always with a scheme.
    pub(crate) server: http::Uri,
    /// Whether the kubeconfig gives the server's address without a scheme.
    pub(crate) without_scheme: bool,
    /// The name that the server's certificate must have, if not the server's host.
    pub(crate) tls_server_name: Option<String>,
    pub(crate) insecure_skip_tls_verify: bool,
    /// The authorities that verify the server's certificate; none for the system's.
    pub(crate) authorities: Option<Blob>,
    pub(crate) proxy_url: Option<String>,
    pub(crate) disable_compression: bool,
    pub(crate) user: User,
    #[cfg_attr(not(test), allow(dead_code, reason = "every request names its own; compared with clientcmd's"))]
    pub(crate) namespace: String,
}

/// Data in the kubeconfig or in a file.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Blob {
    Inline(Zeroizing<Vec<u8>>),
    File(PathBuf),
}

/// The credentials of a client.
#[derive(Default)]
pub(crate) struct User {
    pub(crate) client_certificate: Option<Blob>,
    pub(crate) client_key: Option<Blob>,
    /// Used while `token_file` cannot be read.
    pub(crate) token: Option<SecretString>,
    /// Read again at each renewal; its token wins over `token`.
    pub(crate) token_file: Option<PathBuf>,
    pub(crate) username: Option<String>,
    pub(crate) password: Option<SecretString>,
    pub(crate) impersonate: Option<Impersonate>,
    pub(crate) exec: Option<ExecConfig>,
}

/// The user that requests impersonate.
#[derive(Clone, Default)]
pub(crate) struct Impersonate {
    pub(crate) user: String,
    pub(crate) uid: Option<String>,
    pub(crate) groups: Vec<String>,
    pub(crate) extra: BTreeMap<String, Vec<String>>,
}

/// A credential plugin.
#[derive(Clone)]
pub(crate) struct ExecConfig {
    /// A name in `PATH`, or an absolute path.
    pub(crate) command: String,
    pub(crate) args: Vec<String>,
    /// Variables that the plugin gets in addition to larder's own.
    pub(crate) env: Vec<(String, SecretString)>,
    pub(crate) api_version: String,
    /// The advice of an error when the plugin is missing.
    pub(crate) install_hint: Option<String>,
    /// Whether the plugin gets the cluster in `KUBERNETES_EXEC_INFO`.
    pub(crate) provide_cluster_info: bool,
    pub(crate) interactive_mode: InteractiveMode,
    /// The plugin's part of the cluster's extension `client.authentication.k8s.io/exec`.
    pub(crate) cluster_config: Option<serde_json::Value>,
}

/// Whether a plugin wants standard input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum InteractiveMode {
    Never,
    IfAvailable,
    Always,
}

/// Returns the settings of a context, by default the current one. Blocks while it reads files.
///
/// # Errors
///
/// [`KubeError::KubeconfigUnreadable`], [`KubeError::KubeconfigInvalid`], [`KubeError::UnknownContext`],
/// [`KubeError::CredentialFile`] and [`KubeError::Config`].
pub(crate) fn load(path: &Path, context: Option<&str>, files: &Files) -> Result<ClientSettings, KubeError> {
    let unreadable =
        |source: io::Error| KubeError::KubeconfigUnreadable { path: path.to_owned(), source: Arc::new(source) };
    let invalid = |problem: String| KubeError::KubeconfigInvalid { path: path.to_owned(), problem };
    let bytes = files.read(path, LARGEST).map_err(unreadable)?;
    if bytes.len() as u64 > LARGEST {
        return Err(invalid(format!("it is larger than {LARGEST} bytes")));
    }
    let text = std::str::from_utf8(&bytes).map_err(|error| {
        let line = bytes.iter().take(error.valid_up_to()).filter(|byte| **byte == b'\n').count() + 1;
        invalid(format!("line {line} is not UTF-8"))
    })?;
    let config = decode::Config::read(text).map_err(|mistake| {
        let place = mistake.place().map(|place| format!(", at {place}")).unwrap_or_default();
        invalid(format!("{mistake}{place}"))
    })?;
    validate::settings(config, path, context.filter(|context| !context.is_empty()), files)
}

#[cfg(test)]
mod tests;
