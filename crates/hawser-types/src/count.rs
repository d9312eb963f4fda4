use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::units::{UnitError, split_number};

/// A number of bytes. Arithmetic saturates: a count never wraps and never goes below zero.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct ByteCount(u64);

impl ByteCount {
    /// No bytes.
    pub const ZERO: Self = Self(0);
    /// The largest count.
    pub const MAX: Self = Self(u64::MAX);

    /// `bytes` bytes.
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// `kib` × 1024 bytes.
    pub const fn from_kib(kib: u64) -> Self {
        Self(kib.saturating_mul(1024))
    }

    /// `mib` × 1024 × 1024 bytes.
    pub const fn from_mib(mib: u64) -> Self {
        Self(mib.saturating_mul(1 << 20))
    }

    /// The plain number of bytes.
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// The plain number of bytes, for indexing memory; saturates on 32-bit machines.
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl From<usize> for ByteCount {
    fn from(bytes: usize) -> Self {
        Self(bytes as u64)
    }
}

impl Add for ByteCount {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for ByteCount {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for ByteCount {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl SubAssign for ByteCount {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl Sum for ByteCount {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for ByteCount {
    /// Decimal prefixes, three digits: `512 B`, `1.50 MB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0 as f64;
        match self.0 {
            0..1_000 => write!(f, "{} B", self.0),
            1_000..1_000_000 => write!(f, "{:.2} kB", bytes / 1e3),
            1_000_000..1_000_000_000 => write!(f, "{:.2} MB", bytes / 1e6),
            _ => write!(f, "{:.2} GB", bytes / 1e9),
        }
    }
}

impl FromStr for ByteCount {
    type Err = UnitError;

    /// Reads `1500`, `1500B`, `64KiB`, `2MB`, `1GiB`: decimal kilo, binary kibi.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (number, unit) = split_number(text)?;
        let factor = match unit {
            "" | "B" => 1.0,
            "kB" | "KB" => 1e3,
            "MB" => 1e6,
            "GB" => 1e9,
            "KiB" => 1024.0,
            "MiB" => 1_048_576.0,
            "GiB" => 1_073_741_824.0,
            _ => return Err(UnitError::unit(text, "B, kB, MB, GB, KiB, MiB or GiB")),
        };
        Ok(Self((number * factor).round() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_decimal_and_binary_units() {
        assert_eq!("64KiB".parse(), Ok(ByteCount::new(65_536)));
        assert_eq!("1.5 MB".parse(), Ok(ByteCount::new(1_500_000)));
        assert_eq!("1448".parse(), Ok(ByteCount::new(1448)));
        assert!("5 furlongs".parse::<ByteCount>().is_err());
        assert!("-5B".parse::<ByteCount>().is_err());
    }

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        assert_eq!(ByteCount::new(3) - ByteCount::new(5), ByteCount::ZERO);
        assert_eq!(ByteCount::MAX + ByteCount::new(1), ByteCount::MAX);
    }
}
