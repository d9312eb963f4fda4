//! The book of hosts that are known by name, as sessions and calls ask it.

use std::sync::Arc;

use hawser_net::gateway::Admission;
use hawser_net::identity::{Identity, PublicKey};
use hawser_net::store::{NameStore, NamedPeer};
use hawser_sip::agent::{Claim, Keys, Verdict};
use hawser_sip::uri::SipUri;
use hawser_types::HostNameAt;

/// Judges by the book who somebody is.
#[derive(Clone, Debug)]
pub struct Book {
    identity: Identity,
    store: Arc<NameStore>,
}

impl Book {
    /// The book in `store`, for the host with this key.
    pub fn new(identity: Identity, store: Arc<NameStore>) -> Self {
        Self { identity, store }
    }

    /// The hosts in it.
    pub(crate) fn store(&self) -> &NameStore {
        &self.store
    }

    /// Takes in what another process has changed.
    pub(crate) fn refresh(&self) {
        if let Err(error) = self.store.reload_if_changed() {
            tracing::warn!(%error, "the names that are known can't be read again");
        }
    }

    /// The host that calls itself so, by an address of record.
    pub(crate) fn called(&self, address: &str) -> Option<NamedPeer> {
        let is_it = |peer: &NamedPeer| {
            let uri = sip_uri(&peer.name);
            uri.and_then(|uri| uri.address_of_record()).as_deref() == Some(address)
        };
        // To the end in any case: nobody is to see by the time whether a name is there.
        let peers = self.store.peers().into_iter();
        peers.fold(None, |found, peer| match is_it(&peer) {
            true => Some(peer),
            false => found,
        })
    }
}

/// A name as SIP has it.
pub(crate) fn sip_uri(name: &HostNameAt) -> Option<SipUri> {
    SipUri::new(Some(name.user()), name.domain().clone(), None).ok()
}

impl Keys for Book {
    fn own(&self) -> Vec<u8> {
        self.identity.public().as_bytes().to_vec()
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        self.identity.sign(message).to_vec()
    }

    fn judge(&mut self, claim: &Claim<'_>) -> Verdict {
        self.refresh();
        // Before the name is looked for: a refusal takes as long whether it is known or not.
        let key = <[u8; PublicKey::LENGTH]>::try_from(claim.key).map(PublicKey::from_bytes);
        let is_signed = |key: &PublicKey| key.verify(claim.message, claim.signature).is_ok();
        let key = key.ok().filter(is_signed);
        let Some(peer) = self.called(claim.name) else {
            return Verdict::Stranger;
        };
        if peer.key.is_none() && !claim.is_asked {
            return Verdict::Stranger;
        }
        let is_its = |key: &PublicKey| peer.key.is_none_or(|known| known == *key);
        let Some(key) = key.filter(is_its) else {
            return Verdict::Wrong;
        };
        if peer.key.is_none() {
            let name = peer.name;
            if let Err(error) = self.store.trust(&name, key) {
                tracing::warn!(%name, %error, "its key can't be taken on trust");
                return Verdict::Wrong;
            }
            tracing::warn!(%name, %key,
                "its key is taken on trust: that it is this one, only the directory has said");
        }
        Verdict::Right
    }

    fn latest(&self, name: &str) -> Option<(u64, u64)> {
        self.store.latest(&self.called(name)?.name)
    }

    fn keep_latest(&mut self, name: &str, latest: (u64, u64)) {
        let Some(peer) = self.called(name) else {
            return;
        };
        if let Err(error) = self.store.set_latest(&peer.name, latest) {
            let name = peer.name;
            tracing::warn!(%name, %error, "what it has said last is not kept over a restart");
        }
    }
}

/// Lets in those that are in the book, and nobody else.
impl Admission for Book {
    fn admits(&self, key: &PublicKey) -> bool {
        self.refresh();
        self.store.by_key(key).is_some()
    }

    fn is_enrolled(&self, key: &PublicKey) -> bool {
        self.store.by_key(key).is_some()
    }

    fn enrol(&self, _: PublicKey, _: PublicKey, _: &str) -> Result<(), String> {
        Err("this host is no gateway, and has no invites".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use hawser_net::store::StateDir;

    use super::*;

    struct Scene {
        _folder: tempfile::TempDir,
        book: Book,
        bob: Identity,
    }

    fn scene() -> Scene {
        let folder = tempfile::tempdir().unwrap();
        let dir = StateDir::resolve(Some(folder.path().to_path_buf())).unwrap();
        let store = Arc::new(NameStore::open(&dir).unwrap());
        Scene {
            book: Book::new(Identity::from_seed([1; 32]), store),
            bob: Identity::from_seed([2; 32]),
            _folder: folder,
        }
    }

    impl Scene {
        fn judge(&mut self, name: &str, signer: &Identity, signed: &[u8]) -> Verdict {
            self.judge_answer(name, signer, signed, false)
        }

        fn judge_answer(
            &mut self,
            name: &str,
            signer: &Identity,
            signed: &[u8],
            is_asked: bool,
        ) -> Verdict {
            self.book.judge(&Claim {
                name,
                key: signer.public().as_bytes(),
                message: b"here",
                signature: &signer.sign(signed),
                is_asked,
            })
        }
    }

    #[test]
    fn a_claim_is_right_by_the_key_that_is_known_alone() {
        let mut scene = scene();
        let (bob, mallory) = (scene.bob.clone(), Identity::from_seed([3; 32]));
        let address = "sip:bob@example.org";
        assert_eq!(scene.judge(address, &bob, b"here"), Verdict::Stranger);
        assert!(!scene.book.admits(&bob.public()));
        let name = "bob@example.org.".parse().unwrap();
        scene.book.store().add(&name, Some(bob.public())).unwrap();
        assert_eq!(scene.judge(address, &bob, b"here"), Verdict::Right);
        assert_eq!(scene.judge(address, &bob, b"there"), Verdict::Wrong);
        assert_eq!(scene.judge(address, &mallory, b"here"), Verdict::Wrong);
        assert_eq!(
            scene.judge("sip:b@example.org", &bob, b"here"),
            Verdict::Stranger
        );
        assert!(scene.book.admits(&bob.public()) && !scene.book.admits(&mallory.public()));
    }

    #[test]
    fn the_first_key_is_taken_where_that_was_asked_for_and_no_other_later() {
        let mut scene = scene();
        let (bob, mallory) = (scene.bob.clone(), Identity::from_seed([3; 32]));
        let name = "bob@example.org".parse().unwrap();
        scene.book.store().add(&name, None).unwrap();
        let address = "sip:bob@example.org";
        // Anybody may call in his name, and a signature that is wrong gives no key.
        assert_eq!(scene.judge(address, &mallory, b"here"), Verdict::Stranger);
        let wrong = scene.judge_answer(address, &mallory, b"there", true);
        assert_eq!(wrong, Verdict::Wrong);
        let right = scene.judge_answer(address, &bob, b"here", true);
        assert_eq!(right, Verdict::Right);
        assert_eq!(scene.judge(address, &bob, b"here"), Verdict::Right);
        assert_eq!(scene.judge(address, &mallory, b"here"), Verdict::Wrong);
        assert!(scene.book.admits(&bob.public()));
    }
}
