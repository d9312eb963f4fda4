//! What the owner has to know to place messages on paths.

use std::time::Duration;

use hawser_sched::PathView;
use hawser_types::{ByteCount, Instant};

use super::Outbound;
use crate::path::{Path, Paths};
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
        for view in paths.views_mut(now) {
            let waiting = ByteCount::new(self.placed.bytes_on(Path::of_channel(view.channel)));
            let room = (view.rate * AHEAD).max(LEAST_AHEAD) - waiting;
            view.in_flight += waiting;
            show(view, room.min(ByteCount::new(most)));
        }
    }

    /// Sets what the owner still has to place.
    pub(crate) fn set_to_place(&mut self, to_place: ToPlace) {
        self.shares.to_place = to_place;
    }
}

/// What may wait on a path: as much as leaves in the next moments. A path that has nothing between
/// two looks counts as one that is not used in full, and BBR then never sees that it is. What waits
/// has its path and can't take a better one.
const AHEAD: Duration = Duration::from_millis(2);
const LEAST_AHEAD: ByteCount = ByteCount::new(2 * 1500);
