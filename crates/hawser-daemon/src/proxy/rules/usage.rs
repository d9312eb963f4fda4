//! Traffic of each link this month.

use std::collections::BTreeMap;

use hawser_sched::rules::{Date, Direction, Usage};
use hawser_types::ByteCount;

/// The traffic of every link, and the part of it that is not in the usage database yet.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    usage: BTreeMap<String, Usage>,
    pending: BTreeMap<String, Usage>,
}

/// The bytes that one source had sent and received over each link at the last count.
#[derive(Debug)]
pub(super) struct ByteTotals<Link>(BTreeMap<Link, [ByteCount; 2]>);

impl<Link> Default for ByteTotals<Link> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<Link: Ord> ByteTotals<Link> {
    /// Returns the new part of the total traffic `moved` over a link.
    pub(super) fn news(&mut self, link: Link, moved: [ByteCount; 2]) -> [ByteCount; 2] {
        let before = self.0.insert(link, moved).unwrap_or_default();
        [moved[0] - before[0], moved[1] - before[1]]
    }
}

impl Accounts {
    /// Loads the usage database's accounts, and adds the traffic that is not in the database yet.
    pub(super) fn load(&mut self, ledger: BTreeMap<String, Usage>, today: Date) {
        self.usage = ledger;
        for (link, pending) in &self.pending {
            add(&mut self.usage, link, pending, today);
        }
    }

    /// Returns the month's traffic of a link.
    pub(super) fn usage(&self, link: &str, today: Date, reset_day: u8) -> Usage {
        let known = self.usage.get(link).copied();
        let mut usage = known.unwrap_or_else(|| Usage::begin(today, reset_day));
        // Charging zero bytes begins the new month if it is due.
        usage.charge(today, reset_day, Direction::Up, ByteCount::ZERO);
        usage
    }

    /// Adds bytes that a link has sent and received.
    pub(super) fn enter(
        &mut self,
        link: &str,
        [up, down]: [ByteCount; 2],
        today: Date,
        reset_day: u8,
    ) {
        if up + down == ByteCount::ZERO {
            return;
        }
        let since = self.usage(link, today, reset_day).since;
        let new = Usage { since, up, down };
        add(&mut self.usage, link, &new, today);
        add(&mut self.pending, link, &new, today);
    }

    /// Returns the bytes that are not in the usage database yet.
    pub(super) fn pending_bytes(&self) -> ByteCount {
        let each = self.pending.values().map(|usage| usage.up + usage.down);
        each.fold(ByteCount::ZERO, |sum, bytes| sum + bytes)
    }

    /// Takes the traffic that is not in the usage database yet. If writing fails, return the
    /// traffic with `give_back`.
    pub(super) fn take_pending(&mut self) -> BTreeMap<String, Usage> {
        std::mem::take(&mut self.pending)
    }

    pub(super) fn give_back(&mut self, pending: &BTreeMap<String, Usage>, today: Date) {
        for (link, usage) in pending {
            add(&mut self.pending, link, usage, today);
        }
    }
}

/// Adds traffic to a link's month, or begins the next month; replaces a month that a wrong clock
/// has begun in the future.
fn add(all: &mut BTreeMap<String, Usage>, link: &str, more: &Usage, today: Date) {
    let latest = today.latest_beginning();
    if more.since > latest {
        return;
    }
    let usage = all.entry(link.to_owned()).or_insert(Usage {
        up: ByteCount::ZERO,
        down: ByteCount::ZERO,
        ..*more
    });
    if more.since > usage.since || usage.since > latest {
        *usage = *more;
    } else if more.since == usage.since {
        usage.up += more.up;
        usage.down += more.down;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn date(month: u8, day: u8) -> Date {
        Date::new(2026, month, day).unwrap()
    }

    fn bytes(up: u64, down: u64) -> [ByteCount; 2] {
        [ByteCount::new(up), ByteCount::new(down)]
    }

    #[test]
    fn what_was_seen_is_not_new() {
        let mut seen = ByteTotals::default();
        assert_eq!(seen.news("a", bytes(100, 10)), bytes(100, 10));
        assert_eq!(seen.news("b", bytes(7, 0)), bytes(7, 0));
        assert_eq!(seen.news("a", bytes(150, 10)), bytes(50, 0));
    }

    #[test]
    fn months_begin_on_their_day() {
        let mut accounts = Accounts::default();
        let used = |accounts: &Accounts, today| {
            let usage = accounts.usage("a", today, 31);
            (usage.since, usage.up.as_u64(), usage.down.as_u64())
        };
        accounts.enter("a", bytes(150, 10), date(2, 27), 31);
        accounts.enter("a", bytes(7, 0), date(2, 27), 31);
        assert_eq!(used(&accounts, date(2, 27)), (date(1, 31), 157, 10));
        // February has no 31st.
        assert_eq!(used(&accounts, date(2, 28)), (date(2, 28), 0, 0));
        accounts.enter("a", bytes(2, 1), date(2, 28), 31);
        assert_eq!(used(&accounts, date(3, 30)), (date(2, 28), 2, 1));
        // The clock is set back.
        accounts.enter("a", bytes(1, 0), date(2, 5), 31);
        assert_eq!(used(&accounts, date(2, 5)), (date(2, 28), 3, 1));
        assert_eq!(
            accounts.take_pending()["a"],
            accounts.usage("a", date(3, 1), 31)
        );
    }

    #[test]
    fn a_clock_that_jumped_ahead_once_leaves_the_present_month_alone() {
        let mut accounts = Accounts::default();
        let (today, future) = (date(11, 24), Date::new(2099, 1, 1).unwrap());
        accounts.enter("a", bytes(100, 0), today, 1);
        let written = accounts.take_pending();
        accounts.enter("a", bytes(7, 0), future, 1);
        // The clock is corrected before the usage was written.
        accounts.enter("a", bytes(30, 0), today, 1);
        assert_eq!(accounts.take_pending()["a"].up, ByteCount::new(30));
        accounts.load(written, today);
        let usage = accounts.usage("a", today, 1);
        assert_eq!((usage.since, usage.up), (date(11, 1), ByteCount::new(100)));
        // Also where the month ahead was read from the database.
        let usage = Usage {
            since: future,
            ..usage
        };
        accounts.load([("a".to_owned(), usage)].into(), future);
        accounts.enter("a", bytes(5, 0), today, 1);
        let usage = accounts.usage("a", today, 1);
        assert_eq!((usage.since, usage.up), (date(11, 1), ByteCount::new(5)));
    }

    #[test]
    fn nothing_is_lost_or_counted_twice_when_the_ledger_fails_for_a_while() {
        let mut accounts = Accounts::default();
        let today = date(11, 2);
        accounts.enter("a", bytes(100, 0), today, 1);
        let failed = accounts.take_pending();
        accounts.enter("a", bytes(30, 0), today, 1);
        accounts.give_back(&failed, today);
        // Another program has written meanwhile.
        let mut ledger = BTreeMap::new();
        add(
            &mut ledger,
            "a",
            &Usage {
                since: date(11, 1),
                up: ByteCount::new(1000),
                down: ByteCount::ZERO,
            },
            today,
        );
        accounts.load(ledger, today);
        assert_eq!(accounts.usage("a", today, 1).up, ByteCount::new(1130));
        assert_eq!(accounts.take_pending()["a"].up, ByteCount::new(130));
        assert!(accounts.take_pending().is_empty());
    }
}
