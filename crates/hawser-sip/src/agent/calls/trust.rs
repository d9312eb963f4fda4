//! Identity of a host, proved by its key and signature.

use thiserror::Error;

use crate::sdp::SdpFault;

/// The key of this host, and the keys of the hosts that it knows.
pub trait Keys: Send {
    /// The public key of this host.
    fn own(&self) -> Vec<u8>;

    /// Signs with this host's private key.
    fn sign(&self, message: &[u8]) -> Vec<u8>;

    /// Judges a claim. A key that is to be taken on trust becomes known by this call.
    fn judge(&mut self, claim: &Claim<'_>) -> Verdict;

    /// Session and version of the newest description of a host, by its address of record. They
    /// include numbers stored before this start.
    fn newest(&self, name: &str) -> Option<(u64, u64)>;

    /// Stores the numbers of a newer description, durably across restarts: no older description is
    /// believed afterwards.
    fn set_newest(&mut self, name: &str, numbers: (u64, u64));
}

/// A host's claim of its identity.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    /// Claimed name, an address of record such as `sip:bob@example.org`.
    pub name: &'a str,
    /// Claimed public key.
    pub key: &'a [u8],
    /// Message that the key signed.
    pub message: &'a [u8],
    /// The signature.
    pub signature: &'a [u8],
    /// Whether the claim answers a call of this host, which the directory forwarded to the user
    /// registered under the name. Otherwise any sender can have used the name.
    pub is_asked: bool,
}

/// Outcome of judging a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The host is known, and the key and the signature are its own.
    Right,
    /// No host of this name is known here.
    Stranger,
    /// The key or the signature belongs to another host.
    Wrong,
}

/// Reason to reject a description.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Doubt {
    /// The description can't be read.
    #[error("its description: {0}")]
    Malformed(#[from] SdpFault),
    /// No host of that name is known.
    #[error("no host of that name is known here")]
    Stranger,
    /// Another key signed the description.
    #[error("its description is signed by another key than the one that is known")]
    Wrong,
    /// A newer description has arrived.
    #[error("its description is an old one")]
    Old,
    /// A description from a later start of the host has arrived before.
    #[error(
        "its description is from before its latest start: if it has lost its state and its clock \
         is behind, `hawser peers remove` and `hawser peers add` here let it begin anew"
    )]
    EarlierStart,
}
