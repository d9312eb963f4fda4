//! The user's rules: which links at all, at what price, and how much in a month.
//!
//! Pure decisions over counts of usage that the caller keeps.

mod month;

use hawser_types::{ByteCount, LimitedBy, LinkUse, Permission};

use crate::governor::Exclusion;

pub use month::Date;

/// Which way data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From this host.
    Up,
    /// To this host.
    Down,
}

/// The user's rule for one link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// Use of the link to send.
    pub up: LinkUse,
    /// Use of the link to receive.
    pub down: LinkUse,
    /// Factor of the link's rate in weighted policies; above 0, 1 by default.
    pub weight: f64,
    /// Price of a gigabyte (10⁹ bytes), in the user's unit; 0 is free.
    pub price: f64,
    /// Weight of the price against the throughput, from 0 to 1; 0 by default.
    pub price_weight: f64,
    /// Bytes that may go over it in a month, both ways together; `None`: no bound.
    pub allowance: Option<Allowance>,
}

/// The user's rules for one link now, for choosers of links.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkRules {
    /// Permission of this host to send.
    pub up: Permission,
    /// Permission of the other end to send.
    pub down: Permission,
    /// As in [`Rule::weight`].
    pub weight: f64,
    /// As in [`Rule::price`].
    pub price: f64,
    /// As in [`Rule::price_weight`].
    pub price_weight: f64,
}

/// Bytes that may go over a link in a month.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// Bytes in a month.
    pub bytes: ByteCount,
    /// The day on which the count begins anew, 1 to 31; in shorter months their last day.
    pub reset_day: u8,
    /// Use of the link when the allowance is used up.
    pub at_limit: AtLimit,
}

/// Use of a link whose allowance is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum AtLimit {
    /// The link is not used until the month is over.
    #[default]
    Stop,
    /// It is used while no other link lives.
    Backup,
    /// It is used on; only the status says so.
    Continue,
}

/// Bytes that went over a link in the month that began on a day. Worth keeping over restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// The first day that counts.
    pub since: Date,
    /// Bytes sent.
    pub up: ByteCount,
    /// Bytes received.
    pub down: ByteCount,
}

impl Usage {
    /// Nothing used, in the month that `today` lies in.
    pub fn begin(today: Date, reset_day: u8) -> Self {
        Self {
            since: today.month_began(reset_day),
            up: ByteCount::ZERO,
            down: ByteCount::ZERO,
        }
    }

    /// Adds what went over the link today. When a new month has begun, the old one is forgotten. A
    /// clock that goes back does not bring an old month back, unless this one lies too far ahead.
    pub fn charge(&mut self, today: Date, reset_day: u8, direction: Direction, bytes: ByteCount) {
        if self.is_over(today, reset_day) {
            *self = Self::begin(today, reset_day);
        }
        match direction {
            Direction::Up => self.up += bytes,
            Direction::Down => self.down += bytes,
        }
    }

    /// Bytes of this month; none when a new month has begun and nothing was charged in it.
    pub fn used(&self, today: Date, reset_day: u8) -> ByteCount {
        if self.is_over(today, reset_day) {
            ByteCount::ZERO
        } else {
            self.up + self.down
        }
    }

    /// True if another month has begun, or this one was begun by a clock that was wrong.
    fn is_over(&self, today: Date, reset_day: u8) -> bool {
        today.month_began(reset_day) > self.since || self.since > today.latest_beginning()
    }
}

impl LinkRules {
    /// True if nothing may go over the link in either direction.
    pub const fn forbid_all(&self) -> bool {
        self.up.is_forbidden() && self.down.is_forbidden()
    }

    /// Returns what is left of them while the link's signal fades.
    pub const fn while_fading(self) -> Self {
        Self {
            up: self.up.while_fading(),
            down: self.down.while_fading(),
            ..self
        }
    }
}

impl Default for LinkRules {
    fn default() -> Self {
        Self {
            up: Permission::Allowed,
            down: Permission::Allowed,
            weight: 1.0,
            price: 0.0,
            price_weight: 0.0,
        }
    }
}

impl Default for Rule {
    fn default() -> Self {
        Self {
            up: LinkUse::default(),
            down: LinkUse::default(),
            weight: 1.0,
            price: 0.0,
            price_weight: 0.0,
            allowance: None,
        }
    }
}

impl Rule {
    /// Returns what the rule allows on its link today.
    pub fn link_rules(&self, usage: &Usage, today: Date) -> LinkRules {
        LinkRules {
            up: self.permission(Direction::Up, usage, today),
            down: self.permission(Direction::Down, usage, today),
            weight: self.weight,
            price: self.price,
            price_weight: self.price_weight,
        }
    }

    /// Returns the rule's verdict on its link today, in one direction.
    pub fn permission(&self, direction: Direction, usage: &Usage, today: Date) -> Permission {
        let by_use = match direction {
            Direction::Up => self.up,
            Direction::Down => self.down,
        };
        let by_use = match by_use {
            LinkUse::Never => return Permission::Forbidden(LimitedBy::Choice),
            LinkUse::Backup => Permission::Reserve(LimitedBy::Choice),
            LinkUse::Normal => Permission::Allowed,
            LinkUse::Prefer => Permission::Preferred,
        };
        match self.allowance {
            Some(allowance) if usage.used(today, allowance.reset_day) >= allowance.bytes => {
                match allowance.at_limit {
                    AtLimit::Stop => Permission::Forbidden(LimitedBy::Allowance),
                    AtLimit::Backup => Permission::Reserve(LimitedBy::Allowance),
                    AtLimit::Continue => by_use,
                }
            }
            _ => by_use,
        }
    }

    /// Returns the bytes that may still go over the link this month; `None`: no bound.
    pub fn left(&self, usage: &Usage, today: Date) -> Option<ByteCount> {
        let allowance = self.allowance?;
        Some(allowance.bytes - usage.used(today, allowance.reset_day))
    }

    /// Returns the cost of this month's use so far, in the unit of the price.
    pub fn cost(&self, usage: &Usage, today: Date) -> f64 {
        let reset_day = self.allowance.map_or(1, |allowance| allowance.reset_day);
        self.price * usage.used(today, reset_day).as_u64() as f64 / 1e9
    }
}

/// Returns why a link is not used now, given its permission and those of all links that live, its
/// own among them; and why not.
pub fn exclusion(permission: Permission, living: &[Permission]) -> Option<Exclusion> {
    let is_better = |other: &Permission| other.rank() < permission.rank();
    match permission {
        Permission::Preferred | Permission::Allowed => None,
        Permission::Forbidden(LimitedBy::Choice) => Some(Exclusion::Never),
        Permission::Reserve(_) if !living.iter().any(is_better) => None,
        Permission::Reserve(LimitedBy::Choice) => Some(Exclusion::Reserve),
        Permission::Forbidden(LimitedBy::Allowance) | Permission::Reserve(LimitedBy::Allowance) => {
            Some(Exclusion::Allowance)
        }
        Permission::Forbidden(LimitedBy::Signal) | Permission::Reserve(LimitedBy::Signal) => {
            Some(Exclusion::Signal)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn date(year: i32, month: u8, day: u8) -> Date {
        Date::new(year, month, day).unwrap()
    }

    const GB: u64 = 1_000_000_000;

    fn limited(at_limit: AtLimit) -> Rule {
        Rule {
            price: 2.5,
            allowance: Some(Allowance {
                bytes: ByteCount::new(10 * GB),
                reset_day: 15,
                at_limit,
            }),
            ..Rule::default()
        }
    }

    fn used(gigabytes: u64) -> Usage {
        let today = date(2026, 3, 20);
        let mut usage = Usage::begin(today, 15);
        let half = ByteCount::new(gigabytes * GB / 2);
        usage.charge(today, 15, Direction::Up, half);
        usage.charge(today, 15, Direction::Down, half);
        usage
    }

    #[test]
    fn an_allowance_holds_until_the_day_on_which_it_begins_anew() {
        let usage = used(10);
        assert_eq!(usage.since, date(2026, 3, 15));
        for (at_limit, expected) in [
            (AtLimit::Stop, Permission::Forbidden(LimitedBy::Allowance)),
            (AtLimit::Backup, Permission::Reserve(LimitedBy::Allowance)),
            (AtLimit::Continue, Permission::Allowed),
        ] {
            let rule = limited(at_limit);
            let on = |day| rule.permission(Direction::Down, &usage, day);
            assert_eq!(on(date(2026, 4, 14)), expected);
            assert_eq!(on(date(2026, 4, 15)), Permission::Allowed);
            assert_eq!(rule.left(&usage, date(2026, 4, 14)), Some(ByteCount::ZERO));
            assert_eq!(rule.cost(&usage, date(2026, 4, 14)), 25.0);
        }
        let almost = limited(AtLimit::Stop).permission(Direction::Up, &used(9), date(2026, 3, 21));
        assert_eq!(almost, Permission::Allowed);
    }

    #[test]
    fn a_charge_in_a_new_month_forgets_the_old_and_a_clock_set_back_does_not() {
        let mut usage = used(8);
        usage.charge(date(2026, 4, 16), 15, Direction::Up, ByteCount::new(5));
        assert_eq!(usage.up + usage.down, ByteCount::new(5));
        usage.charge(date(2026, 4, 2), 15, Direction::Up, ByteCount::new(5));
        assert_eq!(usage.used(date(2026, 4, 17), 15), ByteCount::new(10));
    }

    #[test]
    fn a_month_of_the_far_future_swallows_no_later_ones() {
        let today = date(2026, 11, 24);
        let mut usage = Usage::begin(date(2099, 1, 1), 15);
        usage.charge(date(2099, 1, 1), 15, Direction::Up, ByteCount::new(9));
        assert_eq!(usage.used(today, 15), ByteCount::ZERO);
        usage.charge(today, 15, Direction::Up, ByteCount::new(5));
        assert_eq!(
            (usage.since, usage.up),
            (date(2026, 11, 15), ByteCount::new(5))
        );
        // A machine without a clock of its own has 1970 when it starts.
        usage.charge(date(1970, 1, 1), 15, Direction::Up, ByteCount::new(5));
        assert_eq!(usage.used(today, 15), ByteCount::new(10));
    }

    #[test]
    fn rules_differ_by_direction() {
        let rule = Rule {
            up: LinkUse::Never,
            down: LinkUse::Prefer,
            ..Rule::default()
        };
        let today = date(2026, 3, 1);
        let usage = Usage::begin(today, 1);
        let permission = |direction| rule.permission(direction, &usage, today);
        let never = Permission::Forbidden(LimitedBy::Choice);
        assert_eq!(permission(Direction::Up), never);
        assert_eq!(permission(Direction::Down), Permission::Preferred);
        assert_eq!(exclusion(never, &[never]), Some(Exclusion::Never));
    }

    #[test]
    fn a_reserve_is_used_when_nothing_else_lives() {
        let reserve = Permission::Reserve(LimitedBy::Choice);
        let never = Permission::Forbidden(LimitedBy::Choice);
        let with = [reserve, Permission::Allowed];
        assert_eq!(exclusion(reserve, &with), Some(Exclusion::Reserve));
        assert_eq!(exclusion(reserve, &[reserve, never]), None);
        assert_eq!(exclusion(Permission::Allowed, &with), None);
    }

    #[test]
    fn a_fading_link_is_used_after_those_in_reserve() {
        let rules = LinkRules {
            down: Permission::Forbidden(LimitedBy::Choice),
            ..LinkRules::default()
        };
        let LinkRules {
            up: fading, down, ..
        } = rules.while_fading();
        assert_eq!(down, Permission::Forbidden(LimitedBy::Choice));
        let reserve = Permission::Reserve(LimitedBy::Choice);
        let both = [fading, reserve];
        assert_eq!(exclusion(fading, &both), Some(Exclusion::Signal));
        assert_eq!(exclusion(reserve, &both), None);
        assert_eq!(exclusion(fading, &[fading, down]), None);
    }
}
