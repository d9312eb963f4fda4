use std::fmt;
use std::iter::Sum;
use std::ops::{Add, Mul};
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ByteCount;
use crate::units::{UnitError, split_number};

/// A data rate, kept in bytes per second and shown in bit/s with decimal prefixes.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Rate(u64);

impl Rate {
    /// Rate zero.
    pub const ZERO: Self = Self(0);

    /// `bytes` bytes in each second.
    pub const fn from_bytes_per_second(bytes: u64) -> Self {
        Self(bytes)
    }

    /// `bits` bits in each second, rounded down to whole bytes.
    pub const fn from_bits_per_second(bits: u64) -> Self {
        Self(bits / 8)
    }

    /// The mean rate of `bytes` over `span`; zero for an empty span.
    pub fn over(bytes: ByteCount, span: Duration) -> Self {
        if span.is_zero() {
            return Self::ZERO;
        }
        let per_second = u128::from(bytes.as_u64()) * 1_000_000_000 / span.as_nanos();
        Self(u64::try_from(per_second).unwrap_or(u64::MAX))
    }

    /// Bytes per second.
    pub const fn bytes_per_second(self) -> u64 {
        self.0
    }

    /// Bits per second.
    pub const fn bits_per_second(self) -> u64 {
        self.0.saturating_mul(8)
    }

    /// Returns the time that `bytes` take at this rate; `None` at rate zero.
    pub fn time_for(self, bytes: ByteCount) -> Option<Duration> {
        let nanos = (u128::from(bytes.as_u64()) * 1_000_000_000).checked_div(u128::from(self.0))?;
        Some(Duration::from_nanos(
            u64::try_from(nanos).unwrap_or(u64::MAX),
        ))
    }
}

impl Mul<Duration> for Rate {
    type Output = ByteCount;

    #[expect(
        clippy::suspicious_arithmetic_impl,
        reason = "nanoseconds are divided out"
    )]
    fn mul(self, span: Duration) -> ByteCount {
        let bytes = u128::from(self.0).saturating_mul(span.as_nanos()) / 1_000_000_000;
        ByteCount::new(u64::try_from(bytes).unwrap_or(u64::MAX))
    }
}

impl Add for Rate {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sum for Rate {
    fn sum<I: Iterator<Item = Self>>(rates: I) -> Self {
        rates.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.bits_per_second();
        let value = bits as f64;
        match bits {
            0..1_000 => write!(f, "{bits} bit/s"),
            1_000..1_000_000 => write!(f, "{:.1} kbit/s", value / 1e3),
            1_000_000..1_000_000_000 => write!(f, "{:.2} Mbit/s", value / 1e6),
            _ => write!(f, "{:.2} Gbit/s", value / 1e9),
        }
    }
}

impl FromStr for Rate {
    type Err = UnitError;

    /// Reads `633kbit/s`, `25Mbit/s`, `1.5Gbit/s`, `800bit/s`.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (number, unit) = split_number(text)?;
        let factor = match unit {
            "bit/s" => 1.0,
            "kbit/s" => 1e3,
            "Mbit/s" => 1e6,
            "Gbit/s" => 1e9,
            _ => return Err(UnitError::unit(text, "bit/s, kbit/s, Mbit/s or Gbit/s")),
        };
        Ok(Self((number * factor / 8.0).round() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_times_duration_is_bytes() {
        let rate: Rate = "50Mbit/s".parse().unwrap();
        assert_eq!(rate * Duration::from_millis(10), ByteCount::new(62_500));
    }

    #[test]
    fn a_stopped_rate_never_finishes() {
        assert_eq!(Rate::ZERO.time_for(ByteCount::new(1)), None);
        let rate = Rate::from_bytes_per_second(1000);
        assert_eq!(
            rate.time_for(ByteCount::new(500)),
            Some(Duration::from_millis(500))
        );
    }

    #[test]
    fn shows_bits_with_decimal_prefixes() {
        assert_eq!(
            Rate::from_bits_per_second(633_000).to_string(),
            "633.0 kbit/s"
        );
        assert_eq!(
            Rate::from_bits_per_second(50_000_000).to_string(),
            "50.00 Mbit/s"
        );
    }
}
