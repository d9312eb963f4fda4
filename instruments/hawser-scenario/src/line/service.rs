//! Service of a line over time.

use std::time::Duration;

use hawser_types::{ByteCount, Instant, Rate};
use rand::Rng;
use rand::rngs::SmallRng;

use crate::{Line, Segment, Service};

/// The rate of a line over time, read forwards only.
#[derive(Debug)]
pub(super) struct Server {
    pattern: Pattern,
    rate: Rate,
    until: Option<Instant>,
}

#[derive(Debug)]
enum Pattern {
    Steady,
    Bursty {
        on: (Duration, Duration),
        off: (Duration, Duration),
        burst: Rate,
        serving: bool,
    },
    Trace {
        segments: Vec<Segment>,
        next: usize,
    },
}

impl Server {
    pub(super) fn new(line: &Line, now: Instant) -> Self {
        let (pattern, rate, until) = match &line.service {
            Service::Steady => (Pattern::Steady, line.rate, None),
            Service::Bursty { on, off } => {
                let (on_mean, off_mean) = ((on.0 + on.1) / 2, (off.0 + off.1) / 2);
                let per_turn = line.rate * (on_mean + off_mean);
                let pattern = Pattern::Bursty {
                    on: *on,
                    off: *off,
                    burst: Rate::over(per_turn, on_mean),
                    serving: false,
                };
                (pattern, Rate::ZERO, Some(now))
            }
            Service::Trace(segments) => {
                let pattern = Pattern::Trace {
                    segments: segments.clone(),
                    next: 0,
                };
                (pattern, Rate::ZERO, Some(now))
            }
        };
        Self {
            pattern,
            rate,
            until,
        }
    }

    /// Returns when `bytes` have been served if service may begin at `start`, which must not be
    /// before the result of an earlier call.
    pub(super) fn finish(
        &mut self,
        start: Instant,
        bytes: ByteCount,
        rng: &mut SmallRng,
    ) -> Instant {
        let mut at = start;
        let mut left = bytes;
        loop {
            let Some(until) = self.until else {
                return at + self.rate.time_for(left).unwrap_or(NEVER);
            };
            if at < until {
                match self.rate.time_for(left) {
                    Some(span) if at + span <= until => return at + span,
                    _ => {
                        left -= self.rate * until.since(at);
                        at = until;
                    }
                }
            }
            self.turn(until, rng);
        }
    }

    fn turn(&mut self, from: Instant, rng: &mut SmallRng) {
        let span = match &mut self.pattern {
            Pattern::Steady => return,
            Pattern::Bursty {
                on,
                off,
                burst,
                serving,
            } => {
                *serving = !*serving;
                self.rate = if *serving { *burst } else { Rate::ZERO };
                let range = if *serving { *on } else { *off };
                rng.random_range(range.0..=range.1)
            }
            Pattern::Trace { segments, next } => {
                let segment = segments[*next];
                *next = (*next + 1) % segments.len();
                self.rate = segment.rate;
                segment.span
            }
        };
        self.until = Some(from + span);
    }
}

/// Stands for a time that is never reached.
const NEVER: Duration = Duration::from_secs(1 << 32);

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    fn line(rate: &str, service: Service) -> Line {
        Line {
            rate: rate.parse().unwrap(),
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            loss: crate::Loss::NONE,
            queue: Duration::from_millis(100),
            service,
            largest_packet: None,
        }
    }

    fn time_of(bytes: u64, line: &Line) -> Duration {
        let mut rng = SmallRng::seed_from_u64(7);
        let mut server = Server::new(line, Instant::ZERO);
        let mut at = Instant::ZERO;
        for _ in 0..bytes / 1500 {
            at = server.finish(at, ByteCount::new(1500), &mut rng);
        }
        at.since(Instant::ZERO)
    }

    #[test]
    fn a_steady_line_serves_at_its_rate() {
        let took = time_of(1_500_000, &line("12Mbit/s", Service::Steady));
        assert_eq!(took, Duration::from_secs(1));
    }

    #[test]
    fn a_bursty_line_keeps_its_mean_rate() {
        let range = (Duration::from_millis(200), Duration::from_millis(400));
        let bursty = Service::Bursty {
            on: range,
            off: range,
        };
        let took = time_of(150_000_000, &line("12Mbit/s", bursty)).as_secs_f64();
        assert!((96.0..104.0).contains(&took), "{took}");
    }

    #[test]
    fn a_trace_repeats_and_waits_through_silence() {
        let segment = |rate: &str| Segment {
            span: Duration::from_millis(100),
            rate: rate.parse().unwrap(),
        };
        let trace = Service::Trace(vec![segment("24Mbit/s"), segment("0bit/s")]);
        let took = time_of(1_500_000, &line("12Mbit/s", trace));
        assert_eq!(took, Duration::from_millis(900));
    }
}
