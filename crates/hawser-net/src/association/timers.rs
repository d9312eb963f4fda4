//! The timers of all associations in one order, so that an event of one association costs nothing
//! for the others.

use std::collections::{BTreeSet, VecDeque};

use hawser_sctp::AssociationId;
use hawser_session::seal::datagram::KeyId;
use hawser_types::Instant;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::clock;

/// The timers of all associations of a set of sockets.
///
/// The lock is a leaf: it is taken under that of an endpoint and never the other way round. The
/// order always agrees with the entries of associations, since both change together under the lock
/// of the endpoint.
#[derive(Debug, Default)]
pub(super) struct Timers {
    order: Mutex<Order>,
    /// Notified when the first timer may be earlier than before.
    sooner: Notify,
}

#[derive(Debug, Default)]
struct Order {
    timers: BTreeSet<(Instant, TimerId)>,
    /// Keys to be forgotten, in the order of their times.
    leaving: VecDeque<(Instant, KeyId)>,
    /// Time at which the task that drives timers looks again.
    awake_at: Option<Instant>,
}

/// An association, by the key id of its endpoint and its number there.
pub(super) type TimerId = (Option<KeyId>, AssociationId);

impl Timers {
    /// Moves the timer of an association, and wakes the task that drives timers if it is nearer now
    /// than all others.
    ///
    /// No wake-up is lost: the task notes `awake_at` under the same lock under which it looks for
    /// the first timer. The task finds a timer that was set before. A later call of this function
    /// sees the new `awake_at`, and `notify_one` keeps a permit until the task waits.
    pub(super) fn set(&self, id: TimerId, before: Option<Instant>, after: Option<Instant>) {
        if before == after {
            return;
        }
        let mut order = self.order.lock();
        if let Some(at) = before {
            order.timers.remove(&(at, id));
        }
        let Some(at) = after else {
            return;
        };
        order.timers.insert((at, id));
        self.wake_by(&mut order, at);
    }

    /// Schedules the endpoint of these keys to be forgotten at `at`, which is no earlier than in
    /// previous calls.
    pub(super) fn leave(&self, at: Instant, key: KeyId) {
        let mut order = self.order.lock();
        order.leaving.push_back((at, key));
        self.wake_by(&mut order, at);
    }

    /// Takes the keys that are due to be forgotten.
    pub(super) fn leavers(&self, now: Instant) -> Vec<KeyId> {
        let mut order = self.order.lock();
        let due = order.leaving.partition_point(|(at, _)| *at <= now);
        order.leaving.drain(..due).map(|(_, key)| key).collect()
    }

    fn wake_by(&self, order: &mut Order, at: Instant) {
        if order.awake_at.is_none_or(|awake| at < awake) {
            order.awake_at = Some(at);
            self.sooner.notify_one();
        }
    }

    /// Associations with due timers. They stay in the order until their timers are set anew.
    pub(super) fn due(&self, now: Instant) -> Vec<TimerId> {
        let order = self.order.lock();
        let due = order.timers.iter().take_while(|(at, _)| *at <= now);
        due.map(|(_, id)| *id).collect()
    }

    /// Waits until the first timer is due.
    pub(super) async fn wait(&self) {
        let next = {
            let mut order = self.order.lock();
            let timer = order.timers.first().map(|(at, _)| *at);
            let leaves = order.leaving.front().map(|(at, _)| *at);
            order.awake_at = timer.into_iter().chain(leaves).min();
            order.awake_at
        };
        let sooner = self.sooner.notified();
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

    #[cfg(test)]
    pub(super) fn all(&self) -> BTreeSet<(Instant, TimerId)> {
        self.order.lock().timers.clone()
    }
}
