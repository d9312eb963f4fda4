//! The timer of a session.

use std::sync::{Arc, Weak};

use hawser_channels::association::AssociationState;
use hawser_path::KernelSample;
use hawser_types::Instant;
use tokio::sync::Notify;

use super::inner::{Inner, Meter};
use super::shared::SharedSession;
use crate::clock;

/// Runs the timeouts of the session, with fresh samples of its busy channels.
///
/// Holds a reference to the session only while working on it, so that the session ends with its
/// last handle.
pub(super) async fn run(shared: Weak<SharedSession>, changed: Arc<Notify>) {
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

fn fire(shared: &Arc<SharedSession>) {
    let _span = shared.span.enter();
    let meters = {
        let inner = shared.lock();
        let busy = inner.session.busy_channels();
        busy.filter_map(|id| Some((id, inner.channels.get(&id)?.meter.clone())))
            .collect::<Vec<_>>()
    };
    let now = clock::now();
    let samples: Vec<_> = meters
        .into_iter()
        .filter_map(|(id, meter)| {
            let sample = match meter {
                Meter::Tcp(gauge) => Sample::Tcp(Box::new(gauge.sample()?)),
                Meter::Association(it) => Sample::Association(Box::new(it.take_state(now))),
            };
            Some((id, sample))
        })
        .collect();
    shared.with(|inner: &mut Inner, now: Instant| {
        samples.iter().for_each(|(id, sample)| match sample {
            Sample::Tcp(sample) => inner.session.handle_sample(now, *id, **sample),
            Sample::Association(state) => inner.report_association(now, *id, state),
        });
        inner.session.handle_timeout(now);
    });
}

/// A measurement of a channel.
enum Sample {
    Tcp(Box<KernelSample>),
    Association(Box<AssociationState>),
}
