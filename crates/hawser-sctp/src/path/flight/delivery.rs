use std::time::Duration;

use hawser_types::{ByteCount, Instant, Rate};

use crate::congestion::RateSample;

/// Delivery rate estimation: the bytes delivered between the sending and the acknowledgement of a
/// packet, divided by the time that this or the sending took, whichever is longer.
///
/// Source: draft-ietf-ccwg-bbr §4.1 (delivery rate samples).
#[derive(Debug, Default)]
pub(super) struct Delivery {
    delivered: u64,
    delivered_at: Instant,
    /// Send time of the packet acknowledged last.
    acknowledged_sent: Instant,
    /// Delivered bytes up to which samples are limited by the application.
    limited_until: Option<u64>,
}

/// State when a packet was sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Snapshot {
    sent: Instant,
    delivered: u64,
    delivered_at: Instant,
    acknowledged_sent: Instant,
    limited: bool,
}

impl Delivery {
    /// Handles the start of sending with nothing in flight.
    pub(super) fn on_begin(&mut self, now: Instant) {
        self.delivered_at = now;
        self.acknowledged_sent = now;
    }

    pub(super) fn snapshot(&self, now: Instant) -> Snapshot {
        Snapshot {
            sent: now,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            acknowledged_sent: self.acknowledged_sent,
            limited: self.limited_until.is_some(),
        }
    }

    pub(super) fn on_delivered(&mut self, now: Instant, bytes: u64, sent: Instant) {
        self.delivered += bytes;
        self.delivered_at = now;
        self.acknowledged_sent = self.acknowledged_sent.max(sent);
        if self
            .limited_until
            .is_some_and(|until| self.delivered > until)
        {
            self.limited_until = None;
        }
    }

    pub(super) fn on_application_limited(&mut self, in_flight: u64) {
        self.limited_until = Some(self.delivered + in_flight);
    }

    /// Returns the sample of an acknowledged packet; `None` if its time span is too short.
    pub(super) fn sample(&self, packet: &Snapshot, min_rtt: Duration) -> Option<RateSample> {
        let sending = packet.sent.since(packet.acknowledged_sent);
        let arriving = self.delivered_at.since(packet.delivered_at);
        let span = sending.max(arriving);
        let delivered = ByteCount::new(self.delivered - packet.delivered);
        (!span.is_zero() && span >= min_rtt).then(|| RateSample {
            rate: Rate::over(delivered, span),
            delivered: ByteCount::new(self.delivered),
            delivered_before: ByteCount::new(packet.delivered),
            application_limited: packet.limited,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    const MIN_RTT: Duration = Duration::from_millis(50);

    #[test]
    fn a_steady_flow_is_measured_at_its_rate() {
        let mut delivery = Delivery::default();
        delivery.on_begin(at(0));
        // A packet of 1000 bytes each millisecond, acknowledged 50 ms later.
        let mut sent = Vec::new();
        for now in 0..200 {
            if now >= 50 {
                let snapshot: Snapshot = sent[now as usize - 50];
                delivery.on_delivered(at(now), 1000, snapshot.sent);
                if now >= 150 {
                    let sample = delivery.sample(&snapshot, MIN_RTT).unwrap();
                    assert_eq!(sample.rate.bytes_per_second(), 1_000_000);
                    assert!(!sample.application_limited);
                }
            }
            sent.push(delivery.snapshot(at(now)));
        }
    }

    #[test]
    fn acknowledgements_in_a_burst_do_not_raise_the_rate_above_that_of_sending() {
        let mut delivery = Delivery::default();
        delivery.on_begin(at(0));
        let sent: Vec<_> = (0..100).map(|now| delivery.snapshot(at(now))).collect();
        for snapshot in &sent {
            delivery.on_delivered(at(150), 1000, snapshot.sent);
        }
        let sample = delivery.sample(&sent[99], MIN_RTT).unwrap();
        assert!(sample.rate.bytes_per_second() <= 1_000_000, "{sample:?}");
    }

    #[test]
    fn a_sample_within_less_than_the_shortest_round_trip_means_nothing() {
        let mut delivery = Delivery::default();
        delivery.on_begin(at(0));
        let snapshot = delivery.snapshot(at(0));
        delivery.on_delivered(at(10), 1000, at(0));
        assert!(delivery.sample(&snapshot, MIN_RTT).is_none());
    }

    #[test]
    fn what_left_while_little_waited_is_marked_until_all_of_it_is_delivered() {
        let mut delivery = Delivery::default();
        delivery.on_begin(at(0));
        delivery.on_application_limited(2000);
        let limited = delivery.snapshot(at(0));
        delivery.on_delivered(at(60), 2001, at(0));
        assert!(
            delivery
                .sample(&limited, MIN_RTT)
                .unwrap()
                .application_limited
        );
        let free = delivery.snapshot(at(60));
        delivery.on_delivered(at(120), 1000, at(60));
        assert!(!delivery.sample(&free, MIN_RTT).unwrap().application_limited);
    }
}
