//! Shares of hosts, calls and answers.

use serde::Serialize;

use super::work;
use crate::crowd::jain;
use crate::experiment::{Findings, Head};
use crate::measure::StepError;
use crate::statistics::Spread;
use crate::text_table::{aligned, cells};
use crate::verdict::{Asked, Verdict};

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct RouterReport {
    #[serde(flatten)]
    head: Head,
    verdicts: Vec<Verdict>,
    hosts: u8,
    seconds: u64,
    shares: Vec<ShareRow>,
    failures: Vec<String>,
}

/// What all hosts do at the same time, beside calls and questions for names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Load {
    /// A TCP connection each, which goes as a stream.
    Streams,
    /// The same, of which the first host has eight.
    GreedyStreams,
    /// QUIC.
    Quic,
    /// A TCP connection each, which goes as packets.
    Packets,
    /// The same, of which the first host has eight.
    GreedyPackets,
}

/// One load.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct ShareRow {
    load: Load,
    /// Mbit/s of each host.
    rates: Vec<f64>,
    /// Jain's index of these.
    evenness: f64,
    /// Answered of each host's call, as a share.
    calls: Vec<f64>,
    call_round_trips: Option<Spread>,
    /// Questions for names, of all hosts.
    names_asked: usize,
    names_answered: usize,
    name_times: Option<Spread>,
}

impl Load {
    pub(super) const ALL: [Self; 5] = [
        Self::Streams,
        Self::GreedyStreams,
        Self::Quic,
        Self::Packets,
        Self::GreedyPackets,
    ];

    pub(super) const fn is_as_packets(self) -> bool {
        matches!(self, Self::Packets | Self::GreedyPackets)
    }

    pub(super) const fn connections(self, host: u8) -> usize {
        match self {
            Self::GreedyStreams | Self::GreedyPackets if host == 1 => 8,
            _ => 1,
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Streams => "tcp as streams",
            Self::Quic => "quic",
            Self::Packets => "tcp as packets",
            Self::GreedyStreams => "tcp as streams, one host has 8",
            Self::GreedyPackets => "tcp as packets, one host has 8",
        }
    }
}

impl ShareRow {
    pub(super) fn new(
        load: Load,
        rates: Vec<f64>,
        calls: &[work::Asked],
        names: &[work::Asked],
    ) -> Self {
        let times = |all: &[work::Asked]| {
            let answers: Vec<f64> = all.iter().flat_map(|it| it.answers.clone()).collect();
            Spread::of(&answers)
        };
        let answered = |it: &work::Asked| it.answers.len() as f64 / it.asked.max(1) as f64;
        Self {
            load,
            evenness: jain(rates.iter().copied()),
            rates,
            calls: calls.iter().map(answered).collect(),
            call_round_trips: times(calls),
            names_asked: names.iter().map(|it| it.asked).sum(),
            names_answered: names.iter().map(|it| it.answers.len()).sum(),
            name_times: times(names),
        }
    }
}

impl RouterReport {
    pub(super) fn new(head: Head, hosts: u8, seconds: u64) -> Self {
        Self {
            head,
            verdicts: Vec::new(),
            hosts,
            seconds,
            shares: Vec::new(),
            failures: Vec::new(),
        }
    }

    pub(super) fn fail(&mut self, what: &str, error: &StepError) {
        self.failures.push(format!("{what}: {error}"));
    }

    pub(super) fn take(&mut self, row: ShareRow) {
        let name = row.load.name();
        let mut judge = |what: &str, figure, asked| {
            let what = format!("{name}: {what}");
            self.verdicts.push(Verdict::new(what, figure, asked));
        };
        judge("Jain's index", row.evenness, EVEN);
        let least = row.calls.iter().copied().fold(f64::INFINITY, f64::min);
        judge("least share of a call that is answered", least, CALLS);
        let answered = row.names_answered as f64 / row.names_asked.max(1) as f64;
        judge("names found", answered, Asked::AtLeast(1.0));
        self.shares.push(row);
    }
}

impl Findings for RouterReport {
    fn head(&self) -> &Head {
        &self.head
    }

    fn table(&self) -> String {
        let title = format!(
            "{} hosts behind a router, {} s each",
            self.hosts, self.seconds
        );
        let mut rows = vec![cells([
            "load",
            "",
            "Mbit/s",
            "least",
            "most",
            "Jain",
            "call, least",
            "median, ms",
            "p99",
            "names",
            "median, ms",
            "p99",
        ])];
        for row in &self.shares {
            let rates = || row.rates.iter().copied();
            let figure = |figure: f64| format!("{figure:.2}");
            let millis = |spread: &Option<Spread>, of: fn(&Spread) -> f64| {
                let spread = spread.as_ref();
                spread.map_or("-".to_owned(), |it| format!("{:.1}", of(it) * 1e3))
            };
            let calls = row.calls.iter().copied().fold(f64::INFINITY, f64::min);
            rows.push(cells([
                row.load.name(),
                "",
                &figure(rates().sum()),
                &figure(rates().fold(f64::INFINITY, f64::min)),
                &figure(rates().fold(0.0, f64::max)),
                &format!("{:.3}", row.evenness),
                &format!("{calls:.3}"),
                &millis(&row.call_round_trips, |it| it.median),
                &millis(&row.call_round_trips, |it| it.p99),
                &format!("{}/{}", row.names_answered, row.names_asked),
                &millis(&row.name_times, |it| it.median),
                &millis(&row.name_times, |it| it.p99),
            ]));
        }
        self.head.title(&title) + &aligned(&rows)
    }

    fn failures(&self) -> Vec<String> {
        self.failures.clone()
    }

    fn verdicts(&self) -> &[Verdict] {
        &self.verdicts
    }
}

const EVEN: Asked = Asked::AtLeast(0.95);
const CALLS: Asked = Asked::AtLeast(0.99);

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(asked: usize, answers: usize) -> work::Asked {
        work::Asked {
            asked,
            answers: vec![0.02; answers],
        }
    }

    #[test]
    fn uneven_shares_lost_calls_and_names_that_are_not_found_fall_short() {
        let mut report = RouterReport::new(Head::new("router", "x"), 2, 1);
        let whole = [asked(100, 100), asked(100, 100)];
        report.take(ShareRow::new(Load::Streams, vec![1.0, 1.1], &whole, &whole));
        let rates = vec![1.0, 8.0];
        let torn = [asked(100, 100), asked(100, 98)];
        report.take(ShareRow::new(Load::GreedyPackets, rates, &torn, &torn));
        let met: Vec<_> = report.verdicts.iter().map(|it| it.met).collect();
        assert_eq!(met, [true, true, true, false, false, false]);
        assert_eq!(Load::GreedyPackets.connections(1), 8);
        assert_eq!(Load::GreedyPackets.connections(2), 1);
    }
}
