use std::time::Duration;

use hawser_types::Instant;

use crate::association::PathSample;

/// Detection of a policer in front of a link, by the datagrams that an association loses there.
///
/// A network that limits UDP drops what exceeds the limit and has no queue. A start or a probe
/// beyond the limit therefore loses a large share at the round-trip time of the empty path. A queue
/// that overflows lengthens the round trip, and a radio link loses a smaller share.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Policing {
    window: Option<Window>,
    /// Lowest mean round-trip time of a window: that of the path without a queue.
    usual: Option<Duration>,
    found: Option<Instant>,
}

/// State of a link at the beginning of a time that is judged as a whole.
#[derive(Clone, Copy, Debug)]
struct Window {
    began: Instant,
    packets: u64,
    lost: u64,
    /// Sum of the round-trip times at each look since, their number, and the longest.
    rtts: Duration,
    looks: u32,
    longest: Duration,
}

impl Policing {
    /// Takes in the state of the link's paths.
    pub(super) fn on_look<'a>(
        &mut self,
        now: Instant,
        paths: impl Iterator<Item = &'a PathSample> + Clone,
    ) {
        let packets = paths.clone().map(|path| path.packets).sum();
        let lost = paths.clone().map(|path| path.overtaken).sum();
        let rtt = paths.clone().filter_map(|path| path.rtt).max();
        let min_rtt = paths.filter_map(|path| path.min_rtt).max();
        let fresh = Window {
            began: now,
            packets,
            lost,
            rtts: Duration::ZERO,
            looks: 0,
            longest: Duration::ZERO,
        };
        // Counts fall when a path is gone.
        let window = self
            .window
            .filter(|it| it.packets <= packets && it.lost <= lost);
        let window = self.window.insert(window.unwrap_or(fresh));
        window.on_look(rtt);
        let span = now.since(window.began);
        let sent = packets - window.packets;
        let lost = lost - window.lost;
        let is_over = span >= SPAN.max(rtt.unwrap_or_default() * 2) && sent >= MIN_SENT;
        if is_over {
            let without = match self.usual {
                Some(usual) => usual + usual / 16,
                // Over radio the mean is far above the minimum.
                None => min_rtt.unwrap_or_default() * 3 / 2,
            };
            let has_queue = window.longest > without + SLACK;
            if lost * SHARE >= sent && !has_queue {
                self.found = Some(now);
            }
            let mean = window.rtts.checked_div(window.looks);
            self.usual = self.usual.into_iter().chain(mean).min();
            self.window = Some(fresh);
        }
    }

    /// Tells whether a policer was found lately.
    pub(super) fn is_found(&self, now: Instant) -> bool {
        self.found.is_some_and(|at| now.since(at) < LASTS)
    }
}

impl Window {
    fn on_look(&mut self, rtt: Option<Duration>) {
        if let Some(rtt) = rtt {
            self.rtts = self.rtts.saturating_add(rtt);
            self.looks = self.looks.saturating_add(1);
            self.longest = self.longest.max(rtt);
        }
    }
}

/// Shortest time that is judged, or two round trips.
const SPAN: Duration = Duration::from_millis(300);
/// Fewer packets say nothing.
const MIN_SENT: u64 = 32;
/// A policer makes at least one packet in so many lost. Without one hardly any but links that fail
/// or serve in turns lose as many, measured in the simulator.
const SHARE: u64 = 4;
/// Time of a short packet in front of a long one, on a link of a megabit.
const SLACK: Duration = Duration::from_millis(10);
/// Time for which a window counts.
const LASTS: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs windows of 320 ms, each in 32 looks: packets sent, packets lost, and round-trip time in
    /// ms, of 40 ms without a queue. Tells whether a policer is found then.
    fn finds(windows: &[(u64, u64, u64)]) -> bool {
        let mut policing = Policing::default();
        let mut now = Instant::ZERO;
        let mut path = PathSample {
            min_rtt: Some(Duration::from_millis(40)),
            ..PathSample::default()
        };
        policing.on_look(now, [path].iter());
        for (sent, lost, rtt) in windows {
            path.rtt = Some(Duration::from_millis(*rtt));
            for _ in 0..32 {
                now += Duration::from_millis(10);
                path.packets += sent / 32;
                path.overtaken += lost / 32;
                policing.on_look(now, [path].iter());
            }
        }
        policing.is_found(now)
    }

    #[test]
    fn a_large_share_that_is_lost_without_a_queue_is_a_policer() {
        assert!(finds(&[(320, 128, 41)]));
        assert!(finds(&[(320, 0, 40), (320, 128, 45)]));
    }

    #[test]
    fn a_queue_that_overflows_is_none() {
        assert!(!finds(&[(320, 128, 90)]));
    }

    #[test]
    fn a_short_queue_of_a_path_shows_once_it_was_seen_without() {
        assert!(finds(&[(320, 128, 54)]));
        assert!(!finds(&[(320, 0, 40), (320, 128, 54)]));
    }

    #[test]
    fn a_round_trip_that_is_usually_far_above_the_shortest_is_no_queue() {
        assert!(finds(&[(320, 0, 56), (320, 128, 60)]));
    }

    #[test]
    fn a_radio_link_that_loses_a_tenth_is_none() {
        assert!(!finds(&[(320, 32, 41); 10]));
    }

    #[test]
    fn a_few_packets_say_nothing() {
        assert!(!finds(&[(0, 32, 41)]));
    }

    #[test]
    fn what_was_found_is_forgotten_after_a_while() {
        let mut windows = vec![(320, 128, 41)];
        windows.extend([(320, 0, 41); 14]);
        assert!(finds(&windows));
        windows.extend([(320, 0, 41); 3]);
        assert!(!finds(&windows));
    }
}
