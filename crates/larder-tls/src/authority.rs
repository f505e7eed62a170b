//! larder's own certificate authority: made once, kept in a file, and used for serving certificates and admins' certificates.
//!
//! # Guarantees
//!
//! - A file that is not an authority of larder is refused, and never overwritten.
//! - The key leaves the file only into this process.

use crate::certificate::Certificate;
use crate::error::TlsError;
use crate::pem;
use jiff::{SignedDuration, Timestamp};
use larder_file::private::PrivateFolder;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData as _,
};
use rustls::pki_types::CertificateDer;
use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::time::Duration;
use time::OffsetDateTime;
use zeroize::Zeroizing;

/// The file of the authority: its key and its certificate.
pub(crate) const FILE: &str = "ca.pem";
/// The beginning of the authority's name. The node's name follows.
const NAME: &str = "larder on ";
/// How long the authority lasts.
const LIFE: Duration = Duration::from_hours(10 * 365 * 24);
/// How long a certificate has been valid when it is issued: the clocks of two machines differ.
const BACKDATED: SignedDuration = SignedDuration::from_hours(1);
/// The year before which a clock cannot be right.
const FIRST_YEAR: i16 = 2025;
const LOST: &str = "put back the file that larder wrote; or remove it, start larder again for a new authority, and write every \
                    kubeconfig again (larder kubeconfig)";

/// A certificate and its key, in PEM.
pub struct Issued {
    /// The certificate.
    pub certificate: String,
    /// Its key.
    pub key: Zeroizing<String>,
    /// When the certificate expires.
    pub not_after: Timestamp,
}

/// Without the key.
impl fmt::Debug for Issued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issued").field("not_after", &self.not_after).finish_non_exhaustive()
    }
}

/// larder's own certificate authority.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    certificate_pem: String,
    not_after: Timestamp,
}

/// Without the key.
impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").field("not_after", &self.not_after).finish_non_exhaustive()
    }
}

impl Authority {
    /// Reads the authority of a folder.
    ///
    /// # Errors
    ///
    /// If the folder has none, or if its file is not one that larder wrote.
    pub fn open(folder: &PrivateFolder) -> Result<Self, TlsError> {
        let path = folder.path_of(FILE);
        if let Some(pem) = folder.read(FILE)?.map(Zeroizing::new) {
            return Self::parse(&pem, &path);
        }
        let problem = "there is no such file; larder makes it when it first starts with --listen".to_owned();
        Err(TlsError::Unusable { path, problem })
    }

    /// Reads the authority of a folder, or makes one.
    pub(crate) fn open_or_make(folder: &PrivateFolder, node: &str, now: Timestamp) -> Result<Self, TlsError> {
        if let Some(pem) = folder.read(FILE)?.map(Zeroizing::new) {
            return Self::parse(&pem, &folder.path_of(FILE));
        }
        let (authority, pem) = Self::make(node, now)?;
        folder.write(FILE, pem.as_bytes())?;
        Ok(authority)
    }

    /// An authority in memory, and its PEM.
    pub(crate) fn make(node: &str, now: Timestamp) -> Result<(Self, Zeroizing<String>), TlsError> {
        let name = format!("{NAME}{node}");
        let failed = |problem: String| TlsError::Make { of: format!("the authority \"{name}\""), problem };
        let year = jiff::tz::Offset::UTC.to_datetime(now).year();
        if year < FIRST_YEAR {
            return Err(failed(format!("the clock of this machine says that the year is {year}; set the clock")));
        }
        let mut params = CertificateParams::default();
        params.distinguished_name = named(&name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let not_after = valid(&mut params, now, LIFE, None);
        let made = || {
            let key = KeyPair::generate()?;
            let certificate = params.self_signed(&key)?;
            Ok::<_, rcgen::Error>((key, certificate))
        };
        let (key, certificate) = made().map_err(|error| failed(error.to_string()))?;
        let head = "larder's own certificate authority. Whoever has this key can read everything from larder.\n";
        let pem = Zeroizing::new([head, &Zeroizing::new(key.serialize_pem()), &certificate.pem()].concat());
        let (certificate_pem, certificate) = (certificate.pem(), certificate.der().clone());
        Ok((Self { issuer: Issuer::new(params, key), certificate, certificate_pem, not_after }, pem))
    }

    fn parse(text: &[u8], path: &Path) -> Result<Self, TlsError> {
        let unusable =
            |problem: &str| TlsError::Unusable { path: path.to_owned(), problem: format!("{problem}; {LOST}") };
        let certificates = pem::certificates(text, path).map_err(|_| unusable("it holds no certificate in PEM"))?;
        let [certificate] = &certificates[..] else { return Err(unusable("it holds more than one certificate")) };
        let key = pem::private_key(text, path).map_err(|_| unusable("it holds no private key in PEM"))?;
        let key = KeyPair::try_from(&key).map_err(|_| unusable("its private key cannot be read"))?;
        let read = Certificate::read(certificate).ok_or_else(|| unusable("its certificate cannot be read"))?;
        if !read.is_self_issued || !read.subject.name.starts_with(NAME) || !read.subject.groups.is_empty() {
            return Err(unusable("it is not an authority that larder made"));
        }
        if read.public_key != key.subject_public_key_info() {
            return Err(unusable("its key does not belong to its certificate"));
        }
        let mut params = CertificateParams::default();
        params.distinguished_name = named(&read.subject.name);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let issuer = Issuer::new(params, key);
        let certificate_pem = block_of(text).ok_or_else(|| unusable("its certificate cannot be read"))?;
        Ok(Self { issuer, certificate: certificate.clone(), certificate_pem, not_after: read.not_after })
    }

    /// The certificate of the authority, in PEM.
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    pub(crate) fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// When the authority expires.
    pub fn not_after(&self) -> Timestamp {
        self.not_after
    }

    /// Issues a client's certificate. It does not outlast the authority.
    ///
    /// # Errors
    ///
    /// If the name or the group cannot stand in a certificate.
    pub fn issue_client(&self, name: &str, group: &str, life: Duration, now: Timestamp) -> Result<Issued, TlsError> {
        let mut params = CertificateParams::default();
        params.distinguished_name = named(name);
        params.distinguished_name.push(DnType::OrganizationName, group);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(params, &format!("client \"{name}\""), life, now)
    }

    /// Issues a serving certificate for these DNS names and addresses.
    pub(crate) fn issue_serving(
        &self,
        names: &BTreeSet<String>,
        life: Duration,
        now: Timestamp,
    ) -> Result<Issued, TlsError> {
        let of = "the server";
        let names: Vec<String> = names.iter().cloned().collect();
        let params = CertificateParams::new(names);
        let mut params = params.map_err(|error| TlsError::Make { of: of.to_owned(), problem: error.to_string() })?;
        params.distinguished_name = named("larder");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.issue(params, of, life, now)
    }

    fn issue(
        &self,
        mut params: CertificateParams,
        of: &str,
        life: Duration,
        now: Timestamp,
    ) -> Result<Issued, TlsError> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        // Strict clients want it.
        params.use_authority_key_identifier_extension = true;
        let not_after = valid(&mut params, now, life, Some(self.not_after));
        let made = || {
            let key = KeyPair::generate()?;
            let certificate = params.signed_by(&key, &self.issuer)?;
            Ok::<_, rcgen::Error>(Issued {
                certificate: certificate.pem(),
                key: Zeroizing::new(key.serialize_pem()),
                not_after,
            })
        };
        made().map_err(|error| TlsError::Make { of: of.to_owned(), problem: error.to_string() })
    }
}

fn named(name: &str) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, name);
    names
}

/// Sets the times of a certificate, and returns the end.
fn valid(params: &mut CertificateParams, now: Timestamp, life: Duration, latest: Option<Timestamp>) -> Timestamp {
    let end = now.saturating_add(life).unwrap_or(Timestamp::MAX);
    let end = latest.map_or(end, |latest| latest.min(end));
    params.not_before = offset(now.saturating_sub(BACKDATED).unwrap_or(now));
    params.not_after = offset(end);
    end
}

fn offset(at: Timestamp) -> OffsetDateTime {
    // Every timestamp of jiff is in the range of this type, but for the last years before 10000.
    OffsetDateTime::from_unix_timestamp(at.as_second()).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

/// The block of the certificate in the text of a file.
fn block_of(text: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(text).ok()?;
    let end = "-----END CERTIFICATE-----";
    let block = text.get(text.find("-----BEGIN CERTIFICATE-----")?..text.find(end)? + end.len())?;
    Some(format!("{block}\n"))
}
