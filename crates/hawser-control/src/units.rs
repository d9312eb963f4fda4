//! Quantities in JSON: plain numbers, with the unit in the field's name.

/// A span as milliseconds with a fraction.
pub(crate) mod milliseconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    pub(crate) fn serialize<S: Serializer>(span: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(span.as_nanos() as f64 / 1e6)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        let millis = f64::deserialize(from)?;
        read(millis).ok_or_else(|| D::Error::custom(format!("{millis} is no span in milliseconds")))
    }

    fn read(millis: f64) -> Option<Duration> {
        Duration::try_from_secs_f64(millis / 1e3).ok()
    }

    /// The same for an optional span.
    pub(crate) mod option {
        use super::*;

        pub(crate) fn serialize<S: Serializer>(
            span: &Option<Duration>,
            to: S,
        ) -> Result<S::Ok, S::Error> {
            match span {
                Some(span) => super::serialize(span, to),
                None => to.serialize_none(),
            }
        }

        pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
            from: D,
        ) -> Result<Option<Duration>, D::Error> {
            let Some(millis) = Option::<f64>::deserialize(from)? else {
                return Ok(None);
            };
            let span = read(millis);
            let wrong = || D::Error::custom(format!("{millis} is no span in milliseconds"));
            span.map(Some).ok_or_else(wrong)
        }
    }

    /// The same for a list of optional spans.
    pub(crate) mod option_list {
        use super::*;

        #[derive(Serialize, Deserialize)]
        struct One(#[serde(with = "super::option")] Option<Duration>);

        pub(crate) fn serialize<S: Serializer>(
            spans: &[Option<Duration>],
            to: S,
        ) -> Result<S::Ok, S::Error> {
            to.collect_seq(spans.iter().copied().map(One))
        }

        pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
            from: D,
        ) -> Result<Vec<Option<Duration>>, D::Error> {
            let spans = Vec::<One>::deserialize(from)?;
            Ok(spans.into_iter().map(|One(span)| span).collect())
        }
    }
}

/// A rate as bit/s.
pub(crate) mod bits_per_second {
    use hawser_types::Rate;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(rate: &Rate, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(rate.bits_per_second())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Rate, D::Error> {
        u64::deserialize(from).map(Rate::from_bits_per_second)
    }

    /// The same for a list of rates.
    pub(crate) mod list {
        use super::*;

        pub(crate) fn serialize<S: Serializer>(rates: &[Rate], to: S) -> Result<S::Ok, S::Error> {
            to.collect_seq(rates.iter().map(|rate| rate.bits_per_second()))
        }

        pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
            from: D,
        ) -> Result<Vec<Rate>, D::Error> {
            let rates = Vec::<u64>::deserialize(from)?;
            Ok(rates.into_iter().map(Rate::from_bits_per_second).collect())
        }
    }
}
