use std::time::Duration;

use crate::path::rtt::RttEstimator;

/// Tolerance of reordering before a packet counts as lost; it adapts to spurious losses.
///
/// Source: RFC 9002 §6.1 (three packets, 9/8 of a round trip); the adaptation is from RFC 8985
/// §6.2.
#[derive(Debug)]
pub(super) struct Reordering {
    packets: u64,
    /// Tolerance beyond one round trip, in eighths of it.
    eighths: u32,
    episode: Episode,
}

/// The losses behind one reduction of the window.
#[derive(Debug, Default)]
struct Episode {
    /// Number of its first packet.
    begin: u64,
    /// Number after its last packet.
    end: u64,
    /// Lost chunks.
    lost: usize,
    /// Lost chunks that arrived late.
    late: usize,
    by_timeout: bool,
    undone: bool,
}

impl Reordering {
    pub(super) fn packets(&self) -> u64 {
        self.packets
    }

    pub(super) fn patience(&self, rtt: &RttEstimator) -> Duration {
        let trip = rtt.smoothed().unwrap_or_default().max(rtt.latest());
        (trip + trip / 8 * self.eighths).max(GRANULARITY)
    }

    /// Handles the loss of a packet that had this many chunks in flight. `next`: the number of the
    /// next packet.
    pub(super) fn on_lost(&mut self, number: u64, chunks: usize, next: u64) {
        if number >= self.episode.end {
            self.episode = Episode {
                begin: self.episode.end,
                end: next,
                ..Episode::default()
            };
        }
        self.episode.lost += chunks;
    }

    /// Handles T3: all packets in flight are lost, from the one with the number `first`, with this
    /// many chunks. `next`: the number of the next packet.
    pub(super) fn on_timeout(&mut self, first: u64, chunks: usize, next: u64) {
        self.episode = Episode {
            begin: first,
            end: next,
            lost: chunks,
            by_timeout: true,
            ..Episode::default()
        };
    }

    pub(super) fn on_late(&mut self, number: u64) -> bool {
        let episode = &mut self.episode;
        if !(episode.begin..episode.end).contains(&number) || episode.undone {
            return false;
        }
        if !episode.by_timeout && episode.late == 0 {
            self.packets = (self.packets * 2).min(MAX_PACKETS);
            self.eighths = (self.eighths + 1).min(MAX_EIGHTHS);
        }
        episode.late += 1;
        // After T3, a single late arrival shows that the answers were late.
        episode.undone = episode.by_timeout || episode.late >= episode.lost;
        episode.undone
    }
}

impl Default for Reordering {
    fn default() -> Self {
        Self {
            packets: MIN_PACKETS,
            eighths: 1,
            episode: Episode::default(),
        }
    }
}

const MIN_PACKETS: u64 = 3;
const MAX_PACKETS: u64 = 96;
const MAX_EIGHTHS: u32 = 8;
const GRANULARITY: Duration = Duration::from_millis(1);
