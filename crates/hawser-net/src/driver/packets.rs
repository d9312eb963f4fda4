//! Packets of tunnels: over the association if there is one, else beside their stream.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use hawser_sched::packet::PacketPolicy;
use hawser_session::{Side, TunnelCounts};
use hawser_tunnel::packet::PacketView;
use ipnet::IpNet;
use parking_lot::{Mutex, RwLock};

use super::association_channel::AssociationChannel;
use crate::association::TunnelFlows;

/// Takes packets of the peer that are for one tunnel.
pub trait PacketSink: Send + Sync {
    /// Takes packets out of `packets`, and returns how many it has refused. Must not wait.
    fn take(&self, packets: &mut Vec<Bytes>) -> u64;
}

/// The tunnels of a session.
///
/// Over an association, only the packet's own addresses show which tunnel it is for: the address of
/// the client's end, which is the destination at the client and the source at the gateway.
pub(super) struct Packets {
    side: Side,
    association: RwLock<Weak<AssociationChannel>>,
    policy: Mutex<PacketPolicy>,
    /// Sinks by the networks of their client's end, the latest first. A session has a few.
    sinks: RwLock<Vec<(IpNet, Arc<dyn PacketSink>)>>,
    over_association: AtomicU64,
    over_channels: AtomicU64,
    received: AtomicU64,
    refused: AtomicU64,
}

impl Packets {
    pub(super) fn new(side: Side, policy: PacketPolicy) -> Self {
        Self {
            side,
            policy: Mutex::new(policy),
            association: RwLock::new(Weak::new()),
            sinks: RwLock::default(),
            over_association: AtomicU64::new(0),
            over_channels: AtomicU64::new(0),
            received: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }

    /// Sends packets over this association from now on, while it lives.
    pub(super) fn set_association(&self, channel: &Arc<AssociationChannel>) {
        *self.association.write() = Arc::downgrade(channel);
        channel.association.set_packet_policy(self.policy());
    }

    /// The policy that places packets.
    pub(super) fn policy(&self) -> PacketPolicy {
        *self.policy.lock()
    }

    /// Places packets by this policy from now on.
    pub(super) fn set_policy(&self, policy: PacketPolicy) {
        *self.policy.lock() = policy;
        if let Some(channel) = self.association() {
            channel.association.set_packet_policy(policy);
        }
    }

    /// Sends packets over the association. Returns false, and leaves the packets, if there is no
    /// association, or none of its paths answers.
    pub(super) fn send(&self, packets: &mut Vec<Bytes>) -> bool {
        let count = packets.len() as u64;
        let association = self.association();
        let are_sent = association.is_some_and(|it| it.association.send_packets(packets));
        let counter = if are_sent {
            &self.over_association
        } else {
            &self.over_channels
        };
        counter.fetch_add(count, Ordering::Relaxed);
        are_sent
    }

    /// The numbers of packets so far.
    pub(super) fn counts(&self) -> TunnelCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let tunnel = self.association().map(|it| it.association.tunnel_stats());
        let tunnel = tunnel.unwrap_or_default();
        TunnelCounts {
            over_association: read(&self.over_association),
            over_channels: read(&self.over_channels),
            received: read(&self.received),
            late: tunnel.received.late,
            dropped: tunnel.sent.dropped + tunnel.sent.overflowed,
            refused: read(&self.refused),
        }
    }

    /// At most `most` flows of packets over the association; flows over channels are left out.
    pub(super) fn flows(&self, most: usize) -> TunnelFlows {
        let association = self.association();
        let flows = association.map(|it| it.association.flows(most));
        flows.unwrap_or_default()
    }

    fn association(&self) -> Option<Arc<AssociationChannel>> {
        self.association.read().upgrade()
    }

    /// Hands packets for one of these networks to `sink` from now on.
    pub(super) fn register(&self, networks: &[IpNet], sink: &Arc<dyn PacketSink>) {
        let mut sinks = self.sinks.write();
        let own = networks.iter().map(|net| (*net, Arc::clone(sink)));
        sinks.splice(0..0, own);
    }

    /// Hands no more packets to `sink`.
    pub(super) fn unregister(&self, sink: &Arc<dyn PacketSink>) {
        let mut sinks = self.sinks.write();
        sinks.retain(|(_, known)| !Arc::ptr_eq(known, sink));
    }

    /// Gives packets to the tunnels that they are for. A client drops packets that are for no
    /// tunnel. A gateway gives packets with the address of no client of the session to any tunnel,
    /// which refuses and counts them.
    pub(super) fn hand_on(&self, packets: &mut Vec<Bytes>) {
        self.received
            .fetch_add(packets.len() as u64, Ordering::Relaxed);
        let sinks = self.sinks.read();
        let mut run: Option<(Option<IpAddr>, &Arc<dyn PacketSink>)> = None;
        let mut of_run = Vec::new();
        for packet in packets.drain(..) {
            let address = self.address(&packet);
            if let Some((of, sink)) = run
                && of != address
            {
                self.note_refused(sink.take(&mut of_run));
                of_run.clear();
                run = None;
            }
            if run.is_none() {
                let is_for = |net: &IpNet| address.is_some_and(|it| net.contains(&it));
                let known = sinks.iter().find(|(net, _)| is_for(net));
                let any = sinks.first().filter(|_| self.side == Side::Gateway);
                run = known.or(any).map(|(_, sink)| (address, sink));
            }
            match run {
                Some(_) => of_run.push(packet),
                None => self.note_refused(1),
            }
        }
        if let Some((_, sink)) = run {
            self.note_refused(sink.take(&mut of_run));
        }
    }

    fn note_refused(&self, packets: u64) {
        self.refused.fetch_add(packets, Ordering::Relaxed);
    }

    fn address(&self, packet: &[u8]) -> Option<IpAddr> {
        let view = PacketView::parse(packet).ok()?;
        Some(match self.side {
            Side::Client => view.destination(),
            Side::Gateway => view.source(),
        })
    }
}

/// Hands on packets of the peer from an association, until the association is over.
pub(super) async fn receive(tunnels: Weak<Packets>, channel: Arc<AssociationChannel>) {
    let taker = move |packets: &mut Vec<Bytes>| {
        if let Some(tunnels) = tunnels.upgrade() {
            tunnels.hand_on(packets);
        }
    };
    channel.association.hand_packets_to(Arc::new(taker)).await;
}

/// A tunnel's place among those of its session, until this is dropped.
pub struct PacketPlace {
    tunnels: Arc<Packets>,
    sink: Arc<dyn PacketSink>,
}

impl PacketPlace {
    pub(super) fn new(
        tunnels: &Arc<Packets>,
        networks: &[IpNet],
        sink: Arc<dyn PacketSink>,
    ) -> Self {
        tunnels.register(networks, &sink);
        Self {
            tunnels: Arc::clone(tunnels),
            sink,
        }
    }
}

impl PacketPlace {
    /// Counts packets that came beside the tunnel's stream and were refused.
    pub fn note_refused(&self, packets: u64) {
        self.tunnels.note_refused(packets);
    }
}

impl Drop for PacketPlace {
    fn drop(&mut self) {
        self.tunnels.unregister(&self.sink);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts the packets that it takes, and refuses none of them.
    #[derive(Default)]
    struct Taken(AtomicU64);

    impl PacketSink for Taken {
        fn take(&self, packets: &mut Vec<Bytes>) -> u64 {
            let count = packets.drain(..).len() as u64;
            self.0.fetch_add(count, Ordering::Relaxed);
            0
        }
    }

    /// A packet of IPv4 without content.
    fn packet(from: [u8; 4], to: [u8; 4]) -> Bytes {
        let mut packet = vec![0x45, 0, 0, 20, 0, 0, 0, 0, 64, 59, 0, 0];
        packet.extend_from_slice(&from);
        packet.extend_from_slice(&to);
        packet.into()
    }

    #[test]
    fn a_client_takes_packets_for_its_own_addresses_alone() {
        let (own, other) = ([10, 83, 0, 2], [192, 168, 77, 2]);
        for (side, taken, refused) in [(Side::Client, 2, 2), (Side::Gateway, 4, 0)] {
            let packets = Packets::new(side, PacketPolicy::default());
            let sink = Arc::new(Taken::default());
            let known: Arc<dyn PacketSink> = Arc::<Taken>::clone(&sink);
            packets.register(&["10.83.0.2/32".parse().unwrap()], &known);
            let ends = [own, other, other, own];
            let mut received = ends.map(|end| match side {
                Side::Client => packet([192, 0, 2, 7], end),
                Side::Gateway => packet(end, [192, 0, 2, 7]),
            });
            packets.hand_on(&mut received.to_vec());
            assert_eq!(sink.0.load(Ordering::Relaxed), taken, "{side:?}");
            assert_eq!(packets.counts().refused, refused, "{side:?}");
            received.reverse();
        }
    }
}
