//! Memory that clients and unenrolled hosts make a gateway allocate, compared with its charges.
//!
//! The gateway, its sessions and the servers of their streams are those of the product. They run in
//! one thread, whose allocations are counted; clients, strangers and destinations run in another
//! one. The threads share only sockets, so each frees its own allocations.

mod common;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use common::{client, in_time};
use hawser_front::bonded::Purpose;
use hawser_front::connect::connect_tcp;
use hawser_front::datagram::opening;
use hawser_front::destination::Destination;
use hawser_front::gateway::{
    ClientStreams, DestinationPolicy, Gateway as Relay, GatewayConfig, GatewayCounters,
    MeetingPlace,
};
use hawser_front::packets::{AddressPool, Exchange, Wish};
use hawser_keys::identity::{Identity, PublicKey};
use hawser_net::client::Client;
use hawser_net::gateway::{AcceptLimits, AdmitAll, Gateway};
use hawser_net::stream::BondStream;
use hawser_session::SessionConfig;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

#[test]
fn streams_of_every_kind_take_no_more_than_they_are_charged() {
    let mut bench = Bench::new();
    let silent: Destination = bench.silent.into();
    let silent = Bytes::from(silent.to_bytes());
    let flow = opening::of(&bench.mirror.into(), false);
    let mut early = Vec::new();
    assert!(opening::put_early(b"one", &mut early));
    let kinds = [
        ("connections", silent.clone(), Vec::new()),
        ("uploads that are not taken", silent, vec![7; 60_000]),
        ("flows of datagrams", flow, early),
        ("measurements up", Purpose::Sink.opening(), vec![7; 3000]),
        (
            "measurements down",
            Purpose::Source(1 << 30).opening(),
            vec![],
        ),
        ("tunnels", Wish::default().to_opening(), vec![]),
        ("reasons", Purpose::Reasons(None).opening(), vec![]),
        ("hosts to be met", Purpose::BeMet.opening(), vec![]),
        (
            "calls to hosts that are not there",
            Purpose::Meet([9; 32]).opening(),
            vec![],
        ),
        ("files, which are refused", Purpose::File.opening(), vec![]),
        ("no kind at all", Bytes::from_static(&[0xff; 100]), vec![]),
    ];
    for (name, opening, early) in kinds {
        let order = |count| Order::Open(opening.clone(), early.clone(), count);
        for count in [1, 10, 1000] {
            bench.check(name, count, order(count));
        }
        bench.check_nothing_adds_up(name, &order(1000));
    }
}

#[test]
fn sessions_strangers_and_datagrams_take_no_more_than_they_are_charged() {
    let mut bench = Bench::new();
    for count in [1, 10] {
        bench.check("sessions", count, Order::Sessions(count));
    }
    for count in [1, 10, 200] {
        bench.check("strangers", count, Order::Knock(count));
    }
    for count in [1, 10, 1000] {
        bench.check(
            "datagrams that no stream takes",
            count,
            Order::Datagrams(count),
        );
    }
}

#[test]
fn a_stream_that_is_opened_and_reset_costs_little() {
    let mut bench = Bench::new();
    let count = 200;
    let order = Order::OpenAndReset(Purpose::Source(1 << 30).opening(), count);
    let used = bench.perform(order);
    let each = used.bytes_total / count as u64;
    // A credit's worth of bytes to send, sealed.
    assert!(each < 160_000, "{each} bytes are allocated for each stream");
}

/// A gateway, and the other thread.
struct Bench {
    runtime: Runtime,
    gateway: Arc<Gateway>,
    counters: Arc<GatewayCounters>,
    silent: SocketAddr,
    mirror: SocketAddr,
    orders: mpsc::UnboundedSender<Order>,
    done: mpsc::UnboundedReceiver<()>,
}

/// An order to the other thread.
#[derive(Clone)]
enum Order {
    /// Open this many streams, and write these bytes in each.
    Open(Bytes, Vec<u8>, usize),
    /// Open this many streams one after another; reset each at once.
    OpenAndReset(Bytes, usize),
    /// Begin this many further sessions.
    Sessions(usize),
    /// Connect this many times, as if for a handshake.
    Knock(usize),
    /// Send this many datagrams for a stream that accepts none.
    Datagrams(usize),
    /// End all streams, sessions and connections that this thread has begun.
    End,
}

impl Order {
    /// Number of streams that the gateway sees from this order.
    fn streams(&self) -> u64 {
        match self {
            Self::Open(_, _, count) | Self::OpenAndReset(_, count) | Self::Sessions(count) => {
                *count as u64
            }
            Self::Datagrams(_) => 1,
            Self::Knock(_) | Self::End => 0,
        }
    }
}

impl Bench {
    fn new() -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let (orders, taken) = mpsc::unbounded_channel();
        let (said, done) = mpsc::unbounded_channel();
        let far = Identity::from_seed([1; 32]);
        let key = far.public();
        let (gateway, counters) = runtime.block_on(serve(far));
        let address = gateway.addresses()[0];
        std::thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let silent = silent().await;
                let mirror = UdpSocket::bind("127.0.0.1:0").await.unwrap();
                ready.send((silent, mirror.local_addr().unwrap())).unwrap();
                Other::begin(address, key, mirror).obey(taken, said).await;
            });
        });
        let (silent, mirror) = is_ready.recv().unwrap();
        let mut bench = Self {
            runtime,
            gateway,
            counters,
            silent,
            mirror,
            orders,
            done,
        };
        // Allocations made once in a process, and the session itself, are excluded from the
        // measurement.
        let openings = [Purpose::Source(1 << 20), Purpose::Sink, Purpose::BeMet];
        for opening in openings.map(Purpose::opening) {
            bench.perform(Order::Open(opening, vec![7; 60_000], 20));
        }
        bench.perform(Order::End);
        bench
    }

    /// Checks that the allocations of an order are charged, and that both disappear with it.
    fn check(&mut self, name: &str, count: usize, order: Order) {
        let before = self.gateway.charged().as_u64();
        let begun = self.perform(order);
        let charged = self.gateway.charged().as_u64().saturating_sub(before);
        let live = u64::try_from(begun.bytes_current).unwrap_or(0);
        eprintln!("{name}, {count}: {live} bytes live, {charged} charged");
        let most = charged + charged / 5 + BESIDES;
        assert!(
            live <= most,
            "{name}, {count}: {live} bytes live, {charged} charged"
        );
        self.perform(Order::End);
    }

    /// Checks that a repeated order leaves no uncharged memory behind. A relay whose destination
    /// takes nothing runs for a while, with its charge; buffers and tables keep the greatest size
    /// that they needed. A leak, however, grows in every round: one round without growth shows that
    /// there is no leak.
    fn check_nothing_adds_up(&mut self, name: &str, order: &Order) {
        let leaves_nothing = (0..ROUNDS).any(|_| {
            let before = self.gateway.charged().as_u64();
            let begun = self.perform(order.clone());
            let ended = self.perform(Order::End);
            let left = u64::try_from(begun.bytes_current + ended.bytes_current).unwrap_or(0);
            let charged = self.gateway.charged().as_u64().saturating_sub(before);
            eprintln!("{name}: {left} bytes left, {charged} charged");
            left <= charged + charged / 5 + BESIDES
        });
        assert!(
            leaves_nothing,
            "{name}: bytes are left that nothing is charged for"
        );
    }

    /// Lets the other thread perform an order, and runs the gateway until nothing changes there.
    fn perform(&mut self, order: Order) -> allocation_counter::AllocationInfo {
        let opened = self.counters.snapshot().opened + order.streams();
        self.orders.send(order).ok().unwrap();
        let Self {
            runtime,
            gateway,
            counters,
            done,
            ..
        } = self;
        allocation_counter::measure(|| {
            runtime.block_on(async {
                timeout(LONGEST, done.recv()).await.unwrap().unwrap();
                let look = || {
                    let stats = counters.snapshot();
                    (
                        gateway.charged(),
                        stats.opened,
                        stats.current,
                        stats.connected,
                    )
                };
                let (mut seen, mut same) = (look(), 0);
                while same < STEADY || counters.snapshot().opened < opened {
                    sleep(POLL).await;
                    let now = look();
                    same = if now == seen { same + 1 } else { 0 };
                    seen = now;
                }
            });
        })
    }
}

/// Returns a gateway with servers for all kinds of streams.
async fn serve(identity: Identity) -> (Arc<Gateway>, Arc<GatewayCounters>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let config = hawser_net::gateway::GatewayConfig {
        identity,
        session: SessionConfig {
            max_streams: 4096,
            ..SessionConfig::default()
        },
        limits: AcceptLimits {
            half_open: 1024,
            half_open_per_source: 1024,
            ..AcceptLimits::default()
        },
        congestion: None,
        predecessor: None,
    };
    let gateway = Gateway::start(config, vec![listener], Arc::new(AdmitAll)).unwrap();
    let gateway = Arc::new(gateway);
    let allowed = vec!["127.0.0.0/8".parse().unwrap()];
    let policy = DestinationPolicy::new(allowed, |_| false);
    let pool = ["10.83.0.1/16", "fd48::1/64"].map(|net| net.parse().unwrap());
    let pool = AddressPool::new(&pool, Duration::from_secs(1)).unwrap();
    let exchange = Exchange::new(pool, policy.clone(), |_, _| {});
    let relay = Relay::new(connect_tcp, policy, GatewayConfig::default());
    let counters = relay.counters();
    let streams = Arc::new(ClientStreams {
        relay,
        exchange: Some(Arc::new(exchange)),
        meeting: Some(Arc::new(MeetingPlace::default())),
        reasons: Box::new(|_, _, _| Ok(vec![b' '; 1000])),
    });
    let accepting = Arc::clone(&gateway);
    tokio::spawn(async move {
        while let Some(incoming) = accepting.accept().await {
            let streams = Arc::clone(&streams);
            tokio::spawn(async move { streams.serve(incoming).await });
        }
    });
    (gateway, counters)
}

/// State of the other thread.
struct Other {
    address: SocketAddr,
    key: PublicKey,
    client: Client,
    _mirror: UdpSocket,
    streams: Vec<BondStream>,
    sessions: Vec<Client>,
    visits: Vec<TcpStream>,
}

impl Other {
    fn begin(address: SocketAddr, key: PublicKey, mirror: UdpSocket) -> Self {
        Self {
            client: client(address, key, own_key()),
            address,
            key,
            _mirror: mirror,
            streams: Vec::new(),
            sessions: Vec::new(),
            visits: Vec::new(),
        }
    }

    async fn obey(
        mut self,
        mut orders: mpsc::UnboundedReceiver<Order>,
        said: mpsc::UnboundedSender<()>,
    ) {
        while let Some(order) = orders.recv().await {
            self.perform(order).await;
            if said.send(()).is_err() {
                return;
            }
        }
    }

    async fn perform(&mut self, order: Order) {
        match order {
            Order::Open(opening, early, count) => {
                for _ in 0..count {
                    let mut stream = in_time(self.client.open(opening.clone())).await.unwrap();
                    // A stream that is refused takes nothing.
                    let _ = stream.write_all(&early).await;
                    self.streams.push(stream);
                }
            }
            Order::OpenAndReset(opening, count) => {
                for _ in 0..count {
                    let mut stream = in_time(self.client.open(opening.clone())).await.unwrap();
                    let _ = in_time(stream.accepted()).await;
                    stream.reset(0);
                }
            }
            Order::Sessions(count) => {
                for _ in 0..count {
                    let client = client(self.address, self.key, own_key());
                    let opening = Purpose::Reasons(None).opening();
                    let mut stream = in_time(client.open(opening)).await.unwrap();
                    let _ = in_time(stream.accepted()).await;
                    self.sessions.push(client);
                }
            }
            Order::Knock(count) => {
                for _ in 0..count {
                    let mut visit = TcpStream::connect(self.address).await.unwrap();
                    // A TLS record begins and is never completed.
                    visit.write_all(&[0x16, 3, 1, 2, 0]).await.unwrap();
                    self.visits.push(visit);
                }
            }
            Order::Datagrams(count) => {
                let opening = Purpose::Sink.opening();
                let mut stream = in_time(self.client.open(opening)).await.unwrap();
                let _ = in_time(stream.accepted()).await;
                for _ in 0..count {
                    let _ = stream.send_datagram(vec![7; 1000].into());
                    tokio::task::yield_now().await;
                }
                self.streams.push(stream);
            }
            Order::End => {
                for mut stream in self.streams.drain(..) {
                    stream.reset(0);
                }
                self.sessions.clear();
                self.visits.clear();
            }
        }
    }
}

/// All sessions are of one client.
fn own_key() -> Identity {
    Identity::from_seed([2; 32])
}

/// A destination that accepts connections and reads nothing.
async fn silent() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            kept.push(stream);
        }
    });
    address
}

/// Allowance for tables that grow by doubling, and for buffers of the one connection.
const BESIDES: u64 = 256 * 1024;
/// Enough for a thousand streams on a busy machine.
const LONGEST: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(5);
/// Consecutive polls that must find no change.
const STEADY: u32 = 40;
/// Repetitions of an order to see whether its leftovers add up.
const ROUNDS: u32 = 5;
