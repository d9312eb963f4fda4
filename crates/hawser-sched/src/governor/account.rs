use std::time::Duration;

use hawser_types::{Instant, LinkIndex};

use super::{Harm, LinkReport, Standing};

/// Account of what one link has added and taken away.
#[derive(Clone, Copy, Debug)]
pub(super) struct Account {
    pub(super) link: LinkIndex,
    pub(super) latest: LinkReport,
    /// The report at the beginning of the epoch.
    before: LinkReport,
    pub(super) standing: Standing,
    /// Bytes delivered in each second, and what is left after all debits, smoothed.
    pub(super) delivered: f64,
    pub(super) balance: f64,
    /// The share of the time that data lay waiting for this link, smoothed.
    blocked: f64,
    /// Epochs in a row in which the link was harmful, or while probing looked recovered.
    epochs: u32,
    /// Epochs with demand since the link came.
    seen: u32,
    demotion: Option<Demotion>,
    promoted_at: Instant,
    /// Not to be demoted before this: that made things worse the last time.
    trusted_until: Instant,
    /// How long to wait before the next trial.
    patience: Duration,
}

/// How things were when a link was demoted.
#[derive(Clone, Copy, Debug)]
struct Demotion {
    at: Instant,
    goodput: f64,
    rtt: Duration,
    rate: f64,
    loss: f64,
    /// The experiment was judged: the whole is no worse without the link.
    judged: bool,
}

impl Account {
    pub(super) fn new(now: Instant, report: LinkReport) -> Self {
        Self {
            link: report.link,
            latest: report,
            before: report,
            standing: Standing::Full,
            delivered: 0.0,
            balance: 0.0,
            blocked: 0.0,
            epochs: 0,
            seen: 0,
            demotion: None,
            promoted_at: now,
            trusted_until: now,
            patience: FIRST_PATIENCE,
        }
    }

    /// Books the epoch; the bytes that the link delivered in it. `others`: what the other links
    /// can deliver in each second.
    pub(super) fn close_epoch(&mut self, seconds: f64, others: f64) -> f64 {
        let (now, before) = (self.latest, self.before);
        self.seen = self.seen.saturating_add(u32::from(now.demand));
        self.before = now;
        let delivered = (now.delivered - before.delivered).as_u64() as f64;
        let again = (now.sent_again - before.sent_again).as_u64() as f64;
        let stalled = now.stalled.saturating_sub(before.stalled).as_secs_f64();
        let blocked = now.blocked.saturating_sub(before.blocked).as_secs_f64();
        let balance = delivered - again - stalled.min(seconds) * others;
        let smooth = |value: &mut f64, new: f64| *value += (new - *value) * SMOOTHING;
        smooth(&mut self.delivered, delivered / seconds);
        smooth(&mut self.balance, balance / seconds);
        smooth(&mut self.blocked, (blocked / seconds).min(1.0));
        delivered
    }

    /// Begins an epoch without judging what came before it.
    pub(super) fn skip_epoch(&mut self) {
        self.before = self.latest;
    }

    pub(super) fn consider_demotion(
        &mut self,
        now: Instant,
        goodput: f64,
        delivered: f64,
        judges_delay: bool,
    ) {
        if now.since(self.promoted_at) > LONG_WELL {
            self.patience = FIRST_PATIENCE;
        }
        if self.seen < ACQUAINTED {
            return;
        }
        let brings_little = self.balance < goodput * LITTLE;
        let harm = if !self.latest.demand || delivered == 0.0 {
            None
        } else if self.balance < 0.0 {
            Some(Harm::LowersGoodput)
        } else if judges_delay && self.blocked > MOST_OF_THE_TIME && brings_little {
            Some(Harm::RaisesDelay)
        } else {
            None
        };
        self.epochs = if harm.is_some() { self.epochs + 1 } else { 0 };
        let Some(harm) = harm.filter(|_| self.epochs >= SURE) else {
            return;
        };
        if now < self.trusted_until {
            return;
        }
        if now.since(self.promoted_at) < SOON && self.demotion.is_some() {
            self.patience = (self.patience * 2).min(MAX_PATIENCE);
        }
        self.epochs = 0;
        self.standing = Standing::Probing(harm);
        self.demotion = Some(Demotion {
            at: now,
            goodput,
            rtt: self.latest.rtt,
            rate: self.latest.rate.bytes_per_second() as f64,
            loss: self.latest.loss,
            judged: false,
        });
    }

    pub(super) fn consider_promotion(&mut self, now: Instant, goodput: f64, demand: bool) {
        let Some(demotion) = &mut self.demotion else {
            self.promote();
            return;
        };
        let since = now.since(demotion.at);
        if !demotion.judged && demand && since >= EXPERIMENT {
            demotion.judged = true;
            if goodput < demotion.goodput * NO_WORSE {
                self.trusted_until = now + TRUST;
                self.promoted_at = now;
                self.promote();
                return;
            }
        }
        let rate = self.latest.rate.bytes_per_second() as f64;
        let changed = self.latest.rtt < demotion.rtt.mul_f64(MUCH_LESS)
            || self.latest.loss < demotion.loss * MUCH_LESS - 0.001
            || rate > demotion.rate / MUCH_LESS;
        self.epochs = if changed { self.epochs + 1 } else { 0 };
        if self.epochs >= RECOVERED || since >= self.patience {
            self.promoted_at = now;
            self.promote();
        }
    }

    /// The link may be used fully again; what it was charged with before is forgiven.
    pub(super) fn promote(&mut self) {
        self.standing = Standing::Full;
        self.epochs = 0;
        self.balance = self.balance.max(0.0);
        self.blocked = 0.0;
    }
}

/// Weight of a new epoch against the past.
pub(super) const SMOOTHING: f64 = 0.3;
/// Epochs of demand before a link is judged: in slow start, its own and that of the peer's credit,
/// everything waits for everything.
const ACQUAINTED: u32 = 16;
/// Harmful epochs in a row that make a demotion: three quarters of a second.
const SURE: u32 = 3;
/// Epochs in a row of a changed link that make a promotion: half a second.
const RECOVERED: u32 = 2;
/// The share of time that readers may wait for a link that brings little.
const MOST_OF_THE_TIME: f64 = 0.35;
const LITTLE: f64 = 0.05;
/// How much a round-trip time or a loss has to fall, or a rate to rise, to be another link.
const MUCH_LESS: f64 = 0.6;
/// How long the whole is watched without a link before that is judged.
const EXPERIMENT: Duration = Duration::from_secs(1);
/// Below this share of the goodput before, a demotion was wrong.
const NO_WORSE: f64 = 0.95;
/// How long a link is left alone whose demotion was wrong.
const TRUST: Duration = Duration::from_secs(30);
const FIRST_PATIENCE: Duration = Duration::from_secs(2);
const MAX_PATIENCE: Duration = Duration::from_secs(64);
/// A demotion this soon after a promotion shows that the trial failed.
const SOON: Duration = Duration::from_secs(5);
/// A link that did well for so long is tried soon again when it fails.
const LONG_WELL: Duration = Duration::from_secs(30);
