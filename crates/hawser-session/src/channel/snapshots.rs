use hawser_types::{ByteCount, Instant};

use super::Channel;
use crate::snapshot::ChannelSnapshot;
use crate::transport::Transport;

impl Channel {
    /// Returns the state of a TCP channel; `is_silent`: a sign of life is overdue.
    pub(crate) fn snapshot(&self, now: Instant, is_silent: bool) -> ChannelSnapshot {
        let silence = self.path.silence();
        let silent_since = silence.began().or(self.liveness.suspect_since());
        let kernel = self.path.latest();
        ChannelSnapshot {
            id: self.id(),
            role: self.role(),
            transport: self.transport(),
            link: self.link(),
            suspect: self.is_suspect(),
            silent_for: silent_since
                .filter(|_| is_silent || self.is_suspect())
                .map(|at| now.since(at)),
            unheard_for: self.last_heard().map(|at| now.since(at)),
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
    pub(crate) fn path_snapshots(
        &self,
        now: Instant,
    ) -> impl Iterator<Item = ChannelSnapshot> + '_ {
        let ago = move |at: Option<Instant>| at.map(|at| now.since(at));
        self.paths.iter().map(move |path| ChannelSnapshot {
            id: self.id(),
            role: self.role(),
            transport: Transport::Association,
            link: path.link,
            suspect: path.is_suspect || !path.is_active || self.is_suspect(),
            silent_for: ago(self.paths.silent_since(path.link)),
            unheard_for: ago(self.paths.last_heard(path.link)),
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
