//! Prometheus' text format, version 0.0.4.
//!
//! Source: <https://prometheus.io/docs/instrumenting/exposition_formats/>.

use std::fmt::{self, Display, Write as _};
use std::time::Duration;

use hawser_types::{ByteCount, Rate};

/// A label and its value.
pub(super) type Label<'a> = (&'static str, &'a str);

/// Families of samples, one below the other.
#[derive(Default)]
pub(super) struct Text(String);

impl Text {
    /// Begins a family of counts that only grow; its name ends in `_total`.
    pub(super) fn counter(&mut self, name: &'static str, help: &'static str) -> Family<'_> {
        self.begin("counter", name, help)
    }

    /// Begins a family of values that may fall.
    pub(super) fn gauge(&mut self, name: &'static str, help: &'static str) -> Family<'_> {
        self.begin("gauge", name, help)
    }

    /// Returns the whole text.
    pub(super) fn into_string(self) -> String {
        self.0
    }

    fn begin(&mut self, kind: &str, name: &'static str, help: &'static str) -> Family<'_> {
        self.0
            .push_str(&format!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
        Family {
            text: &mut self.0,
            name,
        }
    }
}

/// The samples of one family.
pub(super) struct Family<'a> {
    text: &'a mut String,
    name: &'static str,
}

impl Family<'_> {
    /// Adds a sample. All samples of a family must have different labels.
    pub(super) fn put(&mut self, labels: &[Label<'_>], value: impl Into<Value>) {
        let before = |at: usize| if at == 0 { '{' } else { ',' };
        self.text.push_str(self.name);
        for (at, (label, value)) in labels.iter().enumerate() {
            let value = Escaped(value);
            // Writing to a string never fails.
            let _ = write!(self.text, "{}{label}=\"{value}\"", before(at));
        }
        let after = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.text, "{after} {}", value.into());
    }

    /// Adds a sample if the value is known.
    pub(super) fn put_known(&mut self, labels: &[Label<'_>], value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.put(labels, value);
        }
    }

    /// Adds a sample for every possible value of `label`: 1 for the current one, 0 for the others.
    pub(super) fn put_state<T: Display + PartialEq>(
        &mut self,
        labels: &[Label<'_>],
        label: &'static str,
        words: &[T],
        truth: &T,
    ) {
        for word in words {
            let shown = word.to_string();
            let labels = [labels, &[(label, shown.as_str())]].concat();
            self.put(&labels, word == truth);
        }
    }

    /// Adds a sample for every possible value of `label`, with its count.
    pub(super) fn put_counts<T: Display>(
        &mut self,
        label: &'static str,
        words: &[T],
        count: impl Fn(&T) -> u64,
    ) {
        for word in words {
            self.put(&[(label, &word.to_string())], count(word));
        }
    }
}

/// A sample's value, in base units: bytes, seconds, ratios.
#[derive(Clone, Copy)]
pub(super) enum Value {
    Whole(u64),
    Real(f64),
}

impl From<u64> for Value {
    fn from(count: u64) -> Self {
        Self::Whole(count)
    }
}

impl From<bool> for Value {
    fn from(is_true: bool) -> Self {
        Self::Whole(is_true.into())
    }
}

impl From<ByteCount> for Value {
    fn from(count: ByteCount) -> Self {
        Self::Whole(count.as_u64())
    }
}

impl From<Rate> for Value {
    fn from(rate: Rate) -> Self {
        Self::Whole(rate.bytes_per_second())
    }
}

impl From<Duration> for Value {
    fn from(span: Duration) -> Self {
        Self::Real(span.as_secs_f64())
    }
}

impl From<f64> for Value {
    fn from(ratio: f64) -> Self {
        Self::Real(ratio)
    }
}

impl Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(count) => write!(f, "{count}"),
            Self::Real(real) if real.is_infinite() && *real > 0.0 => f.write_str("+Inf"),
            Self::Real(real) if real.is_infinite() => f.write_str("-Inf"),
            Self::Real(real) => write!(f, "{real}"),
        }
    }
}

/// A label's value, escaped for its quotation marks.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '\\' => f.write_str("\\\\")?,
                '"' => f.write_str("\\\"")?,
                '\n' => f.write_str("\\n")?,
                other => f.write_char(other)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_has_its_head_and_its_samples() {
        let mut text = Text::default();
        let mut family = text.counter("a_total", "What was counted.");
        family.put(&[], 3_u64);
        family.put(&[("link", "a\\b\"c\nd"), ("way", "up")], 4_u64);
        let mut family = text.gauge("b", "What is.");
        family.put_state(&[("x", "y")], "state", &["on", "off"], &"off");
        family.put_counts("word", &["one", "two"], |word| {
            u64::from(*word == "two") * 2
        });
        let expected = "# HELP a_total What was counted.\n\
            # TYPE a_total counter\n\
            a_total 3\n\
            a_total{link=\"a\\\\b\\\"c\\nd\",way=\"up\"} 4\n\
            # HELP b What is.\n\
            # TYPE b gauge\n\
            b{x=\"y\",state=\"on\"} 0\n\
            b{x=\"y\",state=\"off\"} 1\n\
            b{word=\"one\"} 0\n\
            b{word=\"two\"} 2\n";
        assert_eq!(text.into_string(), expected);
    }

    #[test]
    fn values_are_in_base_units() {
        let shown = |value: Value| value.to_string();
        assert_eq!(shown(Duration::from_micros(1500).into()), "0.0015");
        assert_eq!(shown(Rate::from_bits_per_second(8_000).into()), "1000");
        assert_eq!(shown(ByteCount::from_kib(1).into()), "1024");
        assert_eq!(shown(u64::MAX.into()), "18446744073709551615");
        assert_eq!(shown(true.into()), "1");
        assert_eq!(shown(f64::INFINITY.into()), "+Inf");
        assert_eq!(shown(f64::NEG_INFINITY.into()), "-Inf");
        assert_eq!(shown(f64::NAN.into()), "NaN");
    }
}
