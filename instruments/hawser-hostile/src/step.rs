//! Steps that a hostile peer can perform.

use std::net::Ipv4Addr;
use std::time::Duration;

use bytes::BytesMut;
use hawser_wire::{Command, CommandKind, FirstWord, FrameKind, StreamKind};

use crate::datagrams::Names;
pub use crate::place::Place;
use crate::scene::Scene;

/// One step of a script. Steps follow one another; each is over when all of it is with the kernel.
#[derive(Clone, Debug)]
pub enum Step {
    /// From now on listens like this.
    Listen(Manners),
    /// Does nothing for so long.
    Pause(Duration),
    /// Sends bytes that are no record, on the current channel. The peer may end the connection
    /// before it has all of them.
    Raw(Vec<u8>),
    /// Waits until the peer has ended the connection of the current channel, and goes back to the
    /// first one. A peer that does not is the trial's failure.
    Lost,
    /// Sends so many sealed records, whose bodies `Make` writes.
    Records(u64, Make<BytesMut>),
    /// Says so many commands, in their order on stream 0.
    Commands(u64, Make<Vec<Command>>),
    /// Leaves so many bytes of the command stream out, as if they were on their way.
    SkipCommands(u64),
    /// Says so many commands of a kind.
    CommandsOf(u64, CommandKind),
    /// Sends so many records with a frame of a kind each.
    FramesOf(u64, FrameKind),
    /// Opens so many streams of a kind.
    StreamsOf(u64, StreamKind),
    /// Opens so many streams to a place of the scene, each with so many bytes of data.
    Open(u64, Place, usize),
    /// Waits until the peer has refused so many streams since this step was over the last time.
    Refused(usize),
    /// Waits until so many datagrams have come beside streams since this step was over the last
    /// time. Fewer are the trial's failure: the script would not do what it says.
    Came(u64),
    /// Joins with so many further channels; the last one becomes the current one.
    Join(u64),
    /// Joins once more, which has to be refused.
    JoinRefused,
    /// Uses the session's first channel again.
    First,
    /// Closes all channels but the first.
    Leave,
    /// Lets all channels but the first fall silent, without closing them.
    HalfDead,
    /// Joins and closes, so many times.
    Churn(u64),
    /// Joins twice with one number; the second time has to be refused.
    JoinTwice,
    /// Begins a session with another key, and has it join this one so many times by what is said in
    /// the clear: this session's id and a number that was granted. Each has to be refused.
    Hijack(u64),
    /// Announces so many associations that never come.
    Associate(u64),
    /// Begins an association as an honest client does, in place of the one before. From then on
    /// it sends nothing by itself.
    Associated,
    /// Sends so many packets under the association's seal, which `Make` writes. Their turns begin
    /// at 0 each time.
    Packets(u64, Make<BytesMut>),
    /// Sends so many datagrams without a seal to the gateway's UDP port. Their turns begin at 0
    /// each time.
    Strays(u64, Make<BytesMut>),
    /// Sends so many datagrams once more that the association has begun with.
    Replay(u64),
    /// Opens a tunnel for packets, and waits for its terms.
    Tunnel,
    /// Sends so many packets by the tunnel, which `Make` writes.
    InnerPackets(u64, Make<BytesMut>),
    /// Checks that no packet comes from this address by the tunnel.
    NothingFrom(Ipv4Addr),
    /// Checks that the association still stands.
    Stands,
    /// Gives so many granted numbers up.
    GiveUp(u64),
    /// Begins so many sessions with the same key, and lets all of them fall silent at once.
    Ghosts(u64),
    /// Begins a session with the same key within so long; failing to is the trial's failure.
    Return(Duration),
    /// Connects so many times to the gateway's port, says nothing, and keeps the connections.
    Idle(u64),
    /// Connects so many times to the gateway's port, begins like this, says no more, and keeps the
    /// connections.
    Begin(u64, FirstWord),
    /// Does this so many times.
    Repeat(u64, Vec<Step>),
}

impl Step {
    /// Whether it leaves connections behind that say nothing.
    pub(crate) fn is_silent(&self) -> bool {
        match self {
            Self::Idle(_) | Self::Begin(..) => true,
            Self::Repeat(_, steps) => steps.iter().any(Self::is_silent),
            _ => false,
        }
    }
}

/// Writes one of many records or commands. Has no state, so that a script stays data.
pub type Make<T> = fn(Turn<'_>, &mut T);

/// What a step of many can know when it writes one of them.
#[derive(Clone, Copy, Debug)]
pub struct Turn<'a> {
    /// Which one this is, from 0 on; goes on when the step is repeated in the same session.
    pub number: u64,
    /// The side's first stream number: 2 for a client, 1 for a gateway.
    pub first_stream: u64,
    /// Places to open streams to.
    pub scene: &'a Scene,
    pub(crate) names: Names,
}

impl Turn<'_> {
    /// The number of this turn's own stream.
    pub(crate) fn stream(self) -> u64 {
        self.first_stream + 2 * self.number
    }
}

/// How the hostile peer listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manners {
    /// Reads what comes on its channels.
    pub reads: bool,
    /// Acknowledges records with chunks.
    pub acknowledges: bool,
    /// Credit beyond what came on a stream; 0 grants none.
    pub credit: u64,
}

impl Manners {
    /// Reads and acknowledges, and grants no credit.
    pub const GOOD: Self = Self {
        reads: true,
        acknowledges: true,
        credit: 0,
    };
    /// Reads, and acknowledges nothing.
    pub const NO_ACKS: Self = Self {
        acknowledges: false,
        ..Self::GOOD
    };
    /// Reads nothing.
    pub const DEAF: Self = Self {
        reads: false,
        ..Self::GOOD
    };
    /// Grants credit without end and acknowledges nothing.
    pub const GREEDY: Self = Self {
        credit: 1 << 40,
        ..Self::NO_ACKS
    };
    /// As a correct reader that is always quick.
    pub const EAGER: Self = Self {
        credit: 1 << 20,
        ..Self::GOOD
    };
}

impl Default for Manners {
    fn default() -> Self {
        Self::GOOD
    }
}
