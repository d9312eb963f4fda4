use std::time::Duration;

use smallvec::SmallVec;

use crate::Route;
use crate::path::{Path, Paths};

/// Choice of the route on which acknowledgements return.
///
/// The route of the latest data works and loads each link as its data does. A recently used route
/// that is at least twice as fast replaces it, so that acknowledgements arrive sooner where delays
/// differ. Packets from the peer say nothing about the opposite direction. Therefore every few
/// acknowledgements take the route that has carried none for longest: a route that is dead in this
/// direction must not lose them all.
#[derive(Debug, Default)]
pub(super) struct Feedback {
    latest: Option<Route>,
    routes: SmallVec<[ReturnRoute; 4]>,
    /// Number of acknowledgements sent.
    count: u64,
}

/// A route on which packets of the peer have arrived.
#[derive(Debug)]
struct ReturnRoute {
    route: Route,
    /// Number of acknowledgements sent before the last packet arrived on it.
    heard: u64,
    /// Number of the last acknowledgement sent on it.
    used: u64,
}

impl Feedback {
    /// Handles a packet that arrived on a known route.
    pub(super) fn on_packet(&mut self, route: Route) {
        let count = self.count;
        if let Some(entry) = self.routes.iter_mut().find(|entry| entry.route == route) {
            entry.heard = count;
            return;
        }
        self.routes.retain(|entry| entry.heard + ROTATION >= count);
        if self.routes.len() < MAX_ROUTES {
            self.routes.push(ReturnRoute {
                route,
                heard: count,
                used: 0,
            });
        }
    }

    /// Handles a route that has just answered for the first time. It replaces one that may have
    /// been forgotten by a translator.
    pub(super) fn on_confirmed(&mut self, route: Route, paths: &Paths) {
        self.on_packet(route);
        let latest = self
            .latest
            .and_then(|latest| paths.path(paths.find(&latest)?));
        if latest.is_none_or(Path::is_on_probation) {
            self.latest = Some(route);
        }
    }

    /// Handles a packet with data.
    pub(super) fn on_data(&mut self, route: Route) {
        self.latest = Some(route);
    }

    /// Returns the route of the last packet with data.
    pub(super) fn latest(&self) -> Option<Route> {
        self.latest
    }

    /// Returns the route for the next acknowledgement; `None` if no existing path has carried data.
    pub(super) fn next_route(&self, paths: &Paths) -> Option<Route> {
        let latest = self.latest.filter(|route| paths.find(route).is_some());
        if self.routes.len() < 2 {
            return latest;
        }
        let is_turn = self.count % ROTATION == ROTATION - 1;
        let recent = if is_turn { ROTATION - 1 } else { 0 };
        let routes = self.routes.iter();
        let routes = routes.filter(|entry| entry.heard + recent >= self.count);
        let routes =
            routes.filter_map(|entry| Some((entry, paths.path(paths.find(&entry.route)?)?)));
        let alive = routes.filter(|(_, path)| path.has_answered_all());
        if is_turn {
            let next = alive.min_by_key(|(entry, path)| (entry.used, wait(path)));
            return next.map(|(entry, _)| entry.route).or(latest);
        }
        let quickest = alive.min_by_key(|(_, path)| wait(path));
        let Some((entry, path)) = quickest else {
            return latest;
        };
        let usual = latest.and_then(|route| paths.path(paths.find(&route)?));
        let usual = usual.filter(|usual| {
            usual.has_answered_all() && wait(usual) < wait(path).saturating_mul(MUCH_FASTER)
        });
        Some(usual.map_or(entry.route, |usual| usual.route))
    }

    /// Handles an acknowledgement that leaves on this route.
    pub(super) fn on_sent(&mut self, route: Route) {
        self.count += 1;
        let count = self.count;
        if let Some(entry) = self.routes.iter_mut().find(|entry| entry.route == route) {
            entry.used = count;
        }
    }
}

fn wait(path: &Path) -> Duration {
    path.rtt.smoothed().unwrap_or(Duration::MAX)
}

/// Every acknowledgement whose number is a multiple of this takes the least used route.
const ROTATION: u64 = 4;
/// Ratio of round-trip times from which a faster route is preferred. A smaller advantage does not
/// justify loading one link instead of several.
const MUCH_FASTER: u32 = 2;
const MAX_ROUTES: usize = 8;

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

    /// Returns the routes of `count` acknowledgements where data arrives on all links before each,
    /// on the last link last.
    fn routes(paths: &Paths, links: &[u8], count: usize) -> Vec<Route> {
        let mut feedback = Feedback::default();
        let one = |_| {
            for link in links {
                feedback.on_packet(route(*link));
                feedback.on_data(route(*link));
            }
            let entry = feedback.next_route(paths).unwrap();
            feedback.on_sent(entry);
            entry
        };
        (0..count).map(one).collect()
    }

    #[test]
    fn a_far_quicker_way_is_taken_and_the_others_have_their_turn() {
        let routes = routes(&paths(&[10, 200, 300]), &[1, 3, 2], 24);
        let of = |link| routes.iter().filter(|entry| **entry == route(link)).count();
        assert_eq!([of(1), of(2), of(3)], [18, 3, 3]);
    }

    #[test]
    fn among_ways_that_are_about_as_quick_the_latest_data_decides() {
        let routes = routes(&paths(&[100, 110]), &[1, 2], 8);
        let latest = routes.iter().filter(|entry| **entry == route(2)).count();
        assert_eq!(latest, 6);
    }

    #[test]
    fn a_way_on_which_nothing_came_is_not_taken_however_quick() {
        assert_eq!(routes(&paths(&[10, 200]), &[2], 9), [route(2); 9]);
    }

    #[test]
    fn a_way_that_has_not_answered_gets_none_while_another_has() {
        let mut paths = paths(&[10, 200]);
        let id = paths.find(&route(1)).unwrap();
        paths.on_timeout_counted(Instant::ZERO, Instant::ZERO, id);
        assert_eq!(routes(&paths, &[2, 1], 9), [route(2); 9]);
    }
}
