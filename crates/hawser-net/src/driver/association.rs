//! The tasks of a channel that is an association: messages in, messages out, packets in.
//!
//! The lock of the session and that of the association are never held together.

use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use hawser_channels::association::{AssociationWriter, Next, Step, record_of};
use hawser_session::ChannelSpec;
use hawser_types::ChannelId;
use smallvec::smallvec;
use tokio::sync::Notify;
use tracing::Span;

use super::association_channel::AssociationChannel;
use super::inner::{CHANNEL_CHARGE, Handle, Meter};
use super::packet_lane::{PacketLanes, receive_over};
use super::shared::SharedSession;
use crate::association::AssociationHandle;
use crate::clock;

/// Adds the channel to the session and starts its tasks.
pub(super) fn start(
    shared: &Arc<SharedSession>,
    lanes: &Arc<PacketLanes>,
    id: ChannelId,
    association: AssociationHandle,
) {
    let streams = association.streams();
    let channel = Arc::new(AssociationChannel::new(association));
    let write = Arc::new(Notify::new());
    // `channel` outlives the closure: dropping it takes the lock of the association.
    shared.with(|inner, now| {
        if inner.closed.is_some() {
            return;
        }
        let writer = Writer {
            shared: Arc::downgrade(shared),
            id,
            channel: Arc::clone(&channel),
            writer: AssociationWriter::new(now, id, streams),
            span: shared.span.clone(),
        };
        let reading = tokio::spawn(read(Arc::downgrade(shared), id, Arc::clone(&channel)));
        let writing = tokio::spawn(writer.run(Arc::clone(&write)));
        let receiving = receive_over(Arc::clone(&channel), Arc::downgrade(lanes));
        let packets = tokio::spawn(receiving);
        let handle = Handle {
            meter: Meter::Association(Arc::clone(&channel)),
            write: Arc::clone(&write),
            tasks: smallvec![
                reading.abort_handle(),
                writing.abort_handle(),
                packets.abort_handle(),
            ],
            _charge: shared.budgets.account.noted(CHANNEL_CHARGE),
        };
        let replaced = inner.channels.insert(id, handle);
        inner.gone.extend(replaced);
        inner.learn_links();
        inner.path_links.mark_stale();
        inner.session.add_channel(now, ChannelSpec::association(id));
        inner.session.handle_writable(now, id);
    });
    lanes.set_association(&channel);
    write.notify_one();
    shared.tell_change();
}

/// Reads messages until the association is over.
async fn read(shared: Weak<SharedSession>, id: ChannelId, channel: Arc<AssociationChannel>) {
    let mut messages = Vec::new();
    let mut records: Vec<Bytes> = Vec::new();
    while channel.association.receive_some(&mut messages).await {
        // A record of several packets is put together here, under no lock.
        for message in messages.drain(..) {
            match record_of(&message) {
                Some(record) => records.push(record),
                None => return lose(&shared, id),
            }
        }
        let Some(shared) = shared.upgrade() else {
            return;
        };
        let result = shared.with(|inner, now| {
            let mut records = records.drain(..);
            records.try_for_each(|record| inner.session.handle_record(now, id, record))
        });
        if let Err(fault) = result {
            return shared.fail(&fault);
        }
    }
    lose(&shared, id);
}

/// Handles the end of the association.
fn lose(shared: &Weak<SharedSession>, id: ChannelId) {
    if let Some(shared) = shared.upgrade() {
        let _span = shared.span.enter();
        tracing::debug!(%id, "the association is over");
        shared.lose_channel(id);
    }
}

/// Sends records as the session gives them out.
struct Writer {
    shared: Weak<SharedSession>,
    id: ChannelId,
    channel: Arc<AssociationChannel>,
    writer: AssociationWriter,
    /// The session's span, entered for samples and log lines.
    span: Span,
}

impl Writer {
    async fn run(mut self, work: Arc<Notify>) {
        loop {
            let Some(shared) = self.shared.upgrade() else {
                return;
            };
            let (mut step, is_over) = self.step(&shared);
            drop(shared);
            if !self.send(&mut step) {
                // The reading task sees the association's end, and may have more to read before.
                return;
            }
            match self.writer.next(&step) {
                Next::Again => {}
                Next::Idle | Next::Full(_) if is_over && self.writer.is_done(&step) => {
                    let ending = self.channel.association.shutdown();
                    let _ = tokio::time::timeout(LAST_WORDS, ending).await;
                    return;
                }
                Next::Idle => work.notified().await,
                Next::Full(below) => {
                    tokio::select! {
                        () = work.notified() => {}
                        () = self.channel.association.room(below) => {}
                    }
                }
            }
        }
    }

    /// Reports the association's state to the session, and takes records from the session while the
    /// association has room. Also returns whether the session is over.
    fn step(&mut self, shared: &SharedSession) -> (Step, bool) {
        let now = clock::now();
        let is_due = self.writer.is_sample_due(now);
        let _span = is_due.then(|| self.span.clone().entered());
        let state = is_due.then(|| self.channel.take_state(now));
        let queued = self.channel.association.queued();
        shared.with(|inner, now| {
            if let Some(state) = &state {
                inner.learn_unknown_paths(state);
            }
            let (session, links) = (&mut inner.session, &mut inner.path_links);
            let step = self
                .writer
                .step(now, session, links, state.as_ref(), queued);
            (step, inner.closed.is_some())
        })
    }

    /// Sends the records that the association has room for. Returns false if it accepts no more.
    fn send(&mut self, step: &mut Step) -> bool {
        let instructions = std::mem::take(&mut step.instructions);
        if !self.writer.has_work(&instructions) {
            return true;
        }
        let writer = &mut self.writer;
        let sent = self.channel.association.write(writer, instructions);
        self.channel.set_waiting(self.writer.waiting());
        sent.inspect_err(|error| {
            let _span = self.span.enter();
            tracing::debug!(id = %self.id, %error, "cannot send record");
        })
        .is_ok()
    }
}

/// Time that the last messages of a session may take to arrive.
const LAST_WORDS: Duration = Duration::from_secs(1);
