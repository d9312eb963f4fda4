//! One association.

mod addresses;
mod feedback;
mod ingest;
mod setup;
mod shutdown;
mod transmit;

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use hawser_sched::PathView;
use hawser_sched::chunk::ChunkPolicy;
use hawser_sched::tally::Placed;
use hawser_types::{ByteCount, Instant, PathId};
use hawser_wire::sctp::{Cause, Chunk, StreamNumber};

use feedback::Feedback;
pub(crate) use setup::{Arrival, Setup, SetupContext, SetupOutcome, whole_packet};
pub(crate) use shutdown::{Shutdown, ShutdownLimits, ShutdownOutcome};

use crate::error::Closed;
use crate::handshake::Negotiated;
use crate::path::{Asconf, Paths};
use crate::receive::Inbound;
use crate::send::{Outbound, OwnerBacklog};
use crate::{
    AssociationConfig, Backlog, Event, LinkInfo, Local, LostMessage, Message, PathSnapshot,
    PlacedMessage, Received, Route, SendError, ToPlace, Turn,
};

/// One end of an association.
///
/// The contract: change once (`handle_*`, [`Association::send`], [`Association::receive`], …), then
/// drain [`Association::poll_transmit`] and [`Association::poll_event`] to `None`, and wait for
/// [`Association::poll_timeout`]. An association that has told [`Event::Closed`] may still have
/// last packets to send, and then nothing more.
#[derive(Debug)]
pub struct Association {
    config: AssociationConfig,
    /// Local addresses that packets can leave from.
    locals: Vec<Local>,
    setup: Setup,
    shutdown: Shutdown,
    paths: Paths,
    /// The data transfer halves; `None` until the association is established.
    flow: Option<Flow>,
    /// Waiting chunks other than DATA and SACK, each with its route.
    control: VecDeque<(Route, Chunk)>,
    events: VecDeque<Event>,
    /// Buffer that the next packet is written to.
    memory: BytesMut,
    /// The association is over: it may send last packets and reads nothing.
    is_closed: bool,
    /// [`Event::Readable`] was reported, and the application has received nothing since.
    is_readable_reported: bool,
}

/// Data transfer of an established association, in both directions.
#[derive(Debug)]
struct Flow {
    outbound: Outbound,
    inbound: Inbound,
    /// Choice of the route for acknowledgements.
    feedback: Feedback,
    /// Dynamic addresses; `None` where the peer does not support them.
    asconf: Option<Asconf>,
}

impl Association {
    /// Creates an association. `seed` makes the heartbeat nonces and jitter.
    pub(crate) fn new(
        setup: Setup,
        config: AssociationConfig,
        locals: Vec<Local>,
        seed: u64,
    ) -> Self {
        let limits = ShutdownLimits {
            rto_max: config.rto_max,
            max_retransmissions: config.association_max_retransmissions,
        };
        Self {
            paths: Paths::new(&config, seed),
            locals,
            shutdown: Shutdown::new(limits),
            flow: None,
            control: VecDeque::new(),
            events: VecDeque::new(),
            memory: BytesMut::new(),
            is_closed: false,
            is_readable_reported: false,
            setup,
            config,
        }
    }

    /// Queues a message on a stream.
    ///
    /// # Errors
    /// Fails when the send buffer is full, the stream does not exist or the association is closing.
    pub fn send(
        &mut self,
        now: Instant,
        stream: StreamNumber,
        message: Message,
    ) -> Result<(), SendError> {
        if self.is_closed || !self.shutdown.is_open() {
            return Err(SendError::Closing);
        }
        match &mut self.flow {
            Some(flow) => flow.outbound.send(now, stream, message),
            None => Err(SendError::Full),
        }
    }

    /// Queues a message that leaves over one path, once: it arrives in any order, late, or not at
    /// all. What is lost can be had by [`Self::take_lost`].
    ///
    /// # Errors
    /// Fails when the send buffer is full, the association is closing, or there is no
    /// [`AssociationConfig::placed_stream`].
    pub fn send_over(
        &mut self,
        path: PathId,
        message: impl Into<PlacedMessage>,
    ) -> Result<(), SendError> {
        if self.is_closed || !self.shutdown.is_open() {
            return Err(SendError::Closing);
        }
        match &mut self.flow {
            Some(flow) => flow.outbound.send_over(&self.paths, path, message.into()),
            None => Err(SendError::Full),
        }
    }

    /// Returns the next message of [`Self::send_over`] that counts as lost, in the order of losses:
    /// on its way, or since its path has fallen silent while another answers. It may still arrive.
    /// Messages that were too long for one packet are not returned; of very many, the latest are.
    pub fn take_lost(&mut self) -> Option<LostMessage> {
        self.flow.as_mut()?.outbound.take_lost()
    }

    /// Shows the paths that [`Self::send_over`] may use, in ascending order of their numbers, each
    /// with the payload for which it has room: what leaves over it in the next moments. More would
    /// only wait there; with less, the path would run empty between two looks, and count as one
    /// that is not used in full.
    pub fn show_rooms(&mut self, now: Instant, turn: Turn, show: impl FnMut(&PathView, ByteCount)) {
        if let Some(flow) = self.flow.as_ref().filter(|_| !self.is_closed) {
            flow.outbound.show_rooms(now, &mut self.paths, turn, show);
        }
    }

    /// Tells what the owner still has to place: a path without room then counts as busy, not as
    /// idle. The default is nothing.
    pub fn set_to_place(&mut self, to_place: ToPlace) {
        if let Some(flow) = &mut self.flow {
            flow.outbound.set_to_place(to_place);
        }
    }

    /// Tells whether [`Self::receive_placed`] has a message.
    pub fn has_placed(&self) -> bool {
        let flow = self.flow.as_ref();
        flow.is_some_and(|flow| flow.inbound.has_placed())
    }

    /// Returns the next message that the peer has placed.
    pub fn receive_placed(&mut self) -> Option<Received> {
        self.flow.as_mut()?.inbound.receive_placed()
    }

    /// Returns the next message that is complete and in order.
    pub fn receive(&mut self) -> Option<Received> {
        self.is_readable_reported = false;
        self.flow.as_mut()?.inbound.receive()
    }

    /// Takes no more messages and ends the association when everything has arrived;
    /// [`Event::Closed`] reports the end.
    pub fn shutdown(&mut self, now: Instant) {
        if self.flow.is_none() {
            return self.abort(Bytes::new());
        }
        self.shutdown.start();
        self.check_settled(now);
    }

    /// Ends the association at once; data in flight is lost. The peer's application gets `reason`.
    pub fn abort(&mut self, reason: Bytes) {
        self.end(vec![Cause::UserAbort(reason)], Closed::Aborted);
    }

    /// Returns when to call [`Self::handle_timeout`]; `None` means not before another input.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.is_closed {
            return None;
        }
        let begins = self.setup.poll_timeout();
        let ends = self.shutdown.poll_timeout();
        let has_path = self.paths.iter().next().is_some();
        let flows = self.flow.as_ref().and_then(|flow| {
            // Requests wait while there is no path.
            let asconf = flow.asconf.as_ref().filter(|_| has_path);
            let halves = [
                flow.outbound.poll_timeout(&self.paths),
                flow.inbound.poll_timeout(),
                self.paths.poll_timeout(),
                asconf.and_then(Asconf::poll_timeout),
            ];
            halves.into_iter().flatten().min()
        });
        [begins, ends, flows].into_iter().flatten().min()
    }

    /// Handles timers that have expired.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.is_closed {
            return;
        }
        let outcome = self.setup.handle_timeout(now);
        self.on_setup_outcome(now, None, outcome);
        let outcome = self.shutdown.handle_timeout(now);
        self.on_shutdown_outcome(now, outcome);
        self.on_paths_timeout(now);
        if let Some(flow) = &mut self.flow {
            flow.outbound.handle_timeout(now, &mut self.paths);
            if self.paths.is_lost(now) {
                self.end(Vec::new(), Closed::Unreachable);
            } else {
                self.check_settled(now);
            }
        }
    }

    /// Returns the next event, in order.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.collect_events();
        self.events.pop_front()
    }

    /// Tells how much the owner still holds back to keep this queue short. Path policies have to
    /// know whether much more follows. The default is nothing.
    pub fn set_owner_backlog(&mut self, backlog: OwnerBacklog) {
        if let Some(flow) = &mut self.flow {
            flow.outbound.set_owner_backlog(backlog);
        }
    }

    /// Returns the state of each pair of addresses.
    pub fn paths(&self, now: Instant) -> Vec<PathSnapshot> {
        self.paths
            .iter()
            .map(|path| PathSnapshot::of(now, path))
            .collect()
    }

    /// Returns the memory taken by data that was received and not taken yet, with what keeping it
    /// costs.
    pub fn held(&self) -> ByteCount {
        let flow = self.flow.as_ref();
        ByteCount::new(flow.map_or(0, |flow| flow.inbound.held()))
    }

    /// Returns what was given to send and is not yet acknowledged.
    pub fn backlog(&self) -> Backlog {
        let flow = self.flow.as_ref();
        flow.map_or_else(Backlog::default, |flow| flow.outbound.backlog())
    }

    /// Tells whether no path carries the packet that the peer waits for: routes have changed to
    /// smaller packets since it was made. A chunk cannot change after its first transmission, so
    /// that this association does not go on before a path carries larger packets again.
    pub fn is_stuck(&self, now: Instant) -> bool {
        let flow = self.flow.as_ref();
        flow.is_some_and(|flow| flow.outbound.is_stuck(now, &self.paths))
    }

    /// Takes what was placed on which link since the last call, and why, for messages with an
    /// [`owner_stream`](Message::owner_stream). Links are those that policies know.
    pub fn take_placed(&mut self) -> Vec<Placed> {
        let flow = self.flow.as_mut();
        flow.map_or_else(Vec::new, |flow| flow.outbound.take_placed())
    }

    /// Returns the payload that is not in a packet yet.
    pub fn queued(&self) -> ByteCount {
        let flow = self.flow.as_ref();
        flow.map_or(ByteCount::ZERO, |flow| flow.outbound.queued())
    }

    /// Returns the negotiated number of outbound streams; 0 before the association is established.
    pub fn outbound_streams(&self) -> u16 {
        self.setup
            .negotiated()
            .map_or(0, |negotiated| negotiated.outbound_streams)
    }

    /// Sets what is known about links. It also applies to paths added later. The first matching
    /// entry describes a path. A path without an entry belongs to this host's link and has no
    /// restrictions.
    pub fn set_links(&mut self, links: Vec<LinkInfo>) {
        self.paths.set_links(links);
    }

    /// Replaces the policy that assigns new chunks to paths, also for chunks already waiting.
    pub fn set_policy(&mut self, policy: ChunkPolicy) {
        self.config.policy = policy;
        if let Some(flow) = &mut self.flow {
            flow.outbound.set_policy(policy);
        }
    }

    /// Tells whether nothing waits to be sent or acknowledged.
    pub fn is_settled(&self) -> bool {
        self.flow
            .as_ref()
            .is_none_or(|flow| flow.outbound.is_settled())
    }

    /// Returns the payload sent more than once, without the first transmission of each chunk.
    pub fn repeated(&self) -> ByteCount {
        let flow = self.flow.as_ref();
        flow.map_or(ByteCount::ZERO, |flow| flow.outbound.repeated())
    }

    fn establish(&mut self, now: Instant, negotiated: &Negotiated) {
        self.flow = Some(Flow {
            outbound: Outbound::new(&self.config, negotiated),
            inbound: Inbound::new(
                &self.config,
                negotiated.peer_initial_tsn,
                negotiated.inbound_streams,
                negotiated.interleaving,
                negotiated.partial_reliability,
            ),
            feedback: Feedback::default(),
            asconf: negotiated
                .reconfiguration
                .then(|| Asconf::new(negotiated.initial_tsn, negotiated.peer_initial_tsn)),
        });
        self.add_paths(now);
    }

    /// Lets a shutdown continue once all data is acknowledged.
    fn check_settled(&mut self, now: Instant) {
        if !self.shutdown.is_open() && self.is_settled() {
            self.shutdown.on_settled(now);
        }
    }

    /// Ends the association with an ABORT, if an address of the peer is known.
    fn end(&mut self, causes: Vec<Cause>, why: Closed) {
        if self.is_closed {
            return;
        }
        let from = self.flow.as_ref().and_then(|flow| flow.feedback.latest());
        let from = from.filter(|route| self.paths.find(route).is_some());
        // The silence of paths does not matter any more.
        let route = from.or_else(|| self.best_route(Instant::ZERO));
        self.setup.abort(route, causes);
        self.close(why);
    }

    fn close(&mut self, why: Closed) {
        if self.is_closed {
            return;
        }
        self.collect_events();
        tracing::debug!(?why, "association is over");
        self.is_closed = true;
        self.control.clear();
        self.events.push_back(Event::Closed(why));
    }

    fn collect_events(&mut self) {
        if self.is_closed {
            return;
        }
        while let Some(event) = self.paths.poll_event() {
            self.events.push_back(event);
        }
        let Some(flow) = &mut self.flow else {
            return;
        };
        while let Some(event) = flow.outbound.poll_event() {
            self.events.push_back(event);
        }
        if flow.inbound.is_readable() && !self.is_readable_reported {
            self.is_readable_reported = true;
            self.events.push_back(Event::Readable);
        }
    }
}
