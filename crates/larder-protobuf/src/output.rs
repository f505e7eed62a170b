//! Buffers that leave no copy of their bytes behind when they grow.

use zeroize::Zeroizing;

/// Bytes that are written from the front.
pub(crate) struct Output {
    bytes: Zeroizing<Vec<u8>>,
}

impl Output {
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self { bytes: Zeroizing::new(Vec::with_capacity(capacity)) }
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len());
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn byte(&mut self, byte: u8) {
        self.reserve(1);
        self.bytes.push(byte);
    }

    /// So many bytes, which the function writes.
    pub(crate) fn fill(&mut self, len: usize, write: impl FnOnce(&mut [u8]) -> usize) {
        self.reserve(len);
        let start = self.bytes.len();
        self.bytes.resize(start + len, 0);
        let written = write(self.bytes.get_mut(start..).unwrap_or_default());
        self.bytes.truncate(start + written.min(len));
    }

    pub(crate) fn finish(self) -> Zeroizing<Vec<u8>> {
        self.bytes
    }

    fn reserve(&mut self, more: usize) {
        let needed = self.bytes.len() + more;
        if needed > self.bytes.capacity() {
            let mut larger = Zeroizing::new(Vec::with_capacity(needed.max(2 * self.bytes.capacity())));
            larger.extend_from_slice(&self.bytes);
            // The former bytes are overwritten here.
            self.bytes = larger;
        }
    }
}

/// Bytes that are written from the end, so that the length of a value is known before it is written.
pub(crate) struct Backward {
    bytes: Zeroizing<Vec<u8>>,
    /// Where what is written begins.
    start: usize,
}

impl Backward {
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self { bytes: Zeroizing::new(vec![0; capacity]), start: capacity }
    }

    /// How much is written.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Puts bytes before what is written.
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        if bytes.len() > self.start {
            let written = self.len();
            let capacity = (written + bytes.len()).max(2 * self.bytes.len());
            let mut larger = Zeroizing::new(vec![0; capacity]);
            let start = capacity - written;
            if let (Some(new), Some(old)) = (larger.get_mut(start..), self.bytes.get(self.start..)) {
                new.copy_from_slice(old);
            }
            self.bytes = larger;
            self.start = start;
        }
        let start = self.start - bytes.len();
        if let Some(free) = self.bytes.get_mut(start..self.start) {
            free.copy_from_slice(bytes);
        }
        self.start = start;
    }

    pub(crate) fn varint(&mut self, mut value: u64) {
        let mut bytes = [0; 10];
        let mut len = 0;
        for byte in &mut bytes {
            len += 1;
            *byte = (value & 0x7f) as u8;
            value >>= 7;
            if value == 0 {
                break;
            }
            *byte |= 0x80;
        }
        self.put(bytes.get(..len).unwrap_or_default());
    }

    pub(crate) fn tag(&mut self, number: u32, wire: u8) {
        self.varint(u64::from(number) << 3 | u64::from(wire));
    }

    /// A value with its tag and length.
    pub(crate) fn value(&mut self, number: u32, bytes: &[u8]) {
        self.put(bytes);
        self.header(number, bytes.len());
    }

    /// The tag and the length of a value that is written already.
    pub(crate) fn header(&mut self, number: u32, len: usize) {
        self.varint(len as u64);
        self.tag(number, crate::wire::LEN);
    }

    pub(crate) fn finish(mut self) -> Zeroizing<Vec<u8>> {
        let len = self.len();
        self.bytes.copy_within(self.start.., 0);
        // What is behind is overwritten with the rest when the bytes are dropped.
        self.bytes.truncate(len);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_grows_from_both_ends() {
        let (mut forward, mut backward) = (Output::with_capacity(0), Backward::with_capacity(0));
        for byte in 0..=255 {
            forward.byte(byte);
            backward.put(&[255 - byte]);
        }
        forward.put(b"end");
        forward.fill(8, |free| {
            free[..2].copy_from_slice(b"ab");
            2
        });
        let expected: Vec<u8> = (0..=255).collect();
        assert_eq!(*backward.finish(), expected);
        assert_eq!(*forward.finish(), [&expected[..], b"endab"].concat());
    }

    #[test]
    fn numbers_are_read_as_they_are_written() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let mut backward = Backward::with_capacity(1);
            backward.varint(value);
            let bytes = backward.finish();
            assert_eq!(crate::wire::Cursor::whole(&bytes).varint().unwrap(), value);
        }
    }
}
