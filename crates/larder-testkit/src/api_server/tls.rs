//! A certificate authority of its own, for a simulated API server that speaks TLS.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use std::io;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

/// What the server needs to speak TLS, and what its clients are to trust.
#[derive(Clone)]
pub(crate) struct Tls {
    pub(crate) acceptor: TlsAcceptor,
    pub(crate) ca_pem: String,
}

impl Tls {
    /// A new authority, and a certificate of it for loopback.
    pub(crate) fn generate() -> io::Result<Self> {
        let failed = |error: rcgen::Error| io::Error::other(format!("cannot make a certificate: {error}"));
        let mut ca = CertificateParams::default();
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        ca.distinguished_name.push(DnType::CommonName, "larder-testkit");
        let ca_key = KeyPair::generate().map_err(failed)?;
        let ca_certificate = ca.self_signed(&ca_key).map_err(failed)?;
        let key = KeyPair::generate().map_err(failed)?;
        let names = ["127.0.0.1".into(), "localhost".into(), "kubernetes.default.svc".into()];
        let leaf = CertificateParams::new(names).map_err(failed)?;
        let certificate = leaf.signed_by(&key, &Issuer::new(ca, ca_key)).map_err(failed)?;

        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|config| config.with_no_client_auth().with_single_cert(vec![certificate.der().clone()], key));
        let mut config = config.map_err(|error| io::Error::other(format!("cannot set up TLS: {error}")))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), ca_pem: ca_certificate.pem() })
    }
}
