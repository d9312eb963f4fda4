//! The clients that a gateway knows: enrolled peers, and invites that are still open.

#[cfg(test)]
mod tests;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::dir::StateDir;
use super::error::{MAX_NAME, StoreError, Version};
use super::json_file::{JsonFile, Stored};
use super::later_fields::LaterFields;
use super::state_file::StateFile;
use super::tense::Tense;
use crate::host_port::excerpt;
use crate::identity::PublicKey;
use crate::unix_time::UnixTime;

/// The peers and invites of a gateway, in the file `gateway.json`.
///
/// Can be shared by many tasks. Reading is quick and touches no file; a change writes the file
/// before it returns, so it blocks for the time of a few disk accesses.
#[derive(Debug)]
pub struct GatewayStore {
    file: JsonFile<State>,
}

/// A client that has enrolled.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct Peer {
    /// The key that the client proves whenever it connects.
    pub key: PublicKey,
    /// The administrator's name for the client, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Time of the enrolment.
    pub enrolled_at: UnixTime,
    /// Enrolment key of the invite that the client used.
    pub invite: PublicKey,
    /// Fields of a later version.
    #[serde(flatten)]
    later: LaterFields,
}

/// An invite that this gateway issued.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct PendingInvite {
    /// The public half of [`crate::invite::Invite::enrolment_identity`].
    pub key: PublicKey,
    /// Time from which the gateway refuses the invite.
    pub expires: UnixTime,
    /// The client that has enrolled with the invite.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_by: Option<PublicKey>,
    /// Fields of a later version.
    #[serde(flatten)]
    later: LaterFields,
}

impl PendingInvite {
    /// Returns whether a client can still enrol with the invite at `now`.
    pub fn is_open(&self, now: UnixTime) -> bool {
        self.used_by.is_none() && now < self.expires
    }
}

/// The outcome of a successful enrolment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Enrolment {
    /// The client is now a peer.
    New,
    /// The client was a peer already: most likely it did not receive the first answer.
    Known,
}

/// Why an enrolment is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnrolmentError {
    /// This gateway did not issue the invite, or forgot it after it expired.
    #[error("no invite with the key {invite} is known here")]
    UnknownInvite {
        /// The enrolment key.
        invite: PublicKey,
    },
    /// The invite has expired.
    #[error("the invite expired {} s ago", now.since(*expired).as_secs())]
    Expired {
        /// Expiry time of the invite.
        expired: UnixTime,
        /// Time of the attempt.
        now: UnixTime,
    },
    /// An invite is for one client.
    #[error("the invite was used by another client")]
    UsedByAnother,
    /// The client enrolled with this invite and was revoked since; it needs a new invite.
    #[error("the client that used this invite was revoked")]
    Revoked,
    /// The enrolment could not be stored.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl GatewayStore {
    /// Reads the file in `dir`; a missing file means a gateway that knows no client.
    pub fn open(dir: &StateDir) -> Result<Self, StoreError> {
        Ok(Self {
            file: JsonFile::open(dir, StateFile::Gateway)?,
        })
    }

    /// Stores an invite: `key` is the public half of its enrolment identity. Removes invites that
    /// expired [`KEEP_EXPIRED`] before `now`. Invites that expired years ago are kept unless room
    /// is needed, since the clock may be wrong.
    pub fn add_invite(
        &self,
        key: PublicKey,
        expires: UnixTime,
        now: UnixTime,
    ) -> Result<(), StoreError> {
        self.file.update(|state| {
            let tense = |it: &PendingInvite| Tense::of(it.expires + KEEP_EXPIRED, FOR_EVER, now);
            state.invites.retain(|it| tense(it) != Tense::Ended);
            if state.invites.len() >= MAX_INVITES {
                state.invites.retain(|it| tense(it) == Tense::Counts);
            }
            if state.invite(&key).is_some() {
                return Err(StoreError::InviteExists { key });
            }
            if state.invites.len() >= MAX_INVITES {
                return Err(StoreError::Full {
                    what: "invites",
                    limit: MAX_INVITES,
                });
            }
            state.invites.push(PendingInvite {
                key,
                expires,
                used_by: None,
                later: LaterFields::default(),
            });
            Ok(())
        })
    }

    /// Removes unused invites until at most `most` are left, in the order of their expiry.
    pub fn limit_unused_invites(&self, most: usize) -> Result<(), StoreError> {
        self.file.update(|state| {
            let unused = state.invites.iter().filter(|i| i.used_by.is_none());
            let mut unused: Vec<_> = unused.map(|i| (i.expires, i.key)).collect();
            unused.sort_unstable();
            unused.truncate(unused.len().saturating_sub(most));
            let is_one = |key: &PublicKey| unused.iter().any(|(_, other)| other == key);
            state.invites.retain(|invite| !is_one(&invite.key));
            Ok(())
        })
    }

    /// Removes an unused invite: no client can enrol with it once this returns.
    pub fn revoke_invite(&self, key: PublicKey) -> Result<PendingInvite, StoreError> {
        self.file.update(|state| {
            let invite = state.invite(&key).cloned();
            let invite = invite.ok_or(StoreError::UnknownInvite { key })?;
            if let Some(client) = invite.used_by {
                return Err(StoreError::InviteUsed { key, client });
            }
            state.invites.retain(|invite| invite.key != key);
            Ok(invite)
        })
    }

    /// Returns all invites, the oldest first, including used and expired ones.
    pub fn invites(&self) -> Vec<PendingInvite> {
        self.file.read(|state| state.invites.clone())
    }

    /// Returns all peers, in the order of their enrolment.
    pub fn peers(&self) -> Vec<Peer> {
        self.file.read(|state| state.peers.clone())
    }

    /// Returns whether `key` belongs to an enrolled client.
    pub fn is_peer(&self, key: &PublicKey) -> bool {
        self.file.read(|state| state.peer(key).is_some())
    }

    /// Returns the name of an enrolled client, if it has one.
    pub fn name(&self, key: &PublicKey) -> Option<String> {
        self.file.read(|state| state.peer(key)?.name.clone())
    }

    /// Returns whether a client that proves the enrolment key `key` at `now` may ask to enrol.
    /// [`Self::admit_enrolment`] makes the final decision.
    pub fn accepts_enrolment(&self, key: &PublicKey, now: UnixTime) -> bool {
        self.file.read(|state| {
            state.invite(key).is_some_and(|invite| {
                let still_good = invite
                    .used_by
                    .is_none_or(|client| state.peer(&client).is_some());
                now < invite.expires && still_good
            })
        })
    }

    /// Enrols the client with key `client` by the invite with key `invite`.
    ///
    /// Repeating the call for the same client does no harm, so that a client may repeat a request
    /// whose answer was lost.
    pub fn admit_enrolment(
        &self,
        invite: PublicKey,
        client: PublicKey,
        now: UnixTime,
    ) -> Result<Enrolment, EnrolmentError> {
        self.file.update(|state| {
            let is_peer = state.peer(&client).is_some();
            let pending = state
                .invites
                .iter_mut()
                .find(|pending| pending.key == invite)
                .ok_or(EnrolmentError::UnknownInvite { invite })?;
            match pending.used_by {
                Some(used_by) if used_by != client => return Err(EnrolmentError::UsedByAnother),
                Some(_) if is_peer => return Ok(Enrolment::Known),
                Some(_) => return Err(EnrolmentError::Revoked),
                None if now >= pending.expires => {
                    return Err(EnrolmentError::Expired {
                        expired: pending.expires,
                        now,
                    });
                }
                None => pending.used_by = Some(client),
            }
            if is_peer {
                return Ok(Enrolment::Known);
            }
            if state.peers.len() >= MAX_PEERS {
                return Err(StoreError::Full {
                    what: "peers",
                    limit: MAX_PEERS,
                }
                .into());
            }
            state.peers.push(Peer {
                key: client,
                name: None,
                enrolled_at: now,
                invite,
                later: LaterFields::default(),
            });
            Ok(Enrolment::New)
        })
    }

    /// Removes the peer `key`; the invite that it used stays used. The caller must end its running
    /// sessions.
    pub fn revoke(&self, key: PublicKey) -> Result<Peer, StoreError> {
        self.file.update(|state| {
            let peer = state
                .peer(&key)
                .cloned()
                .ok_or(StoreError::UnknownPeer { key })?;
            state.peers.retain(|peer| peer.key != key);
            Ok(peer)
        })
    }

    /// Sets the display name of the peer `key`, 1 to 64 characters, or removes it.
    pub fn rename(&self, key: PublicKey, name: Option<&str>) -> Result<(), StoreError> {
        if let Some(name) = name
            && (!(1..=MAX_NAME).contains(&name.chars().count()) || name.contains(char::is_control))
        {
            return Err(StoreError::Name { got: excerpt(name) });
        }
        self.file.update(|state| {
            let peer = state.peers.iter_mut().find(|peer| peer.key == key);
            peer.ok_or(StoreError::UnknownPeer { key })?.name = name.map(str::to_owned);
            Ok(())
        })
    }

    /// Reads the file again if another process has changed it; returns whether it was changed.
    ///
    /// On failure the previous content stays in force.
    pub fn reload_if_changed(&self) -> Result<bool, StoreError> {
        self.file.reload_if_changed()
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
struct State {
    version: Version,
    peers: Vec<Peer>,
    invites: Vec<PendingInvite>,
    #[serde(flatten)]
    later: LaterFields,
}

impl State {
    fn peer(&self, key: &PublicKey) -> Option<&Peer> {
        self.peers.iter().find(|peer| peer.key == *key)
    }

    fn invite(&self, key: &PublicKey) -> Option<&PendingInvite> {
        self.invites.iter().find(|invite| invite.key == *key)
    }
}

impl Stored for State {
    fn later_fields(&self) -> impl Iterator<Item = &LaterFields> {
        let peers = self.peers.iter().map(|peer| &peer.later);
        let invites = self.invites.iter().map(|invite| &invite.later);
        std::iter::once(&self.later).chain(peers).chain(invites)
    }
}

/// Time for which an expired invite is remembered, so that a client can be told that it expired.
pub const KEEP_EXPIRED: Duration = Duration::from_secs(24 * 3600);

/// Longest validity of an invite: its issuer may choose any.
const FOR_EVER: Duration = Duration::MAX;
const MAX_INVITES: usize = 10_000;
const MAX_PEERS: usize = 50_000;
