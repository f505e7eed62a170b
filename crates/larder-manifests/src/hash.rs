//! The hash that names what has no name of its own: FNV-1a of 128 bits, as the kubelet takes for static pods.

use std::fmt::Write;

/// A running hash. It tells apart what an operator writes; it resists no one who wants it to collide.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Hash(u128);

impl Hash {
    pub(crate) fn new() -> Self {
        Self(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }

    pub(crate) fn with(mut self, bytes: &[u8]) -> Self {
        for byte in bytes {
            self.0 = (self.0 ^ u128::from(*byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        }
        self
    }

    /// In 32 hexadecimal digits.
    pub(crate) fn digits(self) -> String {
        let mut digits = String::with_capacity(32);
        // Writing to a string does not fail.
        let _ = write!(digits, "{:032x}", self.0);
        digits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_those_of_the_published_vectors() {
        assert_eq!(Hash::new().digits(), "6c62272e07bb014262b821756295c58d");
        assert_eq!(Hash::new().with(b"a").digits(), "d228cb696f1a8caf78912b704e4a8964");
        assert_eq!(Hash::new().with(b"foo").with(b"bar").digits(), "343e1662793c64bf6f0d3597ba446f18");
    }
}
