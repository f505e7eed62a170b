//! A certificate authority of its own, for a simulated API server that speaks TLS.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::RootCertStore;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use std::io;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

/// What the server needs to speak TLS, and what its clients are to trust.
#[derive(Clone)]
pub(crate) struct Tls {
    pub(crate) acceptor: TlsAcceptor,
    pub(crate) ca_pem: String,
    issuer: Arc<Issuer<'static, KeyPair>>,
}

/// A certificate that a client shows, with its key.
#[derive(Clone, Debug)]
pub struct ClientCertificate {
    /// The certificate, in PEM.
    pub certificate_pem: String,
    /// Its key, in PEM.
    pub key_pem: String,
    pub(crate) der: Vec<u8>,
}

fn failed(error: impl std::fmt::Display) -> io::Error {
    io::Error::other(format!("cannot set up TLS: {error}"))
}

impl Tls {
    /// A new authority, and a certificate of it for loopback. Clients may show certificates of the authority.
    pub(crate) fn generate() -> io::Result<Self> {
        let mut ca = CertificateParams::default();
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        ca.distinguished_name.push(DnType::CommonName, "larder-testkit");
        let ca_key = KeyPair::generate().map_err(failed)?;
        let ca_certificate = ca.self_signed(&ca_key).map_err(failed)?;
        let issuer = Issuer::new(ca, ca_key);
        let key = KeyPair::generate().map_err(failed)?;
        let names = ["127.0.0.1".into(), "localhost".into(), "kubernetes.default.svc".into()];
        let certificate =
            CertificateParams::new(names).and_then(|leaf| leaf.signed_by(&key, &issuer)).map_err(failed)?;

        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(ca_certificate.der().clone()).map_err(failed)?;
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .allow_unauthenticated()
            .build()
            .map_err(failed)?;
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(failed)?
            .with_client_cert_verifier(clients)
            .with_single_cert(vec![certificate.der().clone()], key);
        let mut config = config.map_err(failed)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Ok(Self { acceptor, ca_pem: ca_certificate.pem(), issuer: Arc::new(issuer) })
    }

    /// A certificate of the authority for a client of this name.
    pub(crate) fn issue(&self, name: &str) -> io::Result<ClientCertificate> {
        let key = KeyPair::generate().map_err(failed)?;
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = params.signed_by(&key, &self.issuer).map_err(failed)?;
        Ok(ClientCertificate {
            certificate_pem: certificate.pem(),
            key_pem: key.serialize_pem(),
            der: certificate.der().to_vec(),
        })
    }
}
