//! Certificates and keys in PEM.

use crate::error::TlsError;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::io::Read as _;
use std::path::Path;
use zeroize::Zeroizing;

/// The most bytes of a file of certificates.
const LARGEST: u64 = 1 << 20;

/// What a file holds that somebody else keeps. It may be a link, as in a volume of Kubernetes.
pub(crate) fn read(path: &Path) -> Result<Zeroizing<Vec<u8>>, TlsError> {
    let mut bytes = Zeroizing::new(Vec::new());
    larder_file::open_regular(path)
        .and_then(|file| file.take(LARGEST).read_to_end(&mut bytes))
        .map_err(|source| TlsError::Read { path: path.to_owned(), source })?;
    Ok(bytes)
}

/// The certificates in PEM, other blocks left out. Never empty.
pub(crate) fn certificates(pem: &[u8], path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match all {
        Ok(all) if !all.is_empty() => Ok(all),
        _ => Err(TlsError::Unusable {
            path: path.to_owned(),
            problem: "it holds no certificate in PEM; write one there".to_owned(),
        }),
    }
}

/// The first private key in PEM.
pub(crate) fn private_key(pem: &[u8], path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|_| TlsError::Unusable {
        path: path.to_owned(),
        problem: "it holds no private key in PEM; write one there, without a password".to_owned(),
    })
}
