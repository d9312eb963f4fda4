//! Registers this host's addresses with a directory, over the link that reaches it best.

mod others;
mod own;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

use hawser_types::{Host, Instant};

use super::{CareOf, Registration, RegistrationConfig, RegistrationEvent, preferences};
use crate::digest::Answerer;
use crate::fields::{CallId, Transport, Via};
use crate::message::{HeaderName, Message, Method, Request, Response, StatusCode};
use crate::transaction::{Config, Event, Flow, TransactionId, Transactions, Transmit};
use crate::uri::SipUri;
use crate::words::Words;
use own::Own;
pub use own::OwnAddress;

/// Name of the host to register, transport and lifetime.
#[derive(Clone, Debug)]
pub struct AnnouncerConfig {
    /// Name of this host, such as `sip:alice@example.org`. The directory is the one of its domain.
    pub name: SipUri,
    /// Transport of requests to the directory.
    pub transport: Transport,
    /// Requested lifetime of a registration.
    pub lifetime: Duration,
}

/// Keeps a host registered with all its addresses; each address's share f_i is its `q`.
///
/// Over datagrams, each address asks the directory which address and port it sees: behind NAT,
/// other hosts reach this host there. While the directory answers from other addresses, an address
/// from which it does not answer is left out.
///
/// Change it once, then drain [`Announcer::poll_transmit`] and [`Announcer::poll_event`], and call
/// [`Announcer::handle_timeout`] at [`Announcer::poll_timeout`].
#[derive(Debug)]
pub struct Announcer {
    config: AnnouncerConfig,
    /// The directory, as requests name it.
    domain: SipUri,
    transactions: Transactions,
    registration: Registration,
    words: Words,
    own: Vec<Own>,
    /// REGISTER in progress, and the time at which another address is tried.
    asking: Option<(TransactionId, Flow, Instant)>,
    /// Time of the last registration. Changed shares are sent at most every 30 s.
    told: Option<Instant>,
    /// When to send shares that changed since then.
    tells_at: Option<Instant>,
    wanted: Vec<CareOf>,
    /// Time until which registration waits, so that the first one lists all addresses.
    begins: Option<Instant>,
    is_closing: bool,
    transmits: VecDeque<Transmit>,
    events: VecDeque<RegistrationEvent>,
    /// Messages for the other parts of the user agent.
    passed: VecDeque<Passed>,
}

/// A message that does not concern the registration.
#[derive(Debug)]
pub(super) enum Passed {
    /// A request, to be answered by [`Announcer::respond`].
    Request {
        id: TransactionId,
        request: Request,
        /// For CANCEL: the transaction to cancel, if it exists.
        cancels: Option<TransactionId>,
    },
    /// An ACK for a 2xx.
    Ack(Request),
    /// Response to a request sent by [`Announcer::send`].
    Response {
        id: TransactionId,
        response: Response,
    },
    /// A request sent by [`Announcer::send`] gets no answer.
    Failed(TransactionId),
}

impl Announcer {
    /// Creates an empty announcer. `seed` is secret, random, and used for nothing before.
    #[must_use]
    pub fn new(config: AnnouncerConfig, answerer: Option<Answerer>, seed: &[u8; 32]) -> Self {
        let mut words = Words::new(seed);
        let call_id = CallId::new(&words.next_word());
        let domain = SipUri::new(None, config.name.host.clone(), config.name.port);
        let domain = domain.unwrap_or_else(|_| unreachable!("there is no user"));
        let registration = RegistrationConfig {
            registrar: domain.clone(),
            address: config.name.clone(),
            call_id: call_id.unwrap_or_else(|_| unreachable!("digits are a word")),
            tag: words.next_word(),
            lifetime: config.lifetime,
            outbound: None,
        };
        let mut transactions = Config::new("host");
        transactions.max_servers = MAX_REQUESTS;
        Self {
            config,
            domain,
            transactions: Transactions::new(transactions),
            registration: Registration::new(registration, answerer),
            words,
            own: Vec::new(),
            asking: None,
            told: None,
            tells_at: None,
            wanted: Vec::new(),
            begins: None,
            is_closing: false,
            transmits: VecDeque::new(),
            events: VecDeque::new(),
            passed: VecDeque::new(),
        }
    }

    /// Sets the addresses of this host. Removed addresses are deregistered at once.
    pub fn set_addresses(&mut self, now: Instant, addresses: Vec<OwnAddress>) {
        let before = std::mem::take(&mut self.own);
        let is_there = |flow: Flow| addresses.iter().any(|it| it.flow == flow);
        let gone: Vec<_> = before
            .iter()
            .map(Own::flow)
            .filter(|flow| !is_there(*flow))
            .collect();
        let kept = |address: &OwnAddress| before.iter().find(|it| it.flow() == address.flow);
        let is_stream = self.config.transport.is_reliable();
        let own = addresses.into_iter().map(|address| match kept(&address) {
            Some(kept) => kept.with(address),
            None => Own::new(now, address, is_stream),
        });
        self.own = own.collect();
        if self.begins.is_none() && !self.own.is_empty() {
            self.begins = Some(now + FIRST_WAIT);
        }
        for flow in gone {
            self.handle_flow_failure(now, flow);
        }
        self.react(now);
    }

    /// Handles a received message.
    pub fn handle_message(&mut self, now: Instant, flow: Flow, message: Message) {
        self.transactions.handle_message(now, flow, message);
        self.react(now);
    }

    /// Records that nothing can be sent over a flow now.
    pub fn handle_flow_failure(&mut self, now: Instant, flow: Flow) {
        // The flow failed once, whatever request was sent over it.
        self.missed(now, flow);
        if self.asking.take_if(|(_, on, _)| *on == flow).is_some() {
            self.registration.handle_failure(now);
        }
        self.transactions.handle_flow_failure(flow);
        self.react(now);
    }

    /// Removes the registration; [`Announcer::is_closed`] tells when that is done.
    pub fn close(&mut self, now: Instant) {
        self.is_closing = true;
        self.registration.set_contacts(now, Vec::new());
        self.react(now);
    }

    /// Whether the directory has been told everything after [`Announcer::close`].
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.is_closing && self.asking.is_none() && self.registration.poll_timeout().is_none()
    }

    /// Returns the addresses to register, the preferred ones first.
    #[must_use]
    pub fn contacts(&self) -> &[CareOf] {
        &self.wanted
    }

    /// Handles due timers.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.transactions.handle_timeout(now);
        if let Some((_, flow, until)) = self.asking
            && until <= now
            && self.own.iter().any(|own| own.flow() != flow)
        {
            // No answer for this address, or not yet; another address may be better.
            self.handle_flow_failure(now, flow);
        }
        self.react(now);
    }

    /// Tells whether there is a link to send over.
    pub(in crate::agent) fn has_address(&self) -> bool {
        !self.own.is_empty()
    }

    /// Returns the time of the next call to [`Announcer::handle_timeout`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let has_way = self.has_address() && self.asking.is_none();
        let registers = self.registration.poll_timeout().filter(|_| has_way);
        let begins = self.begins.filter(|_| self.told.is_none() && has_way);
        let times = [
            self.transactions.poll_timeout(),
            self.asking
                .map(|(_, _, until)| until)
                .filter(|_| self.own.len() > 1),
            registers,
            begins.filter(|_| !self.is_closing),
            self.tells_at.filter(|_| !self.is_closing),
        ];
        let own = self
            .own
            .iter()
            .filter(|_| !self.is_closing)
            .filter_map(Own::due);
        times.into_iter().flatten().chain(own).min()
    }

    /// Returns the next bytes to send, over the flow of an address.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        let first = self.transmits.pop_front();
        first.or_else(|| self.transactions.poll_transmit())
    }

    /// Returns the next registration event.
    pub fn poll_event(&mut self) -> Option<RegistrationEvent> {
        self.events.pop_front()
    }

    fn react(&mut self, now: Instant) {
        while let Some(event) = self.transactions.poll_event() {
            self.handle_event(now, event);
        }
        if !self.is_closing {
            self.look(now);
            self.tell(now);
        }
        self.ask(now);
        self.events
            .extend(std::iter::from_fn(|| self.registration.poll_event()));
    }

    fn handle_event(&mut self, now: Instant, event: Event) {
        match event {
            Event::Request {
                id,
                request,
                cancels,
                ..
            } => {
                // OPTIONS outside of any call is a keep-alive.
                let is_outside = request.headers.to().is_ok_and(|to| to.tag().is_none());
                if request.method == Method::Options && is_outside {
                    self.respond(now, id, &answer(&request));
                } else {
                    self.passed.push_back(Passed::Request {
                        id,
                        request,
                        cancels,
                    });
                }
            }
            Event::Ack { request, .. } => self.passed.push_back(Passed::Ack(request)),
            Event::Response { id, response } => self.handle_response(now, id, response),
            Event::Failed { id, .. } => {
                if let Some((_, flow, _)) = self.asking.take_if(|(asked, ..)| *asked == id) {
                    self.missed(now, flow);
                    self.registration.handle_failure(now);
                } else if let Some(own) = self.own.iter_mut().find(|own| own.has_asked(id)) {
                    own.miss(now);
                } else {
                    self.passed.push_back(Passed::Failed(id));
                }
            }
            _ => {}
        }
    }

    fn handle_response(&mut self, now: Instant, id: TransactionId, response: Response) {
        let is_own = self.asking.is_some_and(|(asked, ..)| asked == id)
            || self.own.iter().any(|own| own.has_asked(id));
        if !is_own {
            self.passed.push_back(Passed::Response { id, response });
            return;
        }
        if response.status.is_provisional() {
            return;
        }
        if let Some((_, flow, _)) = self.asking.take_if(|(asked, ..)| *asked == id) {
            if let Some(own) = self.own.iter_mut().find(|own| own.flow() == flow) {
                own.answered();
            }
            self.registration.handle_response(now, &response);
        } else if let Some(own) = self.own.iter_mut().find(|own| own.has_asked(id)) {
            own.handle_answer(now, &response);
        }
    }

    fn missed(&mut self, now: Instant, flow: Flow) {
        if let Some(own) = self.own.iter_mut().find(|own| own.flow() == flow) {
            own.miss(now);
        }
    }

    /// Asks the directory from each address which address it sees, and sends due keep-alives.
    fn look(&mut self, now: Instant) {
        for place in 0..self.own.len() {
            let own = &mut self.own[place];
            if own.poll_ping(now) {
                let flow = own.flow();
                let bytes = bytes::Bytes::from_static(b"\r\n\r\n");
                self.transmits.push_back(Transmit { flow, bytes });
            }
            if !own.is_due(now) {
                continue;
            }
            let (flow, via) = (own.flow(), self.via(place));
            let request = self.options(&via);
            let sent = self.transactions.send(now, flow, request);
            self.own[place].asked(now, sent.ok());
        }
    }

    /// Registers changed addresses at once, and changed shares when they differ much.
    fn tell(&mut self, now: Instant) {
        let is_early = self.begins.is_none_or(|begins| now < begins)
            && self.own.iter().any(|own| own.is_unknown());
        if (self.told.is_none() && is_early) || (self.own.is_empty() && self.told.is_none()) {
            return;
        }
        let wanted = self.care_of();
        let is_same = wanted.len() == self.wanted.len()
            && wanted
                .iter()
                .zip(&self.wanted)
                .all(|(new, old)| new.uri == old.uri);
        let differs = |(new, old): (&CareOf, &CareOf)| {
            new.q.thousandths().abs_diff(old.q.thousandths()) >= MUCH
        };
        let is_much = wanted.iter().zip(&self.wanted).any(differs);
        self.tells_at = None;
        if let Some(told) = self.told
            && is_same
        {
            let next = told + SHARES_EVERY;
            if is_much && now < next {
                self.tells_at = Some(next);
            }
            if !is_much || now < next {
                return;
            }
        }
        self.told = Some(now);
        self.wanted.clone_from(&wanted);
        self.registration.set_contacts(now, wanted);
    }

    /// Returns the addresses to register, each with the share of its link.
    fn care_of(&self) -> Vec<CareOf> {
        let any_heard = self.own.iter().any(Own::is_heard);
        let told: Vec<_> = self
            .own
            .iter()
            .filter(|own| !any_heard || !own.is_lost())
            .collect();
        let rates: Vec<_> = told.iter().map(|own| own.rate()).collect();
        let shares = preferences(&rates);
        let user = self.config.name.escaped_user();
        let contacts = told.iter().zip(shares).filter_map(|(own, q)| {
            let (address, port) = own.contact();
            let mut uri = SipUri::new(user, Host::Ip(address), Some(port)).ok()?;
            if self.config.transport.is_reliable() {
                let name = self.config.transport.to_string().to_ascii_lowercase();
                uri.set_param("transport", Some(&name));
            }
            Some(CareOf { uri, q })
        });
        let mut contacts: Vec<CareOf> = contacts.collect();
        // Two links behind one NAT may have the same public address.
        let mut seen: Vec<SipUri> = Vec::new();
        contacts.retain(|contact| {
            let is_new = !seen.contains(&contact.uri);
            seen.push(contact.uri.clone());
            is_new
        });
        contacts.truncate(MAX_CONTACTS);
        contacts
    }

    /// Sends the REGISTER that is due, from the address that answered best.
    fn ask(&mut self, now: Instant) {
        if self.asking.is_some() {
            return;
        }
        let Some(place) = self.best_place() else {
            return;
        };
        let via = self.via(place);
        let cnonce = self.words.next_word();
        let Some(request) = self.registration.poll_request(now, &via, &cnonce) else {
            return;
        };
        let flow = self.own[place].flow();
        match self.transactions.send(now, flow, request) {
            Ok(id) => self.asking = Some((id, flow, now + PATIENCE)),
            Err(_) => self.registration.handle_failure(now),
        }
    }

    fn via(&mut self, place: usize) -> Via {
        let (address, port) = self.own[place].local();
        let mut via = Via::new(self.config.transport.clone(), Host::Ip(address), Some(port));
        via.params.set("branch", &self.words.next_branch());
        via.params.set_flag("rport");
        via
    }

    fn options(&mut self, via: &Via) -> Request {
        let method = Method::Options;
        let mut request = Request::new(method.clone(), self.domain.clone().into());
        let headers = &mut request.headers;
        headers.push(HeaderName::Via, via);
        // Only the directory itself answers.
        headers.push(HeaderName::MaxForwards, 1);
        headers.push(
            HeaderName::From,
            format!("<{}>;tag={}", self.config.name, self.words.next_word()),
        );
        headers.push(HeaderName::To, format!("<{}>", self.domain));
        headers.push(HeaderName::CallId, self.words.next_word());
        headers.push(HeaderName::CSeq, format!("1 {method}"));
        request
    }
}

fn answer(request: &Request) -> Response {
    match request.refusal(&[Method::Options], &[]) {
        Some(refusal) => refusal.answer(request, TAG),
        None => Response::new(request, StatusCode::OK, Some(TAG)),
    }
}

const TAG: &str = "host";
/// Incoming requests in progress. Each stays for 32 s, and a directory forwards up to 1,024 at once
/// from one caller.
const MAX_REQUESTS: usize = 2048;
/// Addresses in one registration: as many as registrars take.
const MAX_CONTACTS: usize = 16;
/// Wait for the directory's view of the addresses before the first registration.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// Wait for an answer before another address is tried.
const PATIENCE: Duration = Duration::from_secs(6);
/// Shares that differ by a twentieth are registered anew, at most every 30 s.
const MUCH: u16 = 50;
const SHARES_EVERY: Duration = Duration::from_secs(30);
