//! The serving certificate: larder's own, or one whose files somebody else keeps.
//!
//! # Guarantees
//!
//! - A new certificate is for new handshakes. Open connections go on.
//! - While a new certificate cannot be used, larder serves the one before.

use crate::authority::{Authority, Issued};
use crate::certificate::Certificate;
use crate::error::TlsError;
use crate::pem;
use jiff::Timestamp;
use larder_file::private::PrivateFolder;
use parking_lot::RwLock;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use zeroize::Zeroizing;

/// The file of larder's own serving certificate: its key and the certificate.
const FILE: &str = "serving.pem";
/// How long larder's own serving certificate lasts. larder replaces it when a third of that is left.
const LIFE: Duration = Duration::from_hours(90 * 24);
const KEYS: &str = "larder takes RSA keys of 2048 to 4096 bits and keys of the curves P-256, P-384 and Ed25519";

/// A serving certificate that handshakes can use.
#[derive(Clone, Debug)]
pub(crate) struct Served {
    key: Arc<CertifiedKey>,
    certificate: Certificate,
}

impl Served {
    fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        (certificate_file, key_file): (&Path, &Path),
        provider: &CryptoProvider,
    ) -> Result<Self, TlsError> {
        let bad = |path: &Path, problem: String| TlsError::Unusable { path: path.to_owned(), problem };
        let read = chain.first().and_then(|first| Certificate::read(first));
        let certificate = read
            .ok_or_else(|| bad(certificate_file, "its first certificate cannot be read; issue it again".to_owned()))?;
        let key = provider.key_provider.load_private_key(key);
        let key = key.map_err(|_| bad(key_file, format!("its private key cannot be used; {KEYS}")))?;
        if key.public_key().is_some_and(|key| key.as_ref() != certificate.public_key) {
            let problem = format!(
                "its private key does not belong to the certificate of {}; give the two that were issued together",
                certificate_file.display()
            );
            return Err(bad(key_file, problem));
        }
        Ok(Self { key: Arc::new(CertifiedKey::new(chain, key)), certificate })
    }

    pub(crate) fn not_after(&self) -> Timestamp {
        self.certificate.not_after
    }

    pub(crate) fn names(&self) -> &BTreeSet<String> {
        &self.certificate.names
    }

    /// Whether a third of its life is left.
    fn is_fresh(&self, now: Timestamp) -> bool {
        let (from, to) = (self.certificate.not_before, self.certificate.not_after);
        let life = to.duration_since(from);
        from <= now && now.duration_since(from) < life / 3 * 2
    }
}

/// Where the serving certificate comes from.
#[derive(Debug)]
enum Origin {
    /// larder issues it. `unsaved` could not be written to the folder yet.
    Own { unsaved: Option<Zeroizing<String>> },
    /// Two files that somebody else keeps, and what they held last.
    Files { certificate: PathBuf, key: PathBuf, last: [Zeroizing<Vec<u8>>; 2] },
}

/// The serving certificate, kept up to date by [`refresh`](Self::refresh).
#[derive(Debug)]
pub(crate) struct Serving {
    provider: Arc<CryptoProvider>,
    origin: Origin,
    pub(crate) resolver: Arc<Resolver>,
    /// Why the certificate is not the one that it should be.
    pub(crate) problem: Option<String>,
}

/// Hands the certificate to handshakes.
#[derive(Debug)]
pub(crate) struct Resolver(RwLock<Served>);

impl Resolver {
    pub(crate) fn served(&self) -> Served {
        self.0.read().clone()
    }

    fn set(&self, served: Served) {
        *self.0.write() = served;
    }
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read().key))
    }
}

impl Serving {
    /// The files that are given.
    pub(crate) fn of_files(certificate: &Path, key: &Path, provider: Arc<CryptoProvider>) -> Result<Self, TlsError> {
        let last = [pem::read(certificate)?, pem::read(key)?];
        let served = of_files(certificate, key, &last, &provider)?;
        let origin = Origin::Files { certificate: certificate.to_owned(), key: key.to_owned(), last };
        Ok(Self { provider, origin, resolver: Arc::new(Resolver(RwLock::new(served))), problem: None })
    }

    /// larder's own certificate from the folder, or a new one if it is not for these names, about to expire, or of another authority.
    pub(crate) fn of_authority(
        authority: &Authority,
        folder: &PrivateFolder,
        names: &BTreeSet<String>,
        now: Timestamp,
        provider: Arc<CryptoProvider>,
    ) -> Result<Self, TlsError> {
        let path = folder.path_of(FILE);
        let kept = folder.read(FILE)?.map(Zeroizing::new);
        let kept = kept.map(|pem| of_own(&pem, &path, &provider)).transpose()?;
        let is_good = |served: &Served| {
            let is_issued = || is_issued_by(&served.key.cert, authority, now, &provider);
            served.is_fresh(now) && names.is_subset(served.names()) && is_issued()
        };
        let served = if let Some(served) = kept.filter(is_good) {
            served
        } else {
            let (served, pem) = issue(authority, folder, names, now, &provider)?;
            folder.write(FILE, pem.as_bytes())?;
            served
        };
        let resolver = Arc::new(Resolver(RwLock::new(served)));
        Ok(Self { provider, origin: Origin::Own { unsaved: None }, resolver, problem: None })
    }

    pub(crate) fn is_own(&self) -> bool {
        matches!(self.origin, Origin::Own { .. })
    }

    /// Takes a new certificate if there is or should be one. Returns whether it did.
    pub(crate) fn refresh(
        &mut self,
        own: Option<(&Authority, &PrivateFolder)>,
        names: &BTreeSet<String>,
        now: Timestamp,
    ) -> bool {
        let before = self.resolver.served();
        let outcome = match (&mut self.origin, own) {
            (Origin::Own { unsaved }, Some((authority, folder))) => {
                // A certificate that lasts as long as its authority cannot be put off.
                let is_last = before.not_after().as_second() == authority.not_after().as_second();
                let new = if (before.is_fresh(now) || is_last) && before.names() == names {
                    Ok(None)
                } else {
                    issue(authority, folder, names, now, &self.provider).map(|(served, pem)| {
                        *unsaved = Some(pem);
                        Some(served)
                    })
                };
                // It serves even if it cannot be written: the one in the folder may be about to expire.
                let saved = unsaved.as_ref().map(|pem| folder.write(FILE, pem.as_bytes()));
                match saved {
                    None => {}
                    Some(Ok(())) => *unsaved = None,
                    Some(Err(error)) => {
                        let error = TlsError::from(error).in_a_line();
                        self.problem = Some(format!("{error}; the new certificate is only in memory"));
                    }
                }
                if unsaved.is_none() && new.is_ok() {
                    self.problem = None;
                }
                new
            }
            (Origin::Own { .. }, None) => Ok(None),
            (Origin::Files { certificate, key, last }, _) => {
                let read = || Ok([pem::read(certificate)?, pem::read(key)?]);
                match read() {
                    Ok(read) if read == *last => Ok(None),
                    Ok(read) => {
                        *last = read;
                        of_files(certificate, key, last, &self.provider).map(Some)
                    }
                    // Once the files can be read again they count as changed.
                    Err(error) => {
                        *last = Default::default();
                        Err(error)
                    }
                }
            }
        };
        match outcome {
            Ok(None) => false,
            Ok(Some(served)) => {
                if !self.is_own() {
                    self.problem = None;
                }
                self.resolver.set(served);
                true
            }
            Err(error) => {
                self.problem = Some(format!("{}; larder goes on with the certificate before", error.in_a_line()));
                false
            }
        }
    }
}

fn of_files(
    certificate: &Path,
    key: &Path,
    [certificate_pem, key_pem]: &[Zeroizing<Vec<u8>>; 2],
    provider: &CryptoProvider,
) -> Result<Served, TlsError> {
    let chain = pem::certificates(certificate_pem, certificate)?;
    Served::new(chain, pem::private_key(key_pem, key)?, (certificate, key), provider)
}

fn of_own(text: &[u8], path: &Path, provider: &CryptoProvider) -> Result<Served, TlsError> {
    let chain = pem::certificates(text, path);
    let served = chain.and_then(|chain| Served::new(chain, pem::private_key(text, path)?, (path, path), provider));
    served.map_err(|error| match error {
        TlsError::Unusable { path, problem } => {
            let problem = format!("{problem}; or remove the file, and larder makes another at its next start");
            TlsError::Unusable { path, problem }
        }
        other => other,
    })
}

fn issue(
    authority: &Authority,
    folder: &PrivateFolder,
    names: &BTreeSet<String>,
    now: Timestamp,
    provider: &CryptoProvider,
) -> Result<(Served, Zeroizing<String>), TlsError> {
    let Issued { certificate, key, .. } = authority.issue_serving(names, LIFE, now)?;
    let pem = Zeroizing::new([key.as_str(), &certificate].concat());
    Ok((of_own(pem.as_bytes(), &folder.path_of(FILE), provider)?, pem))
}

/// Whether the first certificate is valid now, and of this authority.
fn is_issued_by(
    chain: &[CertificateDer<'static>],
    authority: &Authority,
    now: Timestamp,
    provider: &CryptoProvider,
) -> bool {
    let verified = || {
        let certificate = webpki::EndEntityCert::try_from(chain.first()?).ok()?;
        let anchor = webpki::anchor_from_trusted_cert(authority.certificate()).ok()?;
        let algorithms = provider.signature_verification_algorithms.all;
        let usage = webpki::KeyUsage::server_auth();
        certificate
            .verify_for_usage(algorithms, &[anchor], &[], crate::unix_time(now), usage, None, None)
            .ok()
            .map(drop)
    };
    verified().is_some()
}
