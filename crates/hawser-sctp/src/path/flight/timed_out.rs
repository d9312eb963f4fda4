use super::sent_packet::SentPacket;

/// Packets that T3 has taken for lost. A link that was silent for a while delivers what waited for
/// it when it goes on, and then none of them has to be sent again.
#[derive(Debug, Default)]
pub(crate) struct TimedOut {
    /// The oldest first, by number.
    packets: Vec<SentPacket>,
    /// Share of losses before.
    loss: f64,
}

impl TimedOut {
    /// Adds what T3 has taken for lost. `loss`: share of losses before.
    pub(super) fn add(&mut self, packets: &[SentPacket], loss: f64) {
        if self.packets.is_empty() {
            self.loss = loss;
        }
        self.packets.extend_from_slice(packets);
    }

    pub(super) fn clear(&mut self) {
        self.packets.clear();
    }

    pub(super) fn contains(&self, number: u64) -> bool {
        let place = self.packets.binary_search_by_key(&number, |it| it.number);
        place.is_ok()
    }

    /// Returns the number of the oldest packet.
    pub(super) fn first(&self) -> Option<u64> {
        self.packets.first().map(|packet| packet.number)
    }

    pub(super) fn loss(&self) -> f64 {
        self.loss
    }

    pub(super) fn into_packets(self) -> Vec<SentPacket> {
        self.packets
    }

    /// Keeps those chunks for which `size` returns their size, by number of packet and of chunk.
    pub(crate) fn keep(&mut self, mut size: impl FnMut(u64, u64) -> Option<u64>) {
        self.packets.retain_mut(|packet| {
            let number = packet.number;
            packet.reopen(|chunk| size(number, chunk));
            packet.open > 0
        });
    }
}
