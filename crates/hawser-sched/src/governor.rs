//! Measures what each link adds to the whole, and tells which links had better stand aside.

mod account;
mod report;
mod standing;

use std::time::Duration;

use hawser_types::{Instant, LinkIndex, Rate};

use account::{Account, SMOOTHING};

pub use report::LinkReport;
pub use standing::{Exclusion, Harm, Standing};

/// Keeps the account of what each link adds, and demotes those that take away.
///
/// Over epochs of 250 ms a link is credited what it delivered, and debited what others had to send
/// again for it and what they could have sent while it stalled them. A link whose balance over the
/// last epochs is negative is demoted to probing. So is, for [`Governor::judging_delay`] alone, one
/// that brings less than a twentieth and keeps readers waiting for more than a third of the time.
///
/// A demotion is an experiment. If the whole delivers less without the link than with it, the link
/// comes back at once and stays for a while. Else it is promoted when what was wrong with it has
/// changed (its round-trip time, its loss or its rate, by much), and is otherwise tried again after
/// two seconds, then after twice as long, up to a minute.
///
/// The best link is never demoted, hence never all of them. Links that share a bottleneck count
/// once where capacities are added up.
///
/// Source: the promise "never below the best link" is ours; demoting a channel that harms is what
/// PATTHEL §IV leaves for later (PAT-14).
#[derive(Clone, Debug, Default)]
pub struct Governor {
    accounts: Vec<Account>,
    epoch_began: Option<Instant>,
    /// Bytes that all links together delivered in each second, smoothed.
    goodput: f64,
    judges_delay: bool,
}

impl Governor {
    /// One that also demotes what brings little and keeps readers waiting. Sessions do without:
    /// where it was tried it cost more than it gave, as docs/design/scheduling.md shows.
    pub fn judging_delay() -> Self {
        Self {
            judges_delay: true,
            ..Self::default()
        }
    }

    /// Takes in the reports of all links that are alive; others are forgotten. Call it each 20 to
    /// 250 ms.
    pub fn on_reports(&mut self, now: Instant, reports: &[LinkReport]) {
        self.accounts
            .retain(|account| reports.iter().any(|report| report.link == account.link));
        for report in reports {
            match self.accounts.iter_mut().find(|a| a.link == report.link) {
                Some(account) => account.latest = *report,
                None => self.accounts.push(Account::new(now, *report)),
            }
        }
        let began = *self.epoch_began.get_or_insert(now);
        let span = now.since(began);
        if span >= TOO_LONG {
            // There was no call meanwhile, since there was nothing to do.
            self.epoch_began = Some(now);
            self.accounts.iter_mut().for_each(Account::skip_epoch);
        } else if span >= EPOCH {
            self.epoch_began = Some(now);
            self.close_epoch(now, span);
        }
        // Links may vanish: one of those that are left is always fully used.
        let any = self.accounts.iter().any(|a| a.standing == Standing::Full);
        if !any && let Some(best) = self.best() {
            self.accounts[best].promote();
        }
    }

    /// Returns the permission to use a link; a link without reports is new and may be used.
    pub fn standing(&self, link: LinkIndex) -> Standing {
        let account = self.accounts.iter().find(|account| account.link == link);
        account.map_or(Standing::Full, |account| account.standing)
    }

    /// Returns the rate of all links together: those that share a bottleneck count once.
    pub fn capacity(&self) -> Rate {
        let total = self.capacity_without(None);
        Rate::from_bytes_per_second(total as u64)
    }

    /// Bytes that a link has added to the whole in each second, smoothed; negative when it took
    /// away.
    pub fn balance(&self, link: LinkIndex) -> Option<f64> {
        let account = self.accounts.iter().find(|account| account.link == link)?;
        Some(account.balance)
    }

    fn close_epoch(&mut self, now: Instant, span: Duration) {
        let seconds = span.as_secs_f64();
        let mut delivered = 0.0;
        for n in 0..self.accounts.len() {
            let others = self.capacity_without(Some(n));
            delivered += self.accounts[n].close_epoch(seconds, others);
        }
        let demand = self.accounts.iter().any(|account| account.latest.demand);
        if demand {
            self.goodput += (delivered / seconds - self.goodput) * SMOOTHING;
        }
        let best = self.best();
        for n in 0..self.accounts.len() {
            let goodput = self.goodput;
            let account = &mut self.accounts[n];
            match account.standing {
                Standing::Probing(_) => account.consider_promotion(now, goodput, demand),
                _ if Some(n) != best => {
                    account.consider_demotion(now, goodput, delivered, self.judges_delay);
                }
                _ => {}
            }
        }
    }

    /// The best link: of those fully used that which delivers most, then that which could.
    fn best(&self) -> Option<usize> {
        (0..self.accounts.len()).max_by(|a, b| {
            let (a, b) = (&self.accounts[*a], &self.accounts[*b]);
            let is_full = |account: &Account| account.standing == Standing::Full;
            let by_standing = is_full(a).cmp(&is_full(b));
            by_standing
                .then(a.delivered.total_cmp(&b.delivered))
                .then(a.latest.rate.cmp(&b.latest.rate))
                .then(b.link.cmp(&a.link))
        })
    }

    /// Bytes that the links, without one of them, can deliver in each second.
    fn capacity_without(&self, without: Option<usize>) -> f64 {
        let counted = || {
            let accounts = self.accounts.iter().enumerate();
            accounts.filter(move |(n, _)| Some(*n) != without)
        };
        let rate = |account: &Account| account.latest.rate.bytes_per_second() as f64;
        counted()
            .map(|(n, account)| match account.latest.bottleneck {
                None => rate(account),
                // A shared bottleneck carries what its best link shows it can, once.
                Some(number) => {
                    let mut same = counted().filter(|(_, a)| a.latest.bottleneck == Some(number));
                    let first = same.clone().next().is_some_and(|(m, _)| m == n);
                    let most = same.by_ref().map(|(_, a)| rate(a)).fold(0.0, f64::max);
                    if first { most } else { 0.0 }
                }
            })
            .sum()
    }
}

/// Long enough for a round trip or more on most links, short enough to act eight times in the two
/// seconds within which a recovered link has to be back.
pub const EPOCH: Duration = Duration::from_millis(250);
/// A pause, and no epoch.
const TOO_LONG: Duration = Duration::from_secs(1);
#[cfg(test)]
mod tests;
