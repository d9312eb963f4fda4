//! Two drivers, each with a TCP channel and an association to the other, over loopback.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Mutex;

use hawser_channels::association::association_config;
use hawser_sched::chunk::ChunkPolicy;
use hawser_sctp::Local;
use hawser_session::{TransportChoice, TunnelCounts};
use hawser_types::{ByteCount, StreamGroup};
use hawser_wire::ChannelRole;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::association_channel::AssociationChannel;
use super::inner::Inner;
use super::*;
use crate::association::AssociationEndpoint;
use crate::stream::BondStream;
use hawser_keys::identity::Identity;
use hawser_seal::{Allow, Handshake, client_handshake, server_handshake};

/// Two ends of a session.
struct Drivers {
    client: Driver,
    gateway: Driver,
}

impl Drivers {
    /// A session over one TCP channel.
    async fn new(scheduler: ChunkPolicy) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap());
        let (client, server) = tokio::join!(stream, listener.accept());
        let (me, gateway) = (Identity::from_seed([1; 32]), Identity::from_seed([2; 32]));
        let client = client_handshake(client.unwrap(), &me, gateway.public());
        let allow: Allow = Arc::new(|_| true);
        let server = server_handshake(server.unwrap().0, &[], &gateway, allow);
        let (client, server) = tokio::join!(client, server);
        let config = SessionConfig {
            scheduler,
            ..SessionConfig::default()
        };
        Self {
            client: begin(Side::Client, &config, client.unwrap()),
            gateway: begin(Side::Gateway, &config, server.unwrap()),
        }
    }

    /// Lets the client begin an association over two links of its own, and gives it to both ends as
    /// a channel. Returns the sockets of both ends.
    async fn associate(&self) -> [AssociationEndpoint; 2] {
        let (sockets, id, [there, here]) = self.establish().await;
        self.gateway.add_association(id, here);
        self.client.add_association(id, there);
        let both = || {
            let paths = self.client.association().association.paths();
            let answering = paths.iter().filter(|path| path.rtt.is_some());
            (answering.count() == 2).then_some(())
        };
        until(both).await;
        sockets
    }

    /// Lets the client begin an association. Returns the sockets of both ends, the number of its
    /// future channel, the client's end and the gateway's.
    async fn establish(&self) -> ([AssociationEndpoint; 2], ChannelId, [AssociationHandle; 2]) {
        let (ours, theirs) = (LinkIndex::new(0), LinkIndex::new(LOOPBACK));
        let local = |link, last| Local {
            link,
            address: Ipv4Addr::new(127, 0, 0, last).into(),
        };
        let endpoint = |locals: &[Local]| AssociationEndpoint::bind_sealed(locals, 0).unwrap();
        let at_client = endpoint(&[local(ours, 1), local(theirs, 2)]);
        let at_gateway = endpoint(&[local(ours, 1)]);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, at_gateway.port().unwrap()));
        let id = until(|| self.client.take_grant()).await;
        self.client.with(|session, now| {
            session.set_transport(now, TransportChoice::Sctp);
            session.begin_association(now, id);
        });
        until(|| self.gateway.expected().filter(|expected| *expected == id)).await;
        let config = |driver: &Driver| association_config(&driver.session_config(), driver.side());
        let seal = self.gateway.association_seal(id);
        let expected = at_gateway.expect(config(&self.gateway), seal).unwrap();
        let seal = self.client.association_seal(id);
        let there = at_client.connect_sealed(config(&self.client), &[address], seal);
        let there = there.unwrap();
        let here = expected.accept().await;
        there.established().await.unwrap();
        ([at_client, at_gateway], id, [there, here])
    }

    /// Payload that the client's association copies while it sends a megabyte: chunks that are in
    /// flight on another path already. Chunks that count as lost and are sent again are left out:
    /// on a busy machine there are many.
    async fn copied_for_a_megabyte(&self) -> u64 {
        let copied = || {
            self.client
                .association()
                .association
                .backlog()
                .copied
                .as_u64()
        };
        let before = copied();
        let id = self
            .client
            .open_stream(StreamGroup::OWN, Bytes::new())
            .unwrap();
        let mut stream = BondStream::new(self.client.clone(), id, Bytes::new());
        let writing = async {
            stream.write_all(&vec![7; 1_000_000]).await.unwrap();
            stream.shutdown().await.unwrap();
        };
        let reading = async {
            let id = std::future::poll_fn(|cx| self.gateway.poll_incoming(cx)).await;
            let mut stream = BondStream::new(self.gateway.clone(), id.unwrap(), Bytes::new());
            stream.accept(Bytes::new()).unwrap();
            let mut all = Vec::new();
            stream.read_to_end(&mut all).await.unwrap();
            assert_eq!(all.len(), 1_000_000);
        };
        tokio::join!(writing, reading);
        copied() - before
    }

    /// Sends megabytes until enough of one is copied. On a busy machine some of a megabyte goes
    /// over TCP, and late chunks are copied under any policy.
    async fn until_copied(&self, is_as_much: impl Fn(u64) -> bool) {
        let sending = async { while !is_as_much(self.copied_for_a_megabyte().await) {} };
        let sent = tokio::time::timeout(PATIENCE, sending).await;
        sent.expect("in vain");
    }
}

impl Driver {
    fn side(&self) -> Side {
        self.shared.side
    }

    /// The association among the driver's channels.
    fn association(&self) -> Arc<AssociationChannel> {
        let inner = self.shared.lock();
        let of = |handle: &Handle| match &handle.meter {
            Meter::Association(channel) => Some(Arc::clone(channel)),
            Meter::Tcp(_) => None,
        };
        inner.channels.values().find_map(of).unwrap()
    }
}

fn begin(side: Side, config: &SessionConfig, handshake: Handshake) -> Driver {
    let keys = SessionKeys::new(handshake.exporter.clone(), handshake.aead);
    let (id, out) = (ChannelId::new(0), direction(side));
    let new = NewChannel {
        reader: keys.reader(id, out.reverse(), false),
        sealer: keys.sealer(id, out),
        stream: handshake.stream,
    };
    let budgets = SessionBudgets::of_client(ByteCount::from_mib(16));
    let driver = Driver::start(
        side,
        config.clone(),
        keys,
        Congestion::choose(None),
        budgets,
    );
    let spec = ChannelSpec {
        id,
        role: ChannelRole::Express,
        link: LinkIndex::new(match side {
            Side::Client => TCP_LINK,
            Side::Gateway => 0,
        }),
        begun_by: Side::Client,
        records: 0,
        segment_size: None,
    };
    driver.add_channel(spec, new);
    driver
}

fn direction(side: Side) -> Direction {
    match side {
        Side::Client => Direction::ClientToGateway,
        Side::Gateway => Direction::GatewayToClient,
    }
}

/// Waits until `attempt` gives an answer.
async fn until<R>(mut attempt: impl FnMut() -> Option<R>) -> R {
    let waiting = async {
        loop {
            match attempt() {
                Some(answer) => return answer,
                None => tokio::time::sleep(std::time::Duration::from_millis(5)).await,
            }
        }
    };
    let in_time = tokio::time::timeout(PATIENCE, waiting).await;
    in_time.expect("in vain")
}

const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

/// The policy of the session places the packets of its association: `redundant` sends each twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_association_follows_the_policy_of_its_session_at_the_start_and_when_it_changes() {
    let drivers = Drivers::new(ChunkPolicy::Redundant).await;
    let _sockets = drivers.associate().await;
    drivers.until_copied(|bytes| bytes > 900_000).await;
    let client = &drivers.client;
    client.with(|session, now| session.set_scheduler(now, ChunkPolicy::RoundRobin));
    drivers.until_copied(|bytes| bytes < 450_000).await;
}

/// The peer ends both directions of each stream that it opens. Such a stream must not wait for its
/// acceptor, or a peer could let any number of them wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_the_peer_ended_both_ways_waits_for_no_acceptor() {
    let drivers = Drivers::new(ChunkPolicy::Auto).await;
    let (client, gateway) = (&drivers.client, &drivers.gateway);
    let waiting = || gateway.shared.lock().streams.counts()[0];
    for n in 1..=20 {
        let id = client.open_stream(StreamGroup::OWN, Bytes::new()).unwrap();
        until(|| (waiting() == 1).then_some(())).await;
        // One of the two commands alone leaves the stream to its acceptor.
        match n % 2 {
            0 => client.stop_reading(id, 1),
            _ => client.reset_sending(id, 1),
        }
        let told = || gateway.shared.lock().streams.has_ended_half(id);
        until(|| told().then_some(())).await;
        assert_eq!(waiting(), 1);
        client.stop_reading(id, 1);
        client.reset_sending(id, 1);
        until(|| (waiting() == 0).then_some(())).await;
        assert_eq!(gateway.shared.lock().streams.counts(), [0, 0]);
    }
}

/// The writer receives the code of a stop, however early the stop comes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_writer_hears_the_code_of_a_stop_that_came_before_it_accepted() {
    let drivers = Drivers::new(ChunkPolicy::Auto).await;
    let (client, gateway) = (&drivers.client, &drivers.gateway);
    let id = client.open_stream(StreamGroup::OWN, Bytes::new()).unwrap();
    client.stop_reading(id, 9);
    let id = std::future::poll_fn(|cx| gateway.poll_incoming(cx)).await;
    let stream = BondStream::new(gateway.clone(), id.unwrap(), Bytes::new());
    let (_receive, mut send) = stream.into_split();
    assert_eq!(send.stopped().await, Ok(Some(9)));
}

/// Dropping an association takes its lock, which is never taken under that of a session: the
/// endpoint checks that in tests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_association_that_comes_when_the_session_is_over_ends_outside_its_lock() {
    let drivers = Drivers::new(ChunkPolicy::Auto).await;
    let (_sockets, id, [there, here]) = drivers.establish().await;
    drivers.client.abort();
    drivers.client.add_association(id, there);
    let closed = tokio::time::timeout(PATIENCE, here.closed()).await;
    assert!(closed.is_ok(), "the client's end lives on");
}

/// As above, for associations that end with their session, or before it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn associations_that_are_channels_end_outside_the_lock_of_their_session() {
    let drivers = Drivers::new(ChunkPolicy::Auto).await;
    let _sockets = drivers.associate().await;
    for driver in [&drivers.client, &drivers.gateway] {
        // The tasks end, so that the session has the last handle.
        let mut inner = driver.shared.lock();
        let tasks = inner.channels.values().flat_map(|handle| &handle.tasks);
        tasks.for_each(tokio::task::AbortHandle::abort);
        let is_running = |inner: &Inner| {
            let mut tasks = inner.channels.values().flat_map(|handle| &handle.tasks);
            tasks.any(|task| !task.is_finished())
        };
        while is_running(&inner) {
            drop(inner);
            std::thread::sleep(std::time::Duration::from_millis(1));
            inner = driver.shared.lock();
        }
    }
    drivers.client.abort();
    let ids = drivers.gateway.channels();
    ids.into_iter()
        .for_each(|id| drivers.gateway.drop_channel(id));
    assert_eq!(drivers.gateway.channels(), []);
}

impl PacketSink for Mutex<Vec<Bytes>> {
    fn take(&self, packets: &mut Vec<Bytes>) -> u64 {
        self.lock().unwrap().append(packets);
        0
    }
}

/// A packet of IPv4 with this identification, from the client of a tunnel.
fn packet(identification: u8) -> Bytes {
    let mut packet = vec![0x45, 0, 0, 20, 0, identification, 0, 0, 64, 59, 0, 0];
    packet.extend_from_slice(&[10, 83, 0, 2, 192, 0, 2, 7]);
    packet.into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lane_uses_the_association_while_it_answers_and_counts_packets_that_nothing_takes() {
    let drivers = Drivers::new(ChunkPolicy::Auto).await;
    let (client, gateway) = (&drivers.client, &drivers.gateway);
    let id = client.open_stream(StreamGroup::OWN, Bytes::new()).unwrap();
    let mut stream = BondStream::new(client.clone(), id, Bytes::new());
    let id = std::future::poll_fn(|cx| gateway.poll_incoming(cx)).await;
    let mut theirs = BondStream::new(gateway.clone(), id.unwrap(), Bytes::new());
    theirs.accept(Bytes::new()).unwrap();
    let arrived = Arc::new(Mutex::new(Vec::<Bytes>::new()));
    let (far, sink) = (theirs.into_packet_lane(), Arc::clone(&arrived));
    let networks = vec!["10.83.0.2/32".parse().unwrap()];
    tokio::spawn(async move { far.receive(networks, sink).await });
    stream.accepted().await.unwrap();
    until(|| client.with(|session, _| session.takes_datagrams())).await;

    let (lane, counts) = (stream.into_packet_lane(), || client.lanes.counts());
    let send = |n| lane.send(&mut vec![packet(n)]);
    let has_arrived = |n| arrived.lock().unwrap().contains(&packet(n));
    send(1);
    let expected = TunnelCounts {
        over_channels: 1,
        ..TunnelCounts::default()
    };
    assert_eq!(counts(), expected);
    until(|| has_arrived(1).then_some(())).await;

    let _sockets = drivers.associate().await;
    // On a busy machine no path may answer for a moment.
    let over_association = || {
        send(2);
        (gateway.lanes.counts().received > 0 && has_arrived(2)).then_some(())
    };
    until(over_association).await;
    assert!(counts().over_association > 0);

    let before = counts().over_channels;
    client.drop_channel(*client.channels().last().unwrap());
    let beside_again = || {
        send(3);
        (counts().over_channels > before && has_arrived(3)).then_some(())
    };
    until(beside_again).await;

    client.abort();
    let before = counts();
    send(4);
    let expected = TunnelCounts {
        dropped: before.dropped + 1,
        ..before
    };
    assert_eq!(counts(), expected);
}

/// Index of the interface lo, in every namespace.
const LOOPBACK: u32 = 1;
/// The client's link of its TCP channel, bound to no interface.
const TCP_LINK: u32 = 1001;
