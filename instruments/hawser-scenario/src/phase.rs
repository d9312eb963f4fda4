//! The phases of a scenario between the coming and going of links, and the steps that make them.

use std::time::Duration;

use hawser_types::SignalStrength;
use serde::Serialize;

use crate::{Action, Event, Scenario};

/// A time in which the same links are up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Phase {
    /// Beginning, since the scenario's.
    pub from: Duration,
    /// End.
    pub until: Duration,
    /// Indices of the links, from 0.
    pub links: Vec<usize>,
}

/// Something to do at a time, so that links come and go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Time since the scenario's beginning.
    pub at: Duration,
    /// Index of the link, from 0.
    pub link: usize,
    /// The action.
    pub what: Doing,
}

/// Action of a [`Step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// The scenario's event happens.
    Happen(Action),
    /// The host reads this strength of the link's signal.
    Signal(SignalStrength),
}

impl Scenario {
    /// Returns the links that are down from the beginning on.
    pub fn absent_links(&self) -> Vec<usize> {
        let at_once = self.events.iter().filter(|event| event.at.is_zero());
        let goes = at_once.filter(|event| event.action == Action::CarrierDown);
        goes.map(|event| event.link).collect()
    }

    /// Returns the scenario with all of its events `times` as late.
    pub fn slowed(&self, times: u32) -> Self {
        let mut slowed = self.clone();
        for event in &mut slowed.events {
            event.at = event.at.saturating_mul(times);
        }
        slowed
    }

    /// Returns what is done after the beginning, in order of time. With `announced`, the host reads
    /// a link's signal: it falls from -60 to -85 dBm in the last three seconds before the link
    /// goes, and is -60 dBm when the link is back.
    pub fn steps(&self, announced: bool) -> Vec<Step> {
        let steps = self.later().flat_map(|event| with_notice(event, announced));
        let mut steps: Vec<Step> = steps.collect();
        steps.sort_by_key(|step| step.at);
        steps
    }

    /// Returns the phases, of which the last is as long as the longest before it.
    pub fn phases(&self) -> Vec<Phase> {
        let gone = self.absent_links();
        let all = 0..self.links.len();
        let mut links: Vec<usize> = all.filter(|link| !gone.contains(link)).collect();
        let mut phases = Vec::new();
        let mut from = Duration::ZERO;
        for event in self.later() {
            let mut next = links.clone();
            match event.action {
                Action::CarrierDown => next.retain(|link| *link != event.link),
                Action::CarrierUp if !next.contains(&event.link) => {
                    next.push(event.link);
                    next.sort_unstable();
                }
                _ => {}
            }
            if event.at > from && next != links {
                let until = event.at;
                phases.push(Phase { from, until, links });
                from = until;
            }
            links = next;
        }
        let spans = phases.iter().map(|phase| phase.until - phase.from);
        let until = from + spans.max().unwrap_or(ALONE);
        phases.push(Phase { from, until, links });
        phases
    }

    fn later(&self) -> impl Iterator<Item = &Event> {
        self.events.iter().filter(|event| !event.at.is_zero())
    }
}

fn with_notice(event: &Event, announced: bool) -> Vec<Step> {
    let step = |at, what| Step {
        at,
        link: event.link,
        what,
    };
    let reads = |at, dbm| Some(step(at, Doing::Signal(SignalStrength::new(dbm)?)));
    let happens = step(event.at, Doing::Happen(event.action));
    match event.action {
        Action::CarrierDown if announced => {
            let times = (1..).map(|count| event.at.checked_sub(READ_EVERY * count));
            let readings = times.zip(FALLING.into_iter().rev());
            let readings = readings.filter_map(|(at, dbm)| reads(at?, dbm));
            readings.chain([happens]).collect()
        }
        Action::CarrierUp if announced => {
            let reading = reads(event.at, FALLING[0]);
            [happens].into_iter().chain(reading).collect()
        }
        _ => vec![happens],
    }
}

/// Signal of a link that is about to go, in dBm, read at [`READ_EVERY`]: that of a Wi-Fi card that
/// is carried out of a house.
const FALLING: [i16; 6] = [-60, -65, -70, -75, -80, -85];
const READ_EVERY: Duration = Duration::from_millis(500);
/// The only phase of a scenario without events.
const ALONE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::no_files;

    fn scenario(events: &str) -> Scenario {
        let link = "[[link]]\nrate = \"8Mbit/s\"\ndelay = \"10ms\"\nqueue = \"50ms\"\n";
        let text = format!("payload = \"1MB\"\n{link}{link}{events}");
        Scenario::parse("x", &text, &no_files).unwrap()
    }

    const COMES_AND_GOES: &str = "\
        [[event]]\nat = \"0s\"\nlink = 2\naction = \"carrier-down\"\nfor = \"2s\"\n\
        [[event]]\nat = \"3s\"\nlink = 2\naction = \"address-change\"\n\
        [[event]]\nat = \"5s\"\nlink = 1\naction = \"carrier-down\"\n";

    #[test]
    fn links_come_and_go_between_phases() {
        let scenario = scenario(COMES_AND_GOES);
        assert_eq!(scenario.absent_links(), [1]);
        let phases = scenario.phases().into_iter();
        let found: Vec<_> = phases
            .map(|it| (it.from.as_secs(), it.until.as_secs(), it.links))
            .collect();
        let expected = [(0, 2, vec![0]), (2, 5, vec![0, 1]), (5, 8, vec![1])];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_slowed_scenario_has_the_same_phases_for_longer() {
        let slowed = scenario(COMES_AND_GOES).slowed(5);
        assert_eq!(slowed.absent_links(), [1]);
        let ends = slowed.phases().into_iter().map(|it| it.until.as_secs());
        assert_eq!(ends.collect::<Vec<_>>(), [10, 25, 40]);
    }

    #[test]
    fn where_nothing_happens_there_is_one_phase() {
        let phases = scenario("").phases();
        let [phase] = phases.as_slice() else {
            panic!("{phases:?}");
        };
        assert_eq!(phase.links, [0, 1]);
        assert!(phase.until > phase.from);
    }

    #[test]
    fn a_signal_falls_before_a_going_and_is_good_after_a_coming() {
        let scenario = scenario(COMES_AND_GOES);
        let done = |announced| -> Vec<_> {
            let steps = scenario.steps(announced).into_iter();
            steps
                .map(|it| (it.at.as_millis(), it.link, it.what))
                .collect()
        };
        let down = (5000, 0, Doing::Happen(Action::CarrierDown));
        let up = (2000, 1, Doing::Happen(Action::CarrierUp));
        let moves = (3000, 1, Doing::Happen(Action::AddressChange));
        assert_eq!(done(false), [up, moves, down]);
        let read = |at, link, dbm| (at, link, Doing::Signal(SignalStrength::new(dbm).unwrap()));
        let expected = [
            up,
            read(2000, 1, -60),
            read(2000, 0, -60),
            read(2500, 0, -65),
            moves,
            read(3000, 0, -70),
            read(3500, 0, -75),
            read(4000, 0, -80),
            read(4500, 0, -85),
            down,
        ];
        assert_eq!(done(true), expected);
    }
}
