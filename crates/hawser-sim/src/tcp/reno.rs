//! Losses where something on the way strips selective acknowledgements: by duplicates alone.
//!
//! Source: RFC 6582 and, for what is taken to be in flight, Linux `tcp_add_reno_sack`.

use hawser_types::Instant;

use super::control::Phase;
use super::packet::{Kind, Packet};
use super::repair::DUPLICATES;
use super::send::Sender;

impl Sender {
    /// An acknowledgement that says nothing new: some segment beyond the first has arrived.
    pub(super) fn on_duplicate(&mut self, now: Instant, packet: &Packet) {
        let bare = packet.kind == Kind::Ordinary && packet.length == 0;
        if self.has_ranges || !bare || packet.acknowledged != self.una || self.segments.is_empty() {
            return;
        }
        // Which one is not known; the first will do, since only their number counts.
        let mut beyond = self.segments.iter_mut().skip(1);
        if let Some(segment) = beyond.find(|segment| !segment.delivered && !segment.needs_repair())
        {
            segment.delivered = true;
            self.counts.delivered += 1;
        }
        if self.repair.phase == Phase::Open && self.counts.delivered >= DUPLICATES {
            self.declare_lost(0);
            self.move_phase(1);
            self.arm(now);
        }
    }

    /// Something was acknowledged: what seemed to have arrived beyond it is not known any more.
    /// While a repair goes on, the next hole begins where the acknowledgement ends. Returns how
    /// many segments are lost.
    pub(super) fn on_partial(&mut self, advanced: bool) -> u32 {
        if !advanced {
            return 0;
        }
        let guessed = self.segments.iter_mut().filter(|segment| segment.delivered);
        guessed.for_each(|segment| segment.delivered = false);
        self.counts.delivered = 0;
        let repairs = self.repair.phase != Phase::Open && self.una < self.repair.until;
        match self.segments.front() {
            Some(first) if repairs && !first.needs_repair() && first.times == 1 => {
                self.declare_lost(0);
                1
            }
            _ => 0,
        }
    }
}
