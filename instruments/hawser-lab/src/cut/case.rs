//! One transport, one loss, and the outcome.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use super::hosts::Hosts;
use super::options::{Cut, EntryPoint, Options, name};
use super::visits::{Held, SILENT, Visit, Visits, monotonic};
use crate::measure::{Bench, Programs};
use crate::scenario::Scenario;
use crate::statistics::Spread;
use crate::topology::Lab;
use crate::verdict::{Asked, Verdict};

/// The results of one loss. Times are in seconds.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Case {
    pub(super) way: EntryPoint,
    pub(super) cut: Cut,
    /// From the beginning to the answer, of those that were answered before the loss.
    pub(super) before: Option<Spread>,
    /// From the beginning to the answer, of connections begun a second after the loss, or later.
    pub(super) later: Option<Spread>,
    /// Number of these connections.
    pub(super) later_begun: usize,
    pub(super) later_failed: usize,
    pub(super) caught: Caught,
    pub(super) old: Old,
    /// Every connection that came and went: when it began and ended, from the loss on; whether it
    /// was answered over the link that was lost (1), another (2) or not (0).
    visits: Vec<(f64, f64, u8)>,
}

/// Connections begun before the loss and not answered by then, and those begun in the second after
/// it.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Caught {
    pub(super) begun: usize,
    /// Answered, but later than any before the loss by more than 50 ms: where that can be, they
    /// were moved over.
    pub(super) late: usize,
    /// The longest time of those that were answered.
    pub(super) longest: f64,
    /// Connections that got an error.
    pub(super) failed: usize,
    /// The longest time until they were.
    pub(super) longest_failed: f64,
    /// Established on the link when it was lost, and waiting for an answer.
    pub(super) lost: usize,
    /// Not established, and without an error until the end.
    pub(super) untold: usize,
    /// Errors, with their numbers.
    pub(super) errors: BTreeMap<String, usize>,
}

/// Connections that were open all the time.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Old {
    /// On links that live.
    pub(super) living: usize,
    /// Of these, connections with a request that was not answered.
    pub(super) broken: usize,
    /// The longest that one of their requests took.
    pub(super) longest: f64,
    /// On the link that was lost.
    pub(super) lost: usize,
}

/// Measures in a lab of its own.
pub(super) fn measure(
    scenario: &Scenario,
    options: &Options,
    programs: &Programs,
    (way, cut): (EntryPoint, Cut),
    folder: &Path,
) -> anyhow::Result<Case> {
    let bench = Bench::new(Lab::shaped(scenario)?, folder)?;
    let hosts = Hosts {
        bench: &bench,
        programs,
        options,
    };
    let _web = hosts.serve()?;
    let application = hosts.start(way)?;
    std::thread::sleep(Duration::from_secs(options.lead.into()));
    let link = usize::from(options.link) - 1;
    let lost = bench.lab().links()[link].address();
    let begun = monotonic();
    bench.lab().apply(link, cut.action())?;
    let at = [begun, monotonic()];
    let visits = application.end(folder, Duration::from_secs(options.after.into()))?;
    bench.check_emulator()?;
    Ok(Case::of((way, cut), &visits, at, lost))
}

impl Case {
    /// The link was lost at some time between those in `at`.
    fn of((way, cut): (EntryPoint, Cut), all: &Visits, at: [f64; 2], lost: Ipv4Addr) -> Self {
        let [not_yet, at] = at;
        let took = |visit: &&Visit| visit.ended - visit.began;
        let answered = |visit: &&Visit| visit.error.is_none();
        let times = |which: &dyn Fn(&&Visit) -> bool| {
            let visits = all.visits.iter().filter(answered).filter(which);
            Spread::of(&visits.map(|visit| took(&visit)).collect::<Vec<_>>())
        };
        let is_before = |visit: &&Visit| visit.ended < not_yet;
        let is_later = |visit: &&Visit| visit.began >= at + 1.0;
        let before = times(&is_before);
        let caught = all
            .visits
            .iter()
            .filter(|it| !is_before(it) && !is_later(it));
        let normal = before.map_or(0.0, |before| before.max) + LATE;
        let later: Vec<_> = all.visits.iter().filter(is_later).collect();
        Self {
            way,
            cut,
            before,
            later: times(&is_later),
            later_begun: later.len(),
            later_failed: later.iter().filter(|visit| !answered(visit)).count(),
            caught: Caught::of(way, caught, at, normal),
            old: Old::of(&all.held, lost),
            visits: all
                .visits
                .iter()
                .map(|visit| {
                    let over = visit
                        .from
                        .map_or(0, |from| if from == lost { 1 } else { 2 });
                    (visit.began - at, visit.ended - at, over)
                })
                .collect(),
        }
    }

    pub(super) fn name(&self) -> String {
        format!("{}, {}", name(self.way), name(self.cut))
    }

    /// Returns the main figures as a line.
    pub(super) fn line(&self) -> String {
        let Caught { late, failed, .. } = self.caught;
        let longest = self.later.map_or(f64::NAN, |later| later.max * 1e3);
        format!(
            "caught: {late} late, {failed} failed; later: {} of {} failed, {longest:.1} ms; old: {} of {} broken",
            self.later_failed, self.later_begun, self.old.broken, self.old.living
        )
    }

    pub(super) fn verdicts(&self) -> [Verdict; 4] {
        let case = |what: &str| format!("{}: {what}", self.name());
        let most = |what: &str, figure: f64, most: f64| {
            Verdict::new(case(what), figure, Asked::AtMost(most))
        };
        let [before, later] =
            [self.before, self.later].map(|times| times.map_or(f64::INFINITY, |times| times.max));
        let caught = match self.caught.untold {
            0 => self.caught.longest.max(self.caught.longest_failed),
            _ => f64::INFINITY,
        };
        [
            most("later: failed", self.later_failed as f64, 0.0),
            most("later: longest, beyond before, s", later - before, DELAY),
            most("caught: longest until told or answered, s", caught, AT_ONCE),
            most("old on a living link: broken", self.old.broken as f64, 0.0),
        ]
    }
}

impl Caught {
    fn of<'a>(
        way: EntryPoint,
        visits: impl Iterator<Item = &'a Visit>,
        at: f64,
        normal: f64,
    ) -> Self {
        let mut caught = Self::default();
        for visit in visits {
            caught.begun += 1;
            let took = visit.ended - visit.began;
            let Some(error) = &visit.error else {
                caught.longest = caught.longest.max(took);
                caught.late += usize::from(took > normal);
                continue;
            };
            *caught.errors.entry(error.clone()).or_default() += 1;
            // Where others connect for it, the application can't see whether they had.
            let stood = match way {
                EntryPoint::Kernel => visit.connected.is_some(),
                EntryPoint::Port | EntryPoint::Shim => visit.began < at,
            };
            if error != SILENT {
                caught.failed += 1;
                caught.longest_failed = caught.longest_failed.max(took);
            } else if stood {
                caught.lost += 1;
            } else {
                caught.untold += 1;
            }
        }
        caught
    }
}

impl Old {
    fn of(held: &[Held], lost: Ipv4Addr) -> Self {
        let mut old = Self::default();
        for held in held {
            if held.from == lost {
                old.lost += 1;
                continue;
            }
            old.living += 1;
            old.broken += usize::from(held.error.is_some() || held.answers == 0);
            old.longest = old.longest.max(held.longest);
        }
        old
    }
}

/// An answer that is later than the latest one before the loss by more than this had to wait for
/// something. A link is waited for 100 ms at least.
const LATE: f64 = 0.05;
/// Most delay when no connection waits for the lost link any more.
const DELAY: f64 = 0.1;
/// Longest time that counts as "at once" for the connections that were caught.
const AT_ONCE: f64 = 1.0;

#[cfg(test)]
mod tests {
    use super::*;

    const LOST: Ipv4Addr = Ipv4Addr::new(10, 77, 1, 2);
    const ALIVE: Ipv4Addr = Ipv4Addr::new(10, 77, 2, 2);

    fn visit(began: f64, took: f64, outcome: Result<Ipv4Addr, &str>) -> Visit {
        Visit {
            began,
            connected: Some(began + 0.01),
            ended: began + took,
            from: outcome.ok(),
            error: outcome.err().map(str::to_owned),
        }
    }

    fn case(visits: Vec<Visit>) -> Case {
        let held = |from, error: Option<&str>| Held {
            from,
            answers: 3,
            longest: 0.02,
            error: error.map(str::to_owned),
        };
        let held = vec![held(LOST, Some(SILENT)), held(ALIVE, None)];
        Case::of(
            (EntryPoint::Kernel, Cut::Silent),
            &Visits { held, visits },
            [10.0; 2],
            LOST,
        )
    }

    #[test]
    fn connections_are_told_apart_by_when_they_began_and_ended() {
        let case = case(vec![
            visit(9.0, 0.02, Ok(LOST)),
            // Stood on the link as it was lost.
            visit(9.98, 5.0, Err(SILENT)),
            visit(10.2, 0.3, Err("connection aborted")),
            visit(10.3, 0.02, Ok(ALIVE)),
            visit(10.4, 0.2, Ok(ALIVE)),
            visit(11.0, 0.03, Ok(ALIVE)),
            visit(12.0, 0.4, Err("connection aborted")),
        ]);
        let caught = &case.caught;
        assert_eq!((caught.begun, caught.late, caught.failed), (4, 1, 1));
        assert_eq!((caught.lost, caught.untold), (1, 0));
        assert_eq!((case.later_begun, case.later_failed), (2, 1));
        assert_eq!((case.old.living, case.old.broken, case.old.lost), (1, 0, 1));
        let met: Vec<bool> = case.verdicts().iter().map(|verdict| verdict.met).collect();
        assert_eq!(met, [false, true, true, true]);
    }

    #[test]
    fn who_is_never_told_is_no_small_matter() {
        let mut late = visit(10.2, 5.0, Err(SILENT));
        late.connected = None;
        let case = case(vec![visit(9.0, 0.02, Ok(LOST)), late]);
        assert_eq!(case.caught.untold, 1);
        let verdicts = case.verdicts();
        assert_eq!(verdicts[2].figure, None);
        assert!(!verdicts[2].met);
        assert!(
            !verdicts[1].met,
            "nothing was begun later: nothing is shown"
        );
    }
}
