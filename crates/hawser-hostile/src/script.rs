//! Scripts: what a hostile peer does, and what has to be true of the program meanwhile.

use hawser_session::{Misbehaviour, PeerFault, Side};

use crate::scripts;
use crate::step::Step;

/// One way of misbehaving.
#[derive(Clone, Debug)]
pub struct Script {
    /// Its name on command lines.
    pub name: &'static str,
    /// Side of the hostile peer: a client is let loose on `hawser serve`, a gateway on `hawser up`.
    pub side: Side,
    /// Whether it says hello before the first step.
    pub greets: bool,
    /// Whether the client's connections have the least receive window that the kernel gives.
    pub narrow: bool,
    /// What it does. A long run begins again at the first one while there is time.
    pub steps: Vec<Step>,
    /// How its session has to end.
    pub ending: Ending,
    /// Most descriptors that the program may open for it.
    pub descriptors: usize,
    /// What the program is known to do wrong; its trial is then measured and not judged.
    pub known_fault: Option<&'static str>,
}

/// How a session of a hostile peer has to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The session goes on: nothing was a fault, or only a connection was lost by it.
    Lives,
    /// The program ends it, and logs a fault with this text.
    Fault(String),
    /// The session may go on or be ended.
    Any,
}

impl Script {
    /// A script of a client whose session goes on.
    pub(crate) fn client(name: &'static str, steps: Vec<Step>) -> Self {
        Self {
            name,
            side: Side::Client,
            greets: true,
            narrow: false,
            steps,
            ending: Ending::Lives,
            descriptors: DESCRIPTORS,
            known_fault: None,
        }
    }

    /// A script of a gateway whose session goes on.
    pub(crate) fn gateway(name: &'static str, steps: Vec<Step>) -> Self {
        Self {
            side: Side::Gateway,
            ..Self::client(name, steps)
        }
    }

    /// Its session has to end by this fault.
    pub(crate) fn ends_by(self, fault: Misbehaviour) -> Self {
        let ending = Ending::Fault(PeerFault::Misbehaved(fault).to_string());
        Self { ending, ..self }
    }

    /// Its session has to end since this element is malformed.
    pub(crate) fn ends_by_malformed(self, element: &str) -> Self {
        let ending = Ending::Fault(format!("malformed {element}"));
        Self { ending, ..self }
    }

    /// Its session may be ended.
    pub(crate) fn may_end(self) -> Self {
        let ending = Ending::Any;
        Self { ending, ..self }
    }

    /// Says no hello of its own.
    pub(crate) fn without_hello(self) -> Self {
        let greets = false;
        Self { greets, ..self }
    }

    /// Its client's connections take little at once, so that what it does not read waits in the
    /// gateway.
    pub(crate) fn narrow(self) -> Self {
        let narrow = true;
        Self { narrow, ..self }
    }

    /// The program may open so many descriptors.
    pub(crate) fn descriptors(self, descriptors: usize) -> Self {
        Self {
            descriptors,
            ..self
        }
    }
}

/// A group of scripts about one matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// The gateway is to hold ever more.
    Memory,
    /// The rules of streams.
    Streams,
    /// Commands and state.
    Commands,
    /// Channels, joins and the gateway's port.
    Channels,
    /// A gateway against a client.
    Gateways,
}

impl Group {
    /// All groups.
    pub const ALL: [Self; 5] = [
        Self::Memory,
        Self::Streams,
        Self::Commands,
        Self::Channels,
        Self::Gateways,
    ];

    /// Its scripts.
    pub fn scripts(self) -> Vec<Script> {
        match self {
            Self::Memory => scripts::memory(),
            Self::Streams => scripts::streams(),
            Self::Commands => scripts::commands(),
            Self::Channels => scripts::channels(),
            Self::Gateways => scripts::gateways(),
        }
    }
}

/// All scripts.
pub fn all() -> Vec<Script> {
    Group::ALL.into_iter().flat_map(Group::scripts).collect()
}

/// The script of this name.
pub fn named(name: &str) -> Option<Script> {
    all().into_iter().find(|script| script.name == name)
}

/// Most descriptors for a session that opens nothing in particular.
const DESCRIPTORS: usize = 96;
