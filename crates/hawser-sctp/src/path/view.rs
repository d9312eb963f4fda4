use hawser_sched::PathView;
use hawser_types::{ByteCount, Instant, LinkIndex};

use super::{Path, PathState, Paths};

impl Paths {
    /// The paths that may carry data, as schedulers look at them. `ready`: whether a path would send a
    /// packet now.
    ///
    /// Where no selected path answers, it is any that answers; where none does, any that has ever
    /// answered: something has to be sent for one to return.
    pub(crate) fn views(&mut self, now: Instant, ready: impl Fn(&Path) -> bool) -> &[PathView] {
        let rank = self.paths.iter().filter_map(rank).min();
        self.views.clear();
        for path in self
            .paths
            .iter_mut()
            .filter(|path| self::rank(path) == rank)
        {
            if rank.is_none() {
                continue;
            }
            self.views.push(view(now, path, ready(path)));
        }
        for place in 0..self.views.len() {
            let link = self.views[place].link;
            let beside = on_link(&self.views, link) - self.views[place].in_flight;
            self.views[place].beside = beside;
            self.views[place].bottleneck = self.bottleneck(link);
        }
        &self.views
    }
}

/// How far a path is from carrying data; `None` when it never may.
fn rank(path: &Path) -> Option<u8> {
    match path.state {
        PathState::Active if path.selected => Some(0),
        PathState::Active => Some(1),
        PathState::Inactive => Some(2),
        PathState::Unconfirmed => None,
    }
}

fn view(now: Instant, path: &Path, ready: bool) -> PathView {
    let rtt = path.rtt.smoothed().unwrap_or_default();
    let min_rtt = path.rtt.min().unwrap_or_default();
    let silent = path.silence.current(now);
    PathView {
        channel: path.channel(),
        link: path.route.local.link,
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
        chunk: ByteCount::from(path.packet_size.saturating_sub(OVERHEAD)),
        ..PathView::default()
    }
}

fn on_link(views: &[PathView], link: LinkIndex) -> ByteCount {
    let same = views.iter().filter(|view| view.link == link);
    same.map(|view| view.in_flight).sum()
}

/// The common header, and that of an I-DATA chunk.
const OVERHEAD: usize = 12 + 20;
