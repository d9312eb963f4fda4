//! The path of tunnels' packets through a session, in both directions.
//!
//! - Out: a tunnel gives packets to its lane ([`PacketLane::send`]), which queues them in the
//!   association, else sends them as datagrams beside the stream that opened the tunnel.
//! - In over the association: [`receive_over`] takes batches, and [`PacketLanes::hand_on`] gives
//!   each packet to the sink of the tunnel that has its address.
//! - In beside the stream: [`PacketLane::receive`] gives datagrams to the same sink.

use std::any::Any;
use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hawser_sched::packet::PacketPolicy;
use hawser_session::{ReadOutcome, Side, TunnelCounts};
use hawser_tunnel::packet::PacketView;
use hawser_types::StreamId;
use ipnet::IpNet;
use parking_lot::{Mutex, RwLock};

use super::association_channel::AssociationChannel;
use super::failure::Failure;
use super::shared::SharedSession;
use super::streams::Waiting;
use crate::association::TunnelFlows;

/// Takes packets of the peer that are for one tunnel.
pub trait PacketSink: Send + Sync {
    /// Takes packets out of `packets`, and returns how many it has refused. Must not wait.
    fn take(&self, packets: &mut Vec<Bytes>) -> u64;
}

/// A stream that is open as long as this is kept.
pub(crate) type KeptStream = Box<dyn Any + Send + Sync>;

/// Carries the packets of one tunnel. Dropping it ends the stream that opened the tunnel.
pub struct PacketLane {
    shared: Arc<SharedSession>,
    lanes: Arc<PacketLanes>,
    id: StreamId,
    _stream: KeptStream,
}

impl PacketLane {
    pub(super) fn new(
        shared: Arc<SharedSession>,
        lanes: Arc<PacketLanes>,
        id: StreamId,
        _stream: KeptStream,
    ) -> Self {
        Self {
            shared,
            lanes,
            id,
            _stream,
        }
    }

    /// Sends packets over the session's association; as datagrams beside the stream if there is no
    /// association, or none of its paths answers. Packets that neither takes are counted, and lost
    /// as they might be on the path.
    pub fn send(&self, packets: &mut Vec<Bytes>) {
        let (count, counters) = (packets.len() as u64, &self.lanes.counters);
        let association = self.lanes.association();
        if association.is_some_and(|it| it.association.send_packets(packets)) {
            counters
                .over_association
                .fetch_add(count, Ordering::Relaxed);
            return;
        }
        let taken = self.shared.with(|inner, now| {
            let mut send = |packet| inner.session.send_datagram_in_order(now, self.id, packet);
            let sent = packets.drain(..).filter_map(|packet| send(packet).ok());
            sent.count() as u64
        });
        counters.over_channels.fetch_add(taken, Ordering::Relaxed);
        counters.dropped.fetch_add(count - taken, Ordering::Relaxed);
    }

    /// Hands packets of the peer to `sink`: from now on, packets for these networks over the
    /// session's association, and, while this is awaited, datagrams beside the stream. Ends when
    /// the peer has ended the stream, whose own bytes are dropped.
    ///
    /// # Errors
    /// When the peer reset the stream, or the connection is over.
    pub fn receive(
        &self,
        networks: Vec<IpNet>,
        sink: Arc<dyn PacketSink>,
    ) -> impl Future<Output = io::Result<()>> {
        let registered = self.lanes.register(networks, sink);
        async move {
            while let Some(packet) = poll_fn(|cx| self.poll_datagram_or_end(cx)).await? {
                let refused = registered.sink.take(&mut vec![packet]);
                registered.lanes.note_refused(refused);
            }
            Ok(())
        }
    }

    fn poll_datagram_or_end(&self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Failure>> {
        let (shared, id) = (&self.shared, self.id);
        let datagram = shared.poll_stream(cx, id, Waiting::Datagram, |session, _| {
            session.receive_datagram(id)
        });
        if let Poll::Ready(datagram) = datagram {
            return Poll::Ready(datagram.map(Some));
        }
        while ready!(shared.poll_stream(cx, id, Waiting::Read, |session, now| {
            Ok(match session.read(now, id, MAX_DROPPED)? {
                ReadOutcome::Data(..) => Some(true),
                ReadOutcome::End => Some(false),
                ReadOutcome::Blocked => None,
            })
        }))? {}
        Poll::Ready(Ok(None))
    }
}

/// Hands on packets of the peer from an association, until the association is over.
pub(super) async fn receive_over(channel: Arc<AssociationChannel>, lanes: Weak<PacketLanes>) {
    let taker = move |packets: &mut Vec<Bytes>| {
        if let Some(lanes) = lanes.upgrade() {
            lanes.hand_on(packets);
        }
    };
    channel.association.hand_packets_to(Arc::new(taker)).await;
}

/// The lanes of a session.
///
/// Over an association, only the packet's own addresses show which tunnel it is for: the address of
/// the client's end, which is the destination at the client and the source at the gateway.
pub(super) struct PacketLanes {
    side: Side,
    association: RwLock<Weak<AssociationChannel>>,
    policy: Mutex<PacketPolicy>,
    /// Sinks by the networks of their tunnel's client end, the latest first. A session has a few.
    sinks: RwLock<Vec<(IpNet, Arc<dyn PacketSink>)>>,
    counters: PacketCounters,
}

/// Numbers of packets, as in [`TunnelCounts`].
#[derive(Default)]
struct PacketCounters {
    over_association: AtomicU64,
    over_channels: AtomicU64,
    dropped: AtomicU64,
    received: AtomicU64,
    refused: AtomicU64,
}

impl PacketLanes {
    pub(super) fn new(side: Side, policy: PacketPolicy) -> Self {
        Self {
            side,
            policy: Mutex::new(policy),
            association: RwLock::new(Weak::new()),
            sinks: RwLock::default(),
            counters: PacketCounters::default(),
        }
    }

    /// Sends packets over this association from now on, while it lives.
    pub(super) fn set_association(&self, channel: &Arc<AssociationChannel>) {
        *self.association.write() = Arc::downgrade(channel);
        channel.association.set_packet_policy(self.policy());
    }

    fn association(&self) -> Option<Arc<AssociationChannel>> {
        let association = self.association.read();
        association.upgrade()
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

    /// The numbers of packets so far.
    pub(super) fn counts(&self) -> TunnelCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let tunnel = self.association().map(|it| it.association.tunnel_stats());
        let (counters, tunnel) = (&self.counters, tunnel.unwrap_or_default());
        TunnelCounts {
            over_association: read(&counters.over_association),
            over_channels: read(&counters.over_channels),
            received: read(&counters.received),
            late: tunnel.received.late,
            dropped: read(&counters.dropped) + tunnel.sent.dropped + tunnel.sent.overflowed,
            refused: read(&counters.refused),
        }
    }

    /// At most `most` flows of packets over the association; flows over channels are left out.
    pub(super) fn flows(&self, most: usize) -> TunnelFlows {
        let association = self.association();
        let flows = association.map(|it| it.association.flows(most));
        flows.unwrap_or_default()
    }

    /// Gives packets to the tunnels that they are for. A client drops packets that are for no
    /// tunnel. A gateway gives packets whose address belongs to no tunnel of the session to any
    /// tunnel, which refuses and counts them.
    fn hand_on(&self, packets: &mut Vec<Bytes>) {
        let count = packets.len() as u64;
        self.counters.received.fetch_add(count, Ordering::Relaxed);
        let sinks = self.sinks.read();
        let mut run: Option<(Option<IpAddr>, &Arc<dyn PacketSink>)> = None;
        let mut of_run = Vec::new();
        for packet in packets.drain(..) {
            let address = self.address(&packet);
            if let Some((_, sink)) = run.take_if(|(of, _)| *of != address) {
                self.note_refused(sink.take(&mut of_run));
                of_run.clear();
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

    fn address(&self, packet: &[u8]) -> Option<IpAddr> {
        let view = PacketView::parse(packet).ok()?;
        Some(match self.side {
            Side::Client => view.destination(),
            Side::Gateway => view.source(),
        })
    }

    /// Hands packets for these networks to `sink` from now on, until the returned value is dropped.
    fn register(&self, networks: Vec<IpNet>, sink: Arc<dyn PacketSink>) -> Registered<'_> {
        let mut sinks = self.sinks.write();
        let own = networks.into_iter().map(|net| (net, Arc::clone(&sink)));
        sinks.splice(0..0, own);
        Registered { lanes: self, sink }
    }

    fn note_refused(&self, packets: u64) {
        self.counters.refused.fetch_add(packets, Ordering::Relaxed);
    }
}

/// A sink that packets are handed to, until this is dropped.
struct Registered<'a> {
    lanes: &'a PacketLanes,
    sink: Arc<dyn PacketSink>,
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        let mut sinks = self.lanes.sinks.write();
        sinks.retain(|(_, known)| !Arc::ptr_eq(known, &self.sink));
    }
}

/// Bytes of a tunnel's stream that are dropped at once.
const MAX_DROPPED: usize = 64 * 1024;

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
            let lanes = PacketLanes::new(side, PacketPolicy::default());
            let sink = Arc::new(Taken::default());
            let own_networks = vec!["10.83.0.2/32".parse().unwrap()];
            let _registered = lanes.register(own_networks, Arc::<Taken>::clone(&sink));
            let ends = [own, other, other, own];
            let received = ends.map(|end| match side {
                Side::Client => packet([192, 0, 2, 7], end),
                Side::Gateway => packet(end, [192, 0, 2, 7]),
            });
            lanes.hand_on(&mut received.to_vec());
            assert_eq!(sink.0.load(Ordering::Relaxed), taken, "{side:?}");
            assert_eq!(lanes.counts().refused, refused, "{side:?}");
        }
    }
}
