//! Makes a session or a channel of a TCP connection from any host.

use std::future::Future;
use std::io;
use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hawser_session::seal::{Direction, SessionKeys};
use hawser_session::{ChannelSpec, Side};
use hawser_types::{ChannelId, LinkIndex};
use hawser_wire::{ChannelRole, FirstWord, JoinPrelude};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::error::Elapsed;
use tokio::time::timeout;
use tracing::{Instrument as _, Span};

use super::first_words::{self, Whose};
use super::half_open::{HalfOpenSlot, Origin};
use super::joining::{answer_join, read_prelude};
use super::shared::{Ends, Entry, GatewayState};
use super::{memory, session};
use crate::driver::{Driver, NewChannel};
use hawser_link::bind::{self, SocketOptions};
use hawser_seal::{Handshake, TlsError};

/// Accepts connections for as long as the gateway lives.
pub(super) async fn listen(shared: Arc<GatewayState>, listener: TcpListener) {
    shared.congestion.prepare(&listener);
    // Silent connections cost no descriptor and no place meanwhile.
    if let Err(error) = bind::defer_accept(&listener, DEFERRED) {
        tracing::debug!(%error, "cannot defer accepting silent connections");
    }
    let takes = |stream, remote: SocketAddr| {
        enter(&shared, stream, remote, Origin::Address(remote.ip()));
        ControlFlow::Continue(())
    };
    accept_each(listener, takes).await;
}

/// Accepts connections and passes each to `takes`, until `takes` breaks off.
pub async fn accept_each(
    listener: TcpListener,
    mut takes: impl FnMut(TcpStream, SocketAddr) -> ControlFlow<()>,
) {
    loop {
        match listener.accept().await {
            Ok((stream, remote)) => {
                if takes(stream, remote).is_break() {
                    return;
                }
            }
            Err(error) => {
                // Mostly out of descriptors: other tasks need time to free some.
                tracing::warn!(%error, "can't accept connections");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Takes a connection, which counts as a stranger's until the client proves its key. `remote` is
/// for the log.
pub(super) fn enter(
    shared: &Arc<GatewayState>,
    stream: TcpStream,
    remote: SocketAddr,
    origin: Origin,
) {
    let place = shared.half_open.enter(origin, Instant::now());
    shared.count(|counters| counters.connections += 1);
    tokio::spawn(admit(Arc::clone(shared), stream, remote, place));
}

/// Takes a connection to a port shared with a service, if the client speaks this protocol. Returns
/// the service's connections. Drops a connection that the client closes before it sends anything.
/// The connection has a stranger's place until its owner is known.
pub(super) async fn share(
    shared: &Arc<GatewayState>,
    stream: TcpStream,
    remote: SocketAddr,
) -> Option<TcpStream> {
    let origin = Origin::Address(remote.ip());
    let place = shared.half_open.enter(origin, Instant::now());
    shared.count(|counters| counters.connections += 1);
    let judging = first_words::judge_first(&stream);
    match in_place(shared, &place, remote, judging).await? {
        Whose::Gateway => {
            tokio::spawn(admit(Arc::clone(shared), stream, remote, place));
            None
        }
        Whose::Service => Some(stream),
        Whose::Unclaimed => None,
    }
}

/// Takes a connection that joins a session, of which only the prelude was read.
pub(super) fn enter_join(
    shared: &Arc<GatewayState>,
    stream: TcpStream,
    prelude: JoinPrelude,
) -> io::Result<()> {
    let remote = stream.peer_addr()?;
    let origin = Origin::Address(remote.ip());
    let place = shared.half_open.enter(origin, Instant::now());
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        let joining = timeout(PATIENCE, join_with(&shared, stream, prelude, &place));
        let joined = in_place(&shared, &place, remote, joining).await;
        if let Some(joined) = joined {
            count_join(&shared, remote, joined);
        }
    });
    Ok(())
}

/// Why a join is refused.
struct Refused {
    reason: String,
    /// The span of the session that the connection joins, if there is such a session.
    span: Span,
}

impl From<String> for Refused {
    fn from(reason: String) -> Self {
        let span = Span::none();
        Self { reason, span }
    }
}

/// Counts the outcome of a join.
fn count_join(
    shared: &GatewayState,
    remote: SocketAddr,
    outcome: Result<Result<(), Refused>, Elapsed>,
) {
    match outcome {
        Ok(Ok(())) => shared.count(|counters| counters.joins += 1),
        Ok(Err(Refused { reason, span })) => {
            span.in_scope(|| tracing::debug!(%remote, %reason, "refused join"));
            shared.count(|counters| counters.joins_refused += 1);
        }
        Err(_) => shared.count(|counters| counters.timed_out += 1),
    }
}

async fn admit(
    shared: Arc<GatewayState>,
    stream: TcpStream,
    remote: SocketAddr,
    place: HalfOpenSlot,
) {
    let entering = let_in(&shared, stream, remote, &place);
    in_place(&shared, &place, remote, entering).await;
}

/// Does `work` while a stranger's connection has its place. Returns `None` if the connection gets
/// no place in time, or a newcomer takes the place.
async fn in_place<T>(
    shared: &GatewayState,
    place: &HalfOpenSlot,
    remote: SocketAddr,
    work: impl Future<Output = T>,
) -> Option<T> {
    let done = place.hold(LINE_PATIENCE, work).await;
    if done.is_none() {
        tracing::debug!(%remote, "dropped connection, too many unauthenticated connections");
        shared.count(|counters| counters.limited += 1);
    }
    done
}

/// Performs a connection's handshake or join, and gives it to a session. May be cancelled.
async fn let_in(
    shared: &Arc<GatewayState>,
    stream: TcpStream,
    remote: SocketAddr,
    place: &HalfOpenSlot,
) {
    let options = SocketOptions {
        congestion: shared.congestion.initial().map(str::to_owned),
        ..Default::default()
    };
    if let Err(error) = options.apply(&stream) {
        tracing::debug!(%error, "cannot set an option of the client's connection");
    }
    let mut first = [0];
    let word = match timeout(PATIENCE, stream.peek(&mut first)).await {
        Ok(Ok(1)) => FirstWord::of(first[0]),
        Ok(_) => return,
        Err(_) => return shared.count(|counters| counters.timed_out += 1),
    };
    match word {
        FirstWord::Join => {
            let joined = timeout(PATIENCE, join(shared, stream, place)).await;
            count_join(shared, remote, joined);
        }
        FirstWord::Handshake => match timeout(PATIENCE, shared.tls.handshake(stream, &[])).await {
            Ok(Ok(handshake)) => {
                // The key is proved: the connection holds no stranger's place any more.
                place.leave();
                shared.displace_silent(&handshake.peer, remote.ip()).await;
                begin(shared, handshake, remote);
            }
            // A client that races several connections drops those that lose.
            Ok(Err(TlsError::Closed)) => {}
            Ok(Err(error)) => {
                tracing::debug!(%remote, %error, "a handshake failed");
                shared.count(|counters| counters.handshakes_failed += 1);
            }
            Err(_) => shared.count(|counters| counters.timed_out += 1),
        },
        FirstWord::Other => shared.count(|counters| counters.garbage += 1),
    }
}

/// Begins a session for a client that has proved its key.
fn begin(shared: &Arc<GatewayState>, handshake: Handshake, remote: SocketAddr) {
    let peer = handshake.peer;
    let config = &shared.config;
    let keys = SessionKeys::new(handshake.exporter.clone(), handshake.aead);
    let id = keys.session_id();
    let channel = ChannelId::new(0);
    let local = handshake.stream.local_addr().unwrap_or(UNKNOWN);
    let ends = Ends { remote, local };
    let new = NewChannel {
        reader: keys.reader(channel, Direction::ClientToGateway, config.session.plain),
        sealer: keys.sealer(channel, Direction::GatewayToClient),
        stream: handshake.stream,
    };
    let client = shared.span_of(&peer);
    let driver = {
        let mut sessions = shared.sessions.lock();
        if shared.closed.load(Ordering::Relaxed) {
            return;
        }
        if !shared.make_room(&mut sessions, &peer, remote.ip()) {
            return shared.tell_of_limit(peer, "too many sessions");
        }
        let budgets = shared.budgets(&peer, remote.ip());
        let charge = match budgets.account.charge(memory::SESSION_CHARGE) {
            Ok(charge) => charge,
            Err(_) => return shared.tell_of_limit(peer, "no memory for a session"),
        };
        let (session, congestion) = (memory::for_session(config), shared.congestion.clone());
        let driver =
            client.in_scope(|| Driver::start(Side::Gateway, session, keys, congestion, budgets));
        sessions.insert(id, Entry::new(driver.clone(), peer, ends, charge));
        memory::begin(shared, &sessions, &driver);
        driver
    };
    shared.count(|counters| counters.sessions += 1);
    let span = driver.span().clone();
    span.in_scope(|| tracing::info!(%peer, %remote, "a session has begun"));
    let serving = session::serve(Arc::clone(shared), driver.clone(), (client, peer), ends);
    tokio::spawn(serving.instrument(span));
    let spec = ChannelSpec {
        id: channel,
        role: ChannelRole::Express,
        link: LinkIndex::new(0),
        begun_by: Side::Client,
        records: 0,
        segment_size: None,
    };
    driver.add_channel(spec, new);
    shared.begun.send_modify(|begun| *begun += 1);
}

/// Reads the prelude of a joining connection. Passes the connection to the predecessor if the
/// session is not here, else adds it to the session.
async fn join(
    shared: &Arc<GatewayState>,
    mut stream: TcpStream,
    place: &HalfOpenSlot,
) -> Result<(), Refused> {
    let prelude = read_prelude(&mut stream).await?;
    let is_here = shared.sessions.lock().contains_key(&prelude.session);
    let predecessor = shared.config.predecessor.as_ref();
    match predecessor.filter(|it| !is_here && it.is_there()) {
        Some(predecessor) => {
            let passed = predecessor.pass_join(stream, &prelude);
            passed.map_err(|error| error.to_string().into())
        }
        None => join_with(shared, stream, prelude, place).await,
    }
}

/// Adds a connection to a session, once its first record has proved that it belongs to the session.
async fn join_with(
    shared: &Arc<GatewayState>,
    stream: TcpStream,
    prelude: JoinPrelude,
    place: &HalfOpenSlot,
) -> Result<(), Refused> {
    let driver = {
        let sessions = shared.sessions.lock();
        let entry = sessions.get(&prelude.session);
        let entry = entry.ok_or_else(|| "no such session".to_owned())?;
        entry.driver.clone()
    };
    let id = prelude.channel;
    let span = driver.span();
    let joining = async {
        driver.check_join(id).map_err(|error| error.to_string())?;
        place.join(prelude.session);
        answer_join(shared, &driver, (id, Side::Client), stream).await
    };
    let joined = joining.instrument(span.clone()).await;
    joined.map_err(|reason| Refused {
        reason,
        span: span.clone(),
    })
}

/// Time in which a host has to prove its key.
const PATIENCE: Duration = Duration::from_secs(3);
/// Longest time that a connection waits in line for a place.
const LINE_PATIENCE: Duration = Duration::from_secs(10);
/// Time for which the kernel holds back a silent connection, rounded to retransmissions.
const DEFERRED: Duration = Duration::from_secs(1);
/// Stands for the address of a connection that has ended meanwhile.
const UNKNOWN: SocketAddr = SocketAddr::V6(SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, 0, 0, 0));
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
