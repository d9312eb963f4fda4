//! The times of one way beside those of others.

use serde::Serialize;

use super::variant::Sample;
use crate::statistics::median;

/// Figures of one way, beside those of others in the same rounds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Figures {
    /// Seconds when nothing was known of the links, and the median afterwards.
    pub(super) first_seconds: Option<f64>,
    pub(super) later_seconds: Option<f64>,
    /// Mbit/s of payload at the median.
    pub(super) later_mbps: Option<f64>,
    /// Speed as a multiple of the best link's alone.
    pub(super) of_best_link: Gain,
    /// Speed as a multiple of round robin's.
    pub(super) of_round_robin: Gain,
}

/// Speed as a multiple of another way's in the same round.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Gain {
    pub(super) first: Option<f64>,
    pub(super) later: Option<Range>,
}

/// Of the rounds after the first.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Range {
    pub(super) min: f64,
    pub(super) median: f64,
    pub(super) max: f64,
}

impl Gain {
    pub(super) fn of(samples: &[Sample], others: &[Sample]) -> Self {
        let gain = |sample: &Sample| {
            let other = others.iter().find(|other| other.round == sample.round)?;
            Some(other.seconds / sample.seconds)
        };
        let first = samples.iter().find(|sample| sample.round == 1);
        let later = || samples.iter().filter(|sample| sample.round > 1);
        let later = || later().filter_map(gain);
        let range = median(later()).map(|median| Range {
            min: later().fold(f64::INFINITY, f64::min),
            median,
            max: later().fold(0.0, f64::max),
        });
        Self {
            first: first.and_then(gain),
            later: range,
        }
    }
}
