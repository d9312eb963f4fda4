use hawser_types::{ByteCount, Instant, LinkIndex};

use super::counts::{MAX_LINKS, some};
use crate::packet::PacketReason;

/// Counts of one flow of packets, since it began.
///
/// Each end of a tunnel counts both directions separately, and adds them up when it is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowTally {
    /// Time of the first packet.
    pub began: Instant,
    /// Time of the latest packet.
    pub latest: Instant,
    /// Packets placed on a path here, copies left out.
    pub sent_packets: u64,
    /// Their bytes.
    pub sent: ByteCount,
    /// Packets among them that were taken for real-time.
    pub real_time: u64,
    /// Packets that were sent a second time: over another link at once, or since they were lost.
    pub copies: u64,
    /// Packets dropped from the queue here.
    pub dropped: u64,
    /// Packets marked there instead.
    pub marked: u64,
    /// Packets that came from the peer, each counted once.
    pub received_packets: u64,
    /// Their bytes.
    pub received: ByteCount,
    /// Packets among them that came after they had counted as lost.
    pub late: u64,
    /// Packets of the peer that counted as lost, those that came late included.
    pub given_up: u64,
    /// Links that have carried it, [`MAX_LINKS`] at most.
    links: Vec<LinkOfFlow>,
}

/// Counts of one flow on one link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkOfFlow {
    /// The link, as the views named it.
    pub link: LinkIndex,
    /// Bytes sent over it, without copies.
    pub sent: ByteCount,
    /// Bytes sent over it that were sent before.
    pub copied: ByteCount,
    /// Bytes received over it.
    pub received: ByteCount,
    /// Packets placed here, by their reason.
    chosen: [u32; PacketReason::ALL.len()],
}

impl FlowTally {
    /// Nothing has moved yet.
    pub fn new(now: Instant) -> Self {
        Self {
            began: now,
            latest: now,
            ..Self::default()
        }
    }

    /// Counts a packet that was placed on a link.
    pub fn on_sent(&mut self, now: Instant, link: LinkIndex, bytes: ByteCount, why: PacketReason) {
        self.latest = now;
        self.sent_packets += 1;
        self.sent += bytes;
        if let Some(link) = self.link_mut(link) {
            link.sent += bytes;
            let count = &mut link.chosen[why as usize];
            *count = count.saturating_add(1);
        }
    }

    /// Counts a packet that is sent a second time.
    pub fn on_copied(&mut self, link: LinkIndex, bytes: ByteCount) {
        self.copies += 1;
        if let Some(link) = self.link_mut(link) {
            link.copied += bytes;
        }
    }

    /// Counts a packet of the peer.
    pub fn on_received(&mut self, now: Instant, link: LinkIndex, bytes: ByteCount) {
        self.latest = now;
        self.received_packets += 1;
        self.received += bytes;
        if let Some(link) = self.link_mut(link) {
            link.received += bytes;
        }
    }

    /// Adds the counts of the other direction, or of another part of the same flow.
    pub fn add(&mut self, other: &Self) {
        self.began = self.began.min(other.began);
        self.latest = self.latest.max(other.latest);
        self.sent_packets += other.sent_packets;
        self.sent += other.sent;
        self.real_time += other.real_time;
        self.copies += other.copies;
        self.dropped += other.dropped;
        self.marked += other.marked;
        self.received_packets += other.received_packets;
        self.received += other.received;
        self.late += other.late;
        self.given_up += other.given_up;
        for theirs in &other.links {
            let Some(link) = self.link_mut(theirs.link) else {
                continue;
            };
            link.add(theirs);
        }
    }

    /// Gives its links the names that others know them by. Links of one name become one.
    pub fn rename_links(&mut self, name: impl Fn(LinkIndex) -> LinkIndex) {
        for mut link in std::mem::take(&mut self.links) {
            link.link = name(link.link);
            match self.links.iter_mut().find(|known| known.link == link.link) {
                Some(known) => known.add(&link),
                None => self.links.push(link),
            }
        }
    }

    /// Counts of each link that has carried it.
    pub fn links(&self) -> &[LinkOfFlow] {
        &self.links
    }

    /// Packets of the peer that counted as lost and never came.
    pub fn lost(&self) -> u64 {
        self.given_up.saturating_sub(self.late)
    }

    /// `None` where too many links have carried the flow: they are not told apart any more.
    fn link_mut(&mut self, link: LinkIndex) -> Option<&mut LinkOfFlow> {
        let known = self.links.iter().position(|known| known.link == link);
        let place = match known {
            Some(place) => place,
            None if self.links.len() < MAX_LINKS => {
                self.links.push(LinkOfFlow::new(link));
                self.links.len() - 1
            }
            None => return None,
        };
        self.links.get_mut(place)
    }
}

impl LinkOfFlow {
    fn new(link: LinkIndex) -> Self {
        Self {
            link,
            sent: ByteCount::ZERO,
            copied: ByteCount::ZERO,
            received: ByteCount::ZERO,
            chosen: [0; PacketReason::ALL.len()],
        }
    }

    /// Returns the numbers of packets placed here by reason, without those that are zero.
    pub fn chosen(&self) -> impl Iterator<Item = (PacketReason, u64)> {
        some(
            PacketReason::ALL
                .into_iter()
                .zip(self.chosen.map(u64::from)),
        )
    }

    fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.copied += other.copied;
        self.received += other.received;
        for (sum, count) in self.chosen.iter_mut().zip(other.chosen) {
            *sum = sum.saturating_add(count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(count: u64) -> ByteCount {
        ByteCount::new(count)
    }

    #[test]
    fn both_directions_add_up_by_link() {
        let [dsl, lte] = [1, 2].map(LinkIndex::new);
        let at = Instant::from_nanos;
        let mut sent = FlowTally::new(at(10));
        sent.on_sent(at(20), dsl, bytes(100), PacketReason::Home);
        sent.on_sent(at(30), lte, bytes(50), PacketReason::Earliest);
        sent.on_copied(dsl, bytes(50));
        let mut received = FlowTally::new(at(5));
        received.on_received(at(25), lte, bytes(1000));
        (received.given_up, received.late) = (3, 1);
        sent.add(&received);
        assert_eq!((sent.began, sent.latest), (at(5), at(30)));
        assert_eq!((sent.sent_packets, sent.copies, sent.lost()), (2, 1, 2));
        let [first, second] = sent.links() else {
            panic!("{:?}", sent.links());
        };
        let moved =
            |link: &LinkOfFlow| [link.sent, link.copied, link.received].map(|it| it.as_u64());
        assert_eq!((first.link, moved(first)), (dsl, [100, 50, 0]));
        assert_eq!((second.link, moved(second)), (lte, [50, 0, 1000]));
        let why: Vec<_> = second.chosen().collect();
        assert_eq!(why, [(PacketReason::Earliest, 1)]);
        // Both turn out to be the same link.
        sent.rename_links(|_| lte);
        assert_eq!(sent.links().len(), 1);
        assert_eq!(moved(&sent.links()[0]), [150, 50, 1000]);
    }

    #[test]
    fn ever_new_links_take_no_more_memory() {
        let mut flow = FlowTally::default();
        for link in 0..100 {
            flow.on_sent(
                Instant::ZERO,
                LinkIndex::new(link),
                bytes(1),
                PacketReason::Turn,
            );
        }
        assert_eq!((flow.links().len(), flow.sent), (MAX_LINKS, bytes(100)));
    }
}
