use std::time::Duration;

use hawser_types::Instant;

use crate::AssociationConfig;

/// Whether packets above the base size arrive: a route may change to one that carries less, and
/// drop them without an ICMP message.
///
/// Time-outs alone do not tell, since the short ends of messages arrive and are acknowledged.
/// Source: RFC 8899 §4.3 (loss of packets larger than the base, while others arrive).
#[derive(Debug, Default)]
pub(super) struct LargePackets {
    /// Rounds in which a large packet was lost, since one last arrived.
    lost_rounds: u32,
    /// Time of the last of them. Only the loss of a packet that left afterwards is another one.
    lost_at: Instant,
    /// A smaller packet has arrived since the first of them.
    others_arrive: bool,
    /// Time when the packet size last fell for that reason.
    fell_at: Option<Instant>,
}

impl LargePackets {
    /// Handles the arrival of a chunk of `size` bytes with its header.
    pub(super) fn on_arrived(&mut self, size: u64) {
        if is_large(size) {
            (self.lost_rounds, self.others_arrive) = (0, false);
        } else {
            self.others_arrive |= self.lost_rounds > 0;
        }
    }

    /// Handles the loss of a chunk of `size` bytes that left at `sent`. Returns whether too many
    /// large ones were lost in a row while others arrived.
    pub(super) fn on_lost(&mut self, now: Instant, sent: Instant, size: u64) -> bool {
        if is_large(size) && sent >= self.lost_at {
            self.lost_rounds += 1;
            self.lost_at = now;
        }
        self.lost_rounds >= LOST_ROUNDS && self.others_arrive
    }

    /// Notes that the packet size fell to the base.
    pub(super) fn on_fallen(&mut self, now: Instant) {
        (self.lost_rounds, self.others_arrive) = (0, false);
        self.fell_at = Some(now);
    }

    /// Tells whether the packet size fell at least `span` ago.
    pub(super) fn has_fallen_for(&self, now: Instant, span: Duration) -> bool {
        self.fell_at.is_some_and(|at| now >= at + span)
    }
}

fn is_large(size: u64) -> bool {
    size > AssociationConfig::BASE_PACKET as u64
}

/// Where a tenth of all packets is lost, and each round has one large packet, this many are lost in
/// a row once in a thousand rounds. A mistake costs smaller packets for some seconds.
const LOST_ROUNDS: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn only_losses_of_large_packets_in_rounds_one_after_the_other_count() {
        let mut large = LargePackets::default();
        assert!(!large.on_lost(at(100), at(10), 1400));
        assert!(!large.on_lost(at(101), at(50), 1400), "the same round");
        assert!(!large.on_lost(at(200), at(110), 1200), "not large");
        assert!(!large.on_lost(at(200), at(110), 1201));
        assert!(!large.on_lost(at(250), at(200), 1400), "nothing arrives");
        large.on_arrived(600);
        assert!(large.on_lost(at(300), at(260), 1400));
        large.on_fallen(at(300));
        large.on_arrived(600);
        assert!(!large.on_lost(at(400), at(310), 1400), "it begins anew");
        assert!(!large.on_lost(at(500), at(410), 1400));
        large.on_arrived(1400);
        assert!(!large.on_lost(at(600), at(510), 1400), "one has arrived");
        let span = Duration::from_millis(100);
        assert!(!large.has_fallen_for(at(399), span) && large.has_fallen_for(at(400), span));
    }
}
