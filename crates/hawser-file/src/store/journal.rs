//! The journal beside an unfinished file: the ranges that are safely on disk.

use std::io::{self, Read, Write};

use hawser_types::RangeSet;
use rustix::fs::OFlags;

use super::directory::Directory;
use crate::byte_range::ByteRange;
use crate::wire::Identity;

/// The journal file of one unfinished file.
///
/// A journal is never changed in place. The next one is written completely beside it and then
/// renamed over it, so that a crash at any moment leaves the old one or the new one.
#[derive(Clone, Debug)]
pub(crate) struct JournalFile {
    pub(super) directory: Directory,
    pub(super) name: String,
    pub(super) draft: String,
}

impl JournalFile {
    /// Returns the ranges in the journal of this very file; empty if there is no such journal.
    ///
    /// A torn, foreign or unreadable journal counts as empty: those bytes are simply sent again.
    pub(super) fn load(&self, identity: Identity, size: u64) -> RangeSet {
        match self.read_limited() {
            Ok(bytes) => decode(&bytes, identity, size).unwrap_or_default(),
            Err(_) => RangeSet::new(),
        }
    }

    /// Writes the journal, durably. The bytes that it records must be on disk before.
    pub(super) fn save(&self, identity: Identity, ranges: &RangeSet) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
        let mut draft = self.directory.open_at(&self.draft, flags)?;
        draft.write_all(&encode(identity, ranges))?;
        draft.sync_data()?;
        self.directory.rename(&self.draft, &self.name)
    }

    /// Removes the journal and the draft that a crash may have left; returns whether one existed.
    pub(super) fn remove(&self) -> io::Result<bool> {
        let draft = self.directory.remove(&self.draft)?;
        Ok(self.directory.remove(&self.name)? || draft)
    }

    /// Reads the file, at most to the maximum size of a journal.
    fn read_limited(&self) -> io::Result<Vec<u8>> {
        let file = self.directory.open_plainly(&self.name, false)?;
        let mut bytes = Vec::new();
        file.take(MAX_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

/// Encodes a journal: magic, version, identity of the file, ranges, and a hash of all of these.
pub(crate) fn encode(identity: Identity, ranges: &RangeSet) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(FIXED_BYTES + RANGE_BYTES * ranges.range_count());
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&VERSION.to_be_bytes());
    bytes.extend_from_slice(&identity.0);
    bytes.extend_from_slice(&(ranges.range_count() as u64).to_be_bytes());
    for range in ranges.iter() {
        bytes.extend_from_slice(&range.start.to_be_bytes());
        bytes.extend_from_slice(&range.end.to_be_bytes());
    }
    let hash = blake3::hash(&bytes);
    bytes.extend_from_slice(hash.as_bytes());
    bytes
}

/// Decodes a journal; `None` if it is torn, of another file, or has impossible ranges.
pub(crate) fn decode(bytes: &[u8], identity: Identity, size: u64) -> Option<RangeSet> {
    let (body, hash) = bytes.split_last_chunk::<HASH_BYTES>()?;
    if blake3::hash(body) != *hash {
        return None;
    }
    let body = body.strip_prefix(&MAGIC)?;
    let body = body.strip_prefix(&VERSION.to_be_bytes())?;
    let body = body.strip_prefix(&identity.0)?;
    let (count, body) = body.split_first_chunk::<8>()?;
    let (pairs, rest) = body.as_chunks::<RANGE_BYTES>();
    if !rest.is_empty() || u64::from_be_bytes(*count) != pairs.len() as u64 {
        return None;
    }
    pairs
        .iter()
        .map(|pair| {
            let (start, end) = pair.split_at(8);
            let start = u64::from_be_bytes(start.try_into().ok()?);
            let end = u64::from_be_bytes(end.try_into().ok()?);
            let range = ByteRange::new(start, end).filter(|range| range.end() <= size)?;
            Some(range.into())
        })
        .collect()
}

const MAGIC: [u8; 4] = *b"HWSJ";
const VERSION: u32 = 1;
const HASH_BYTES: usize = 32;
const RANGE_BYTES: usize = 16;
const FIXED_BYTES: usize = 4 + 4 + 32 + 8 + HASH_BYTES;
/// More than any journal has; a longer file is truncated and then fails its hash.
const MAX_BYTES: u64 = 4 << 20;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;

    const IDENTITY: Identity = Identity([5; 32]);

    fn ranges(list: &[(u64, u64)]) -> RangeSet {
        list.iter().map(|&(start, end)| start..end).collect()
    }

    fn journal_in(directory: &Path) -> JournalFile {
        JournalFile {
            directory: Directory::open(directory, 0).expect("it is there"),
            name: "journal".to_owned(),
            draft: "draft".to_owned(),
        }
    }

    #[test]
    fn a_journal_cut_anywhere_or_with_any_byte_changed_claims_nothing() {
        let bytes = encode(IDENTITY, &ranges(&[(0, 10), (20, 30)]));
        for cut in 0..bytes.len() {
            assert_eq!(decode(&bytes[..cut], IDENTITY, 30), None);
        }
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x40;
            assert_eq!(decode(&changed, IDENTITY, 30), None);
        }
        assert!(decode(&bytes, IDENTITY, 30).is_some());
    }

    #[test]
    fn a_journal_of_another_file_or_beyond_the_end_claims_nothing() {
        let bytes = encode(IDENTITY, &ranges(&[(0, 10), (20, 30)]));
        assert_eq!(decode(&bytes, Identity([6; 32]), 30), None);
        assert_eq!(decode(&bytes, IDENTITY, 29), None);
    }

    #[test]
    fn a_draft_left_by_a_crash_does_not_count() {
        let directory = tempfile::tempdir().expect("the test can make a directory");
        let journal = journal_in(directory.path());
        assert!(journal.load(IDENTITY, 100).is_empty());
        let first = ranges(&[(0, 10)]);
        journal.save(IDENTITY, &first).expect("writable");
        let draft = directory.path().join("draft");
        fs::write(draft, encode(IDENTITY, &ranges(&[(0, 99)]))).expect("writable");
        assert_eq!(journal.load(IDENTITY, 100), first);
        assert!(journal.remove().expect("removable"));
        assert!(!journal.remove().expect("removing nothing is no error"));
        let mut left = fs::read_dir(directory.path()).expect("readable");
        assert!(left.next().is_none());
    }

    #[test]
    fn a_symbolic_link_is_not_followed() {
        let directory = tempfile::tempdir().expect("the test can make a directory");
        let journal = journal_in(directory.path());
        let elsewhere = directory.path().join("precious");
        fs::write(&elsewhere, "precious").expect("writable");
        let draft = directory.path().join("draft");
        std::os::unix::fs::symlink(&elsewhere, draft).expect("linkable");
        assert!(journal.save(IDENTITY, &RangeSet::new()).is_err());
        assert_eq!(fs::read(&elsewhere).expect("readable"), b"precious");
    }

    proptest! {
        #[test]
        fn survives_the_round_trip(list in prop::collection::vec((0..9000u64, 1..99u64), 0..40)) {
            let set = ranges(&list.iter().map(|&(s, l)| (s, s + l)).collect::<Vec<_>>());
            prop_assert_eq!(decode(&encode(IDENTITY, &set), IDENTITY, 9999), Some(set));
        }

        #[test]
        fn arbitrary_bytes_never_panic(
            mut bytes in prop::collection::vec(any::<u8>(), 0..200),
            size in any::<u64>(),
        ) {
            let _ = decode(&bytes, IDENTITY, size);
            let hash = blake3::hash(&bytes);
            bytes.extend_from_slice(hash.as_bytes());
            let _ = decode(&bytes, IDENTITY, size);
        }
    }
}
