//! A serving certificate in memory, of an authority that only it has.
//!
//! # Guarantees
//!
//! - No key reaches a file. The key of the authority is dropped once it has issued the certificate.

use crate::authority::{Authority, Issued};
use crate::error::TlsError;
use crate::pem;
use jiff::Timestamp;
use rustls::ServerConfig;
use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long the certificate is valid: longer than a process runs.
const LIFE: Duration = Duration::from_hours(365 * 24);
/// In place of the path of a file, for messages.
const PLACE: &str = "(in memory)";

/// A serving certificate that lasts as long as this process.
pub struct Ephemeral {
    config: Arc<ServerConfig>,
    authority_pem: String,
}

/// Without the key.
impl fmt::Debug for Ephemeral {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ephemeral").finish_non_exhaustive()
    }
}

impl Ephemeral {
    /// Makes an authority, and a certificate of it for these DNS names and addresses. `owner` stands in the name of the authority.
    ///
    /// ```
    /// let names = ["127.0.0.1".to_owned()].into();
    /// let tls = larder_tls::Ephemeral::make("127.0.0.1:8001", &names, "2026-12-01T00:00:00Z".parse()?)?;
    /// assert!(tls.authority_pem().starts_with("-----BEGIN CERTIFICATE-----"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If a name cannot stand in a certificate, or if the clock cannot be right.
    pub fn make(owner: &str, names: &BTreeSet<String>, now: Timestamp) -> Result<Self, TlsError> {
        let (authority, _) = Authority::make(owner, now)?;
        let Issued { certificate, key, .. } = authority.issue_serving(names, LIFE, now)?;
        let place = Path::new(PLACE);
        let chain = pem::certificates(certificate.as_bytes(), place)?;
        let key = pem::private_key(key.as_bytes(), place)?;
        let failed = |error: rustls::Error| TlsError::Make { of: "the server".to_owned(), problem: error.to_string() };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.map_err(failed)?.with_no_client_auth();
        let config = crate::listener::with_protocols(builder.with_single_cert(chain, key).map_err(failed)?);
        Ok(Self { config: Arc::new(config), authority_pem: authority.certificate_pem().to_owned() })
    }

    /// What handshakes need: HTTP/2 and HTTP/1.1 over TLS 1.2 and 1.3, without certificates of clients.
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }

    /// The certificate of the authority, in PEM.
    pub fn authority_pem(&self) -> &str {
        &self.authority_pem
    }
}
