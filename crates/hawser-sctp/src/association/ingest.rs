//! Handling of incoming packets.

use hawser_types::Instant;
use hawser_wire::sctp::{Cause, Chunk, Data, Packet, UnknownAction};

use super::{Arrival, Association, SetupOutcome, ShutdownOutcome};
use crate::error::{Closed, Misbehaviour};
use crate::handshake::{Negotiated, stops_and_reports};
use crate::path::Path;
use crate::{Event, Route};

impl Association {
    /// Handles a packet of this association, found by [`crate::Endpoint::handle_datagram`].
    pub fn handle_packet(&mut self, now: Instant, route: Route, packet: &Packet) {
        let mut chunks = packet.chunks();
        let Some(Ok(first)) = chunks.next() else {
            return;
        };
        if self.is_closed || !self.setup.admits(packet.tag, &first) {
            return;
        }
        self.on_route_seen(now, route);
        let is_known = self.paths.on_packet(now, &route, packet.size());
        if let Some(flow) = self.flow.as_mut().filter(|_| is_known) {
            flow.feedback.on_packet(route);
        }
        let arrival = Arrival {
            route,
            tag: packet.tag,
            acknowledging: self.shutdown.is_acknowledging(),
        };
        let mut had_data = false;
        for chunk in std::iter::once(Ok(first)).chain(chunks) {
            // Chunks behind an unreadable one cannot be found.
            let Ok(chunk) = chunk else {
                break;
            };
            had_data |= matches!(chunk, Chunk::Data(_));
            match self.on_chunk(now, arrival, chunk) {
                Ok(Next::Chunk) if !self.is_closed => {}
                Ok(_) => break,
                Err(fault) => {
                    let cause = Cause::ProtocolViolation(fault.to_string().into());
                    return self.end(vec![cause], Closed::Misbehaved(fault));
                }
            }
        }
        if self.is_closed {
            return;
        }
        if had_data {
            self.on_data_end(now, route);
        }
        self.check_settled(now);
    }

    fn on_chunk(
        &mut self,
        now: Instant,
        arrival: Arrival,
        chunk: Chunk,
    ) -> Result<Next, Misbehaviour> {
        match chunk {
            Chunk::Init(_)
            | Chunk::InitAck(_)
            | Chunk::CookieEcho(_)
            | Chunk::CookieAck
            | Chunk::Error(_)
            | Chunk::Abort { .. } => {
                let outcome = self.setup.on_chunk(now, arrival, &chunk);
                return Ok(self.on_setup_outcome(now, Some(arrival.route), outcome));
            }
            Chunk::Unknown { action, chunk, .. } => {
                return Ok(self.on_unknown(arrival.route, action, chunk));
            }
            Chunk::ShutdownComplete { .. } => {
                let outcome = self.shutdown.on_shutdown_complete();
                self.on_shutdown_outcome(now, outcome);
                return Ok(Next::Packet);
            }
            _ => {}
        }
        self.on_flow_chunk(now, arrival.route, chunk)?;
        Ok(Next::Chunk)
    }

    /// Handles a chunk that is valid only in an established association.
    fn on_flow_chunk(
        &mut self,
        now: Instant,
        route: Route,
        chunk: Chunk,
    ) -> Result<(), Misbehaviour> {
        let takes_data = self.shutdown.takes_data();
        let Some(flow) = &mut self.flow else {
            self.setup.on_early_chunk(now, route, chunk);
            return Ok(());
        };
        match chunk {
            Chunk::Data(data) if takes_data => self.on_data(now, route, data)?,
            Chunk::Sack(sack) => {
                let over = self.paths.find(&route);
                flow.outbound.on_sack(now, &sack, over, &mut self.paths)?;
            }
            Chunk::ForwardTsn(forward) if takes_data => {
                flow.inbound.on_forward_tsn(now, &forward)?;
            }
            Chunk::Heartbeat(info) => {
                self.paths.on_heartbeat(&route, &info);
                self.answer(route, Chunk::HeartbeatAck(info));
            }
            Chunk::Asconf { serial, parameters } => {
                self.on_asconf(now, route, serial, &parameters);
            }
            Chunk::AsconfAck { serial, parameters } => self.on_asconf_ack(serial, &parameters),
            Chunk::HeartbeatAck(info) => self.on_heartbeat_ack(now, route.remote, &info),
            Chunk::Shutdown(cumulative) => {
                let over = self.paths.find(&route);
                flow.outbound
                    .on_cumulative(now, cumulative, over, &mut self.paths)?;
                let outcome = self.shutdown.on_shutdown(now);
                self.on_shutdown_outcome(now, outcome);
            }
            Chunk::ShutdownAck => {
                let outcome = self.shutdown.on_shutdown_ack();
                self.on_shutdown_outcome(now, outcome);
            }
            _ => {}
        }
        Ok(())
    }

    fn on_data(&mut self, now: Instant, route: Route, data: Data) -> Result<(), Misbehaviour> {
        if data.payload.is_empty() {
            let cause = Cause::NoUserData(data.tsn);
            self.end(vec![cause], Closed::Misbehaved(Misbehaviour::EmptyData));
            return Ok(());
        }
        match &mut self.flow {
            Some(flow) => flow.inbound.on_data(now, data, self.paths.find(&route)),
            None => Ok(()),
        }
    }

    /// Handles the end of a packet that carried data.
    fn on_data_end(&mut self, now: Instant, route: Route) {
        let path = self.paths.find(&route).and_then(|id| self.paths.path(id));
        let is_candidate = path.is_some_and(Path::is_candidate);
        if let Some(flow) = &mut self.flow {
            if !is_candidate {
                flow.feedback.on_data(route);
            }
            flow.inbound.on_packet_end(now);
            let unknown = flow.inbound.poll_unknown_stream();
            self.shutdown.on_data();
            if let Some(stream) = unknown {
                let cause = Cause::InvalidStream(stream.value());
                self.answer(route, Chunk::Error(vec![cause]));
            }
        }
    }

    pub(super) fn on_setup_outcome(
        &mut self,
        now: Instant,
        route: Option<Route>,
        outcome: SetupOutcome,
    ) -> Next {
        match outcome {
            SetupOutcome::Nothing => return Next::Chunk,
            SetupOutcome::Discard => {}
            SetupOutcome::Established(negotiated) => {
                self.establish(now, &negotiated);
                self.on_confirmed(now, route, &negotiated);
                self.events.push_back(Event::Established);
                return Next::Chunk;
            }
            SetupOutcome::Restarted(negotiated) => {
                self.start_anew();
                self.establish(now, &negotiated);
                self.on_confirmed(now, route, &negotiated);
                self.events.push_back(Event::Restarted);
                return Next::Chunk;
            }
            SetupOutcome::Late => self.shutdown.on_late_beginning(),
            SetupOutcome::Closed(why) => self.close(why),
        }
        Next::Packet
    }

    /// Discards all state of the association that the peer has replaced.
    fn start_anew(&mut self) {
        let locals = self.locals.clone();
        for local in locals {
            self.paths.remove_local(local);
        }
        self.control.clear();
        self.shutdown.start_anew();
        self.flow = None;
    }

    /// Confirms the path on which the handshake passed in both directions. If its last packet came
    /// from another address, neither address is confirmed: sending proves nothing about one, and
    /// the other has not sent.
    fn on_confirmed(&mut self, now: Instant, route: Option<Route>, negotiated: &Negotiated) {
        let answered = negotiated.peer_addresses.first();
        if let Some(route) = route.filter(|route| Some(&route.remote) == answered) {
            self.add_path(now, route, true);
        }
    }

    pub(super) fn on_shutdown_outcome(&mut self, now: Instant, outcome: ShutdownOutcome) {
        match outcome {
            ShutdownOutcome::Nothing => {}
            ShutdownOutcome::PeerClosing => self.events.push_back(Event::PeerClosing),
            ShutdownOutcome::TimedOut => {
                if let Some(path) = self.paths.best(now) {
                    self.paths.on_timeout_counted(now, now, path);
                }
            }
            ShutdownOutcome::Complete => self.close(Closed::Shutdown),
            ShutdownOutcome::GaveUp => self.end(Vec::new(), Closed::Unreachable),
        }
    }

    fn on_unknown(&mut self, route: Route, action: UnknownAction, chunk: bytes::Bytes) -> Next {
        let (stops, reports) = stops_and_reports(action);
        if reports {
            let cause = Cause::UnrecognizedChunk(chunk.slice(..chunk.len().min(MAX_REPORTED)));
            self.answer(route, Chunk::Error(vec![cause]));
        }
        if stops { Next::Packet } else { Next::Chunk }
    }

    /// Queues an answer. Answers beyond [`MAX_ANSWERS`] are dropped.
    pub(super) fn answer(&mut self, route: Route, chunk: Chunk) {
        if self.control.len() < MAX_ANSWERS {
            self.control.push_back((route, chunk));
        }
    }
}

/// How to continue with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Read its next chunk.
    Chunk,
    /// Stop reading this packet.
    Packet,
}

/// Maximum number of answers waiting to be sent.
const MAX_ANSWERS: usize = 64;
/// Maximum bytes of an unknown chunk returned to its sender.
const MAX_REPORTED: usize = 256;

#[cfg(test)]
mod tests;
