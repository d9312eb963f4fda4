//! Room on paths, for an owner that places messages on them.

use std::time::Duration;

use hawser_sched::PathView;
use hawser_types::{ByteCount, Instant};

use super::Outbound;
use crate::path::Paths;
use crate::{ToPlace, Turn};

impl Outbound {
    /// Shows each path that may carry data, with the payload that may be placed on it.
    pub(crate) fn show_rooms(
        &self,
        now: Instant,
        paths: &mut Paths,
        turn: Turn,
        mut show: impl FnMut(&PathView, ByteCount),
    ) {
        let most = match turn {
            Turn::Own if !self.queue.is_empty() => self.shares.placed_turn(),
            Turn::Own | Turn::Any => u64::MAX,
        };
        paths.views(now, |path| path.is_ready(now));
        for place in 0..paths.view_count() {
            let Some((view, path)) = paths.view_mut(place) else {
                continue;
            };
            let waiting = ByteCount::new(self.placed.bytes_on(path.id));
            let ahead = (view.rate * AHEAD).max(LEAST_AHEAD) - waiting;
            view.in_flight += waiting;
            // Beside others, who fill the window, no queue could be kept short.
            let free = if self.queue.is_empty() {
                path.placed_limit() - view.in_flight
            } else {
                ByteCount::new(u64::MAX)
            };
            show(view, ahead.min(free).min(ByteCount::new(most)));
        }
    }

    /// Sets what the owner still has to place.
    pub(crate) fn set_to_place(&mut self, to_place: ToPlace) {
        self.shares.to_place = to_place;
    }
}

/// Time for which chunks may wait on a path: as many as leave in the next moments. A path that has
/// nothing between two looks counts as one that is not used in full, and BBR then never sees that
/// it is. A chunk that waits has its path and can't take a better one.
const AHEAD: Duration = Duration::from_millis(2);
const LEAST_AHEAD: ByteCount = ByteCount::new(2 * 1500);
