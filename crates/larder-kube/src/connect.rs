//! From a kubeconfig or a service account to a client, with errors that say which file and what about it.

use crate::connector::{Connector, Tcp};
use crate::error::{KubeError, causes};
use crate::options::KubeOptions;
use crate::pool::{AGENT, Dial, Endpoint, Pool, Route, Transport, Via};
use crate::proxy::{EXPECTED, Proxy};
use http::HeaderValue;
use http::header::USER_AGENT;
use kube::client::{AuthError, Body, ConfigExt};
use kube::config::{AuthInfo, Cluster, Config, KubeConfigOptions, Kubeconfig, KubeconfigError, LoadDataError};
use rustls::pki_types::ServerName;
use secrecy::{ExposeSecret, SecretString};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::TlsConnector;
use tower::{BoxError, ServiceBuilder};
use zeroize::Zeroizing;

/// The longest that reading credentials may take; a credential plugin may have to ask its own server.
const CREDENTIALS: Duration = Duration::from_mins(1);

/// What kube is shown as a kubeconfig's proxy. Without one it would look into the environment by rules of its own, and fail
/// where larder says what is wrong.
const UNUSED_PROXY: &str = "http://unused.invalid";

/// Where a client's server and credentials come from, to read them again when they have been renewed.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    Kubeconfig { path: PathBuf, context: Option<String> },
    ServiceAccount,
}

impl Origin {
    /// In a message, where the configuration came from.
    fn in_words(&self) -> String {
        match self {
            Self::Kubeconfig { path, .. } => format!("kubeconfig {}", path.display()),
            Self::ServiceAccount => "service account of this pod".to_owned(),
        }
    }

    /// Reads configuration and credentials and makes a client of them; returns the server's address too.
    ///
    /// Files and plugins are read on tokio's pool for what blocks. A plugin that does not end keeps its thread there.
    pub(crate) async fn connect(
        &self,
        options: &KubeOptions,
        transport: &Transport,
    ) -> Result<(kube::Client, Arc<str>), KubeError> {
        install_crypto();
        let (mut config, proxy) = self.load(options).await?;
        let server = address(&config.cluster_url, proxy.as_ref());
        let origin = self.clone();
        let (options, transport) = (options.clone(), transport.clone());
        let build = tokio::task::spawn_blocking(move || {
            trim_token(&mut config.auth_info);
            client(&config, proxy, &options, &transport).map_err(|error| origin.explain(error))
        });
        match tokio::time::timeout(CREDENTIALS, build).await {
            Ok(Ok(client)) => Ok((client?, server)),
            Ok(Err(_)) => Err(self.config("reading the credentials failed")),
            Err(_) => Err(self.config(&format!("reading the credentials took longer than {CREDENTIALS:?}"))),
        }
    }

    /// The configuration, and the proxy that leads to its server.
    async fn load(&self, options: &KubeOptions) -> Result<(Config, Option<Proxy>), KubeError> {
        let mut named = None;
        let mut config = match self {
            Self::ServiceAccount => {
                let advice = "run in a pod that has one, or give --kubeconfig";
                Config::incluster().map_err(|error| self.config(&format!("{}; {advice}", causes(&error))))?
            }
            Self::Kubeconfig { path, context } => {
                let file = path.clone();
                let read = tokio::task::spawn_blocking(move || Kubeconfig::read_from(file));
                let mut kubeconfig = match tokio::time::timeout(CREDENTIALS, read).await {
                    Ok(Ok(read)) => read.map_err(|error| self.unreadable(error))?,
                    Ok(Err(_)) | Err(_) => return Err(self.config("reading it did not end")),
                };
                let known: Vec<String> = kubeconfig.contexts.iter().map(|named| named.name.clone()).collect();
                let choice = KubeConfigOptions { context: context.clone(), ..KubeConfigOptions::default() };
                if let Some(cluster) = cluster_of(&mut kubeconfig, context.as_deref()) {
                    named = cluster.proxy_url.replace(UNUSED_PROXY.to_owned()).filter(|url| !url.is_empty());
                }
                Config::from_custom_kubeconfig(kubeconfig, &choice).await.map_err(|error| match error {
                    KubeconfigError::LoadContext(context) => {
                        KubeError::UnknownContext { path: path.clone(), context, known }
                    }
                    KubeconfigError::CurrentContextNotSet => self.config("it sets no current-context; give a context"),
                    other => self.unreadable(other),
                })?
            }
        };
        config.proxy_url = None;
        let proxy = match &named {
            Some(url) => Some(self.proxy(url)?),
            None => options.proxies.proxy_for(&config.cluster_url)?,
        };
        if let Some(told) = config.auth_info.exec.as_mut().and_then(|exec| exec.cluster.as_mut()) {
            told.proxy_url = named;
        }
        // Larder's own deadlines and retries apply; see `KubeOptions`.
        config.default_retry = false;
        config.connect_timeout = Some(options.connect_timeout);
        Ok((config, proxy))
    }

    /// The proxy that a kubeconfig names.
    fn proxy(&self, url: &str) -> Result<Proxy, KubeError> {
        let wrong = || self.config(&format!("the proxy-url of the context's cluster {EXPECTED}"));
        Proxy::parse(url).ok_or_else(wrong)
    }

    fn config(&self, problem: &str) -> KubeError {
        KubeError::Config { origin: self.in_words(), problem: problem.to_owned() }
    }

    fn file(&self, what: &'static str, error: LoadDataError) -> KubeError {
        match error {
            LoadDataError::ReadFile(source, path) => {
                KubeError::CredentialFile { origin: self.in_words(), what, path, source: source.into() }
            }
            LoadDataError::DecodeBase64(_) => self.config(&format!("the data of the {what} is not base64")),
            LoadDataError::NoBase64DataOrFile => self.config(&format!("it has no {what}")),
        }
    }

    fn unreadable(&self, error: KubeconfigError) -> KubeError {
        match error {
            KubeconfigError::ReadConfig(source, path) => {
                KubeError::KubeconfigUnreadable { path, source: source.into() }
            }
            KubeconfigError::Parse(error) => {
                let path = match self {
                    Self::Kubeconfig { path, .. } => path.clone(),
                    Self::ServiceAccount => PathBuf::new(),
                };
                // The error's own text quotes the file, which may hold a token.
                let problem = error.location().map_or_else(
                    || "not the YAML of a kubeconfig".to_owned(),
                    |place| format!("not the YAML of a kubeconfig, at line {} column {}", place.line(), place.column()),
                );
                KubeError::KubeconfigInvalid { path, problem }
            }
            KubeconfigError::LoadCertificateAuthority(error) => self.file("certificate authority", error),
            KubeconfigError::LoadClientCertificate(error) => self.file("client certificate", error),
            KubeconfigError::LoadClientKey(error) => self.file("client key", error),
            other => self.config(&causes(&other)),
        }
    }

    fn explain(&self, error: kube::Error) -> KubeError {
        match error {
            kube::Error::InferKubeconfig(error) => self.unreadable(error),
            kube::Error::Auth(AuthError::ReadTokenFile(source, path)) => {
                KubeError::CredentialFile { origin: self.in_words(), what: "token", path, source: source.into() }
            }
            kube::Error::Auth(error) => self.config(&credentials(&error)),
            other => self.config(&causes(&other)),
        }
    }
}

/// Why credentials could not be had. The output of a plugin is left out, it may hold them.
pub(crate) fn credentials(error: &AuthError) -> String {
    match error {
        // Its command line has the environment that it was given.
        AuthError::AuthExecRun { out, .. } => {
            format!("the user's exec credential plugin ended with {}; run it by hand to see why", out.status)
        }
        AuthError::AuthExecParse(_) => {
            "the output of the user's exec credential plugin is not an ExecCredential".to_owned()
        }
        other => causes(other),
    }
}

/// Takes the blanks around a token away, such as the newline that most files end with, as client-go does; kube refuses such a
/// token. A file that has some is read again when the server refuses the token, instead of every minute.
fn trim_token(user: &mut AuthInfo) {
    let token = match (&user.token, &user.token_file) {
        (Some(token), _) => Zeroizing::new(token.expose_secret().to_owned()),
        (None, Some(file)) => match std::fs::read_to_string(file) {
            Ok(token) => Zeroizing::new(token),
            // kube reads it too, and says why it cannot.
            Err(_) => return,
        },
        (None, None) => return,
    };
    let trimmed = token.trim();
    if trimmed.len() < token.len() {
        user.token = Some(SecretString::from(trimmed));
    }
}

/// The service that requests go through: base address, credentials and headers before the connections.
fn client(
    config: &Config,
    proxy: Option<Proxy>,
    options: &KubeOptions,
    transport: &Transport,
) -> Result<kube::Client, kube::Error> {
    let pool = transport.pool(endpoint(config, proxy.as_ref()), || pool(config, proxy, options, transport))?;
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_request(|mut request: http::Request<Body>| {
            request.headers_mut().insert(USER_AGENT, HeaderValue::from_static(AGENT));
            request
        })
        .map_err(BoxError::from)
        .service(pool);
    Ok(kube::Client::new(service, config.default_namespace.clone()))
}

/// What makes connections interchangeable; none where they depend on who opened them, by a client certificate, which a
/// credential plugin may give too.
fn endpoint(config: &Config, proxy: Option<&Proxy>) -> Option<Endpoint> {
    let user = &config.auth_info;
    let certified = user.client_certificate.is_some() || user.client_certificate_data.is_some() || user.exec.is_some();
    (!certified).then(|| Endpoint {
        url: config.cluster_url.clone(),
        proxy: proxy.cloned(),
        authorities: config.root_cert.clone(),
        server_name: config.tls_server_name.clone(),
        trusts_anyone: config.accept_invalid_certs,
    })
}

fn pool(
    config: &Config,
    proxy: Option<Proxy>,
    options: &KubeOptions,
    transport: &Transport,
) -> Result<Pool, kube::Error> {
    // Also where no TLS is spoken: certificates that cannot be used are told at the start.
    let client = config.rustls_client_config()?;
    let via = proxy.map(|proxy| {
        let name = server_name(proxy.address(), None);
        let tls = name.map(|name| (TlsConnector::from(Arc::new(client.clone())), name));
        Via { proxy, tls, timeout: options.connect_timeout }
    });
    let name = server_name(&config.cluster_url, config.tls_server_name.as_deref());
    let tls = name.map(|name| (client, name));
    let route = Route::new(connector(options), via);
    Ok(Pool::new(Dial::new(route, tls, config.cluster_url.clone(), options), options, transport))
}

fn connector(options: &KubeOptions) -> Arc<dyn Connector> {
    options.connector.clone().unwrap_or_else(|| Arc::new(Tcp::new(options)))
}

/// A client for a server that asks for no credentials.
pub(crate) fn without_credentials(
    server: &str,
    options: &KubeOptions,
    transport: &Transport,
) -> Result<(kube::Client, Arc<str>), KubeError> {
    install_crypto();
    let bad = || KubeError::Config { origin: format!("server {server:?}"), problem: "not the URL of a server".into() };
    let url: http::Uri = server.parse().map_err(|_| bad())?;
    let mut config = Config::new(url);
    config.default_retry = false;
    let client = client(&config, None, options, transport).map_err(|_| bad())?;
    Ok((client, address(&config.cluster_url, None)))
}

/// The name that the certificate of a server must have; none for one without TLS, and for a name that cannot be one.
fn server_name(url: &http::Uri, named: Option<&str>) -> Option<ServerName<'static>> {
    let host = url.host().filter(|_| url.scheme() == Some(&http::uri::Scheme::HTTPS))?;
    ServerName::try_from(named.unwrap_or(host.trim_matches(['[', ']'])).to_owned()).ok()
}

/// Several providers of cryptography may be linked; without a choice rustls would panic at the first connection.
fn install_crypto() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // An error means that another thread has just made the choice.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}

/// The cluster of a context, or of the current one.
fn cluster_of<'a>(kubeconfig: &'a mut Kubeconfig, context: Option<&str>) -> Option<&'a mut Cluster> {
    let context = context.or(kubeconfig.current_context.as_deref())?;
    let context = kubeconfig.contexts.iter().find(|named| named.name == context)?.context.as_ref()?;
    kubeconfig.clusters.iter_mut().find(|named| named.name == context.cluster)?.cluster.as_mut()
}

/// A server's address for messages, with the proxy that leads to it, without the names and passwords of users.
fn address(url: &http::Uri, proxy: Option<&Proxy>) -> Arc<str> {
    let host = url.authority().map_or("", |authority| authority.as_str().rsplit('@').next().unwrap_or_default());
    let server = format!("{}://{host}", url.scheme_str().unwrap_or("http"));
    proxy.map_or_else(|| server.clone(), |proxy| format!("{server} through the proxy {proxy}")).into()
}

/// A path as it was given, made absolute, so that it can be read again from another working directory.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
