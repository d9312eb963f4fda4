//! Transports that carry bytes over the links.

use serde::{Deserialize, Serialize};

/// One of those that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Way {
    /// Plain TCP over the best link alone.
    Link,
    /// The kernel's MPTCP, over all links.
    Mptcp,
    /// TCP in a tunnel of WireGuard's, over the best link.
    WireGuard,
    /// Hawser without a gateway: each connection takes one link.
    Connections,
    /// Hawser's streams, whose data travels over TCP channels.
    Streams,
    /// The same, whose data travels over an association.
    Association,
    /// TCP as packets in Hawser's tunnel.
    Packets,
}

impl Way {
    pub(super) const ALL: [Self; 7] = [
        Self::Link,
        Self::Mptcp,
        Self::WireGuard,
        Self::Connections,
        Self::Streams,
        Self::Association,
        Self::Packets,
    ];

    /// The name in folders.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Link => "link",
            Self::Mptcp => "mptcp",
            Self::WireGuard => "wireguard",
            Self::Connections => "connections",
            Self::Streams => "streams",
            Self::Association => "association",
            Self::Packets => "packets",
        }
    }

    /// The name in tables and pictures.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Link => "best link alone (TCP)",
            Self::Mptcp => "kernel MPTCP",
            Self::WireGuard => "WireGuard, one link",
            Self::Connections => "Hawser, no gateway, 8 connections",
            Self::Streams => "Hawser, streams over TCP",
            Self::Association => "Hawser, streams over SCTP",
            Self::Packets => "Hawser, packets",
        }
    }

    /// The style class of its bars.
    pub(super) fn class(self) -> &'static str {
        match self {
            Self::Link => "link",
            Self::Mptcp => "mptcp",
            Self::WireGuard => "wireguard",
            Self::Streams => "hawser",
            Self::Connections | Self::Association | Self::Packets => "hawser-more",
        }
    }

    /// Whether the congestion control of what is measured can be chosen; Hawser chooses its own.
    pub(super) fn has_control(self) -> bool {
        matches!(self, Self::Link | Self::Mptcp | Self::WireGuard)
    }

    /// Whether a transfer goes on when one of the links dies.
    pub(super) fn outlives_a_link(self) -> bool {
        !matches!(self, Self::Link | Self::WireGuard | Self::Connections)
    }

    /// Whether its first transfer of all tells it what its links carry. A user's daemon keeps that
    /// from one run to the next.
    pub(super) fn learns_rates(self) -> bool {
        self == Self::Connections
    }

    /// Whether all links carry what is measured.
    pub(super) fn takes_all_links(self) -> bool {
        !matches!(self, Self::Link | Self::WireGuard)
    }

    /// Number of connections that a transfer is made of.
    pub(super) fn connections(self) -> u64 {
        match self {
            Self::Connections => CONNECTIONS,
            _ => 1,
        }
    }
}

/// Enough to be placed on links by their rates.
const CONNECTIONS: u64 = 8;
