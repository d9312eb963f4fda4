use std::time::Duration;

use hawser_types::ByteCount;

/// Coupling of paths that share a bottleneck, so that together they take there what one flow would.
///
/// Source: RFC 6356 §3.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Coupling {
    /// Aggressiveness of the joint increase, per byte of `total`.
    alpha: f64,
    /// Sum of their windows.
    total: f64,
}

impl Coupling {
    /// Computes the coupling of paths with these windows and round-trip times; `None` where there
    /// is nothing to couple.
    pub(crate) fn among(paths: &[(ByteCount, Duration)]) -> Option<Self> {
        let (mut total, mut best, mut sum) = (0.0, 0.0_f64, 0.0);
        for (window, rtt) in paths {
            let (window, rtt) = (window.as_u64() as f64, rtt.as_secs_f64());
            total += window;
            best = best.max(window / (rtt * rtt));
            sum += window / rtt;
        }
        let alpha = total * best / (sum * sum);
        (paths.len() > 1 && alpha.is_finite() && total > 0.0).then_some(Self { alpha, total })
    }

    /// Returns the increase of a window for `bytes` acknowledged in congestion avoidance; never
    /// more than uncoupled.
    pub(super) fn increase(self, bytes: f64, packet: f64, window: f64) -> f64 {
        let alone = bytes * packet / window;
        (self.alpha * bytes * packet / self.total).min(alone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(window: u64, rtt: u64) -> (ByteCount, Duration) {
        (ByteCount::new(window), Duration::from_millis(rtt))
    }

    #[test]
    fn equal_paths_grow_together_as_one() {
        let coupling = Coupling::among(&[path(20_000, 40), path(20_000, 40)]).unwrap();
        // Each path acknowledges its window within a round trip, so that half a packet is its
        // share.
        let each = coupling.increase(20_000.0, 1200.0, 20_000.0);
        assert!((each - 300.0).abs() < 1e-6, "{each}");
        let alone = 1200.0;
        assert!(each < alone);
    }

    #[test]
    fn no_path_grows_faster_than_alone() {
        let coupling = Coupling::among(&[path(1_000_000, 500), path(2000, 5)]).unwrap();
        for window in [2000.0, 1_000_000.0] {
            assert!(coupling.increase(1200.0, 1200.0, window) <= 1200.0 * 1200.0 / window);
        }
    }

    #[test]
    fn nothing_is_coupled_where_nothing_is_known() {
        assert_eq!(Coupling::among(&[]), None);
        assert_eq!(Coupling::among(&[path(1000, 10)]), None);
        assert_eq!(Coupling::among(&[path(1000, 10), path(1000, 0)]), None);
        assert_eq!(Coupling::among(&[path(0, 10), path(0, 10)]), None);
    }
}
