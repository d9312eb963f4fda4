use std::time::Duration;

use hawser_session::LostSegment;
use hawser_types::Instant;

/// Maximum segment size that connections over one link announce.
///
/// It is small on a link that drops large packets without an ICMP message. After a while larger
/// segments are tried again, because the route may have changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentLimit {
    lost: Option<LostSegment>,
}

impl SegmentLimit {
    /// Records the size of lost segments on the link. Returns true if smaller ones are used from
    /// now on.
    pub fn learn(&mut self, now: Instant, lost: Option<LostSegment>) -> bool {
        let before = self.limit(now);
        if lost.map(|lost| lost.at) > self.lost.map(|lost| lost.at) {
            self.lost = lost;
        }
        let size = |limit: Option<u16>| limit.unwrap_or(u16::MAX);
        size(self.limit(now)) < size(before)
    }

    /// Returns the maximum segment size to announce; `None` for the system's default.
    pub fn limit(&self, now: Instant) -> Option<u16> {
        let lost = self.lost.filter(|lost| now.since(lost.at) < TRY_LARGER)?;
        let fits = |limit: &&u16| u32::from(**limit) < lost.size;
        LIMITS.iter().find(fits).or(LIMITS.last()).copied()
    }
}

/// Payload and options of a packet of 1280 bytes, which every IPv6 link carries (RFC 8200 §5), and
/// the default of IPv4 (RFC 9293 §3.7.1).
const LIMITS: [u16; 2] = [1220, 536];
/// Source: RFC 4821 §7.4, the pause before a larger packet is tried.
const TRY_LARGER: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    fn lost(size: u32, seconds: u64) -> Option<LostSegment> {
        let at = at(seconds);
        Some(LostSegment { size, at })
    }

    #[test]
    fn each_size_that_is_lost_leads_to_the_next_smaller_one() {
        let mut limit = SegmentLimit::default();
        assert_eq!(limit.limit(at(1)), None);
        assert!(limit.learn(at(1), lost(1448, 1)));
        assert_eq!(limit.limit(at(1)), Some(1220));
        // A loss on another channel that was opened earlier.
        assert!(!limit.learn(at(2), lost(1448, 2)));
        assert!(limit.learn(at(3), lost(1208, 3)));
        assert_eq!(limit.limit(at(3)), Some(536));
        assert!(!limit.learn(at(4), lost(100, 4)));
        assert_eq!(limit.limit(at(4)), Some(536));
    }

    #[test]
    fn larger_segments_are_tried_again_after_ten_minutes() {
        let mut limit = SegmentLimit::default();
        limit.learn(at(1), lost(1448, 1));
        assert_eq!(limit.limit(at(600)), Some(1220));
        assert_eq!(limit.limit(at(601)), None);
        assert!(!limit.learn(at(700), lost(1448, 1)));
        assert!(limit.learn(at(701), lost(1448, 701)));
    }
}
