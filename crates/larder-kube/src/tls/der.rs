//! Reads the key of a certificate of any version. rustls reads certificates of version 3 only.

const SEQUENCE: u8 = 0x30;
/// The tag of a certificate's version. Version 1 has none.
const VERSION: u8 = 0xa0;

/// An element of DER, and the bytes after it.
pub(super) struct Element<'a> {
    tag: u8,
    whole: &'a [u8],
    pub(super) content: &'a [u8],
    pub(super) rest: &'a [u8],
}

impl<'a> Element<'a> {
    /// The first element; none if truncated.
    pub(super) fn first(der: &'a [u8]) -> Option<Self> {
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

    fn sequence(der: &'a [u8]) -> Option<Self> {
        Self::first(der).filter(|element| element.tag == SEQUENCE)
    }
}

/// The `SubjectPublicKeyInfo` of a certificate; none if this is no certificate.
pub(super) fn public_key(certificate: &[u8]) -> Option<&[u8]> {
    let whole = Element::sequence(certificate).filter(|whole| whole.rest.is_empty())?;
    let mut field = Element::first(Element::sequence(whole.content)?.content)?;
    if field.tag == VERSION {
        field = Element::first(field.rest)?;
    }
    // From the serial number over the signature's algorithm, issuer, validity and subject to the key.
    for _ in 0..5 {
        field = Element::sequence(field.rest)?;
    }
    Some(field.whole)
}

/// The length of an RSA key's modulus in bytes; `key` is the bit string of a `SubjectPublicKeyInfo`.
pub(super) fn rsa_bytes(key: &[u8]) -> Option<usize> {
    // The first byte counts the unused bits of the last.
    let key = Element::sequence(Element::first(key)?.content.get(1..)?)?;
    let modulus = Element::first(key.content)?.content;
    Some(modulus.strip_prefix(&[0]).unwrap_or(modulus).len())
}
