//! The SCTP stacks.

use serde::Serialize;

/// SCTP stacks, and QUIC to compare with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Stack {
    /// `hawser-sctp`.
    Hawser,
    /// `hawser-sctp` under a seal.
    HawserSealed,
    /// usrsctp as it is: one path at a time.
    Usrsctp,
    /// usrsctp with its concurrent multipath transfer.
    UsrsctpCmt,
    /// QUIC: a connection on each link.
    Quinn,
}

impl Stack {
    pub(super) fn is_usrsctp(self) -> bool {
        matches!(self, Self::Usrsctp | Self::UsrsctpCmt)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Hawser => "hawser",
            Self::HawserSealed => "hawser-sealed",
            Self::Quinn => "quinn",
            Self::Usrsctp => "usrsctp",
            Self::UsrsctpCmt => "usrsctp-cmt",
        }
    }
}
