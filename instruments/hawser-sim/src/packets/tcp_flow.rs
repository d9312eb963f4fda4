use hawser_scenario::Congestion;
use hawser_types::Instant;

use super::connection::{End, PACKET};
use crate::tcp::{Packet, Tcp, TcpConfig};

/// Bytes of payload in a full packet.
pub(super) const PAYLOAD: u64 = PACKET as u64 - crate::tcp::HEADER;

/// The ends of a connection, that of the host which sends, and begins, at its place.
pub(super) fn ends(now: Instant, from: usize, congestion: Congestion) -> [Tcp; 2] {
    let mut config = TcpConfig::new(congestion);
    config.segment = PAYLOAD as u32;
    let mut ends = [Tcp::listen(config), Tcp::listen(config)];
    ends[from] = Tcp::connect(now, config);
    ends
}

impl End for Tcp {
    type Segment = Packet;

    const PROTOCOL: u8 = 6;

    fn fill(&mut self, now: Instant) {
        self.write(now, WRITES);
    }

    fn poll_segment(&mut self, now: Instant) -> Option<(Packet, usize)> {
        loop {
            let segment = self.poll_packet(now)?;
            if !segment.is_reset() {
                let size = segment.size().as_usize();
                return Some((segment, size));
            }
        }
    }

    fn handle_segment(&mut self, now: Instant, segment: &Packet) {
        self.handle_packet(now, segment);
    }

    fn poll_timeout(&mut self) -> Option<Instant> {
        Self::poll_timeout(self)
    }

    fn handle_timeout(&mut self, now: Instant) {
        Self::handle_timeout(self, now);
    }

    fn arrived(&self) -> u64 {
        Self::arrived(self)
    }

    fn retransmissions(&self, now: Instant) -> u64 {
        self.sample(now).retransmissions
    }
}

/// More than any buffer takes.
const WRITES: u64 = 1 << 30;
