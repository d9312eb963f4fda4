//! Rates that change over time, from steps in the scenario or from a recorded trace.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hawser_types::{ByteCount, Rate};

use crate::ReadText;

/// A piece of constant rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Duration.
    pub span: Duration,
    /// The rate during it; zero serves nothing.
    pub rate: Rate,
}

/// A trace that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The file cannot be read.
    #[error("cannot read {}: {reason}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        reason: std::io::Error,
    },
    /// A line is not a time in whole milliseconds, or goes back in time.
    #[error("line {line} is `{got}`: allowed are whole milliseconds that never fall, up to 1 h")]
    Line {
        /// Counted from 1.
        line: usize,
        /// The line's text.
        got: String,
    },
    /// The trace never serves anything.
    #[error("a trace needs at least one piece longer than nothing with a rate above zero")]
    Empty,
}

/// Reads a trace in the form of mahimahi: each line is the millisecond at which one packet of
/// 1500 bytes may leave; the last line is the length of the trace, which then repeats.
pub(super) fn load(path: &Path, read: ReadText<'_>) -> Result<Vec<Segment>, TraceError> {
    let text = read(path).map_err(|reason| TraceError::Read {
        path: path.to_owned(),
        reason,
    })?;
    parse(&text)
}

pub(super) fn parse(text: &str) -> Result<Vec<Segment>, TraceError> {
    let mut chances: Vec<u64> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let last = chances.last().copied().unwrap_or(0);
        match line.parse::<u64>() {
            Ok(at) if at >= last && at <= MAX_TRACE_MILLIS => chances.push(at),
            _ => {
                return Err(TraceError::Line {
                    line: index + 1,
                    got: line.chars().take(40).collect(),
                });
            }
        }
    }
    let length = chances.last().copied().unwrap_or(0);
    let steps = length.div_ceil(STEP_MILLIS);
    let mut packets = vec![0_u64; usize::try_from(steps).unwrap_or(0)];
    for at in chances {
        // An opportunity at the very end belongs to the last step.
        let step = (at / STEP_MILLIS).min(steps.saturating_sub(1));
        if let Some(count) = packets.get_mut(usize::try_from(step).unwrap_or(usize::MAX)) {
            *count += 1;
        }
    }
    let span = Duration::from_millis(STEP_MILLIS);
    check(
        packets
            .into_iter()
            .map(|count| Segment {
                span,
                rate: Rate::over(ByteCount::new(count * CHANCE_BYTES), span),
            })
            .collect(),
    )
}

/// Refuses a trace that would never serve.
pub(super) fn check(segments: Vec<Segment>) -> Result<Vec<Segment>, TraceError> {
    let serves = |s: &Segment| s.rate > Rate::ZERO && s.span >= Duration::from_millis(1);
    if segments.iter().any(serves) {
        Ok(segments)
    } else {
        Err(TraceError::Empty)
    }
}

pub(super) fn mean_rate(segments: &[Segment]) -> Rate {
    let bytes = segments.iter().map(|s| s.rate * s.span).sum();
    Rate::over(bytes, segments.iter().map(|s| s.span).sum())
}

/// Width of the steps in which opportunities are added up, fine enough for a queue of tens of
/// milliseconds.
const STEP_MILLIS: u64 = 5;
/// Bytes of one opportunity of a mahimahi trace.
const CHANCE_BYTES: u64 = 1500;
const MAX_TRACE_MILLIS: u64 = 3_600_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chance_each_millisecond_is_twelve_megabits() {
        let text: String = (1..=1000).map(|at| format!("{at}\n")).collect();
        let segments = parse(&text).unwrap();
        assert_eq!(mean_rate(&segments), Rate::from_bits_per_second(12_000_000));
    }

    #[test]
    fn a_trace_that_goes_back_in_time_is_refused_with_its_line() {
        let error = parse("5\n4\n").unwrap_err();
        assert!(matches!(error, TraceError::Line { line: 2, .. }), "{error}");
    }

    #[test]
    fn a_trace_that_never_serves_is_refused() {
        assert!(matches!(parse(""), Err(TraceError::Empty)));
        assert!(matches!(parse("0\n0\n"), Err(TraceError::Empty)));
    }
}
