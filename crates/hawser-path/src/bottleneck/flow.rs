use std::collections::VecDeque;

/// The delays of one link, by intervals.
#[derive(Clone, Debug, Default)]
pub(super) struct Flow {
    running: Running,
    closed: VecDeque<Interval>,
    /// The link was congested when it was last judged.
    congested: bool,
}

/// The interval that is not over.
#[derive(Clone, Copy, Debug, Default)]
struct Running {
    index: u64,
    count: u32,
    sum: f64,
    /// Delays below the reference less those above it.
    skew: i64,
    /// Distances from the mean of the interval before.
    deviation: f64,
    delivered: u64,
    lost: u64,
    /// The mean of the means of the last intervals, and the last mean, when this one began.
    reference: Option<(f64, f64)>,
}

/// Record of one interval.
#[derive(Clone, Copy, Debug)]
struct Interval {
    index: u64,
    count: u32,
    mean: f64,
    skew: i64,
    deviation: f64,
    delivered: u64,
    lost: u64,
}

/// The statistics of a congested link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Summary {
    skew: f64,
    variability: f64,
    frequency: f64,
    loss: f64,
}

impl Flow {
    pub(super) fn on_delay(&mut self, index: u64, delay: f64) {
        self.close_before(index);
        let running = &mut self.running;
        running.count += 1;
        running.sum += delay;
        if let Some((reference, last_mean)) = running.reference {
            running.skew += i64::from(delay < reference) - i64::from(delay > reference);
            running.deviation += (delay - last_mean).abs();
        }
    }

    pub(super) fn on_segments(&mut self, index: u64, delivered: u64, lost: u64) {
        self.close_before(index);
        self.running.delivered += delivered;
        self.running.lost += lost;
    }

    /// Closes the running interval if it is over.
    pub(super) fn close_before(&mut self, index: u64) {
        if index <= self.running.index {
            return;
        }
        let over = std::mem::take(&mut self.running);
        self.running.index = index;
        if over.count > 0 {
            if self.closed.len() == KEPT {
                self.closed.pop_front();
            }
            self.closed.push_back(Interval {
                index: over.index,
                count: over.count,
                mean: over.sum / f64::from(over.count),
                skew: over.skew,
                deviation: over.deviation,
                delivered: over.delivered,
                lost: over.lost,
            });
        }
        let last_mean = self.closed.back().map(|last| last.mean);
        self.running.reference = last_mean.map(|last| (self.mean_of_means(), last));
    }

    /// The link's statistics if it is congested; `None` when it is not, or too little is known.
    pub(super) fn judge(&mut self, current: u64) -> Option<Summary> {
        while self
            .closed
            .front()
            .is_some_and(|old| old.index + (KEPT as u64) < current)
        {
            self.closed.pop_front();
        }
        let summary = self.summary();
        self.congested = summary.is_some_and(|summary| {
            let hysteresis = self.congested && summary.skew < STILL_CONGESTED;
            summary.skew < CONGESTED || hysteresis || summary.loss > LOSSY
        });
        summary.filter(|_| self.congested)
    }

    fn summary(&self) -> Option<Summary> {
        if self.closed.len() < MIN_INTERVALS {
            return None;
        }
        let recent = self.closed.iter().rev().take(SMOOTHED);
        let count: f64 = recent.clone().map(|i| f64::from(i.count)).sum();
        let skew: i64 = recent.clone().map(|i| i.skew).sum();
        let deviation: f64 = recent.map(|i| i.deviation).sum();
        let lost: u64 = self.closed.iter().map(|i| i.lost).sum();
        let delivered: u64 = self.closed.iter().map(|i| i.delivered).sum();
        let variability = deviation / count;
        Some(Summary {
            skew: skew as f64 / count,
            variability,
            frequency: self.crossings(variability) / self.closed.len() as f64,
            loss: lost as f64 / (lost + delivered).max(1) as f64,
        })
    }

    /// How often the means cross their own mean by more than what is usual.
    fn crossings(&self, variability: f64) -> f64 {
        let (middle, margin) = (self.mean_of_means(), SIGNIFICANT * variability);
        let mut side = 0;
        let mut crossings = 0.0;
        for interval in &self.closed {
            let off = interval.mean - middle;
            if off.abs() > margin {
                let now = if off > 0.0 { 1 } else { -1 };
                crossings += f64::from(u8::from(side == -now));
                side = now;
            }
        }
        crossings
    }

    fn mean_of_means(&self) -> f64 {
        let recent = self.closed.iter().rev().take(SMOOTHED);
        let count = recent.len().max(1);
        recent.map(|i| i.mean).sum::<f64>() / count as f64
    }

    /// How alike the means of the intervals move that both flows have, from −1 to 1; 0 where they
    /// have too little in common. The lesser of two correlations: that of the means, and that of
    /// the steps from one to the next, of which the largest count for no more than twice the
    /// median. Queues that one sender fills begin, grow and end together without being one.
    pub(super) fn correlation(&self, other: &Self) -> f64 {
        let means: Vec<_> = self.in_common(other).collect();
        let steps = means.windows(2).map(|two| {
            let ((x, y), (next_x, next_y)) = (two[0], two[1]);
            (next_x - x, next_y - y)
        });
        let mut steps: Vec<(f64, f64)> = steps.collect();
        let most = |part: fn(&(f64, f64)) -> f64| {
            let mut sizes: Vec<f64> = steps.iter().map(|step| part(step).abs()).collect();
            sizes.sort_unstable_by(f64::total_cmp);
            sizes
                .get(sizes.len() / 2)
                .map_or(0.0, |median| median * 2.0)
        };
        let (most_x, most_y) = (most(|step| step.0), most(|step| step.1));
        for (x, y) in &mut steps {
            *x = x.clamp(-most_x, most_x);
            *y = y.clamp(-most_y, most_y);
        }
        pearson(&means).min(pearson(&steps))
    }

    fn in_common<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = (f64, f64)> + 'a {
        let mut theirs = other.closed.iter().peekable();
        self.closed.iter().filter_map(move |mine| {
            while theirs.peek().is_some_and(|t| t.index < mine.index) {
                theirs.next();
            }
            let same = theirs.peek().filter(|t| t.index == mine.index);
            same.map(|t| (mine.mean, t.mean))
        })
    }
}

impl Summary {
    /// Whether two links are alike in all that is measured.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let within = |a: f64, b: f64, share: f64| (a - b).abs() <= share * a.max(b);
        let lossy = self.loss.max(other.loss) > LOSSY;
        (self.frequency - other.frequency).abs() < LIKE_FREQUENCY
            && within(self.variability, other.variability, LIKE_VARIABILITY)
            && if lossy {
                within(self.loss, other.loss, LIKE_LOSS)
            } else {
                (self.skew - other.skew).abs() < LIKE_SKEW
            }
    }
}

/// Pearson's correlation; 0 of too few.
fn pearson(pairs: &[(f64, f64)]) -> f64 {
    let n = pairs.len() as f64;
    let mean = |part: fn(&(f64, f64)) -> f64| pairs.iter().map(part).sum::<f64>() / n;
    let (mean_x, mean_y) = (mean(|pair| pair.0), mean(|pair| pair.1));
    let (mut xx, mut yy, mut xy) = (0.0, 0.0, 0.0);
    for (x, y) in pairs {
        let (x, y) = (x - mean_x, y - mean_y);
        xx += x * x;
        yy += y * y;
        xy += x * y;
    }
    let spread = f64::sqrt(xx * yy);
    if pairs.len() + 1 < MIN_INTERVALS || spread <= 0.0 || !spread.is_finite() {
        return 0.0;
    }
    xy / spread
}

/// N, over which crossings and losses are counted.
const KEPT: usize = 50;
/// M, over which skewness, variability and the mean are taken.
const SMOOTHED: usize = 30;
/// F: seven seconds before anything is said.
const MIN_INTERVALS: usize = 20;
/// c_s: below this skewness a link is congested …
const CONGESTED: f64 = 0.1;
/// … c_h: and stays so until it is above this.
const STILL_CONGESTED: f64 = 0.3;
/// p_l: above this share of losses skewness says nothing, and losses say it all.
const LOSSY: f64 = 0.05;
/// p_v: what a significant crossing has to exceed, as a share of the variability.
const SIGNIFICANT: f64 = 0.7;
/// p_f.
const LIKE_FREQUENCY: f64 = 0.1;
/// p_mad is 0.1 in the RFC, whose flows are measured packet by packet. Our samples are a few in
/// each interval, which makes the deviation itself uncertain by a third.
const LIKE_VARIABILITY: f64 = 0.4;
/// p_s is 0.15 there; wider for the same reason.
const LIKE_SKEW: f64 = 0.3;
/// p_d is 0.1 there; wider for the same reason.
const LIKE_LOSS: f64 = 0.4;
