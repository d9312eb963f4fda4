//! The clients that a gateway knows: enrolled peers, and invites that are still out.

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
/// Can be shared by many tasks. Looking is quick and touches no file; changing writes the file
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
    /// The key that it proves whenever it connects.
    pub key: PublicKey,
    /// The administrator's name for it, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Time at which it enrolled.
    pub enrolled_at: UnixTime,
    /// The enrolment key of the invite that it used.
    pub invite: PublicKey,
    /// Of a later version.
    #[serde(flatten)]
    later: LaterFields,
}

/// An invite that was made here.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct PendingInvite {
    /// The public half of [`crate::invite::Invite::enrolment_identity`].
    pub key: PublicKey,
    /// From this second on it is refused.
    pub expires: UnixTime,
    /// The client that has enrolled with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_by: Option<PublicKey>,
    /// Of a later version.
    #[serde(flatten)]
    later: LaterFields,
}

impl PendingInvite {
    /// True if a client can still enrol with it at `now`.
    pub fn is_open(&self, now: UnixTime) -> bool {
        self.used_by.is_none() && now < self.expires
    }
}

/// The outcome of an enrolment that succeeded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Enrolment {
    /// The client is a peer from now on.
    New,
    /// The client was a peer already: most likely it did not hear the first answer.
    Known,
}

/// Why an enrolment is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnrolmentError {
    /// No such invite was made here, or it was forgotten after it expired.
    #[error("no invite with the key {invite} is known here")]
    UnknownInvite {
        /// The enrolment key.
        invite: PublicKey,
    },
    /// Too late.
    #[error("the invite expired {} s ago", now.since(*expired).as_secs())]
    Expired {
        /// Time at which it expired.
        expired: UnixTime,
        /// Time at which it was tried.
        now: UnixTime,
    },
    /// An invite is for one client.
    #[error("the invite was used by another client")]
    UsedByAnother,
    /// The client enrolled with this invite and was revoked since; it needs a new one.
    #[error("the client that used this invite was revoked")]
    Revoked,
    /// The answer could not be written down.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl GatewayStore {
    /// Reads the file in `dir`; a missing one is a gateway that knows no client.
    pub fn open(dir: &StateDir) -> Result<Self, StoreError> {
        Ok(Self {
            file: JsonFile::open(dir, StateFile::Gateway)?,
        })
    }

    /// Makes an invite known: `key` is the public half of its enrolment identity. Invites that
    /// expired [`KEEP_EXPIRED`] before `now` are forgotten. Those that expired years ago
    /// are not, unless room is needed, since the clock may be wrong.
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

    /// Forgets invites that no client has used until at most `most` of those are left, those that
    /// expire first before the others.
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

    /// Forgets an invite that no client has used: none can enrol with it any more, as soon as this
    /// returns.
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

    /// All invites, the oldest first; used and expired ones too.
    pub fn invites(&self) -> Vec<PendingInvite> {
        self.file.read(|state| state.invites.clone())
    }

    /// All peers, in the order of their enrolment.
    pub fn peers(&self) -> Vec<Peer> {
        self.file.read(|state| state.peers.clone())
    }

    /// True if `key` belongs to an enrolled client.
    pub fn is_peer(&self, key: &PublicKey) -> bool {
        self.file.read(|state| state.peer(key).is_some())
    }

    /// True if a client that proves the enrolment key `key` at `now` may get as far as asking to
    /// enrol. [`Self::admit_enrolment`] has the last word.
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
    /// Asking again for the same client does no harm, so that a client may repeat what it had no
    /// answer to.
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

    /// Forgets the peer `key`; the invite that it used stays used. Its running sessions are the
    /// caller's to end.
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

    /// Gives the peer `key` a name to show, 1 to 64 characters, or takes it away.
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

    /// Reads the file again if another process has changed it; says whether it was changed.
    ///
    /// When that fails, what was known before stays in force.
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

/// Time for which an invite is remembered after it expired, to be able to say just that.
pub const KEEP_EXPIRED: Duration = Duration::from_secs(24 * 3600);

/// An invite is valid for as long as its maker wishes.
const FOR_EVER: Duration = Duration::MAX;
const MAX_INVITES: usize = 10_000;
const MAX_PEERS: usize = 50_000;
