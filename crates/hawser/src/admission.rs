//! Admission of peers by a listener.

use std::collections::{BTreeMap, BTreeSet};

use hawser_keys::identity::PublicKey;
use hawser_keys::store::{GatewayStore, StoreError};
use hawser_keys::unix_time::UnixTime;
use hawser_net::gateway::Admission;
use parking_lot::Mutex;

use crate::error::ListenError;

/// The admitted peers: those of the state directory, if there is one, and those of this process.
#[derive(Debug, Default)]
pub(crate) struct Door {
    store: Option<GatewayStore>,
    memory: Mutex<Memory>,
}

#[derive(Debug, Default)]
struct Memory {
    peers: BTreeSet<PublicKey>,
    invites: BTreeMap<PublicKey, Pending>,
}

#[derive(Debug)]
struct Pending {
    expires: UnixTime,
    used_by: Option<PublicKey>,
}

impl Door {
    pub(crate) fn new(store: Option<GatewayStore>) -> Self {
        Self {
            store,
            memory: Mutex::default(),
        }
    }

    /// Adds an invite. `key`: the public half of its enrolment identity.
    pub(crate) fn add_invite(&self, key: PublicKey, expires: UnixTime) -> Result<(), ListenError> {
        let now = UnixTime::now();
        if let Some(store) = &self.store {
            return Ok(store.add_invite(key, expires, now)?);
        }
        let mut memory = self.memory.lock();
        memory.invites.retain(|_, invite| now < invite.expires);
        if memory.invites.len() >= MAX_INVITES {
            return Err(ListenError::TooManyInvites { limit: MAX_INVITES });
        }
        let used_by = None;
        memory.invites.insert(key, Pending { expires, used_by });
        Ok(())
    }

    /// Admits `key` for as long as this process runs.
    pub(crate) fn allow(&self, key: PublicKey) {
        self.memory.lock().peers.insert(key);
    }

    /// Stops admitting `key`; returns true if it was admitted before.
    pub(crate) fn revoke(&self, key: PublicKey) -> Result<bool, StoreError> {
        let here = self.memory.lock().peers.remove(&key);
        match self.store.as_ref().map(|store| store.revoke(key)) {
            None | Some(Err(StoreError::UnknownPeer { .. })) => Ok(here),
            Some(revoked) => revoked.map(|_| true),
        }
    }
}

impl Memory {
    fn accepts_enrolment(&self, key: &PublicKey, now: UnixTime) -> bool {
        self.invites.get(key).is_some_and(|invite| {
            let user = invite.used_by.as_ref();
            now < invite.expires && user.is_none_or(|user| self.peers.contains(user))
        })
    }

    fn enrol(&mut self, invite: PublicKey, client: PublicKey) -> Result<(), String> {
        let now = UnixTime::now();
        let is_peer = self.peers.contains(&client);
        let full = self.peers.len() >= MAX_PEERS;
        let pending = self
            .invites
            .get_mut(&invite)
            .ok_or("no such invite is known here")?;
        match pending.used_by {
            Some(user) if user != client => return Err("the invite was used by another".into()),
            // The answer was lost, so the client asks again.
            Some(_) if is_peer => return Ok(()),
            Some(_) => return Err("the client that used this invite was revoked".into()),
            None if now >= pending.expires => return Err("the invite has expired".into()),
            None if full => return Err(format!("{MAX_PEERS} peers are known already")),
            None => pending.used_by = Some(client),
        }
        self.peers.insert(client);
        Ok(())
    }
}

impl Admission for Door {
    fn admits(&self, key: &PublicKey) -> bool {
        let now = UnixTime::now();
        {
            let memory = self.memory.lock();
            if memory.peers.contains(key) || memory.accepts_enrolment(key, now) {
                return true;
            }
        }
        let reloaded = self.store.as_ref().map(GatewayStore::reload_if_changed);
        if let Some(Err(error)) = reloaded {
            tracing::warn!(%error, "cannot reload the list of peers");
        }
        self.store
            .as_ref()
            .is_some_and(|store| store.is_peer(key) || store.accepts_enrolment(key, now))
    }

    fn is_enrolled(&self, key: &PublicKey) -> bool {
        self.memory.lock().peers.contains(key)
            || self.store.as_ref().is_some_and(|store| store.is_peer(key))
    }

    fn name(&self, key: &PublicKey) -> Option<String> {
        self.store.as_ref()?.name(key)
    }

    fn enrol(&self, invite: PublicKey, client: PublicKey, name: &str) -> Result<(), String> {
        let Some(store) = &self.store else {
            return self.memory.lock().enrol(invite, client);
        };
        store
            .admit_enrolment(invite, client, UnixTime::now())
            .map_err(|error| error.to_string())?;
        if !name.is_empty()
            && let Err(error) = store.rename(client, Some(name))
        {
            tracing::debug!(%error, "cannot store the client's name");
        }
        Ok(())
    }
}

const MAX_INVITES: usize = 10_000;
const MAX_PEERS: usize = 50_000;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hawser_keys::store::StateDir;

    use super::*;

    fn key(n: u8) -> PublicKey {
        PublicKey::from_bytes([n; 32])
    }

    fn an_invite_is_for_one_client(door: &Door) {
        let (invite, client, other) = (key(1), key(2), key(3));
        let expires = UnixTime::now() + Duration::from_secs(1000);
        assert!(!door.admits(&invite));
        door.add_invite(invite, expires).unwrap();
        assert!(door.admits(&invite) && !door.is_enrolled(&invite) && !door.admits(&client));
        door.enrol(invite, client, "c").unwrap();
        assert!(door.is_enrolled(&client) && door.admits(&client));
        // The answer may get lost: the client may ask again without harm.
        assert!(door.admits(&invite));
        door.enrol(invite, client, "c").unwrap();
        assert!(door.enrol(invite, other, "o").is_err() && !door.admits(&other));
        assert!(door.revoke(client).unwrap() && !door.revoke(client).unwrap());
        assert!(!door.admits(&client) && !door.admits(&invite));
        assert!(door.enrol(invite, client, "c").is_err());
    }

    #[test]
    fn an_invite_in_memory_is_for_one_client() {
        an_invite_is_for_one_client(&Door::default());
    }

    #[test]
    fn an_invite_of_the_state_directory_is_for_one_client() {
        let folder = tempfile::tempdir().unwrap();
        let dir = StateDir::resolve(Some(folder.path().to_path_buf())).unwrap();
        an_invite_is_for_one_client(&Door::new(Some(GatewayStore::open(&dir).unwrap())));
    }

    #[test]
    fn an_expired_invite_admits_no_peer() {
        let door = Door::default();
        door.add_invite(key(1), UnixTime::from_secs(1)).unwrap();
        assert!(!door.admits(&key(1)));
        assert!(door.enrol(key(1), key(2), "").is_err());
    }

    #[test]
    fn a_key_that_is_allowed_needs_no_invite() {
        let door = Door::default();
        door.allow(key(1));
        assert!(door.admits(&key(1)) && door.is_enrolled(&key(1)));
        assert!(door.revoke(key(1)).unwrap() && !door.admits(&key(1)));
    }
}
