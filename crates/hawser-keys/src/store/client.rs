//! The gateways that a client has enrolled with.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::dir::StateDir;
use super::error::{StoreError, Version};
use super::json_file::{JsonFile, Stored};
use super::later_fields::LaterFields;
use super::state_file::StateFile;
use crate::host_port::HostPort;
use crate::identity::PublicKey;
use crate::invite::MAX_ADDRESSES;
use crate::unix_time::UnixTime;

/// The enrolled gateways of a client, in the file `client.json`.
///
/// Can be shared by many tasks; each change writes the file before it returns.
#[derive(Debug)]
pub struct ClientStore {
    file: JsonFile<State>,
}

/// A gateway that this client has enrolled with.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct EnrolledGateway {
    /// The key that the gateway proves.
    pub key: PublicKey,
    /// Addresses of the gateway, the best first; the first 16 are kept.
    pub addresses: Vec<HostPort>,
    /// Time of the latest enrolment with this gateway.
    pub enrolled_at: UnixTime,
    /// Addresses where the gateway was reached, the latest first. Its names may resolve differently
    /// since.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reached: Vec<SocketAddr>,
    /// Whether the gateway serves only connections to itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub peer_only: bool,
    /// Fields of a later version.
    #[serde(flatten)]
    later: LaterFields,
}

impl ClientStore {
    /// Reads the file in `dir`; a missing file means a client that has not enrolled.
    pub fn open(dir: &StateDir) -> Result<Self, StoreError> {
        Ok(Self {
            file: JsonFile::open(dir, StateFile::Client)?,
        })
    }

    /// Returns all gateways, the latest enrolment first.
    pub fn gateways(&self) -> Vec<EnrolledGateway> {
        self.file
            .read(|state| state.gateways.iter().rev().cloned().collect())
    }

    /// Returns the default gateway: the latest enrolled one that is not only a peer.
    pub fn default_gateway(&self) -> Option<EnrolledGateway> {
        self.file.read(|state| {
            let mut latest = state.gateways.iter().rev();
            latest.find(|gateway| !gateway.peer_only).cloned()
        })
    }

    /// Returns the gateway with key `key`.
    pub fn gateway(&self, key: &PublicKey) -> Option<EnrolledGateway> {
        self.file
            .read(|state| state.gateways.iter().find(|g| g.key == *key).cloned())
    }

    /// Stores a gateway that has accepted an enrolment; it becomes the default. A known gateway
    /// gets the new addresses.
    pub fn remember(
        &self,
        key: PublicKey,
        addresses: &[HostPort],
        now: UnixTime,
    ) -> Result<(), StoreError> {
        self.put(key, addresses, now, false)
    }

    /// As [`ClientStore::remember`], for a peer that serves only connections to itself.
    pub fn remember_peer(
        &self,
        key: PublicKey,
        addresses: &[HostPort],
        now: UnixTime,
    ) -> Result<(), StoreError> {
        self.put(key, addresses, now, true)
    }

    fn put(
        &self,
        key: PublicKey,
        addresses: &[HostPort],
        now: UnixTime,
        peer_only: bool,
    ) -> Result<(), StoreError> {
        self.file.update(|state| {
            let mut known = state.gateways.iter();
            let before = known.find(|gateway| gateway.key == key);
            let (reached, later) = before.map_or_else(Default::default, |before| {
                (before.reached.clone(), before.later.clone())
            });
            state.gateways.retain(|gateway| gateway.key != key);
            if state.gateways.len() >= MAX_GATEWAYS {
                return Err(StoreError::Full {
                    what: "gateways",
                    limit: MAX_GATEWAYS,
                });
            }
            let addresses = addresses.iter().take(MAX_ADDRESSES).cloned().collect();
            state.gateways.push(EnrolledGateway {
                key,
                addresses,
                enrolled_at: now,
                reached,
                peer_only,
                later,
            });
            Ok(())
        })
    }

    /// Stores the addresses where the gateway `key` was reached, the latest first; keeps the first
    /// 16. Does nothing for an unknown gateway.
    pub fn note_reached(&self, key: &PublicKey, reached: &[SocketAddr]) -> Result<(), StoreError> {
        self.file.update(|state| {
            let mut gateways = state.gateways.iter_mut();
            if let Some(gateway) = gateways.find(|gateway| gateway.key == *key) {
                gateway.reached = reached.iter().take(MAX_ADDRESSES).copied().collect();
            }
            Ok(())
        })
    }

    /// Removes the gateway `key`; returns whether it was known.
    pub fn forget(&self, key: &PublicKey) -> Result<bool, StoreError> {
        self.file.update(|state| {
            let before = state.gateways.len();
            state.gateways.retain(|gateway| gateway.key != *key);
            Ok(state.gateways.len() < before)
        })
    }

    /// Reads the file again if another process has changed it; returns whether it was changed.
    pub fn reload_if_changed(&self) -> Result<bool, StoreError> {
        self.file.reload_if_changed()
    }
}

/// The gateways in the order of enrolment, since the clock may have been set back in between.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
struct State {
    version: Version,
    gateways: Vec<EnrolledGateway>,
    #[serde(flatten)]
    later: LaterFields,
}

impl Stored for State {
    fn later_fields(&self) -> impl Iterator<Item = &LaterFields> {
        let gateways = self.gateways.iter().map(|gateway| &gateway.later);
        std::iter::once(&self.later).chain(gateways)
    }
}

const MAX_GATEWAYS: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u8) -> PublicKey {
        PublicKey::from_bytes([n; 32])
    }

    #[test]
    fn where_a_gateway_was_reached_is_kept_when_it_is_enrolled_with_again() {
        let parent = tempfile::tempdir().unwrap();
        let dir = StateDir::resolve(Some(parent.path().to_path_buf())).unwrap();
        let store = ClientStore::open(&dir).unwrap();
        let reached = ["192.0.2.1:7443", "[2001:db8::1]:7443"].map(|it| it.parse().unwrap());
        store.note_reached(&key(1), &reached).unwrap();
        assert_eq!(store.gateway(&key(1)), None);
        store.remember(key(1), &[], UnixTime::from_secs(1)).unwrap();
        store.note_reached(&key(1), &reached).unwrap();
        store.remember(key(1), &[], UnixTime::from_secs(2)).unwrap();
        let again = ClientStore::open(&dir).unwrap();
        assert_eq!(again.gateway(&key(1)).unwrap().reached, reached);
    }

    #[test]
    fn the_gateway_enrolled_with_last_is_the_default() {
        let parent = tempfile::tempdir().unwrap();
        let dir = StateDir::resolve(Some(parent.path().to_path_buf())).unwrap();
        let store = ClientStore::open(&dir).unwrap();
        assert_eq!(store.default_gateway(), None);
        let address: HostPort = "gw:7443".parse().unwrap();
        for (n, now) in [(1, 10), (2, 20), (1, 15)] {
            let now = UnixTime::from_secs(now);
            store
                .remember(key(n), std::slice::from_ref(&address), now)
                .unwrap();
        }
        let again = ClientStore::open(&dir).unwrap();
        assert_eq!(
            again.gateways().iter().map(|g| g.key).collect::<Vec<_>>(),
            [key(1), key(2)]
        );
        let default = again.default_gateway().unwrap();
        assert_eq!((default.key, default.enrolled_at.as_secs()), (key(1), 15));
        assert_eq!(default.addresses, [address]);
        again
            .remember_peer(key(3), &[], UnixTime::from_secs(30))
            .unwrap();
        let default = ClientStore::open(&dir).unwrap().default_gateway();
        assert_eq!(default.map(|gateway| gateway.key), Some(key(1)));
        assert!(again.gateway(&key(3)).unwrap().peer_only);
        assert!(again.forget(&key(1)).unwrap() && !again.forget(&key(1)).unwrap());
        assert!(store.reload_if_changed().unwrap());
        assert_eq!(store.default_gateway(), store.gateway(&key(2)));
    }
}
