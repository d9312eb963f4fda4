//! Figures of idle daemons.

use std::fmt;

use serde::Serialize;

use super::reading::{Reading, Traffic};
use crate::cpu::Memory;
use crate::experiment::{Findings, Head};
use crate::text_table::{aligned, cells};
use crate::verdict::{Asked, Verdict};

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct IdleReport {
    #[serde(flatten)]
    pub(super) head: Head,
    pub(super) links: u8,
    /// Seconds over which is measured.
    pub(super) seconds: u64,
    /// Seconds from the last link's joining until then.
    pub(super) settle: u64,
    pub(super) verdicts: Vec<Verdict>,
    pub(super) processes: Vec<ProcessRow>,
    pub(super) traffic: Vec<LinkRow>,
    pub(super) failures: Vec<String>,
}

/// One daemon.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct ProcessRow {
    /// How the client takes connections.
    way: &'static str,
    end: &'static str,
    /// At the end, in bytes.
    #[serde(flatten)]
    memory: Memory,
    /// Part of one core that it takes.
    core: f64,
    /// Number of times in a second that its threads have begun to wait.
    waits_per_second: f64,
    threads: usize,
    descriptors: usize,
}

/// Packets on one link, each second, headers included.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct LinkRow {
    way: &'static str,
    link: String,
    sent_packets: f64,
    sent_bytes: f64,
    received_packets: f64,
    received_bytes: f64,
}

impl ProcessRow {
    /// From two readings of a process that are `span` seconds apart.
    pub(super) fn between(
        way: &'static str,
        end: &'static str,
        before: &Reading,
        after: &Reading,
        span: f64,
    ) -> Self {
        Self {
            way,
            end,
            memory: after.memory,
            core: after.used.saturating_sub(before.used).as_secs_f64() / span,
            waits_per_second: after.waits_since(before) as f64 / span,
            threads: after.waits.len(),
            descriptors: after.descriptors,
        }
    }

    fn name(&self) -> String {
        format!("{} {}", self.way, self.end)
    }
}

impl fmt::Display for ProcessRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {:.1} MB, {:.3} % of a core",
            self.name(),
            megabytes(self.memory.resident),
            self.core * 100.0
        )
    }
}

impl LinkRow {
    /// From counters of an interface at two moments that are `span` seconds apart.
    pub(super) fn between(
        way: &'static str,
        link: &str,
        before: Traffic,
        after: Traffic,
        span: f64,
    ) -> Self {
        let rate = |count: fn(&Traffic) -> u64| {
            let grown = count(&after).saturating_sub(count(&before));
            grown as f64 / span
        };
        Self {
            way,
            link: link.to_owned(),
            sent_packets: rate(|it| it.sent_packets),
            sent_bytes: rate(|it| it.sent_bytes),
            received_packets: rate(|it| it.received_packets),
            received_bytes: rate(|it| it.received_bytes),
        }
    }
}

impl IdleReport {
    /// Sets the figures against what is asked of them.
    pub(super) fn judge(&mut self) {
        let each = self.processes.iter().flat_map(|row| {
            let name = row.name();
            let (memory, core) = (megabytes(row.memory.resident), row.core * 100.0);
            [
                Verdict::new(format!("{name}: resident, MB"), memory, MOST_MEGABYTES),
                Verdict::new(format!("{name}: % of a core"), core, MOST_OF_A_CORE),
            ]
        });
        self.verdicts = each.collect();
    }
}

impl Findings for IdleReport {
    fn head(&self) -> &Head {
        &self.head
    }

    fn table(&self) -> String {
        let title = format!(
            "daemons with {} links and nothing to do, over {} s; memory in MB",
            self.links, self.seconds
        );
        let mut rows = vec![cells([
            "",
            "",
            "resident",
            "shared out",
            "anonymous",
            "% of a core",
            "waits/s",
            "threads",
            "files",
        ])];
        for row in &self.processes {
            rows.push(cells([
                row.way,
                row.end,
                &format!("{:.1}", megabytes(row.memory.resident)),
                &format!("{:.1}", megabytes(row.memory.proportional)),
                &format!("{:.1}", megabytes(row.memory.anonymous)),
                &format!("{:.3}", row.core * 100.0),
                &format!("{:.1}", row.waits_per_second),
                &row.threads.to_string(),
                &row.descriptors.to_string(),
            ]));
        }
        rows.push(cells([
            "",
            "",
            "sent/s",
            "bytes/s",
            "received/s",
            "bytes/s",
        ]));
        for row in &self.traffic {
            rows.push(cells([
                row.way,
                &row.link,
                &format!("{:.2}", row.sent_packets),
                &format!("{:.0}", row.sent_bytes),
                &format!("{:.2}", row.received_packets),
                &format!("{:.0}", row.received_bytes),
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

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

const MOST_MEGABYTES: Asked = Asked::AtMost(20.0);
const MOST_OF_A_CORE: Asked = Asked::AtMost(0.1);
