use std::collections::BTreeMap;

use hawser_path::{BOTTLENECK_INTERVAL, Bottlenecks};
use hawser_types::{Instant, LinkIndex, PathId};

use super::{Path, PathState, Paths};
use crate::congestion::Coupling;

/// Detects paths that share a bottleneck, and couples their windows.
#[derive(Debug, Default)]
pub(super) struct Coupler {
    bottlenecks: Bottlenecks,
    /// Links that share a bottleneck, with the number of the bottleneck.
    shared: BTreeMap<LinkIndex, u8>,
    looked: Instant,
    coupled: Instant,
}

/// Packets of a path since the last count.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) delivered: u64,
    pub(super) lost: u64,
}

/// A resource that several paths share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SharedResource {
    Link(LinkIndex),
    Bottleneck(u8),
}

impl Paths {
    /// Handles an acknowledgement on a path.
    pub(super) fn couple(&mut self, now: Instant, id: PathId) {
        if !self.config.coupled {
            return;
        }
        if let Some(path) = self.path_mut(id) {
            let (link, rtt) = (path.link, path.rtt.latest());
            let Tally { delivered, lost } = std::mem::take(&mut path.tally);
            let bottlenecks = &mut self.coupler.bottlenecks;
            bottlenecks.on_delay(now, link, rtt);
            bottlenecks.on_segments(now, link, delivered, lost);
        }
        if now.since(self.coupler.looked) >= BOTTLENECK_INTERVAL {
            self.coupler.looked = now;
            self.coupler.shared = shared(&mut self.coupler.bottlenecks, now);
        }
        // Windows change by packets, so a coupling at intervals is exact enough.
        if now.since(self.coupler.coupled) >= COUPLED_EVERY {
            self.coupler.coupled = now;
            self.couple_all();
        }
    }

    /// Returns the number of the bottleneck that a link shares with others.
    pub(super) fn bottleneck(&self, link: LinkIndex) -> Option<u8> {
        self.coupler.shared.get(&link).copied()
    }

    /// Forgets a link that was removed.
    pub(super) fn forget_link(&mut self, link: LinkIndex) {
        self.coupler.bottlenecks.remove(link);
        self.coupler.shared.remove(&link);
    }

    fn couple_all(&mut self) {
        let shared = &self.coupler.shared;
        let resource_of = |path: &Path| {
            let link = path.link;
            let number = shared.get(&link).copied();
            number.map_or(SharedResource::Link(link), SharedResource::Bottleneck)
        };
        let mut groups: BTreeMap<SharedResource, Vec<_>> = BTreeMap::new();
        for path in self.paths.iter().filter(|path| is_in_use(path)) {
            let rtt = path.rtt.smoothed().unwrap_or_default();
            let group = groups.entry(resource_of(path)).or_default();
            group.push((path.congestion.window(), rtt));
        }
        for path in &mut self.paths {
            let group = groups.get(&resource_of(path)).filter(|_| is_in_use(path));
            let coupling = group.and_then(|group| Coupling::among(group));
            path.congestion.couple(coupling);
        }
    }
}

fn is_in_use(path: &Path) -> bool {
    path.selected && path.state == PathState::Active && path.rtt.smoothed().is_some()
}

fn shared(bottlenecks: &mut Bottlenecks, now: Instant) -> BTreeMap<LinkIndex, u8> {
    let groups = (0..=u8::MAX).zip(bottlenecks.groups(now));
    let links =
        groups.flat_map(|(number, group)| group.links.into_iter().map(move |link| (link, number)));
    links.collect()
}

const COUPLED_EVERY: std::time::Duration = std::time::Duration::from_millis(10);
