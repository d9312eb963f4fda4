use std::time::Duration;

use smallvec::SmallVec;

use crate::Route;
use crate::path::{Path, Paths};

/// Which way acknowledgements go back.
///
/// The way of the latest data is alive, and loads each link as its data does. Where another one on which
/// something has come since the last acknowledgement is far quicker, that one is taken: on links of
/// unlike delay each answer is then there sooner. But what comes from a peer says nothing of what goes to
/// it, so every few acknowledgements it is the turn of the way that has had none for longest: one that is
/// dead in this direction only must not swallow them all.
#[derive(Debug, Default)]
pub(super) struct Feedback {
    latest: Option<Route>,
    ways: SmallVec<[Way; 4]>,
    /// Acknowledgements that have left.
    count: u64,
}

/// A way on which packets of the peer have come.
#[derive(Debug)]
struct Way {
    route: Route,
    /// How many acknowledgements had left when the last packet came.
    heard: u64,
    /// The number of the last one that went back there.
    used: u64,
}

impl Feedback {
    /// A packet has come over a way that is known.
    pub(super) fn on_packet(&mut self, route: Route) {
        let count = self.count;
        if let Some(way) = self.ways.iter_mut().find(|way| way.route == route) {
            way.heard = count;
            return;
        }
        self.ways.retain(|way| way.heard + TURN >= count);
        if self.ways.len() < MAX_WAYS {
            self.ways.push(Way {
                route,
                heard: count,
                used: 0,
            });
        }
    }

    /// It carried data.
    pub(super) fn on_data(&mut self, route: Route) {
        self.latest = Some(route);
    }

    /// The way that the last packet with data came.
    pub(super) fn latest(&self) -> Option<Route> {
        self.latest
    }

    /// Where the next acknowledgement should go; `None` where nothing has come on a path that there
    /// still is.
    pub(super) fn way(&self, paths: &Paths) -> Option<Route> {
        let latest = self.latest.filter(|route| paths.find(route).is_some());
        if self.ways.len() < 2 {
            return latest;
        }
        let is_turn = self.count % TURN == TURN - 1;
        let recent = if is_turn { TURN - 1 } else { 0 };
        let ways = self.ways.iter();
        let ways = ways.filter(|way| way.heard + recent >= self.count);
        let ways = ways.filter_map(|way| Some((way, paths.path(paths.find(&way.route)?)?)));
        let alive = ways.filter(|(_, path)| path.has_answered_all());
        if is_turn {
            let next = alive.min_by_key(|(way, path)| (way.used, wait(path)));
            return next.map(|(way, _)| way.route).or(latest);
        }
        let quickest = alive.min_by_key(|(_, path)| wait(path));
        let Some((way, path)) = quickest else {
            return latest;
        };
        let usual = latest.and_then(|route| paths.path(paths.find(&route)?));
        let usual = usual.filter(|usual| {
            usual.has_answered_all() && wait(usual) < wait(path).saturating_mul(FAR)
        });
        Some(usual.map_or(way.route, |usual| usual.route))
    }

    /// An acknowledgement leaves there.
    pub(super) fn on_sent(&mut self, route: Route) {
        self.count += 1;
        let count = self.count;
        if let Some(way) = self.ways.iter_mut().find(|way| way.route == route) {
            way.used = count;
        }
    }
}

fn wait(path: &Path) -> Duration {
    path.rtt.smoothed().unwrap_or(Duration::MAX)
}

/// The turn of the others comes with each acknowledgement of so many.
const TURN: u64 = 4;
/// A way is taken for its quickness where it is so many times as quick: less is not worth to have one link
/// carry what several could.
const FAR: u32 = 2;
const MAX_WAYS: usize = 8;

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, SocketAddr};

    use hawser_types::{Instant, LinkIndex};

    use super::*;
    use crate::{AssociationConfig, Local};

    fn route(link: u8) -> Route {
        Route {
            local: Local {
                link: LinkIndex::new(u32::from(link)),
                address: IpAddr::V4(Ipv4Addr::new(192, 0, 2, link)),
            },
            remote: SocketAddr::from(([198, 51, 100, 1], 9899)),
        }
    }

    /// Paths over links 1, 2, … with these round trips in milliseconds.
    fn paths(rtts: &[u64]) -> Paths {
        let mut paths = Paths::new(&AssociationConfig::default(), 1);
        for (link, rtt) in (1..).zip(rtts) {
            let id = paths.add(Instant::ZERO, route(link), true).unwrap();
            let path = paths.path_mut(id).unwrap();
            path.rtt
                .on_sample(Instant::ZERO, Duration::from_millis(*rtt));
        }
        paths
    }

    /// The ways of `count` acknowledgements where data comes over all links before each, the last one
    /// last.
    fn ways(paths: &Paths, links: &[u8], count: usize) -> Vec<Route> {
        let mut feedback = Feedback::default();
        let one = |_| {
            for link in links {
                feedback.on_packet(route(*link));
                feedback.on_data(route(*link));
            }
            let way = feedback.way(paths).unwrap();
            feedback.on_sent(way);
            way
        };
        (0..count).map(one).collect()
    }

    #[test]
    fn a_far_quicker_way_is_taken_and_the_others_have_their_turn() {
        let ways = ways(&paths(&[10, 200, 300]), &[1, 3, 2], 24);
        let of = |link| ways.iter().filter(|way| **way == route(link)).count();
        assert_eq!([of(1), of(2), of(3)], [18, 3, 3]);
    }

    #[test]
    fn among_ways_that_are_about_as_quick_the_latest_data_decides() {
        let ways = ways(&paths(&[100, 110]), &[1, 2], 8);
        let latest = ways.iter().filter(|way| **way == route(2)).count();
        assert_eq!(latest, 6);
    }

    #[test]
    fn a_way_on_which_nothing_came_is_not_taken_however_quick() {
        assert_eq!(ways(&paths(&[10, 200]), &[2], 9), [route(2); 9]);
    }

    #[test]
    fn a_way_that_has_not_answered_gets_none_while_another_has() {
        let mut paths = paths(&[10, 200]);
        let id = paths.find(&route(1)).unwrap();
        paths.on_timeout_counted(Instant::ZERO, Instant::ZERO, id);
        assert_eq!(ways(&paths, &[2, 1], 9), [route(2); 9]);
    }
}
