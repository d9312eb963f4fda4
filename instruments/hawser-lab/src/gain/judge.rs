//! Gains over the best link and over round robin, and whether they are enough.

use super::figures::{Figures, Gain};
use super::report::{Done, Row};
use super::variant::Variant;
use crate::statistics::median;
use crate::verdict::{Asked, Verdict};

/// Sets all ways of a task beside the best link and beside round robin.
pub(super) fn judge(done: &mut Done) {
    let by_median = |row: &&Row| median(row.samples.iter().map(|sample| sample.seconds));
    let links = done.ways.iter();
    let links = links.filter(|row| matches!(row.way, Variant::Link(_)));
    let best = links
        .filter_map(|row| Some((by_median(&row)?, row)))
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .map_or(Vec::new(), |(_, row)| row.samples.clone());
    let turns = done.ways.iter().find(|row| row.way == Variant::RoundRobin);
    let turns = turns.map_or(Vec::new(), |row| row.samples.clone());
    let megabits = done.bytes.as_u64() as f64 * 8e-6;
    for row in &mut done.ways {
        let first = row.samples.iter().find(|sample| sample.round == 1);
        let later = row.samples.iter().filter(|sample| sample.round > 1);
        let later = median(later.map(|sample| sample.seconds));
        row.figures = Figures {
            first_seconds: first.map(|sample| sample.seconds),
            later_seconds: later,
            later_mbps: later.map(|seconds| megabits / seconds),
            of_best_link: Gain::of(&row.samples, &best),
            of_round_robin: Gain::of(&row.samples, &turns),
        };
    }
}

/// Asked is a gain over both, with what was learned and without. What no round has says nothing.
pub(super) fn verdicts(done: &Done) -> Vec<Verdict> {
    let mut all = Vec::new();
    for row in done.ways.iter().filter(|row| row.way.is_hawser()) {
        let name = format!("{} by {}", done.task.name(), row.way);
        for (than, gain) in [
            ("the best link", row.figures.of_best_link),
            ("round robin", row.figures.of_round_robin),
        ] {
            let later = gain.later.map(|range| range.median);
            for (when, gain) in [("first", gain.first), ("later", later)] {
                if let Some(gain) = gain {
                    let what = format!("{name}, {when}: times as fast as {than}");
                    all.push(Verdict::new(what, gain, Asked::AtLeast(1.0)));
                }
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use hawser_types::ByteCount;

    use super::super::task::Task;
    use super::super::variant::Sample;
    use super::*;

    fn row(way: Variant, seconds: &[f64]) -> Row {
        let sample = |(index, seconds): (usize, &f64)| Sample {
            round: 1 + u8::try_from(index).unwrap(),
            seconds: *seconds,
            start_seconds: 0.1,
            carried: Vec::new(),
        };
        Row {
            way,
            samples: seconds.iter().enumerate().map(sample).collect(),
            figures: Figures::default(),
        }
    }

    fn judged(ways: Vec<Row>) -> Done {
        let mut done = Done {
            task: Task::Curl,
            bytes: ByteCount::new(1_000_000),
            ways,
        };
        judge(&mut done);
        done
    }

    #[test]
    fn a_gain_is_over_the_same_round_of_the_better_link() {
        let done = judged(vec![
            row(Variant::Link(0), &[8.0, 8.0, 8.0]),
            row(Variant::Link(1), &[4.0, 6.0, 5.0]),
            row(Variant::RoundRobin, &[6.0, 6.0, 6.0]),
            row(Variant::Kernel, &[5.0, 3.0, 2.0]),
        ]);
        let figures = done.ways[3].figures;
        assert_eq!(figures.later_seconds, Some(2.5));
        assert_eq!(figures.of_best_link.first, Some(0.8));
        let later = figures.of_best_link.later.unwrap();
        assert_eq!((later.min, later.max), (2.0, 2.5));
        assert_eq!(figures.of_round_robin.later.unwrap().median, 2.5);
    }

    #[test]
    fn both_gains_are_asked_for_first_and_later() {
        let done = judged(vec![
            row(Variant::Link(0), &[4.0, 4.0]),
            row(Variant::RoundRobin, &[6.0, 6.0]),
            row(Variant::Shim, &[5.0, 3.0]),
        ]);
        let verdicts = verdicts(&done);
        let met: Vec<_> = verdicts.iter().map(|verdict| verdict.met).collect();
        assert_eq!(met, [false, true, true, true]);
        assert_eq!(
            verdicts[0].what,
            "curl by shim, first: times as fast as the best link"
        );
    }

    #[test]
    fn a_round_that_failed_is_compared_with_nothing() {
        let mut turns = row(Variant::RoundRobin, &[6.0, 6.0, 6.0]);
        turns.samples.remove(1);
        let done = judged(vec![turns, row(Variant::Shim, &[3.0, 1.0, 2.0])]);
        let figures = done.ways[1].figures;
        assert_eq!(figures.of_round_robin.later.unwrap().median, 3.0);
        assert_eq!(figures.of_best_link.first, None);
    }
}
