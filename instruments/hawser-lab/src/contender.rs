//! The contenders of an experiment, which carry its bytes.

use std::fmt;

use hawser_types::ByteCount;

use crate::measure::{Bench, Programs, Session, StepError, available_controls};
use crate::meter::{Congestion, Order};
use crate::scenario::Direction;
use crate::topology::Lab;

/// Hawser or one of its peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contender {
    /// Hawser, over all links.
    Hawser,
    /// Plain TCP, on one link alone.
    Tcp(Congestion),
    /// The kernel's MPTCP, over all links.
    Mptcp(Congestion),
}

impl Contender {
    /// Hawser, then those it is compared with, if it is not to be alone.
    pub(crate) fn all(only_hawser: bool, peers: impl FnOnce() -> Vec<Self>) -> Vec<Self> {
        let mut all = vec![Self::Hawser];
        if !only_hawser {
            all.extend(peers());
        }
        all
    }

    /// Plain TCP with each congestion control of this machine.
    pub(crate) fn tcp() -> Vec<Self> {
        available_controls().into_iter().map(Self::Tcp).collect()
    }

    /// MPTCP with each congestion control, where it can be measured.
    pub(crate) fn mptcp(lab: &Lab) -> Vec<Self> {
        if !lab.speaks_mptcp() {
            return Vec::new();
        }
        available_controls().into_iter().map(Self::Mptcp).collect()
    }

    /// Starts Hawser's session; nothing for other contenders.
    pub(crate) fn session(
        self,
        bench: &Bench,
        programs: &Programs,
    ) -> Result<Option<Session>, StepError> {
        match self {
            Self::Hawser => Session::start(bench, programs, 1).map(Some),
            Self::Tcp(_) | Self::Mptcp(_) => Ok(None),
        }
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hawser => f.write_str("hawser"),
            Self::Tcp(congestion) => write!(f, "tcp {}", congestion.name()),
            Self::Mptcp(congestion) => write!(f, "mptcp {}", congestion.name()),
        }
    }
}

/// Needs of contenders: a lab, Hawser's session where there is one, and plain TCP's link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Equipment<'a> {
    pub(crate) bench: &'a Bench,
    pub(crate) session: Option<&'a Session>,
    /// From 0.
    pub(crate) link: usize,
}

impl Equipment<'_> {
    /// A transfer, or an echo of blocks of so many bytes.
    pub(crate) fn order(
        &self,
        contender: Contender,
        direction: Direction,
        bytes: ByteCount,
    ) -> Order {
        let bench = self.bench;
        match (contender, self.session) {
            (Contender::Tcp(control), _) => bench.tcp_order(self.link, control, direction, bytes),
            (Contender::Mptcp(control), _) => bench.mptcp_order(control, direction, bytes),
            (Contender::Hawser, Some(session)) => {
                bench.socks_order(session.socks(), direction, bytes)
            }
            (Contender::Hawser, None) => bench.plain_order(direction, bytes),
        }
    }
}
