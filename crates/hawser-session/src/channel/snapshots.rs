use hawser_types::ByteCount;

use super::Channel;
use crate::snapshot::ChannelSnapshot;
use crate::transport::Transport;

impl Channel {
    /// Returns the state of a TCP channel.
    pub(crate) fn snapshot(&self) -> ChannelSnapshot {
        let kernel = self.path.latest();
        ChannelSnapshot {
            id: self.id(),
            role: self.role(),
            transport: self.transport(),
            link: self.link(),
            suspect: self.is_suspect(),
            rtt: self.path.rtt(),
            rate: self.path.rate(),
            congestion_window: kernel.congestion_window,
            in_flight: ByteCount::new(self.outbound.in_flight()),
            sent: ByteCount::new(self.outbound.payload()),
            received: ByteCount::new(self.inbound.payload()),
            retransmissions: kernel.retransmissions,
            segments_delivered: kernel.delivered,
            incoming_queue: self.path.one_way().queue(),
            peer: self.notices.peer(),
        }
    }

    /// Returns the state of an association's paths, as channels of their links.
    pub(crate) fn path_snapshots(&self) -> impl Iterator<Item = ChannelSnapshot> + '_ {
        self.paths.iter().map(|path| ChannelSnapshot {
            id: self.id(),
            role: self.role(),
            transport: Transport::Association,
            link: path.link,
            suspect: path.is_suspect || !path.is_active || self.is_suspect(),
            rtt: path.rtt.unwrap_or_default(),
            rate: path.rate,
            congestion_window: path.window,
            in_flight: path.in_flight,
            sent: path.sent,
            received: path.received,
            retransmissions: 0,
            segments_delivered: None,
            incoming_queue: None,
            peer: None,
        })
    }
}
