use std::time::Duration;

use hawser_types::{ByteCount, Instant, Rate};

/// What a segment remembers of the delivery count when it was sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Departure {
    pub(super) delivered: u64,
    delivered_at: Instant,
    first_sent: Instant,
    app_limited: bool,
}

/// Counts what is delivered, and how fast.
///
/// Source: draft-cheng-iccrg-delivery-rate-estimation, Linux `net/ipv4/tcp_rate.c`.
#[derive(Debug, Default)]
pub(super) struct RateEstimator {
    /// Segments delivered since the connection began.
    pub(super) delivered: u64,
    pub(super) delivered_at: Instant,
    first_sent: Instant,
    /// Until this many are delivered, samples are limited by the application; 0 for not at all.
    app_limited: u64,
    /// The latest sample: segments, over this time, limited by the application.
    latest: Option<(u64, Duration, bool)>,
    pending: Option<Pending>,
}

/// The newest segment among those that one acknowledgement delivers.
#[derive(Clone, Copy, Debug)]
struct Pending {
    departure: Departure,
    sent: Instant,
    end: u64,
}

/// What one acknowledgement shows of the path.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    /// Segments delivered over `interval`; 0 when it shows nothing.
    pub(super) delivered: u64,
    pub(super) interval: Duration,
    /// What was delivered when the newest of its segments left.
    pub(super) prior_delivered: u64,
    pub(super) app_limited: bool,
    /// Whether anything was delivered at all, even if too little time passed to tell a rate.
    pub(super) any: bool,
}

impl RateEstimator {
    /// A segment leaves. `idle`: nothing is in flight.
    pub(super) fn on_sent(&mut self, now: Instant, idle: bool) -> Departure {
        if idle {
            self.first_sent = now;
            self.delivered_at = now;
        }
        Departure {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent: self.first_sent,
            app_limited: self.app_limited > 0,
        }
    }

    /// A segment was delivered that left at `sent` and ends at `end`.
    pub(super) fn on_delivered(&mut self, departure: Departure, sent: Instant, end: u64) {
        self.delivered += 1;
        if self.pending.is_none_or(|p| (sent, end) > (p.sent, p.end)) {
            self.pending = Some(Pending {
                departure,
                sent,
                end,
            });
        }
    }

    /// The application has too little to fill the path.
    pub(super) fn on_app_limited(&mut self, in_flight: u32) {
        self.app_limited = (self.delivered + u64::from(in_flight)).max(1);
    }

    pub(super) fn is_app_limited(&self) -> bool {
        self.app_limited > 0
    }

    /// What the segments delivered since the last call show.
    pub(super) fn take_sample(&mut self, now: Instant, lowest: Option<Duration>) -> Sample {
        if self.app_limited > 0 && self.delivered > self.app_limited {
            self.app_limited = 0;
        }
        let Some(pending) = self.pending.take() else {
            return Sample::default();
        };
        self.delivered_at = now;
        self.first_sent = pending.sent;
        let departure = pending.departure;
        let sending = pending.sent.since(departure.first_sent);
        let interval = sending.max(now.since(departure.delivered_at));
        let mut sample = Sample {
            delivered: self.delivered - departure.delivered,
            interval,
            prior_delivered: departure.delivered,
            app_limited: departure.app_limited,
            any: true,
        };
        if interval.is_zero() || lowest.is_some_and(|rtt| interval < rtt) {
            sample.delivered = 0;
            return sample;
        }
        let faster = self.latest.is_none_or(|(count, span, _)| {
            u128::from(sample.delivered) * span.as_nanos()
                >= u128::from(count) * interval.as_nanos()
        });
        if !sample.app_limited || faster {
            self.latest = Some((sample.delivered, interval, sample.app_limited));
        }
        sample
    }

    /// The latest rate, and whether the application limited it.
    pub(super) fn latest(&self, segment: u32) -> (Rate, bool) {
        self.latest
            .map_or((Rate::ZERO, false), |(count, span, limited)| {
                let bytes = ByteCount::new(count * u64::from(segment));
                (Rate::over(bytes, span), limited)
            })
    }
}
