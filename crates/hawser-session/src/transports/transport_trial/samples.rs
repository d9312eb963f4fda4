//! Rates of one transport, interval by interval.

use std::collections::VecDeque;
use std::time::Duration;

use hawser_types::{ByteCount, Rate};

/// The latest intervals in which there was more to send than was taken.
#[derive(Debug, Default)]
pub(super) struct Samples {
    /// Bytes per second, the latest last.
    rates: VecDeque<f64>,
    busy: Duration,
    bytes: u64,
}

impl Samples {
    /// Adds a span. True if that completes an interval of length `interval`.
    pub(super) fn add(&mut self, span: Duration, bytes: u64, interval: Duration) -> bool {
        self.busy += span;
        self.bytes += bytes;
        if self.busy < interval {
            return false;
        }
        let rate = Rate::over(ByteCount::new(self.bytes), self.busy);
        (self.busy, self.bytes) = (Duration::ZERO, 0);
        if self.rates.len() == MOST {
            self.rates.pop_front();
        }
        self.rates.push_back(rate.bytes_per_second() as f64);
        true
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Forgets all intervals but the latest ones.
    pub(super) fn keep(&mut self, latest: usize) {
        let more = self.rates.len().saturating_sub(latest);
        self.rates.drain(..more);
    }

    /// Returns the number of intervals.
    pub(super) fn count(&self) -> usize {
        self.rates.len()
    }

    /// Returns the mean rate of the latest intervals.
    pub(super) fn mean(&self, latest: usize) -> f64 {
        let rates = || self.rates.iter().rev().take(latest);
        rates().sum::<f64>() / (rates().count().max(1) as f64)
    }

    /// Returns the highest of the latest rates; `None` while there are fewer.
    pub(super) fn highest(&self, latest: usize) -> Option<f64> {
        let rates = self.rates.iter().rev().take(latest).copied();
        (self.rates.len() >= latest).then(|| rates.fold(0.0, f64::max))
    }

    /// Returns the standard deviation of the latest rates.
    pub(super) fn spread(&self, latest: usize) -> f64 {
        let count = self.rates.len().min(latest);
        let mean = self.mean(latest);
        let squares = self.rates.iter().rev().take(latest);
        let squares: f64 = squares.map(|rate| (rate - mean).powi(2)).sum();
        (squares / count.saturating_sub(1).max(1) as f64).sqrt()
    }

    /// True if the latest `few` rates are above those before by more than `part` of them.
    pub(super) fn is_growing(&self, few: usize, part: f64) -> bool {
        let latest = self.mean(few);
        let before = self.rates.iter().rev().skip(few).take(few);
        let (sum, count) = before.fold((0.0, 0.0), |(sum, count), rate| (sum + rate, count + 1.0));
        count < few as f64 || latest > sum / count * (1.0 + part)
    }
}

/// Intervals that are longer ago say little of now.
const MOST: usize = 24;
