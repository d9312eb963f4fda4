//! Forecasts a link's near future from the strength of its radio signal.
//!
//! Traffic leaves a link whose signal fades before the link goes. A wrong forecast costs little:
//! the link keeps its connections, and is used again when the signal has been well for a while.

use std::collections::VecDeque;
use std::time::Duration;

use hawser_types::{Instant, Radio, SignalState, SignalStrength};

/// Judges the signal of one link.
///
/// The contract: tell each reading by [`Self::handle_reading`], and call [`Self::handle_timeout`]
/// at [`Self::poll_timeout`]; [`Self::state`] is up to date after either. Readings come about once
/// a second, or once and for all from the user.
///
/// A link fades when its strength is below the threshold to leave at, or falls so fast that it will
/// be lost within [`LOOK_AHEAD`]. It is good again when the strength has been [`HYSTERESIS`] above
/// that threshold, and not falling so fast, for [`PATIENCE`].
#[derive(Clone, Debug)]
pub struct SignalJudge {
    thresholds: SignalThresholds,
    /// The readings of the last [`TREND_SPAN`], at most [`MAX_READINGS`], and the latest in any
    /// case.
    readings: VecDeque<(Instant, SignalStrength)>,
    state: SignalState,
    /// Time since when the strength has been enough for coming back.
    well_since: Option<Instant>,
}

/// Strengths at which the state of a link changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignalThresholds {
    /// Below it the link fades.
    pub leave: SignalStrength,
    /// Below it the link is lost.
    pub lost: SignalStrength,
}

impl SignalThresholds {
    /// Thresholds for a kind of radio.
    ///
    /// Source for Wi-Fi: the least RSSI at 2.4 GHz with which Android's selection of networks takes
    /// one as acceptable (-80 dBm); 10 dB below, a receiver need not decode the slowest rate any
    /// more (-82 dBm, IEEE 802.11-2020 table 17-18), and few still do. Source for the others: where
    /// Android's `AccessNetworkThresholds` go from moderate to poor (leave) and from poor to none
    /// (lost): RSCP -104 and -114, RSRP -118 and -128. For 5G it has none below -110, so that is
    /// where traffic leaves, and 10 dB below it is lost.
    pub const fn of(radio: Radio) -> Self {
        match radio {
            Radio::WiFi => Self::at(-80),
            Radio::Umts => Self::at(-104),
            Radio::Lte => Self::at(-118),
            Radio::Nr => Self::at(-110),
        }
    }

    /// Thresholds of a link that is to be left below `leave`.
    pub const fn leaving_below(leave: SignalStrength) -> Self {
        Self::at(leave.dbm())
    }

    const fn at(leave: i16) -> Self {
        Self {
            leave: nearest(leave),
            lost: nearest(leave - POOR),
        }
    }
}

impl SignalJudge {
    /// A judge without a reading, which takes the link for good.
    pub fn new(thresholds: SignalThresholds) -> Self {
        Self {
            thresholds,
            readings: VecDeque::new(),
            state: SignalState::default(),
            well_since: None,
        }
    }

    /// Returns the thresholds.
    pub fn thresholds(&self) -> SignalThresholds {
        self.thresholds
    }

    /// Judges by other thresholds from the next reading on.
    pub fn set_thresholds(&mut self, thresholds: SignalThresholds) {
        self.thresholds = thresholds;
    }

    /// Takes in a reading.
    pub fn handle_reading(&mut self, now: Instant, strength: SignalStrength) {
        let is_recent = |(at, _): &(Instant, SignalStrength)| now.since(*at) <= TREND_SPAN;
        while self.readings.len() >= MAX_READINGS
            || self.readings.front().is_some_and(|it| !is_recent(it))
        {
            self.readings.pop_front();
        }
        self.readings.push_back((now, strength));
        let is_falling = self.is_about_to_be_lost();
        let returns_at = self.thresholds.leave.dbm() + HYSTERESIS;
        let is_well = strength.dbm() >= returns_at && !is_falling;
        self.well_since = if is_well {
            self.well_since.or(Some(now))
        } else {
            None
        };
        self.state = match self.state {
            _ if strength < self.thresholds.lost => SignalState::Lost,
            SignalState::Good if strength < self.thresholds.leave || is_falling => {
                SignalState::Fading
            }
            SignalState::Lost if strength.dbm() >= self.thresholds.lost.dbm() + HYSTERESIS => {
                SignalState::Fading
            }
            state => state,
        };
        self.handle_timeout(now);
    }

    /// Takes note of the time.
    pub fn handle_timeout(&mut self, now: Instant) {
        let is_due = self.poll_timeout().is_some_and(|due| due <= now);
        if is_due {
            self.state = SignalState::Good;
        }
    }

    /// Returns when to call [`Self::handle_timeout`]; `None` means not before the next reading.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let well_since = self.well_since?;
        (self.state != SignalState::Good).then(|| well_since + PATIENCE)
    }

    /// Returns the state as of the latest call.
    pub fn state(&self) -> SignalState {
        self.state
    }

    /// True if the strength is so low that the link promises less than others of which nothing is
    /// known: below [`WEAK`] above the threshold to leave at.
    pub fn is_weak(&self) -> bool {
        let weak_below = self.thresholds.leave.dbm() + WEAK;
        self.strength().is_some_and(|it| it.dbm() < weak_below)
    }

    /// Returns the latest reading.
    pub fn strength(&self) -> Option<SignalStrength> {
        self.readings.back().map(|(_, strength)| *strength)
    }

    /// True if the strength, as it has gone lately, will be below the least useful one soon.
    fn is_about_to_be_lost(&self) -> bool {
        let (Some((last, strength)), Some(slope)) = (self.readings.back(), self.slope()) else {
            return false;
        };
        let lasted = self.readings.front().map(|(first, _)| last.since(*first));
        let ahead = f64::from(strength.dbm()) + slope * LOOK_AHEAD.as_secs_f64();
        lasted >= Some(LEAST_TREND) && ahead < f64::from(self.thresholds.lost.dbm())
    }

    /// Returns the slope of the line through the readings with the least squares of errors, in
    /// dB/s; `None` where there are too few.
    fn slope(&self) -> Option<f64> {
        let count = self.readings.len() as f64;
        let (first, _) = *self.readings.front().filter(|_| count >= 3.0)?;
        let points = || {
            let points = self.readings.iter();
            points.map(move |(at, it)| (at.since(first).as_secs_f64(), f64::from(it.dbm())))
        };
        let mean_x = points().map(|(x, _)| x).sum::<f64>() / count;
        let mean_y = points().map(|(_, y)| y).sum::<f64>() / count;
        let spread = points().map(|(x, _)| (x - mean_x).powi(2)).sum::<f64>();
        let joint = points()
            .map(|(x, y)| (x - mean_x) * (y - mean_y))
            .sum::<f64>();
        (spread > 0.0).then(|| joint / spread)
    }
}

const fn nearest(dbm: i16) -> SignalStrength {
    match SignalStrength::new(dbm) {
        Some(strength) => strength,
        None => SignalStrength::MIN,
    }
}

/// Between the strength at which a link is left and the one at which it is lost, in dB: the span of
/// what Android calls poor.
const POOR: i16 = 10;
/// Strength above the threshold to leave at that a link needs for coming back, in dB. Strengths
/// vary by some 3 dB where nothing moves; with twice that a link at the threshold does not swing.
pub const HYSTERESIS: i16 = 6;
/// Strength above the threshold to leave at below which a link is weak, in dB. With -68 dBm a
/// receiver of Wi-Fi need decode 39 of 65 Mbit/s (-70 dBm for MCS 4, -64 dBm for MCS 7 at 20 MHz;
/// IEEE 802.11-2020 table 19-23), and retries take a part of that.
pub const WEAK: i16 = 12;
/// How long a link's signal has to be well before the link is used again.
pub const PATIENCE: Duration = Duration::from_secs(3);
/// How far ahead a fall is followed: longer than a handover takes, shorter than most falls that end
/// by themselves.
pub const LOOK_AHEAD: Duration = Duration::from_secs(2);
/// The past that a trend is taken from.
const TREND_SPAN: Duration = Duration::from_secs(4);
/// Fewer seconds show no trend.
const LEAST_TREND: Duration = Duration::from_secs(1);
const MAX_READINGS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    fn dbm(strength: i16) -> SignalStrength {
        SignalStrength::new(strength).unwrap()
    }

    /// Tells one reading a second, and returns the states after each.
    fn states(judge: &mut SignalJudge, from: u64, readings: &[i16]) -> Vec<SignalState> {
        let times = (from..).step_by(1000);
        let states = times.zip(readings).map(|(millis, strength)| {
            judge.handle_reading(at(millis), dbm(*strength));
            judge.state()
        });
        states.collect()
    }

    fn wifi() -> SignalJudge {
        SignalJudge::new(SignalThresholds::of(Radio::WiFi))
    }

    use SignalState::{Fading, Good, Lost};

    #[test]
    fn a_link_that_is_read_once_fades_at_once_and_comes_back_after_a_while() {
        let mut judge = wifi();
        assert_eq!((judge.state(), judge.poll_timeout()), (Good, None));
        assert_eq!(states(&mut judge, 0, &[-80, -81]), [Good, Fading]);
        // Above the threshold, and not by enough.
        assert_eq!(states(&mut judge, 9000, &[-75]), [Fading]);
        assert_eq!(judge.poll_timeout(), None);
        assert_eq!(states(&mut judge, 20_000, &[-74]), [Fading]);
        let due = at(20_000) + PATIENCE;
        assert_eq!(judge.poll_timeout(), Some(due));
        judge.handle_timeout(at(22_999));
        assert_eq!(judge.state(), Fading);
        judge.handle_timeout(due);
        assert_eq!((judge.state(), judge.poll_timeout()), (Good, None));
    }

    #[test]
    fn a_strength_that_swings_around_the_threshold_brings_the_link_back_only_once() {
        let mut judge = wifi();
        let swinging = [-79, -82, -77, -81, -78, -76, -80, -74, -79, -75];
        let seen = states(&mut judge, 0, &swinging);
        assert_eq!(seen[0], Good);
        assert!(seen[1..].iter().all(|state| *state == Fading), "{seen:?}");
        let calm = states(&mut judge, 20_000, &[-70, -71, -70, -72, -78, -79]);
        assert_eq!(calm, [Fading, Fading, Fading, Good, Good, Good]);
    }

    #[test]
    fn a_link_whose_strength_falls_fast_fades_before_the_threshold() {
        // Out of the house: 9 dB a second.
        let mut judge = wifi();
        let seen = states(&mut judge, 0, &[-50, -59, -68, -77, -86, -95]);
        assert_eq!(seen, [Good, Good, Good, Fading, Fading, Lost]);
        // A door closes: as deep, and no further.
        let mut judge = wifi();
        let seen = states(&mut judge, 0, &[-60, -60, -60, -70, -70, -70]);
        assert_eq!(seen, [Good; 6]);
    }

    #[test]
    fn a_lost_link_fades_before_it_is_good_again() {
        let mut judge = wifi();
        assert_eq!(
            states(&mut judge, 0, &[-91, -86, -84]),
            [Lost, Lost, Fading]
        );
        assert_eq!(states(&mut judge, 10_000, &[-60]), [Fading]);
    }

    #[test]
    fn each_radio_has_its_scale_and_the_user_may_have_another() {
        for (radio, leave, lost) in [
            (Radio::WiFi, -80, -90),
            (Radio::Umts, -104, -114),
            (Radio::Lte, -118, -128),
            (Radio::Nr, -110, -120),
        ] {
            let expected = SignalThresholds {
                leave: dbm(leave),
                lost: dbm(lost),
            };
            assert_eq!(SignalThresholds::of(radio), expected);
        }
        let least = SignalThresholds::leaving_below(SignalStrength::MIN);
        assert_eq!(
            (least.leave, least.lost),
            (SignalStrength::MIN, SignalStrength::MIN)
        );
        let mut judge = SignalJudge::new(SignalThresholds::leaving_below(dbm(-70)));
        assert_eq!(states(&mut judge, 0, &[-71]), [Fading]);
    }

    #[test]
    fn a_weak_link_is_good_and_promises_less() {
        let mut judge = wifi();
        assert!(!judge.is_weak(), "nothing is known");
        for (strength, expected) in [(-67, false), (-68, false), (-69, true), (-79, true)] {
            judge.handle_reading(at(0), dbm(strength));
            assert_eq!(
                (judge.is_weak(), judge.state()),
                (expected, Good),
                "{strength}"
            );
        }
    }

    #[test]
    fn readings_are_bounded_and_a_clock_that_stands_still_shows_no_trend() {
        let mut judge = wifi();
        for _ in 0..1000 {
            judge.handle_reading(at(5), dbm(-60));
        }
        assert!(judge.readings.len() <= MAX_READINGS);
        assert_eq!((judge.slope(), judge.state()), (None, Good));
        assert_eq!(judge.strength(), Some(dbm(-60)));
    }
}
