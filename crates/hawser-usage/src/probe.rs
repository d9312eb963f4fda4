//! Daily budget for measurements of links.

use hawser_sched::rules::Date;
use hawser_types::ByteCount;
use rusqlite::{OptionalExtension as _, params};

use crate::{UsageDatabase, UsageError, bytes, count, write_day};

impl UsageDatabase {
    /// Takes `wanted` from the daily `budget` for measurements over a link; `true` if enough was
    /// left. It counts even if the measurement fails. Earlier days are forgotten.
    pub fn take_for_probe(
        &mut self,
        link: &str,
        day: Date,
        wanted: ByteCount,
        budget: ByteCount,
    ) -> Result<bool, UsageError> {
        let day = write_day(day);
        let mut is_taken = false;
        let taken = self.change(|change| {
            change.execute("DELETE FROM probe WHERE day < ?1", [day])?;
            let query = "SELECT bytes FROM probe WHERE link = ?1 AND day = ?2";
            let spent = change.query_row(query, params![link, day], |row| row.get(0));
            let all = spent.optional()?.map_or(ByteCount::ZERO, bytes) + wanted;
            is_taken = all <= budget;
            if is_taken {
                change.execute(
                    "INSERT OR REPLACE INTO probe (link, day, bytes) VALUES (?1, ?2, ?3)",
                    params![link, day, count(all)],
                )?;
            }
            Ok(())
        });
        match taken {
            Ok(()) => Ok(is_taken),
            Err(source) => Err(self.failed(source)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn mb(count: u64) -> ByteCount {
        ByteCount::new(count * 1_000_000)
    }

    #[test]
    fn a_budget_is_for_one_link_and_day_and_survives_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.db");
        let take = |link: &str, day: u8, wanted| {
            let (mut ledger, _) = UsageDatabase::open(&path).unwrap();
            let day = Date::new(2026, 11, day).unwrap();
            ledger.take_for_probe(link, day, wanted, mb(10)).unwrap()
        };
        assert!(take("wwan0", 21, mb(6)));
        assert!(!take("wwan0", 21, mb(6)), "4 MB are left");
        assert!(take("wwan0", 21, mb(4)));
        assert!(!take("wwan0", 21, ByteCount::new(1)));
        assert!(take("eth0", 21, mb(10)));
        assert!(take("wwan0", 22, mb(10)));
        assert!(!take("wwan0", 22, ByteCount::MAX));
    }
}
