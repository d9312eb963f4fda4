use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use hawser_channels::association::{AssociationTunnel, TunnelStats};
use hawser_sched::packet::PacketPolicy;
use hawser_sctp::{Association, Closed, Transmit, Turn};
use hawser_session::{PacketFlow, Side};
use hawser_tunnel::{HostEnd, ReceiverConfig, SenderConfig};
use hawser_types::{ByteCount, Instant};
use tokio::sync::Notify;

use super::arrivals::Arrivals;

/// An association with its tunnel, and the state that its users see.
#[derive(Debug)]
pub(super) struct Entry {
    /// Which of the two ends this is: the client begins associations.
    side: Side,
    pub(super) association: Association,
    pub(super) is_established: bool,
    /// The peer has begun the association anew: data in flight is lost.
    pub(super) was_restarted: bool,
    pub(super) closed: Option<Closed>,
    /// The association's timer, as it stands in the common order of timers.
    pub(super) timer: Option<Instant>,
    /// A message was refused for lack of room, and there has been no room since.
    pub(super) is_full: bool,
    /// The queue length below which the waiting writer is woken.
    pub(super) room_below: Option<ByteCount>,
    /// Notifies the tasks that wait on the association.
    pub(super) changed: Arc<Notify>,
    /// Makes the positions of flows in the tunnel's tables unpredictable.
    seed: u64,
    packet_policy: PacketPolicy,
    /// The tunnel over the association, once either end has sent packets.
    tunnel: Option<Box<AssociationTunnel>>,
    /// Packets that the tunnel has handed on; `arrived_bytes` is their memory.
    arrived: VecDeque<Bytes>,
    arrived_bytes: usize,
    /// Hands the arrived packets on.
    pub(super) arrivals: Arc<Arrivals>,
}

impl Entry {
    /// `seed` has to be unknown to other hosts.
    pub(super) fn new(side: Side, association: Association, seed: u64) -> Self {
        Self {
            side,
            association,
            is_established: false,
            was_restarted: false,
            closed: None,
            timer: None,
            is_full: false,
            room_below: None,
            changed: Arc::new(Notify::new()),
            seed,
            packet_policy: PacketPolicy::default(),
            tunnel: None,
            arrived: VecDeque::new(),
            arrived_bytes: 0,
            arrivals: Arc::new(Arrivals::new()),
        }
    }

    /// Gives packets to the tunnel, which drops invalid ones. Returns false, and takes nothing, if
    /// no path answers.
    pub(super) fn send_packets(&mut self, now: Instant, packets: &mut Vec<Bytes>) -> bool {
        let mut answers = false;
        let association = &mut self.association;
        association.show_rooms(now, Turn::Any, |view, _| answers |= !view.suspect);
        if !self.is_established || self.is_over() || !answers {
            return false;
        }
        let (side, seed, policy) = (self.side, self.seed, self.packet_policy);
        let tunnel = &mut self.tunnel;
        let tunnel = tunnel.get_or_insert_with(|| new_tunnel(side, seed, policy));
        for packet in packets.drain(..) {
            // The tunnel counts the packets that it refuses.
            let _ = tunnel.enqueue(now, packet);
        }
        true
    }

    /// Places packets by this policy from now on.
    pub(super) fn set_packet_policy(&mut self, policy: PacketPolicy) {
        self.packet_policy = policy;
        if let Some(tunnel) = &mut self.tunnel {
            tunnel.set_policy(policy);
        }
    }

    /// Takes the packets that have arrived.
    pub(super) fn take_packets(&mut self, packets: &mut Vec<Bytes>) {
        self.arrived_bytes = 0;
        packets.extend(self.arrived.drain(..));
    }

    /// Returns the next datagram to send.
    pub(super) fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        match &mut self.tunnel {
            Some(tunnel) => tunnel.poll_transmit(now, &mut self.association),
            None => self.association.poll_transmit(now),
        }
    }

    /// Moves received packets to the tunnel. Returns how many packets are to be handed on.
    pub(super) fn receive_packets(&mut self, now: Instant) -> usize {
        if self.tunnel.is_none() && self.association.has_placed() {
            self.tunnel = Some(new_tunnel(self.side, self.seed, self.packet_policy));
        }
        let Some(tunnel) = &mut self.tunnel else {
            return 0;
        };
        tunnel.handle_received(now, &mut self.association);
        while let Some(delivery) = tunnel.poll_delivery() {
            // Like a device's queue, this one drops packets while it is full.
            if self.arrived_bytes < MAX_ARRIVED {
                self.arrived_bytes += delivery.packet.len() + PACKET_OVERHEAD;
                self.arrived.push_back(delivery.packet);
            }
        }
        self.arrived.len()
    }

    pub(super) fn tunnel_stats(&self) -> TunnelStats {
        let tunnel = self.tunnel.as_ref();
        tunnel.map(|tunnel| tunnel.stats()).unwrap_or_default()
    }

    /// As [`AssociationTunnel::flows`].
    pub(super) fn flows(&self, now: Instant, most: usize) -> (Vec<PacketFlow>, usize) {
        let tunnel = self.tunnel.as_ref();
        tunnel
            .map(|it| it.flows(now, self.side, most))
            .unwrap_or_default()
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let tunnel = self
            .tunnel
            .as_ref()
            .and_then(|tunnel| tunnel.poll_timeout());
        self.association
            .poll_timeout()
            .into_iter()
            .chain(tunnel)
            .min()
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.association.handle_timeout(now);
        if let Some(tunnel) = &mut self.tunnel {
            tunnel.handle_timeout(now);
        }
    }

    /// Memory of packets, and of received data that was not taken yet.
    pub(super) fn held(&self) -> ByteCount {
        let tunnel = self.tunnel.as_ref().map(|tunnel| tunnel.held());
        let arrived = ByteCount::from(self.arrived_bytes);
        self.association.held() + tunnel.unwrap_or_default() + arrived
    }

    /// True if unacknowledged data will never arrive.
    pub(super) fn is_over(&self) -> bool {
        self.closed.is_some() || self.was_restarted
    }

    /// Returns true, once, when the waiting writer has room.
    pub(super) fn take_room(&mut self) -> bool {
        if self.is_full {
            // Data in flight fills the buffer. The acknowledgement that makes room wakes the
            // writer.
            return false;
        }
        let queued = self.association.queued();
        self.room_below.take_if(|below| queued < *below).is_some()
    }
}

fn new_tunnel(side: Side, seed: u64, policy: PacketPolicy) -> Box<AssociationTunnel> {
    let sender = SenderConfig {
        policy,
        // The hosts that share the tunnel are on the client's side.
        hosts: match side {
            Side::Client => HostEnd::Source,
            Side::Gateway => HostEnd::Destination,
        },
        max_bytes: MAX_PACKETS,
        seed,
        ..SenderConfig::default()
    };
    let receiver = ReceiverConfig {
        max_bytes: MAX_PACKETS,
        ..ReceiverConfig::default()
    };
    Box::new(AssociationTunnel::new(sender, receiver))
}

/// Memory of packets that wait at each end of a tunnel: a second of 64 Mbit/s.
const MAX_PACKETS: ByteCount = ByteCount::from_mib(8);
/// Memory of arrived packets that were not fetched yet; beyond it, packets are dropped.
const MAX_ARRIVED: usize = 4 << 20;
/// Memory of a packet besides its bytes.
const PACKET_OVERHEAD: usize = 64;
