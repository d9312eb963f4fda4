//! Limits of one client, in a span of time and at the same time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::sync::Arc;

use hawser_types::{Budget, ByteCount, Charge};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::time::Instant;

use crate::destination::Destination;
use crate::token_bucket::TokenBucket;

/// Tells clients apart: the client's public key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId([u8; 32]);

impl ClientId {
    /// Wraps the 32 bytes of a public key.
    pub const fn new(key: [u8; 32]) -> Self {
        Self(key)
    }

    /// Returns the bytes of the key.
    pub const fn to_bytes(self) -> [u8; 32] {
        self.0
    }
}

impl fmt::Debug for ClientId {
    /// The first four bytes in hexadecimal: enough to tell clients apart in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, ..] = self.0;
        write!(f, "client {a:02x}{b:02x}{c:02x}{d:02x}")
    }
}

/// Limits of each client, over all its sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientLimits {
    /// Streams open at the same time.
    pub streams: usize,
    /// Streams of all clients of one network at the same time, where clients are identified by
    /// address.
    pub network_streams: usize,
    /// Streams of all clients together at the same time. Each takes a file descriptor, and the
    /// channels of clients need some, too.
    pub all_streams: usize,
    /// Connects per second, in the long run.
    pub connects_per_second: u32,
    /// Connects at once, after a pause.
    pub connect_burst: u32,
    /// New destinations per second, in the long run: those that the client has not used recently.
    /// This slows a scan of networks or ports and does not affect a busy browser.
    pub new_destinations_per_second: u32,
    /// New destinations at once, after a pause.
    pub new_destination_burst: u32,
}

impl Default for ClientLimits {
    fn default() -> Self {
        Self {
            streams: 4096,
            network_streams: usize::MAX,
            all_streams: usize::MAX,
            connects_per_second: 2000,
            connect_burst: 20_000,
            new_destinations_per_second: 50,
            new_destination_burst: 1000,
        }
    }
}

/// Which limit a client has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum LimitReason {
    /// Too many streams at the same time.
    Streams,
    /// Too many streams of one network.
    NetworkStreams,
    /// Too many streams of all clients together.
    AllStreams,
    /// Too many connects in a short time.
    Connects,
    /// Too many new destinations in a short time.
    NewDestinations,
    /// Too many tunnels for packets in a short time.
    Tunnels,
    /// Too much memory.
    Memory,
}

/// The clients of recent times.
#[derive(Debug)]
pub(crate) struct Clients {
    limits: ClientLimits,
    known: Mutex<Known>,
    /// The key of destinations' hashes.
    hashes: RandomState,
}

#[derive(Debug, Default)]
struct Known {
    clients: BTreeMap<ClientId, Client>,
    /// Open streams of each network that has any.
    networks: BTreeMap<IpAddr, usize>,
    /// Open streams of all clients.
    streams: usize,
}

impl Clients {
    pub(crate) fn new(limits: ClientLimits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            known: Mutex::default(),
            hashes: RandomState::new(),
        })
    }

    /// Admits a stream of any kind. It counts until the place is dropped.
    pub(crate) fn admit(
        self: &Arc<Self>,
        id: ClientId,
        now: Instant,
    ) -> Result<StreamSlot, LimitReason> {
        self.admit_from(id, None, now)
    }

    /// Admits a stream of a client in a network. The network is given by its first address.
    pub(crate) fn admit_from(
        self: &Arc<Self>,
        id: ClientId,
        network: Option<IpAddr>,
        now: Instant,
    ) -> Result<StreamSlot, LimitReason> {
        let mut known = self.known.lock();
        // The last quarter of all streams is reserved for clients that have less than a quarter.
        let all = self.limits.all_streams;
        let of_client = known.clients.get(&id).map_or(0, |client| client.streams);
        let most = if of_client >= all.div_ceil(4) {
            all - all / 4
        } else {
            all
        };
        if known.streams >= most {
            return Err(LimitReason::AllStreams);
        }
        let of_network = network.and_then(|network| known.networks.get(&network));
        if of_network.is_some_and(|streams| *streams >= self.limits.network_streams) {
            return Err(LimitReason::NetworkStreams);
        }
        let clients = &mut known.clients;
        if clients.len() >= MAX_IDLE_CLIENTS && !clients.contains_key(&id) {
            clients.retain(|_, client| !client.is_forgettable(now));
        }
        let client = clients.entry(id).or_insert_with(|| Client::new(now));
        client.admit(&self.limits, now)?;
        known.streams += 1;
        if let Some(network) = network {
            *known.networks.entry(network).or_default() += 1;
        }
        Ok(StreamSlot {
            clients: Arc::clone(self),
            id,
            network,
        })
    }
}

/// Permit of a stream, held for as long as the stream is served: its place, and a charge for its
/// memory. Both are always needed.
#[derive(Debug)]
pub(crate) struct Permit {
    place: StreamSlot,
    charge: Charge,
}

/// The place of one stream among its client's.
#[derive(Debug)]
pub(crate) struct StreamSlot {
    clients: Arc<Clients>,
    id: ClientId,
    network: Option<IpAddr>,
}

impl Permit {
    /// Charges a stream to its client's account.
    pub(crate) fn new(place: StreamSlot, account: &Budget) -> Result<Self, LimitReason> {
        let charge = account.charge(STREAM_CHARGE);
        let charge = charge.map_err(|_| LimitReason::Memory)?;
        Ok(Self { place, charge })
    }

    /// Returns the client that opened the stream.
    pub(crate) fn client(&self) -> ClientId {
        self.place.id
    }

    /// Returns the account that further memory of the stream is charged to.
    pub(crate) fn account(&self) -> &Budget {
        self.charge.budget()
    }

    /// Charges `more` bytes, for a stream that takes more memory than others.
    pub(crate) fn add(&mut self, more: ByteCount) -> Result<(), LimitReason> {
        let bytes = self.charge.bytes() + more;
        self.charge.grow_to(bytes).map_err(|_| LimitReason::Memory)
    }

    /// Admits a destination for the stream.
    pub(crate) fn lead_to(
        &self,
        destination: &Destination,
        now: Instant,
    ) -> Result<(), LimitReason> {
        self.place.lead_to(destination, now)
    }

    /// Admits the stream as a tunnel for packets, and charges the additional memory.
    pub(crate) fn be_tunnel(&mut self, now: Instant) -> Result<(), LimitReason> {
        let may = |client: &mut Client| client.tunnels.take(TUNNELS_IN_A_SECOND, TUNNELS, now);
        if !self.place.with_client(may).unwrap_or_default() {
            return Err(LimitReason::Tunnels);
        }
        self.add(TUNNEL_CHARGE)
    }
}

impl StreamSlot {
    fn lead_to(&self, destination: &Destination, now: Instant) -> Result<(), LimitReason> {
        let destination = self.clients.hashes.hash_one(destination);
        let limits = &self.clients.limits;
        let led = self.with_client(|client| client.lead_to(limits, destination, now));
        // The client is known for as long as one of its permits lives.
        led.unwrap_or(Err(LimitReason::Streams))
    }

    fn with_client<T>(&self, act: impl FnOnce(&mut Client) -> T) -> Option<T> {
        let known = &self.clients.known;
        let mut known = known.lock();
        known.clients.get_mut(&self.id).map(act)
    }
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        let known = &self.clients.known;
        let mut known = known.lock();
        known.streams = known.streams.saturating_sub(1);
        if let Some(client) = known.clients.get_mut(&self.id) {
            client.streams = client.streams.saturating_sub(1);
        }
        if let Some(network) = self.network
            && let Some(streams) = known.networks.get_mut(&network)
        {
            *streams = streams.saturating_sub(1);
            if *streams == 0 {
                known.networks.remove(&network);
            }
        }
    }
}

#[derive(Debug)]
struct Client {
    streams: usize,
    connects: TokenBucket,
    new_destinations: TokenBucket,
    tunnels: TokenBucket,
    recent: Recent,
}

impl Client {
    fn new(now: Instant) -> Self {
        Self {
            streams: 0,
            connects: TokenBucket::new(now),
            new_destinations: TokenBucket::new(now),
            tunnels: TokenBucket::new(now),
            recent: Recent::default(),
        }
    }

    fn admit(&mut self, limits: &ClientLimits, now: Instant) -> Result<(), LimitReason> {
        if self.streams >= limits.streams {
            return Err(LimitReason::Streams);
        }
        let (rate, burst) = (limits.connects_per_second, limits.connect_burst);
        if !self.connects.take(rate, burst, now) {
            return Err(LimitReason::Connects);
        }
        self.streams += 1;
        Ok(())
    }

    fn lead_to(
        &mut self,
        limits: &ClientLimits,
        destination: u64,
        now: Instant,
    ) -> Result<(), LimitReason> {
        if !self.recent.contains(destination) {
            let rate = limits.new_destinations_per_second;
            let burst = limits.new_destination_burst;
            if !self.new_destinations.take(rate, burst, now) {
                return Err(LimitReason::NewDestinations);
            }
            self.recent.insert(destination);
        }
        Ok(())
    }

    /// True if forgetting the client would make no difference when it returns.
    fn is_forgettable(&self, now: Instant) -> bool {
        let buckets = [&self.connects, &self.new_destinations, &self.tunnels];
        self.streams == 0 && buckets.iter().all(|bucket| bucket.is_full(now))
    }
}

/// The destinations that a client used last; the oldest is forgotten first. They are stored as
/// hashes, under a key of the process: a client chooses how long their names are.
#[derive(Debug, Default)]
struct Recent {
    known: BTreeSet<u64>,
    order: VecDeque<u64>,
}

impl Recent {
    fn contains(&self, destination: u64) -> bool {
        self.known.contains(&destination)
    }

    fn insert(&mut self, destination: u64) {
        self.known.insert(destination);
        self.order.push_back(destination);
        if self.order.len() > MAX_RECENT
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

/// Enough for a browser's day.
const MAX_RECENT: usize = 1024;

/// Memory of a stream in its session, in the task that serves it and in its connection, as long as
/// no data waits in it. See docs/design/charges.md.
const STREAM_CHARGE: ByteCount = ByteCount::from_kib(8);

/// Above this, clients whose limits are all unused are forgotten.
const MAX_IDLE_CLIENTS: usize = 1024;

/// Memory of a tunnel for packets beyond that of a stream: tables of flows, and answers.
const TUNNEL_CHARGE: ByteCount = ByteCount::from_kib(64);
/// Tunnels that a client may begin per second, in the long run: each changes the kernel's rules.
const TUNNELS_IN_A_SECOND: u32 = 2;
/// Tunnels that a client may begin at once, after a pause: links fail and daemons restart.
const TUNNELS: u32 = 32;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn limits() -> ClientLimits {
        ClientLimits {
            streams: 3,
            network_streams: 4,
            all_streams: 5,
            connects_per_second: 10,
            connect_burst: 5,
            new_destinations_per_second: 1,
            new_destination_burst: 2,
        }
    }

    fn destination(port: u16) -> Destination {
        Destination::new("example.org".parse().unwrap(), port)
    }

    const ALICE: ClientId = ClientId::new([1; 32]);
    const BOB: ClientId = ClientId::new([2; 32]);

    #[test]
    fn streams_at_once_are_limited_for_each_client() {
        let clients = Clients::new(limits());
        let now = Instant::now();
        let admit = |id| clients.admit(id, now);
        let mut permits: Vec<StreamSlot> = (0..3).map(|_| admit(ALICE).unwrap()).collect();
        assert_eq!(admit(ALICE).unwrap_err(), LimitReason::Streams);
        assert!(admit(BOB).is_ok());
        permits.pop();
        assert!(admit(ALICE).is_ok());
    }

    #[test]
    fn streams_of_all_clients_together_leave_descriptors_for_their_channels() {
        let clients = Clients::new(limits());
        let now = Instant::now();
        let admit = |id| clients.admit(id, now);
        let mut permits: Vec<StreamSlot> = [ALICE, ALICE, ALICE, BOB, BOB]
            .map(|id| admit(id).unwrap())
            .into();
        assert_eq!(admit(BOB).unwrap_err(), LimitReason::AllStreams);
        // A place of another client is free, but the last places are for clients that have few.
        permits.remove(0);
        assert_eq!(admit(BOB).unwrap_err(), LimitReason::AllStreams);
        assert!(admit(ClientId::new([3; 32])).is_ok());
    }

    #[test]
    fn streams_of_one_network_leave_room_for_others_and_are_forgotten() {
        let all_streams = 8;
        let clients = Clients::new(ClientLimits {
            all_streams,
            ..limits()
        });
        let now = Instant::now();
        let network = |last| Some(IpAddr::from([192, 0, 2, last]));
        let admit = |id, network| clients.admit_from(id, network, now);
        let mut permits: Vec<StreamSlot> = [ALICE, ALICE, BOB, BOB]
            .map(|id| admit(id, network(0)).unwrap())
            .into();
        let refused = admit(BOB, network(0)).unwrap_err();
        assert_eq!(refused, LimitReason::NetworkStreams);
        permits.push(admit(BOB, network(1)).unwrap());
        permits.remove(0);
        permits.push(admit(ALICE, network(0)).unwrap());
        drop(permits);
        assert!(clients.known.lock().networks.is_empty());
    }

    #[test]
    fn a_client_begins_few_tunnels_in_a_second() {
        let clients = Clients::new(limits());
        let account = Budget::new(ByteCount::from_mib(64));
        let place = clients.admit(ALICE, Instant::now()).unwrap();
        let mut permit = Permit::new(place, &account).unwrap();
        let now = Instant::now();
        let mut begun = |now| {
            (0..100)
                .take_while(|_| permit.be_tunnel(now).is_ok())
                .count()
        };
        assert_eq!(begun(now), 32);
        assert_eq!(begun(now + Duration::from_secs(3)), 6);
    }

    #[test]
    fn a_stream_is_charged_to_its_client_until_it_is_over() {
        let clients = Clients::new(ClientLimits::default());
        let account = Budget::new(STREAM_CHARGE + STREAM_CHARGE);
        let admit = || {
            let place = clients.admit(ALICE, Instant::now())?;
            Permit::new(place, &account)
        };
        let (mut first, second) = (admit().unwrap(), admit().unwrap());
        assert_eq!(admit().unwrap_err(), LimitReason::Memory);
        assert_eq!(clients.known.lock().streams, 2, "its place is free");
        drop(second);
        assert_eq!(first.add(STREAM_CHARGE), Ok(()));
        assert_eq!(admit().unwrap_err(), LimitReason::Memory);
        drop(first);
        assert_eq!(account.held(), ByteCount::ZERO);
    }

    #[test]
    fn connects_are_limited_and_come_back_with_time() {
        let clients = Clients::new(limits());
        let now = Instant::now();
        let admit = |now| clients.admit(ALICE, now).map(drop);
        for _ in 0..5 {
            admit(now).unwrap();
        }
        assert_eq!(admit(now), Err(LimitReason::Connects));
        let later = now + Duration::from_millis(100);
        assert_eq!(admit(later), Ok(()));
        assert_eq!(admit(later), Err(LimitReason::Connects));
        let much_later = now + Duration::from_secs(60);
        for _ in 0..5 {
            admit(much_later).unwrap();
        }
        assert_eq!(admit(much_later), Err(LimitReason::Connects));
    }

    #[test]
    fn new_destinations_are_limited_and_known_ones_are_not() {
        let clients = Clients::new(limits());
        let now = Instant::now();
        let admit = |port, now| {
            let permit = clients.admit(ALICE, now)?;
            permit.lead_to(&destination(port), now)
        };
        admit(1, now).unwrap();
        admit(2, now).unwrap();
        assert_eq!(admit(3, now), Err(LimitReason::NewDestinations));
        assert_eq!(admit(1, now), Ok(()));
        assert_eq!(admit(3, now + Duration::from_secs(1)), Ok(()));
    }

    #[test]
    fn memory_of_destinations_and_clients_is_bounded() {
        let clients = Clients::new(ClientLimits::default());
        let now = Instant::now();
        for second in 0..3u32 {
            for port in 0..1000 {
                let port = port + 1000 * u16::try_from(second).unwrap();
                let now = now + Duration::from_secs(60) * second;
                let _ = clients
                    .admit(ALICE, now)
                    .and_then(|permit| permit.lead_to(&destination(port), now));
            }
        }
        assert!(clients.known.lock().clients[&ALICE].recent.known.len() <= MAX_RECENT);
        let mut now = now + Duration::from_secs(600);
        for number in 0..5000u32 {
            let mut key = [0; 32];
            key[..4].copy_from_slice(&number.to_be_bytes());
            now += Duration::from_millis(20);
            let permit = clients.admit(ClientId::new(key), now);
            let _ = permit.and_then(|permit| permit.lead_to(&destination(1), now));
        }
        assert!(clients.known.lock().clients.len() <= MAX_IDLE_CLIENTS);
    }
}
