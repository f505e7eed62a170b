//! Certificates as some distributions issue them, and handshakes with those that show them.

use super::*;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, PKCS_ECDSA_P256_SHA256, date_time_ymd};
use rustls::ServerConfig;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// openssl, as files: a client certificate of X.509 version 1 and its key, of P-256.
const V1_CERTIFICATE: &str = include_str!("testdata/v1.crt");
const V1_KEY: &str = include_str!("testdata/v1.key");
/// A self-signed certificate and key of P-521, and one of RSA with 1024 bits.
const P521_CERTIFICATE: &str = include_str!("testdata/p521.crt");
const P521_KEY: &str = include_str!("testdata/p521.key");
const RSA1024_CERTIFICATE: &str = include_str!("testdata/rsa1024.crt");
const RSA1024_KEY: &str = include_str!("testdata/rsa1024.key");

/// A certificate for `server.example`, in PEM, and what a server needs to show it.
fn server(params: &CertificateParams, issuer: Option<&Issuer<'_, KeyPair>>) -> (String, Arc<ServerConfig>) {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
    let certificate = match issuer {
        Some(issuer) => params.signed_by(&key, issuer),
        None => params.self_signed(&key),
    };
    let certificate = certificate.unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    (certificate.pem(), Arc::new(config))
}

fn params() -> CertificateParams {
    CertificateParams::new(vec!["server.example".to_owned()]).unwrap()
}

fn authority() -> CertificateParams {
    let mut params = params();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
}

/// An authority that is valid in one year alone.
fn authority_of(year: i32) -> CertificateParams {
    let mut params = authority();
    (params.not_before, params.not_after) = (date_time_ymd(year, 1, 1), date_time_ymd(year + 1, 1, 1));
    params
}

/// What a client that trusts these authorities says to a server, in one line.
async fn shake(authorities: &str, name: &str, server: Arc<ServerConfig>) -> Result<(), String> {
    let identity = Identity { authorities: Some((authorities.as_bytes(), "F")), client: None, skip_verify: false };
    let client = TlsConnector::from(Arc::new(config(&identity)?));
    let (near, far) = tokio::io::duplex(64 << 10);
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let (accepted, connected) = tokio::join!(TlsAcceptor::from(server).accept(far), client.connect(name, near));
    drop(accepted);
    connected.map(drop).map_err(|error| in_words(error).to_string())
}

#[tokio::test]
async fn a_certificate_that_is_its_own_authority_is_accepted_as_by_go() {
    let (pem, config) = server(&authority(), None);
    shake(&pem, "server.example", Arc::clone(&config)).await.unwrap();
    // Among others, too.
    let (other, _) = server(&authority(), None);
    shake(&format!("{other}{pem}"), "server.example", config).await.unwrap();
}

#[tokio::test]
async fn a_certificate_that_is_its_own_authority_is_verified_all_the_same() {
    let (pem, config) = server(&authority(), None);
    let told = shake(&pem, "other.example", config).await.unwrap_err();
    assert!(told.starts_with("the server's certificate is refused: ") && told.contains("other.example"), "{told}");
    let (pem, config) = server(&authority_of(2020), None);
    let told = shake(&pem, "server.example", config).await.unwrap_err();
    assert!(told.contains("expired"), "{told}");
    let (pem, config) = server(&authority_of(4000), None);
    let told = shake(&pem, "server.example", config).await.unwrap_err();
    assert!(told.contains("not valid yet"), "{told}");
    // Another of the same name is not the same.
    let (pem, _) = server(&authority(), None);
    let (_, config) = server(&authority(), None);
    let told = shake(&pem, "server.example", config).await.unwrap_err();
    assert!(told.contains("certificate authority's own: issue one for the server, or name this very"), "{told}");
}

#[tokio::test]
async fn an_ordinary_certificate_is_verified_against_the_authorities_alone() {
    let key = KeyPair::generate().unwrap();
    let ca = authority().self_signed(&key).unwrap().pem();
    let (_, config) = server(&params(), Some(&Issuer::new(authority(), key)));
    shake(&ca, "server.example", Arc::clone(&config)).await.unwrap();
    let stranger = authority().self_signed(&KeyPair::generate().unwrap()).unwrap().pem();
    let told = shake(&stranger, "server.example", config).await.unwrap_err();
    assert_eq!(told, "the server's certificate was not issued by the certificate authority of the configuration");
}

fn client(certificate: &str, key: &str) -> Result<ClientConfig, String> {
    config(&Identity {
        authorities: None,
        client: Some([(certificate.as_bytes(), "C"), (key.as_bytes(), "K")]),
        skip_verify: true,
    })
}

#[test]
fn a_client_certificate_of_version_1_is_taken() {
    client(V1_CERTIFICATE, V1_KEY).unwrap();
}

/// As `cargo xtask differential` compares them with client-go, in more forms.
#[test]
fn pem_is_read_as_by_go() {
    let pair = KeyPair::generate().unwrap();
    let (certificate, key) = (params().self_signed(&pair).unwrap().pem(), pair.serialize_pem());
    let other = params().self_signed(&KeyPair::generate().unwrap()).unwrap().pem();
    let cut = |block: &str| block.lines().take(3).collect::<Vec<_>>().join("\n") + "\n";
    let with_header = |block: &str| block.replacen('\n', "\nName: value\n\n", 1);
    for text in [
        format!("before: it\n{certificate}between\n{other}"),
        format!("{key}{certificate}"),
        certificate.replace('\n', " \t\r\n"),
        format!("{}{certificate}", cut(&other)),
        format!("{certificate}{}", cut(&other)),
        format!("{}{certificate}", other.replace('M', "!")),
        with_header(&certificate),
    ] {
        client(&text, &key).unwrap_or_else(|told| panic!("{told}: {text}"));
    }
    for text in [cut(&certificate), certificate.replace("-----BEGIN", " -----BEGIN"), certificate.replace('M', "!")] {
        let told = client(&text, &key).map(drop).unwrap_err();
        assert_eq!(told, "the client certificate of C is not a certificate in PEM; write one there");
    }
    let garbage = "-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n";
    let told = client(garbage, &key).map(drop).unwrap_err();
    assert_eq!(told, "the client certificate of C cannot be read; issue it anew");
    for text in [
        format!("{certificate}{key}"),
        format!("{}{key}", cut(&key)),
        with_header(&key),
        key.replace("PRIVATE KEY", "EC PRIVATE KEY"),
        key.replace("PRIVATE KEY", "ANY PRIVATE KEY"),
        V1_KEY.replace("EC PRIVATE KEY", "PRIVATE KEY"),
    ] {
        let certificate = if text.contains(V1_KEY.lines().nth(1).unwrap()) { V1_CERTIFICATE } else { &certificate };
        client(certificate, &text).unwrap_or_else(|told| panic!("{told}"));
    }
    let authorities = |pem: &str| {
        let identity = Identity { authorities: Some((pem.as_bytes(), "F")), client: None, skip_verify: false };
        config(&identity).map(drop)
    };
    authorities(&format!("{garbage}{}{certificate}", cut(&other))).unwrap();
    let told = authorities(&with_header(&certificate)).unwrap_err();
    assert_eq!(told, "the certificate authority of F is not a certificate in PEM; write one there");
    let told = authorities(garbage).unwrap_err();
    assert_eq!(told, "the certificate authority of F cannot be read; issue the authority anew");
}

#[test]
fn a_certificate_of_version_1_that_does_not_belong_to_its_key_is_refused() {
    let told = client(V1_CERTIFICATE, &KeyPair::generate().unwrap().serialize_pem()).map(drop).unwrap_err();
    assert!(told.starts_with("the client certificate of C does not belong to the client key of K"), "{told}");
}

#[test]
fn unusable_client_certificates_and_keys_are_named_with_the_remedy() {
    let key = KeyPair::generate().unwrap();
    let certificate = params().self_signed(&key).unwrap().pem();
    let other = KeyPair::generate().unwrap().serialize_pem();
    client(&certificate, &key.serialize_pem()).unwrap();
    for (certificate, key, says) in [
        ("", &*other, "the client certificate of C is not a certificate in PEM; write one there"),
        (&other, &other, "the client certificate of C is not a certificate in PEM; write one there"),
        (&certificate, "", "the client key of K is not a private key in PEM; larder takes RSA keys of 2048"),
        (&certificate, &certificate, "the client key of K is not a private key in PEM; "),
        (&certificate, &other, "the client certificate of C does not belong to the client key of K; give the two that"),
        (P521_CERTIFICATE, P521_KEY, "the client key of K cannot be used; larder takes RSA keys of 2048 to 4096 bits"),
        (RSA1024_CERTIFICATE, RSA1024_KEY, "the client key of K cannot be used; larder takes RSA keys of 2048"),
    ] {
        let told = client(certificate, key).map(drop).unwrap_err();
        assert!(told.starts_with(says), "{told}");
    }
}

#[test]
fn unusable_authorities_are_named_with_the_remedy() {
    let authorities = |pem: &str| {
        let identity = Identity { authorities: Some((pem.as_bytes(), "F")), client: None, skip_verify: false };
        config(&identity).map(drop)
    };
    for pem in ["", "text", V1_KEY] {
        let told = authorities(pem).unwrap_err();
        assert_eq!(told, "the certificate authority of F is not a certificate in PEM; write one there");
    }
    for pem in [P521_CERTIFICATE, RSA1024_CERTIFICATE] {
        let told = authorities(pem).unwrap_err();
        assert!(
            told.starts_with("the certificate authority of F has a key that cannot be used; larder takes"),
            "{told}"
        );
        assert!(told.ends_with("issue the authority anew"), "{told}");
    }
    // Authorities of version 1 are taken, and one that can be used is enough.
    authorities(V1_CERTIFICATE).unwrap();
    authorities(&format!("{P521_CERTIFICATE}{V1_CERTIFICATE}")).unwrap();
}
