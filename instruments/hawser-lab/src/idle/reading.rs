//! Resources that a process has used so far, and the counters of its interfaces.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use crate::cpu::{self, Memory};

/// A process at one moment.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) used: Duration,
    pub(super) memory: Memory,
    /// How often each thread has waited so far.
    pub(super) waits: BTreeMap<u32, u64>,
    pub(super) descriptors: usize,
    /// Counters of the interfaces that the process sees, by name.
    pub(super) traffic: BTreeMap<String, Traffic>,
}

/// What has passed an interface so far; bytes are those of frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Traffic {
    pub(super) received_bytes: u64,
    pub(super) received_packets: u64,
    pub(super) sent_bytes: u64,
    pub(super) sent_packets: u64,
}

impl Reading {
    pub(super) fn of(process: u32) -> io::Result<Self> {
        let counters = std::fs::read_to_string(format!("/proc/{process}/net/dev"))?;
        Ok(Self {
            used: cpu::of(process)?,
            memory: cpu::memory(process)?,
            waits: cpu::waits(process)?,
            descriptors: cpu::descriptors(process)?,
            traffic: counters.lines().filter_map(Traffic::read).collect(),
        })
    }

    /// Number of times that threads have waited since `before`, without those that have ended.
    pub(super) fn waits_since(&self, before: &Self) -> u64 {
        let each = self.waits.iter().map(|(thread, count)| {
            let before = before.waits.get(thread).copied().unwrap_or(0);
            count.saturating_sub(before)
        });
        each.sum()
    }
}

impl Traffic {
    /// Reads a line of `/proc/net/dev`: a name, eight counters of what came, eight of what went.
    fn read(line: &str) -> Option<(String, Self)> {
        let (name, counters) = line.split_once(':')?;
        let counters: Vec<u64> = counters
            .split_whitespace()
            .map(|it| it.parse().ok())
            .collect::<Option<_>>()?;
        let traffic = Self {
            received_bytes: *counters.first()?,
            received_packets: *counters.get(1)?,
            sent_bytes: *counters.get(8)?,
            sent_packets: *counters.get(9)?,
        };
        Some((name.trim().to_owned(), traffic))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_an_interface_are_read_and_headings_are_not() {
        let line = "    l1: 1200      11    0    0    0     0          0         0     3400      \
                    22    0    0    0     0       0          0";
        let traffic = Traffic {
            received_bytes: 1200,
            received_packets: 11,
            sent_bytes: 3400,
            sent_packets: 22,
        };
        assert_eq!(Traffic::read(line), Some(("l1".to_owned(), traffic)));
        for heading in [
            "Inter-|   Receive                            |  Transmit",
            " face |bytes    packets errs drop fifo frame compressed multicast|bytes packets",
            "l1: 5",
        ] {
            assert_eq!(Traffic::read(heading), None);
        }
    }

    #[test]
    fn threads_that_begin_count_and_those_that_end_do_not() {
        let reading = |waits: &[(u32, u64)]| {
            let mut reading = Reading::of(std::process::id()).unwrap();
            reading.waits = waits.iter().copied().collect();
            reading
        };
        let (before, after) = (reading(&[(1, 10), (2, 5)]), reading(&[(1, 13), (3, 4)]));
        assert_eq!(after.waits_since(&before), 7);
    }
}
