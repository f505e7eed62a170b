//! The certificates of a listener, and how they stay up to date.

use crate::authority::Authority;
use crate::clients::{AnyCertificate, Client, Clients, Verifier};
use crate::error::TlsError;
use crate::serving::{Resolver, Serving};
use jiff::{SignedDuration, Timestamp};
use larder_file::private::PrivateFolder;
use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::server::NoServerSessionStorage;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

/// How long before its end an authority is a problem.
const WARNING: SignedDuration = SignedDuration::from_hours(30 * 24);

/// Which certificates a listener serves and accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TlsOptions {
    /// The folder of larder's own authority and serving certificate. Default: `/var/lib/larder/tls`.
    pub directory: PathBuf,
    /// The file of a serving certificate that somebody else issues, with its chain. Default: none, larder issues its own.
    pub cert_file: Option<PathBuf>,
    /// The file of the key of that certificate.
    pub private_key_file: Option<PathBuf>,
    /// The file of authorities of clients, besides larder's own. Default: none.
    pub client_ca: Option<PathBuf>,
    /// The group (organization, O) of the clients that may read. Default: `larder:admins`.
    pub admin_group: String,
}

impl Default for TlsOptions {
    fn default() -> Self {
        Self {
            directory: "/var/lib/larder/tls".into(),
            cert_file: None,
            private_key_file: None,
            client_ca: None,
            admin_group: "larder:admins".to_owned(),
        }
    }
}

impl TlsOptions {
    /// Checks the options. `listens` says whether there is a listener.
    ///
    /// ```
    /// let mut options = larder_tls::TlsOptions::default();
    /// options.cert_file = Some("tls.crt".into());
    /// let error = options.validate(true).unwrap_err().to_string();
    /// assert_eq!(error, "setting tls.cert_file: it needs a key: set tls.privateKeyFile (--tls-private-key-file)");
    /// ```
    ///
    /// # Errors
    ///
    /// If only one of certificate and key is given, if files are given without a listener, or if the group is empty.
    pub fn validate(&self, listens: bool) -> Result<(), TlsError> {
        let refuse = |field, problem: &str| Err(TlsError::Option { field, problem: problem.to_owned() });
        if self.cert_file.is_some() && self.private_key_file.is_none() {
            return refuse("cert_file", "it needs a key: set tls.privateKeyFile (--tls-private-key-file)");
        }
        if self.private_key_file.is_some() && self.cert_file.is_none() {
            return refuse("private_key_file", "it needs a certificate: set tls.certFile (--tls-cert-file)");
        }
        for (field, file) in [("cert_file", &self.cert_file), ("client_ca", &self.client_ca)] {
            if file.is_some() && !listens {
                return refuse(field, "it has no effect without an address: set listen (--listen)");
            }
        }
        if self.admin_group.trim().is_empty() {
            return refuse("admin_group", "must not be empty");
        }
        if self.directory.as_os_str().is_empty() {
            return refuse("directory", "must name a folder");
        }
        Ok(())
    }

    /// Whether larder has an authority of its own: always, unless files take the place of both its serving certificate and its clients'
    /// certificates.
    ///
    /// ```
    /// let mut options = larder_tls::TlsOptions::default();
    /// assert!(options.needs_authority());
    /// options.cert_file = Some("tls.crt".into());
    /// assert!(options.needs_authority());
    /// options.client_ca = Some("clients.crt".into());
    /// assert!(!options.needs_authority());
    /// ```
    pub fn needs_authority(&self) -> bool {
        self.cert_file.is_none() || self.client_ca.is_none()
    }
}

/// What has changed in a [refresh](ListenerTls::refresh).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refreshed {
    /// There is a new serving certificate, for new connections.
    pub serving: bool,
    /// The authorities of clients have changed. Open connections may be of clients that larder no longer trusts.
    pub clients: bool,
}

/// The state of the certificates, for a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsState {
    /// When the serving certificate expires.
    pub not_after: Timestamp,
    /// The names and addresses of the serving certificate.
    pub names: BTreeSet<String>,
    /// The file of the serving certificate, if larder does not issue it.
    pub cert_file: Option<PathBuf>,
    /// The folder of larder's own authority, if there is one.
    pub directory: Option<PathBuf>,
    /// The group of the clients that may read.
    pub admin_group: String,
    /// What is wrong, each in a line.
    pub problems: Vec<String>,
}

/// The certificates of a listener.
#[derive(Debug)]
pub struct ListenerTls {
    options: TlsOptions,
    own: Option<(Authority, PrivateFolder)>,
    config: Arc<ServerConfig>,
    resolver: Arc<Resolver>,
    verifier: Arc<Verifier>,
    /// Locked while files are read, which may take long.
    kept: Mutex<(Serving, Clients)>,
    /// What the last refresh could not use, each in a line.
    problems: Mutex<Vec<String>>,
}

impl ListenerTls {
    /// Reads or makes the certificates. `names` are the DNS names and addresses of the listener; an own authority has the name of
    /// `node` in its own.
    ///
    /// # Errors
    ///
    /// [`TlsError`] names the file or folder that cannot be used, and says what to do.
    pub fn open(options: TlsOptions, node: &str, names: &BTreeSet<String>, now: Timestamp) -> Result<Self, TlsError> {
        options.validate(true)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let own = if options.needs_authority() {
            let folder = PrivateFolder::open_or_make(&options.directory)?;
            Some((Authority::open_or_make(&folder, node, now)?, folder))
        } else {
            None
        };
        let authority = own.as_ref().map(|(authority, _)| authority);
        let clients = Clients::open(authority, options.client_ca.as_deref(), Arc::clone(&provider))?;
        let serving = match (&options.cert_file, &options.private_key_file, &own) {
            (Some(certificate), Some(key), _) => Serving::of_files(certificate, key, Arc::clone(&provider))?,
            (_, _, Some((authority, folder))) => {
                Serving::of_authority(authority, folder, names, now, Arc::clone(&provider))?
            }
            // The check of the options rules this out.
            _ => return Err(TlsError::Option { field: "cert_file", problem: "it is needed".to_owned() }),
        };
        let resolver = Arc::clone(&serving.resolver);
        let config = config(Arc::<Resolver>::clone(&resolver), provider)?;
        let verifier = Arc::clone(&clients.verifier);
        Ok(Self {
            options,
            own,
            config: Arc::new(config),
            resolver,
            verifier,
            kept: Mutex::new((serving, clients)),
            problems: Mutex::default(),
        })
    }

    /// What handshakes need: HTTP/2 and HTTP/1.1 over TLS 1.2 and 1.3.
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }

    /// Who a client is that has shown these certificates in its handshake.
    pub fn identify(&self, chain: Option<&[CertificateDer<'_>]>, now: Timestamp) -> Client {
        self.verifier.identify(chain, &self.options.admin_group, now)
    }

    /// Reads the files again, and renews larder's own serving certificate if it is about to expire or not for exactly these names.
    ///
    /// It reads and writes files, and so may block.
    pub fn refresh(&self, names: &BTreeSet<String>, now: Timestamp) -> Refreshed {
        let (serving, clients) = &mut *self.kept.lock();
        let own = self.own.as_ref().map(|(authority, folder)| (authority, folder));
        let refreshed = Refreshed {
            serving: serving.refresh(own, names, now),
            clients: clients.refresh(own.map(|(authority, _)| authority)),
        };
        *self.problems.lock() = serving.problem.iter().chain(&clients.problem).cloned().collect();
        refreshed
    }

    /// The names and addresses of the serving certificate.
    pub fn names(&self) -> BTreeSet<String> {
        self.resolver.served().names().clone()
    }

    /// When the serving certificate expires.
    pub fn not_after(&self) -> Timestamp {
        self.resolver.served().not_after()
    }

    /// The state of the certificates, as of the last refresh. It waits for no file.
    pub fn state(&self, now: Timestamp) -> TlsState {
        let served = self.resolver.served();
        let mut problems = self.problems.lock().clone();
        let file =
            || self.options.cert_file.as_ref().map_or_else(String::new, |file| format!(" of {}", file.display()));
        if served.not_after() <= now {
            let end = served.not_after();
            problems.push(format!("the serving certificate{} expired at {end}: issue it again", file()));
        }
        if let Some((authority, folder)) = &self.own
            && authority.not_after() <= now.saturating_add(WARNING).unwrap_or(now)
        {
            problems.push(format!(
                "larder's own authority ends at {}: remove the files in {}, restart larder, and write every kubeconfig again \
                 (larder kubeconfig)",
                authority.not_after(),
                folder.path().display()
            ));
        }
        TlsState {
            not_after: served.not_after(),
            names: served.names().clone(),
            cert_file: self.options.cert_file.clone(),
            directory: self.own.as_ref().map(|(_, folder)| folder.path().to_owned()),
            admin_group: self.options.admin_group.clone(),
            problems,
        }
    }
}

pub(crate) fn config(
    resolver: Arc<dyn rustls::server::ResolvesServerCert>,
    provider: Arc<CryptoProvider>,
) -> Result<ServerConfig, TlsError> {
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
    let builder =
        builder.map_err(|error| TlsError::Make { of: "the server".to_owned(), problem: error.to_string() })?;
    let builder = builder.with_client_cert_verifier(Arc::new(AnyCertificate(provider)));
    Ok(with_protocols(builder.with_cert_resolver(resolver)))
}

/// Speaks HTTP/2 and HTTP/1.1, and keeps no sessions.
pub(crate) fn with_protocols(mut config: ServerConfig) -> ServerConfig {
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    // A session that is resumed would save a client a millisecond, and cost memory for each client.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config
}
