//! Scripts: actions of a hostile peer, and conditions that the program must meet meanwhile.

use std::fmt;

use hawser_session::{Limit, Misbehaviour, PeerFault, Side};

use crate::step::Step;

/// One way of misbehaving.
#[derive(Clone, Debug)]
pub struct Script {
    /// Its name on command lines.
    pub name: &'static str,
    /// Side of the hostile peer: a client is let loose on `hawser serve`, a gateway on `hawser up`.
    pub side: Side,
    /// Whether the gateway carries packets, in a network of its own, which only root can make.
    pub carries_packets: bool,
    /// Whether it says hello before the first step.
    pub greets: bool,
    /// Whether the client has not enrolled, and comes by the port that is open to strangers.
    pub stranger: bool,
    /// Whether the client's connections have the least receive window that the kernel gives.
    pub narrow: bool,
    /// What it does. A long run begins again at the first one while there is time.
    pub steps: Vec<Step>,
    /// How its sessions may end.
    pub ending: Ending,
    /// Most descriptors that the program may open for it.
    pub descriptors: usize,
    /// What the program is known to do wrong; its trial is then measured and not judged.
    pub known_fault: Option<&'static str>,
}

/// How a session of a hostile peer may end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// Whether it may go on: nothing was a fault, or only a connection was lost by it.
    pub lives: bool,
    /// For what the program may end it.
    pub reasons: Vec<Reason>,
}

/// For what the program ends a session with a hostile peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The peer is at fault. As an expectation: the fault's text contains this.
    Fault(String),
    /// Something would have grown beyond its limit.
    Limit(Limit),
    /// No channel was left: they were closed, or silent for too long.
    Lost,
    /// The peer asked for it, with this code.
    Asked(u32),
}

impl Ending {
    /// True if a session may end for this.
    pub fn allows(&self, found: &Reason) -> bool {
        self.reasons.iter().any(|expected| match (expected, found) {
            (Reason::Fault(part), Reason::Fault(text)) => text.contains(part),
            _ => expected == found,
        })
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fault(text) => write!(f, "a fault, \"{text}\""),
            Self::Limit(limit) => write!(f, "a limit, {limit:?}"),
            Self::Lost => f.write_str("the loss of its channels"),
            Self::Asked(code) => write!(f, "the peer's wish, code {code}"),
        }
    }
}

impl Script {
    /// A script of a client whose session goes on.
    pub(crate) fn client(name: &'static str, steps: Vec<Step>) -> Self {
        Self {
            name,
            side: Side::Client,
            carries_packets: false,
            greets: true,
            stranger: false,
            narrow: false,
            steps,
            ending: Ending {
                lives: true,
                reasons: Vec::new(),
            },
            descriptors: DESCRIPTORS,
            known_fault: None,
        }
    }

    /// A script of a client that has not enrolled, whose session goes on.
    pub(crate) fn stranger(name: &'static str, steps: Vec<Step>) -> Self {
        Self {
            stranger: true,
            ..Self::client(name, steps)
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
        self.ends_by_fault(PeerFault::Misbehaved(fault).to_string())
    }

    /// Its session has to end since this element is malformed.
    pub(crate) fn ends_by_malformed(self, element: &str) -> Self {
        self.ends_by_fault(format!("malformed {element}"))
    }

    /// Its session has to end by a fault whose text contains this.
    pub(crate) fn ends_by_fault(mut self, text: String) -> Self {
        self.ending.lives = false;
        self.ending.reasons.push(Reason::Fault(text));
        self
    }

    /// Its session has to end for this.
    pub(crate) fn ends_for(mut self, reason: Reason) -> Self {
        self.ending.lives = false;
        self.may_end_by(reason)
    }

    /// Its session may end for this.
    pub(crate) fn may_end_by(mut self, reason: Reason) -> Self {
        self.ending.reasons.push(reason);
        self
    }

    /// Its session may end since it causes more answers than it acknowledges, all of them commands.
    /// The same streams may be at fault for their number: which one is too many depends on limits.
    pub(crate) fn may_overflow(self) -> Self {
        self.may_end_by(Reason::Limit(Limit::Commands))
            .may_end_by(Reason::Fault(TOO_MANY_STREAMS.to_owned()))
    }

    /// Its session may be given up, since it reads or acknowledges nothing for long. So may one to
    /// which much comes: on a busy machine the peer, with its low priority, may not keep up.
    pub(crate) fn may_be_given_up(self) -> Self {
        self.may_end_by(Reason::Lost)
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

    /// Its gateway carries packets.
    pub(crate) fn with_packets(self) -> Self {
        let carries_packets = true;
        Self {
            carries_packets,
            ..self
        }
    }

    /// The program may open so many descriptors.
    pub(crate) fn descriptors(self, descriptors: usize) -> Self {
        Self {
            descriptors,
            ..self
        }
    }
}

/// The end of this fault's text, after the number of a stream.
pub(crate) const TOO_MANY_STREAMS: &str = "exceeds the number of streams allowed";

/// Most descriptors for a session that opens nothing in particular.
const DESCRIPTORS: usize = 96;
