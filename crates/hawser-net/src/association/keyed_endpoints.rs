//! All endpoints of one set of sockets, by their keys.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use hawser_sctp::{AssociationId, Local};
use hawser_session::seal::datagram::KeyId;
use hawser_types::{ByteCount, Instant};
use parking_lot::RwLock;

use super::keyed_endpoint::{KeyedEndpoint, KeyedEndpointId};
use super::timers::Timers;
use super::tokens::Tokens;
use crate::clock;
use crate::takeover::ToPredecessor;

/// All endpoints of one set of sockets.
///
/// The lock is held only to find an endpoint, to add one or to remove those that have ended; never
/// while a datagram is decrypted or an association is worked on.
#[derive(Debug, Default)]
pub(super) struct KeyedEndpoints {
    all: RwLock<BTreeMap<KeyedEndpointId, Arc<KeyedEndpoint>>>,
    timers: Arc<Timers>,
    tokens: Arc<Tokens>,
    /// Takes datagrams that are for no endpoint here.
    predecessor: Option<ToPredecessor>,
}

impl KeyedEndpoints {
    /// An empty set, with the sockets of the predecessor process beside it, if there is one.
    pub(super) fn after(predecessor: Option<ToPredecessor>) -> Self {
        Self {
            predecessor,
            ..Self::default()
        }
    }

    /// Whether the predecessor process still has sockets at the same addresses and ports.
    pub(super) fn has_predecessor(&self) -> bool {
        let predecessor = self.predecessor.as_ref();
        predecessor.is_some_and(ToPredecessor::is_there)
    }

    /// The timers of the associations of all endpoints.
    pub(super) fn timers(&self) -> Arc<Timers> {
        Arc::clone(&self.timers)
    }

    /// The waiters for tokens, which arrive as datagrams for no endpoint.
    pub(super) fn tokens(&self) -> &Arc<Tokens> {
        &self.tokens
    }

    pub(super) fn get(&self, id: KeyedEndpointId) -> Option<Arc<KeyedEndpoint>> {
        let all = self.all.read();
        all.get(&id).cloned()
    }

    /// Every endpoint at this moment.
    pub(super) fn list(&self) -> Vec<Arc<KeyedEndpoint>> {
        let all = self.all.read();
        all.values().cloned().collect()
    }

    /// Adds an endpoint, unless its name is taken.
    pub(super) fn insert(&self, endpoint: &Arc<KeyedEndpoint>) -> bool {
        let mut all = self.all.write();
        let id = endpoint.id();
        let is_free = !all.contains_key(&id);
        if is_free {
            all.insert(id, Arc::clone(endpoint));
        }
        is_free
    }

    /// Releases an association that its user has dropped.
    pub(super) fn release(&self, endpoint: &KeyedEndpoint, id: AssociationId) {
        endpoint.release(id);
        self.give_up(endpoint);
    }

    /// Stops waiting for an association under these keys. If no association uses them, forgets
    /// them: at once if the peer has not used them, else after a time for the peer's last packets.
    pub(super) fn give_up(&self, endpoint: &KeyedEndpoint) {
        let (Some(key), true) = (endpoint.id(), endpoint.give_up()) else {
            return;
        };
        if endpoint.has_stragglers() {
            self.timers.leave(clock::now() + STRAGGLERS, key)
        } else {
            self.forget(&[key])
        }
    }

    /// Forgets the keys that no association needs; returns the others.
    pub(super) fn forget_ended(&self, keys: &[KeyId]) -> Vec<KeyId> {
        let has_ended = |key: &&KeyId| {
            let endpoint = self.get(Some(**key));
            endpoint.is_none_or(|it| it.ended().is_some())
        };
        let (ended, others): (Vec<KeyId>, Vec<KeyId>) = keys.iter().partition(has_ended);
        self.forget(&ended);
        others
    }

    /// Marks the session of these keys as over: forgets the keys that no association needs now, and
    /// the others as soon as no association needs them.
    pub(super) fn disown(&self, keys: &[KeyId]) {
        for endpoint in keys.iter().filter_map(|key| self.get(Some(*key))) {
            endpoint.disown();
        }
        self.forget_ended(keys);
    }

    /// The approximate memory of all endpoints, and the key of the largest one.
    pub(super) fn held(&self) -> (ByteCount, Option<KeyId>) {
        let held = |endpoint: &Arc<KeyedEndpoint>| (endpoint.held(), endpoint.id());
        let each: Vec<_> = self.list().iter().map(held).collect();
        let all = each
            .iter()
            .fold(ByteCount::ZERO, |all, (one, _)| all + *one);
        (all, each.into_iter().max().and_then(|(_, key)| key))
    }

    /// Forgets the endpoints of these keys: datagrams for them are dropped.
    pub(super) fn forget(&self, keys: &[KeyId]) {
        if keys.is_empty() {
            return;
        }
        let mut all = self.all.write();
        let gone: Vec<_> = keys.iter().map(|key| all.remove(&Some(*key))).collect();
        drop(all);
        // Their memory is freed under no lock.
        drop(gone);
    }

    /// Forgets the keys whose time for the peer's last packets is over.
    fn forget_leavers(&self, now: Instant) {
        self.forget(&self.timers.leavers(now));
    }

    /// Hands datagrams of a socket to their endpoints, in order for each endpoint.
    pub(super) fn handle_datagrams(
        &self,
        local: Local,
        datagrams: &mut Vec<(SocketAddr, BytesMut)>,
    ) {
        let now = clock::now();
        let (mut row, mut strays) = (Vec::new(), Vec::new());
        // Consecutive datagrams are mostly from one peer.
        let mut latest: Option<(Option<KeyId>, Option<Arc<KeyedEndpoint>>)> = None;
        for (remote, datagram) in datagrams.drain(..) {
            let key = KeyId::of(&datagram);
            if latest.as_ref().is_none_or(|(known, _)| *known != key) {
                let next = {
                    let all = self.all.read();
                    let sealed = key.and_then(|key| all.get(&Some(key)));
                    // Otherwise the endpoint for unsealed packets, if there is one.
                    sealed.or_else(|| all.get(&None)).cloned()
                };
                if let Some((_, Some(endpoint))) = &latest
                    && !next.as_ref().is_some_and(|it| Arc::ptr_eq(it, endpoint))
                {
                    endpoint.handle_datagrams(now, local, &mut row);
                }
                latest = Some((key, next));
            }
            // A datagram without an endpoint is not answered.
            match latest {
                Some((_, Some(_))) => row.push((remote, datagram)),
                _ => {
                    self.tokens.handle_datagram(remote, &datagram);
                    if self.predecessor.is_some() {
                        strays.push((remote, datagram));
                    }
                }
            }
        }
        if let Some(predecessor) = &self.predecessor {
            predecessor.pass_datagrams(local, strays);
        }
        if let Some((_, Some(endpoint))) = latest {
            endpoint.handle_datagrams(now, local, &mut row);
        }
    }

    /// Returns whether a datagram names the key of an endpoint.
    pub(super) fn is_for_one(&self, datagram: &[u8]) -> bool {
        KeyId::of(datagram).is_some_and(|key| self.get(Some(key)).is_some())
    }
}

/// Drives the timers of all associations, for ever.
pub(super) async fn drive_timers(endpoints: Arc<KeyedEndpoints>) {
    loop {
        let now = clock::now();
        for (endpoint, association) in endpoints.timers.due(now) {
            if let Some(endpoint) = endpoints.get(endpoint) {
                endpoint.handle_timeout(now, association);
            }
        }
        endpoints.forget_leavers(now);
        endpoints.timers.wait().await;
    }
}

/// Time for which the peer's last packets are answered after an association is over.
const STRAGGLERS: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use hawser_channels::association::below_seal;
    use hawser_sctp::AssociationConfig;
    use hawser_session::seal::{Aead, Direction, SessionKeys};
    use hawser_types::ChannelId;
    use zeroize::Zeroizing;

    use super::*;
    use crate::association::seal::Seal;

    fn endpoint(endpoints: &KeyedEndpoints, channel: u32) -> Arc<KeyedEndpoint> {
        let keys = SessionKeys::new(Zeroizing::new([7; 32]), Aead::Aes128Gcm);
        let direction = Direction::GatewayToClient;
        let seal = Seal::new(&keys, ChannelId::new(channel), direction);
        let config = below_seal(AssociationConfig::default());
        Arc::new(KeyedEndpoint::sealed(config, seal, true, endpoints.timers()).unwrap())
    }

    fn known(endpoints: &KeyedEndpoints, of: &[Arc<KeyedEndpoint>]) -> Vec<bool> {
        let is_known = |it: &Arc<KeyedEndpoint>| endpoints.get(it.id()).is_some();
        of.iter().map(is_known).collect()
    }

    #[test]
    fn keys_that_no_association_has_needed_for_some_time_open_nothing_more() {
        let endpoints = KeyedEndpoints::default();
        let all = [1, 2, 3].map(|channel| endpoint(&endpoints, channel));
        assert!(all.iter().all(|it| endpoints.insert(it)));
        assert!(!endpoints.insert(&all[0]), "its name is taken");
        all[0].note_use();
        endpoints.give_up(&all[0]);
        endpoints.give_up(&all[1]);
        assert_eq!(
            known(&endpoints, &all),
            [true, false, true],
            "an answer may be missed"
        );
        endpoints.forget_leavers(clock::now());
        assert_eq!(known(&endpoints, &all), [true, false, true]);
        endpoints.forget_leavers(clock::now() + STRAGGLERS);
        assert_eq!(known(&endpoints, &all), [false, false, true]);
    }
}
