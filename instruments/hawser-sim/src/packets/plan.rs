use std::time::Duration;

use hawser_scenario::Direction;
use hawser_sched::packet::PacketPolicy;

/// What is run.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// The policy that chooses the paths, at both ends.
    pub policy: PacketPolicy,
    /// Which way the payload goes.
    pub direction: Direction,
    /// How long packets are sent.
    pub span: Duration,
    /// The beginning that is not counted, while the links' rates are found.
    pub warm_up: Duration,
    /// Draws what is random.
    pub seed: u64,
}

/// What a connection inside the tunnel speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// TCP, as this crate models that of Linux.
    Tcp,
    /// QUIC, by quinn.
    Quic,
}

impl Protocol {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Quic => "quic",
        }
    }
}

impl Run {
    /// The host that sends: the client or the server.
    pub(super) fn from(&self) -> usize {
        match self.direction {
            Direction::Put => 0,
            Direction::Get => 1,
        }
    }
}
