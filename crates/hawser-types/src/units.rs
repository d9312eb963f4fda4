use std::time::Duration;

/// A text that is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnitError {
    /// The text does not begin with a finite number that is zero or more.
    #[error("`{0}` does not begin with a number that is zero or more")]
    Number(String),
    /// The unit behind the number is not one of those allowed.
    #[error("`{got}` has no known unit: allowed are {allowed}")]
    Unit {
        /// The whole text.
        got: String,
        /// The units allowed here.
        allowed: &'static str,
    },
}

impl UnitError {
    pub(crate) fn unit(got: &str, allowed: &'static str) -> Self {
        Self::Unit {
            got: got.to_owned(),
            allowed,
        }
    }
}

/// Reads `250us`, `40ms`, `1.5s`, `10min`, `24h`, `7d`.
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    let (number, unit) = split_number(text)?;
    let seconds = match unit {
        "us" => number / 1e6,
        "ms" => number / 1e3,
        "s" => number,
        "min" | "m" => number * 60.0,
        "h" => number * 3600.0,
        "d" => number * 86_400.0,
        _ => return Err(UnitError::unit(text, "us, ms, s, min, h or d")),
    };
    Duration::try_from_secs_f64(seconds).map_err(|_| UnitError::Number(text.to_owned()))
}

/// Reads `0.05%` as a fraction between 0 and 1.
pub fn parse_percent(text: &str) -> Result<f64, UnitError> {
    let (number, unit) = split_number(text)?;
    match unit {
        "%" if number <= 100.0 => Ok(number / 100.0),
        _ => Err(UnitError::unit(text, "% from 0% to 100%")),
    }
}

/// Splits a quantity into its number (finite, not negative) and its unit (trimmed).
pub(crate) fn split_number(text: &str) -> Result<(f64, &str), UnitError> {
    let trimmed = text.trim();
    let end = trimmed
        .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_'))
        .unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(end);
    match number.replace('_', "").parse::<f64>() {
        Ok(value) if value.is_finite() => Ok((value, unit.trim())),
        _ => Err(UnitError::Number(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_durations_with_their_units() {
        assert_eq!(parse_duration("40ms"), Ok(Duration::from_millis(40)));
        assert_eq!(parse_duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert!(parse_duration("40").is_err());
        assert!(parse_duration("ms").is_err());
    }

    #[test]
    fn a_percentage_is_a_fraction_of_one() {
        assert_eq!(parse_percent("50%"), Ok(0.5));
        assert!(parse_percent("101%").is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_a_unit_parser_panic(text in ".*") {
            let _ = parse_duration(&text);
            let _ = parse_percent(&text);
            let _ = text.parse::<crate::Rate>();
            let _ = text.parse::<crate::ByteCount>();
        }
    }
}
