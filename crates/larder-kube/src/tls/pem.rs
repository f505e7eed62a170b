//! Blocks of PEM, as Go's `encoding/pem` finds them.
//!
//! Text between blocks is skipped, and so is a truncated block or one that is not base64; later blocks are found.
//! `rustls-pki-types` would read a truncated block's data as part of the next block, and does not report headers.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use zeroize::Zeroizing;

const BEGIN: &[u8] = b"-----BEGIN ";
const END: &[u8] = b"\n-----END ";
const DASHES: &[u8] = b"-----";

/// Go accepts non-zero bits after the last byte.
const BASE64: GeneralPurpose =
    GeneralPurpose::new(&alphabet::STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));

/// A block, without its dashed lines.
pub(super) struct Block<'a> {
    pub(super) label: &'a [u8],
    /// Whether headers such as `Proc-Type: 4,ENCRYPTED` precede the data.
    pub(super) has_headers: bool,
    pub(super) der: Zeroizing<Vec<u8>>,
}

/// The blocks of a text, in order.
pub(super) fn blocks(text: &[u8]) -> impl Iterator<Item = Block<'_>> {
    let mut from = 0;
    std::iter::from_fn(move || {
        while let Some(found) = find(&text[from..], END) {
            let (start, end) = (from, from + found);
            from = end + END.len();
            // The last start before the end: a truncated block is skipped.
            let begin = rfind(&text[start..end], BEGIN).map(|begin| start + begin);
            let begin = begin.filter(|begin| *begin == 0 || text[begin - 1] == b'\n');
            let block = begin.and_then(|begin| block(&text[begin + BEGIN.len()..=end], &text[from..]));
            if block.is_some() {
                return block;
            }
        }
        None
    })
}

/// Parses the text from the label to the line break before the end, and the text after `-----END `.
fn block<'a>(inside: &'a [u8], after: &[u8]) -> Option<Block<'a>> {
    let (first, mut body) = line(inside);
    let label = first.strip_suffix(DASHES)?;
    let (last, _) = line(after);
    if last.strip_prefix(label)? != DASHES {
        return None;
    }
    let mut has_headers = false;
    while line(body).0.contains(&b':') {
        has_headers = true;
        body = line(body).1;
    }
    let data: Zeroizing<Vec<u8>> =
        body.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect::<Vec<_>>().into();
    let der = BASE64.decode(&data).ok()?.into();
    Some(Block { label, has_headers, der })
}

/// The first line without its break and trailing blanks, and the rest.
fn line(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(|byte| *byte == b'\n');
    let (line, rest) = end.map_or((text, &[][..]), |end| (&text[..end], &text[end + 1..]));
    (line.trim_ascii_end(), rest)
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

fn rfind(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).rposition(|window| window == what)
}
