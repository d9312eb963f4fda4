use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Strength of a radio signal, in dBm: the received power of the network's own transmitter.
///
/// From -160 to 0. What it means depends on the [`Radio`]: RSSI with Wi-Fi, RSCP with UMTS, RSRP
/// with LTE and 5G, whose ranges are in 3GPP TS 36.133 §9.1.4 and TS 38.133 §10.1.6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "i16", into = "i16")]
pub struct SignalStrength(i16);

/// A kind of radio, which gives a strength its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Radio {
    /// IEEE 802.11.
    #[default]
    WiFi,
    /// WCDMA.
    Umts,
    /// LTE.
    Lte,
    /// 5G (NR).
    Nr,
}

/// Forecast from a link's signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SignalState {
    /// The link can be used.
    #[default]
    Good,
    /// The link is about to go: traffic leaves it for others.
    Fading,
    /// So little is received that the link hardly carries anything.
    Lost,
}

/// A strength that is out of range, or a text that is no strength.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is no signal strength; give one from -160dBm to 0dBm, such as -80dBm")]
pub struct SignalStrengthError(String);

impl SignalStrength {
    /// The least strength.
    pub const MIN: Self = Self(-160);

    /// Returns the strength; `None` if it is out of range.
    pub const fn new(dbm: i16) -> Option<Self> {
        if dbm < Self::MIN.0 || dbm > 0 {
            return None;
        }
        Some(Self(dbm))
    }

    /// Returns the strength nearest to a measured one; `None` if it is out of range.
    pub fn nearest(dbm: f64) -> Option<Self> {
        let is_sound = (f64::from(Self::MIN.0)..=0.0).contains(&dbm);
        is_sound.then(|| Self(dbm.round() as i16))
    }

    /// Returns the strength in dBm.
    pub const fn dbm(self) -> i16 {
        self.0
    }
}

impl TryFrom<i16> for SignalStrength {
    type Error = SignalStrengthError;

    fn try_from(dbm: i16) -> Result<Self, Self::Error> {
        Self::new(dbm).ok_or_else(|| SignalStrengthError(dbm.to_string()))
    }
}

impl From<SignalStrength> for i16 {
    fn from(strength: SignalStrength) -> Self {
        strength.0
    }
}

impl FromStr for SignalStrength {
    type Err = SignalStrengthError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = text.strip_suffix("dBm").unwrap_or(text);
        let read = number.trim_end().parse().ok().and_then(Self::new);
        read.ok_or_else(|| SignalStrengthError(text.to_owned()))
    }
}

impl fmt::Display for SignalStrength {
    /// Writes it as it is read: `-80dBm`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}dBm", self.0))
    }
}

impl Radio {
    /// Returns the name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::WiFi => "Wi-Fi",
            Self::Umts => "UMTS",
            Self::Lte => "LTE",
            Self::Nr => "5G",
        }
    }
}

impl SignalState {
    /// All values.
    pub const ALL: &'static [Self] = &[Self::Good, Self::Fading, Self::Lost];

    /// Returns the word that stands for it in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Fading => "fading",
            Self::Lost => "lost",
        }
    }
}

impl fmt::Display for SignalState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strengths_are_read_as_they_are_written_and_within_their_range() {
        let strength: SignalStrength = "-80dBm".parse().unwrap();
        assert_eq!(
            (strength.dbm(), strength.to_string()),
            (-80, "-80dBm".into())
        );
        assert_eq!("-80".parse(), Ok(strength));
        assert_eq!("-80 dBm".parse(), Ok(strength));
        for wrong in ["", "dBm", "1dBm", "-161dBm", "-80mW", "-8e1", "99999999"] {
            let error = wrong.parse::<SignalStrength>().unwrap_err().to_string();
            assert!(error.contains("from -160dBm to 0dBm"), "{error}");
        }
        assert_eq!(SignalStrength::nearest(-80.4), Some(strength));
        for wrong in [f64::NAN, f64::INFINITY, -32768.0, 0.5] {
            assert_eq!(SignalStrength::nearest(wrong), None);
        }
    }
}
