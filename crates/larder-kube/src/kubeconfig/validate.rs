//! Turns the fields of a kubeconfig into the settings of one context, by the rules of `clientcmd`.

use super::decode::{AuthInfo, Cluster, Config, Context, Exec};
use super::{Blob, ClientSettings, ExecConfig, Impersonate, InteractiveMode, User, server};
use crate::connect::absolute;
use crate::error::KubeError;
use crate::file::Files;
use crate::proxy::{EXPECTED, Proxy};
use larder_yaml::Bytes;
use secrecy::{ExposeSecret, SecretString};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// The cluster's extension for its credential plugin.
const EXEC_EXTENSION: &str = "client.authentication.k8s.io/exec";

/// The context of a check.
struct Check<'a> {
    path: &'a Path,
    /// The folder that relative paths start at.
    folder: PathBuf,
    files: &'a Files,
}

pub(super) fn settings(
    mut config: Config,
    path: &Path,
    context: Option<&str>,
    files: &Files,
) -> Result<ClientSettings, KubeError> {
    let folder = absolute(path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new(".")));
    let check = Check { path, folder, files };
    let name = context.unwrap_or(&config.current_context);
    let chosen = match config.contexts.remove(name) {
        Some(chosen) => chosen,
        None if name.is_empty() && config.clusters.contains_key("") => Context::default(),
        None if name.is_empty() => return Err(check.wrong("it sets no current-context; set one, or give a context")),
        None => {
            let known = config.contexts.into_keys().collect();
            return Err(KubeError::UnknownContext { path: path.to_owned(), context: name.to_owned(), known });
        }
    };
    let cluster = config.clusters.remove(&chosen.cluster).unwrap_or_default();
    let user = config.users.remove(&chosen.user).unwrap_or_default();
    check.user(&chosen.user, &user)?;
    check.cluster(&chosen.cluster, &cluster)?;

    let (server, has_scheme) = server::address(&cluster.server)
        .map_err(|problem| check.wrong(&format!("server of cluster {:?}: {problem}", chosen.cluster)))?;
    let impersonate = (!user.impersonate.is_empty()).then(|| Impersonate {
        user: user.impersonate.clone(),
        uid: filled(user.impersonate_uid.clone()),
        groups: user.impersonate_groups.clone(),
        extra: user.impersonate_extra.clone(),
    });
    let mut settings = ClientSettings {
        server,
        without_scheme: !has_scheme,
        tls_server_name: None,
        insecure_skip_tls_verify: false,
        authorities: None,
        proxy_url: filled(cluster.proxy_url),
        disable_compression: cluster.disable_compression,
        user: User::default(),
        namespace: filled(chosen.namespace).unwrap_or_else(|| "default".to_owned()),
    };
    // As client-go: no credentials without TLS.
    if has_scheme {
        let extensions = cluster.extensions.into_iter();
        let for_plugin = extensions.filter(|named| named.name == EXEC_EXTENSION).map(|named| named.extension).next();
        settings.user = check.credentials(&chosen.user, user, for_plugin)?;
        settings.tls_server_name = filled(cluster.tls_server_name);
        settings.insecure_skip_tls_verify = cluster.insecure_skip_tls_verify;
        settings.authorities = check.blob(cluster.certificate_authority_data, &cluster.certificate_authority);
        if settings.insecure_skip_tls_verify && settings.authorities.is_some() {
            return Err(check.wrong(&format!(
                "cluster {:?} sets insecure-skip-tls-verify and a certificate-authority; remove one of the two",
                chosen.cluster
            )));
        }
    }
    settings.user.impersonate = impersonate;
    Ok(settings)
}

impl Check<'_> {
    fn wrong(&self, problem: &str) -> KubeError {
        KubeError::Config { origin: format!("kubeconfig {}", self.path.display()), problem: problem.to_owned() }
    }

    /// A path of the kubeconfig.
    fn resolve(&self, path: &str) -> PathBuf {
        if path.starts_with('/') { PathBuf::from(path) } else { clean(&self.folder.join(path)) }
    }

    /// Inline data, or else the file.
    fn blob(&self, data: Bytes, file: &str) -> Option<Blob> {
        if !data.0.is_empty() {
            return Some(Blob::Inline(data.0));
        }
        (!file.is_empty()).then(|| Blob::File(self.resolve(file)))
    }

    /// Checks that a file can be opened.
    fn opens(&self, what: &'static str, file: &str) -> Result<(), KubeError> {
        if file.is_empty() {
            return Ok(());
        }
        let path = self.resolve(file);
        self.files.check(&path).map_err(|source| KubeError::CredentialFile {
            origin: format!("kubeconfig {}", self.path.display()),
            what,
            path,
            source: Arc::new(source),
        })
    }

    /// Refuses a field given both inline and as a file.
    fn one_of(&self, owner: &str, field: &str, data: &Bytes, file: &str) -> Result<(), KubeError> {
        if data.0.is_empty() || file.is_empty() {
            return Ok(());
        }
        Err(self.wrong(&format!("{owner} sets both {field} and {field}-data; remove one of the two")))
    }

    fn cluster(&self, name: &str, cluster: &Cluster) -> Result<(), KubeError> {
        let owner = format!("cluster {name:?}");
        if cluster.server.is_empty() {
            return Err(self.wrong(&format!("{owner} has no server; set the address of the API server")));
        }
        if !cluster.proxy_url.is_empty() && Proxy::parse(&cluster.proxy_url).is_none() {
            return Err(self.wrong(&format!("the proxy-url of {owner} {EXPECTED}")));
        }
        let data = &cluster.certificate_authority_data;
        self.one_of(&owner, "certificate-authority", data, &cluster.certificate_authority)?;
        self.opens("certificate authority", &cluster.certificate_authority)
    }

    fn user(&self, name: &str, user: &AuthInfo) -> Result<(), KubeError> {
        let owner = format!("user {name:?}");
        if !user.client_certificate.is_empty() || !user.client_certificate_data.0.is_empty() {
            self.one_of(&owner, "client-certificate", &user.client_certificate_data, &user.client_certificate)?;
            self.one_of(&owner, "client-key", &user.client_key_data, &user.client_key)?;
            if user.client_key.is_empty() && user.client_key_data.0.is_empty() {
                return Err(self.wrong(&format!(
                    "{owner} has a client certificate without a key; set client-key or client-key-data"
                )));
            }
            self.opens("client certificate", &user.client_certificate)?;
            self.opens("client key", &user.client_key)?;
        }
        if let Some(exec) = &user.exec {
            let unset = |field: &str| {
                Err(self.wrong(&format!("{owner}: exec has no {field}; set it as the plugin's manual says")))
            };
            if user.auth_provider.is_some() {
                return Err(self.wrong(&format!("{owner} has both exec and auth-provider; remove auth-provider")));
            }
            if exec.command.is_empty() {
                return unset("command");
            }
            if exec.api_version.is_empty() {
                return unset("apiVersion");
            }
            if exec.env.iter().any(|variable| variable.name.is_empty()) {
                return unset("name for one of its env");
            }
            self.interactive(&owner, exec)?;
        }
        let has_basic = !user.username.is_empty() || is_set(user.password.as_ref());
        if is_set(user.token.as_ref()) && has_basic {
            return Err(self.wrong(&format!("{owner} has both a token and a username or password; remove one of them")));
        }
        let impersonates = !user.impersonate_uid.is_empty()
            || !user.impersonate_groups.is_empty()
            || !user.impersonate_extra.is_empty();
        if impersonates && user.impersonate.is_empty() {
            return Err(self
                .wrong(&format!("{owner} impersonates by as-uid, as-groups or as-user-extra without a user; set as")));
        }
        Ok(())
    }

    fn interactive(&self, owner: &str, exec: &Exec) -> Result<InteractiveMode, KubeError> {
        match (exec.interactive_mode.as_str(), exec.api_version.as_str()) {
            ("Never", _) => Ok(InteractiveMode::Never),
            ("IfAvailable", _)
            | ("", "client.authentication.k8s.io/v1beta1" | "client.authentication.k8s.io/v1alpha1") => {
                Ok(InteractiveMode::IfAvailable)
            }
            ("Always", _) => Ok(InteractiveMode::Always),
            _ => Err(self.wrong(&format!("{owner}: set interactiveMode of exec to Never, IfAvailable or Always"))),
        }
    }

    /// The credentials of a user whose fields have been checked.
    fn credentials(
        &self,
        name: &str,
        user: AuthInfo,
        cluster_config: Option<serde_json::Value>,
    ) -> Result<User, KubeError> {
        let owner = format!("user {name:?}");
        if let Some(provider) = &user.auth_provider {
            return Err(self.wrong(&format!(
                "{owner} has an auth-provider ({:?}), which Kubernetes has removed; use an exec plugin",
                provider.name
            )));
        }
        let token = user.token.filter(|token| is_set(Some(token)));
        if token.is_none() {
            self.opens("token", &user.token_file)?;
        }
        let client_certificate = self.blob(user.client_certificate_data, &user.client_certificate);
        let client_key = self.blob(user.client_key_data, &user.client_key).filter(|_| client_certificate.is_some());
        let exec = match user.exec {
            None => None,
            Some(exec) => Some(ExecConfig {
                interactive_mode: self.interactive(&owner, &exec)?,
                command: if exec.command.contains('/') {
                    self.resolve(&exec.command).to_string_lossy().into_owned()
                } else {
                    exec.command
                },
                args: exec.args,
                env: exec.env.into_iter().map(|env| (env.name, env.value.unwrap_or_else(|| "".into()))).collect(),
                api_version: match exec.api_version.as_str() {
                    "client.authentication.k8s.io/v1" | "client.authentication.k8s.io/v1beta1" => exec.api_version,
                    _ => {
                        return Err(self.wrong(&format!(
                            "{owner}: exec has an apiVersion that is neither client.authentication.k8s.io/v1 nor \
                             client.authentication.k8s.io/v1beta1; update the plugin's entry"
                        )));
                    }
                },
                install_hint: filled(exec.install_hint),
                provide_cluster_info: exec.provide_cluster_info,
                cluster_config,
            }),
        };
        Ok(User {
            client_certificate,
            client_key,
            token,
            token_file: filled(user.token_file).map(|file| self.resolve(&file)),
            username: filled(user.username),
            password: user.password.filter(|password| is_set(Some(password))),
            impersonate: None,
            exec,
        })
    }
}

fn filled(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

fn is_set(secret: Option<&SecretString>) -> bool {
    secret.is_some_and(|secret| !secret.expose_secret().is_empty())
}

/// Removes `.` and `..` from a path without looking at the file system, as `clientcmd` does.
fn clean(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                clean.pop();
            }
            part => clean.push(part),
        }
    }
    clean
}
