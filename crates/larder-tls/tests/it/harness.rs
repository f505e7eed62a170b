//! A listener in a folder, its clients, and handshakes in memory.

use jiff::{SignedDuration, Timestamp};
use larder_file::private::PrivateFolder;
use larder_tls::{Authority, Client, Issued, ListenerTls, TlsError, TlsOptions};
use rustls::client::ClientConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::time_provider::TimeProvider;
use rustls::{ClientConnection, RootCertStore, ServerConnection, SupportedProtocolVersion};
use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

pub(crate) const DAY: Duration = Duration::from_hours(24);

/// When everything begins.
pub(crate) fn start() -> Timestamp {
    "2026-12-01T00:00:00Z".parse().unwrap()
}

pub(crate) fn day(days: i64) -> Timestamp {
    start().saturating_add(SignedDuration::from_hours(24 * days)).unwrap()
}

pub(crate) fn names(all: &[&str]) -> BTreeSet<String> {
    all.iter().map(|&name| name.to_owned()).collect()
}

/// A folder with the folder `tls` of a listener.
pub(crate) struct Bench {
    pub(crate) root: TempDir,
    pub(crate) options: TlsOptions,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let mut options = TlsOptions::default();
        options.directory = root.path().join("tls");
        Self { root, options }
    }

    pub(crate) fn open(&self, now: Timestamp) -> Result<ListenerTls, TlsError> {
        ListenerTls::open(self.options.clone(), "node-1", &names(&["localhost", "127.0.0.1"]), now)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.options.directory.join(name)
    }

    /// The authority of the folder.
    pub(crate) fn authority(&self) -> Authority {
        Authority::open(&PrivateFolder::open(&self.options.directory).unwrap()).unwrap()
    }

    pub(crate) fn admin(&self) -> Issued {
        self.authority().issue_client("jane", "larder:admins", DAY, start()).unwrap()
    }
}

#[derive(Debug)]
struct Fixed(Timestamp);

impl TimeProvider for Fixed {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_secs(self.0.as_second().try_into().unwrap())))
    }
}

/// A client that trusts the authorities of this PEM.
pub(crate) struct Peer {
    pub(crate) trusts: String,
    pub(crate) shows: Option<(String, String)>,
    pub(crate) version: &'static SupportedProtocolVersion,
    pub(crate) alpn: &'static [u8],
}

impl Peer {
    pub(crate) fn new(trusts: &str, shows: Option<&Issued>) -> Self {
        let shows = shows.map(|issued| (issued.certificate.clone(), issued.key.to_string()));
        Self { trusts: trusts.to_owned(), shows, version: &rustls::version::TLS13, alpn: b"h2" }
    }

    fn config(&self, now: Timestamp) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(self.trusts.as_bytes()) {
            roots.add(certificate.unwrap()).unwrap();
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_details(provider, Arc::new(Fixed(now)))
            .with_protocol_versions(&[self.version])
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match &self.shows {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = CertificateDer::pem_slice_iter(certificate.as_bytes()).map(Result::unwrap).collect();
                builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap()).unwrap()
            }
        };
        config.alpn_protocols = vec![self.alpn.to_vec()];
        config
    }

    /// A handshake in memory: who the client is, and the connection.
    pub(crate) fn connect(&self, tls: &ListenerTls, name: &str, now: Timestamp) -> Result<Open, rustls::Error> {
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let mut open = Open {
            client: ClientConnection::new(Arc::new(self.config(now)), name)?,
            server: ServerConnection::new(tls.config())?,
            identity: Client::Anonymous,
        };
        while open.client.is_handshaking() || open.server.is_handshaking() {
            open.exchange()?;
        }
        open.exchange()?;
        open.identity = tls.identify(open.server.peer_certificates(), now);
        Ok(open)
    }
}

/// An open connection.
pub(crate) struct Open {
    pub(crate) client: ClientConnection,
    pub(crate) server: ServerConnection,
    pub(crate) identity: Client,
}

impl Open {
    fn exchange(&mut self) -> Result<(), rustls::Error> {
        let mut bytes = Vec::new();
        while self.client.wants_write() {
            self.client.write_tls(&mut bytes).unwrap();
        }
        let mut left = &bytes[..];
        while !left.is_empty() {
            self.server.read_tls(&mut left).unwrap();
            self.server.process_new_packets()?;
        }
        bytes = Vec::new();
        while self.server.wants_write() {
            self.server.write_tls(&mut bytes).unwrap();
        }
        let mut left = &bytes[..];
        while !left.is_empty() {
            self.client.read_tls(&mut left).unwrap();
            self.client.process_new_packets()?;
        }
        Ok(())
    }

    /// Whether the server receives what the client sends.
    pub(crate) fn carries(&mut self, text: &str) -> bool {
        self.client.writer().write_all(text.as_bytes()).unwrap();
        self.exchange().unwrap();
        let mut got = vec![0; text.len()];
        self.server.reader().read_exact(&mut got).is_ok() && got == text.as_bytes()
    }

    /// The certificate that the server has shown.
    pub(crate) fn served(&self) -> CertificateDer<'static> {
        self.client.peer_certificates().unwrap()[0].clone().into_owned()
    }
}

/// A certificate of an authority that is not larder's, with its key: an authority's own, or one that it issues.
pub(crate) struct Foreign {
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Foreign {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = rcgen::CertificateParams::default();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().pem();
        Self { certificate, key: key.serialize_pem(), issuer: rcgen::Issuer::new(params, key) }
    }

    pub(crate) fn issue(&self, names: &[&str], group: &str) -> (String, String) {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = rcgen::CertificateParams::new(names).unwrap();
        params.distinguished_name.push(rcgen::DnType::OrganizationName, group);
        let key = rcgen::KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }
}

pub(crate) fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}
