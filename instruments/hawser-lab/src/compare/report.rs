//! The report of `hawser-lab compare`.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::way::Way;
use crate::experiment::{Findings, Head, named};
use crate::meter::Congestion;
use crate::statistics::{Spread, median};
use crate::text_table::aligned;

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct CompareReport {
    #[serde(flatten)]
    pub(super) head: Head,
    /// What the scenario is, in a few words.
    pub(super) summary: String,
    pub(super) seconds: u64,
    pub(super) repeat: u32,
    pub(super) rows: Vec<Row>,
}

/// What one way did.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Row {
    pub(super) way: Way,
    /// The congestion control with the quicker download, where it can be chosen.
    pub(super) control: Option<Congestion>,
    /// Mbit/s of payload of each repetition.
    pub(super) download: Vec<f64>,
    /// The same of a download before that one, for a way that has to learn what its links carry.
    #[serde(default)]
    pub(super) first: Vec<f64>,
    pub(super) upload: Vec<f64>,
    /// Seconds without a byte when the best link dies; none where transfers end with it.
    pub(super) gap: Vec<f64>,
    /// Seconds that each packet of a call took, there and back, beside a download.
    pub(super) call: Vec<f64>,
    pub(super) failures: Vec<String>,
}

impl Row {
    pub(super) fn new(way: Way) -> Self {
        Self {
            way,
            control: None,
            download: Vec::new(),
            first: Vec::new(),
            upload: Vec::new(),
            gap: Vec::new(),
            call: Vec::new(),
            failures: Vec::new(),
        }
    }

    pub(super) fn add_delays(&mut self, seconds: &[f64]) {
        self.call.extend_from_slice(seconds);
    }

    /// The name, with the congestion control where one was chosen.
    pub(super) fn name(&self) -> String {
        match self.control {
            None => self.way.title().to_owned(),
            Some(control) => format!("{}, {}", self.way.title(), control.name()),
        }
    }

    pub(super) fn figures(&self) -> Figures {
        let middle = |values: &[f64]| median(values.iter().copied());
        Figures {
            download: middle(&self.download),
            upload: middle(&self.upload),
            gap: self.gap.iter().copied().reduce(f64::max),
            call: Spread::of(&self.call),
        }
    }

    /// What a download brought that nothing was known before; `None` where the others are alike.
    pub(super) fn note(&self) -> Option<String> {
        let first = median(self.first.iter().copied())?;
        Some(format!(
            "{}: {first:.1} Mbit/s with the first download, from which it learns the links' rates",
            self.name()
        ))
    }

    /// Text in place of a missing figure.
    pub(super) fn without(&self) -> &'static str {
        if self.way.outlives_a_link() || !self.failures.is_empty() {
            "-"
        } else {
            "the transfer ends"
        }
    }

    /// Download, upload, gap, and median and 99th percentile of a call, as text.
    pub(super) fn cells(&self) -> [String; 5] {
        let show = |value: Option<f64>, digits| match value {
            Some(value) => format!("{value:.digits$}"),
            None => "-".to_owned(),
        };
        let figures = self.figures();
        let gap = match figures.gap {
            Some(seconds) => format!("{:.0}", seconds * 1e3),
            None => self.without().to_owned(),
        };
        [
            show(figures.download, 1),
            show(figures.upload, 1),
            gap,
            show(figures.call.map(|it| it.median * 1e3), 0),
            show(figures.call.map(|it| it.p99 * 1e3), 0),
        ]
    }
}

/// The figures of a row, over all its repetitions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figures {
    /// Median, in Mbit/s.
    pub(super) download: Option<f64>,
    pub(super) upload: Option<f64>,
    /// The longest, in seconds.
    pub(super) gap: Option<f64>,
    /// In seconds.
    pub(super) call: Option<Spread>,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [download, upload, gap, median, p99] = self.cells();
        write!(
            f,
            "{}: {download} down, {upload} up, gap {gap}, call {median} and {p99}",
            self.name()
        )
    }
}

impl Findings for CompareReport {
    fn head(&self) -> &Head {
        &self.head
    }

    fn table(&self) -> String {
        let header = [
            "way", "", "download", "upload", "gap, ms", "call, ms", "p99",
        ];
        let mut rows = vec![header.map(str::to_owned).to_vec()];
        for row in &self.rows {
            let mut cells = vec![row.name(), String::new()];
            cells.extend(row.cells());
            rows.push(cells);
        }
        let mut text = self.head.title(&format!(
            "{}; Mbit/s, longest silence when the best link dies, packets of a call beside a \
             download; {} s, {} times",
            self.summary, self.seconds, self.repeat
        ));
        text.push_str(&aligned(&rows));
        for note in self.rows.iter().filter_map(Row::note) {
            text.push_str(&note);
            text.push('\n');
        }
        text
    }

    fn failures(&self) -> Vec<String> {
        let of = |row: &Row| named(row.way.title(), &row.failures);
        self.rows.iter().flat_map(of).collect()
    }
}
