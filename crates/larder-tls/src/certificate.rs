//! What larder reads of a certificate: subject, times, names and key.
//!
//! # Limits
//!
//! It verifies nothing. webpki verifies a client's certificate before larder believes its subject.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;
use std::collections::BTreeSet;
use std::net::IpAddr;

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_ID: u8 = 0x06;
const OCTET_STRING: u8 = 0x04;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// `UTF8String`, `PrintableString`, `IA5String`.
const TEXTS: [u8; 3] = [0x0c, 0x13, 0x16];
/// The tag of a certificate's version. Version 1 has none.
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
/// 2.5.4.3 and 2.5.4.10, of a subject.
const COMMON_NAME: [u8; 3] = [0x55, 0x04, 0x03];
const ORGANIZATION: [u8; 3] = [0x55, 0x04, 0x0a];
/// 2.5.29.17, with its two kinds of names.
const ALTERNATIVE_NAMES: [u8; 3] = [0x55, 0x1d, 0x11];
const DNS_NAME: u8 = 0x82;
const IP_ADDRESS: u8 = 0x87;

/// Whom a certificate names: a user and its groups, as the API server reads them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// The common name (CN).
    pub name: String,
    /// The organizations (O).
    pub groups: Vec<String>,
}

/// What larder reads of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Certificate {
    pub(crate) subject: Subject,
    pub(crate) is_self_issued: bool,
    pub(crate) not_before: Timestamp,
    pub(crate) not_after: Timestamp,
    /// The DNS names and IP addresses, as texts.
    pub(crate) names: BTreeSet<String>,
    /// The `SubjectPublicKeyInfo`.
    pub(crate) public_key: Vec<u8>,
}

impl Certificate {
    /// `None` if this is no certificate, or one with a time or a name that larder cannot read.
    pub(crate) fn read(der: &[u8]) -> Option<Self> {
        let whole = Element::tagged(der, SEQUENCE).filter(|whole| whole.rest.is_empty())?;
        let mut field = Element::first(Element::tagged(whole.content, SEQUENCE)?.content)?;
        if field.tag == VERSION {
            field = Element::first(field.rest)?;
        }
        // The serial number is not read. Then come the signature's algorithm, issuer, validity, subject and key.
        let algorithm = Element::tagged(field.rest, SEQUENCE)?;
        let issuer = Element::tagged(algorithm.rest, SEQUENCE)?;
        let validity = Element::tagged(issuer.rest, SEQUENCE)?;
        let subject = Element::tagged(validity.rest, SEQUENCE)?;
        let key = Element::tagged(subject.rest, SEQUENCE)?;
        let not_before = Element::first(validity.content)?;
        let not_after = Element::first(not_before.rest)?;
        let extensions = elements(key.rest).find(|element| element.tag == EXTENSIONS);
        Some(Self {
            subject: read_subject(subject.content)?,
            is_self_issued: issuer.whole == subject.whole,
            not_before: read_time(&not_before)?,
            not_after: read_time(&not_after)?,
            names: match extensions {
                Some(extensions) => read_names(Element::tagged(extensions.content, SEQUENCE)?.content)?,
                None => BTreeSet::new(),
            },
            public_key: key.whole.to_vec(),
        })
    }
}

/// An element of DER, and the bytes after it.
struct Element<'a> {
    tag: u8,
    whole: &'a [u8],
    content: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Element<'a> {
    /// The first element; none if truncated.
    fn first(der: &'a [u8]) -> Option<Self> {
        let (tag, length) = (*der.first()?, usize::from(*der.get(1)?));
        // A length up to 127 is one byte. Otherwise that byte says how many bytes the length has.
        let (head, length) = match length.checked_sub(0x80) {
            None => (2, length),
            Some(bytes @ 1..=4) => {
                let length = der.get(2..2 + bytes)?;
                (2 + bytes, length.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)))
            }
            Some(_) => return None,
        };
        let (whole, rest) = der.split_at_checked(head.checked_add(length)?)?;
        Some(Self { tag, whole, content: whole.get(head..)?, rest })
    }

    fn tagged(der: &'a [u8], tag: u8) -> Option<Self> {
        Self::first(der).filter(|element| element.tag == tag)
    }
}

/// The elements one after another, up to the first that is truncated.
fn elements(der: &[u8]) -> impl Iterator<Item = Element<'_>> {
    let mut rest = der;
    std::iter::from_fn(move || {
        let element = Element::first(rest)?;
        rest = element.rest;
        Some(element)
    })
}

/// The last common name counts, as for the API server.
fn read_subject(names: &[u8]) -> Option<Subject> {
    let mut subject = Subject::default();
    for set in elements(names) {
        if set.tag != SET {
            return None;
        }
        for attribute in elements(set.content) {
            let id = Element::tagged(attribute.content, OBJECT_ID)?;
            let value = Element::first(id.rest)?;
            let text = || {
                let text = std::str::from_utf8(value.content).ok().filter(|_| TEXTS.contains(&value.tag))?;
                Some(text.to_owned())
            };
            if id.content == COMMON_NAME {
                subject.name = text()?;
            } else if id.content == ORGANIZATION {
                subject.groups.push(text()?);
            }
        }
    }
    Some(subject)
}

fn read_names(extensions: &[u8]) -> Option<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for extension in elements(extensions) {
        let id = Element::tagged(extension.content, OBJECT_ID)?;
        if id.content != ALTERNATIVE_NAMES {
            continue;
        }
        let value = elements(id.rest).find(|element| element.tag == OCTET_STRING)?;
        for name in elements(Element::tagged(value.content, SEQUENCE)?.content) {
            match name.tag {
                DNS_NAME => names.insert(std::str::from_utf8(name.content).ok()?.to_owned()),
                IP_ADDRESS => names.insert(read_address(name.content)?.to_string()),
                _ => false,
            };
        }
    }
    Some(names)
}

fn read_address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = || <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from);
    let v6 = || <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from);
    v4().or_else(v6)
}

/// `YYMMDDHHMMSSZ`, or the same with four digits of the year.
fn read_time(time: &Element<'_>) -> Option<Timestamp> {
    let digits = time.content.strip_suffix(b"Z").filter(|text| text.iter().all(u8::is_ascii_digit))?;
    let number =
        |from: usize, to: usize| -> Option<i16> { std::str::from_utf8(digits.get(from..to)?).ok()?.parse().ok() };
    let (year, at) = match (time.tag, digits.len()) {
        (UTC_TIME, 12) => {
            let year = number(0, 2)?;
            (if year < 50 { 2000 + year } else { 1900 + year }, 2)
        }
        (GENERALIZED_TIME, 14) => (number(0, 4)?, 4),
        _ => return None,
    };
    let part = |n: usize| number(at + 2 * n, at + 2 * n + 2).and_then(|part| i8::try_from(part).ok());
    let time = DateTime::new(year, part(0)?, part(1)?, part(2)?, part(3)?, part(4)?, 0).ok()?;
    Offset::UTC.to_timestamp(time).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, KeyPair, PublicKeyData as _, date_time_ymd};

    fn made() -> (rcgen::Certificate, KeyPair) {
        let names = ["node-1", "10.0.0.7", "::1"].map(str::to_owned);
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "larder:admins");
        params.distinguished_name.push(DnType::CommonName, "Änne");
        (params.not_before, params.not_after) = (date_time_ymd(2026, 2, 28), date_time_ymd(2056, 12, 31));
        let key = KeyPair::generate().unwrap();
        (params.self_signed(&key).unwrap(), key)
    }

    #[test]
    fn subject_times_names_and_key_are_read() {
        let (certificate, key) = made();
        let read = Certificate::read(certificate.der()).unwrap();
        let names = ["10.0.0.7", "::1", "node-1"].map(str::to_owned);
        let expected = Certificate {
            subject: Subject { name: "Änne".to_owned(), groups: vec!["larder:admins".to_owned()] },
            is_self_issued: true,
            not_before: "2026-02-28T00:00:00Z".parse().unwrap(),
            not_after: "2056-12-31T00:00:00Z".parse().unwrap(),
            names: names.into(),
            public_key: key.subject_public_key_info(),
        };
        assert_eq!(read, expected);
    }

    #[test]
    fn no_bytes_panic() {
        let (certificate, _) = made();
        let der = certificate.der().to_vec();
        for length in 0..der.len() {
            assert_eq!(Certificate::read(&der[..length]), None);
        }
        for at in 0..der.len() {
            for byte in [0, 1, 0x30, 0x7f, 0x80, 0x84, 0xff] {
                let mut changed = der.clone();
                changed[at] = byte;
                let _ = Certificate::read(&changed);
            }
        }
    }
}
