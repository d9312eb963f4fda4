//! Handles by which an association is used.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use hawser_channels::association::{
    AssociationState, AssociationWriter, Instructions, TunnelStats, send_waiting,
};
use hawser_sched::chunk::ChunkPolicy;
use hawser_sched::packet::PacketPolicy;
use hawser_sctp::{
    AssociationId, Backlog, Closed, LinkInfo, Message, OwnerBacklog, PathSnapshot, Received,
    SendError,
};
use hawser_session::PacketFlow;
use hawser_session::seal::datagram::KeyId;
use hawser_types::{ByteCount, Instant};
use hawser_wire::sctp::StreamNumber;
use tokio::sync::Notify;

use super::arrivals::{Arrivals, PacketTaker};
use super::entry::Entry;
use super::keyed_endpoint::KeyedEndpoint;
use super::keyed_endpoints::KeyedEndpoints;
use crate::clock;

/// An association, for its users.
///
/// Dropping the handle ends the association at once; [`Self::shutdown`] lets everything arrive
/// first.
#[derive(Debug)]
pub struct AssociationHandle {
    endpoints: Arc<KeyedEndpoints>,
    endpoint: Arc<KeyedEndpoint>,
    id: AssociationId,
    changed: Arc<Notify>,
}

impl AssociationHandle {
    pub(super) fn new(
        endpoints: Arc<KeyedEndpoints>,
        endpoint: Arc<KeyedEndpoint>,
        id: AssociationId,
        changed: Arc<Notify>,
    ) -> Self {
        Self {
            endpoints,
            endpoint,
            id,
            changed,
        }
    }

    /// Waits until messages can be sent.
    ///
    /// # Errors
    /// Why the association closed instead.
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
            // The payload is shared, not copied.
            let sent = entry.association.send(now, stream, message.clone());
            (sent != Err(SendError::Full)).then_some(sent)
        })
        .await
    }

    /// Returns the next message; `None` when no more will come.
    pub async fn receive(&self) -> Option<Received> {
        self.until(|entry, _| match entry.association.receive() {
            Some(received) => Some(Some(received)),
            None => entry.closed.is_some().then_some(None),
        })
        .await
    }

    /// Accepts no more messages, waits until all have arrived, and returns why the association
    /// closed.
    pub async fn shutdown(&self) -> Closed {
        self.change(|entry, now| entry.association.shutdown(now));
        self.closed().await
    }

    /// Sends messages from the front of `messages` while there is room; the rest waits for
    /// [`Self::room`]. `backlog`: data that waits behind `messages`, at a caller that keeps the
    /// association's queue short.
    ///
    /// # Errors
    /// As for [`Self::send`]; the message at fault is dropped.
    pub fn send_some(
        &self,
        messages: &mut VecDeque<(StreamNumber, Message)>,
        backlog: OwnerBacklog,
    ) -> Result<(), SendError> {
        self.change(|entry, now| {
            entry.association.set_owner_backlog(backlog);
            let sent = send_waiting(now, &mut entry.association, messages);
            entry.is_full |= sent.is_ok() && !messages.is_empty();
            sent
        })
    }

    /// Sends the messages that the channel's `writer` has for the association.
    ///
    /// # Errors
    /// As for [`Self::send`].
    pub(crate) fn write(
        &self,
        writer: &mut AssociationWriter,
        instructions: Instructions,
    ) -> Result<(), SendError> {
        self.change(|entry, now| {
            let sent = writer.send(now, &mut entry.association, instructions);
            entry.is_full |= sent.is_ok() && writer.waiting() > ByteCount::ZERO;
            sent
        })
    }

    /// Waits for the association's end, or until it has room and less than `below` in its queue.
    pub async fn room(&self, below: ByteCount) {
        self.until(|entry, _| {
            let has_room = !entry.is_full && entry.association.queued() < below;
            let has_room = has_room || entry.is_over();
            entry.room_below = (!has_room).then_some(below);
            has_room.then_some(())
        })
        .await;
    }

    /// Waits for messages and appends all that have arrived to `messages`; returns `false` when no
    /// more will come.
    pub async fn receive_some(&self, messages: &mut Vec<Received>) -> bool {
        self.until(|entry, _| {
            let before = messages.len();
            messages.extend(std::iter::from_fn(|| entry.association.receive()));
            if messages.len() > before {
                Some(true)
            } else {
                entry.is_over().then_some(false)
            }
        })
        .await
    }

    /// Sends packets of a tunnel: each once, as soon as a path has room for it; the far end
    /// restores the order of each flow. Returns false, and leaves the packets, if no path answers.
    pub fn send_packets(&self, packets: &mut Vec<Bytes>) -> bool {
        self.change(|entry, now| entry.send_packets(now, packets))
    }

    /// Hands packets of the peer's tunnel to `taker` until no more will come: on this task, or a
    /// few packets on the thread that has received them. Holds no lock meanwhile. Only one task may
    /// call this at a time.
    pub(crate) async fn hand_packets_to(&self, taker: Arc<PacketTaker>) {
        let Some(arrivals) = self.look(|entry| Arc::clone(&entry.arrivals)) else {
            return;
        };
        arrivals.set_taker(Some(taker));
        let _taking = Taking(&arrivals);
        let mut batches = 0_u32;
        loop {
            self.endpoint.hand_on(self.id, &arrivals);
            if self.look(Entry::is_over).unwrap_or(true) {
                return;
            }
            arrivals.changed.notified().await;
            batches = batches.wrapping_add(1);
            if batches.is_multiple_of(TURN) {
                // During a flood, other tasks on this thread have their turn as well.
                tokio::task::yield_now().await;
            }
        }
    }

    /// The statistics of the association's tunnel.
    pub fn tunnel_stats(&self) -> TunnelStats {
        self.look(Entry::tunnel_stats).unwrap_or_default()
    }

    /// The flows of the association's tunnel, as [`AssociationTunnel::flows`] says, with the paths
    /// at the same moment.
    ///
    /// [`AssociationTunnel::flows`]: hawser_channels::association::AssociationTunnel::flows
    pub(crate) fn flows(&self, most: usize) -> TunnelFlows {
        let now = clock::now();
        let flows = self.look(|entry| {
            let (flows, count) = entry.flows(now, most);
            let paths = if flows.is_empty() {
                Vec::new()
            } else {
                entry.association.paths(now)
            };
            TunnelFlows {
                flows,
                count,
                paths,
            }
        });
        flows.unwrap_or_default()
    }

    /// Data that the peer does not have yet.
    pub fn backlog(&self) -> Backlog {
        self.look(|entry| entry.association.backlog())
            .unwrap_or_default()
    }

    /// Payload that is in no packet yet.
    pub fn queued(&self) -> ByteCount {
        self.look(|entry| entry.association.queued())
            .unwrap_or_default()
    }

    /// Number of streams to send on; 0 before the association is established.
    pub fn streams(&self) -> u16 {
        self.look(|entry| entry.association.outbound_streams())
            .unwrap_or_default()
    }

    /// Sets the links below paths: see [`hawser_sctp::Association::set_links`].
    pub fn set_links(&self, links: Vec<LinkInfo>) {
        self.change(|entry, _| entry.association.set_links(links));
    }

    /// Places chunks by another policy from now on.
    pub fn set_policy(&self, policy: ChunkPolicy) {
        self.change(|entry, _| entry.association.set_policy(policy));
    }

    /// Places packets of the association's tunnel by another policy from now on.
    pub fn set_packet_policy(&self, policy: PacketPolicy) {
        self.change(|entry, _| entry.set_packet_policy(policy));
    }

    /// Waits until the association is over, or the peer has begun it anew.
    pub async fn lost(&self) {
        self.until(|entry, _| entry.is_over().then_some(())).await;
    }

    /// Waits until the association is over.
    pub async fn closed(&self) -> Closed {
        self.until(|entry, _| entry.closed.clone()).await
    }

    /// Ends the association at once; `reason` is told to the peer's application.
    pub fn abort(&self, reason: Bytes) {
        self.change(|entry, _| entry.association.abort(reason));
    }

    /// The state of each pair of addresses.
    pub fn paths(&self) -> Vec<PathSnapshot> {
        self.look(|entry| entry.association.paths(clock::now()))
            .unwrap_or_default()
    }

    /// Takes the state of the association, as [`AssociationState::take`] says.
    pub(crate) fn take_state(
        &self,
        now: Instant,
        began: Instant,
        waiting: ByteCount,
    ) -> AssociationState {
        self.change(|entry, _| AssociationState::take(now, began, &mut entry.association, waiting))
    }

    /// Calls `attempt` after each change until it returns an answer.
    ///
    /// No wake-up is lost: the waiter registers before it looks, and every change notifies under
    /// the lock that the look takes. So a change either precedes the look, which sees it, or
    /// follows it, when the waiter is registered.
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

    /// Changes the association, and sends the packets that result.
    fn change<R>(&self, change: impl FnOnce(&mut Entry, Instant) -> R) -> R {
        let answer = self.endpoint.change(self.id, change);
        answer.expect("an association is kept as long as its handle")
    }

    fn look<R>(&self, look: impl FnOnce(&Entry) -> R) -> Option<R> {
        self.endpoint.look(self.id, look)
    }
}

impl Drop for AssociationHandle {
    fn drop(&mut self) {
        self.endpoints.release(&self.endpoint, self.id);
    }
}

/// Removes the taker of these arrivals when dropped.
struct Taking<'a>(&'a Arrivals);

impl Drop for Taking<'_> {
    fn drop(&mut self) {
        self.0.set_taker(None);
    }
}

/// The flows of a tunnel at one moment.
#[derive(Debug, Default)]
pub(crate) struct TunnelFlows {
    /// The latest flows.
    pub(crate) flows: Vec<PacketFlow>,
    /// Number of all flows.
    pub(crate) count: usize,
    /// The paths of the association.
    pub(crate) paths: Vec<PathSnapshot>,
}

/// A sealed association that the peer is to begin. Dropping this forgets the association's keys.
#[derive(Debug)]
pub struct Expected {
    endpoints: Arc<KeyedEndpoints>,
    endpoint: Arc<KeyedEndpoint>,
}

impl Expected {
    pub(super) fn new(endpoints: Arc<KeyedEndpoints>, endpoint: Arc<KeyedEndpoint>) -> Self {
        Self {
            endpoints,
            endpoint,
        }
    }

    pub(super) fn endpoint(&self) -> &Arc<KeyedEndpoint> {
        &self.endpoint
    }

    /// The key id at the front of the datagrams for this association.
    pub fn key(&self) -> Option<KeyId> {
        self.endpoint.id()
    }

    /// Waits until the peer has begun the association.
    pub async fn accept(self) -> AssociationHandle {
        let (id, changed) = self.endpoint.accept().await;
        let endpoints = Arc::clone(&self.endpoints);
        AssociationHandle::new(endpoints, Arc::clone(&self.endpoint), id, changed)
    }
}

impl Drop for Expected {
    fn drop(&mut self) {
        self.endpoints.give_up(&self.endpoint);
    }
}

/// Batches of packets that are handed on before other tasks on the thread have their turn.
const TURN: u32 = 16;
