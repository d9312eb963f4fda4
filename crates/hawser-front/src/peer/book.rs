//! The book of hosts known by name, as sessions and SIP calls query it.

use std::sync::Arc;
use std::time::Duration;

use hawser_keys::identity::{Identity, PublicKey};
use hawser_keys::store::{NameStore, NamedPeer, OrderStore, StoreError};
use hawser_net::gateway::Admission;
use hawser_sip::agent::{Claim, Keys, Verdict};
use hawser_sip::uri::SipUri;
use hawser_types::HostNameAt;
use tokio::sync::Notify;

/// Checks claimed identities against the book of known hosts.
#[derive(Clone, Debug)]
pub struct Book {
    identity: Identity,
    store: Arc<NameStore>,
    order: Arc<OrderStore>,
    /// Signals that `order` holds numbers newer than those in its file.
    unwritten: Arc<Notify>,
}

impl Book {
    /// Creates the book over `store`, for the host with this key. `order` holds the numbers of the
    /// newest description of each known host.
    pub fn new(identity: Identity, store: Arc<NameStore>, order: OrderStore) -> Self {
        Self {
            identity,
            store,
            order: Arc::new(order),
            unwritten: Arc::default(),
        }
    }

    /// Writes the numbers of the newest descriptions to disk when they change, for ever. Pauses for
    /// a few seconds after each write, since other hosts decide how often the numbers change.
    pub async fn keep_written(self) {
        let mut complaint = String::new();
        loop {
            self.unwritten.notified().await;
            match self.write().await {
                Ok(()) => complaint.clear(),
                Err(error) => {
                    let text = error.to_string();
                    if text != complaint {
                        tracing::warn!(%error,
                            "can't save the description numbers of known hosts");
                        complaint = text;
                    }
                    self.unwritten.notify_one();
                }
            }
            tokio::time::sleep(BETWEEN_WRITES).await;
        }
    }

    /// Writes the numbers of the newest descriptions to disk.
    pub async fn write(&self) -> Result<(), StoreError> {
        let (store, order) = (Arc::clone(&self.store), Arc::clone(&self.order));
        // The write blocks on the disk.
        let writing = tokio::task::spawn_blocking(move || order.write(&store.peers()));
        // The task gives no result only if the whole program ends.
        writing.await.unwrap_or(Ok(()))
    }

    /// Returns the hosts in the book.
    pub(crate) fn store(&self) -> &NameStore {
        &self.store
    }

    /// Loads changes that another process has made to the book.
    pub(crate) fn refresh(&self) {
        self.store.refresh();
    }

    /// Returns the host whose address of record is `address`.
    pub(crate) fn called(&self, address: &str) -> Option<NamedPeer> {
        let is_it = |peer: &NamedPeer| {
            let uri = sip_uri(&peer.name);
            uri.and_then(|uri| uri.address_of_record()).as_deref() == Some(address)
        };
        // Visits all hosts: the time taken must not reveal whether a name is in the book.
        let peers = self.store.peers().into_iter();
        peers.fold(
            None,
            |found, peer| if is_it(&peer) { Some(peer) } else { found },
        )
    }
}

/// Returns a name as a SIP URI.
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
        // Before the lookup: a refusal takes equally long whether the name is known or not.
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
                tracing::warn!(%name, %error,
                    "can't pin the first key that a host has proved, refusing the host");
                return Verdict::Wrong;
            }
            tracing::warn!(%name, %key,
                "trusting the first key that a host has proved: only the directory vouches for it");
        }
        Verdict::Right
    }

    fn newest(&self, name: &str) -> Option<(u64, u64)> {
        self.order.newest(&self.called(name)?)
    }

    fn set_newest(&mut self, name: &str, numbers: (u64, u64)) {
        if let Some(peer) = self.called(name)
            && self.order.set_newest(&peer, numbers)
        {
            self.unwritten.notify_one();
        }
    }
}

/// Admits only hosts in the book.
impl Admission for Book {
    fn admits(&self, key: &PublicKey) -> bool {
        self.refresh();
        self.store.by_key(key).is_some()
    }

    fn is_enrolled(&self, key: &PublicKey) -> bool {
        self.store.by_key(key).is_some()
    }

    fn name(&self, key: &PublicKey) -> Option<String> {
        Some(self.store.by_key(key)?.name.to_string())
    }

    fn enrol(&self, _: PublicKey, _: PublicKey, _: &str) -> Result<(), String> {
        Err("this host is no gateway, and has no invites".to_owned())
    }
}

/// Least time between two writes of the description numbers.
const BETWEEN_WRITES: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use hawser_keys::store::StateDir;

    use super::*;

    struct Scene {
        dir: StateDir,
        _folder: tempfile::TempDir,
        book: Book,
        bob: Identity,
    }

    fn scene() -> Scene {
        let folder = tempfile::tempdir().unwrap();
        let dir = StateDir::resolve(Some(folder.path().to_path_buf())).unwrap();
        let store = Arc::new(NameStore::open(&dir).unwrap());
        let order = OrderStore::open(&dir).unwrap();
        Scene {
            book: Book::new(Identity::from_seed([1; 32]), store, order),
            dir,
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
        // An unsolicited call in Bob's name gives no key, and neither does a wrong signature.
        assert_eq!(scene.judge(address, &mallory, b"here"), Verdict::Stranger);
        let wrong = scene.judge_answer(address, &mallory, b"there", true);
        assert_eq!(wrong, Verdict::Wrong);
        let right = scene.judge_answer(address, &bob, b"here", true);
        assert_eq!(right, Verdict::Right);
        assert_eq!(scene.judge(address, &bob, b"here"), Verdict::Right);
        assert_eq!(scene.judge(address, &mallory, b"here"), Verdict::Wrong);
        assert!(scene.book.admits(&bob.public()));
    }

    #[tokio::test(start_paused = true)]
    async fn what_hosts_say_reaches_the_disk_a_few_times_however_often_they_say_it() {
        let mut scene = scene();
        let name = "bob@example.org".parse().unwrap();
        let address = "sip:bob@example.org";
        let (book, bob) = (scene.book.clone(), scene.bob.public());
        book.store().add(&name, Some(bob)).unwrap();
        let bob = book.store().peer(&name).unwrap();
        let writing = tokio::spawn(book.keep_written());
        let mut on_disk = std::collections::BTreeSet::new();
        for version in 0..100 {
            scene.book.set_newest(address, (7, version));
            assert_eq!(scene.book.newest(address), Some((7, version)));
            tokio::time::sleep(Duration::from_millis(100)).await;
            on_disk.extend(OrderStore::open(&scene.dir).unwrap().newest(&bob));
        }
        tokio::time::sleep(2 * BETWEEN_WRITES).await;
        writing.abort();
        let order = OrderStore::open(&scene.dir).unwrap();
        assert_eq!(order.newest(&bob), Some((7, 99)));
        assert!((1..=3).contains(&on_disk.len()), "{on_disk:?}");
    }

    #[test]
    fn a_host_that_is_removed_and_added_may_begin_with_lower_numbers() {
        let mut scene = scene();
        let name = "bob@example.org".parse().unwrap();
        let address = "sip:bob@example.org";
        for _ in 0..2 {
            let book = scene.book.store();
            book.add(&name, Some(scene.bob.public())).unwrap();
            assert_eq!(scene.book.newest(address), None);
            scene.book.set_newest(address, (u64::MAX, 1));
            scene.book.set_newest(address, (1, 1));
            assert_eq!(scene.book.newest(address), Some((u64::MAX, 1)));
            scene.book.store().remove(&name).unwrap();
            assert_eq!(scene.book.newest(address), None);
        }
    }
}
