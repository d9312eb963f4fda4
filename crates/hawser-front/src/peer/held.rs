//! Addresses to which only the peer there may carry connections.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use hawser_keys::identity::PublicKey;
use parking_lot::Mutex;

/// Addresses at which a peer that this machine has enrolled with has carried a connection.
///
/// An attacker on the path can silence the peer's port. So silence does not permit plain TCP to
/// such an address: connections are refused, unless the user allows plain TCP. Only the peer's own
/// answer, over a session, releases its address. Clones share the held addresses.
#[derive(Clone)]
pub struct HeldPeers {
    known: Arc<Known>,
    may_fall_back: bool,
    held: Arc<Mutex<BTreeMap<IpAddr, Held>>>,
}

type Known = dyn Fn() -> Vec<PublicKey> + Send + Sync;

#[derive(Clone, Copy, Debug)]
struct Held {
    peer: PublicKey,
    /// Outcome of the last connection, if the peer did not answer it.
    passed: Option<Passed>,
    /// Whether a connection waits for the silent peer.
    is_probed: bool,
}

/// The right of one connection to wait for a silent peer while others do not, until dropped.
#[derive(Debug)]
pub(super) struct Probe<'a> {
    held: &'a HeldPeers,
    address: IpAddr,
}

impl Drop for Probe<'_> {
    fn drop(&mut self) {
        if let Some(held) = self.held.held.lock().get_mut(&self.address) {
            held.is_probed = false;
        }
    }
}

/// Outcome of a connection that a held peer did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed {
    /// The connection was refused.
    Refused,
    /// The connection went over plain TCP, which the user allows.
    Plain,
}

impl HeldPeers {
    /// Returns whether the user allows plain TCP where a peer does not carry a connection.
    pub(super) const fn allows_plain(&self) -> bool {
        self.may_fall_back
    }

    /// Holds addresses of peers while their keys are among those that `known` gives.
    /// `may_fall_back`: the user allows plain TCP where a peer does not answer.
    pub fn new(
        known: impl Fn() -> Vec<PublicKey> + Send + Sync + 'static,
        may_fall_back: bool,
    ) -> Self {
        Self {
            known: Arc::new(known),
            may_fall_back,
            held: Arc::default(),
        }
    }

    /// Returns the addresses with a peer that did not answer the last connection, those peers, and
    /// the outcome of the connection.
    pub fn silent(&self) -> Vec<(IpAddr, PublicKey, Passed)> {
        let held = self.held.lock();
        let silent = held
            .iter()
            .filter_map(|(address, it)| Some((*address, it.peer, it.passed?)));
        silent.collect()
    }

    /// Whether no address is held.
    pub(super) fn is_empty(&self) -> bool {
        self.held.lock().is_empty()
    }

    /// Returns the peer for which an address is held.
    pub(super) fn peer(&self, address: IpAddr) -> Option<PublicKey> {
        let address = address.to_canonical();
        let peer = self.held.lock().get(&address)?.peer;
        if (self.known)().contains(&peer) {
            return Some(peer);
        }
        // The user has removed this peer.
        self.held.lock().remove(&address);
        None
    }

    /// Returns the right to wait for the peer of an address; `None` while the peer is silent and
    /// another connection waits.
    pub(super) fn probe(&self, address: IpAddr) -> Option<Probe<'_>> {
        let address = address.to_canonical();
        if let Some(held) = self.held.lock().get_mut(&address)
            && held.passed.is_some()
            && std::mem::replace(&mut held.is_probed, true)
        {
            return None;
        }
        Some(Probe {
            held: self,
            address,
        })
    }

    /// Records that the peer has carried a connection to an address.
    pub(super) fn note_carried(&self, address: IpAddr, peer: PublicKey) {
        let address = address.to_canonical();
        let mut held = self.held.lock();
        if held.len() >= MAX_HELD && !held.contains_key(&address) {
            return;
        }
        let now = Held {
            peer,
            passed: None,
            is_probed: false,
        };
        let before = held.insert(address, now);
        if before.is_some_and(|before| before.passed.is_some()) {
            tracing::info!(%address, %peer, "the peer carries connections again");
        }
    }

    /// Records that the peer itself refuses connections to an address.
    pub(super) fn note_refusal(&self, address: IpAddr) {
        if let Some(Held { peer, .. }) = self.held.lock().remove(&address.to_canonical()) {
            tracing::info!(%address, %peer,
                "peer refuses connections to its address, using a link");
        }
    }

    /// Records that the peer has not answered. Returns the outcome of the connection.
    pub(super) fn note_silence(&self, address: IpAddr) -> Passed {
        let passed = if self.may_fall_back {
            Passed::Plain
        } else {
            Passed::Refused
        };
        if let Some(held) = self.held.lock().get_mut(&address.to_canonical()) {
            let peer = held.peer;
            match (held.passed.replace(passed), passed) {
                (Some(_), _) => {}
                (None, Passed::Plain) => tracing::warn!(%address, %peer,
                    "the peer does not answer: connections to it go over plain TCP, as \
                     `peer-fallback` allows"),
                (None, Passed::Refused) => tracing::warn!(%address, %peer,
                    "the peer does not answer: refusing connections to it; `hawser peers remove` \
                     with its key releases the address, and `peer-fallback` would allow plain TCP"),
            }
        }
        passed
    }

    /// Returns those of `addresses` that may be connected to without a peer.
    pub(super) fn free(&self, mut addresses: Vec<IpAddr>) -> Vec<IpAddr> {
        if !self.may_fall_back && !self.is_empty() {
            addresses.retain(|address| self.peer(*address).is_none());
        }
        addresses
    }
}

impl fmt::Debug for HeldPeers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldPeers")
            .field("may_fall_back", &self.may_fall_back)
            .finish_non_exhaustive()
    }
}

/// Largest number of held addresses. Only peers that this machine has enrolled with add any.
const MAX_HELD: usize = 4096;

#[cfg(test)]
mod tests {
    use hawser_keys::identity::Identity;

    use super::*;

    #[test]
    fn an_address_is_held_from_the_first_connection_until_the_peer_refuses_or_is_removed() {
        let peer = Identity::from_seed([7; 32]).public();
        let enrolled = Arc::new(Mutex::new(vec![peer]));
        let known = Arc::clone(&enrolled);
        let held = HeldPeers::new(move || known.lock().clone(), false);
        let (there, other) = (IpAddr::from([9, 9, 9, 9]), IpAddr::from([9, 9, 9, 10]));
        assert_eq!(held.free(vec![there, other]), [there, other]);
        held.note_carried(there, peer);
        assert_eq!(held.free(vec![there, other]), [other]);
        let mapped: IpAddr = "::ffff:9.9.9.9".parse().unwrap();
        assert_eq!(held.peer(mapped), Some(peer));
        assert_eq!(held.note_silence(there), Passed::Refused);
        assert_eq!(held.silent(), [(there, peer, Passed::Refused)]);
        held.note_carried(there, peer);
        assert_eq!(held.silent(), []);
        held.note_refusal(there);
        assert_eq!(held.free(vec![there]), [there]);
        held.note_carried(there, peer);
        enrolled.lock().clear();
        assert_eq!(held.free(vec![there]), [there]);
        assert!(held.is_empty());
    }

    #[test]
    fn plain_tcp_is_for_who_allows_it_and_is_told() {
        let peer = Identity::from_seed([7; 32]).public();
        let held = HeldPeers::new(move || vec![peer], true);
        let there = IpAddr::from([9, 9, 9, 9]);
        held.note_carried(there, peer);
        assert_eq!(held.note_silence(there), Passed::Plain);
        assert_eq!(held.free(vec![there]), [there]);
        assert_eq!(held.silent(), [(there, peer, Passed::Plain)]);
    }
}
