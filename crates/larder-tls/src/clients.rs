//! Who a client is, by the certificate that it shows.
//!
//! The handshake takes any certificate whose key the client has, and any that cannot be read. [`Clients::identify`] verifies the certificate afterwards, so that a
//! refusal is an answer that says what to do, as at the API server, and not a broken handshake.

use crate::authority::Authority;
use crate::certificate::{Certificate, Subject};
use crate::error::TlsError;
use crate::pem;
use jiff::Timestamp;
use parking_lot::RwLock;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zeroize::Zeroizing;

/// Who a client is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Client {
    /// It shows a certificate of an authority that larder trusts.
    Known {
        /// Whom the certificate names.
        subject: Subject,
        /// Whether it is in the group of admins.
        is_admin: bool,
        /// When the certificate expires.
        until: Timestamp,
    },
    /// It shows a certificate that larder does not accept.
    Refused {
        /// Why not, and what to do.
        why: String,
    },
    /// It shows no certificate.
    Anonymous,
}

/// The authorities of clients, kept up to date by [`refresh`](Self::refresh).
#[derive(Debug)]
pub(crate) struct Clients {
    provider: Arc<CryptoProvider>,
    /// The file that is given, and what it held last.
    file: Option<(PathBuf, Zeroizing<Vec<u8>>)>,
    pub(crate) verifier: Arc<Verifier>,
    /// Why the authorities are not those of the file.
    pub(crate) problem: Option<String>,
}

/// Verifies certificates of clients.
#[derive(Debug)]
pub(crate) struct Verifier(RwLock<Arc<dyn ClientCertVerifier>>);

impl Clients {
    /// The authorities of a file, besides larder's own.
    pub(crate) fn open(
        own: Option<&Authority>,
        file: Option<&Path>,
        provider: Arc<CryptoProvider>,
    ) -> Result<Self, TlsError> {
        let file = file.map(|path| Ok::<_, TlsError>((path.to_owned(), pem::read(path)?))).transpose()?;
        let given = file.as_ref().map(|(path, pem)| (path.as_path(), &pem[..]));
        let verifier = Arc::new(Verifier(RwLock::new(verifier(own, given, &provider)?)));
        Ok(Self { provider, file, verifier, problem: None })
    }

    /// Takes new authorities if the file has changed. Returns whether it did.
    pub(crate) fn refresh(&mut self, own: Option<&Authority>) -> bool {
        let Some((path, last)) = &mut self.file else { return false };
        let read = match pem::read(path) {
            Ok(read) if read == *last => return false,
            read => read,
        };
        let new = read.and_then(|read| {
            *last = read;
            verifier(own, Some((path, last)), &self.provider)
        });
        match new {
            Ok(new) => {
                *self.verifier.0.write() = new;
                self.problem = None;
                true
            }
            Err(error) => {
                if matches!(error, TlsError::Read { .. }) {
                    // Once the file can be read again it counts as changed.
                    last.clear();
                }
                self.problem = Some(format!("{}; larder goes on with the authorities before", error.in_a_line()));
                false
            }
        }
    }
}

impl Verifier {
    /// Who a client with these certificates is.
    pub(crate) fn identify(&self, chain: Option<&[CertificateDer<'_>]>, admins: &str, now: Timestamp) -> Client {
        let Some((first, others)) = chain.and_then(|chain| chain.split_first()) else { return Client::Anonymous };
        if is_unreadable(first) {
            return Client::Refused { why: "it is no X.509 certificate of version 3: issue it again".to_owned() };
        }
        let verifier = Arc::clone(&self.0.read());
        if let Err(error) = verifier.verify_client_cert(first, others, crate::unix_time(now)) {
            return Client::Refused { why: in_words(&error) };
        }
        match Certificate::read(first) {
            Some(Certificate { subject, not_after, .. }) => {
                let is_admin = subject.groups.iter().any(|group| group == admins);
                Client::Known { subject, is_admin, until: not_after }
            }
            None => Client::Refused { why: "its subject cannot be read".to_owned() },
        }
    }
}

/// Whether a certificate cannot be read, such as one of X.509 version 1. [`Verifier::identify`] refuses such a client, so the handshake
/// does not look at its signature.
fn is_unreadable(certificate: &CertificateDer<'_>) -> bool {
    ParsedCertificate::try_from(certificate).is_err()
}

fn in_words(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. }) => {
            "it has expired".to_owned()
        }
        Error::InvalidCertificate(CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. }) => {
            "it is not valid yet: compare the clocks of the two machines".to_owned()
        }
        Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => {
            "its authority is neither larder's own nor one of --client-ca".to_owned()
        }
        Error::InvalidCertificate(
            CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. },
        ) => "it is not a client's certificate".to_owned(),
        _ => "it cannot be verified".to_owned(),
    }
}

fn verifier(
    own: Option<&Authority>,
    file: Option<(&Path, &[u8])>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let mut roots = RootCertStore::empty();
    let path = || file.map(|(path, _)| path.to_owned()).unwrap_or_default();
    let unusable = |problem: String| TlsError::Unusable { path: path(), problem };
    if let Some(own) = own {
        roots.add(own.certificate().clone()).map_err(|error| unusable(error.to_string()))?;
    }
    if let Some((path, text)) = file {
        for certificate in pem::certificates(text, path)? {
            let added = roots.add(certificate);
            added.map_err(|_| unusable("one of its certificates cannot be read; issue it again".to_owned()))?;
        }
    }
    let built = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider)).build();
    built.map_err(|error| unusable(error.to_string()))
}

/// Takes any certificate whose key the client has, and any that cannot be read. It decides nothing else: see [`Verifier::identify`].
#[derive(Debug)]
pub(crate) struct AnyCertificate(pub(crate) Arc<CryptoProvider>);

impl ClientCertVerifier for AnyCertificate {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    /// Names no authority: a client that has a certificate of another one would show none.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        if is_unreadable(certificate) {
            return Ok(HandshakeSignatureValid::assertion());
        }
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        if is_unreadable(certificate) {
            return Ok(HandshakeSignatureValid::assertion());
        }
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
