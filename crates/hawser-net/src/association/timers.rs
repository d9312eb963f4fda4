//! When associations are to be told that time has passed: one order for all of them, so that what comes for
//! one costs nothing for the others.

use std::sync::Arc;

use hawser_types::Instant;

use super::{Id, Shared, State};
use crate::clock;

pub(super) async fn drive_timers(shared: Arc<Shared>) {
    loop {
        let sooner = shared.sooner.notified();
        tokio::pin!(sooner);
        sooner.as_mut().enable();
        let next = {
            let now = clock::now();
            let mut state = shared.lock();
            state.handle_timeouts(now);
            state.awake_at = state.next_timeout();
            state.awake_at
        };
        match next {
            Some(at) => {
                tokio::select! {
                    () = tokio::time::sleep_until(clock::to_tokio(at)) => {}
                    () = sooner => {}
                }
            }
            None => sooner.await,
        }
    }
}

impl Shared {
    /// Wakes the task that drives timers if one has come nearer.
    pub(super) fn look_at_timers(&self, state: &mut State) {
        let next = state.next_timeout();
        if next.is_some_and(|at| state.awake_at.is_none_or(|awake| at < awake)) {
            state.awake_at = next;
            self.sooner.notify_one();
        }
    }
}

impl State {
    /// Notes when an association is to be told next.
    pub(super) fn set_timer(&mut self, id: Id) {
        let Some(entry) = self.associations.get_mut(&id) else {
            return;
        };
        let timer = entry.association.poll_timeout();
        let before = std::mem::replace(&mut entry.timer, timer);
        if before != timer {
            before.map(|at| self.timers.remove(&(at, id)));
            timer.map(|at| self.timers.insert((at, id)));
        }
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    fn handle_timeouts(&mut self, now: Instant) {
        let due = self.timers.iter().take_while(|(at, _)| *at <= now);
        let due: Vec<Id> = due.map(|(_, id)| *id).collect();
        for id in due {
            if let Some(entry) = self.associations.get_mut(&id) {
                entry.association.handle_timeout(now);
            }
            self.pump(now, id);
        }
    }
}
