//! Version numbers of hosts' descriptions, kept over restarts.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::dir::StateDir;
use super::error::{StoreError, Version};
use super::json_file::{JsonFile, Stored};
use super::later_fields::LaterFields;
use super::names::NamedPeer;
use super::state_file::StateFile;
use crate::identity::PublicKey;

/// The numbers of the newest description of each known host, in the file `order.json`.
///
/// Memory holds the newest numbers; [`write`](Self::write) updates the file. Only one process at a
/// time changes them: the daemon that holds the lock of the state directory.
#[derive(Debug)]
pub struct OrderStore {
    file: JsonFile<State>,
    /// Each value is only ever replaced whole, so the map is valid after a panic of another thread.
    newest: Mutex<BTreeMap<PublicKey, Newest>>,
}

impl OrderStore {
    /// Reads the file in `dir`; a missing file means that no numbers are known.
    pub fn open(dir: &StateDir) -> Result<Self, StoreError> {
        let file: JsonFile<State> = JsonFile::open(dir, StateFile::Order)?;
        let newest = Mutex::new(file.read(|state| state.newest.clone()));
        Ok(Self { file, newest })
    }

    /// Begins a session of descriptions of this host at this time, and returns the session's
    /// number, which is higher than all previous ones, even if the clock has gone back. Writes the
    /// file; if that fails, logs the error, and the number of the next start is higher only if the
    /// clock does not go back.
    pub fn begin_session(&self, unix_ms: u64) -> u64 {
        let next = |state: &State| unix_ms.max(state.own_session.saturating_add(1));
        let number = self.file.read(next);
        let written = self.file.update(|state| {
            state.own_session = next(state);
            Ok::<_, StoreError>(state.own_session)
        });
        written.unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot save the session number for known hosts");
            number
        })
    }

    /// Returns session and version of the newest description of a host; `None` if the host was
    /// removed from the book and added again since.
    pub fn newest(&self, peer: &NamedPeer) -> Option<(u64, u64)> {
        let newest = self.newest.lock();
        let it = newest.get(&peer.key?)?;
        (it.added == peer.added).then_some((it.session, it.version))
    }

    /// Stores the numbers of a description in memory if they are newer; returns whether they are.
    /// Does nothing for a host without a key.
    pub fn set_newest(&self, peer: &NamedPeer, (session, version): (u64, u64)) -> bool {
        let Some(key) = peer.key else {
            return false;
        };
        if self.newest(peer) >= Some((session, version)) {
            return false;
        }
        let it = Newest {
            added: peer.added,
            session,
            version,
            later: LaterFields::default(),
        };
        self.newest.lock().insert(key, it);
        true
    }

    /// Writes the numbers of `peers`, the hosts in the book, and removes all others.
    pub fn write(&self, peers: &[NamedPeer]) -> Result<(), StoreError> {
        let newest = {
            let mut newest = self.newest.lock();
            let is_of = |peer: &NamedPeer, key, it: &Newest| {
                peer.key == Some(key) && peer.added == it.added
            };
            newest.retain(|key, it| peers.iter().any(|peer| is_of(peer, *key, it)));
            newest.clone()
        };
        self.file.update(|state| {
            state.newest = newest;
            Ok(())
        })
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
struct State {
    version: Version,
    /// The latest session of this host.
    own_session: u64,
    newest: BTreeMap<PublicKey, Newest>,
    #[serde(flatten)]
    later: LaterFields,
}

impl Stored for State {
    fn later_fields(&self) -> impl Iterator<Item = &LaterFields> {
        let newest = self.newest.values().map(|newest| &newest.later);
        std::iter::once(&self.later).chain(newest)
    }
}

/// The numbers of a description.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Newest {
    /// Number of the entry in the book that the description belongs to.
    added: u64,
    session: u64,
    version: u64,
    /// Fields of a later version.
    #[serde(flatten)]
    later: LaterFields,
}

#[cfg(test)]
mod tests {
    use hawser_types::HostNameAt;

    use super::super::NameStore;
    use super::*;
    use crate::files::faults::at_every_step;

    fn key(n: u8) -> PublicKey {
        PublicKey::from_bytes([n; 32])
    }

    struct Scene {
        _parent: tempfile::TempDir,
        dir: StateDir,
        names: NameStore,
        bob: HostNameAt,
    }

    impl Scene {
        fn new() -> Self {
            let parent = tempfile::tempdir().unwrap();
            let dir = StateDir::resolve(Some(parent.path().to_path_buf())).unwrap();
            let names = NameStore::open(&dir).unwrap();
            Self {
                _parent: parent,
                dir,
                names,
                bob: "bob@example.org".parse().unwrap(),
            }
        }

        fn add(&self, name: &HostNameAt, key: PublicKey) -> NamedPeer {
            self.names.add(name, Some(key)).unwrap();
            self.names.peer(name).unwrap()
        }

        fn order(&self) -> OrderStore {
            OrderStore::open(&self.dir).unwrap()
        }
    }

    #[test]
    fn what_a_host_has_said_last_outlives_a_restart_and_never_goes_back() {
        let scene = Scene::new();
        let bob = scene.add(&scene.bob, key(1));
        let carol = scene.add(&"carol@example.org".parse().unwrap(), key(2));
        let order = scene.order();
        for peer in [&bob, &carol] {
            assert!(order.set_newest(peer, (1000, 7)));
        }
        assert!(!order.set_newest(&bob, (1000, 6)));
        assert!(order.set_newest(&carol, (1001, 1)));
        assert_eq!(scene.order().newest(&bob), None);
        order.write(&scene.names.peers()).unwrap();
        let again = scene.order();
        assert_eq!(again.newest(&bob), Some((1000, 7)));
        assert_eq!(again.newest(&carol), Some((1001, 1)));
    }

    #[test]
    fn a_removed_and_added_host_begins_anew_with_the_same_key_or_another() {
        let scene = Scene::new();
        let order = scene.order();
        for number in [1, 1, 2] {
            let bob = scene.add(&scene.bob, key(number));
            // Holds even if the numbers are only in the daemon's memory.
            assert_eq!(order.newest(&bob), None);
            assert!(order.set_newest(&bob, (u64::MAX, 1)));
            order.write(&scene.names.peers()).unwrap();
            assert_eq!(scene.order().newest(&bob), Some((u64::MAX, 1)));
            scene.names.remove(&scene.bob).unwrap();
        }
        let bob = scene.add(&scene.bob, key(1));
        assert_eq!(scene.order().newest(&bob), None);
        assert!(scene.order().set_newest(&bob, (5, 1)));
        // Removed hosts leave no numbers behind.
        order.write(&scene.names.peers()).unwrap();
        assert!(order.newest.lock().is_empty());
    }

    #[test]
    fn sessions_of_this_host_have_ever_higher_numbers_whatever_the_clock_says() {
        let scene = Scene::new();
        assert_eq!(scene.order().begin_session(5000), 5000);
        assert_eq!(scene.order().begin_session(0), 5001);
        assert_eq!(scene.order().begin_session(6000), 6000);
    }

    #[test]
    fn a_session_begins_whichever_step_of_writing_fails() {
        at_every_step(
            || {
                let scene = Scene::new();
                assert_eq!(scene.order().begin_session(5000), 5000);
                scene
            },
            |scene| scene.order().begin_session(0),
            |scene, step, number| {
                assert_eq!(number, 5001, "{step:?}");
                assert!(scene.order().begin_session(6000) == 6000);
            },
        );
    }

    #[test]
    fn a_damaged_file_is_set_aside_and_the_next_one_takes_the_place_of_the_first() {
        let scene = Scene::new();
        let bob = scene.add(&scene.bob, key(1));
        let path = scene.dir.file("order.json");
        let later = r#"{"version":2,"any":"shape"}"#;
        for content in ["{", "", "[7]", later] {
            std::fs::write(&path, content).unwrap();
            let order = scene.order();
            let aside = scene.dir.file("order.json.damaged");
            assert_eq!(std::fs::read_to_string(aside).unwrap(), content);
            assert_eq!(order.begin_session(5), 5);
            assert!(order.set_newest(&bob, (1, 1)));
            order.write(&scene.names.peers()).unwrap();
            assert_eq!(scene.order().newest(&bob), Some((1, 1)));
            // Holds for a running program, too.
            std::fs::write(&path, content).unwrap();
            order.write(&scene.names.peers()).unwrap();
            assert_eq!(scene.order().newest(&bob), Some((1, 1)));
        }
        let left = std::fs::read_dir(scene.dir.path()).unwrap();
        let name = |it: std::io::Result<std::fs::DirEntry>| it.unwrap().file_name();
        let aside = left
            .map(name)
            .filter(|it| it.to_string_lossy().contains("damaged"));
        assert_eq!(aside.count(), 1);
        assert_eq!(NameStore::open(&scene.dir).unwrap().peers().len(), 1);
    }
}
