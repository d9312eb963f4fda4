//! Services of this machine that hosts reach without enrolment.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use hawser_host::foreign_source::ForeignSource;
use hawser_link::bind::{SocketOptions, original_destination};
use hawser_net::gateway::{Accounts, Ends, Holder, Incoming};
use hawser_types::Budget;
use hawser_types::{key_of, network_of};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tracing::{Instrument as _, debug};

use super::client::{ClientId, ClientLimits, Clients, Permit};
use super::late::Late;
use super::proxy_header;
use super::serve::serve_by;
use super::stats::GatewayCounters;
use crate::bonded::Bonded;
use crate::connect::{DEFAULT_CONNECT_TIMEOUT, connect_tcp};
use crate::incoming::IncomingStream as _;
use crate::own_ports::OwnPorts;
use crate::relay::{RelayOptions, relay_within};
use crate::tally::Present;
use crate::this_machine::ThisMachine;
use crate::transport::{ByteStream as _, DialError, ResetCode};

/// Ports of this machine for streams of unenrolled clients, which reach nothing else.
///
/// A service trusts connections from this machine, so it must learn whose connection it gets: it is
/// never connected to from an address of this machine without that information. It is shown the
/// address of the channel that brought the stream's opening. The address that the session began
/// from may belong to another host by then.
#[derive(Debug)]
pub struct Fronted {
    ports: OwnPorts,
    shown: BTreeMap<u16, Shown>,
    machine: ThisMachine,
    /// The time for which clients may keep this host's key.
    pin: Duration,
    led_elsewhere: watch::Sender<BTreeSet<u16>>,
    clients: Arc<Clients>,
    relay: RelayOptions,
    counters: Arc<GatewayCounters>,
}

/// Target of a connection whose client asks for a bond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leads {
    /// To a fronted port.
    ToFronted,
    /// To another port: the connection was for this fronted port, but a rule of this machine
    /// redirects it.
    Elsewhere(u16),
    /// To no fronted port.
    Nowhere,
}

/// How a service is shown the client's address.
#[derive(Clone, Debug)]
pub enum Shown {
    /// As the source of the connection.
    AsSource(Arc<ForeignSource>),
    /// By the PROXY protocol; the service listens at this port.
    ByProxyProtocol(u16),
}

impl Fronted {
    /// Fronts these ports, each as `shown` says. Refuses clients with addresses of `machine`, which
    /// is this one. Clients may keep this host's key for the time `pin`.
    pub fn new(
        shown: BTreeMap<u16, Shown>,
        machine: ThisMachine,
        limits: ClientLimits,
        pin: Duration,
    ) -> Self {
        Self {
            ports: OwnPorts::new(shown.keys().copied()),
            shown,
            machine,
            pin,
            led_elsewhere: watch::Sender::default(),
            clients: Clients::new(limits),
            relay: RelayOptions {
                idle_timeout: Some(IDLE_TIMEOUT),
                ..RelayOptions::default()
            },
            counters: Arc::default(),
        }
    }

    /// The counters, which stay readable after `self` is dropped.
    pub fn counters(&self) -> Arc<GatewayCounters> {
        Arc::clone(&self.counters)
    }

    /// Serves a stream to its end.
    pub async fn serve(&self, incoming: Incoming) {
        let Incoming {
            stream,
            ends,
            from,
            account,
            ..
        } = incoming;
        let span = stream.span();
        let seconds = u32::try_from(self.pin.as_secs()).unwrap_or(u32::MAX);
        let answer = Bytes::copy_from_slice(&seconds.to_be_bytes());
        let stream = Bonded::new(stream).with_answer(answer);
        let opening = stream.open_metadata().to_vec();
        self.counters.opened.fetch_add(1, Ordering::Relaxed);
        let connecting = async {
            let ends = current(ends, from)?;
            self.connect((ends, &account), &opening).await
        };
        let serving = serve_by(connecting, stream, &self.relay, &self.counters);
        let served = serving.instrument(span.clone()).await;
        if let Err(error) = served {
            let _span = span.enter();
            debug!(client = %ends.remote, %error, "refused a stream of an unenrolled client");
        }
    }

    /// Tells where a connection leads that a listener for bonds has accepted.
    pub fn leads(&self, stream: &TcpStream) -> Leads {
        let is_fronted = |at: SocketAddr| self.shown.contains_key(&at.port());
        if stream.local_addr().is_ok_and(is_fronted) {
            return Leads::ToFronted;
        }
        match original_destination(stream).filter(|meant| is_fronted(*meant)) {
            Some(meant) => Leads::Elsewhere(meant.port()),
            // A program of this machine has connected to the listener's own port.
            None => Leads::Nowhere,
        }
    }

    /// Watches the set of fronted ports that rules of this machine redirect to other ports.
    pub fn led_elsewhere(&self) -> watch::Receiver<BTreeSet<u16>> {
        self.led_elsewhere.subscribe()
    }

    /// Tells whether every service can be shown client addresses of the family of `client`.
    pub fn works_for(&self, client: IpAddr) -> bool {
        self.shown.values().all(|shown| match shown {
            Shown::AsSource(source) => source.works_for(client),
            Shown::ByProxyProtocol(_) => true,
        })
    }

    /// Relays a connection to a fronted port to its service, unchanged, unless it begins with the
    /// greeting of a session after all, too late. The service sees the same client address as
    /// without Hawser. Memory is charged to the account of the client's address.
    pub async fn pass_on(&self, stream: TcpStream, accounts: &Accounts) {
        if let Some(ends) = ends_of(&stream) {
            let account = account_of(ends, accounts);
            let connecting = self.connect_to((ends, &account), ends.local.port());
            self.carry(stream, ends, connecting).await;
        }
    }

    /// Relays a connection that was for the fronted port `meant` to the port to which a rule of
    /// this machine redirects it. Publishes that there is such a rule.
    pub async fn pass_on_elsewhere(&self, stream: TcpStream, meant: u16, accounts: &Accounts) {
        let Some(ends) = ends_of(&stream) else {
            return;
        };
        let port = ends.local.port();
        if self.led_elsewhere.send_if_modified(|all| all.insert(meant)) {
            tracing::warn!(
                "a rule of address translation leads port {meant} to port {port}: connections to \
                 port {meant} have no bond from their beginning, and its service is not reached \
                 over sessions; if port {port} is open to all, front port {port} instead"
            );
        }
        let account = account_of(ends, accounts);
        let connecting = self.connect_elsewhere((ends, &account), meant);
        self.carry(stream, ends, connecting).await;
    }

    async fn carry(
        &self,
        mut stream: TcpStream,
        ends: Ends,
        connecting: impl Future<Output = Result<(TcpStream, Permit), DialError>>,
    ) {
        if let Err(error) = SocketOptions::default().apply(&stream) {
            debug!(%error, "the kernel refuses a socket option");
        }
        self.counters.passed_on.fetch_add(1, Ordering::Relaxed);
        let _present = Present::new(&self.counters.current);
        match connecting.await {
            Ok((service, permit)) => {
                relay_within(
                    permit.account(),
                    Late::new(stream).into(),
                    service.into(),
                    &self.relay,
                    &self.counters.bytes,
                )
                .await;
            }
            Err(error) => {
                debug!(client = %ends.remote, %error, "cannot connect to the service");
                self.counters.refused.add(error);
                stream.reset(ResetCode::Aborted);
            }
        }
    }

    async fn connect(
        &self,
        (ends, account): (Ends, &Budget),
        opening: &[u8],
    ) -> Result<(TcpStream, Permit), DialError> {
        let port = self.ports.judge(opening)?;
        // A session that began at the port of a service leads to that port alone: a firewall may
        // open that port to more hosts than the other ports.
        let began_at = ends.local.port();
        if self.shown.contains_key(&began_at) && port != began_at {
            return Err(DialError::RefusedByPolicy);
        }
        self.connect_to((ends, account), port).await
    }

    async fn connect_to(
        &self,
        (ends, account): (Ends, &Budget),
        port: u16,
    ) -> Result<(TcpStream, Permit), DialError> {
        let shown = self.shown.get(&port).ok_or(DialError::RefusedByPolicy)?;
        let connecting = async {
            match shown {
                Shown::AsSource(source) => source.connect(ends.remote.ip(), port).await,
                Shown::ByProxyProtocol(at) => by_proxy_protocol(ends, port, *at).await,
            }
        };
        self.admit((ends, account), connecting).await
    }

    /// Connects to the port to which a connection for the fronted port `meant` was redirected.
    async fn connect_elsewhere(
        &self,
        (ends, account): (Ends, &Budget),
        meant: u16,
    ) -> Result<(TcpStream, Permit), DialError> {
        let shown = self.shown.get(&meant).ok_or(DialError::RefusedByPolicy)?;
        let port = ends.local.port();
        let connecting = async {
            match shown {
                Shown::AsSource(source) => {
                    source.add(port).await.map_err(io::Error::other)?;
                    source.connect(ends.remote.ip(), port).await
                }
                // The port that speaks the protocol belongs to the same service.
                Shown::ByProxyProtocol(at) => by_proxy_protocol(ends, meant, *at).await,
            }
        };
        self.admit((ends, account), connecting).await
    }

    /// Connects to a service by `connecting`, if the client may have one more connection.
    async fn admit(
        &self,
        (ends, account): (Ends, &Budget),
        connecting: impl Future<Output = io::Result<TcpStream>>,
    ) -> Result<(TcpStream, Permit), DialError> {
        let client = ends.remote.ip().to_canonical();
        if self.machine.has(client) {
            debug!(%client, "refused a client: services would take it for this machine");
            return Err(DialError::RefusedByPolicy);
        }
        // Limits go by address: a new key costs nothing, an address does.
        let (id, network) = (ClientId::new(key_of(client)), Some(network_of(client)));
        let admitted = self.clients.admit_from(id, network, Instant::now());
        let admitted = admitted.and_then(|place| Permit::new(place, account));
        let permit = admitted.map_err(|reason| {
            debug!(%client, ?reason, "refused a connection to a service: limit reached");
            self.counters.limited.add(reason);
            DialError::LimitReached
        })?;
        match timeout(DEFAULT_CONNECT_TIMEOUT, connecting).await {
            Ok(Ok(service)) => Ok((service, permit)),
            Ok(Err(error)) if error.kind() == io::ErrorKind::Unsupported => {
                Err(DialError::RefusedByPolicy)
            }
            Ok(Err(error)) => Err(DialError::from_io(&error)),
            Err(_) => Err(DialError::TimedOut),
        }
    }
}

/// Connects to the service at port `at`, and tells it the client of the connection to `port`.
async fn by_proxy_protocol(ends: Ends, port: u16, at: u16) -> io::Result<TcpStream> {
    let loopback = [
        SocketAddr::from((Ipv4Addr::LOCALHOST, at)),
        SocketAddr::from((Ipv6Addr::LOCALHOST, at)),
    ];
    let mut service = match connect_tcp(loopback[0]).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            connect_tcp(loopback[1]).await?
        }
        connected => connected?,
    };
    let server = SocketAddr::new(ends.local.ip(), port);
    service
        .write_all(&proxy_header::header(ends.remote, server))
        .await?;
    Ok(service)
}

/// Returns the ends of a session that began at `ends`, with the client's current address: that of
/// the channel that brought a stream's opening.
///
/// # Errors
/// That channel is gone: no address certainly belongs to the client.
fn current(ends: Ends, from: Option<SocketAddr>) -> Result<Ends, DialError> {
    let remote = from.ok_or(DialError::Aborted)?;
    Ok(Ends { remote, ..ends })
}

fn ends_of(stream: &TcpStream) -> Option<Ends> {
    Some(Ends {
        remote: stream.peer_addr().ok()?,
        local: stream.local_addr().ok()?,
    })
}

fn account_of(ends: Ends, accounts: &Accounts) -> Budget {
    accounts.of(Holder::Address(ends.remote.ip()))
}

/// How long a connection may be idle. An SSH session that is left open over a night survives; TCP's
/// keep-alives are answered by each side's kernel and do not count here.
const IDLE_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::own_ports::at_peer;
    use crate::relay::{RelayEnd, relay};

    fn account() -> Budget {
        Budget::new(hawser_types::ByteCount::from_mib(1))
    }

    fn fronted(port: u16, at: u16, limits: ClientLimits) -> Fronted {
        let shown = [(port, Shown::ByProxyProtocol(at))].into();
        let machine = ThisMachine::default();
        Fronted::new(shown, machine, limits, Duration::from_secs(60))
    }

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (near, far) = tokio::join!(TcpStream::connect(address), listener.accept());
        (near.unwrap(), far.unwrap().0)
    }

    fn from(client: &str) -> Ends {
        Ends {
            remote: SocketAddr::new(client.parse().unwrap(), 5000),
            local: "198.51.100.1:745".parse().unwrap(),
        }
    }

    #[tokio::test]
    async fn a_service_is_told_the_clients_address_before_anything_else() {
        let service = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = service.local_addr().unwrap().port();
        let fronted = fronted(443, at, ClientLimits::default());
        let opening = at_peer(443).to_bytes();
        let (_stream, _permit) = fronted
            .connect((from("192.0.2.7"), &account()), &opening)
            .await
            .unwrap();
        let (mut seen, _) = service.accept().await.unwrap();
        let expected = proxy_header::header(
            "192.0.2.7:5000".parse().unwrap(),
            "198.51.100.1:443".parse().unwrap(),
        );
        let mut header = vec![0; expected.len()];
        tokio::io::AsyncReadExt::read_exact(&mut seen, &mut header)
            .await
            .unwrap();
        assert_eq!(header, expected);
    }

    #[test]
    fn a_service_is_shown_where_a_stream_came_from_and_not_where_its_session_began() {
        let began = from("192.0.2.7");
        let now: SocketAddr = "192.0.2.8:6000".parse().unwrap();
        let shown = current(began, Some(now)).unwrap();
        assert_eq!((shown.remote, shown.local), (now, began.local));
        assert_eq!(current(began, None), Err(DialError::Aborted));
    }

    #[tokio::test]
    async fn addresses_of_this_machine_and_other_ports_are_refused() {
        let service = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = service.local_addr().unwrap().port();
        let fronted = fronted(443, at, ClientLimits::default());
        let refused = Some(DialError::RefusedByPolicy);
        let opening = at_peer(443).to_bytes();
        for local in ["127.0.0.1", "::1", "::ffff:127.0.0.1", "fe80::1", "0.0.0.0"] {
            let connected = fronted.connect((from(local), &account()), &opening).await;
            assert_eq!(connected.err(), refused, "{local}");
        }
        // The port at which the service listens is refused, too.
        for other in [at, 444, 22, 0] {
            let opening = at_peer(other).to_bytes();
            let connected = fronted
                .connect((from("192.0.2.7"), &account()), &opening)
                .await;
            assert_eq!(connected.err(), refused, "{other}");
        }
    }

    #[tokio::test]
    async fn a_session_that_began_at_a_services_port_leads_to_that_port_alone() {
        let service = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let by_protocol = Shown::ByProxyProtocol(service.local_addr().unwrap().port());
        let shown = [(443, by_protocol.clone()), (22, by_protocol)].into();
        let (machine, limits) = (ThisMachine::default(), ClientLimits::default());
        let fronted = Fronted::new(shown, machine, limits, Duration::from_secs(60));
        for (began_at, to, reaches) in [(745, 22, true), (443, 443, true), (443, 22, false)] {
            let mut ends = from("192.0.2.7");
            ends.local.set_port(began_at);
            let connected = fronted
                .connect((ends, &account()), &at_peer(to).to_bytes())
                .await;
            assert_eq!(connected.is_ok(), reaches, "{began_at} {to}");
        }
    }

    #[tokio::test]
    async fn streams_are_limited_by_where_they_come_from_and_not_by_key() {
        let service = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = service.local_addr().unwrap().port();
        let limits = ClientLimits {
            streams: 2,
            ..ClientLimits::default()
        };
        let fronted = fronted(443, at, limits);
        let opening = at_peer(443).to_bytes();
        let mut open = Vec::new();
        for address in ["2001:db8::1", "2001:db8::ffff"] {
            open.push(
                fronted
                    .connect((from(address), &account()), &opening)
                    .await
                    .unwrap(),
            );
        }
        let third = fronted
            .connect((from("2001:db8::2"), &account()), &opening)
            .await;
        assert_eq!(third.err(), Some(DialError::LimitReached));
        assert!(
            fronted
                .connect((from("2001:db8:0:1::1"), &account()), &opening)
                .await
                .is_ok()
        );
        open.pop();
        assert!(
            fronted
                .connect((from("2001:db8::2"), &account()), &opening)
                .await
                .is_ok()
        );
    }

    #[tokio::test]
    async fn addresses_of_one_network_have_a_part_of_all_streams() {
        let service = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = service.local_addr().unwrap().port();
        let limits = ClientLimits {
            streams: 2,
            network_streams: 3,
            ..ClientLimits::default()
        };
        let opening = at_peer(443).to_bytes();
        for [first, second, third, elsewhere] in [
            ["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.3.1"],
            [
                "2001:db8::1",
                "2001:db8:0:1::1",
                "2001:db8:0:2::1",
                "2001:db8:1::1",
            ],
        ] {
            let fronted = fronted(443, at, limits);
            let mut open = Vec::new();
            for address in [first, first, second] {
                open.push(
                    fronted
                        .connect((from(address), &account()), &opening)
                        .await
                        .unwrap(),
                );
            }
            for address in [second, third] {
                let refused = fronted.connect((from(address), &account()), &opening).await;
                assert_eq!(refused.err(), Some(DialError::LimitReached), "{address}");
            }
            assert!(
                fronted
                    .connect((from(elsewhere), &account()), &opening)
                    .await
                    .is_ok()
            );
            open.pop();
            assert!(
                fronted
                    .connect((from(third), &account()), &opening)
                    .await
                    .is_ok()
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_stands_still_for_a_day_gives_its_place_back() {
        let (near, _client) = pair().await;
        let (far, _service) = pair().await;
        let options = fronted(443, 1, ClientLimits::default()).relay;
        let begun = Instant::now();
        let counters = GatewayCounters::default();
        let report = relay(near.into(), far.into(), &options, &counters.bytes).await;
        assert_eq!(report.end, RelayEnd::Idle);
        assert!(begun.elapsed() >= IDLE_TIMEOUT && begun.elapsed() <= 2 * IDLE_TIMEOUT);
    }
}
