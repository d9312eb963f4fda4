//! Random bytes as a script, for fuzzers and tests of the crates above.
//!
//! Not behind the feature `fuzzing`: tests of these crates need it, and would build this crate a
//! second time.

use crate::MAX_VARINT;

/// The fuzzer's bytes, read from the front; at their end everything reads as zero.
#[derive(Clone, Copy, Debug)]
pub struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    /// Reads these bytes.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// True if no bytes are left.
    pub const fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes one byte.
    pub fn byte(&mut self) -> u8 {
        let Some((byte, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *byte
    }

    /// Takes a number below `bound`, from one byte.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::from(self.byte()) % bound.max(1)
    }

    /// Takes two bytes.
    pub fn short(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    /// Takes as many bytes as the next one says.
    pub fn bytes(&mut self) -> &'a [u8] {
        let length = usize::from(self.byte()).min(self.0.len());
        let (bytes, rest) = self.0.split_at(length);
        self.0 = rest;
        bytes
    }

    /// Takes a number for a field of the protocol: most are small, and some are at the bounds.
    pub fn number(&mut self) -> u64 {
        match self.byte() {
            small @ 0..=199 => u64::from(small),
            200..=219 => u64::from(self.short()),
            220..=234 => u64::from(self.short()) << 8,
            235..=239 => u64::from(self.short()) << 24,
            240..=243 => u64::from(u32::MAX) + 1 - u64::from(self.byte() % 4),
            244..=247 => u64::from(u16::MAX) + 1 - u64::from(self.byte() % 4),
            248..=251 => 1 << (self.byte() % 62),
            _ => MAX_VARINT - u64::from(self.byte() % 4),
        }
    }
}
