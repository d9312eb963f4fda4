//! Detects changes in a daemon a few times a second.

use std::sync::Arc;
use std::time::Duration;

use hawser_control::{
    Change, Response, SessionState, StatusSnapshot, changes_between, policy_changes,
};
use hawser_net::ticks::next_after;
use hawser_types::ByteCount;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::change_log::Picture;
use super::clock::{milliseconds, since_1970};
use super::proxy::rules::QUIET;
use super::shown::Most;
use super::state::State;

/// Looks for changes of the daemon's state for as long as the daemon lives; less often if a look
/// takes long, as at a gateway with many sessions, or if no data moves.
pub(super) async fn watch(state: Arc<State>) {
    loop {
        let begun = Instant::now();
        let least = if state.notice() {
            LOOK_EVERY
        } else {
            LOOK_IDLE_EVERY
        };
        let rest = rest_after(begun.elapsed());
        if rest > least {
            sleep(rest).await;
        } else {
            // Wakes together with other periodic tasks, to save wake-ups.
            sleep_until(next_after(Instant::now(), least)).await;
        }
    }
}

/// Returns the pause after a look that took this long. The pause is limited, because other load on
/// the machine can make one look long.
fn rest_after(look: Duration) -> Duration {
    look.saturating_mul(REST).clamp(LOOK_EVERY, LOOK_AT_LEAST)
}

impl State {
    /// Returns a counter that changes once a second, after each record of the traffic, and at each
    /// event.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.subscribe()
    }

    /// Looks for changes since the last call, and records them as events. The first call only
    /// stores the state. Returns whether data moves or the state has changed.
    pub(super) fn notice(&self) -> bool {
        let Some(subject) = self.subject() else {
            return true;
        };
        // Locked throughout, so that changes are logged in the order in which they are seen.
        let mut log = self.change_log();
        let now = Picture {
            status: self.picture(subject, Most::SESSIONS),
            policy: subject.policy(),
        };
        let is_busy = is_busy(log.last.as_ref().map(|it| &it.status), &now.status);
        self.record().all_sessions = now.status.sessions.iter().collect();
        let mut news = Vec::new();
        if let Some(before) = &log.last {
            news = changes_between(&before.status, &now.status);
            if let (Some(before), Some(now)) = (&before.policy, &now.policy) {
                news.extend(policy_changes(before, now));
            }
        }
        if !news.is_empty() {
            self.record().history.note_states(&now.status.links);
        }
        log.last = Some(now);
        if news.is_empty() {
            return is_busy;
        }
        let at_unix_ms = milliseconds(since_1970());
        for change in news {
            write_down(&change);
            log.events.note(at_unix_ms, change);
        }
        drop(log);
        self.has_changed();
        true
    }

    /// Returns the events after the one with this number.
    pub(super) fn events(&self, after: u64) -> Response {
        let log = self.change_log();
        Response::Events {
            events: log.events.after(after),
            latest: log.events.latest(),
        }
    }

    /// Waits until there is an event after the one with this number, at most for `wait` or
    /// [`MAX_WAIT`], and returns the events after that one.
    pub(super) async fn events_within(&self, after: u64, wait: Duration) -> Response {
        let is_there = || {
            let log = self.change_log();
            log.events.latest() > after
        };
        let mut changes = self.changes();
        // The sender lives as long as this state, so only events and the timeout end the wait.
        let _ = timeout(wait.min(MAX_WAIT), changes.wait_for(|_| is_there())).await;
        self.events(after)
    }
}

/// Returns whether data moves.
fn is_busy(before: Option<&StatusSnapshot>, now: &StatusSnapshot) -> bool {
    let moved = |status: &StatusSnapshot| -> ByteCount {
        let sessions = status.sessions.iter();
        sessions.map(|it| it.bytes_sent + it.bytes_received).sum()
    };
    let links = now.connections.iter().flat_map(|it| &it.links);
    let active: u64 = links.map(|it| it.active).sum();
    active > 0 || before.is_none_or(|before| moved(now) - moved(before) >= QUIET)
}

/// Logs that a session is interrupted or works again. Without a session, the client logs more.
fn write_down(change: &Change) {
    if let Change::SessionState {
        session,
        from,
        to,
        reason,
        ..
    } = change
    {
        let because = reason.as_deref().unwrap_or_default();
        match (from, to) {
            (_, SessionState::Interrupted) => {
                tracing::warn!(session, because, "no link of the session answers");
            }
            (SessionState::Interrupted, SessionState::Established) => {
                tracing::info!(session, "session works again");
            }
            _ => {}
        }
    }
}

/// Delays below this seem immediate to people.
const LOOK_EVERY: Duration = Duration::from_millis(250);
const LOOK_IDLE_EVERY: Duration = Duration::from_secs(1);
const LOOK_AT_LEAST: Duration = Duration::from_secs(5);
/// Rest for each unit of time spent looking: two per cent of a core.
const REST: u32 = 50;
/// Shorter than the time limit of a conversation.
const MAX_WAIT: Duration = Duration::from_secs(25);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_that_takes_long_is_followed_by_a_rest_that_ends() {
        let ms = Duration::from_millis;
        for (look, rest) in [(0, 250), (20, 1000), (2000, 5000)] {
            assert_eq!(rest_after(ms(look)), ms(rest));
        }
    }
}
