//! Handling of transaction events and forwarding steps.

use std::net::IpAddr;

use hawser_types::Instant;

use super::Directory;
use super::answers::to_cancel;
use super::forwarding::{Caller, Step};
use super::hop::{Reach, next_hop};
use super::output::Output;
use super::source::Admitted;
use crate::fields::Via;
use crate::message::{Request, Response, StatusCode};
use crate::proxy::{Decision, Forward};
use crate::registrar::Origin;
use crate::transaction::{Event, Flow, TransactionId};
use crate::uri::Uri;

impl Directory {
    /// Handles all pending events. `admitted` belongs to the request that has just arrived, with
    /// the address of its sender.
    pub(super) fn react(&mut self, now: Instant, mut admitted: Option<(Caller, Admitted)>) {
        loop {
            if let Some(event) = self.transactions.poll_event() {
                self.handle_event(now, event, &mut admitted);
            } else if let Some(step) = self.forwarding.poll_step() {
                self.take_step(now, step);
            } else {
                return;
            }
        }
    }

    fn handle_event(
        &mut self,
        now: Instant,
        event: Event,
        admitted: &mut Option<(Caller, Admitted)>,
    ) {
        match event {
            Event::Request {
                id,
                flow,
                request,
                cancels,
            } => match admitted.take() {
                Some((caller, Admitted::Registers(registrant))) => {
                    self.counts.registers += 1;
                    let origin = origin(caller.address, flow);
                    let answer = self.registrar.register(now, &request, &registrant, origin);
                    self.respond(now, id, &answer);
                }
                Some((caller, Admitted::Reaches(targets))) => {
                    self.counts.forwarded += 1;
                    if !caller.is_certain {
                        self.transactions.spare(id);
                    }
                    self.forwarding.start(now, id, caller, request, targets);
                }
                Some((caller, Admitted::Watches(user))) => {
                    self.subscribe(now, (id, flow, caller.address), &request, &user);
                }
                _ => self.handle_cancel(now, id, &request, cancels),
            },
            Event::Ack { request, .. } => self.forward_ack(now, &request),
            Event::Response { id, response } => {
                if self.handle_told(id, response.status) {
                    return;
                }
                if let Some((answer, _)) = self.proxy.handle_response(&response, |_| true) {
                    self.forwarding.handle_response(now, id, answer);
                }
            }
            Event::Failed { id, .. } => {
                if !self.handle_told(id, StatusCode::REQUEST_TIMEOUT) {
                    self.forwarding.handle_failure(now, id);
                }
            }
            Event::Abandoned { id } => self.forwarding.handle_abandoned(now, id),
            // RFC 6026 §8.7: a stray response is dropped.
            Event::Stray { .. } => {}
        }
    }

    fn handle_cancel(
        &mut self,
        now: Instant,
        id: TransactionId,
        request: &Request,
        cancels: Option<TransactionId>,
    ) {
        self.respond(now, id, &to_cancel(request, cancels.is_some()));
        if let Some(cancelled) = cancels {
            self.forwarding.handle_cancel(now, cancelled);
        }
    }

    /// Forwards the ACK for a 2xx, without a transaction.
    fn forward_ack(&mut self, now: Instant, ack: &Request) {
        let decision = self.proxy.handle_request(now, ack, self.location());
        let Decision::Forward(targets) = decision else {
            return;
        };
        let first = targets.into_iter().next();
        let Some((flow, request)) = first.and_then(|forward| self.prepare(now, &forward)) else {
            return;
        };
        let output = self.output(flow, request.to_bytes());
        self.outputs.extend(output);
    }

    fn take_step(&mut self, now: Instant, step: Step) {
        match step {
            Step::Answer(id, answer) => self.respond(now, id, &answer),
            Step::Cancel(flow, request) => {
                // If the CANCEL can't be sent, the request times out.
                let _ = self.transactions.send(now, flow, request);
            }
            Step::Try(id, forward) => {
                let Some((flow, request)) = self.prepare(now, &forward) else {
                    let status = StatusCode::TEMPORARILY_UNAVAILABLE;
                    return self.forwarding.handle_refusal(now, id, status);
                };
                let cancel = request.to_cancel();
                match self.transactions.send(now, flow, request) {
                    Ok(branch) => {
                        let sent = (flow, cancel);
                        self.forwarding.handle_sent(now, id, branch, sent);
                    }
                    Err(_) => {
                        let status = StatusCode::SERVICE_UNAVAILABLE;
                        self.forwarding.handle_refusal(now, id, status);
                    }
                }
            }
        }
    }

    pub(super) fn respond(&mut self, now: Instant, id: TransactionId, answer: &Response) {
        // The caller's transaction may have ended.
        let _ = self.transactions.respond(now, id, answer);
    }

    /// Prepares a request for sending and chooses its flow; `None` if the target can't be reached
    /// from here.
    fn prepare(&mut self, now: Instant, forward: &Forward) -> Option<(Flow, Request)> {
        let (flow, via) = self.lead(now, &forward.next_hop, forward.origin)?;
        let word = self.words.next_word();
        Some((flow, forward.to_request(via, &word)))
    }

    /// Returns the flow to a next hop, and the Via of requests to it, without a branch.
    pub(super) fn lead(&mut self, now: Instant, uri: &Uri, origin: Origin) -> Option<(Flow, Via)> {
        let owner = (&self.config, &*self.reach as &dyn Reach);
        let hop = next_hop(now, owner, &mut self.flows, (uri, origin))?;
        let (transport, flow) = (hop.transport, hop.flow);
        self.flows.expect_answers(flow);
        if let Some(to) = hop.connects {
            self.outputs.push_back(Output::Connect { flow, to });
        }
        let own = &self.config.own;
        let mut via = Via::new(transport, own.host.clone(), own.port);
        via.params.set_flag("rport");
        Some((flow, via))
    }
}

/// Returns the origin of a request with a correct proof.
pub(super) fn origin(source: IpAddr, flow: Flow) -> Origin {
    Origin {
        address: Some(source.to_canonical()),
        stream: flow.is_reliable.then_some(flow),
    }
}
