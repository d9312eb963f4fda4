//! Values with their units, as scenario files hold them.

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use hawser_types::{parse_duration, parse_percent};
use serde::Deserialize;
use serde::de::{self, Deserializer};

/// `"40ms"`.
#[derive(Clone, Copy, Default)]
pub(super) struct Span(pub(super) Duration);

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse_duration(&text).map(Self).map_err(de::Error::custom)
    }
}

/// `"200ms..400ms"`, or one span for both ends.
#[derive(Clone, Copy)]
pub(super) struct SpanRange(pub(super) (Duration, Duration));

impl<'de> Deserialize<'de> for SpanRange {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let (from, to) = text.split_once("..").unwrap_or((&text, &text));
        let from = parse_duration(from).map_err(de::Error::custom)?;
        let to = parse_duration(to).map_err(de::Error::custom)?;
        Ok(Self((from, to)))
    }
}

/// `"0.05%"`, as a fraction of one.
#[derive(Clone, Copy)]
pub(super) struct Percent(pub(super) f64);

impl<'de> Deserialize<'de> for Percent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse_percent(&text).map(Self).map_err(de::Error::custom)
    }
}

/// Reads a value that has a text form with its unit.
pub(super) fn from_text<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr,
    T::Err: Display,
{
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(de::Error::custom)
}

/// The same for a key that may be missing.
pub(super) fn maybe_text<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr,
    T::Err: Display,
{
    from_text(deserializer).map(Some)
}
