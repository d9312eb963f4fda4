use std::sync::{Arc, Weak};

use hawser_types::{ChannelId, Instant};
use tokio::sync::Notify;

use super::{Inner, Shared};
use crate::clock;

/// Wakes the session when it wants to be woken, with fresh samples of what is under way.
///
/// Holds the session only while it works on it: when the last handle is gone, so is the session.
pub(super) async fn run(shared: Weak<Shared>, changed: Arc<Notify>) {
    loop {
        let at = {
            let Some(shared) = shared.upgrade() else {
                return;
            };
            let mut inner = shared.lock();
            if inner.closed.is_some() {
                return;
            }
            inner.timer_at = inner.session.poll_timeout();
            inner.timer_at
        };
        let Some(at) = at else {
            changed.notified().await;
            continue;
        };
        tokio::select! {
            () = tokio::time::sleep_until(clock::to_tokio(at)) => {
                if let Some(shared) = shared.upgrade() {
                    fire(&shared);
                }
            }
            () = changed.notified() => {}
        }
    }
}

fn fire(shared: &Arc<Shared>) {
    let gauges = {
        let inner = shared.lock();
        let busy = inner.session.busy_channels();
        busy.filter_map(|id| Some((id, Arc::clone(&inner.channels.get(&id)?.gauge))))
            .collect::<Vec<_>>()
    };
    let samples: Vec<_> = gauges
        .into_iter()
        .filter_map(|(id, gauge)| Some((id, gauge.sample()?)))
        .collect();
    shared.with(|inner: &mut Inner, now: Instant| {
        samples.iter().for_each(|(id, sample): &(ChannelId, _)| {
            inner.session.handle_sample(now, *id, *sample);
        });
        inner.session.handle_timeout(now);
    });
}
