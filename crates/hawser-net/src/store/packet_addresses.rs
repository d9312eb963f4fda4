//! The inner addresses that a gateway has given to its clients for good.

use serde::{Deserialize, Serialize};

use super::dir::StateDir;
use super::error::{StoreError, VERSION};
use super::json_file::JsonFile;
use crate::identity::PublicKey;

/// The clients' numbers in the pool of addresses, in the file `packet-addresses.json`.
#[derive(Debug)]
pub struct PacketAddresses {
    file: JsonFile<State>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    version: u64,
    given: Vec<Given>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    key: PublicKey,
    number: u32,
}

impl Default for State {
    fn default() -> Self {
        Self {
            version: VERSION,
            given: Vec::new(),
        }
    }
}

impl PacketAddresses {
    /// Reads the file in `dir`; a missing one has given nothing.
    ///
    /// # Errors
    /// That the file makes no sense, or cannot be read.
    pub fn open(dir: &StateDir) -> Result<Self, StoreError> {
        Ok(Self {
            file: JsonFile::open(dir.file("packet-addresses.json"))?,
        })
    }

    /// What was given, the oldest first.
    pub fn given(&self) -> Vec<(PublicKey, u32)> {
        self.file.read(|state| {
            let given = state.given.iter();
            given.map(|given| (given.key, given.number)).collect()
        })
    }

    /// Writes down that `number` is that of `key` from now on. Numbers of clients of which
    /// `is_known` is false are forgotten.
    ///
    /// # Errors
    /// That the file can't be written.
    pub fn give(
        &self,
        key: PublicKey,
        number: u32,
        is_known: impl Fn(&PublicKey) -> bool,
    ) -> Result<(), StoreError> {
        self.file.update(|state| {
            let is_kept =
                |given: &Given| given.key != key && given.number != number && is_known(&given.key);
            state.given.retain(is_kept);
            state.given.push(Given { key, number });
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Identity;

    #[test]
    fn what_was_given_is_known_later_for_clients_that_are_known() {
        let folder = tempfile::tempdir().unwrap();
        let dir = StateDir::resolve(Some(folder.path().to_owned())).unwrap();
        let [first, second, third] = [0; 3].map(|_| Identity::generate().unwrap().public());
        let addresses = PacketAddresses::open(&dir).unwrap();
        assert_eq!(addresses.given(), []);
        addresses.give(first, 2, |_| true).unwrap();
        addresses.give(second, 3, |_| true).unwrap();
        let later = PacketAddresses::open(&dir).unwrap();
        assert_eq!(later.given(), [(first, 2), (second, 3)]);
        later.give(third, 2, |key| *key != second).unwrap();
        assert_eq!(later.given(), [(third, 2)]);
    }
}
