//! Vouchers of servers' owners, kept over restarts.

use std::collections::BTreeMap;

use hawser_types::HostName;
use serde::{Deserialize, Serialize};

use super::dir::StateDir;
use super::error::{StoreError, Version};
use super::json_file::{JsonFile, Stored};
use super::later_fields::LaterFields;
use super::state_file::StateFile;
use super::tense::Tense;
use crate::unix_time::UnixTime;
use crate::voucher::{MAX_SPAN, VouchedKeys, Voucher};

/// The newest voucher of each name, until it expires, in the file `vouchers.json`.
///
/// Can be shared by many tasks. Reading is quick and touches no file; a change blocks for the time
/// of a few disk accesses.
#[derive(Debug)]
pub struct VoucherStore {
    file: JsonFile<State>,
}

/// A voucher that was fetched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct KeptVoucher {
    /// Ports and keys of the name's Hawser; `None` if the name has no Hawser.
    pub bonded: Option<VouchedKeys>,
    /// Time at which the voucher was fetched.
    pub since: UnixTime,
    /// Time at which the voucher expires.
    pub until: UnixTime,
    /// Fields of a later version.
    #[serde(flatten)]
    later: LaterFields,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
struct State {
    version: Version,
    vouchers: BTreeMap<String, KeptVoucher>,
    #[serde(flatten)]
    later: LaterFields,
}

impl Stored for State {
    fn later_fields(&self) -> impl Iterator<Item = &LaterFields> {
        let vouchers = self.vouchers.values().map(|kept| &kept.later);
        std::iter::once(&self.later).chain(vouchers)
    }
}

impl VoucherStore {
    /// Reads the file in `dir`; a missing file means that no voucher is known.
    ///
    /// # Errors
    /// The file is invalid, or cannot be read.
    pub fn open(dir: &StateDir) -> Result<Self, StoreError> {
        let file = JsonFile::open(dir, StateFile::Vouchers)?;
        Ok(Self { file })
    }

    /// Returns the voucher of a name, if one is stored that has not expired at `now`.
    pub fn voucher(&self, name: &HostName, now: UnixTime) -> Option<KeptVoucher> {
        self.file.read(|state| {
            let kept = state.vouchers.get(key(name))?;
            (kept.tense(now) == Tense::Counts).then(|| kept.clone())
        })
    }

    /// Stores a voucher that was fetched at `now`, in place of the previous one, until it expires.
    /// Removes expired vouchers. If there are too many, one is evicted: first vouchers for which
    /// the clock is in doubt, then the one that expires first.
    ///
    /// # Errors
    /// The file cannot be changed.
    pub fn keep(
        &self,
        name: &HostName,
        voucher: &Voucher,
        now: UnixTime,
    ) -> Result<KeptVoucher, StoreError> {
        let kept = KeptVoucher {
            bonded: voucher.bonded.clone(),
            since: now,
            until: now + voucher.span.min(MAX_SPAN),
            later: LaterFields::default(),
        };
        self.file.update(|state| {
            state.vouchers.retain(|_, it| it.tense(now) != Tense::Ended);
            state.vouchers.remove(key(name));
            if state.vouchers.len() >= MAX_VOUCHERS {
                let first = state.vouchers.iter();
                let first = first.min_by_key(|(_, it)| (it.tense(now) == Tense::Counts, it.until));
                let first = first.map(|(name, _)| name.clone());
                first.and_then(|name| state.vouchers.remove(&name));
            }
            state.vouchers.insert(key(name).to_owned(), kept.clone());
            Ok(kept)
        })
    }
}

impl KeptVoucher {
    fn tense(&self, now: UnixTime) -> Tense {
        Tense::of(self.until, MAX_SPAN, now)
    }
}

/// Returns the key of a name: a final dot makes no difference.
fn key(name: &HostName) -> &str {
    name.as_str().trim_end_matches('.')
}

const MAX_VOUCHERS: usize = 256;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::identity::PublicKey;

    const NOW: UnixTime = UnixTime::from_secs(2_000_000_000);

    fn store(folder: &tempfile::TempDir) -> VoucherStore {
        let dir = StateDir::resolve(Some(folder.path().to_path_buf())).unwrap();
        VoucherStore::open(&dir).unwrap()
    }

    fn name(text: &str) -> HostName {
        text.parse().unwrap()
    }

    fn day(n: u64) -> UnixTime {
        NOW + Duration::from_secs(n * 86_400)
    }

    fn voucher(n: u8, days: u64) -> Voucher {
        let keys = [PublicKey::from_bytes([n; 32])].into();
        let ports = [443].into();
        Voucher {
            bonded: Some(VouchedKeys { keys, ports }),
            span: Duration::from_secs(days * 86_400),
        }
    }

    #[test]
    fn a_voucher_is_kept_over_restarts_until_it_ends_and_the_newest_counts() {
        let folder = tempfile::tempdir().unwrap();
        let kept = store(&folder);
        kept.keep(&name("example.org"), &voucher(1, 7), NOW)
            .unwrap();
        let there = |now| store(&folder).voucher(&name("example.org."), now);
        assert_eq!(there(day(6)).unwrap().bonded, voucher(1, 7).bonded);
        assert_eq!(there(day(7)), None);
        kept.keep(&name("Example.org."), &voucher(2, 2), day(1))
            .unwrap();
        assert_eq!(there(day(2)).unwrap().bonded, voucher(2, 2).bonded);
        assert_eq!(there(day(3)), None);
        assert_eq!(kept.voucher(&name("www.example.org"), day(1)), None);
    }

    #[test]
    fn none_lasts_longer_than_thirty_days_whatever_a_clock_or_a_file_says() {
        let folder = tempfile::tempdir().unwrap();
        let kept = store(&folder);
        let name = name("example.org");
        let until = kept.keep(&name, &voucher(1, 99), NOW).unwrap().until;
        assert_eq!(until, day(30));
        let before = UnixTime::from_secs(NOW.as_secs() - 90_000);
        assert_eq!(kept.voucher(&name, before), None, "the clock was set back");
    }

    #[test]
    fn a_clock_that_is_wrong_at_one_write_forgets_no_voucher() {
        for wrong in [0, NOW.as_secs() - 90 * 86_400, 4_070_908_800] {
            let wrong = UnixTime::from_secs(wrong);
            let folder = tempfile::tempdir().unwrap();
            let kept = store(&folder);
            kept.keep(&name("example.org"), &voucher(1, 7), NOW)
                .unwrap();
            kept.keep(&name("example.com"), &voucher(2, 7), wrong)
                .unwrap();
            let there = |of| store(&folder).voucher(&name(of), day(1));
            let bonded = there("example.org").unwrap().bonded;
            assert_eq!(bonded, voucher(1, 7).bonded, "{wrong}");
            assert_eq!(there("example.com"), None, "{wrong}");
        }
        // While the clock is not set, vouchers still bind their names.
        let folder = tempfile::tempdir().unwrap();
        let kept = store(&folder);
        kept.keep(&name("example.org"), &voucher(1, 7), NOW)
            .unwrap();
        let unset = UnixTime::from_secs(0);
        assert!(kept.voucher(&name("example.org"), unset).is_some());
    }

    #[test]
    fn vouchers_without_end_take_no_more_room() {
        let folder = tempfile::tempdir().unwrap();
        let kept = store(&folder);
        for n in 0..=MAX_VOUCHERS as u64 {
            let days = 2 + u64::from(n != 1);
            let name = name(&format!("n{n}.example"));
            kept.keep(&name, &voucher(1, days), NOW).unwrap();
        }
        assert_eq!(kept.file.read(|it| it.vouchers.len()), MAX_VOUCHERS);
        assert_eq!(kept.voucher(&name("n1.example"), NOW), None);
    }
}
