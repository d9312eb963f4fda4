//! The share of one connection in the packets that reach the other end of a link.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use hawser_types::{ByteCount, Instant};

use super::packet;
use crate::scenario::Direction;

/// IP bytes that reached the other ends of the links since the watch began: those of one TCP
/// connection, and all others.
///
/// Both are counted by the time at which the model of the line delivers them, so that neither
/// queues nor a thread that is late move bytes from one span to another. What a black hole swallows
/// counts.
#[derive(Debug)]
pub struct Watch {
    began: Instant,
    /// The server's port of the connection, and the client's once it was seen.
    port: u16,
    client: Option<u16>,
    /// By link and direction, in each [`BIN`]: the others' bytes, and the connection's.
    bins: BTreeMap<(usize, Direction), Vec<[u64; 2]>>,
}

/// Bytes a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Of the connection that is watched.
    pub watched: f64,
    /// Bytes of all other connections on the link.
    pub others: f64,
}

impl Rates {
    /// Both together.
    pub fn sum(self) -> f64 {
        self.watched + self.others
    }
}

impl Watch {
    /// Watches the connection to this port of the server whose packet is the first to come from now
    /// on.
    pub(super) fn new(port: u16, began: Instant) -> Self {
        Self {
            began,
            port,
            client: None,
            bins: BTreeMap::new(),
        }
    }

    /// Bytes per second on link `index`, from 0, in the whole bins of the given time; zero without
    /// a whole bin.
    pub fn rates(&self, index: usize, direction: Direction, time: Range<Instant>) -> Rates {
        let bins = |at: Instant| at.since(self.began).as_nanos();
        let first = bins(time.start).div_ceil(BIN.as_nanos());
        let count = (bins(time.end) / BIN.as_nanos()).saturating_sub(first);
        let (first, count) = (first as usize, count as usize);
        let bins = self.bins.get(&(index, direction));
        let bins = bins.and_then(|bins| bins.get(first..)).unwrap_or_default();
        let rate = |of: usize| {
            let bytes: u64 = bins.iter().take(count).map(|bin| bin[of]).sum();
            bytes as f64 / (BIN.as_secs_f64() * count.max(1) as f64)
        };
        Rates {
            watched: rate(WATCHED),
            others: rate(1 - WATCHED),
        }
    }

    /// A frame reaches the other end of a link at `at`.
    pub(super) fn note(
        &mut self,
        index: usize,
        direction: Direction,
        at: Instant,
        frame: &mut [u8],
        size: ByteCount,
    ) {
        let of = usize::from(self.is_watched(direction, frame));
        let bins = self.bins.entry((index, direction)).or_default();
        let bin = at.since(self.began).as_nanos() / BIN.as_nanos();
        let bin = (bin as usize).min(MAX_BINS);
        if bins.len() <= bin {
            bins.resize(bin + 1, [0; 2]);
        }
        bins[bin][of] += size.as_u64();
    }

    fn is_watched(&mut self, direction: Direction, frame: &mut [u8]) -> bool {
        let segment = packet::ipv4(frame).and_then(packet::segment);
        let Some([s0, s1, d0, d1, ..]) = segment.as_deref() else {
            return false;
        };
        let (source, destination) = (
            u16::from_be_bytes([*s0, *s1]),
            u16::from_be_bytes([*d0, *d1]),
        );
        let (client, server) = match direction {
            Direction::Put => (source, destination),
            Direction::Get => (destination, source),
        };
        server == self.port && *self.client.get_or_insert(client) == client
    }
}

/// Index of the connection's bytes in a bin.
const WATCHED: usize = 1;
const BIN: Duration = Duration::from_millis(10);
/// A day of them: nothing is watched for longer.
const MAX_BINS: usize = 24 * 3600 * 100;

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(source: u16, destination: u16) -> Vec<u8> {
        let mut frame = vec![0; 12];
        frame.extend([8, 0, 0x45, 0, 0, 40, 1, 2, 0x40, 0, 64, packet::TCP, 0, 0]);
        frame.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend(source.to_be_bytes());
        frame.extend(destination.to_be_bytes());
        frame
    }

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    fn note(watch: &mut Watch, way: Direction, ms: u64, mut frame: Vec<u8>, bytes: u64) {
        watch.note(0, way, at(ms), &mut frame, ByteCount::new(bytes));
    }

    #[test]
    fn the_first_connection_to_the_port_is_told_from_all_others() {
        let mut watch = Watch::new(5011, at(1000));
        for (source, port, bytes) in [(7, 80, 1), (40, 5011, 2), (41, 5011, 4), (40, 5011, 8)] {
            note(&mut watch, Direction::Put, 1001, frame(source, port), bytes);
        }
        note(&mut watch, Direction::Get, 1001, frame(5011, 40), 16);
        note(&mut watch, Direction::Get, 1001, frame(5011, 41), 32);
        note(&mut watch, Direction::Get, 1001, vec![0; 60], 64);
        let of = |way| {
            let rates = watch.rates(0, way, at(1000)..at(1010));
            (rates.watched, rates.others)
        };
        assert_eq!(of(Direction::Put), (1000.0, 500.0));
        assert_eq!(of(Direction::Get), (1600.0, 9600.0));
        assert_eq!(
            watch.rates(1, Direction::Put, at(1000)..at(1010)).sum(),
            0.0
        );
    }

    #[test]
    fn a_rate_is_that_of_the_whole_bins_in_its_time() {
        let mut watch = Watch::new(1, at(1000));
        for ms in (1100..1200).step_by(10) {
            note(&mut watch, Direction::Put, ms, frame(2, 2), 10);
        }
        let rate = |from, until| {
            let time = at(from)..at(until);
            watch.rates(0, Direction::Put, time).others
        };
        assert_eq!(rate(1100, 1200), 1000.0);
        assert_eq!(rate(1095, 1205), 1000.0);
        assert_eq!(rate(1050, 1150), 500.0);
        assert_eq!(rate(1101, 1109), 0.0);
        assert_eq!(rate(1150, 1100), 0.0);
        assert_eq!(rate(1900, 2000), 0.0);
    }
}
