//! Results of a trial.

use std::collections::BTreeMap;

use hawser_types::ByteCount;
use serde::Serialize;

pub use crate::meter::Sample;
pub use crate::visitor::Tally;

/// Figures of one trial.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Outcome {
    /// Name of the script.
    pub script: String,
    /// Resident memory before the script, in bytes.
    pub idle_resident: u64,
    /// Highest resident memory meanwhile, in bytes.
    pub most_resident: u64,
    /// Resident memory some time after, in bytes.
    pub last_resident: u64,
    /// Most that it may have been, in bytes: the idle process and 1.25 times the memory limit.
    pub bound: u64,
    /// Open descriptors before, at most meanwhile, and some time after.
    pub descriptors: [usize; 3],
    /// Bytes a second of the honest client before; none beside a hostile gateway.
    pub goodput_before: Option<f64>,
    /// Bytes a second of the honest client meanwhile.
    pub goodput_during: Option<f64>,
    /// Connections that another honest client made meanwhile; none beside a hostile gateway.
    pub connections: Tally,
    /// Datagrams that it sent.
    pub datagrams: Tally,
    /// Most connections out of the machine that the kernel tracked; none where the gateway carries
    /// no packets.
    pub tracked: Option<u64>,
    /// Sessions that the hostile peer began.
    pub sessions: u64,
    /// How they ended, or that they went on, and how many of them.
    pub endings: BTreeMap<String, u64>,
    /// What was found wrong.
    pub violations: Vec<String>,
    /// What the program is known to do wrong under this script.
    pub known_fault: Option<&'static str>,
    /// About one a second.
    pub samples: Vec<Sample>,
}

impl Outcome {
    /// Honest goodput meanwhile, divided by that before.
    pub fn ratio(&self) -> Option<f64> {
        Some(self.goodput_during? / self.goodput_before.filter(|before| *before > 0.0)?)
    }

    /// The least part of another client's connections and datagrams that was answered.
    pub fn answered(&self) -> Option<f64> {
        let ratios = [self.connections.ratio(), self.datagrams.ratio()];
        ratios.into_iter().flatten().min_by(f64::total_cmp)
    }

    /// True if nothing was found wrong that is not known.
    pub fn is_good(&self) -> bool {
        self.violations.is_empty() || self.known_fault.is_some()
    }

    /// Notes a violation, once.
    pub(crate) fn note(&mut self, problem: String) {
        if !self.violations.contains(&problem) {
            self.violations.push(problem);
        }
    }

    /// Notes a violation unless `holds`.
    pub(crate) fn expect(&mut self, holds: bool, otherwise: impl FnOnce() -> String) {
        if !holds {
            self.note(otherwise());
        }
    }

    /// Resident memory that the program may have some time after. What it has freed its allocator
    /// may keep for the next time, so it is as much as the limit allows.
    pub(crate) fn allowed_after(&self) -> u64 {
        self.idle_resident + (self.bound - self.idle_resident) / 5 * 4
    }

    /// Judges what was measured.
    pub(crate) fn judge(&mut self, allowed_descriptors: usize) {
        let shown = |bytes| ByteCount::new(bytes).to_string();
        let (most, bound) = (self.most_resident, self.bound);
        self.expect(most <= bound, || {
            format!("memory grew to {}, allowed {}", shown(most), shown(bound))
        });
        let (last, back) = (self.last_resident, self.allowed_after());
        self.expect(last <= back, || {
            format!(
                "memory did not return: {}, allowed {}",
                shown(last),
                shown(back)
            )
        });
        let tallies = [
            ("connections", self.connections),
            ("datagrams", self.datagrams),
        ];
        for (what, tally) in tallies {
            self.expect(tally.is_enough(), || {
                let Tally { asked, answered } = tally;
                format!("{answered} of {asked} {what} of another client were answered")
            });
        }
        let tracked = self.tracked.unwrap_or_default();
        self.expect(tracked <= MOST_TRACKED, || {
            format!("the kernel tracked {tracked} connections, allowed {MOST_TRACKED}")
        });
        let [before, most, last] = self.descriptors;
        self.expect(most <= before + allowed_descriptors, || {
            format!("{most} descriptors open, {before} before")
        });
        self.expect(last <= before + SPARE_DESCRIPTORS, || {
            format!("{last} descriptors stay open, {before} before")
        });
    }
}

/// Connections out of the machine in the kernel's table: the 8,192 of one client, 1,024 of
/// addresses before their client is known, and a few of the machine itself.
const MOST_TRACKED: u64 = 10_000;
/// Descriptors that honest traffic may have more of than at the beginning.
const SPARE_DESCRIPTORS: usize = 8;
