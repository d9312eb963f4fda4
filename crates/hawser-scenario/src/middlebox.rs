//! What stands on the way of a link and meddles with connections.

use std::time::Duration;

/// A translation of addresses that forgets connections which are silent for too long.
///
/// What comes from outside for a forgotten connection vanishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nat {
    /// How long a connection is known after its last packet in either direction, 100 ms to 24 h.
    /// RFC 5382 asks for two hours at least; some keep to minutes.
    pub forget: Duration,
    /// What comes of a packet from inside that belongs to a forgotten connection.
    pub then: Forgotten,
}

/// What a translation does with packets from inside of connections that it has forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Forgotten {
    /// They vanish.
    Silence,
    /// They get a fresh mapping, so that the server sees a connection that it does not know and
    /// answers with a reset.
    Reset,
}

/// What is taken out of TCP's headers.
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
    /// Whether it stands for an option of this kind with this body, which follows kind and length.
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
