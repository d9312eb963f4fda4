use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use hawser_sched::chunk::ChunkPolicy;
use hawser_sctp::{Backlog, Behind, Closed, LinkWord, Message, PathSnapshot, Received, SendError};
use hawser_session::seal::datagram::KeyId;
use hawser_types::{ByteCount, Instant};
use hawser_wire::sctp::StreamNumber;
use tokio::sync::Notify;

use super::{Entry, Id, Shared};
use crate::clock;

/// An association, for those who use it.
///
/// Dropping the handle ends the association at once; [`Self::shutdown`] lets everything arrive first.
#[derive(Debug)]
pub struct AssociationHandle {
    shared: Arc<Shared>,
    id: Id,
    changed: Arc<Notify>,
}

impl AssociationHandle {
    pub(super) fn new(shared: Arc<Shared>, id: Id, changed: Arc<Notify>) -> Self {
        Self {
            shared,
            id,
            changed,
        }
    }

    /// Waits until messages can be sent.
    ///
    /// # Errors
    /// Why that will never be.
    pub async fn established(&self) -> Result<(), Closed> {
        self.until(|entry, _| match &entry.closed {
            Some(why) => Some(Err(why.clone())),
            None => entry.is_established.then_some(Ok(())),
        })
        .await
    }

    /// Sends a message; waits while there is no room for it.
    ///
    /// # Errors
    /// When the stream does not exist, the message is too long, or the association is closing.
    pub async fn send(&self, stream: StreamNumber, message: Message) -> Result<(), SendError> {
        self.until(|entry, now| {
            // Its payload is shared, not copied.
            let sent = entry.association.send(now, stream, message.clone());
            (sent != Err(SendError::Full)).then_some(sent)
        })
        .await
    }

    /// The next message; `None` when nothing more comes.
    pub async fn receive(&self) -> Option<Received> {
        self.until(|entry, _| match entry.association.receive() {
            Some(received) => Some(Some(received)),
            None => entry.closed.is_some().then_some(None),
        })
        .await
    }

    /// Sends nothing more, and waits until everything has arrived. Why it is over, then.
    pub async fn shutdown(&self) -> Closed {
        self.change(|entry, now| entry.association.shutdown(now));
        self.closed().await
    }

    /// Sends messages from the front of `messages` for as long as there is room; what is left there waits
    /// for [`Self::room`]. `behind`: what follows these, where the owner keeps the association's queue short.
    ///
    /// # Errors
    /// As for [`Self::send`]; the message at fault is gone.
    pub fn send_some(
        &self,
        messages: &mut VecDeque<(StreamNumber, Message)>,
        behind: Behind,
    ) -> Result<(), SendError> {
        self.change(|entry, now| {
            entry.association.set_behind(behind);
            while let Some((stream, message)) = messages.front() {
                // Its payload is shared, not copied.
                match entry.association.send(now, *stream, message.clone()) {
                    Err(SendError::Full) => {
                        entry.is_full = true;
                        break;
                    }
                    sent => {
                        messages.pop_front();
                        sent?;
                    }
                }
            }
            Ok(())
        })
    }

    /// Waits until less than `below` is in no packet yet and there is room for more, or it is over.
    pub async fn room(&self, below: ByteCount) {
        self.until(|entry, _| {
            let has_room = !entry.is_full && entry.association.queued() < below;
            let has_room = has_room || entry.is_over();
            entry.room_below = (!has_room).then_some(below);
            has_room.then_some(())
        })
        .await;
    }

    /// Waits for messages and puts all that have come behind `messages`; `false` when nothing more comes.
    pub async fn receive_some(&self, messages: &mut Vec<Received>) -> bool {
        self.until(|entry, _| {
            let before = messages.len();
            messages.extend(std::iter::from_fn(|| entry.association.receive()));
            match messages.len() > before {
                true => Some(true),
                false => entry.is_over().then_some(false),
            }
        })
        .await
    }

    /// What the peer does not have yet.
    pub fn backlog(&self) -> Backlog {
        let state = self.shared.lock();
        let entry = state.associations.get(&self.id);
        entry.map_or_else(Backlog::default, |entry| entry.association.backlog())
    }

    /// Payload that is in no packet yet.
    pub fn queued(&self) -> ByteCount {
        let state = self.shared.lock();
        let entry = state.associations.get(&self.id);
        entry.map_or(ByteCount::ZERO, |entry| entry.association.queued())
    }

    /// Streams to send on; 0 before it is established.
    pub fn streams(&self) -> u16 {
        let state = self.shared.lock();
        let entry = state.associations.get(&self.id);
        entry.map_or(0, |entry| entry.association.outbound_streams())
    }

    /// What holds for links from now on: see [`hawser_sctp::Association::set_links`].
    pub fn set_links(&self, words: Vec<LinkWord>) {
        self.change(|entry, _| entry.association.set_links(words));
    }

    /// Places what is sent by another policy from now on.
    pub fn set_policy(&self, policy: ChunkPolicy) {
        self.change(|entry, _| entry.association.set_policy(policy));
    }

    /// Waits until it is over, or the peer has begun it anew.
    pub async fn lost(&self) {
        self.until(|entry, _| entry.is_over().then_some(())).await;
    }

    /// Waits until it is over.
    pub async fn closed(&self) -> Closed {
        self.until(|entry, _| entry.closed.clone()).await
    }

    /// Ends it at once; `reason` is told to the peer's application.
    pub fn abort(&self, reason: Bytes) {
        self.change(|entry, _| entry.association.abort(reason));
    }

    /// How each pair of addresses does.
    pub fn paths(&self) -> Vec<PathSnapshot> {
        let state = self.shared.lock();
        let entry = state.associations.get(&self.id);
        entry.map_or(Vec::new(), |entry| entry.association.paths(clock::now()))
    }

    /// Tries until there is an answer, each time that something has changed.
    async fn until<R>(&self, mut attempt: impl FnMut(&mut Entry, Instant) -> Option<R>) -> R {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if let Some(answer) = self.change(&mut attempt) {
                return answer;
            }
            changed.await;
        }
    }

    /// Changes something, and sends what follows from it.
    fn change<R>(&self, change: impl FnOnce(&mut Entry, Instant) -> R) -> R {
        let now = clock::now();
        let mut state = self.shared.lock();
        let entry = state.associations.get_mut(&self.id);
        let answer = change(entry.expect("kept as long as its handle"), now);
        state.pump(now, self.id);
        self.shared.look_at_timers(&mut state);
        answer
    }
}

impl Entry {
    /// What was sent and is not acknowledged will never arrive.
    fn is_over(&self) -> bool {
        self.closed.is_some() || self.was_restarted
    }
}

impl Drop for AssociationHandle {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.drop_association(clock::now(), self.id);
        if let Some(key) = self.id.0 {
            state.give_up(key);
        }
    }
}

/// An association that the peer is to begin under a seal. Dropping it makes its keys unknown here.
#[derive(Debug)]
pub struct Expected {
    shared: Arc<Shared>,
    key: KeyId,
}

impl Expected {
    pub(super) fn new(shared: Arc<Shared>, key: KeyId) -> Self {
        Self { shared, key }
    }

    pub(super) fn key(&self) -> KeyId {
        self.key
    }

    /// Waits until the peer has begun it.
    pub async fn accept(self) -> AssociationHandle {
        self.shared.accept(Some(self.key)).await
    }
}

impl Drop for Expected {
    fn drop(&mut self) {
        self.shared.lock().give_up(self.key);
    }
}
