//! The report of `hawser-lab failover`.

use serde::Serialize;

use super::options::{Load, Trouble};
use crate::contender::Contender;
use crate::experiment::Head;
use crate::meter::Outcome;
use crate::scenario::promise;
use crate::verdict::{Asked, Verdict};

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct FailoverReport {
    #[serde(flatten)]
    pub(super) head: Head,
    pub(super) repeat: u32,
    pub(super) part_seconds: f64,
    pub(super) verdicts: Vec<Verdict>,
    pub(super) cases: Vec<Case>,
}

/// One contender under one trouble and load.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Case {
    pub(super) trouble: Trouble,
    pub(super) load: Load,
    pub(super) by: String,
    pub(super) samples: Vec<Sample>,
    pub(super) failures: Vec<String>,
}

/// One failure of a link.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Sample {
    /// The link that failed, from 1.
    pub(super) link: usize,
    /// Under load the longest silence at the receiver; when idle the time from a request to the
    /// first byte of its answer.
    pub(super) gap_seconds: f64,
    /// Longest allowed gap: 200 ms and a round trip of the quickest link that is left.
    pub(super) allowed_seconds: f64,
    /// Under load: from the link's return (or change of address) until the receiver has half a
    /// second at 0.95 of what it had in the second before the trouble; nothing when that was never
    /// reached.
    pub(super) full_rate_after: Option<f64>,
    /// The transfer, with the receiver's timeline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) outcome: Option<Outcome>,
}

impl Case {
    pub(super) fn name(&self) -> String {
        format!("{} {}", self.trouble.name(), self.load.name())
    }

    pub(super) fn is_own(&self) -> bool {
        self.by == Contender::Hawser.to_string()
    }

    /// Judges Hawser's worst times.
    pub(super) fn verdicts(&self) -> Vec<Verdict> {
        if !self.is_own() {
            return Vec::new();
        }
        let over = |sample: &Sample| sample.gap_seconds - sample.allowed_seconds;
        let worst = self.samples.iter();
        let worst = worst.max_by(|a, b| over(a).total_cmp(&over(b)));
        let mut all = Vec::new();
        if let Some(worst) = worst {
            let what = match self.load {
                Load::Idle => "first byte, s",
                Load::Put | Load::Get => "longest gap, s",
            };
            let asked = Asked::AtMost(worst.allowed_seconds);
            let what = format!("{}: {what}", self.name());
            all.push(Verdict::new(what, worst.gap_seconds, asked));
        }
        if self.load != Load::Idle
            && self.trouble != Trouble::AddressChange
            && let Some(slowest) = self.slowest_return()
        {
            let what = format!("{}: full rate after return, s", self.name());
            all.push(Verdict::new(
                what,
                slowest,
                Asked::AtMost(promise::FULL_RATE.as_secs_f64()),
            ));
        }
        all
    }

    /// Infinite when one never came back.
    pub(super) fn slowest_return(&self) -> Option<f64> {
        let returns = self.samples.iter().map(|sample| sample.full_rate_after);
        returns
            .map(|after| after.unwrap_or(f64::INFINITY))
            .reduce(f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(gap_seconds: f64, allowed_seconds: f64, full_rate_after: Option<f64>) -> Sample {
        Sample {
            link: 1,
            gap_seconds,
            allowed_seconds,
            full_rate_after,
            outcome: None,
        }
    }

    fn case(trouble: Trouble, load: Load, by: &str, samples: Vec<Sample>) -> Case {
        Case {
            trouble,
            load,
            by: by.to_owned(),
            samples,
            failures: Vec::new(),
        }
    }

    #[test]
    fn the_worst_time_counts_beside_what_its_own_link_allows() {
        let samples = vec![sample(0.25, 0.3, Some(1.0)), sample(0.24, 0.22, None)];
        let found = case(Trouble::BlackHole, Load::Put, "hawser", samples).verdicts();
        assert_eq!(found[0].figure, Some(0.24));
        assert_eq!(found[0].asked, Asked::AtMost(0.22));
        assert_eq!(found[1].figure, None);
        assert!(!found[0].met && !found[1].met);
    }

    #[test]
    fn nothing_is_asked_of_others_and_no_return_of_what_stays_or_rests() {
        let of = |trouble, load, by| {
            let samples = vec![sample(0.1, 0.2, None)];
            case(trouble, load, by, samples).verdicts().len()
        };
        assert_eq!(of(Trouble::BlackHole, Load::Put, "mptcp bbr"), 0);
        assert_eq!(of(Trouble::AddressChange, Load::Get, "hawser"), 1);
        assert_eq!(of(Trouble::CarrierLoss, Load::Idle, "hawser"), 1);
        assert_eq!(of(Trouble::CarrierLoss, Load::Get, "hawser"), 2);
    }
}
