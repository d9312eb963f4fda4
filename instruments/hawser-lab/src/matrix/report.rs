//! Outcomes compared with expectations.

use serde::Serialize;

use super::expected::{Cell, Connection, Load};
use super::fault::Fault;
use crate::experiment::{Findings, Head, named};
use crate::meter::Outcome;
use crate::text_table::aligned;
use crate::verdict::{Asked, Verdict};

/// All cells that were run.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct MatrixReport {
    #[serde(flatten)]
    pub(super) head: Head,
    pub(super) verdicts: Vec<Verdict>,
    pub(super) cells: Vec<Found>,
}

/// One cell that was run.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Found {
    name: String,
    fault: Fault,
    load: Load,
    transport: &'static str,
    expected: Connection,
    within_seconds: f64,
    /// `None` where neither could be found out.
    pub(super) connection: Option<Connection>,
    /// `None` if it did not recover.
    pub(super) recovery_seconds: Option<f64>,
    /// Longest silence at the receiver after the fault, under load.
    pub(super) gap_seconds: Option<f64>,
    /// Time until the application was told that its connection at rest is lost.
    pub(super) ended_seconds: Option<f64>,
    /// What the application was told of a connection that is lost.
    pub(super) error: Option<String>,
    is_said: bool,
    /// Lines of the client's log that say so.
    pub(super) said: Vec<String>,
    /// Whatever else went wrong.
    pub(super) problems: Vec<String>,
    pub(super) outcome: Option<Outcome>,
}

impl Found {
    pub(super) fn new(cell: &Cell) -> Self {
        Self {
            name: cell.name(),
            fault: cell.fault,
            load: cell.load,
            transport: cell.transport.name(),
            expected: cell.expected.connection,
            within_seconds: cell.expected.within.as_secs_f64(),
            connection: None,
            recovery_seconds: None,
            gap_seconds: None,
            ended_seconds: None,
            error: None,
            is_said: cell.expected.says.is_some(),
            said: Vec::new(),
            problems: Vec::new(),
            outcome: None,
        }
    }

    pub(super) fn verdicts(&self) -> Vec<Verdict> {
        let name = &self.name;
        let as_expected = self.connection == Some(self.expected) && self.problems.is_empty();
        let what = match self.expected {
            Connection::Kept => "connection kept, all bytes right",
            Connection::Lost => "connection lost",
        };
        let mut all = vec![Verdict::new(
            format!("{name}: {what}"),
            f64::from(u8::from(as_expected)),
            Asked::AtLeast(1.0),
        )];
        let recovery = self.recovery_seconds.unwrap_or(f64::INFINITY);
        let within = Asked::AtMost(self.within_seconds);
        let longest = recovery.max(self.gap_seconds.unwrap_or(0.0));
        all.push(Verdict::new(
            format!("{name}: recovery, s"),
            longest,
            within,
        ));
        if self.is_said {
            // One line, neither none nor many.
            let is_one = f64::from(u8::from(self.said.len() == 1));
            let what = format!("{name}: said in one line");
            all.push(Verdict::new(what, is_one, Asked::AtLeast(1.0)));
        }
        all
    }

    /// One line about it.
    pub(super) fn line(&self) -> String {
        self.cells().join("  ")
    }

    fn cells(&self) -> Vec<String> {
        let seconds = |time: Option<f64>| time.map_or("-".to_owned(), |time| format!("{time:.2}"));
        let connection = match self.connection {
            Some(Connection::Kept) => "kept",
            Some(Connection::Lost) => "lost",
            None => "?",
        };
        let is_met = self.verdicts().iter().all(|verdict| verdict.met);
        vec![
            self.name.clone(),
            if is_met { "met" } else { "SHORT" }.to_owned(),
            connection.to_owned(),
            seconds(self.recovery_seconds),
            seconds(self.gap_seconds),
        ]
    }
}

impl Findings for MatrixReport {
    fn head(&self) -> &Head {
        &self.head
    }

    fn table(&self) -> String {
        let header = ["cell", "", "connection", "recovery, s", "longest gap, s"];
        let header = header.map(str::to_owned).to_vec();
        let rows = self.cells.iter().map(Found::cells);
        let mut text = self.head.title("faults, loads and transports");
        text.push_str(&aligned(
            &std::iter::once(header).chain(rows).collect::<Vec<_>>(),
        ));
        text
    }

    fn failures(&self) -> Vec<String> {
        let of = |cell: &Found| named(&cell.name, &cell.problems);
        self.cells.iter().flat_map(of).collect()
    }

    fn verdicts(&self) -> &[Verdict] {
        &self.verdicts
    }
}
