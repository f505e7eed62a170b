//! Reads a client's configuration: the server, certificates and credentials of a kubeconfig or service account.
//!
//! [`session`](crate::session) calls [`Origin::read`] at the start and for each renewal. [`Endpoint`] makes the connections.

use crate::connector::{Connector, Tcp};
use crate::error::KubeError;
use crate::file::Files;
use crate::kubeconfig::{self, Blob, ClientSettings, Impersonate, User};
use crate::options::KubeOptions;
use crate::plugin::Plugin;
use crate::pool::{Dial, Pool, Route, Transport, Via, Windows};
use crate::proxy::{EXPECTED, Proxy};
use crate::tls::{self, Identity};
use http::header::AUTHORIZATION;
use http::uri::Scheme;
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use k8s_openapi::ByteString;
use rustls::pki_types::ServerName;
use secrecy::{ExposeSecret, SecretString};
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::TlsConnector;
use zeroize::Zeroizing;

/// The largest certificate, key or token file, in bytes.
const LARGEST: u64 = 1 << 20;

/// The folder into which the kubelet mounts a pod's service account.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The origin of a client's configuration, kept so that the configuration can be read again.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    Kubeconfig {
        path: PathBuf,
        context: Option<String>,
    },
    ServiceAccount {
        /// The server, as `https://10.0.0.1:443`.
        server: String,
        folder: PathBuf,
    },
}

/// The part of a configuration that connections depend on. Equal endpoints share connections.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) url: Uri,
    proxy: Option<Proxy>,
    server_name: Option<String>,
    skip_verify: bool,
    authorities: Option<Pem>,
    client: Option<[Pem; 2]>,
}

/// PEM, and its file or field.
#[derive(Clone, PartialEq, Eq)]
struct Pem {
    pem: Zeroizing<Vec<u8>>,
    place: String,
}

/// A configuration with the contents of the files that it names.
pub(crate) struct Configuration {
    pub(crate) endpoint: Endpoint,
    /// The headers of each request: credentials and impersonation.
    pub(crate) headers: HeaderMap,
    /// The credential plugin, if the configuration names one.
    pub(crate) plugin: Option<Plugin>,
    /// Whether the server's address has no scheme.
    without_scheme: bool,
}

impl Configuration {
    /// Warns of what the configuration does not have; for each new session.
    pub(crate) fn tell(&self, origin: &Origin) {
        if self.without_scheme {
            tracing::warn!(
                origin = %origin.in_words(),
                server = %self.endpoint.url,
                "the server has no scheme, so larder uses neither TLS nor credentials; write https:// before it"
            );
        }
    }
}

impl Origin {
    /// The service account of the pod that this process runs in.
    pub(crate) fn service_account() -> Result<Self, KubeError> {
        let var = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let (Some(host), Some(port)) = (var("KUBERNETES_SERVICE_HOST"), var("KUBERNETES_SERVICE_PORT")) else {
            return Err(KubeError::Config {
                origin: "service account of this pod".to_owned(),
                problem: "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set; run in a pod that has a \
                          service account, or give --kubeconfig"
                    .to_owned(),
            });
        };
        let host = if host.contains(':') { format!("[{host}]") } else { host };
        Ok(Self::ServiceAccount { server: format!("https://{host}:{port}"), folder: SERVICE_ACCOUNT.into() })
    }

    /// The configuration's name in messages.
    pub(crate) fn in_words(&self) -> String {
        match self {
            Self::Kubeconfig { path, .. } => format!("kubeconfig {}", path.display()),
            Self::ServiceAccount { .. } => "service account of this pod".to_owned(),
        }
    }

    /// Reads the configuration and the files that it names. It blocks.
    pub(crate) fn read(&self, options: &KubeOptions, files: &Files) -> Result<Configuration, KubeError> {
        let settings = match self {
            Self::Kubeconfig { path, context } => kubeconfig::load(path, context.as_deref(), files)?,
            Self::ServiceAccount { server, folder } => ClientSettings {
                server: server.parse().map_err(|_| self.config(&format!("{server} is not the URL of a server")))?,
                without_scheme: false,
                tls_server_name: None,
                insecure_skip_tls_verify: false,
                authorities: Some(Blob::File(folder.join("ca.crt"))),
                proxy_url: None,
                disable_compression: false,
                user: User { token_file: Some(folder.join("token")), ..User::default() },
                namespace: String::new(),
            },
        };
        self.configuration(settings, options, files)
    }

    fn configuration(
        &self,
        settings: ClientSettings,
        options: &KubeOptions,
        files: &Files,
    ) -> Result<Configuration, KubeError> {
        let proxy = match &settings.proxy_url {
            Some(url) => Some(
                Proxy::parse(url)
                    .ok_or_else(|| self.config(&format!("the proxy-url of the context's cluster {EXPECTED}")))?,
            ),
            None => options.proxies.proxy_for(&settings.server)?,
        };
        let authorities = self.blob("certificate authority", settings.authorities.as_ref(), files)?;
        let user = &settings.user;
        let client = match (&user.client_certificate, &user.client_key) {
            (Some(certificate), Some(key)) => {
                let pem = |what, blob| self.pem(what, blob, files);
                Some([pem("client certificate", certificate)?, pem("client key", key)?])
            }
            _ => None,
        };
        let mut headers = HeaderMap::new();
        let token = self.token(user, files)?;
        if let Some(token) = &token {
            headers.insert(AUTHORIZATION, bearer(token).map_err(|problem| self.config(problem))?);
        } else if let Some(name) = &user.username {
            // As client-go: no password without a user name.
            headers.insert(AUTHORIZATION, self.basic(name, user.password.as_ref())?);
        }
        if let Some(impersonate) = &user.impersonate {
            self.impersonate(impersonate, &mut headers)?;
        }
        // As client-go: other credentials win over the plugin.
        let others = headers.contains_key(AUTHORIZATION) || client.is_some();
        let plugin = match &user.exec {
            Some(exec) if !others => {
                let cluster = exec.provide_cluster_info.then(|| cluster_info(&settings, authorities.as_ref()));
                let plugin = Plugin::new(exec, cluster).map_err(|problem| self.config(&problem))?;
                Some(plugin.with_open_files(options.plugin_open_files))
            }
            _ => None,
        };
        let (server_name, skip_verify) = (settings.tls_server_name, settings.insecure_skip_tls_verify);
        let without_scheme = settings.without_scheme;
        let endpoint = Endpoint { url: settings.server, proxy, server_name, skip_verify, authorities, client };
        Ok(Configuration { endpoint, headers, plugin, without_scheme })
    }

    fn blob(&self, what: &'static str, blob: Option<&Blob>, files: &Files) -> Result<Option<Pem>, KubeError> {
        blob.map(|blob| self.pem(what, blob, files)).transpose()
    }

    fn pem(&self, what: &'static str, blob: &Blob, files: &Files) -> Result<Pem, KubeError> {
        Ok(match blob {
            Blob::Inline(pem) => Pem { pem: pem.clone(), place: self.in_words() },
            Blob::File(path) => Pem { pem: self.file(what, path, files)?, place: path.display().to_string() },
        })
    }

    fn file(&self, what: &'static str, path: &Path, files: &Files) -> Result<Zeroizing<Vec<u8>>, KubeError> {
        let read = || {
            let bytes = files.read(path, LARGEST)?;
            if bytes.len() as u64 > LARGEST {
                return Err(io::Error::other(format!("it is larger than {LARGEST} bytes")));
            }
            Ok(bytes)
        };
        read().map_err(|source| KubeError::CredentialFile {
            origin: self.in_words(),
            what,
            path: path.to_owned(),
            source: Arc::new(source),
        })
    }

    /// The trimmed token of the file, or else of the configuration.
    fn token(&self, user: &User, files: &Files) -> Result<Option<Zeroizing<String>>, KubeError> {
        let trimmed = |token: &str| Zeroizing::new(token.trim().to_owned());
        let inline = user.token.as_ref().map(|token| trimmed(token.expose_secret())).filter(|token| !token.is_empty());
        let Some(path) = &user.token_file else { return Ok(inline) };
        let read = self.file("token", path, files).and_then(|bytes| {
            let bad = |problem: &str| self.config(&format!("token {}: {problem}", path.display()));
            let token = trimmed(std::str::from_utf8(&bytes).map_err(|_| bad("it is not text"))?);
            if token.is_empty() { Err(bad("the file is empty")) } else { Ok(token) }
        });
        match (read, inline) {
            (Ok(token), _) if HeaderValue::from_str(&token).is_ok() => Ok(Some(token)),
            (Ok(token), _) => {
                let what = if token.contains('\n') { "has more than one line" } else { "has control characters" };
                Err(self.config(&format!("token {}: the file {what}; leave only the token in it", path.display())))
            }
            (Err(_), Some(inline)) => Ok(Some(inline)),
            (Err(error), None) => Err(error),
        }
    }

    fn basic(&self, name: &str, password: Option<&SecretString>) -> Result<HeaderValue, KubeError> {
        let password = password.map(SecretString::expose_secret).unwrap_or_default();
        let mut value = secret_header(&format!("Basic {}", base64(format!("{name}:{password}").into_bytes())))
            .map_err(|problem| self.config(problem))?;
        value.set_sensitive(true);
        Ok(value)
    }

    fn impersonate(&self, whom: &Impersonate, headers: &mut HeaderMap) -> Result<(), KubeError> {
        let value = |text: &str| {
            HeaderValue::from_str(text)
                .map_err(|_| self.config("a name to impersonate has characters that no header can have"))
        };
        headers.insert("impersonate-user", value(&whom.user)?);
        if let Some(uid) = &whom.uid {
            headers.insert("impersonate-uid", value(uid)?);
        }
        for group in &whom.groups {
            headers.append("impersonate-group", value(group)?);
        }
        for (key, values) in &whom.extra {
            let name = HeaderName::try_from(format!("impersonate-extra-{}", header_key(key)))
                .map_err(|_| self.config("a field of as-user-extra cannot be a header's name"))?;
            for text in values {
                headers.append(&name, value(text)?);
            }
        }
        Ok(())
    }

    pub(crate) fn config(&self, problem: &str) -> KubeError {
        KubeError::Config { origin: self.in_words(), problem: problem.to_owned() }
    }
}

impl Endpoint {
    /// A server with no certificates or proxy.
    fn plain(url: Uri) -> Self {
        Self { url, proxy: None, server_name: None, skip_verify: false, authorities: None, client: None }
    }

    /// Adds a client certificate and its key, with the name of their origin.
    pub(crate) fn with_client(&self, certificate: Zeroizing<Vec<u8>>, key: Zeroizing<Vec<u8>>, place: &str) -> Self {
        let pem = |pem| Pem { pem, place: place.to_owned() };
        Self { client: Some([pem(certificate), pem(key)]), ..self.clone() }
    }

    /// Makes the pool of connections. Blocks while it reads the system's certificate authorities.
    ///
    /// # Errors
    ///
    /// Names the certificate or key that cannot be used, its place and the remedy.
    pub(crate) fn pool(&self, options: &KubeOptions, transport: &Transport) -> Result<Pool, String> {
        self.pool_with(options, transport, Windows::OWN)
    }

    /// The same, of the server alone, without a client certificate: for requests of others.
    pub(crate) fn without_client(&self) -> Self {
        Self { client: None, ..self.clone() }
    }

    /// Makes the pool of connections for requests of others. Blocks as [`pool`](Self::pool) does.
    ///
    /// # Errors
    ///
    /// As [`pool`](Self::pool).
    pub(crate) fn pool_of_others(&self, options: &KubeOptions, transport: &Transport) -> Result<Pool, String> {
        self.without_client().pool_with(options, transport, Windows::OF_OTHERS)
    }

    fn pool_with(&self, options: &KubeOptions, transport: &Transport, windows: Windows) -> Result<Pool, String> {
        fn with_place(pem: &Pem) -> (&[u8], &str) {
            (&pem.pem, &pem.place)
        }
        let name = server_name(&self.url, self.server_name.as_deref())?;
        let proxy_name = match &self.proxy {
            Some(proxy) => server_name(proxy.address(), None)?,
            None => None,
        };
        // Report unusable certificates at the start even if no TLS is spoken.
        let needed = name.is_some() || proxy_name.is_some() || self.authorities.is_some() || self.client.is_some();
        let tls = if needed {
            Some(tls::config(&Identity {
                authorities: self.authorities.as_ref().map(with_place),
                client: self.client.as_ref().map(|pair| pair.each_ref().map(with_place)),
                skip_verify: self.skip_verify,
            })?)
        } else {
            None
        };
        let via = self.proxy.clone().map(|proxy| {
            let tls = tls.clone().zip(proxy_name).map(|(config, name)| (TlsConnector::from(Arc::new(config)), name));
            Via { proxy, tls, timeout: options.connect_timeout }
        });
        let connector: Arc<dyn Connector> = options.connector.clone().unwrap_or_else(|| Arc::new(Tcp::new(options)));
        let dial = Dial::new(Route::new(connector, via), tls.zip(name), self.url.clone(), options, windows);
        Ok(Pool::new(dial, options, transport))
    }

    /// The scheme, host and port of the server, and the path in its address, which a request's own path follows.
    pub(crate) fn base(&self) -> String {
        let url = &self.url;
        let host = url.authority().map_or("", |authority| authority.as_str().rsplit('@').next().unwrap_or_default());
        format!("{}://{host}{}", url.scheme_str().unwrap_or("http"), url.path().trim_end_matches('/'))
    }

    /// The server's address and proxy for messages, without users and passwords.
    pub(crate) fn server(&self) -> Arc<str> {
        let url = &self.url;
        let host = url.authority().map_or("", |authority| authority.as_str().rsplit('@').next().unwrap_or_default());
        let server = format!("{}://{host}", url.scheme_str().unwrap_or("http"));
        self.proxy.as_ref().map_or_else(|| server.clone(), |proxy| format!("{server} through the proxy {proxy}")).into()
    }
}

/// The configuration of a server without credentials.
pub(crate) fn without_credentials(server: &str) -> Result<Configuration, KubeError> {
    let bad = || KubeError::Config { origin: format!("server {server:?}"), problem: "not the URL of a server".into() };
    let url: Uri = server.parse().map_err(|_| bad())?;
    if url.scheme().is_none() || url.host().is_none_or(str::is_empty) {
        return Err(bad());
    }
    let endpoint = Endpoint::plain(url);
    Ok(Configuration { endpoint, headers: HeaderMap::new(), plugin: None, without_scheme: false })
}

/// The header of a token.
pub(crate) fn bearer(token: &str) -> Result<HeaderValue, &'static str> {
    secret_header(&format!("Bearer {token}"))
}

/// A key as the suffix of a header's name, escaped as client-go does.
fn header_key(key: &str) -> String {
    let mut escaped = String::with_capacity(key.len());
    for byte in key.bytes() {
        if byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}

fn secret_header(text: &str) -> Result<HeaderValue, &'static str> {
    let mut value =
        HeaderValue::from_str(text).map_err(|_| "the token or password has characters that no header can have")?;
    value.set_sensitive(true);
    Ok(value)
}

/// The cluster information that a plugin gets.
fn cluster_info(settings: &ClientSettings, authorities: Option<&Pem>) -> serde_json::Value {
    let mut cluster = serde_json::json!({
        "server": settings.server.to_string().trim_end_matches('/'),
        "config": settings.user.exec.as_ref().and_then(|exec| exec.cluster_config.clone()),
    });
    if let Some(name) = &settings.tls_server_name {
        cluster["tls-server-name"] = name.as_str().into();
    }
    if settings.insecure_skip_tls_verify {
        cluster["insecure-skip-tls-verify"] = true.into();
    }
    if let Some(authorities) = authorities {
        cluster["certificate-authority-data"] = base64(authorities.pem.to_vec()).into();
    }
    if let Some(url) = &settings.proxy_url {
        cluster["proxy-url"] = url.as_str().into();
    }
    if settings.disable_compression {
        cluster["disable-compression"] = true.into();
    }
    cluster
}

fn base64(bytes: Vec<u8>) -> String {
    let encoded = serde_json::to_value(ByteString(bytes));
    encoded.ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

/// The name that the server's certificate must have; none without TLS.
fn server_name(url: &Uri, named: Option<&str>) -> Result<Option<ServerName<'static>>, String> {
    if url.scheme() != Some(&Scheme::HTTPS) {
        return Ok(None);
    }
    let name = named.unwrap_or_else(|| url.host().unwrap_or_default().trim_matches(['[', ']']));
    let bad = |_| format!("{name:?} cannot be the name in a server's certificate; set tls-server-name to one that can");
    ServerName::try_from(name.to_owned()).map(Some).map_err(bad)
}

/// Makes a path absolute, so that a later change of the working directory does not matter.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests;
