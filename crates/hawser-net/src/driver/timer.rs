use std::sync::{Arc, Weak};

use hawser_types::{ChannelId, Instant};

use super::{Inner, Shared};
use crate::clock;

/// Wakes the session when it wants to be woken, with fresh samples of what is under way.
pub(super) async fn run(shared: Weak<Shared>) {
    loop {
        let Some(strong) = shared.upgrade() else {
            return;
        };
        let at = {
            let mut inner = strong.lock();
            if inner.closed.is_some() {
                return;
            }
            inner.timer_at = inner.session.poll_timeout();
            inner.timer_at
        };
        let due = match at {
            Some(at) => {
                let changed = strong.timer.notified();
                tokio::select! {
                    () = tokio::time::sleep_until(clock::to_tokio(at)) => true,
                    () = changed => false,
                }
            }
            None => {
                strong.timer.notified().await;
                false
            }
        };
        if due {
            fire(&strong);
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
