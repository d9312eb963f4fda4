use hawser_sched::PathView;
use hawser_sched::tally::Verdict;
use hawser_types::{ByteCount, Instant, LinkIndex, Permission};

use super::{Path, PathState, Paths};

impl Paths {
    /// Returns the paths that may carry data, as schedulers see them. `ready`: the path would send
    /// a packet now.
    ///
    /// These are the selected paths that answer; if there are none, all paths that answer; then
    /// those in reserve, and after them those whose signal fades; then inactive ones, since a path
    /// returns only if something is sent on it.
    /// A forbidden path never carries data.
    pub(crate) fn views(&mut self, now: Instant, ready: impl Fn(&Path) -> bool) -> &[PathView] {
        self.make_views(now, ready);
        &self.views
    }

    /// Returns a view as last made, for the caller to complete, and its path.
    pub(crate) fn view_mut(&mut self, place: usize) -> Option<(&mut PathView, &Path)> {
        let view = self.views.get_mut(place)?;
        let id = Path::of_channel(view.channel);
        let path = self.paths.iter().find(|path| path.id == id)?;
        Some((view, path))
    }

    /// Returns the number of views as last made.
    pub(crate) fn view_count(&self) -> usize {
        self.views.len()
    }

    fn make_views(&mut self, now: Instant, ready: impl Fn(&Path) -> bool) {
        let least = self.paths.iter().filter_map(rank).min();
        // Silent paths do not keep out a path in reserve that answers.
        let answering = self
            .paths
            .iter()
            .filter(|path| path.state == PathState::Active && !path.is_suspect(now));
        let last = answering.filter_map(rank).min().or(least);
        self.views.clear();
        for path in self.paths.iter_mut() {
            if rank(path).is_some_and(|own| Some(own) <= last) {
                self.views.push(view(now, path, ready(path)));
            }
        }
        for place in 0..self.views.len() {
            let link = self.views[place].link;
            let of_link = self.views.iter().filter(|view| view.link == link);
            let in_flight: ByteCount = of_link.map(|view| view.in_flight).sum();
            self.views[place].beside = in_flight - self.views[place].in_flight;
        }
    }

    /// Returns the views of the last call of [`Self::views`].
    pub(crate) fn latest_views(&self) -> &[PathView] {
        &self.views
    }

    /// Returns why no path of a link is among the views.
    pub(crate) fn absence(&self, link: LinkIndex) -> Option<Verdict> {
        let same = self.paths.iter().filter(|path| path.link == link);
        let absence = |path: &Path| match (path.rules.up, path.state) {
            (_, PathState::Unconfirmed) => Verdict::Gone,
            (Permission::Forbidden(_) | Permission::Reserve(_), _) => Verdict::Excluded,
            (_, PathState::Inactive) => Verdict::Silent,
            (_, PathState::Active) => Verdict::Other,
        };
        Some(same.map(absence).min().unwrap_or(Verdict::Gone))
    }
}

/// Returns a path's rank, the lowest of which carry data; `None` when it never may.
fn rank(path: &Path) -> Option<(u8, u8)> {
    // A preferred path is no reason to leave the others without a view.
    let reserve = match path.rules.up {
        Permission::Preferred | Permission::Allowed => 0,
        reserve @ Permission::Reserve(_) => reserve.rank(),
        Permission::Forbidden(_) => return None,
    };
    match path.state {
        PathState::Active if reserve > 0 => Some((2, reserve)),
        PathState::Active if path.selected => Some((0, 0)),
        PathState::Active => Some((1, 0)),
        PathState::Inactive => Some((3, reserve)),
        PathState::Unconfirmed => None,
    }
}

fn view(now: Instant, path: &Path, ready: bool) -> PathView {
    let rtt = path.rtt.smoothed().unwrap_or_default();
    let min_rtt = path.rtt.min().unwrap_or_default();
    let silent = path.silence.current(now);
    PathView {
        channel: path.channel(),
        link: path.link,
        ready,
        suspect: path.is_suspect(now),
        rtt,
        min_rtt,
        rtt_variation: path.rtt.variation(),
        standing_queue: rtt.saturating_sub(min_rtt),
        rate: path.delivery.rate(),
        confidence: path.delivery.confidence(now),
        congestion_window: path.congestion.window(),
        in_flight: path.flight.bytes(),
        stalled: silent.saturating_sub(rtt + path.sack_delay + path.rtt.variation() * 4),
        chunk: ByteCount::from(path.packet_size.saturating_sub(path.overhead)),
        weight: path.rules.weight,
        price: path.rules.price,
        price_weight: path.rules.price_weight,
        preferred: path.rules.up == Permission::Preferred,
        ..PathView::default()
    }
}
