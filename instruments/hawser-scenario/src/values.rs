//! Values with their units, as scenario files hold them.

use std::fmt::{self, Display};
use std::str::FromStr;
use std::time::Duration;

use hawser_types::{parse_duration, parse_percent};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Visitor};

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

/// `"0.05%"`, or `{ mean = "1%", burst = 8 }` where losses come in a row.
#[derive(Clone, Copy, Default)]
pub(super) struct LossText {
    /// A fraction of one.
    pub(super) mean: f64,
    /// Packets.
    pub(super) burst: Option<f64>,
}

impl<'de> Deserialize<'de> for LossText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LossVisitor)
    }
}

/// Written by hand, since an untagged enum gives no useful error.
struct LossVisitor;

impl<'de> Visitor<'de> for LossVisitor {
    type Value = LossText;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(r#""0.05%" or { mean = "1%", burst = 8 }"#)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<LossText, E> {
        let mean = parse_percent(text).map_err(E::custom)?;
        let burst = None;
        Ok(LossText { mean, burst })
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<LossText, A::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Table {
            mean: String,
            burst: f64,
        }
        let table = Table::deserialize(MapAccessDeserializer::new(map))?;
        let mean = parse_percent(&table.mean).map_err(de::Error::custom)?;
        let burst = Some(table.burst);
        Ok(LossText { mean, burst })
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
