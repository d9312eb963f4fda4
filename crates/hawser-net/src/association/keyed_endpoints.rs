//! All endpoints of one set of sockets, by their keys.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use bytes::BytesMut;
use hawser_sctp::Local;
use hawser_session::seal::datagram::KeyId;
use hawser_types::Instant;

use super::keyed_endpoint::{KeyedEndpoint, KeyedEndpointId};
use super::timers::Timers;
use crate::clock;

/// All endpoints of one set of sockets.
///
/// The lock is held only to find an endpoint, to add one or to remove those that have ended; never
/// while a datagram is opened or an association is worked on.
#[derive(Debug, Default)]
pub(super) struct KeyedEndpoints {
    all: RwLock<BTreeMap<KeyedEndpointId, Arc<KeyedEndpoint>>>,
    timers: Arc<Timers>,
}

impl KeyedEndpoints {
    /// The timers of the associations of all endpoints.
    pub(super) fn timers(&self) -> Arc<Timers> {
        Arc::clone(&self.timers)
    }

    pub(super) fn get(&self, id: KeyedEndpointId) -> Option<Arc<KeyedEndpoint>> {
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        all.get(&id).cloned()
    }

    /// Every endpoint at this moment.
    pub(super) fn list(&self) -> Vec<Arc<KeyedEndpoint>> {
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        all.values().cloned().collect()
    }

    /// Adds an endpoint, unless its name is taken. Forgets those that no association has needed for
    /// some time before.
    pub(super) fn insert(&self, now: Instant, endpoint: &Arc<KeyedEndpoint>) -> bool {
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        let is_over = |ended: Instant| now.since(ended) >= STRAGGLERS;
        all.retain(|_, endpoint| !endpoint.ended().is_some_and(is_over));
        let id = endpoint.id();
        let is_free = !all.contains_key(&id);
        if is_free {
            all.insert(id, Arc::clone(endpoint));
        }
        is_free
    }

    /// Hands datagrams that have come to a socket to their endpoints, those of each in their order.
    pub(super) fn handle_datagrams(
        &self,
        local: Local,
        datagrams: &mut Vec<(SocketAddr, BytesMut)>,
    ) {
        let now = clock::now();
        let mut row = Vec::new();
        // Most come in rows from one peer.
        let mut latest: Option<(Option<KeyId>, Option<Arc<KeyedEndpoint>>)> = None;
        for (remote, datagram) in datagrams.drain(..) {
            let key = KeyId::of(&datagram);
            if latest.as_ref().is_none_or(|(known, _)| *known != key) {
                let next = self.find(key);
                if let Some((_, Some(endpoint))) = &latest
                    && !next.as_ref().is_some_and(|it| Arc::ptr_eq(it, endpoint))
                {
                    endpoint.handle_datagrams(now, local, &mut row);
                }
                latest = Some((key, next));
            }
            // What no endpoint understands is not answered.
            if matches!(latest, Some((_, Some(_)))) {
                row.push((remote, datagram));
            }
        }
        if let Some((_, Some(endpoint))) = latest {
            endpoint.handle_datagrams(now, local, &mut row);
        }
    }

    /// The endpoint of a key, or else the one for what is not sealed.
    fn find(&self, key: Option<KeyId>) -> Option<Arc<KeyedEndpoint>> {
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        let sealed = key.and_then(|key| all.get(&Some(key)));
        sealed.or_else(|| all.get(&None)).cloned()
    }
}

/// Tells associations that time has passed, for ever.
pub(super) async fn drive_timers(endpoints: Arc<KeyedEndpoints>) {
    loop {
        let now = clock::now();
        for (endpoint, association) in endpoints.timers.due(now) {
            if let Some(endpoint) = endpoints.get(endpoint) {
                endpoint.handle_timeout(now, association);
            }
        }
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

    #[test]
    fn keys_that_no_association_has_needed_for_some_time_open_nothing_more() {
        let endpoints = KeyedEndpoints::default();
        let [one, two, three] = [1, 2, 3].map(|channel| endpoint(&endpoints, channel));
        let now = clock::now();
        assert!(endpoints.insert(now, &one) && endpoints.insert(now, &two));
        one.give_up();
        assert!(!endpoints.insert(clock::now(), &one), "its name is taken");
        assert!(endpoints.get(one.id()).is_some(), "it answers stragglers");
        assert!(endpoints.insert(clock::now() + STRAGGLERS, &three));
        let left = [one, two, three].map(|it| endpoints.get(it.id()).is_some());
        assert_eq!(left, [false, true, true]);
    }
}
