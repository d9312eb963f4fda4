//! One association.

mod addresses;
mod answer;
mod feedback;
mod ingest;
mod offer;
mod scope;
mod setup;
mod shutdown;
mod terms;
mod transmit;

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use hawser_sched::chunk::ChunkPolicy;
use hawser_types::{ByteCount, Instant};
use hawser_wire::sctp::{Cause, Chunk, StreamNumber};

pub(crate) use answer::Answer;
use feedback::Feedback;
pub(crate) use offer::{MAX_PEER_ADDRESSES, Offer, PeerOffer, asked_for};
pub(crate) use scope::{is_host, may_meet};
pub(crate) use setup::{Arrival, Beginning, Setup, SetupNews, whole_packet};
pub(crate) use shutdown::{Shutdown, ShutdownLimits, ShutdownNews};
pub(crate) use terms::{Names, Terms};

use crate::error::Closed;
use crate::path::{Asconf, Paths};
use crate::receive::Inbound;
use crate::send::{Behind, Outbound};
use crate::{
    AssociationConfig, Backlog, Event, LinkWord, Local, Message, PathSnapshot, Received, Route,
    SendError,
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
    /// Where packets can leave.
    locals: Vec<Local>,
    setup: Setup,
    shutdown: Shutdown,
    paths: Paths,
    /// What flows, once it may.
    flow: Option<Flow>,
    /// Chunks other than DATA and SACK that wait, and where they go.
    control: VecDeque<(Route, Chunk)>,
    events: VecDeque<Event>,
    /// Where the next packet is written.
    memory: BytesMut,
    /// It is over: last words go, nothing comes.
    is_closed: bool,
    /// [`Event::Readable`] was told, and nothing was received since.
    told_readable: bool,
}

/// The two halves of an association that stands.
#[derive(Debug)]
struct Flow {
    outbound: Outbound,
    inbound: Inbound,
    /// Which way acknowledgements go back.
    feedback: Feedback,
    /// Addresses that come and go, where the peer takes part in that.
    asconf: Option<Asconf>,
}

impl Association {
    /// `seed` draws what heartbeats say and when they leave.
    pub(crate) fn new(
        setup: Setup,
        config: AssociationConfig,
        locals: Vec<Local>,
        seed: u64,
    ) -> Self {
        Self {
            paths: Paths::new(&config, seed),
            locals,
            shutdown: config.new_shutdown(),
            flow: None,
            control: VecDeque::new(),
            events: VecDeque::new(),
            memory: BytesMut::new(),
            is_closed: false,
            told_readable: false,
            setup,
            config,
        }
    }

    /// Takes a message to be sent on a stream.
    ///
    /// # Errors
    /// When there is no room, no such stream, or no such association any more.
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

    /// The next message, if one is whole and in its turn.
    pub fn receive(&mut self) -> Option<Received> {
        self.told_readable = false;
        self.flow.as_mut()?.inbound.receive()
    }

    /// Sends nothing more, and ends when everything has arrived; [`Event::Closed`] tells when.
    pub fn shutdown(&mut self, now: Instant) {
        if self.flow.is_none() {
            return self.abort(Bytes::new());
        }
        self.shutdown.start();
        self.look_whether_settled(now);
    }

    /// Ends it at once; what is under way is lost. `reason` is told to the peer's application.
    pub fn abort(&mut self, reason: Bytes) {
        self.end(vec![Cause::UserAbort(reason)], Closed::Aborted);
    }

    /// When [`Self::handle_timeout`] is to be called; `None`: not before something else happens.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.is_closed {
            return None;
        }
        let begins = self.setup.poll_timeout();
        let ends = self.shutdown.poll_timeout();
        let flows = self.flow.as_ref().and_then(|flow| {
            let halves = [
                flow.outbound.poll_timeout(&self.paths),
                flow.inbound.poll_timeout(),
                self.paths.poll_timeout(),
                self.asconf_timeout(flow),
            ];
            halves.into_iter().flatten().min()
        });
        [begins, ends, flows].into_iter().flatten().min()
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.is_closed {
            return;
        }
        let news = self.setup.handle_timeout(now);
        self.on_setup_news(now, None, news);
        let news = self.shutdown.handle_timeout(now);
        self.on_shutdown_news(now, news);
        self.paths.handle_timeout(now);
        if let Some(flow) = &mut self.flow {
            flow.outbound.handle_timeout(now, &mut self.paths);
            if self.paths.is_lost(now) {
                self.end(Vec::new(), Closed::Unreachable);
            } else {
                self.look_whether_settled(now);
            }
        }
    }

    /// What has happened, in order.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.collect_events();
        self.events.pop_front()
    }

    /// What its owner will hand over next, who keeps its queue short: policies that choose paths have to know whether
    /// much more follows. Nothing, if not said.
    pub fn set_behind(&mut self, behind: Behind) {
        if let Some(flow) = &mut self.flow {
            flow.outbound.set_behind(behind);
        }
    }

    /// How each pair of addresses does.
    pub fn paths(&self, now: Instant) -> Vec<PathSnapshot> {
        self.paths
            .iter()
            .map(|path| PathSnapshot::of(now, path))
            .collect()
    }

    /// What the peer does not have yet of what it was sent.
    pub fn backlog(&self) -> Backlog {
        let flow = self.flow.as_ref();
        flow.map_or_else(Backlog::default, |flow| flow.outbound.backlog())
    }

    /// Payload that waits to be put into packets.
    pub fn queued(&self) -> ByteCount {
        let flow = self.flow.as_ref();
        flow.map_or(ByteCount::ZERO, |flow| flow.outbound.queued())
    }

    /// Streams to send on, as agreed; 0 before that.
    pub fn outbound_streams(&self) -> u16 {
        self.setup.terms().map_or(0, |terms| terms.outbound_streams)
    }

    /// What holds for links from now on, for paths to come too: of each path the first word that is about
    /// it. Those without one are of this host's link, and may be used like any.
    pub fn set_links(&mut self, words: Vec<LinkWord>) {
        self.paths.set_links(words);
    }

    /// Places new chunks by another policy from now on, those that wait already among them.
    pub fn set_policy(&mut self, policy: ChunkPolicy) {
        self.config.policy = policy;
        if let Some(flow) = &mut self.flow {
            flow.outbound.set_policy(policy);
        }
    }

    /// Whether nothing waits to be sent or acknowledged.
    pub fn is_settled(&self) -> bool {
        self.flow
            .as_ref()
            .is_none_or(|flow| flow.outbound.is_settled())
    }

    /// Payload that was sent more than once so far, each time but the first counting.
    pub fn repeated(&self) -> ByteCount {
        let flow = self.flow.as_ref();
        flow.map_or(ByteCount::ZERO, |flow| flow.outbound.repeated())
    }

    fn establish(&mut self, now: Instant, terms: &Terms) {
        self.flow = Some(Flow {
            outbound: Outbound::new(&self.config, terms),
            inbound: Inbound::new(
                &self.config,
                terms.peer_initial_tsn,
                terms.inbound_streams,
                terms.interleaving,
                terms.partial_reliability,
            ),
            feedback: Feedback::default(),
            asconf: terms
                .reconfiguration
                .then(|| Asconf::new(terms.initial_tsn, terms.peer_initial_tsn)),
        });
        self.add_paths(now);
    }

    /// Without any path, what is to be asked waits for one.
    fn asconf_timeout(&self, flow: &Flow) -> Option<Instant> {
        let asconf = flow.asconf.as_ref()?;
        self.paths.iter().next()?;
        asconf.poll_timeout()
    }

    /// A shutdown goes on when everything has arrived.
    fn look_whether_settled(&mut self, now: Instant) {
        if !self.shutdown.is_open() && self.is_settled() {
            self.shutdown.on_settled(now);
        }
    }

    /// Ends it with a word to the peer, if it is known where that is.
    fn end(&mut self, causes: Vec<Cause>, why: Closed) {
        if self.is_closed {
            return;
        }
        let from = self.flow.as_ref().and_then(|flow| flow.feedback.latest());
        let from = from.filter(|route| self.paths.find(route).is_some());
        // How long a path has been silent does not matter any more.
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
        if flow.inbound.is_readable() && !self.told_readable {
            self.told_readable = true;
            self.events.push_back(Event::Readable);
        }
    }
}

impl AssociationConfig {
    fn new_shutdown(&self) -> Shutdown {
        Shutdown::new(ShutdownLimits {
            rto_max: self.rto_max,
            max_retransmissions: self.association_max_retransmissions,
        })
    }
}
