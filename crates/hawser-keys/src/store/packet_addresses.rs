//! The inner addresses that a gateway has permanently assigned to its clients.

use serde::{Deserialize, Serialize};

use super::dir::StateDir;
use super::error::{StoreError, Version};
use super::json_file::{JsonFile, Stored};
use super::later_fields::LaterFields;
use super::state_file::StateFile;
use crate::identity::PublicKey;

/// The clients' numbers in the pool of addresses, in the file `packet-addresses.json`.
#[derive(Debug)]
pub struct PacketAddresses {
    file: JsonFile<State>,
}

/// A client's own part of the pool: an address, and a block of addresses for hosts behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnAddresses {
    /// Number of the client's address.
    pub number: u32,
    /// Number of the client's block, if it has one.
    pub block: Option<u32>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, Default)]
struct State {
    version: Version,
    given: Vec<Given>,
    #[serde(flatten)]
    later: LaterFields,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Given {
    key: PublicKey,
    number: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    block: Option<u32>,
    /// Fields of a later version.
    #[serde(flatten)]
    later: LaterFields,
}

impl Stored for State {
    fn later_fields(&self) -> impl Iterator<Item = &LaterFields> {
        let given = self.given.iter().map(|given| &given.later);
        std::iter::once(&self.later).chain(given)
    }
}

impl PacketAddresses {
    /// Reads the file in `dir`; a missing file has no assignments.
    ///
    /// # Errors
    /// The file is invalid, or cannot be read.
    pub fn open(dir: &StateDir) -> Result<Self, StoreError> {
        Ok(Self {
            file: JsonFile::open(dir, StateFile::PacketAddresses)?,
        })
    }

    /// Returns all assignments, the oldest first.
    pub fn given(&self) -> Vec<(PublicKey, OwnAddresses)> {
        let own = |given: &Given| OwnAddresses {
            number: given.number,
            block: given.block,
        };
        self.file.read(|state| {
            let given = state.given.iter();
            given.map(|given| (given.key, own(given))).collect()
        })
    }

    /// Assigns `own` to `key`, and to no other client. If `own` has no block, `key` keeps the block
    /// that it has. Removes addresses of clients for which `is_known` is false, unless they have a
    /// block: an assigned block stays reserved.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn give(
        &self,
        key: PublicKey,
        own: OwnAddresses,
        is_known: impl Fn(&PublicKey) -> bool,
    ) -> Result<(), StoreError> {
        let OwnAddresses { number, block } = own;
        self.file.update(|state| {
            let before = state.given.iter().find(|given| given.key == key);
            let block = block.or(before.and_then(|given| given.block));
            let later = before.map_or_else(Default::default, |given| given.later.clone());
            let rests = |given: &Given| given.block.is_some() || is_known(&given.key);
            let is_kept =
                |given: &Given| given.key != key && given.number != number && rests(given);
            state.given.retain(is_kept);
            for other in &mut state.given {
                other.block.take_if(|other| Some(*other) == block);
            }
            state.given.push(Given {
                key,
                number,
                block,
                later,
            });
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
        let own = |number, block| OwnAddresses { number, block };
        addresses.give(first, own(2, Some(7)), |_| true).unwrap();
        addresses.give(second, own(3, None), |_| true).unwrap();
        let later = PacketAddresses::open(&dir).unwrap();
        assert_eq!(
            later.given(),
            [(first, own(2, Some(7))), (second, own(3, None))]
        );
        // A block has one client.
        later.give(second, own(3, Some(7)), |_| true).unwrap();
        assert_eq!(
            later.given(),
            [(first, own(2, None)), (second, own(3, Some(7)))]
        );
        later.give(second, own(3, None), |_| true).unwrap();
        assert_eq!(later.given()[1], (second, own(3, Some(7))));
        later
            .give(third, own(2, None), |key| *key != second)
            .unwrap();
        // The block of a removed client stays reserved.
        assert_eq!(
            later.given(),
            [(second, own(3, Some(7))), (third, own(2, None))]
        );
        later
            .give(third, own(2, Some(7)), |key| *key != second)
            .unwrap();
        later
            .give(third, own(2, None), |key| *key != second)
            .unwrap();
        assert_eq!(later.given(), [(third, own(2, Some(7)))]);
    }

    #[test]
    fn what_earlier_versions_have_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let dir = StateDir::resolve(Some(folder.path().to_owned())).unwrap();
        let key = Identity::generate().unwrap().public();
        let text = format!(r#"{{"version":1,"given":[{{"key":"{key}","number":9}}]}}"#);
        std::fs::write(dir.file("packet-addresses.json"), text).unwrap();
        let own = OwnAddresses {
            number: 9,
            block: None,
        };
        assert_eq!(PacketAddresses::open(&dir).unwrap().given(), [(key, own)]);
    }
}
