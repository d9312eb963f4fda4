//! Outcomes of the streams and transfers, phase by phase.

use std::time::Duration;

use hawser_types::Rate;
use serde::Serialize;

use super::stream::Datagram;
use crate::experiment::Head;
use crate::measure::{StepError, recovery};
use crate::meter::{BIN, Outcome};
use crate::scenario::{Direction, Phase, Scenario};
use crate::statistics::Spread;
use crate::verdict::{Asked, Verdict};

/// Times in seconds, rates in Mbit/s.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct RoamingReport {
    #[serde(flatten)]
    pub(super) head: Head,
    pub(super) verdicts: Vec<Verdict>,
    pub(super) phases: Vec<Phase>,
    /// Of each link, in both directions: up, down.
    delays: Vec<[f64; 2]>,
    pub(super) streams: Vec<StreamRow>,
    pub(super) rates: Vec<RateRow>,
    pub(super) failures: Vec<String>,
}

/// One stream of datagrams.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct StreamRow {
    pub(super) direction: Direction,
    pub(super) policy: &'static str,
    /// Hawser heard of a link's going before.
    pub(super) announced: bool,
    pub(super) phases: Vec<StreamPhase>,
    /// The longest time without a datagram after each going of a link.
    gaps: Vec<f64>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct StreamPhase {
    pub(super) sent: usize,
    pub(super) lost: usize,
    pub(super) delay: Option<Spread>,
    /// What the paper has.
    pub(super) mean_delay: Option<f64>,
}

/// What is measured over the span as a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Carried {
    /// Datagrams, nearly as many as all links carry.
    Datagrams,
    /// TCP as packets, from end to end.
    Packets,
    /// The same, and links go without notice.
    PacketsUnannounced,
    /// TCP as a stream of a session.
    Streams,
}

/// What arrived over time.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct RateRow {
    pub(super) direction: Direction,
    pub(super) carried: &'static str,
    pub(super) announced: bool,
    pub(super) phases: Vec<RatePhase>,
    /// Bytes in each bin of 50 ms.
    timeline: Vec<u64>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct RatePhase {
    /// Mean over the phase; none where the transfer was over before its end.
    pub(super) mbps: Option<f64>,
    /// Of what the links carry of payload.
    pub(super) of_links: Option<f64>,
    /// From the beginning of the phase to the first half second at 0.9 of that.
    pub(super) full_after: Option<f64>,
    /// The least half second in the first two seconds, which are the handover.
    pub(super) least: Option<f64>,
}

impl Carried {
    pub(super) const ALL: [Self; 4] = [
        Self::Datagrams,
        Self::Packets,
        Self::PacketsUnannounced,
        Self::Streams,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Datagrams => "udp",
            Self::Packets | Self::PacketsUnannounced => "tcp as packets",
            Self::Streams => "tcp as stream",
        }
    }

    pub(super) const fn is_announced(self) -> bool {
        !matches!(self, Self::PacketsUnannounced)
    }

    /// Payload in a full packet on a link.
    const fn payload(self) -> f64 {
        match self {
            Self::Datagrams => 1200.0 / 1296.0,
            // The inner MTU less 52 bytes of headers, in what it takes on the link.
            Self::Packets | Self::PacketsUnannounced => 1368.0 / 1488.0,
            Self::Streams => 1448.0 / 1500.0,
        }
    }
}

impl StreamRow {
    pub(super) fn new(
        direction: Direction,
        policy: &'static str,
        announced: bool,
        phases: &[Phase],
        datagrams: &[Datagram],
    ) -> Self {
        let of = |phase: &Phase| {
            let is_in = |it: &&Datagram| it.sent >= phase.from && it.sent < phase.until;
            let own = datagrams.iter().filter(is_in);
            let delays: Vec<f64> = own
                .clone()
                .filter_map(|it| Some((it.arrived? - it.sent).as_secs_f64()))
                .collect();
            StreamPhase {
                sent: own.clone().count(),
                lost: own.count() - delays.len(),
                delay: Spread::of(&delays),
                mean_delay: mean(&delays),
            }
        };
        let goings = goings(phases).map(|(at, _)| gap(datagrams, at));
        Self {
            direction,
            policy,
            announced,
            phases: phases.iter().map(of).collect(),
            gaps: goings.collect(),
        }
    }

    pub(super) fn name(&self) -> String {
        let how = if self.announced {
            "announced"
        } else {
            "unannounced"
        };
        format!("stream {} {}, {how}", self.policy, self.direction.name())
    }

    fn lost(&self) -> usize {
        self.phases.iter().map(|phase| phase.lost).sum()
    }
}

fn mean(delays: &[f64]) -> Option<f64> {
    let count = delays.len() as f64;
    (count > 0.0).then(|| delays.iter().sum::<f64>() / count)
}

/// The times at which links go, each with the index of the link.
fn goings(phases: &[Phase]) -> impl Iterator<Item = (Duration, usize)> {
    phases.windows(2).flat_map(|pair| {
        let left = &pair[1].links;
        let gone = pair[0].links.iter().filter(|link| !left.contains(link));
        gone.map(|link| (pair[1].from, *link))
    })
}

/// The longest time between arrivals that ends after `at`, within the time that a handover may
/// take.
fn gap(datagrams: &[Datagram], at: Duration) -> f64 {
    let mut arrivals: Vec<Duration> = datagrams.iter().filter_map(|it| it.arrived).collect();
    arrivals.sort_unstable();
    let around = arrivals.windows(2).filter(|pair| pair[1] > at);
    let around = around.take_while(|pair| pair[0] < at + HANDOVER);
    let gaps = around.map(|pair| pair[1] - pair[0]);
    gaps.max().unwrap_or(HANDOVER).as_secs_f64()
}

impl RateRow {
    pub(super) fn new(
        direction: Direction,
        carried: Carried,
        phases: &[Phase],
        rate: impl Fn(usize) -> Rate,
        timeline: Vec<u64>,
    ) -> Self {
        let outcome = Outcome {
            timeline,
            ..Outcome::default()
        };
        let of = |phase: &Phase| {
            let links = phase.links.iter().map(|link| rate(*link)).sum::<Rate>();
            let most = links.bytes_per_second() as f64 * carried.payload();
            RatePhase::new(phase, &outcome, most)
        };
        Self {
            direction,
            carried: carried.name(),
            announced: carried.is_announced(),
            phases: phases.iter().map(of).collect(),
            timeline: outcome.timeline.clone(),
        }
    }

    pub(super) fn name(&self) -> String {
        let how = if self.announced {
            "announced"
        } else {
            "unannounced"
        };
        format!("{} {}, {how}", self.carried, self.direction.name())
    }
}

impl RatePhase {
    /// `most`: bytes a second that the links carry.
    fn new(phase: &Phase, outcome: &Outcome, most: f64) -> Self {
        let (first, last) = (
            recovery::bin(outcome, phase.from),
            recovery::bin(outcome, phase.until),
        );
        let bins = outcome.timeline.get(first..last);
        let span = (phase.until - phase.from).as_secs_f64();
        let mean = bins.map(|bins| bins.iter().sum::<u64>() as f64 / span);
        let handover = outcome.timeline.get(first..first + HANDOVER_BINS);
        let halves = handover.map(|bins| bins.windows(HALF).map(|half| half.iter().sum::<u64>()));
        let least = halves.and_then(Iterator::min);
        let half = BIN.as_secs_f64() * HALF as f64;
        let full = recovery::until(outcome, phase.from, most * FULL);
        Self {
            mbps: mean.map(|mean| mean * 8e-6),
            of_links: mean.map(|mean| mean / most),
            full_after: full.filter(|after| *after < span),
            least: least.map(|least| least as f64 / half * 8e-6),
        }
    }
}

impl RoamingReport {
    pub(super) fn new(head: Head, scenario: &Scenario, phases: &[Phase]) -> Self {
        let delays = scenario.links.iter().map(|link| {
            [Direction::Put, Direction::Get].map(|way| link.line(way).delay.as_secs_f64())
        });
        Self {
            head,
            verdicts: Vec::new(),
            phases: phases.to_vec(),
            delays: delays.collect(),
            streams: Vec::new(),
            rates: Vec::new(),
            failures: Vec::new(),
        }
    }

    pub(super) fn take<T>(&mut self, row: Result<T, StepError>, enter: impl FnOnce(&mut Self, T)) {
        match row {
            Ok(row) => enter(self, row),
            Err(error) => self.failures.push(error.to_string()),
        }
    }

    pub(super) fn judge(&mut self) {
        let mut verdicts = Vec::new();
        for row in self.streams.iter().filter(|row| row.policy == "auto") {
            self.judge_stream(row, &mut verdicts);
        }
        for row in &self.rates {
            self.judge_rates(row, &mut verdicts);
        }
        self.verdicts = verdicts;
    }

    fn judge_stream(&self, row: &StreamRow, verdicts: &mut Vec<Verdict>) {
        let name = row.name();
        for (number, (phase, own)) in self.phases.iter().zip(&row.phases).enumerate() {
            let quickest = self.quickest(phase, row.direction);
            let median = own.delay.map_or(f64::INFINITY, |delay| delay.median);
            verdicts.push(Verdict::new(
                format!(
                    "{name}: phase {}, median above the quickest link, ms",
                    number + 1
                ),
                (median - quickest) * 1e3,
                NEAR,
            ));
        }
        if row.announced {
            let lost = row.lost() as f64;
            verdicts.push(Verdict::new(
                format!("{name}: lost"),
                lost,
                Asked::AtMost(0.0),
            ));
        } else {
            for ((at, link), gap) in goings(&self.phases).zip(&row.gaps) {
                let [up, down] = self.delays[link];
                let beyond = gap - (up + down);
                verdicts.push(Verdict::new(
                    format!("{name}: gap at {at:?} beyond a round trip, ms"),
                    beyond * 1e3,
                    GAP,
                ));
            }
        }
    }

    /// A phase that has a link more asks for the sum, one that has a link less for no dip below
    /// what is left.
    fn judge_rates(&self, row: &RateRow, verdicts: &mut Vec<Verdict>) {
        let name = row.name();
        let changes = self
            .phases
            .windows(2)
            .zip(row.phases.windows(2))
            .enumerate();
        for (number, (phases, rates)) in changes {
            let phase = number + 2;
            if phases[0]
                .links
                .iter()
                .all(|link| phases[1].links.contains(link))
            {
                verdicts.push(Verdict::new(
                    format!("{name}: phase {phase}, the sum after s"),
                    rates[1].full_after.unwrap_or(f64::INFINITY),
                    Asked::AtMost(1.0),
                ));
            } else if let Some(like) = self.with_links_of(&phases[1].links, row, number) {
                verdicts.push(Verdict::new(
                    format!("{name}: phase {phase}, least of what these links had before"),
                    rates[1].least.map_or(0.0, |least| least / like),
                    NO_DIP,
                ));
            }
        }
    }

    /// The rate of the latest phase until `last` that had just these links.
    fn with_links_of(&self, links: &[usize], row: &RateRow, last: usize) -> Option<f64> {
        let before = self.phases.iter().zip(&row.phases).take(last + 1).rev();
        let mut alike = before.filter(|(phase, _)| phase.links == links);
        alike.find_map(|(_, rates)| rates.mbps)
    }

    fn quickest(&self, phase: &Phase, direction: Direction) -> f64 {
        let way = usize::from(direction == Direction::Get);
        let delays = phase.links.iter().map(|link| self.delays[*link][way]);
        delays.fold(f64::INFINITY, f64::min)
    }
}

/// Bins of half a second.
const HALF: usize = 10;
const HANDOVER_BINS: usize = (HANDOVER.as_millis() / BIN.as_millis()) as usize;
const FULL: f64 = 0.9;
/// The time after a link's going in which arrivals belong to the handover.
const HANDOVER: Duration = Duration::from_secs(2);
const NEAR: Asked = Asked::AtMost(10.0);
const GAP: Asked = Asked::AtMost(150.0);
const NO_DIP: Asked = Asked::AtLeast(0.95);

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(from: u64, until: u64, links: &[usize]) -> Phase {
        Phase {
            from: Duration::from_secs(from),
            until: Duration::from_secs(until),
            links: links.to_vec(),
        }
    }

    fn datagram(sent: u64, took: Option<u64>) -> Datagram {
        let sent = Duration::from_millis(sent);
        Datagram {
            sent,
            arrived: took.map(|took| sent + Duration::from_millis(took)),
        }
    }

    #[test]
    fn delays_and_losses_belong_to_the_phase_of_their_sending() {
        let phases = [phase(0, 1, &[0, 1]), phase(1, 2, &[0])];
        let datagrams = [
            datagram(960, Some(20)),
            datagram(990, Some(30)),
            datagram(1000, None),
            datagram(1100, None),
            datagram(1200, Some(70)),
        ];
        let row = StreamRow::new(Direction::Get, "auto", true, &phases, &datagrams);
        let seen: Vec<_> = row.phases.iter().map(|it| (it.sent, it.lost)).collect();
        assert_eq!(seen, [(2, 0), (3, 2)]);
        assert_eq!(row.lost(), 2);
        assert_eq!(row.phases[1].delay.unwrap().median, 0.07);
        // From 1020 to 1270.
        assert_eq!(row.gaps, [0.25]);
    }

    #[test]
    fn a_handover_after_which_nothing_arrives_is_no_short_one() {
        let phases = [phase(0, 1, &[0, 1]), phase(1, 2, &[0])];
        let row = StreamRow::new(
            Direction::Get,
            "auto",
            false,
            &phases,
            &[datagram(0, Some(9))],
        );
        assert_eq!(row.gaps, [HANDOVER.as_secs_f64()]);
    }

    #[test]
    fn rates_are_judged_when_links_come_and_when_they_go() {
        let phases = [phase(0, 2, &[0]), phase(2, 4, &[0, 1]), phase(4, 6, &[0])];
        // 50 kB a bin is 8 Mbit/s: one link, late both, and a dip.
        let mut timeline = vec![46_000; 60];
        timeline.extend(vec![92_000; 20]);
        timeline.extend(vec![23_000; 10]);
        timeline.extend(vec![46_000; 30]);
        let rate = |_| Rate::from_bits_per_second(8_000_000);
        let row = RateRow::new(Direction::Get, Carried::Packets, &phases, rate, timeline);
        assert!(row.phases[1].full_after.unwrap() > 0.8, "{row:?}");
        assert!(
            (row.phases[2].least.unwrap() - 3.68).abs() < 1e-6,
            "{row:?}"
        );
        let mut report = RoamingReport {
            head: Head::new("roaming", "x"),
            verdicts: Vec::new(),
            phases: phases.to_vec(),
            delays: vec![[0.01; 2]; 2],
            streams: Vec::new(),
            rates: vec![row],
            failures: Vec::new(),
        };
        report.judge();
        let met: Vec<_> = report.verdicts.iter().map(|it| it.met).collect();
        assert_eq!(met, [true, false], "{:?}", report.verdicts);
    }
}
