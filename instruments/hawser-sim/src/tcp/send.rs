//! The sending direction of a connection: data written, sent, acknowledged and lost.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use hawser_scenario::Congestion;
use hawser_types::{Instant, RangeSet};
use rand::rngs::SmallRng;

use super::control::Control;
use super::rate::{Departure, RateEstimator};
use super::receive::WINDOW;
use super::rtt::RttEstimator;
use super::window::{INITIAL_WINDOW, Phase, Window};

/// One direction of a connection, as its sender keeps it.
#[derive(Debug)]
pub(super) struct Sender {
    /// Every byte below this is acknowledged.
    pub(super) una: u64,
    /// The next byte to send for the first time.
    pub(super) next: u64,
    /// Bytes written by the application.
    pub(super) written: u64,
    pub(super) segments: VecDeque<Segment>,
    pub(super) counts: Counts,
    pub(super) selective: RangeSet,
    /// Nothing strips selective acknowledgements.
    pub(super) has_ranges: bool,
    /// Lost segments that were not sent again yet.
    pub(super) again: BTreeSet<u64>,
    /// Segments in the order in which they left, each with its number of departures then; those
    /// that are acknowledged or left again are skipped.
    pub(super) departures: VecDeque<(Instant, u64, u32)>,
    pub(super) window: Window,
    pub(super) control: Control,
    pub(super) rtt: RttEstimator,
    pub(super) rate: RateEstimator,
    pub(super) rack: Rack,
    pub(super) repair: Repair,
    pub(super) timers: Timers,
    /// Bytes of payload in a full segment.
    pub(super) segment: u32,
    /// Unsent bytes that the application may have waiting.
    pub(super) low_water: u64,
    pub(super) peer_window: u64,
    /// The earliest time at which the next burst may leave.
    pub(super) departure: Instant,
    burst_left: u32,
    pub(super) last_sent: Instant,
    pub(super) last_ack: Instant,
    pub(super) retransmissions: u64,
    pub(super) sent_segments: u64,
    usage: Usage,
    busy_since: Option<Instant>,
    busy: Duration,
}

/// A segment that was sent and is not acknowledged cumulatively.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub(super) sequence: u64,
    pub(super) length: u32,
    pub(super) sent: Instant,
    pub(super) departure: Departure,
    /// How often it left.
    pub(super) times: u32,
    pub(super) delivered: bool,
    pub(super) lost: bool,
    /// It was sent again since it was lost.
    pub(super) repaired: bool,
}

/// Numbers of segments in `segments` of each kind.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) delivered: u32,
    pub(super) lost: u32,
    pub(super) repaired: u32,
}

/// The newest departure that was delivered. Source: RFC 8985.
#[derive(Debug, Default)]
pub(super) struct Rack {
    pub(super) newest: Option<(Instant, u64)>,
    pub(super) rtt: Duration,
}

/// What is done about a loss.
#[derive(Debug)]
pub(super) struct Repair {
    pub(super) phase: Phase,
    /// The repair ends when this is acknowledged.
    pub(super) until: u64,
    pub(super) prior_window: u32,
    pub(super) prior_threshold: u32,
    pub(super) began: Option<Instant>,
    /// RFC 6937: delivered and sent since it began.
    pub(super) delivered: u32,
    pub(super) sent: u32,
    /// A loss probe is in flight, up to this number; whether it repeated a segment.
    pub(super) probe: Option<(u64, bool)>,
    pub(super) backoff: u32,
    /// A segment to send whatever the window says.
    pub(super) forced: Option<Forced>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Forced {
    New,
    Again(u64),
}

#[derive(Debug, Default)]
pub(super) struct Timers {
    pub(super) retransmission: Option<Instant>,
    pub(super) probe: Option<Instant>,
    pub(super) reordering: Option<Instant>,
    pub(super) pacing: Option<Instant>,
}

/// Whether the window was used up lately (Linux `tcp_cwnd_validate`).
#[derive(Debug, Default)]
struct Usage {
    limited: bool,
    most_out: u32,
    until: u64,
}

impl Sender {
    pub(super) fn new(
        congestion: Congestion,
        has_ranges: bool,
        segment: u32,
        rng: SmallRng,
    ) -> Self {
        Self {
            una: 0,
            next: 0,
            written: 0,
            segments: VecDeque::new(),
            counts: Counts::default(),
            selective: RangeSet::new(),
            has_ranges,
            again: BTreeSet::new(),
            departures: VecDeque::new(),
            window: Window {
                congestion: INITIAL_WINDOW,
                threshold: u32::MAX,
                pacing: None,
            },
            control: Control::new(congestion, rng),
            rtt: RttEstimator::default(),
            rate: RateEstimator::default(),
            rack: Rack::default(),
            repair: Repair::new(),
            timers: Timers::default(),
            segment,
            low_water: u64::MAX,
            peer_window: WINDOW,
            departure: Instant::ZERO,
            burst_left: 0,
            last_sent: Instant::ZERO,
            last_ack: Instant::ZERO,
            retransmissions: 0,
            sent_segments: 0,
            usage: Usage::default(),
            busy_since: None,
            busy: Duration::ZERO,
        }
    }

    /// Takes as many of `bytes` as the buffer has room for.
    pub(super) fn write(&mut self, now: Instant, bytes: u64) -> u64 {
        let segment = u64::from(self.segment);
        let lacks = self.unsent() < segment
            && self.in_flight() < self.window.congestion
            && self.again.is_empty();
        if lacks {
            self.rate.on_app_limited(self.in_flight());
        }
        let buffered = self.written - self.una;
        let room = SEND_BUFFER.saturating_sub(buffered);
        // The kernel looks before each segment that it fills.
        let unsent = self.unsent();
        let below = self.low_water.saturating_sub(unsent);
        let below = below.div_ceil(segment).saturating_mul(segment);
        let taken = bytes.min(room).min(below);
        if taken > 0 {
            self.busy_since.get_or_insert(now);
        }
        self.written += taken;
        taken
    }

    /// Whether `poll(2)` says that it can be written to.
    pub(super) fn is_writable(&self) -> bool {
        self.unsent().saturating_mul(2) < self.low_water
            && (self.written - self.una) * 3 < SEND_BUFFER * 2
    }

    pub(super) fn unsent(&self) -> u64 {
        self.written - self.next
    }

    /// How long there has been something to send.
    pub(super) fn busy(&self, now: Instant) -> Duration {
        self.busy + self.busy_since.map_or(Duration::ZERO, |at| now.since(at))
    }

    /// Everything may be acknowledged: then nothing is to be sent for a while.
    pub(super) fn check_busy(&mut self, now: Instant) {
        if self.una == self.written {
            self.busy = self.busy(now);
            self.busy_since = None;
        }
    }

    /// Segments in the network.
    pub(super) fn in_flight(&self) -> u32 {
        let out = self.segments.len() as u32;
        (out + self.counts.repaired).saturating_sub(self.counts.delivered + self.counts.lost)
    }

    /// The next segment to put on the link: its number and length.
    pub(super) fn poll_segment(&mut self, now: Instant) -> Option<(u64, u32)> {
        if let Some(forced) = self.repair.forced.take() {
            let segment = match forced {
                Forced::New => self.send_new(now),
                Forced::Again(sequence) => self.send_again(now, sequence),
            };
            if segment.is_some() {
                return segment;
            }
        }
        let wants = !self.again.is_empty() || self.unsent() > 0;
        if !wants {
            self.validate_window(false);
            return None;
        }
        if self.in_flight() >= self.window.congestion {
            self.validate_window(true);
            return None;
        }
        if !self.may_leave(now) {
            return None;
        }
        let segment = match self.again.first().copied() {
            Some(sequence) => self.send_again(now, sequence),
            None => self.send_new(now),
        };
        if self.in_flight() >= self.window.congestion {
            self.validate_window(true);
        }
        segment
    }

    /// Whether the window, rather than the application, is the limit.
    pub(super) fn is_window_limited(&self) -> bool {
        self.usage.limited
            || self.window.is_slow_start() && self.window.congestion < 2 * self.usage.most_out
    }

    pub(super) fn next_timeout(&self) -> Option<Instant> {
        let timers = &self.timers;
        let all = [
            timers.retransmission,
            timers.probe,
            timers.reordering,
            timers.pacing,
        ];
        all.into_iter().flatten().min()
    }

    /// Where a segment stands in the list.
    pub(super) fn find(&self, sequence: u64) -> Option<usize> {
        self.segments
            .binary_search_by_key(&sequence, |segment| segment.sequence)
            .ok()
    }

    fn send_new(&mut self, now: Instant) -> Option<(u64, u32)> {
        let length = self.unsent().min(u64::from(self.segment)) as u32;
        let end = self.next + u64::from(length);
        if length == 0 || end > self.una + self.peer_window {
            return None;
        }
        let idle = self.segments.is_empty();
        self.before_departure(now, idle);
        let sequence = self.next;
        let departure = self.rate.on_sent(now, idle);
        self.segments.push_back(Segment {
            sequence,
            length,
            sent: now,
            departure,
            times: 1,
            delivered: false,
            lost: false,
            repaired: false,
        });
        self.departures.push_back((now, sequence, 1));
        self.next = end;
        if self.repair.phase == Phase::Recovery {
            self.repair.sent += 1;
        }
        self.after_departure(now, length);
        if idle || self.timers.probe.is_some() {
            self.arm(now);
        }
        Some((sequence, length))
    }

    fn send_again(&mut self, now: Instant, sequence: u64) -> Option<(u64, u32)> {
        self.again.remove(&sequence);
        let index = self.find(sequence)?;
        let departure = self.rate.on_sent(now, false);
        let segment = &mut self.segments[index];
        if segment.delivered {
            return None;
        }
        segment.times += 1;
        segment.sent = now;
        segment.departure = departure;
        if segment.needs_repair() {
            segment.repaired = true;
            self.counts.repaired += 1;
        }
        let length = segment.length;
        self.departures.push_back((now, sequence, segment.times));
        self.retransmissions += 1;
        self.repair.sent += 1;
        self.repair.began.get_or_insert(now);
        self.after_departure(now, length);
        if self.timers.retransmission.is_none() {
            self.arm(now);
        }
        Some((sequence, length))
    }

    fn before_departure(&mut self, now: Instant, idle: bool) {
        if !idle {
            return;
        }
        let pause = now.since(self.last_sent);
        let timeout = self.rtt.timeout();
        if !self.control.is_sovereign() && self.sent_segments > 0 && pause > timeout {
            self.restart_window(pause, timeout);
        }
        let limited = self.rate.is_app_limited();
        self.control
            .on_restart(now, limited, self.last_sent, &mut self.window);
    }

    /// Slow start after idle: the window halves with every time-out that has passed.
    ///
    /// Source: RFC 2861; Linux `tcp_cwnd_restart`.
    fn restart_window(&mut self, pause: Duration, timeout: Duration) {
        let window = &mut self.window;
        let restart = INITIAL_WINDOW.min(window.congestion);
        window.threshold = window.threshold.max(window.congestion / 4 * 3);
        let mut left = pause;
        while left > timeout && window.congestion > restart {
            window.congestion /= 2;
            left -= timeout;
        }
        window.congestion = window.congestion.max(restart);
    }

    fn after_departure(&mut self, now: Instant, length: u32) {
        self.last_sent = now;
        self.sent_segments += 1;
        self.burst_left = self.burst_left.saturating_sub(1);
        let Some(rate) = self.window.pacing else {
            return;
        };
        if self.sent_segments <= u64::from(INITIAL_WINDOW) {
            return;
        }
        let span = u64::from(length) * 1_000_000_000 / rate.max(1);
        // What was lost to a late timer is made up for, by half of the spacing at most.
        let late = now.since(self.departure).as_nanos() as u64;
        let span = span - late.min(span / 2);
        self.departure = self.departure.max(now) + Duration::from_nanos(span);
    }

    /// Whether pacing lets a segment leave now.
    fn may_leave(&mut self, now: Instant) -> bool {
        if self.window.pacing.is_none() || self.burst_left > 0 {
            return true;
        }
        if self.departure > now {
            self.timers.pacing = Some(self.departure);
            return false;
        }
        self.timers.pacing = None;
        self.burst_left = self.window.burst();
        true
    }

    fn validate_window(&mut self, limited: bool) {
        let out = self.segments.len() as u32;
        let usage = &mut self.usage;
        if self.una >= usage.until || limited || !usage.limited && out > usage.most_out {
            usage.limited = limited;
            usage.most_out = out;
            usage.until = self.next;
        }
    }
}

impl Segment {
    /// It is lost, and was not sent again since.
    pub(super) fn needs_repair(&self) -> bool {
        self.lost && !self.repaired
    }
}

impl Repair {
    fn new() -> Self {
        Self {
            phase: Phase::Open,
            until: 0,
            prior_window: 0,
            prior_threshold: 0,
            began: None,
            delivered: 0,
            sent: 0,
            probe: None,
            backoff: 0,
            forced: None,
        }
    }
}

/// `net.ipv4.tcp_wmem`'s largest.
const SEND_BUFFER: u64 = 4 << 20;
