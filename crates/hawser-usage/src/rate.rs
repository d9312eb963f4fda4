//! Rates of links, kept for later runs.

use std::collections::BTreeMap;
use std::time::Duration;

use hawser_path::{KnownLink, KnownRate, LinkKey};
use hawser_types::Rate;
use rusqlite::{Row, Transaction, params};

use crate::{MOST, UsageDatabase, UsageError};

impl UsageDatabase {
    /// Returns the known rates of all links at `now`, in seconds since 1970. Confidence decreases
    /// with age. The latest change comes last.
    pub fn rates(&self, now: u64) -> Result<Vec<(LinkKey, KnownLink)>, UsageError> {
        self.read_rates(now).map_err(|source| self.failed(source))
    }

    /// Replaces the known rates of these links where there are new ones, all of them or none; `now`
    /// is the time in seconds since 1970. Beyond [`MAX_RATES`], the least recently changed ones are
    /// forgotten.
    pub fn keep_rates(
        &mut self,
        rates: &BTreeMap<LinkKey, KnownLink>,
        now: u64,
    ) -> Result<(), UsageError> {
        let written = self.change(|change| write(change, rates, now));
        written.map_err(|source| self.failed(source))
    }

    fn read_rates(&self, now: u64) -> rusqlite::Result<Vec<(LinkKey, KnownLink)>> {
        let mut query = self.database.prepare_cached(
            "SELECT link, network, up, up_confidence, up_seen, \
             down, down_confidence, down_seen, latency FROM rate ORDER BY updated, link, network",
        )?;
        let rows = query.query_map([], |row| {
            let latency: Option<i64> = row.get(8)?;
            let latency = latency.and_then(|micros| u64::try_from(micros).ok());
            let known = KnownLink {
                up: rate(row, 2, now)?,
                down: rate(row, 5, now)?,
                latency: latency.map(Duration::from_micros),
            };
            Ok(((row.get(0)?, row.get(1)?), known))
        })?;
        rows.collect()
    }
}

/// Reads the rate in three columns from `first` on.
fn rate(row: &Row<'_>, first: usize, now: u64) -> rusqlite::Result<Option<KnownRate>> {
    let bytes: Option<i64> = row.get(first)?;
    let confidence: Option<f64> = row.get(first + 1)?;
    let seen: Option<i64> = row.get(first + 2)?;
    let bytes = bytes.and_then(|bytes| u64::try_from(bytes).ok());
    let seen = seen.and_then(|seen| u64::try_from(seen).ok());
    Ok(bytes
        .zip(confidence)
        .zip(seen)
        .map(|((bytes, confidence), seen)| {
            let known = KnownRate {
                rate: Rate::from_bytes_per_second(bytes),
                confidence,
            };
            // A clock that was set back does not give a negative age.
            known.after(Duration::from_secs(now.saturating_sub(seen)))
        }))
}

fn write(
    change: &Transaction<'_>,
    rates: &BTreeMap<LinkKey, KnownLink>,
    now: u64,
) -> rusqlite::Result<()> {
    let mut put = change.prepare_cached(
        "INSERT INTO rate VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) \
         ON CONFLICT (link, network) DO UPDATE SET \
         up = coalesce(excluded.up, up), \
         up_confidence = coalesce(excluded.up_confidence, up_confidence), \
         up_seen = coalesce(excluded.up_seen, up_seen), \
         down = coalesce(excluded.down, down), \
         down_confidence = coalesce(excluded.down_confidence, down_confidence), \
         down_seen = coalesce(excluded.down_seen, down_seen), \
         latency = coalesce(excluded.latency, latency), updated = excluded.updated",
    )?;
    let now = now.min(MOST as u64) as i64;
    for ((link, network), known) in rates {
        let bytes = |rate: KnownRate| rate.rate.bytes_per_second().min(MOST as u64) as i64;
        let confidence = |rate: KnownRate| rate.confidence;
        let micros = |latency: Duration| i64::try_from(latency.as_micros()).unwrap_or(MOST);
        put.execute(params![
            link,
            network,
            known.up.map(bytes),
            known.up.map(confidence),
            known.up.map(|_| now),
            known.down.map(bytes),
            known.down.map(confidence),
            known.down.map(|_| now),
            known.latency.map(micros),
            now
        ])?;
    }
    change.execute(
        "DELETE FROM rate WHERE (link, network) IN \
         (SELECT link, network FROM rate ORDER BY updated DESC LIMIT -1 OFFSET ?1)",
        [MAX_RATES],
    )?;
    Ok(())
}

/// Maximum number of links and networks kept.
pub const MAX_RATES: u32 = 256;

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;
    use crate::STEPS;

    fn folder() -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.db");
        (folder, path)
    }

    fn open(path: &std::path::Path) -> UsageDatabase {
        UsageDatabase::open(path).unwrap().0
    }

    fn known(kilobits: u64, confidence: f64) -> Option<KnownRate> {
        Some(KnownRate {
            rate: Rate::from_bits_per_second(kilobits * 1000),
            confidence,
        })
    }

    fn key(link: &str, network: &str) -> LinkKey {
        (link.to_owned(), network.to_owned())
    }

    #[test]
    fn what_links_can_carry_is_there_again_and_what_is_not_new_stays() {
        let (_folder, path) = folder();
        let first = KnownLink {
            up: known(8_000, 0.5),
            down: known(20_000, 0.8),
            latency: Some(Duration::from_micros(31_250)),
        };
        let home = key("eth0", "192.0.2.1");
        open(&path)
            .keep_rates(&[(home.clone(), first)].into(), 100)
            .unwrap();
        let newer = KnownLink {
            down: known(16_000, 0.9),
            ..KnownLink::default()
        };
        let away = key("eth0", "198.51.100.1");
        open(&path)
            .keep_rates(&[(away.clone(), newer)].into(), 150)
            .unwrap();
        open(&path)
            .keep_rates(&[(home.clone(), newer)].into(), 200)
            .unwrap();
        let both = KnownLink {
            down: newer.down,
            ..first
        };
        assert_eq!(
            open(&path).rates(300).unwrap(),
            [(away, newer), (home, both)]
        );
    }

    #[test]
    fn each_direction_ages_by_itself() {
        let (_folder, path) = folder();
        let week = 7 * 24 * 3600;
        let link = key("eth0", "");
        let up = KnownLink {
            up: known(8_000, 0.8),
            ..KnownLink::default()
        };
        let down = KnownLink {
            down: known(8_000, 0.8),
            ..KnownLink::default()
        };
        open(&path)
            .keep_rates(&[(link.clone(), up)].into(), 0)
            .unwrap();
        open(&path)
            .keep_rates(&[(link, down)].into(), week)
            .unwrap();
        let (_, known) = open(&path).rates(8 * 24 * 3600).unwrap()[0];
        assert!((known.up.unwrap().confidence - 0.4).abs() < 1e-9);
        assert_eq!(known.down, down.down);
    }

    #[test]
    fn only_so_many_are_kept_and_the_oldest_go() {
        let (_folder, path) = folder();
        let mut ledger = open(&path);
        let any = KnownLink {
            up: known(1, 0.1),
            ..KnownLink::default()
        };
        ledger
            .keep_rates(&[(key("old", ""), any)].into(), 1)
            .unwrap();
        ledger
            .keep_rates(&[(key("older", ""), any)].into(), 0)
            .unwrap();
        let many = (1..MAX_RATES).map(|n| (key("wlan0", &n.to_string()), any));
        ledger.keep_rates(&many.collect(), 2).unwrap();
        let kept: BTreeMap<_, _> = ledger.rates(3).unwrap().into_iter().collect();
        assert_eq!(kept.len(), MAX_RATES as usize);
        assert!(kept.contains_key(&key("old", "")) && !kept.contains_key(&key("older", "")));
    }

    #[test]
    fn a_ledger_of_the_third_format_keeps_what_it_has_learned() {
        let (_folder, path) = folder();
        let database = Connection::open(&path).unwrap();
        for step in &STEPS[..3] {
            database.execute_batch(step).unwrap();
        }
        let row = "INSERT INTO demand VALUES ('curl', 'web', 1, 7, 1, 1)";
        database.execute_batch(row).unwrap();
        drop(database);
        let mut ledger = open(&path);
        assert_eq!(ledger.demands().unwrap().len(), 1);
        assert_eq!(ledger.rates(1).unwrap(), []);
        let any = KnownLink {
            up: known(1, 0.1),
            ..KnownLink::default()
        };
        ledger
            .keep_rates(&[(key("eth0", ""), any)].into(), 1)
            .unwrap();
        assert_eq!(open(&path).rates(1).unwrap(), [(key("eth0", ""), any)]);
    }

    #[test]
    fn malformed_numbers_are_no_rates() {
        let (_folder, path) = folder();
        drop(open(&path));
        let database = Connection::open(&path).unwrap();
        let row = "INSERT INTO rate VALUES ('a', '', -5, 0.5, 1, 5, 0.5, NULL, -1, 1)";
        database.execute_batch(row).unwrap();
        let (_, known) = open(&path).rates(0).unwrap()[0];
        assert_eq!(known, KnownLink::default());
    }
}
