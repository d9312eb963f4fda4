//! Input of a trial of transports.

use std::time::Duration;

use hawser_types::Instant;

use crate::channel::Channel;
use crate::transport::Transport;

/// State of both transports at one moment.
#[derive(Clone, Copy, Debug)]
pub(in crate::transports) struct Look {
    pub(super) demand: bool,
    /// Payload that the peer holds thanks to each, since the session began.
    pub(super) held: [u64; 2],
    /// Each may be used.
    pub(super) sound: [bool; 2],
    /// Bytes in flight on each.
    pub(super) in_flight: [u64; 2],
    /// Longest round trip of both.
    pub(super) round_trip: Duration,
    /// Longest round trip of TCP's paths, without queues.
    pub(super) longest_path: Duration,
    /// One of TCP's links serves in turns.
    pub(super) in_turns: bool,
    /// The network seems to limit what the association sends.
    pub(super) is_policed: bool,
}

impl Look {
    /// A look at `channels`. `demand`: there is more to send than is taken. `held`: payload that
    /// the peer holds thanks to each transport, since the session began.
    pub(in crate::transports) fn new<'a>(
        now: Instant,
        demand: bool,
        held: [u64; 2],
        channels: impl Iterator<Item = &'a Channel>,
    ) -> Self {
        let mut look = Self {
            demand,
            held,
            sound: [false; 2],
            in_flight: [0; 2],
            round_trip: Duration::ZERO,
            longest_path: Duration::ZERO,
            in_turns: false,
            is_policed: false,
        };
        for channel in channels {
            look.add(now, channel);
        }
        look
    }

    fn add(&mut self, now: Instant, channel: &Channel) {
        let transport = channel.transport();
        self.in_flight[transport.index()] += channel.outbound().in_flight();
        if !channel.is_usable() {
            return;
        }
        self.sound[transport.index()] = true;
        let path = channel.path();
        let rtt = match transport {
            Transport::Tcp => {
                let length = path.min_rtt().unwrap_or_default();
                self.longest_path = self.longest_path.max(length);
                self.in_turns |= path.silence().goes_in_turns(now);
                path.rtt()
            }
            Transport::Association => {
                self.is_policed |= channel.paths().is_policed(now);
                path.rtt() + path.latest().rtt_variation * 4
            }
        };
        self.round_trip = self.round_trip.max(rtt);
    }
}
