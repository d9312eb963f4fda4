//! Loss detection by duplicates alone, where a middlebox strips selective acknowledgements.
//!
//! Source: RFC 6582 and, for estimates of bytes in flight and delivered, Linux `tcp_add_reno_sack`
//! and `tcp_remove_reno_sacks`.

use hawser_types::Instant;

use super::ack::Delivered;
use super::packet::{Kind, Packet};
use super::repair::DUPLICATES;
use super::send::Sender;
use super::window::Phase;

impl Sender {
    /// An acknowledgement that says nothing new: some segment beyond the first has arrived.
    pub(super) fn take_duplicate(&mut self, now: Instant, packet: &Packet, total: &mut Delivered) {
        let bare = packet.kind == Kind::Ordinary && packet.length == 0;
        if bare
            && packet.acknowledged == self.una
            && let Some(index) = self.guess()
        {
            let copy = self.segments[index].clone();
            self.on_delivered(now, &copy, total);
            // When it left is not known, since which one it is, is not.
            total.rtt = None;
        }
    }

    /// Losses by the number of duplicates and, while a repair goes on, by where an
    /// acknowledgement ends: the next hole is there. Returns how many segments are lost.
    pub(super) fn losses_by_count(&mut self, advanced: bool) -> u32 {
        let repairs = self.repair.phase != Phase::Open && self.una < self.repair.until;
        if advanced && self.segments.front().is_some_and(|first| first.delivered) {
            // It was another one that had arrived.
            self.segments[0].delivered = false;
            self.counts.delivered -= 1;
            self.guess();
        }
        let next = if advanced {
            repairs
        } else {
            self.repair.phase == Phase::Open && self.counts.delivered >= DUPLICATES
        };
        match self.segments.front() {
            Some(first) if next && !first.needs_repair() && first.times == 1 => {
                self.declare_lost(0);
                1
            }
            _ => 0,
        }
    }

    /// After a time-out nothing counts that was guessed.
    pub(super) fn forget_guesses(&mut self) {
        if !self.has_ranges {
            self.segments
                .iter_mut()
                .for_each(|segment| segment.delivered = false);
            self.counts.delivered = 0;
        }
    }

    /// Takes one more segment beyond the first for delivered. Which one does not matter, since
    /// only their number counts.
    fn guess(&mut self) -> Option<usize> {
        let mut beyond = self.segments.iter_mut().enumerate().skip(1);
        let (index, segment) = beyond.find(|(_, segment)| !segment.delivered && !segment.lost)?;
        segment.delivered = true;
        self.counts.delivered += 1;
        Some(index)
    }
}
