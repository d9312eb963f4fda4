//! Outgoing packets.

use hawser_types::Instant;
use hawser_wire::sctp::{ChecksumRule, Chunk, CommonHeader, Framing, PacketWriter};

use super::{Association, Flow};
use crate::path::HeartbeatToSend;
use crate::{AssociationConfig, Route, Transmit};

impl Association {
    /// Returns the next packet to send; `None` when there is none for now.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        if let Some(transmit) = self.setup.poll_transmit() {
            return Some(transmit);
        }
        if self.is_closed {
            // There may be a last SHUTDOWN COMPLETE.
            return self.shutdown_packet(now);
        }
        self.flow.as_ref()?;
        self.shutdown_packet(now)
            .or_else(|| self.heartbeat_packet(now))
            .or_else(|| self.control_packet(now))
            .or_else(|| self.data_packet(now))
            .or_else(|| self.sack_packet(now))
    }

    fn shutdown_packet(&mut self, now: Instant) -> Option<Transmit> {
        if !self.shutdown.has_chunk() {
            return None;
        }
        let id = self.paths.best(now)?;
        let path = self.paths.path(id)?;
        let (route, rto) = (path.route, path.rtt.rto());
        let flow = self.flow.as_ref()?;
        let cumulative = flow.inbound.cumulative();
        let chunk = self.shutdown.poll_chunk(now, cumulative, rto)?;
        let mut writer = self.whole_writer(AssociationConfig::BASE_PACKET)?;
        writer.put(&chunk);
        self.finish(route, writer)
    }

    fn heartbeat_packet(&mut self, now: Instant) -> Option<Transmit> {
        let HeartbeatToSend { path, info, pad } = self.paths.poll_heartbeat(now)?;
        let route = self.paths.path(path)?.route;
        let mut writer = self.writer(usize::from(u16::MAX))?;
        writer.put(&Chunk::Heartbeat(info));
        if pad > 0 {
            writer.put(&Chunk::Pad(pad));
        }
        self.finish(route, writer)
    }

    /// Returns a packet of control chunks, as many as take the same route.
    fn control_packet(&mut self, now: Instant) -> Option<Transmit> {
        self.queue_forward_tsn(now);
        self.queue_asconf(now);
        let route = self.control.front()?.0;
        let mut writer = self.writer(AssociationConfig::BASE_PACKET)?;
        while let Some((to, chunk)) = self.control.front()
            && *to == route
        {
            // A chunk that does not fit into an empty packet can never be sent.
            if !writer.put(chunk) && !writer.is_empty() {
                break;
            }
            self.control.pop_front();
        }
        self.finish(route, writer)
    }

    fn queue_forward_tsn(&mut self, now: Instant) {
        let is_due = |flow: &Flow| flow.outbound.is_forward_tsn_due();
        if !self.flow.as_ref().is_some_and(is_due) {
            return;
        }
        let Some(route) = self.best_route(now) else {
            return;
        };
        if let Some(flow) = &mut self.flow
            && let Some(forward) = flow.outbound.poll_forward_tsn(now)
        {
            self.control.push_back((route, Chunk::ForwardTsn(forward)));
        }
    }

    /// Returns a packet of DATA chunks, after a SACK where one is useful and takes the same route.
    fn data_packet(&mut self, now: Instant) -> Option<Transmit> {
        loop {
            let flow = self.flow.as_mut()?;
            let id = flow.outbound.next_path(now, &mut self.paths)?;
            let path = self.paths.path(id)?;
            let (route, size) = (path.route, flow.outbound.packet_size(path));
            let mut writer = self.writer(size)?;
            self.put_sack(now, route, &mut writer);
            let flow = self.flow.as_mut()?;
            let filled = flow.outbound.fill(now, &mut self.paths, id, &mut writer);
            if filled || !writer.is_empty() {
                let mut transmit = self.finish(route, writer)?;
                let path = self.paths.path(id)?;
                transmit.may_fragment = path.needs_fragments(transmit.datagram.len());
                return Some(transmit);
            }
        }
    }

    fn put_sack(&mut self, now: Instant, route: Route, writer: &mut PacketWriter) {
        if let Some(flow) = &mut self.flow
            && flow.inbound.poll_timeout().is_some()
            && flow.feedback.next_route(&self.paths) == Some(route)
            && let Some(sack) = flow.inbound.poll_sack(now, true)
        {
            writer.put(&Chunk::Sack(sack));
            flow.feedback.on_sent(route);
        }
    }

    fn sack_packet(&mut self, now: Instant) -> Option<Transmit> {
        let flow = self.flow.as_mut()?;
        let sack = flow.inbound.poll_sack(now, false)?;
        let route = flow.feedback.next_route(&self.paths);
        let route = route.or_else(|| self.best_route(now))?;
        if let Some(flow) = &mut self.flow {
            flow.feedback.on_sent(route);
        }
        let mut writer = self.writer(AssociationConfig::BASE_PACKET)?;
        writer.put(&Chunk::Sack(sack));
        self.finish(route, writer)
    }

    pub(super) fn best_route(&self, now: Instant) -> Option<Route> {
        let id = self.paths.best(now)?;
        Some(self.paths.path(id)?.route)
    }

    fn writer(&mut self, capacity: usize) -> Option<PacketWriter> {
        if self.config.framing == Framing::Whole {
            return self.whole_writer(capacity);
        }
        self.setup.negotiated()?;
        let memory = std::mem::take(&mut self.memory);
        Some(PacketWriter::compact(memory, capacity))
    }

    /// Creates a writer for packets that set up or end an association.
    fn whole_writer(&mut self, capacity: usize) -> Option<PacketWriter> {
        let negotiated = self.setup.negotiated()?;
        let header = CommonHeader {
            source_port: negotiated.port,
            destination_port: negotiated.peer_port,
            tag: negotiated.peer_tag,
        };
        let memory = std::mem::take(&mut self.memory);
        Some(match self.config.framing {
            Framing::Whole => PacketWriter::within(memory, header, capacity),
            Framing::Compact => PacketWriter::sealed(memory, header, capacity),
        })
    }

    /// Finishes a packet; `None` if it has no chunks.
    fn finish(&mut self, route: Route, writer: PacketWriter) -> Option<Transmit> {
        let rule = if self.setup.negotiated()?.zero_checksum {
            ChecksumRule::Zero
        } else {
            ChecksumRule::Crc32c
        };
        if writer.is_empty() {
            return None;
        }
        let (datagram, memory) = writer.finish_within(rule);
        self.memory = memory;
        self.paths.on_packet_sent(&route, datagram.len());
        Some(Transmit::whole(route, datagram))
    }
}
