//! Who a host is, as far as it can show that.

use thiserror::Error;

use crate::sdp::SdpFault;

/// The key of this host, and those of the hosts that it knows.
pub trait Keys: Send {
    /// The public key of this host.
    fn own(&self) -> Vec<u8>;

    /// Signs with it.
    fn sign(&self, message: &[u8]) -> Vec<u8>;

    /// Whether a claim is right. A key that is to be taken on trust becomes known by this.
    fn judge(&mut self, claim: &Claim<'_>) -> Verdict;

    /// Session and version of the newest description of a host, by its address of record.
    /// Includes what was stored before this start.
    fn newest(&self, name: &str) -> Option<(u64, u64)>;

    /// Stores the numbers of a newer description, also over a restart: no older one is believed
    /// again.
    fn set_newest(&mut self, name: &str, numbers: (u64, u64));
}

/// Somebody says who it is.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    /// Its name, an address of record such as `sip:bob@example.org`.
    pub name: &'a str,
    /// Its public key.
    pub key: &'a [u8],
    /// What it has signed by that.
    pub message: &'a [u8],
    /// The signature.
    pub signature: &'a [u8],
    /// It answers a call of this host's, which the directory has led to whoever has registered
    /// under the name. Anybody may send a request in anybody's name.
    pub is_asked: bool,
}

/// What a claim is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The host is known, and the key and the signature are its own.
    Right,
    /// No host of this name is known here.
    Stranger,
    /// The key or the signature is another one's.
    Wrong,
}

/// Why a description is not believed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Doubt {
    /// It can't be read.
    #[error("its description: {0}")]
    Malformed(#[from] SdpFault),
    /// Nobody of that name is known.
    #[error("no host of that name is known here")]
    Stranger,
    /// It is signed by somebody else.
    #[error("its description is signed by another key than the one that is known")]
    Wrong,
    /// A newer one has come.
    #[error("its description is an old one")]
    Old,
    /// One of a later start of it has come before.
    #[error(
        "its description is from before its latest start: if it has lost its state and its clock \
         is behind, `hawser peers remove` and `hawser peers add` here let it begin anew"
    )]
    EarlierStart,
}
