//! All transactions of one end.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use hawser_types::Instant;

use super::client::Client;
use super::key::Key;
use super::server::Server;
use super::{Config, Event, Failure, Flow, RespondError, SendError, TransactionId, Transmit};
use crate::message::{Essentials, HeaderName, Message, Method, Request, Response, StatusCode};

/// The transactions of one end, for any number of flows.
///
/// After each change, drain [`Transactions::poll_transmit`] and [`Transactions::poll_event`], and
/// call [`Transactions::handle_timeout`] at [`Transactions::poll_timeout`].
#[derive(Debug)]
pub struct Transactions {
    config: Config,
    clients: BTreeMap<TransactionId, (Key, Client)>,
    servers: BTreeMap<TransactionId, (Key, Server)>,
    client_keys: BTreeMap<Key, TransactionId>,
    server_keys: BTreeMap<Key, TransactionId>,
    /// Time of the next timer; one entry for each transaction.
    due: BTreeSet<(Instant, TransactionId)>,
    next: u64,
    transmits: VecDeque<Transmit>,
    events: VecDeque<Event>,
}

impl Transactions {
    /// Creates an empty table.
    ///
    /// # Panics
    /// Panics if T1 or T2 is zero: retransmissions would have no pause.
    #[must_use]
    pub fn new(config: Config) -> Self {
        assert!(!config.t1.is_zero() && !config.t2.is_zero());
        Self {
            config,
            clients: BTreeMap::new(),
            servers: BTreeMap::new(),
            client_keys: BTreeMap::new(),
            server_keys: BTreeMap::new(),
            due: BTreeSet::new(),
            next: 0,
            transmits: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Sends a request. Its first Via must have a new branch. The owner sends the ACK for a 2xx
    /// itself, because it has no transaction.
    ///
    /// # Errors
    /// See [`SendError`]. On an error, nothing is sent.
    pub fn send(
        &mut self,
        now: Instant,
        flow: Flow,
        request: Request,
    ) -> Result<TransactionId, SendError> {
        let essentials = request.essentials()?;
        let key = Key::of_client(&essentials).ok_or(SendError::Branch)?;
        if self.client_keys.contains_key(&key) {
            return Err(SendError::Branch);
        }
        if self.clients.len() >= self.config.max_clients {
            return Err(SendError::Full(self.config.max_clients));
        }
        let id = self.new_id();
        let client = Client::new(now, flow, request, &self.config);
        self.transmit(flow, client.bytes());
        self.due.insert((client.due(), id));
        self.client_keys.insert(key.clone(), id);
        self.clients.insert(id, (key, client));
        Ok(id)
    }

    /// Sends a response to a received request.
    ///
    /// # Errors
    /// See [`RespondError`]. On an error, nothing is sent.
    pub fn respond(
        &mut self,
        now: Instant,
        id: TransactionId,
        response: &Response,
    ) -> Result<(), RespondError> {
        let (_, server) = self.servers.get_mut(&id).ok_or(RespondError::Ended)?;
        let before = server.due();
        let bytes = server.respond(now, response, &self.config)?;
        let (flow, after) = (server.flow, server.due());
        if let Some(bytes) = bytes {
            self.transmit(flow, bytes);
        }
        self.reschedule(id, before, after);
        self.remove_if_over(now, id);
        Ok(())
    }

    /// Limits the responses to a request from a possibly forged address: they are few, and repeated
    /// only if the request is. Call this before the first response.
    pub fn spare(&mut self, id: TransactionId) {
        if let Some((_, server)) = self.servers.get_mut(&id) {
            let before = server.due();
            server.spare();
            let after = server.due();
            self.reschedule(id, before, after);
        }
    }

    /// Handles a received message. A faulty request is refused at once.
    pub fn handle_message(&mut self, now: Instant, flow: Flow, message: Message) {
        match message {
            Message::Request(request) => match request.essentials() {
                Ok(essentials) => self.handle_request(now, flow, request, &essentials),
                Err(fault) => {
                    let reason = fault.to_string();
                    self.refuse(flow, &request, StatusCode::BAD_REQUEST, &reason);
                }
            },
            // A response that can't be read is ignored.
            Message::Response(response) => {
                if let Ok(essentials) = response.essentials() {
                    self.handle_response(now, flow, response, &essentials);
                }
            }
        }
    }

    /// Records that a flow has failed: nothing more can be sent over it.
    pub fn handle_flow_failure(&mut self, flow: Flow) {
        let clients = self.clients.iter();
        let lost = clients.filter(|(_, (_, client))| client.flow == flow);
        for id in lost.map(|(id, _)| *id).collect::<Vec<_>>() {
            let failure = self.clients[&id].1.failure();
            self.remove(id);
            if failure.is_some() {
                let reason = Failure::Flow;
                self.events.push_back(Event::Failed { id, reason });
            }
        }
        let servers = self.servers.iter();
        let lost = servers.filter(|(_, (_, server))| server.flow == flow);
        for id in lost.map(|(id, _)| *id).collect::<Vec<_>>() {
            let is_abandoned = self.servers[&id].1.is_abandoned();
            self.remove(id);
            if is_abandoned {
                self.events.push_back(Event::Abandoned { id });
            }
        }
    }

    /// Handles due timers.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some((at, id)) = self.due.first().copied().filter(|(at, _)| *at <= now) {
            if self.remove_if_over(now, id) {
                continue;
            }
            let (flow, bytes, after) = if let Some((_, client)) = self.clients.get_mut(&id) {
                let bytes = client.handle_timeout(now, &self.config);
                (client.flow, bytes, client.due())
            } else if let Some((_, server)) = self.servers.get_mut(&id) {
                let bytes = server.handle_timeout(now, &self.config);
                (server.flow, bytes, server.due())
            } else {
                self.due.remove(&(at, id));
                continue;
            };
            if let Some(bytes) = bytes {
                self.transmit(flow, bytes);
            }
            self.reschedule(id, at, after);
        }
    }

    /// Returns the time of the next call to [`Transactions::handle_timeout`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Returns the next bytes to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.transmits.pop_front()
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns the numbers of transactions of sent and of received requests.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        (self.clients.len(), self.servers.len())
    }

    /// Whether a request is a repetition, or the ACK of a known one.
    #[must_use]
    pub fn is_known(&self, request: &Request, essentials: &Essentials) -> bool {
        let key = Key::of_server(request, essentials);
        self.server_keys.contains_key(&key)
    }

    /// Whether the INVITE that a CANCEL cancels is known.
    #[must_use]
    pub fn has_cancelled(&self, cancel: &Request, essentials: &Essentials) -> bool {
        self.cancelled(cancel, essentials).is_some()
    }

    fn cancelled(&self, cancel: &Request, essentials: &Essentials) -> Option<TransactionId> {
        let key = Key::of_cancelled(cancel, essentials);
        self.server_keys.get(&key).copied()
    }

    /// Handles a received request whose mandatory header fields were read.
    pub fn handle_request(
        &mut self,
        now: Instant,
        flow: Flow,
        request: Request,
        essentials: &Essentials,
    ) {
        let key = Key::of_server(&request, essentials);
        let known = self.server_keys.get(&key).copied();
        if let Some(id) = known {
            self.handle_known(now, flow, id, request);
            return;
        }
        if request.method == Method::Ack {
            self.events.push_back(Event::Ack { flow, request });
            return;
        }
        if self.servers.len() >= self.config.max_servers {
            let status = StatusCode::SERVICE_UNAVAILABLE;
            self.refuse(flow, &request, status, status.reason());
            return;
        }
        let cancels = match request.method {
            Method::Cancel => self.cancelled(&request, essentials),
            _ => None,
        };
        let id = self.new_id();
        let server = Server::new(now, flow, &request, &self.config);
        self.due.insert((server.due(), id));
        self.server_keys.insert(key.clone(), id);
        self.servers.insert(id, (key, server));
        self.events.push_back(Event::Request {
            id,
            flow,
            request,
            cancels,
        });
    }

    /// Handles a repeated request, or an ACK.
    fn handle_known(&mut self, now: Instant, flow: Flow, id: TransactionId, request: Request) {
        let Some((_, server)) = self.servers.get_mut(&id) else {
            return;
        };
        let (before, own_flow) = (server.due(), server.flow);
        if request.method == Method::Ack {
            let is_news = server.handle_ack(now, &self.config);
            let after = server.due();
            self.reschedule(id, before, after);
            self.remove_if_over(now, id);
            if is_news {
                self.events.push_back(Event::Ack { flow, request });
            }
        } else if let Some(bytes) = server.handle_again() {
            self.transmit(own_flow, bytes);
        }
    }

    fn handle_response(
        &mut self,
        now: Instant,
        flow: Flow,
        response: Response,
        essentials: &Essentials,
    ) {
        let key = Key::of_client(essentials);
        let id = key.and_then(|key| self.client_keys.get(&key).copied());
        let found = id.and_then(|id| Some((id, self.clients.get_mut(&id)?)));
        let Some((id, (_, client))) = found else {
            self.events.push_back(Event::Stray { flow, response });
            return;
        };
        let before = client.due();
        let reaction = client.handle_response(now, &response, &self.config);
        let (own_flow, after) = (client.flow, client.due());
        self.reschedule(id, before, after);
        if let Some(ack) = reaction.ack {
            self.transmit(own_flow, ack);
        }
        if reaction.is_news {
            self.events.push_back(Event::Response { id, response });
        }
        self.remove_if_over(now, id);
    }

    /// Answers a request without a transaction.
    fn refuse(&mut self, flow: Flow, request: &Request, status: StatusCode, reason: &str) {
        if request.method == Method::Ack {
            return;
        }
        let tag = self.config.tag.clone();
        let mut answer = Response::new(request, status, Some(&tag));
        if crate::cursor::is_field_text(reason) {
            answer = answer.with_reason(reason);
        }
        if status == StatusCode::SERVICE_UNAVAILABLE {
            answer
                .headers
                .push(HeaderName::RetryAfter, RETRY_AFTER_SECONDS);
        }
        self.transmit(flow, answer.to_bytes());
    }

    fn transmit(&mut self, flow: Flow, bytes: Bytes) {
        self.transmits.push_back(Transmit { flow, bytes });
    }

    fn new_id(&mut self) -> TransactionId {
        self.next += 1;
        TransactionId(self.next)
    }

    fn reschedule(&mut self, id: TransactionId, before: Instant, after: Instant) {
        if before != after {
            self.due.remove(&(before, id));
            self.due.insert((after, id));
        }
    }

    /// Removes a transaction that has ended, and reports a failure or abandonment.
    fn remove_if_over(&mut self, now: Instant, id: TransactionId) -> bool {
        if let Some((_, client)) = self.clients.get(&id).filter(|(_, c)| c.is_over(now)) {
            let failure = client.failure();
            self.remove(id);
            if let Some(reason) = failure {
                self.events.push_back(Event::Failed { id, reason });
            }
            return true;
        }
        let Some((_, server)) = self.servers.get(&id).filter(|(_, s)| s.is_over(now)) else {
            return false;
        };
        let is_abandoned = server.is_abandoned();
        self.remove(id);
        if is_abandoned {
            self.events.push_back(Event::Abandoned { id });
        }
        true
    }

    fn remove(&mut self, id: TransactionId) {
        if let Some((key, client)) = self.clients.remove(&id) {
            self.client_keys.remove(&key);
            self.due.remove(&(client.due(), id));
        }
        if let Some((key, server)) = self.servers.remove(&id) {
            self.server_keys.remove(&key);
            self.due.remove(&(server.due(), id));
        }
    }
}

/// Retry-After of a 503 because of too many requests.
const RETRY_AFTER_SECONDS: u32 = 5;
