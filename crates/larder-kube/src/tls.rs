//! The TLS configuration for an API server, from the certificates and keys of a client's configuration.
//!
//! # Guarantees
//!
//! - *As Go*: the server's certificate is verified against the authorities of the configuration, or against the system's if the
//!   configuration names none. A server may show a certificate that is itself among the authorities, with the same checks of names
//!   and times; webpki refuses one that is marked as an authority. PEM is read as Go reads it. A key may be PKCS#1, SEC1 or PKCS#8
//!   under any label.
//! - *Refused at the start*: the error for a certificate or key that rustls cannot use names its file and the remedy.
//!
//! # Differs from client-go
//!
//! RSA keys have 2048 to 4096 bits (authorities: up to 8192), and P-224 and P-521 keys are refused: ring supports neither.

mod der;
mod pem;

use der::Element;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConfig, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, alg_id};
use rustls::server::ParsedCertificate;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::io;
use std::ops::RangeInclusive;
use std::sync::Arc;
use zeroize::Zeroizing;

/// The shortest and longest RSA key that ring verifies with, in bytes.
const RSA_BYTES: RangeInclusive<usize> = 2048 / 8..=8192 / 8;

const KEYS: &str = "larder takes RSA keys of 2048 to 4096 bits and keys of the curves P-256, P-384 and Ed25519";

/// The certificates and keys to use, each with its origin for messages.
pub(crate) struct Identity<'a> {
    /// The authorities' PEM and its origin; none for the system's.
    pub(crate) authorities: Option<(&'a [u8], &'a str)>,
    /// The client certificate's PEM and its key's, each with its origin.
    pub(crate) client: Option<[(&'a [u8], &'a str); 2]>,
    pub(crate) skip_verify: bool,
}

/// Makes a TLS configuration without ALPN protocols.
///
/// # Errors
///
/// Names the unusable certificate or key, its place and the remedy.
pub(crate) fn config(identity: &Identity<'_>) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS cannot be set up: {error}"))?
        .dangerous()
        .with_custom_certificate_verifier(verifier(identity, &provider)?);
    match &identity.client {
        None => Ok(builder.with_no_client_auth()),
        Some([certificate, key]) => {
            let certified = Arc::new(certified(*certificate, *key, &provider)?);
            // Not `CertifiedKey`'s own check, which parses version 3 only.
            Ok(builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(certified))))
        }
    }
}

fn certified(
    (certificate, of_certificate): (&[u8], &str),
    (key, of_key): (&[u8], &str),
    provider: &CryptoProvider,
) -> Result<CertifiedKey, String> {
    let chain: Vec<_> = certificates(certificate).map(|(_, der)| der).collect();
    let Some(first) = chain.first() else {
        return Err(format!("the client certificate of {of_certificate} is not a certificate in PEM; write one there"));
    };
    let Some(public) = der::public_key(first) else {
        return Err(format!("the client certificate of {of_certificate} cannot be read; issue it anew"));
    };
    let bad = |problem: &str| format!("the client key of {of_key} {problem}; {KEYS}, in PEM and without a password");
    let key = private_key(key).ok_or_else(|| bad("is not a private key in PEM"))?;
    let key = forms(&key)
        .find_map(|key| provider.key_provider.load_private_key(key).ok())
        .ok_or_else(|| bad("cannot be used"))?;
    if key.public_key().is_some_and(|key| key.as_ref() != public) {
        return Err(format!(
            "the client certificate of {of_certificate} does not belong to the client key of {of_key}; \
             give the two that were issued together"
        ));
    }
    Ok(CertifiedKey::new(chain, key))
}

/// The certificates in PEM, each with whether its block has headers. Skips other blocks.
fn certificates(pem: &[u8]) -> impl Iterator<Item = (bool, CertificateDer<'static>)> {
    let blocks = pem::blocks(pem).filter(|block| block.label == b"CERTIFICATE");
    blocks.map(|block| (block.has_headers, block.der.to_vec().into()))
}

/// The first private key in PEM.
fn private_key(pem: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let is_key = |label: &[u8]| label == b"PRIVATE KEY" || label.ends_with(b" PRIVATE KEY");
    pem::blocks(pem).find(|block| is_key(block.label)).map(|block| block.der)
}

/// The possible encodings of a private key: the block's label can be wrong.
fn forms(key: &[u8]) -> impl Iterator<Item = PrivateKeyDer<'static>> {
    let key = || key.to_vec();
    [PrivateKeyDer::Pkcs1(key().into()), PrivateKeyDer::Pkcs8(key().into()), PrivateKeyDer::Sec1(key().into())]
        .into_iter()
}

fn verifier(identity: &Identity<'_>, provider: &Arc<CryptoProvider>) -> Result<Arc<dyn ServerCertVerifier>, String> {
    if identity.skip_verify {
        return Ok(Arc::new(Anyone(Arc::clone(provider))));
    }
    let mut roots = RootCertStore::empty();
    let pinned = match identity.authorities {
        None => {
            let system = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(system.certs);
            if roots.is_empty() {
                return Err(
                    "no certificate authority is named, and this machine has none: set certificate-authority".into()
                );
            }
            Vec::new()
        }
        Some((pem, place)) => {
            // Go skips blocks with headers here, but not in the client's certificate.
            let listed: Vec<_> =
                certificates(pem).filter(|(has_headers, _)| !has_headers).map(|(_, der)| der).collect();
            if listed.is_empty() {
                return Err(format!(
                    "the certificate authority of {place} is not a certificate in PEM; write one there"
                ));
            }
            roots.add_parsable_certificates(listed.iter().cloned());
            if roots.is_empty() {
                return Err(format!("the certificate authority of {place} cannot be read; issue the authority anew"));
            }
            if !roots.roots.iter().any(|root| can_verify(&root.subject_public_key_info, provider)) {
                return Err(format!(
                    "the certificate authority of {place} has a key that cannot be used; {KEYS}: issue the authority anew"
                ));
            }
            listed
        }
    };
    let webpki = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .build()
        .map_err(|error| format!("the certificate authorities cannot be used: {error}"))?;
    Ok(Arc::new(Pinning { webpki, pinned }))
}

/// Whether ring can verify with this key, the content of a `SubjectPublicKeyInfo`.
fn can_verify(key: &[u8], provider: &CryptoProvider) -> bool {
    let Some(algorithm) = Element::first(key) else { return true };
    let known = provider.signature_verification_algorithms.all.iter();
    let is_known = known.map(|known| known.public_key_alg_id()).any(|known| known.as_ref() == algorithm.content);
    let is_rsa = algorithm.content == alg_id::RSA_ENCRYPTION.as_ref();
    is_known && (!is_rsa || der::rsa_bytes(algorithm.rest).is_some_and(|bytes| RSA_BYTES.contains(&bytes)))
}

/// webpki's verification, and the authorities themselves.
#[derive(Debug)]
struct Pinning {
    webpki: Arc<WebPkiServerVerifier>,
    pinned: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for Pinning {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.webpki.verify_server_cert(certificate, intermediates, name, ocsp, now) {
            // webpki checks this after the times, and before everything else.
            Err(error) if is_authority(&error) && self.pinned.contains(certificate) => {
                verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.webpki.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.webpki.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.webpki.supported_verify_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        self.webpki.requires_raw_public_keys()
    }

    fn root_hint_subjects(&self) -> Option<&[rustls::DistinguishedName]> {
        self.webpki.root_hint_subjects()
    }
}

/// Whether webpki refused a certificate because it is marked as an authority.
fn is_authority(error: &Error) -> bool {
    matches!(error, Error::InvalidCertificate(CertificateError::Other(other))
        if matches!(other.0.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity)))
}

/// For `insecure-skip-tls-verify`.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    // An unverified server may have any key, even one that rustls cannot read.
    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> Option<&[rustls::DistinguishedName]> {
        None
    }
}

/// Words a TLS failure plainly if the server's certificate was refused.
pub(crate) fn in_words(error: io::Error) -> io::Error {
    let refused = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()).and_then(refusal);
    refused.map_or(error, io::Error::other)
}

fn refusal(error: &Error) -> Option<String> {
    let Error::InvalidCertificate(error) = error else { return None };
    Some(match error {
        // A renewed authority often keeps the old name.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "the server's certificate was not issued by the certificate authority of the configuration".to_owned()
        }
        CertificateError::Other(other) if matches!(other.0.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity)) => {
            "the server's certificate is a certificate authority's own: issue one for the server, or name this very \
             certificate as the certificate-authority"
                .to_owned()
        }
        CertificateError::Other(other)
            if matches!(other.0.downcast_ref(), Some(webpki::Error::UnsupportedCertVersion)) =>
        {
            "the server's certificate is not of X.509 version 3: issue one that is".to_owned()
        }
        CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            format!("the server's certificate is signed in a way that cannot be verified; {KEYS}: issue it anew")
        }
        other => format!("the server's certificate is refused: {other}"),
    })
}

#[cfg(test)]
mod tests;
