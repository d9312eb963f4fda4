//! UDP between two hosts that are both behind NAT.
//!
//! Each host asks its gateway for the outer addresses of its associations' sockets, and tells the
//! other host over a stream of their session, which goes through the gateway. Then both send to the
//! addresses that they were told: the caller the packets that begin its association, the called
//! host datagrams of one byte. The packets of each host make its own NAT admit those of the other.
//! Only the association decides what a path is: its peer must answer there, under the seal.

mod own;
mod sockets;
mod targets;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hawser_keys::host_port::HostPort;
use hawser_keys::identity::PublicKey;
use hawser_link::links::{Link, networks_on_links};
use hawser_net::client::Client;
use hawser_net::gateway::Gateway;
use parking_lot::Mutex;
use tokio::io::{AsyncWriteExt as _, ReadHalf, WriteHalf, split};
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};
use tracing::Instrument as _;

use crate::bonded::{Bonded, Purpose};
use crate::incoming::IncomingStream as _;
use crate::transport::ByteStream as _;
use crate::udp_addresses;
use own::Observer;
use sockets::{SOON, Sockets, pause_after};
use targets::{Targets, may_be_sent_to};

/// The state of this host's hole punching.
pub(super) struct Punching {
    observer: Observer,
    door: Arc<Gateway>,
    /// Outer addresses of the door's sockets, while a caller needs them.
    door_seen: watch::Sender<Vec<SocketAddr>>,
    /// Signals that a caller needs those addresses.
    asked: Notify,
    callers: Mutex<BTreeMap<PublicKey, Caller>>,
}

/// A host that has called this host through the gateway.
#[derive(Default)]
struct Caller {
    /// Outlives the caller's streams, so that a new stream does not reset its limits.
    targets: Arc<Mutex<Targets>>,
    /// The task that serves the caller's latest stream.
    task: Option<AbortHandle>,
}

impl Punching {
    /// `gateway`: the client of the gateway that reports outer addresses; `links`: the machine's
    /// links, as they change; `door`: where callers connect.
    pub(super) fn new(
        gateway: Arc<Client>,
        links: watch::Receiver<Arc<Vec<Link>>>,
        door: Arc<Gateway>,
    ) -> Self {
        Self {
            observer: Observer { gateway, links },
            door,
            door_seen: watch::Sender::default(),
            asked: Notify::new(),
            callers: Mutex::default(),
        }
    }

    /// Lets the associations of a client, whose session goes through the gateway, find the other
    /// host, for as long as the future is polled.
    pub(super) async fn call(self: Arc<Self>, client: Arc<Client>) {
        let seen = watch::Sender::default();
        let looking = self.observer.observe(&*client, &seen);
        let targets = Mutex::default();
        let telling = async {
            let mut pause = FIRST_PAUSE;
            loop {
                let begun = Instant::now();
                let ended = match tell_by(&client).await {
                    Ok(stream) => {
                        let reached = |addresses: Vec<SocketAddr>| {
                            let addresses = addresses.into_iter().map(HostPort::try_from);
                            client.set_addresses(addresses.filter_map(Result::ok).collect());
                        };
                        let span = stream.span();
                        let exchanging = exchange(stream, seen.subscribe(), &targets, reached);
                        exchanging.instrument(span).await
                    }
                    Err(error) => Err(error),
                };
                tracing::debug!(
                    ?ended,
                    "exchange of UDP addresses with the other host ended"
                );
                pause = if begun.elapsed() > LONGEST_PAUSE {
                    FIRST_PAUSE
                } else {
                    LONGEST_PAUSE.min(pause * 2)
                };
                sleep(pause).await;
            }
        };
        tokio::select! {
            () = looking => {}
            () = telling => {}
        }
    }

    /// Lets the associations of the host with this key find this host's door, until `stream` ends
    /// or that host opens another stream.
    pub(super) fn answer(self: &Arc<Self>, peer: PublicKey, stream: Bonded) {
        let mut callers = self.callers.lock();
        callers.retain(|key, it| {
            let is_busy = it.task.as_ref().is_some_and(|task| !task.is_finished());
            // The caller has named no new address lately.
            let is_idle = it.targets.lock().is_idle(Instant::now());
            *key == peer || is_busy || !is_idle
        });
        let caller = callers.entry(peer).or_default();
        let targets = Arc::clone(&caller.targets);
        let span = stream.span();
        let serving = Arc::clone(self).serve(stream, targets);
        let task = tokio::spawn(serving.instrument(span));
        let older = caller.task.replace(task.abort_handle());
        older.iter().for_each(AbortHandle::abort);
    }

    async fn serve(self: Arc<Self>, mut stream: Bonded, targets: Arc<Mutex<Targets>>) {
        stream.accept();
        let (told, named) = watch::channel(Vec::new());
        let seen = self.door_seen.subscribe();
        self.asked.notify_one();
        let exchanging = exchange(stream, seen, &targets, |addresses| {
            told.send_if_modified(|before| {
                let is_news = *before != addresses;
                *before = addresses;
                is_news
            });
        });
        tokio::select! {
            ended = exchanging => {
                tracing::debug!(?ended, "exchange of UDP addresses with a caller ended");
            }
            () = knock(&*self.door, named) => {}
        }
    }

    /// Observes the outer addresses of the door's sockets whenever a caller needs them, for as long
    /// as the future is polled.
    pub(super) async fn observe_door(self: Arc<Self>) {
        loop {
            self.asked.notified().await;
            tokio::select! {
                () = self.observer.observe(&*self.door, &self.door_seen) => {}
                () = self.door_seen.closed() => {}
            }
            // The NAT may have removed its mappings by the next time.
            self.door_seen.send_replace(Vec::new());
        }
    }
}

/// Tells the other host the outer addresses of these sockets, and receives those of its own.
async fn exchange(
    stream: Bonded,
    seen: watch::Receiver<Vec<SocketAddr>>,
    targets: &Mutex<Targets>,
    reached: impl Fn(Vec<SocketAddr>),
) -> io::Result<()> {
    let (reader, writer) = split(stream);
    tokio::select! {
        ended = tell(writer, seen) => ended,
        ended = hear(reader, targets, reached) => ended,
    }
}

/// Opens a stream for UDP addresses, which does not count as a stream of an application.
async fn tell_by(client: &Client) -> io::Result<Bonded> {
    let opened = client.open(Purpose::Punch.opening()).await;
    let mut stream = opened.map_err(io::Error::other)?;
    stream.accepted().await?;
    Ok(Bonded::new(stream))
}

/// Tells the other host each change, and repeats the list from time to time.
async fn tell(
    mut writer: WriteHalf<Bonded>,
    mut seen: watch::Receiver<Vec<SocketAddr>>,
) -> io::Result<()> {
    loop {
        let now = seen.borrow_and_update().clone();
        if !now.is_empty() {
            writer.write_all(&udp_addresses::list(&now)).await?;
        }
        if matches!(timeout(TELL_AGAIN, seen.changed()).await, Ok(Err(_))) {
            return Ok(());
        }
        // The gateway sees the sockets of all links at about the same time.
        sleep(SOON).await;
    }
}

/// Receives the addresses that the other host tells.
async fn hear(
    mut reader: ReadHalf<Bonded>,
    targets: &Mutex<Targets>,
    reached: impl Fn(Vec<SocketAddr>),
) -> io::Result<()> {
    loop {
        let named = udp_addresses::take_list(&mut reader).await?;
        let near = if named.iter().all(|it| may_be_sent_to(*it, &[])) {
            Vec::new()
        } else {
            networks_on_links().await.map_err(io::Error::other)?
        };
        let may_be = |address: &SocketAddr| may_be_sent_to(*address, &near);
        let named: Vec<SocketAddr> = named.into_iter().filter(may_be).collect();
        let targets = targets.lock().choose(Instant::now(), &named);
        if !targets.is_empty() {
            tracing::debug!(?targets, "received the UDP addresses of the other host");
            reached(targets);
        }
        sleep(LIST_PAUSE).await;
    }
}

/// Sends to the other host's outer addresses, so that the NAT admits packets from there.
async fn knock(door: &dyn Sockets, mut named: watch::Receiver<Vec<SocketAddr>>) {
    let (mut targets, mut turn) = (Vec::new(), 0);
    loop {
        let now = named.borrow_and_update().clone();
        if now.iter().any(|it| !targets.contains(it)) {
            turn = 0;
        }
        targets = now;
        targets.iter().for_each(|to| door.send(*to, &[0]));
        let _ = timeout(pause_after(turn), named.changed()).await;
        turn += 1;
    }
}

/// The other host may accept later an address that its limits exclude now.
const TELL_AGAIN: Duration = Duration::from_secs(60);
/// More frequent lists are of no use, and each costs a look at the routes.
const LIST_PAUSE: Duration = Duration::from_secs(1);
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
