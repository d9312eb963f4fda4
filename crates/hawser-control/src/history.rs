use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use hawser_types::{LinkIndex, Rate};
use serde::{Deserialize, Serialize};

use crate::{LinkState, LinkStatus};

/// Rates of each link over the last minutes, in samples at equal intervals.
///
/// Every list has one entry per sample, the oldest first, so all lists are equally long.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct HistoryReport {
    /// Time of the latest sample, in milliseconds since 1970-01-01 00:00 UTC, by the daemon's
    /// clock.
    pub at_unix_ms: u64,
    /// Time between two samples.
    #[serde(rename = "every_ms", with = "crate::units::milliseconds")]
    pub every: Duration,
    /// Links that were usable or carried data at any of the samples, in the order of their numbers.
    pub links: Vec<LinkHistory>,
}

/// Rates of one link.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct LinkHistory {
    /// The interface's name.
    pub name: String,
    /// The kernel's number for it.
    pub index: LinkIndex,
    /// Rate that left by it; 0 while the link did not exist.
    #[serde(rename = "up_bps", with = "crate::units::bits_per_second::list")]
    pub up: Vec<Rate>,
    /// Rate that arrived by it; 0 while the link did not exist.
    #[serde(rename = "down_bps", with = "crate::units::bits_per_second::list")]
    pub down: Vec<Rate>,
    /// Its round-trip time, if known.
    #[serde(rename = "rtt_ms", with = "crate::units::milliseconds::option_list")]
    pub rtt: Vec<Option<Duration>>,
    /// Its state; `None` while the link did not exist.
    #[serde(default)]
    pub state: Vec<Option<LinkState>>,
}

/// Keeps the link rates of the last ten minutes, in bounded memory.
///
/// Call [`History::enter`] with a sample of the links every [`History::EVERY`].
#[derive(Clone, Debug, Default)]
pub struct History {
    at_unix_ms: u64,
    /// Samples held.
    length: usize,
    /// Samples by link name: a link that returns under another number continues its track.
    tracks: BTreeMap<String, Track>,
}

/// The samples of one link.
#[derive(Clone, Debug)]
struct Track {
    index: LinkIndex,
    /// Samples; at most as many as the history holds.
    samples: VecDeque<Sample>,
    /// Number of latest samples during which the link did not exist.
    gone_for: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    up: Rate,
    down: Rate,
    rtt: Option<Duration>,
    state: Option<LinkState>,
}

impl History {
    /// Time between two samples.
    pub const EVERY: Duration = Duration::from_secs(1);

    /// Limit of samples.
    pub const MAX_SAMPLES: usize = 600;

    /// Adds a sample of every link, taken at this time in milliseconds since 1970-01-01 00:00 UTC.
    /// Samples missed while the machine was asleep count as empty.
    pub fn enter(&mut self, at_unix_ms: u64, links: &[LinkStatus]) {
        for _ in 0..self.missed(at_unix_ms) {
            self.push_empty();
        }
        self.push_empty();
        self.at_unix_ms = at_unix_ms;
        for link in links {
            if let Some(track) = self.track(link) {
                track.index = link.index;
                track.gone_for = 0;
                let traffic = &link.traffic;
                if let Some(sample) = track.samples.back_mut() {
                    *sample = Sample {
                        up: traffic.up,
                        down: traffic.down,
                        rtt: traffic.rtt,
                        state: Some(link.state),
                    };
                }
            }
        }
    }

    /// Corrects the states of the latest sample, which changed after it was taken.
    pub fn note_states(&mut self, links: &[LinkStatus]) {
        for link in links {
            let track = self.tracks.get_mut(&link.name);
            if let Some(track) = track.filter(|track| track.gone_for == 0)
                && let Some(sample) = track.samples.back_mut()
            {
                sample.state = Some(link.state);
            }
        }
    }

    /// Returns the latest samples, at most `count`.
    pub fn report(&self, count: usize) -> HistoryReport {
        let skip = self.length.saturating_sub(count);
        let history = |(name, track): (&String, &Track)| {
            let samples = || track.samples.iter().skip(skip);
            LinkHistory {
                name: name.clone(),
                index: track.index,
                up: samples().map(|sample| sample.up).collect(),
                down: samples().map(|sample| sample.down).collect(),
                rtt: samples().map(|sample| sample.rtt).collect(),
                state: samples().map(|sample| sample.state).collect(),
            }
        };
        let mut links: Vec<LinkHistory> = self.tracks.iter().map(history).collect();
        links.sort_by_key(|link| link.index);
        HistoryReport {
            at_unix_ms: self.at_unix_ms,
            every: Self::EVERY,
            links,
        }
    }

    /// Returns the track of a link; `None` if the link has nothing to record, or there is no room.
    fn track(&mut self, link: &LinkStatus) -> Option<&mut Track> {
        if !self.tracks.contains_key(&link.name) {
            let traffic = &link.traffic;
            let has_moved = (traffic.sent_bytes + traffic.received_bytes).as_u64() > 0;
            let is_there = matches!(link.state, LinkState::Up | LinkState::Silent);
            let is_of_use = is_there || has_moved;
            if !is_of_use || self.tracks.len() >= MAX_LINKS {
                return None;
            }
            let track = Track {
                index: link.index,
                samples: VecDeque::from(vec![Sample::default(); self.length]),
                gone_for: 0,
            };
            self.tracks.insert(link.name.clone(), track);
        }
        self.tracks.get_mut(&link.name)
    }

    /// Adds a sample without data of any link.
    fn push_empty(&mut self) {
        self.length = (self.length + 1).min(Self::MAX_SAMPLES);
        let length = self.length;
        self.tracks.retain(|_, track| {
            track.samples.push_back(Sample::default());
            if track.samples.len() > length {
                track.samples.pop_front();
            }
            track.gone_for += 1;
            track.gone_for < Self::MAX_SAMPLES
        });
    }

    /// Returns the number of missing samples before the one of this time.
    fn missed(&self, at_unix_ms: u64) -> usize {
        let span = Duration::from_millis(at_unix_ms.saturating_sub(self.at_unix_ms));
        if self.length == 0 || span < ASLEEP {
            return 0;
        }
        let missed = span.as_secs().saturating_sub(1);
        usize::try_from(missed).map_or(Self::MAX_SAMPLES, |missed| missed.min(Self::MAX_SAMPLES))
    }
}

/// With all their samples, so many links fit one line of the API.
const MAX_LINKS: usize = 32;
/// A busy machine may be late by less than this.
const ASLEEP: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LinkTraffic, Response, encode_response};

    fn link(index: u32, megabits: u64) -> LinkStatus {
        LinkStatus {
            name: format!("link{index}"),
            index: LinkIndex::new(index),
            state: LinkState::Up,
            traffic: LinkTraffic {
                down: Rate::from_bits_per_second(megabits * 1_000_000),
                rtt: Some(Duration::from_millis(20)),
                ..LinkTraffic::default()
            },
            ..LinkStatus::default()
        }
    }

    fn down(report: &HistoryReport, place: usize) -> Vec<u64> {
        let rates = report.links[place].down.iter();
        rates
            .map(|rate| rate.bits_per_second() / 1_000_000)
            .collect()
    }

    #[test]
    fn links_that_come_and_go_keep_lists_of_equal_length() {
        let mut history = History::default();
        history.enter(1000, &[link(7, 1)]);
        history.enter(2000, &[link(7, 2), link(3, 5)]);
        history.enter(3000, &[link(3, 6)]);
        let report = history.report(usize::MAX);
        assert_eq!((report.at_unix_ms, report.every), (3000, History::EVERY));
        assert_eq!(report.links[0].name, "link3");
        assert_eq!(down(&report, 0), [0, 5, 6]);
        assert_eq!(down(&report, 1), [1, 2, 0]);
        let known = Some(Duration::from_millis(20));
        assert_eq!(report.links[1].rtt, [known, known, None]);
        let up = Some(LinkState::Up);
        assert_eq!(report.links[1].state, [up, up, None]);
        let mut links = [link(7, 2), link(3, 5)];
        for link in &mut links {
            link.state = LinkState::Silent;
        }
        history.note_states(&links);
        let now = history.report(1).links;
        let states = [&now[0].state[..], &now[1].state[..]];
        assert_eq!(states, [&[Some(LinkState::Silent)], &[None]]);
        for link in &report.links {
            assert_eq!((link.up.len(), link.down.len(), link.rtt.len()), (3, 3, 3));
        }
        assert_eq!(down(&history.report(2), 0), [5, 6]);
    }

    #[test]
    fn ten_minutes_are_kept_and_what_was_gone_for_that_long_is_forgotten() {
        let mut history = History::default();
        history.enter(0, &[link(1, 1), link(2, 1)]);
        for second in 1..=History::MAX_SAMPLES as u64 {
            assert_eq!(history.report(1).links.len(), 2, "{second}");
            history.enter(second * 1000, &[link(2, second)]);
        }
        let report = history.report(usize::MAX);
        assert_eq!(report.links.len(), 1);
        assert_eq!(down(&report, 0).len(), History::MAX_SAMPLES);
        assert_eq!(down(&report, 0)[..2], [1, 2]);
    }

    #[test]
    fn a_machine_that_slept_leaves_a_gap() {
        let mut history = History::default();
        history.enter(1000, &[link(1, 1)]);
        // Late, but not asleep; then the clock goes back.
        history.enter(4000, &[link(1, 2)]);
        history.enter(3000, &[link(1, 3)]);
        history.enter(9000, &[link(1, 4)]);
        assert_eq!(
            down(&history.report(usize::MAX), 0),
            [1, 2, 3, 0, 0, 0, 0, 0, 4]
        );
        history.enter(u64::MAX, &[link(1, 5)]);
        let report = history.report(usize::MAX);
        assert_eq!(down(&report, 0).len(), History::MAX_SAMPLES);
        assert_eq!(down(&report, 0).iter().sum::<u64>(), 5);
    }

    #[test]
    fn interfaces_without_end_take_no_more_room_and_fit_a_line() {
        let mut history = History::default();
        let mut all: Vec<LinkStatus> = (0..100).map(|index| link(index, 400_000)).collect();
        all[0].state = LinkState::Unused;
        for link in &mut all {
            link.name = format!("a-long-name-{}", link.index.value());
            link.traffic.up = link.traffic.down;
            link.traffic.rtt = Some(Duration::from_nanos(123_456_789));
        }
        for second in 0..History::MAX_SAMPLES as u64 {
            history.enter(second * 1000, &all);
            // The longest word of a state.
            all.iter_mut()
                .for_each(|link| link.state = LinkState::NoInternet);
        }
        let report = history.report(usize::MAX);
        assert_eq!(report.links.len(), MAX_LINKS);
        assert_eq!(report.links[0].index.value(), 1);
        encode_response(&Response::History(Box::new(report))).unwrap();
    }
}
