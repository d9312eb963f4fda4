//! Charts of the bytes that transfers had received over time.

use std::time::Duration;

use hawser_monitor::report::{Chart, Series};

use crate::meter::{BIN, Outcome};

/// The rates of transfers over time, each with its name.
pub(crate) fn chart(title: String, transfers: impl Iterator<Item = (String, Outcome)>) -> Chart {
    let series = |(name, outcome): (String, Outcome)| Series {
        name,
        rates: rates(&outcome.timeline),
    };
    Chart {
        title,
        step: BIN * TOGETHER,
        series: transfers.map(series).collect(),
    }
}

/// The transfer with the median rate; of two in the middle the quicker.
pub(crate) fn median<'a>(outcomes: impl Iterator<Item = &'a Outcome>) -> Option<&'a Outcome> {
    let mut all: Vec<_> = outcomes.collect();
    all.sort_by(|a, b| a.mbps.total_cmp(&b.mbps));
    all.get(all.len() / 2).copied()
}

/// Bit/s over several bins at a time, which single chunks do not make jump. The last ones may be
/// fewer.
fn rates(timeline: &[u64]) -> Vec<f64> {
    let parts = timeline.chunks(TOGETHER as usize);
    parts
        .map(|part| {
            let span: Duration = BIN * u32::try_from(part.len()).unwrap_or(TOGETHER);
            part.iter().sum::<u64>() as f64 * 8.0 / span.as_secs_f64()
        })
        .collect()
}

const TOGETHER: u32 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(mbps: f64, timeline: Vec<u64>) -> Outcome {
        Outcome {
            mbps,
            timeline,
            ..Outcome::default()
        }
    }

    #[test]
    fn rates_are_of_a_quarter_of_a_second_each() {
        let transfer = (
            "x".to_owned(),
            outcome(1.0, vec![25_000, 0, 0, 0, 6_250, 500]),
        );
        let chart = chart("t".to_owned(), std::iter::once(transfer));
        assert_eq!(chart.step, Duration::from_millis(250));
        assert_eq!(chart.series[0].rates, [1e6, 80e3]);
    }

    #[test]
    fn the_median_transfer_is_one_that_was_made() {
        let all = [3.0, 1.0, 2.0].map(|mbps| outcome(mbps, Vec::new()));
        assert_eq!(median(all.iter()).map(|it| it.mbps), Some(2.0));
        assert_eq!(median(all[..2].iter()).map(|it| it.mbps), Some(3.0));
        assert_eq!(median(std::iter::empty()), None);
    }
}
