//! The report of `hawser-lab objects`.

use hawser_types::ByteCount;
use serde::Serialize;

use crate::contender::Contender;
use crate::experiment::Head;
use crate::measure::alike;
use crate::scenario::{Direction, Scenario};
use crate::statistics::Spread;
use crate::verdict::{Asked, Verdict};

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct ObjectsReport {
    #[serde(flatten)]
    pub(super) head: Head,
    /// Seconds for each size.
    pub(super) span_seconds: f64,
    pub(super) verdicts: Vec<Verdict>,
    /// Failures other than those of single objects.
    pub(super) failures: Vec<String>,
    pub(super) groups: Vec<Group>,
}

/// All objects of one size in one direction.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Group {
    pub(super) bytes: u64,
    pub(super) direction: Direction,
    /// The link that is best for plain TCP, from 1.
    pub(super) tcp_link: usize,
    pub(super) rows: Vec<Row>,
}

/// Objects of one contender.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Row {
    pub(super) by: String,
    /// From connecting to the last byte acknowledged by the receiving application.
    pub(super) seconds: Option<Spread>,
    pub(super) samples: Vec<f64>,
    pub(super) failures: Vec<String>,
}

impl Group {
    pub(super) fn new(
        size: ByteCount,
        direction: Direction,
        link: usize,
        contenders: &[Contender],
    ) -> Self {
        let row = |contender: &Contender| Row {
            by: contender.to_string(),
            seconds: None,
            samples: Vec::new(),
            failures: Vec::new(),
        };
        Self {
            bytes: size.as_u64(),
            direction,
            tcp_link: link + 1,
            rows: contenders.iter().map(row).collect(),
        }
    }

    pub(super) fn name(&self) -> String {
        format!("{} {}", self.direction.name(), ByteCount::new(self.bytes))
    }

    /// Hawser beside the better of plain TCP's figures; as many as were asked for.
    pub(super) fn verdicts(&self, scenario: &Scenario, least: u32) -> Vec<Verdict> {
        let [hawser, tcp @ ..] = self.rows.as_slice() else {
            return Vec::new();
        };
        let asked = match alike(scenario, self.direction) {
            0 | 1 => Asked::AtMost(1.0),
            _ => Asked::Below(1.0),
        };
        let mut all = Vec::new();
        let figures: [Figure; 2] = [("median", |s| s.median), ("p99", |s| s.p99)];
        for (name, of) in figures {
            let own = hawser.seconds.as_ref().map(of);
            let plain = tcp.iter().filter_map(|row| row.seconds.as_ref().map(of));
            if let (Some(own), Some(plain)) = (own, plain.reduce(f64::min)) {
                let what = format!("{}: {name}, of tcp's", self.name());
                all.push(Verdict::new(what, own / plain, asked));
            }
        }
        let count = self.rows.iter().map(|row| row.samples.len()).min();
        let what = format!("{}: objects", self.name());
        let least = Asked::AtLeast(least.into());
        all.push(Verdict::new(what, count.unwrap_or(0) as f64, least));
        all
    }
}

/// A figure of a spread, and its name.
type Figure = (&'static str, fn(&Spread) -> f64);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::no_files;

    fn row(by: &str, samples: &[f64]) -> Row {
        Row {
            by: by.to_owned(),
            seconds: Spread::of(samples),
            samples: samples.to_vec(),
            failures: Vec::new(),
        }
    }

    fn judged(second: &str, hawser: f64) -> Vec<bool> {
        let link = |rate: &str| format!("[[link]]\nrate = \"{rate}\"\n");
        let links = [link("10Mbit/s"), link(second)].concat();
        let text = format!("payload = \"1MB\"\n{links}");
        let scenario = Scenario::parse("test", &text, &no_files).unwrap();
        let group = Group {
            rows: vec![
                row("hawser", &[hawser; 2]),
                row("tcp cubic", &[1.0, 2.0]),
                row("tcp bbr", &[1.5, 1.5]),
            ],
            ..Group::new(ByteCount::new(20_000), Direction::Put, 0, &[])
        };
        let all = group.verdicts(&scenario, 2);
        all.iter().map(|verdict| verdict.met).collect()
    }

    #[test]
    fn each_figure_is_set_against_the_better_of_its_kind() {
        // Median: cubic's 1.0; p99: bbr's 1.5.
        assert_eq!(judged("5Mbit/s", 1.0), [true, true, true]);
        assert_eq!(judged("5Mbit/s", 1.2), [false, true, true]);
        assert_eq!(judged("5Mbit/s", 1.6), [false, false, true]);
    }

    #[test]
    fn where_links_are_alike_less_is_asked_than_plain_tcp_takes() {
        assert_eq!(judged("10Mbit/s", 1.0), [false, true, true]);
        assert_eq!(judged("10Mbit/s", 0.9), [true, true, true]);
    }
}
