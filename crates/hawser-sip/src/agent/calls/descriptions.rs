//! The description of this host, and verification of other hosts' descriptions.

use bytes::Bytes;

use super::trust::{Claim, Doubt, Keys, Verdict};
use crate::fields::CallId;
use crate::sdp::{Candidate, Carrier, Description, Signed};
use crate::session::Own;
use crate::uri::SipUri;

/// This host's description, and the keys that sign and verify descriptions.
pub(super) struct Descriptions {
    keys: Box<dyn Keys>,
    /// Address of record of this host.
    address: String,
    own: Description,
}

impl Descriptions {
    pub(super) fn new(address: &str, keys: Box<dyn Keys>, session: u64) -> Self {
        Self {
            own: Description {
                session,
                version: 1,
                key: keys.own(),
                candidates: Vec::new(),
            },
            keys,
            address: address.to_owned(),
        }
    }

    /// Sets the addresses. Returns whether they changed.
    pub(super) fn set_candidates(&mut self, candidates: Vec<Candidate>) -> bool {
        if self.own.candidates == candidates {
            return false;
        }
        self.own.candidates = candidates;
        self.renew();
        true
    }

    /// Raises the version, so that the description cannot pass for a copy of an earlier one.
    pub(super) fn renew(&mut self) {
        self.own.version += 1;
    }

    /// Whether the key of this host is lower than another one: the lower key's call stays.
    pub(super) fn is_lower_than(&self, key: &[u8]) -> bool {
        self.own.key[..] < *key
    }

    /// Returns this host's signed description for a session with a host.
    ///
    /// The contact is the host's name, not an address: both ends may have moved when the next
    /// request is sent, and the directory knows their addresses.
    pub(super) fn own(&self, name: &SipUri, call_id: &CallId, peer: &str) -> Own {
        let carrier = Carrier {
            call_id: call_id.as_str(),
            from: &self.address,
            to: peer,
        };
        let signature = self.keys.sign(&self.own.to_sign(&carrier));
        Own {
            contact: name.clone().into(),
            description: self.own.signed(&signature),
        }
    }

    /// Verifies a peer's description. `is_asked`: the peer answers a call of this host.
    pub(super) fn check(
        &mut self,
        call_id: &CallId,
        peer: &str,
        bytes: &Bytes,
        is_asked: bool,
    ) -> Result<Description, Doubt> {
        let (description, order) = self.believe(call_id, peer, bytes, is_asked)?;
        let newest = self.keys.newest(peer);
        if newest.is_some_and(|(session, _)| session > order.0) {
            return Err(Doubt::EarlierStart);
        }
        if newest > Some(order) {
            return Err(Doubt::Old);
        }
        self.keys.set_newest(peer, order);
        Ok(description)
    }

    /// Verifies the description of a new call. Each call has a newer description, so a repeated one
    /// is a copy.
    pub(super) fn check_first(
        &mut self,
        call_id: &CallId,
        peer: &str,
        bytes: &Bytes,
    ) -> Result<Description, Doubt> {
        let newest = self.keys.newest(peer);
        let description = self.check(call_id, peer, bytes, false)?;
        if newest == Some((description.session, description.version)) {
            Err(Doubt::Old)
        } else {
            Ok(description)
        }
    }

    fn believe(
        &mut self,
        call_id: &CallId,
        peer: &str,
        bytes: &Bytes,
        is_asked: bool,
    ) -> Result<(Description, (u64, u64)), Doubt> {
        let signed = Signed::parse(bytes)?;
        let carrier = Carrier {
            call_id: call_id.as_str(),
            from: peer,
            to: &self.address,
        };
        let verdict = self.keys.judge(&Claim {
            name: peer,
            key: &signed.description.key,
            message: &signed.to_verify(&carrier),
            signature: &signed.signature,
            is_asked,
        });
        match verdict {
            Verdict::Right => {
                let description = signed.description;
                let order = (description.session, description.version);
                Ok((description, order))
            }
            Verdict::Stranger => Err(Doubt::Stranger),
            Verdict::Wrong => Err(Doubt::Wrong),
        }
    }
}
