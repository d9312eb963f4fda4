//! A directory: registrar and proxy for some domains, over datagrams and streams.
//!
//! Clients without a password leave no state: their requests are answered without a transaction,
//! from the request alone. All other state is bounded.

mod answers;
mod config;
mod flows;
mod forwarding;
mod hop;
mod output;
mod reactions;
mod source;
#[cfg(test)]
mod tests;
mod watching;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use bytes::Bytes;
use hawser_types::{Host, Instant};

use crate::digest::Verifier;
use crate::fields::Transport;
use crate::framer::Framed;
use crate::message::{
    Datagram, Essentials, Glance, HeaderFault, Malformed, Message, Method, Refusal, Request,
    Response, glance, read_datagram,
};
use crate::proxy::{Decision, Proxy};
use crate::registrar::{Location, Registrar, Users};
use crate::subscription::{Notifier, WatcherId};
use crate::transaction::{Config, Flow, TransactionId, Transactions, Transmit};
use crate::words::Words;
use answers::{is_answered_here, overloaded, own, to_cancel};
pub use config::DirectoryConfig;
use config::TAG;
use flows::Flows;
use forwarding::{Caller, Forwarding};
pub use hop::Reach;
pub use output::{DirectoryCounts, Output};
use source::{Admissions, Admitted, Source};

/// A directory.
///
/// After each change, store the bindings that [`Directory::poll_change`] names, drain
/// [`Directory::poll_output`] to `None`, and call [`Directory::handle_timeout`] at
/// [`Directory::poll_timeout`].
pub struct Directory {
    config: DirectoryConfig,
    users: Box<dyn Users + Send>,
    reach: Box<dyn Reach + Send>,
    admissions: Admissions,
    transactions: Transactions,
    registrar: Registrar,
    proxy: Proxy,
    forwarding: Forwarding,
    notifier: Notifier,
    /// Unanswered NOTIFY requests.
    told: BTreeMap<TransactionId, WatcherId>,
    flows: Flows,
    words: Words,
    outputs: VecDeque<Output>,
    counts: DirectoryCounts,
}

impl Directory {
    /// Creates a directory without bindings. `seed` is secret and random; a stored seed lets calls
    /// outlive a restart. `fresh` is secret, random and never reused: nonces are dated by a clock
    /// that starts with the process, so their key must not be stored.
    #[must_use]
    pub fn new(
        config: DirectoryConfig,
        (users, reach): (Box<dyn Users + Send>, Box<dyn Reach + Send>),
        seed: &[u8; 32],
        fresh: &[u8; 32],
    ) -> Self {
        let realm = config.domains.first().map(Host::to_string);
        let realm = realm.unwrap_or_default();
        let verifier = Verifier::new(&realm, fresh, NONCE_LIFETIME, &config.algorithms);
        let domains = config.domains.clone();
        let mut transactions = Config::new(TAG);
        transactions.max_servers = config.max_requests;
        transactions.max_clients = config.max_forwarded.saturating_mul(2);
        Self {
            admissions: Admissions::new(&config.admission),
            transactions: Transactions::new(transactions),
            registrar: Registrar::new(domains, verifier, config.locations.clone(), TAG),
            proxy: Proxy::new(config.own.clone(), config.domains.clone(), seed),
            forwarding: Forwarding::new(config.max_forwarded),
            notifier: Notifier::new(config.watchers.clone()),
            told: BTreeMap::new(),
            flows: Flows::new(config.max_streams),
            words: Words::new(fresh),
            outputs: VecDeque::new(),
            counts: DirectoryCounts::default(),
            config,
            users,
            reach,
        }
    }

    /// Returns the bindings.
    #[must_use]
    pub fn location(&self) -> &Location {
        self.registrar.location()
    }

    /// Returns the bindings, so that stored ones can be restored.
    pub fn location_mut(&mut self) -> &mut Location {
        self.registrar.location_mut()
    }

    /// Returns an address of record whose bindings changed since it was last returned. Store them
    /// before sending anything, so that no confirmed binding is lost. Its watchers are notified in
    /// the next turn, which is due at once.
    pub fn poll_change(&mut self) -> Option<String> {
        let changed = self.registrar.location_mut().poll_change()?;
        self.notifier.handle_change(&changed);
        Some(changed)
    }

    /// Returns counters since the start.
    #[must_use]
    pub fn counts(&self) -> DirectoryCounts {
        self.counts
    }

    /// Returns the number of open streams.
    #[must_use]
    pub fn stream_count(&self) -> usize {
        self.flows.stream_count()
    }

    /// Handles a datagram from `source` to the socket with this number. It counts against the
    /// sender's limit before it is parsed.
    pub fn handle_datagram(
        &mut self,
        now: Instant,
        socket: u32,
        source: SocketAddr,
        bytes: &Bytes,
    ) {
        let from = Source::Datagrams((socket, source));
        let answer = match glance(bytes) {
            Glance::KeepAlive => return,
            Glance::Answer => self.flows.admit_answer(now, from),
            Glance::Request => None,
        };
        if !answer.unwrap_or_else(|| self.admissions.admit_datagram(now, source)) {
            self.counts.over_limit += 1;
            return;
        }
        match read_datagram(bytes, &self.config.messages) {
            Ok(Datagram::Message { message, .. }) => self.handle_message(now, from, message),
            Ok(Datagram::KeepAlive) => {}
            Err(malformed) => self.handle_malformed(from, &malformed),
        }
    }

    /// Handles a new connection. `None`: it is refused and must be closed.
    pub fn handle_connection(
        &mut self,
        now: Instant,
        transport: Transport,
        source: SocketAddr,
    ) -> Option<Flow> {
        let is_admitted = self.admissions.admit_stream(now, source);
        let end = (transport, source);
        let flow = is_admitted.then(|| self.flows.open(now, end, self.config.messages));
        if flow.flatten().is_none() {
            self.counts.streams_refused += 1;
        }
        flow.flatten()
    }

    /// Handles bytes received over a stream.
    pub fn handle_bytes(&mut self, now: Instant, flow: Flow, bytes: &[u8]) {
        let Some(stream) = self.flows.stream(flow) else {
            return;
        };
        let from = Source::Stream(flow, stream.remote);
        stream.framer.push(bytes);
        while let Some(framed) = self.flows.stream(flow).and_then(|it| it.framer.poll()) {
            match framed {
                Framed::Message(message) => {
                    self.flows.heard(now, flow);
                    self.handle_message(now, from, message);
                }
                Framed::LineEnd => {}
                Framed::Ping => {
                    self.flows.heard(now, flow);
                    let bytes = Bytes::from_static(b"\r\n");
                    self.outputs.push_back(Output::Stream { flow, bytes });
                }
                Framed::Malformed(malformed) => {
                    self.handle_malformed(from, &malformed);
                    self.close(flow);
                }
            }
        }
        self.react(now, None);
    }

    /// Records that a stream has ended or could not be opened.
    pub fn handle_closed(&mut self, now: Instant, flow: Flow) {
        if self.flows.close(flow) {
            self.transactions.handle_flow_failure(flow);
            self.react(now, None);
        }
    }

    /// Handles due timers.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some((_, flow)) = self.flows.first_silent().filter(|(at, _)| *at <= now) {
            self.close(flow);
        }
        self.registrar.location_mut().handle_timeout(now);
        self.transactions.handle_timeout(now);
        self.forwarding.handle_timeout(now);
        self.notifier.handle_timeout(now);
        self.tell_watchers(now);
        self.react(now, None);
    }

    /// Returns the time of the next call to [`Directory::handle_timeout`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let times = [
            self.flows.first_silent().map(|(at, _)| at),
            self.location().poll_timeout(),
            self.transactions.poll_timeout(),
            self.forwarding.poll_timeout(),
            self.notifier.poll_timeout(),
            self.notifier.has_news().then_some(Instant::ZERO),
        ];
        times.into_iter().flatten().min()
    }

    /// Returns the next action for the owner.
    pub fn poll_output(&mut self) -> Option<Output> {
        if let Some(output) = self.outputs.pop_front() {
            return Some(output);
        }
        while let Some(Transmit { flow, bytes }) = self.transactions.poll_transmit() {
            if let Some(output) = self.output(flow, bytes) {
                return Some(output);
            }
        }
        None
    }

    /// `None` if the flow no longer exists.
    fn output(&self, flow: Flow, bytes: Bytes) -> Option<Output> {
        if flow.is_reliable {
            let is_open = self.flows.is_open(flow);
            return is_open.then_some(Output::Stream { flow, bytes });
        }
        let (socket, to) = self.flows.datagrams_of(flow)?;
        Some(Output::Datagram { socket, to, bytes })
    }

    fn close(&mut self, flow: Flow) {
        if self.flows.close(flow) {
            self.outputs.push_back(Output::Close { flow });
            self.transactions.handle_flow_failure(flow);
        }
    }

    fn handle_malformed(&mut self, from: Source, malformed: &Malformed) {
        self.counts.malformed += 1;
        if let Some(answer) = malformed.answer(TAG) {
            self.answer(from, &answer);
        }
    }

    fn handle_message(&mut self, now: Instant, from: Source, message: Message) {
        // Datagrams were counted before they were parsed.
        if let Source::Stream(flow, _) = from
            && !self.admit_from_stream(now, from, &message)
        {
            self.counts.over_limit += 1;
            if let Message::Request(request) = message
                && request.method != Method::Ack
            {
                self.answer(from, &overloaded(&request));
            }
            if self.flows.is_refused_for_good(flow) {
                self.close(flow);
            }
            return;
        }
        match message {
            Message::Request(request) => {
                self.counts.requests += 1;
                self.handle_request(now, from, request);
            }
            response @ Message::Response(_) => {
                // The transaction of the response knows its own flow.
                self.transactions.handle_message(now, NO_FLOW, response);
                self.react(now, None);
            }
        }
    }

    fn admit_from_stream(&mut self, now: Instant, from: Source, message: &Message) -> bool {
        let answer = match message {
            Message::Request(_) => None,
            Message::Response(_) => self.flows.admit_answer(now, from),
        };
        answer.unwrap_or_else(|| self.admissions.admit_stream(now, from.address()))
    }

    fn handle_request(&mut self, now: Instant, from: Source, mut request: Request) {
        let source = from.address();
        // A Via that can't be read is refused below.
        let _ = request.headers.set_source(source.ip(), source.port());
        let essentials = match request.essentials() {
            Ok(essentials) => essentials,
            Err(fault) => return self.refuse(from, &request, &fault),
        };
        if self.transactions.is_known(&request, &essentials) {
            self.transactions
                .handle_request(now, NO_FLOW, request, &essentials);
            return self.react(now, None);
        }
        let caller = self.admissions.caller(from);
        let admitted = match self.admit(now, caller, (&request, &essentials)) {
            Ok(admitted @ (Admitted::Registers(_) | Admitted::Watches(_))) => {
                self.admissions.keep(now, from);
                admitted
            }
            Ok(admitted) => admitted,
            Err(Some(answer)) => return self.answer(from, &answer),
            Err(None) => return,
        };
        let flow = match from {
            _ if request.method == Method::Ack => Some(NO_FLOW),
            Source::Stream(flow, _) => Some(flow),
            Source::Datagrams(datagrams) => self.flows.datagrams(now, datagrams),
        };
        let Some(flow) = flow else {
            self.counts.over_limit += 1;
            return;
        };
        self.transactions
            .handle_request(now, flow, request, &essentials);
        self.react(now, Some((caller, admitted)));
    }

    /// Refuses a request with an unreadable header field.
    fn refuse(&mut self, from: Source, request: &Request, fault: &HeaderFault) {
        match request.method {
            Method::Ack => return,
            Method::Register | Method::Subscribe => self.counts.not_admitted += 1,
            _ => {}
        }
        self.answer(from, &Refusal::unreadable(fault).answer(request, TAG));
    }

    /// Decides whether a request may create state. Otherwise returns its answer, if it gets one.
    fn admit(
        &mut self,
        now: Instant,
        caller: Caller,
        (request, essentials): (&Request, &Essentials),
    ) -> Result<Admitted, Option<Response>> {
        let source = caller.address;
        match request.method {
            // ACK for a response that was sent without a transaction.
            Method::Ack if is_answered_here(request) => Err(None),
            Method::Cancel if !self.transactions.has_cancelled(request, essentials) => {
                Err(Some(to_cancel(request, false)))
            }
            Method::Ack | Method::Cancel => Ok(Admitted::Follows),
            Method::Register => {
                let asked = (request, essentials);
                let outcome = self.registrar.admit(now, source, asked, &*self.users);
                outcome.map(Admitted::Registers).map_err(|answer| {
                    self.counts.not_admitted += 1;
                    Some(answer)
                })
            }
            _ if self.is_to_watch(request) => self
                .admit_watcher(now, source, (request, essentials))
                .map_err(|answer| {
                    self.counts.not_admitted += 1;
                    Some(answer)
                }),
            _ => match self.proxy.handle_request(now, request, self.location()) {
                Decision::Refuse(refusal) => Err(Some(refusal.answer(request, TAG))),
                Decision::Own => Err(Some(own(request))),
                Decision::Forward(_) if !self.forwarding.has_room(caller) => {
                    self.counts.over_limit += 1;
                    Err(Some(overloaded(request)))
                }
                Decision::Forward(targets) => Ok(Admitted::Reaches(targets)),
            },
        }
    }

    /// Sends a response without a transaction.
    fn answer(&mut self, to: Source, answer: &Response) {
        let bytes = answer.to_bytes();
        self.outputs.push_back(match to {
            Source::Datagrams((socket, to)) => Output::Datagram { socket, to, bytes },
            Source::Stream(flow, _) => Output::Stream { flow, bytes },
        });
    }
}

impl std::fmt::Debug for Directory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Directory")
            .field("config", &self.config)
            .field("counts", &self.counts)
            .finish_non_exhaustive()
    }
}

/// Time for which a client can prove its password again without a new challenge.
const NONCE_LIFETIME: std::time::Duration = std::time::Duration::from_secs(300);
/// Flow of responses and ACKs: they need no answer, and their branch identifies the transaction.
const NO_FLOW: Flow = Flow {
    number: 0,
    is_reliable: false,
};
