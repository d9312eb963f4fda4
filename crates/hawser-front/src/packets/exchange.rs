//! The gateway's end of packet mode: one TUN device, and one tunnel to each client.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use hawser_host::tun::{Tun, TunMemory};
use hawser_keys::store::OwnAddresses;
use hawser_net::stream::{PacketLane, PacketSink};
use hawser_tunnel::packet::PacketView;
use ipnet::IpNet;
use parking_lot::{Mutex, RwLock};
use serde::Serialize;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::MTU;
use super::answers::Answers;
use super::pool::{AddressHolder, AddressPool, Granted, Networks};
use super::terms::{HostNetworks, Inner, Terms, Wish};
use crate::bonded::Bonded;
use crate::gateway::{ClientId, DestinationPolicy};
use crate::incoming::IncomingStream as _;
use crate::transport::DialError;

/// Forwards packets between a device and the tunnels of clients, which outlive the device.
///
/// A client's packets must come from its own addresses, or from those of hosts behind it. They may
/// go where its streams may go. Clients do not reach each other.
pub struct Exchange {
    /// The device, while there is one.
    device: RwLock<Option<Arc<Tun>>>,
    policy: DestinationPolicy,
    /// Stores the addresses that belong to a client from now on.
    keep: Box<dyn Fn(ClientId, OwnAddresses) + Send + Sync>,
    /// The gateway's own inner addresses.
    gateway: Inner,
    /// The networks of the pool, which do not change.
    networks: Networks,
    pool: Mutex<AddressPool>,
    tunnels: RwLock<BTreeMap<AddressHolder, Arc<Tunnel>>>,
    /// Identity of the latest tunnel.
    latest: AtomicU64,
    /// Notified when tunnels begin and end, and while packets of clients pass.
    moved: Notify,
    /// Milliseconds from `since` to the last notification of `moved` about packets.
    moved_at: AtomicU64,
    since: Instant,
    counters: Arc<PacketCounters>,
}

/// A tunnel that is open.
struct Tunnel {
    id: u64,
    client: ClientId,
    addresses: Inner,
    hosts: HostNetworks,
    lane: PacketLane,
    answers: Answers,
    /// Notified when another tunnel takes an address of this tunnel.
    displaced: Notify,
}

/// Counts of the exchange since its start.
#[derive(Debug, Default)]
pub struct PacketCounters {
    up: [AtomicU64; 2],
    down: [AtomicU64; 2],
    malformed: AtomicU64,
    spoofed: AtomicU64,
    refused: AtomicU64,
    unknown: AtomicU64,
    dropped: AtomicU64,
    refused_flows: AtomicU64,
}

/// The counts at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct PacketStats {
    /// Packets of clients that were forwarded.
    pub packets_up: u64,
    /// Bytes of these packets.
    pub bytes_up: u64,
    /// Packets that were forwarded to clients.
    pub packets_down: u64,
    /// Bytes of these packets.
    pub bytes_down: u64,
    /// Packets of clients that are malformed or of an unknown IP version.
    pub malformed: u64,
    /// Packets of clients from an address that is not theirs.
    pub spoofed: u64,
    /// Packets of clients to a destination that they may not send to.
    pub refused: u64,
    /// Packets from the internet for an address that no client has.
    pub unknown: u64,
    /// Packets that this machine's device did not take.
    pub dropped: u64,
    /// Packets that would have begun a flow beyond the client's limits.
    pub refused_flows: u64,
}

impl PacketCounters {
    /// The counts of this moment.
    pub fn snapshot(&self) -> PacketStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        PacketStats {
            packets_up: read(&self.up[0]),
            bytes_up: read(&self.up[1]),
            packets_down: read(&self.down[0]),
            bytes_down: read(&self.down[1]),
            malformed: read(&self.malformed),
            spoofed: read(&self.spoofed),
            refused: read(&self.refused),
            unknown: read(&self.unknown),
            dropped: read(&self.dropped),
            refused_flows: read(&self.refused_flows),
        }
    }

    /// Adds flows that the kernel has refused.
    pub fn add_refused_flows(&self, count: u64) {
        self.refused_flows.fetch_add(count, Ordering::Relaxed);
    }
}

impl Exchange {
    /// Creates an exchange without a device. `keep` stores the addresses of the pool that belong to
    /// a client from now on; it must be quick.
    pub fn new(
        pool: AddressPool,
        policy: DestinationPolicy,
        keep: impl Fn(ClientId, OwnAddresses) + Send + Sync + 'static,
    ) -> Self {
        let mut gateway = Inner::default();
        for net in pool.gateway() {
            match net.addr() {
                IpAddr::V4(address) => gateway.v4 = Some(address),
                IpAddr::V6(address) => gateway.v6 = Some(address),
            }
        }
        Self {
            device: RwLock::default(),
            policy,
            keep: Box::new(keep),
            gateway,
            networks: pool.networks(),
            pool: Mutex::new(pool),
            tunnels: RwLock::default(),
            latest: AtomicU64::new(0),
            moved: Notify::new(),
            moved_at: AtomicU64::new(0),
            since: Instant::now(),
            counters: Arc::default(),
        }
    }

    /// Returns the networks of clients that have tunnels now, each with its client.
    pub fn owned(&self) -> BTreeMap<IpNet, ClientId> {
        let tunnels = self.tunnels.read();
        let of_tunnel = |tunnel: &Arc<Tunnel>| {
            let own = tunnel.addresses.addresses().map(IpNet::from);
            let (hosts, client) = (tunnel.hosts.networks(), tunnel.client);
            own.chain(hosts).map(move |net| (net, client))
        };
        tunnels.values().flat_map(of_tunnel).collect()
    }

    /// Waits until [`Self::owned`] may have changed, or packets of clients pass; the latter at most
    /// every quarter of a second.
    pub async fn moved(&self) {
        self.moved.notified().await;
    }

    /// The counters, which stay readable without the exchange.
    pub fn counters(&self) -> Arc<PacketCounters> {
        Arc::clone(&self.counters)
    }

    /// Forwards packets between the device `tun` and the tunnels until the device fails; returns
    /// its error. Packets of clients are dropped until this runs again.
    pub async fn run(&self, tun: Tun) -> std::io::Error {
        let tun = Arc::new(tun);
        *self.device.write() = Some(Arc::clone(&tun));
        let _present = Present(&self.device);
        match self.pass_down(&tun).await {
            Ok(never) => match never {},
            Err(error) => error,
        }
    }

    async fn pass_down(&self, tun: &Tun) -> std::io::Result<Infallible> {
        let mut memory = TunMemory::new();
        let (mut packets, mut of_tunnel) = (Vec::new(), Vec::new());
        loop {
            tun.read_some(&mut memory, &mut packets).await?;
            let mut last: Option<(IpAddr, Arc<Tunnel>)> = None;
            for packet in packets.drain(..) {
                let to = PacketView::parse(&packet).map(|view| view.destination());
                let known = last.as_ref().map(|(address, _)| *address);
                // Consecutive packets of one tunnel are sent together.
                if known.is_none() || known != to.ok() {
                    if let Some((_, before)) = last.take() {
                        before.lane.send(&mut of_tunnel);
                    }
                    last = to.ok().and_then(|to| Some((to, self.tunnel_to(to)?)));
                }
                if last.is_none() {
                    self.counters.unknown.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
                count(&self.counters.down, 1, packet.len() as u64);
                of_tunnel.push(packet);
            }
            if let Some((_, tunnel)) = last {
                tunnel.lane.send(&mut of_tunnel);
            }
        }
    }

    /// Serves the tunnel of a client to its end.
    ///
    /// # Errors
    /// The cause that was sent to the client when the tunnel was refused.
    pub async fn serve(
        self: &Arc<Self>,
        client: ClientId,
        stream: Bonded,
    ) -> Result<(), DialError> {
        let Some(wish) = Wish::of_opening(stream.open_metadata()) else {
            stream.refuse(DialError::MalformedDestination);
            return Err(DialError::MalformedDestination);
        };
        let id = self.latest.fetch_add(1, Ordering::Relaxed);
        let granted = self.pool.lock().grant(Instant::now(), client, wish, id);
        let granted = match granted {
            Ok(granted) => granted,
            Err(error) => {
                tracing::debug!(%error, "refused a tunnel");
                stream.refuse(DialError::LimitReached);
                return Err(DialError::LimitReached);
            }
        };
        if let Some(own) = granted.to_keep {
            (self.keep)(client, own);
        }
        let served = self.serve_at(client, granted, id, stream).await;
        self.pool.lock().release(Instant::now(), granted.number, id);
        tracing::debug!(ended = ?served, "tunnel ended");
        Ok(())
    }

    async fn serve_at(
        self: &Arc<Self>,
        client: ClientId,
        granted: Granted,
        id: u64,
        stream: Bonded,
    ) -> std::io::Result<()> {
        let addresses = self.networks.addresses(granted.number);
        let hosts = granted.block.map(|block| self.networks.of_block(block));
        let hosts = hosts.unwrap_or_default();
        let terms = Terms {
            client: addresses,
            hosts,
            gateway: self.gateway,
            mtu: MTU,
        };
        let mut stream = stream.into_inner();
        stream.accept(terms.to_bytes())?;
        let tunnel = Arc::new(Tunnel {
            id,
            client,
            addresses,
            hosts,
            lane: stream.into_packet_lane(),
            answers: Answers::new(self.gateway),
            displaced: Notify::new(),
        });
        let own = AddressHolder::Client(granted.number);
        let places = [Some(own), granted.block.map(AddressHolder::Block)];
        {
            let mut tunnels = self.tunnels.write();
            // Of two concurrent tunnels, the later one gets the address.
            if tunnels.get(&own).is_some_and(|there| there.id > id) {
                return Ok(());
            }
            for place in places.into_iter().flatten() {
                if let Some(before) = tunnels.insert(place, Arc::clone(&tunnel)) {
                    before.displaced.notify_one();
                }
            }
        }
        self.moved.notify_one();
        let sink = Arc::new(Upwards {
            exchange: Arc::downgrade(self),
            tunnel: Arc::clone(&tunnel),
        });
        let ended = tokio::select! {
            ended = tunnel.lane.receive(terms.of_client(), sink) => ended,
            () = tunnel.displaced.notified() => Ok(()),
        };
        let mut tunnels = self.tunnels.write();
        tunnels.retain(|_, there| there.id != id);
        ended
    }

    /// Forwards those packets of a client to the device that are allowed.
    fn pass_up(&self, tunnel: &Tunnel, packets: &mut Vec<Bytes>) {
        let mut allowed = None;
        packets.retain(|packet| match self.check(tunnel, packet, &mut allowed) {
            Ok(()) => true,
            Err(counter) => {
                counter.fetch_add(1, Ordering::Relaxed);
                false
            }
        });
        self.on_passing();
        let Some(tun) = self.device() else {
            let dropped = packets.drain(..).len() as u64;
            self.counters.dropped.fetch_add(dropped, Ordering::Relaxed);
            return;
        };
        let written = tun.write_all(packets);
        count(&self.counters.up, written.packets, written.bytes);
        self.counters
            .dropped
            .fetch_add(written.dropped, Ordering::Relaxed);
    }

    fn on_passing(&self) {
        let now = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        let before = self.moved_at.load(Ordering::Relaxed);
        if u128::from(now.saturating_sub(before)) >= LOOK.as_millis() {
            self.moved_at.store(now, Ordering::Relaxed);
            self.moved.notify_one();
        }
    }

    /// Tells whether a client may send this packet. If not, answers it and returns the counter to
    /// increment. `allowed`: the addresses of the last packet that may go to the internet.
    fn check(
        &self,
        tunnel: &Tunnel,
        packet: &[u8],
        allowed: &mut Option<(IpAddr, IpAddr)>,
    ) -> Result<(), &AtomicU64> {
        let counters = &self.counters;
        let view = PacketView::parse(packet).map_err(|_| &counters.malformed)?;
        let addresses = (view.source(), view.destination());
        if *allowed == Some(addresses) {
            return Ok(());
        }
        let from = view.source();
        if !tunnel.addresses.contains(from) && !tunnel.hosts.contains(from) {
            return Err(&counters.spoofed);
        }
        let to = view.destination();
        if self.gateway.contains(to) {
            // Clients reach no service that listens on this machine.
            if is_ping(&view) {
                return Ok(());
            }
        } else if !self.networks.contains(to) && self.policy.check(to).is_ok() {
            *allowed = Some(addresses);
            return Ok(());
        }
        if let Some(answer) = tunnel.answers.to_prohibited(&view) {
            // The answer may be lost, as any packet.
            tunnel.lane.send(&mut vec![answer.into()]);
        }
        Err(&counters.refused)
    }

    /// Returns the tunnel for packets to this address.
    fn tunnel_to(&self, address: IpAddr) -> Option<Arc<Tunnel>> {
        let routes = self.tunnels.read();
        let mut places = self.networks.places(address);
        places.find_map(|place| routes.get(&place).cloned())
    }

    fn device(&self) -> Option<Arc<Tun>> {
        let device = self.device.read();
        device.clone()
    }
}

/// Removes the device when dropped.
struct Present<'a>(&'a RwLock<Option<Arc<Tun>>>);

impl Drop for Present<'_> {
    fn drop(&mut self) {
        *self.0.write() = None;
    }
}

/// Takes the packets of a tunnel.
struct Upwards {
    exchange: Weak<Exchange>,
    tunnel: Arc<Tunnel>,
}

impl PacketSink for Upwards {
    fn take(&self, packets: &mut Vec<Bytes>) -> u64 {
        if let Some(exchange) = self.exchange.upgrade() {
            exchange.pass_up(&self.tunnel, packets);
        }
        // The exchange counts refused packets itself, by reason.
        0
    }
}

fn count(counters: &[AtomicU64; 2], packets: u64, bytes: u64) {
    counters[0].fetch_add(packets, Ordering::Relaxed);
    counters[1].fetch_add(bytes, Ordering::Relaxed);
}

/// True for an echo request (RFC 792, RFC 4443).
fn is_ping(view: &PacketView<'_>) -> bool {
    let kind = view.transport().first().copied();
    let is_whole = !view.is_fragment();
    let expected = match view.source() {
        IpAddr::V4(_) => (ICMP, ECHO_V4),
        IpAddr::V6(_) => (ICMPV6, ECHO_V6),
    };
    is_whole && (view.protocol(), kind) == (expected.0, Some(expected.1))
}

/// Shortest time between two notifications that packets pass.
const LOOK: Duration = Duration::from_millis(250);
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
const ECHO_V4: u8 = 8;
const ECHO_V6: u8 = 128;
