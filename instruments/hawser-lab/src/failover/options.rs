//! Options of `hawser-lab failover`.

use serde::Serialize;

use crate::scenario::{Action, Direction};

/// Options of the experiment.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Repetitions of each case; the links take turns in failing
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) repeat: u32,
    /// Only these troubles
    #[arg(long, value_delimiter = ',')]
    pub(super) trouble: Vec<Trouble>,
    /// Only beside these loads
    #[arg(long, value_delimiter = ',')]
    pub(super) load: Vec<Load>,
    /// Seconds before a link fails, without it, and after its return
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub(super) part: u64,
    /// Leave MPTCP out
    #[arg(long)]
    pub(super) only_hawser: bool,
}

/// Kinds of failure of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Trouble {
    /// Everything is dropped silently, both equipment.
    BlackHole,
    /// The client's interface loses its carrier; the server sees silence.
    CarrierLoss,
    /// The client's address is replaced by another, for good.
    AddressChange,
}

/// Traffic while the link fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Load {
    /// A transfer to the server.
    Put,
    /// A transfer to the client.
    Get,
    /// No traffic, and half a second later a request on an open connection.
    Idle,
}

impl Trouble {
    pub(super) const ALL: [Self; 3] = [Self::BlackHole, Self::CarrierLoss, Self::AddressChange];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::BlackHole => "black hole",
            Self::CarrierLoss => "carrier loss",
            Self::AddressChange => "address change",
        }
    }

    pub(super) fn begin(self) -> Action {
        match self {
            Self::BlackHole => Action::BlackHole,
            Self::CarrierLoss => Action::CarrierDown,
            Self::AddressChange => Action::AddressChange,
        }
    }

    /// Returns the action that ends the trouble; none for one that stays.
    pub(super) fn end(self) -> Option<Action> {
        match self {
            Self::BlackHole => Some(Action::Pass),
            Self::CarrierLoss => Some(Action::CarrierUp),
            Self::AddressChange => None,
        }
    }
}

impl Load {
    pub(super) const ALL: [Self; 3] = [Self::Put, Self::Get, Self::Idle];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Put => Direction::Put.name(),
            Self::Get => Direction::Get.name(),
            Self::Idle => "at rest",
        }
    }
}
