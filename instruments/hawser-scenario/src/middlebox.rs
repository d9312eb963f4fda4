//! Middleboxes on the path of a link.

use std::time::Duration;

/// A NAT that forgets connections which are silent for too long.
///
/// Packets from outside for a forgotten connection are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nat {
    /// Time-out of a connection after its last packet in either direction, 100 ms to 24 h. RFC 5382
    /// asks for at least two hours; some NATs use minutes.
    pub forget: Duration,
    /// Handling of packets from inside for a forgotten connection.
    pub then: Forgotten,
}

/// A NAT's handling of packets from inside for forgotten connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Forgotten {
    /// They are dropped.
    Silence,
    /// They get a new mapping, so that the server sees an unknown connection and answers with a
    /// reset.
    Reset,
}

/// TCP options that a middlebox removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TcpOption {
    /// Everything but maximum segment size, window scale, selective acknowledgement and time
    /// stamps: Multipath TCP and Fast Open with it.
    Unknown,
    /// Multipath TCP (RFC 8684): kind 30.
    Mptcp,
    /// Fast Open (RFC 7413): kind 34, and kind 254 with its number 0xF989.
    FastOpen,
    /// Selective acknowledgement (RFC 2018), the permission and the ranges: kinds 4 and 5.
    Sack,
    /// Time stamps (RFC 7323): kind 8.
    Timestamps,
}

impl TcpOption {
    /// Tells whether it includes an option of this kind with this body, which follows kind and
    /// length.
    pub fn covers(self, kind: u8, body: &[u8]) -> bool {
        match self {
            Self::Unknown => !matches!(kind, 0..=5 | 8),
            Self::Mptcp => kind == 30,
            Self::FastOpen => kind == 34 || kind == 254 && body.starts_with(&[0xF9, 0x89]),
            Self::Sack => matches!(kind, 4 | 5),
            Self::Timestamps => kind == 8,
        }
    }
}
