//! The hosts that this host knows by name, and the key of each name.

use hawser_types::{HostName, HostNameAt};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::dir::StateDir;
use super::error::{StoreError, Version};
use super::json_file::{JsonFile, Stored};
use super::later_fields::LaterFields;
use super::state_file::StateFile;
use crate::identity::PublicKey;

/// The names that this host knows, in the file `names.json`.
///
/// Can be shared by many tasks; each change writes the file before it returns. No two names have
/// the same key or the same host name.
#[derive(Debug)]
pub struct NameStore {
    file: JsonFile<State>,
    /// The problem with the file that was last logged.
    told: Mutex<Option<String>>,
}

/// A host that is known by name.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct NamedPeer {
    /// Name of the host in a directory.
    pub name: HostNameAt,
    /// The key that the host proves; `None` until its first session, whose key is trusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<PublicKey>,
    /// Whether the key was trusted on first use: only the directory said that it is the host's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub trusted_first: bool,
    /// Number of the entry. A host that is removed and added again gets another number, so data
    /// stored for the old entry is invalid.
    #[serde(default)]
    pub added: u64,
    /// Fields of a later version.
    #[serde(flatten)]
    later: LaterFields,
}

/// Why a name is not added, or does not get a key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// The file can't be read or changed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The name has no host name, so programs could not resolve it.
    #[error(
        "{name} has no host name, such as bob.example.org for bob@example.org: one label of \
         letters, digits, - and _ is needed before the @, and a name behind it"
    )]
    NoHostName {
        /// The name.
        name: HostNameAt,
    },
    /// The name is known, with another key.
    #[error("{name} is known with another key; `hawser peers remove {name}` forgets the known key")]
    OtherKey {
        /// The name.
        name: HostNameAt,
    },
    /// Another name has this key or host name.
    #[error("{name} is known already, with the same {what}")]
    Taken {
        /// The other name.
        name: HostNameAt,
        /// The part that both have.
        what: &'static str,
    },
    /// The name is not known.
    #[error("{name} is not known; `hawser peers list` shows the known names")]
    Unknown {
        /// The name.
        name: HostNameAt,
    },
}

impl NameStore {
    /// Reads the file in `dir`; a missing file means that no names are known.
    pub fn open(dir: &StateDir) -> Result<Self, StoreError> {
        Ok(Self {
            file: JsonFile::open(dir, StateFile::Names)?,
            told: Mutex::default(),
        })
    }

    /// Returns all hosts, in the order in which they were added.
    pub fn peers(&self) -> Vec<NamedPeer> {
        self.file.read(|state| state.names.clone())
    }

    /// Returns the host with this name.
    pub fn peer(&self, name: &HostNameAt) -> Option<NamedPeer> {
        self.find(|peer| peer.name == *name)
    }

    /// Returns the host whose host name is `host`.
    pub fn by_host(&self, host: &HostName) -> Option<NamedPeer> {
        let relative = host.as_str().trim_end_matches('.');
        self.find(|peer| {
            let own = peer.name.host_name();
            own.is_some_and(|own| own.as_str() == relative)
        })
    }

    /// Returns the host with this key.
    pub fn by_key(&self, key: &PublicKey) -> Option<NamedPeer> {
        self.find(|peer| peer.key == Some(*key))
    }

    /// Adds a host by its name and key. Without a key, the key of its first session is trusted.
    pub fn add(&self, name: &HostNameAt, key: Option<PublicKey>) -> Result<(), NameError> {
        let Some(host) = name.host_name() else {
            return Err(NameError::NoHostName { name: name.clone() });
        };
        self.file.update(|state| {
            let is_same = |peer: &&NamedPeer| peer.name.host_name().as_ref() == Some(&host);
            if let Some(known) = state.names.iter().find(is_same) {
                return match known {
                    known if known.name != *name => Err(taken(known, "host name")),
                    // A known key is better than trust on first use.
                    _ if key.is_none() => Ok(()),
                    known if known.key.is_none() || known.key == key => {
                        state.set_key(name, key, false)
                    }
                    _ => Err(NameError::OtherKey { name: name.clone() }),
                };
            }
            if state.names.len() >= MAX_NAMES {
                let full = StoreError::Full {
                    what: "names",
                    limit: MAX_NAMES,
                };
                return Err(full.into());
            }
            state.added = state.added.saturating_add(1);
            state.names.push(NamedPeer {
                name: name.clone(),
                key: None,
                trusted_first: false,
                added: state.added,
                later: LaterFields::default(),
            });
            state.set_key(name, key, false)
        })
    }

    /// Trusts the key of a host's first session.
    pub fn trust(&self, name: &HostNameAt, key: PublicKey) -> Result<(), NameError> {
        self.file.update(
            |state| match state.names.iter().find(|peer| peer.name == *name) {
                None => Err(NameError::Unknown { name: name.clone() }),
                Some(known) if known.key == Some(key) => Ok(()),
                Some(known) if known.key.is_some() => {
                    Err(NameError::OtherKey { name: name.clone() })
                }
                Some(_) => state.set_key(name, Some(key), true),
            },
        )
    }

    /// Removes a host.
    pub fn remove(&self, name: &HostNameAt) -> Result<NamedPeer, NameError> {
        self.file.update(|state| {
            let place = state.names.iter().position(|peer| peer.name == *name);
            match place {
                Some(place) => Ok(state.names.remove(place)),
                None => Err(NameError::Unknown { name: name.clone() }),
            }
        })
    }

    /// Loads changes of other processes. If the file can't be read, the previous content stays in
    /// force, and the problem is logged once.
    pub fn refresh(&self) {
        let problem = self.file.reload_if_changed().err();
        let problem = problem.map(|error| error.to_string());
        let mut told = self.told.lock();
        if *told == problem {
            return;
        }
        if let Some(error) = &problem {
            tracing::warn!(%error, "cannot reload the known names");
        }
        *told = problem;
    }

    fn find(&self, is_it: impl Fn(&NamedPeer) -> bool) -> Option<NamedPeer> {
        self.file
            .read(|state| state.names.iter().find(|peer| is_it(peer)).cloned())
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
struct State {
    version: Version,
    /// Number of entries that were ever added.
    #[serde(default)]
    added: u64,
    names: Vec<NamedPeer>,
    #[serde(flatten)]
    later: LaterFields,
}

impl State {
    fn set_key(
        &mut self,
        name: &HostNameAt,
        key: Option<PublicKey>,
        is_trusted: bool,
    ) -> Result<(), NameError> {
        let mut others = self.names.iter().filter(|peer| peer.name != *name);
        if key.is_some()
            && let Some(other) = others.find(|peer| peer.key == key)
        {
            return Err(taken(other, "key"));
        }
        if let Some(peer) = self.names.iter_mut().find(|peer| peer.name == *name) {
            peer.key = key;
            peer.trusted_first = is_trusted;
        }
        Ok(())
    }
}

impl Stored for State {
    fn later_fields(&self) -> impl Iterator<Item = &LaterFields> {
        let names = self.names.iter().map(|peer| &peer.later);
        std::iter::once(&self.later).chain(names)
    }
}

fn taken(known: &NamedPeer, what: &'static str) -> NameError {
    let name = known.name.clone();
    NameError::Taken { name, what }
}

const MAX_NAMES: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u8) -> PublicKey {
        PublicKey::from_bytes([n; 32])
    }

    fn name(text: &str) -> HostNameAt {
        text.parse().unwrap()
    }

    fn store() -> (tempfile::TempDir, StateDir, NameStore) {
        let parent = tempfile::tempdir().unwrap();
        let dir = StateDir::resolve(Some(parent.path().to_path_buf())).unwrap();
        let store = NameStore::open(&dir).unwrap();
        (parent, dir, store)
    }

    #[test]
    fn a_name_is_found_by_its_host_name_and_its_key_and_outlives_a_restart() {
        let (_parent, dir, store) = store();
        let bob = name("Bob@example.org");
        store.add(&bob, Some(key(1))).unwrap();
        store.add(&bob, Some(key(1))).unwrap();
        let again = NameStore::open(&dir).unwrap();
        let found = again.by_host(&"bob.example.org.".parse().unwrap()).unwrap();
        assert_eq!((&found.name, found.key), (&bob, Some(key(1))));
        assert_eq!(again.by_key(&key(1)), Some(found.clone()));
        assert_eq!(again.by_host(&"b.example.org".parse().unwrap()), None);
        assert_eq!(again.remove(&bob).unwrap(), found);
        store.refresh();
        assert_eq!(store.peers(), []);
        assert!(matches!(store.remove(&bob), Err(NameError::Unknown { .. })));
    }

    #[test]
    fn neither_a_name_nor_a_key_is_given_twice() {
        let (_parent, _, store) = store();
        store.add(&name("bob@example.org"), Some(key(1))).unwrap();
        let other = store.add(&name("bob@example.org"), Some(key(2)));
        assert!(matches!(other, Err(NameError::OtherKey { .. })));
        let same_key = store.add(&name("carol@example.org"), Some(key(1)));
        assert!(matches!(
            same_key,
            Err(NameError::Taken { what: "key", .. })
        ));
        let same_host = store.add(&name("BOB@example.org"), Some(key(3)));
        let what = "host name";
        assert!(matches!(same_host, Err(NameError::Taken { what: it, .. }) if it == what));
        let no_host = store.add(&name("b.c@example.org"), Some(key(4)));
        assert!(matches!(no_host, Err(NameError::NoHostName { .. })));
        assert_eq!(store.peers().len(), 1);
    }

    #[test]
    fn a_key_on_trust_is_taken_once_and_gives_way_to_nothing_but_the_user() {
        let (_parent, _, store) = store();
        let bob = name("bob@example.org");
        store.add(&bob, None).unwrap();
        store.trust(&bob, key(1)).unwrap();
        store.trust(&bob, key(1)).unwrap();
        assert!(store.peer(&bob).unwrap().trusted_first);
        assert!(matches!(
            store.trust(&bob, key(2)),
            Err(NameError::OtherKey { .. })
        ));
        // Adding the name without a key again keeps the key.
        store.add(&bob, None).unwrap();
        assert_eq!(store.peer(&bob).unwrap().key, Some(key(1)));
        store.add(&bob, Some(key(1))).unwrap();
        assert!(!store.peer(&bob).unwrap().trusted_first);
        let carol = store.trust(&name("carol@example.org"), key(3));
        assert!(matches!(carol, Err(NameError::Unknown { .. })));
    }
}
