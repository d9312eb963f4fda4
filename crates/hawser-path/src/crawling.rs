//! When a path crawls: it is as good as dead beside another one, and still answers.
//!
//! Channels of a session and paths of an association are judged by the same figures. `best` is the
//! rate of the best other path; `came` is what [`Progress`](crate::Progress) counted.

use std::time::Duration;

use hawser_types::{ByteCount, Rate};

/// Returns the time over which it shows whether a path crawls, by its shortest round trip.
pub fn span(shortest: Duration) -> Duration {
    SPAN.max(shortest * ROUND_TRIPS)
}

/// Returns the time over which arrivals have to be counted to tell whether a path is slower than
/// `best` by `factor`; `None` if they cannot tell. `span` is enough if even so slow a path brings
/// a few packets in it. If another path is idle, a few packets of `best` are enough, and the time
/// is at least `alone`, in which the path brings several at its own measured rate.
pub fn telling_span(
    best: Rate,
    span: Duration,
    factor: u64,
    any_idle: impl FnOnce() -> bool,
    alone: impl FnOnce() -> Duration,
) -> Option<Duration> {
    match (best * span).as_u64() {
        most if most / factor >= FEW_BYTES => Some(span),
        most if most >= FEW_BYTES && any_idle() => Some(span.max(alone())),
        _ => None,
    }
}

/// Returns the rate to compare a path with: what another one is known to carry, or what it brought
/// in a span while that is not known.
pub fn rate_beside(known: Option<Rate>, came: Option<ByteCount>, span: Duration) -> Rate {
    known.unwrap_or_else(|| Rate::over(came.unwrap_or_default(), span))
}

/// Tells whether a path that brought so much in a span is not worth waiting for.
pub fn is_crawl(came: ByteCount, span: Duration, best: Rate) -> bool {
    came.as_u64() < (best * span).as_u64() / LEAST_SHARE
}

/// Returns the rate at which a path brought `came` in a span, if that is far below its `usual` rate
/// or the rate of the `best` other path.
pub fn slow_pace(came: ByteCount, span: Duration, usual: Rate, best: Rate) -> Option<Rate> {
    let pace = Rate::over(came, span);
    let usual = usual.max(best);
    (pace.bytes_per_second() < usual.bytes_per_second() / FAR_BELOW).then_some(pace)
}

/// Returns the longest time in which a trial of so many bytes comes over a path that does not crawl
/// any more. `shortest`: the path's round trip; `delayed`: what an answer may wait for.
pub fn longest_trial(
    bytes: ByteCount,
    shortest: Duration,
    delayed: Duration,
    best: Rate,
) -> Duration {
    let least = Rate::from_bytes_per_second(best.bytes_per_second() / ENOUGH);
    shortest + delayed + least.time_for(bytes).unwrap_or_default()
}

/// Returns the pause after a trial of so many bytes: trials take a hundredth of what the best other
/// path carries, at most.
pub fn pause_after_trial(bytes: ByteCount, best: Rate) -> Duration {
    best.time_for(bytes).unwrap_or_default() * TRIALS_SHARE
}

/// A path that brings less than one part in so many of what another one does is not worth waiting
/// for: what it would add is lost in the measurements.
pub const LEAST_SHARE: u64 = 64;
/// A path that brings less than one part in so many is far below another.
pub const FAR_BELOW: u64 = 4;
/// A rate that was measured on less is that of the queue's empty beginning.
pub const MEASURED_AFTER: u64 = 32 * 1024;
/// Two segments: one more or less would be chance.
pub const FEW_BYTES: u64 = 2 * 1448;
/// Three packets. A path that was given little brings little.
pub const MUCH: u64 = 3 * 1448;
/// A path that brings one part in so many does not crawl any more.
const ENOUGH: u64 = 32;
/// Trials take one byte in so many of what the best path carries.
const TRIALS_SHARE: u32 = 100;
/// Longer than acknowledgements are delayed, and than a wireless link's sleep.
const SPAN: Duration = Duration::from_millis(150);
/// In which a window of one segment has brought seven.
const ROUND_TRIPS: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: Duration = Duration::from_millis(150);

    fn rate(kbit: u64) -> Rate {
        Rate::from_bits_per_second(kbit * 1000)
    }

    #[test]
    fn a_span_tells_if_several_packets_would_come_or_another_path_is_idle() {
        let tells = |best, any_idle| {
            let alone = || Duration::from_secs(1);
            telling_span(rate(best), SPAN, LEAST_SHARE, || any_idle, alone)
        };
        assert_eq!(tells(16_000, false), Some(SPAN));
        assert_eq!(tells(1_000, false), None);
        assert_eq!(tells(1_000, true), Some(Duration::from_secs(1)));
        assert_eq!(tells(60, true), None);
    }

    #[test]
    fn a_path_crawls_below_its_share_and_not_at_it() {
        // 300,000 bytes would come over the best other path.
        let crawls = |bytes| is_crawl(ByteCount::new(bytes), SPAN, rate(16_000));
        assert!(crawls(4_686));
        assert!(!crawls(4_688));
    }

    #[test]
    fn a_pace_is_told_only_far_below_what_is_usual() {
        let pace = |bytes| slow_pace(ByteCount::new(bytes), SPAN, rate(1_000), rate(16_000));
        assert_eq!(pace(15_000), Some(rate(800)));
        assert_eq!(pace(75_000), None);
    }

    #[test]
    fn trials_have_a_hundredth_and_the_time_for_a_part() {
        let bytes = ByteCount::new(2_000);
        let pause = |best| pause_after_trial(bytes, rate(best));
        assert_eq!(pause(16_000), Duration::from_millis(100));
        assert_eq!(pause(1_000), Duration::from_millis(1_600));
        let (shortest, delayed) = (Duration::from_millis(50), Duration::from_millis(10));
        let longest = longest_trial(bytes, shortest, delayed, rate(16_000));
        assert_eq!(longest, Duration::from_millis(50 + 10 + 32));
    }
}
