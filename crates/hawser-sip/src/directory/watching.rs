//! Users who watch bindings: SUBSCRIBE and NOTIFY of the event package `reg` (RFC 3680).

use std::net::IpAddr;

use hawser_types::Instant;

use super::Directory;
use super::config::TAG;
use super::reactions::origin;
use super::source::Admitted;
use crate::fields::{Transport, Via};
use crate::message::{Essentials, HeaderName, Method, Refusal, Request, Response, StatusCode};
use crate::proxy::first_hop;
use crate::reginfo::PACKAGE;
use crate::subscription::{Notify, Subscriber};
use crate::transaction::{Flow, TransactionId};
use crate::uri::{SipUri, Uri};

impl Directory {
    /// Ends the subscriptions of removed users.
    pub fn retain_watchers(&mut self, is_user: impl Fn(&str) -> bool) {
        self.notifier.retain_users(is_user);
    }

    /// Returns the number of subscriptions.
    #[must_use]
    pub fn watcher_count(&self) -> usize {
        self.notifier.len()
    }

    /// Whether a request subscribes to this directory's bindings. Subscriptions to other event
    /// packages are forwarded to the registered user.
    pub(super) fn is_to_watch(&self, request: &Request) -> bool {
        let event = request.headers.event().ok().flatten();
        let is_ours = event.is_some_and(|event| event.package == PACKAGE);
        request.method == Method::Subscribe && is_ours && self.proxy.serves(&request.uri)
    }

    /// Returns the user who subscribes, if that user may watch the named address.
    pub(super) fn admit_watcher(
        &mut self,
        now: Instant,
        source: IpAddr,
        (request, essentials): (&Request, &Essentials),
    ) -> Result<Admitted, Response> {
        if let Some(refusal) = request.refusal_of_readable(&[Method::Subscribe], &[]) {
            return Err(refusal.answer(request, TAG));
        }
        let not_found = || {
            let status = StatusCode::NOT_FOUND;
            Refusal::new(status, status.reason()).answer(request, TAG)
        };
        let to = Some(&essentials.to.uri).filter(|to| self.proxy.serves(to));
        let address = to.and_then(Uri::as_sip);
        let address = address.and_then(SipUri::address_of_record);
        let address = address.ok_or_else(not_found)?;
        let users = &*self.users;
        let user = self.registrar.authenticate(now, source, request, users)?;
        if users.may_watch(&user, &address) {
            Ok(Admitted::Watches(user))
        } else {
            Err(not_found())
        }
    }

    /// Handles a new subscription or the refresh of one.
    pub(super) fn subscribe(
        &mut self,
        now: Instant,
        (id, flow, source): (TransactionId, Flow, IpAddr),
        request: &Request,
        user: &str,
    ) {
        self.counts.subscribes += 1;
        let subscriber = Subscriber {
            user,
            origin: origin(source, flow),
            tag: &self.words.next_word(),
            contact: &self.contact(flow),
        };
        let answer = self.notifier.handle_subscribe(now, request, &subscriber);
        self.respond(now, id, &answer);
    }

    /// Sends pending NOTIFYs. An unreachable watcher loses its subscription and must renew it.
    pub(super) fn tell_watchers(&mut self, now: Instant) {
        let any = Via::new(Transport::Udp, self.config.own.host.clone(), None);
        let poll = |directory: &mut Self| {
            let location = directory.registrar.location();
            directory.notifier.poll_notify(now, location, &any)
        };
        while let Some(Notify {
            watcher,
            mut request,
            origin,
        }) = poll(self)
        {
            let led = self.lead(now, &first_hop(&request), origin);
            let sent = led.and_then(|(flow, mut via)| {
                via.params.set("branch", &self.words.next_branch());
                request.headers.set(HeaderName::Via, via);
                self.transactions.send(now, flow, request).ok()
            });
            match sent {
                Some(id) => drop(self.told.insert(id, watcher)),
                None => self.notifier.handle_outcome(watcher, None),
            }
        }
    }

    /// Handles the outcome of a NOTIFY. Returns whether the transaction belongs to one.
    pub(super) fn handle_told(&mut self, id: TransactionId, status: StatusCode) -> bool {
        let Some(watcher) = self.told.get(&id).copied() else {
            return false;
        };
        if !status.is_provisional() {
            self.told.remove(&id);
            self.notifier.handle_outcome(watcher, Some(status));
        }
        true
    }

    /// Returns the Contact at which the directory receives refreshes of a subscription.
    fn contact(&mut self, flow: Flow) -> String {
        let mut own = self.config.own.clone();
        match self.flows.stream(flow).map(|stream| &stream.transport) {
            Some(Transport::Tcp) => {
                own.set_param("transport", Some("tcp"));
            }
            // The port of TLS, to which the name of the domain leads.
            Some(Transport::Tls) => {
                if let Some(domain) = self.config.domains.first() {
                    (own.host, own.port) = (domain.clone(), None);
                }
                own.set_param("transport", Some("tls"));
            }
            _ => {}
        }
        own.to_string()
    }
}
