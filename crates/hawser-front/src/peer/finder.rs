use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hawser_keys::identity::PublicKey;
use hawser_seal::TlsProbe;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use super::cache::Cache;
use super::settings::PeerSettings;
use crate::connect::Connect;

/// Finds out which destinations have a peer, a few at a time.
///
/// Lives until its last clone is dropped.
#[derive(Clone, Debug)]
pub struct PeerFinder {
    shared: Arc<FinderState>,
    queue: mpsc::Sender<IpAddr>,
}

#[derive(Debug)]
struct FinderState {
    cache: Mutex<Cache>,
    found: watch::Sender<Arc<BTreeMap<IpAddr, PublicKey>>>,
}

impl PeerFinder {
    /// Starts a finder of peers whose keys `known` returns, over connections that `connect` makes.
    /// While `known` returns no key, nothing is probed.
    pub fn start<C, K>(connect: C, known: K, settings: PeerSettings) -> Self
    where
        C: Connect<Stream = TcpStream>,
        K: Fn() -> Vec<PublicKey> + Send + 'static,
    {
        let known = move || Some(known()).filter(|known| !known.is_empty());
        Self::probing(connect, move || TlsProbe::new(known()?).ok(), settings)
    }

    /// Starts a finder of hosts with any key, as long as they prove it.
    pub fn of_anyone<C>(connect: C, settings: PeerSettings) -> Self
    where
        C: Connect<Stream = TcpStream>,
    {
        Self::probing(connect, || TlsProbe::for_anyone().ok(), settings)
    }

    /// Starts a finder that asks hosts by the probe that `probe` returns; while `probe` returns
    /// `None`, the finder asks no host.
    fn probing<C, P>(connect: C, probe: P, settings: PeerSettings) -> Self
    where
        C: Connect<Stream = TcpStream>,
        P: Fn() -> Option<TlsProbe> + Send + 'static,
    {
        let (queue, asked) = mpsc::channel(MAX_WAITING);
        let shared = Arc::new(FinderState {
            cache: Mutex::new(Cache::new(settings)),
            found: watch::Sender::default(),
        });
        let prober = Prober {
            shared: Arc::clone(&shared),
            connect: Arc::new(connect),
            settings,
        };
        tokio::spawn(prober.run(asked, probe));
        Self { shared, queue }
    }

    /// Returns the peer at `address`, if one is known, and queues a probe if one is due. Never
    /// waits.
    pub fn ask(&self, address: IpAddr) -> Option<PublicKey> {
        let (address, now) = (address.to_canonical(), Instant::now());
        let mut cache = self.shared.cache.lock();
        let (peer, is_due) = cache.ask(address, now);
        // If too many probes wait already, the next connection asks again.
        if is_due
            && let Ok(place) = self.queue.try_reserve()
            && cache.begin(address, now)
        {
            place.send(address);
        }
        peer
    }

    /// Returns the peer at `address`, if one is known.
    pub fn known(&self, address: IpAddr) -> Option<PublicKey> {
        let cache = self.shared.cache.lock();
        cache.ask(address.to_canonical(), Instant::now()).0
    }

    /// Counts `address` as having no peer for a while, because a session with its peer failed or
    /// was of no use.
    pub fn give_up(&self, address: IpAddr) {
        self.shared
            .change(|cache, now| cache.give_up(address.to_canonical(), now));
    }

    /// Returns the known peers by address, as they change. An expired peer disappears at the next
    /// change.
    pub fn found(&self) -> watch::Receiver<Arc<BTreeMap<IpAddr, PublicKey>>> {
        self.shared.found.subscribe()
    }
}

impl FinderState {
    fn change(&self, act: impl FnOnce(&mut Cache, Instant)) {
        let now = Instant::now();
        let mut cache = self.cache.lock();
        act(&mut cache, now);
        let peers = cache.peers(now);
        self.found.send_if_modified(|found| {
            let differs = **found != peers;
            if differs {
                *found = Arc::new(peers);
            }
            differs
        });
    }
}

/// Runs the probes.
struct Prober<C> {
    shared: Arc<FinderState>,
    connect: Arc<C>,
    settings: PeerSettings,
}

impl<C: Connect<Stream = TcpStream>> Prober<C> {
    async fn run(self, mut asked: mpsc::Receiver<IpAddr>, probe: impl Fn() -> Option<TlsProbe>) {
        let places = Arc::new(Semaphore::new(MAX_AT_ONCE));
        let mut pace = interval(self.settings.pause.max(Duration::from_millis(1)));
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while let Some(address) = asked.recv().await {
            let Some(probe) = probe() else {
                self.shared
                    .change(|cache, now| cache.enter(address, None, now));
                continue;
            };
            pace.tick().await;
            let Ok(place) = Arc::clone(&places).acquire_owned().await else {
                return;
            };
            let (shared, connect) = (Arc::clone(&self.shared), Arc::clone(&self.connect));
            let settings = self.settings;
            tokio::spawn(async move {
                let remote = SocketAddr::new(address, settings.port);
                let asking = timeout(settings.patience, ask(&*connect, remote, probe));
                let peer = asking.await.ok().flatten();
                if let Some(peer) = peer {
                    tracing::info!(%address, %peer, "found a peer at this destination");
                }
                shared.change(|cache, now| cache.enter(address, peer, now));
                drop(place);
            });
        }
    }
}

async fn ask<C: Connect<Stream = TcpStream>>(
    connect: &C,
    remote: SocketAddr,
    probe: TlsProbe,
) -> Option<PublicKey> {
    let stream = connect.connect(remote).await.ok()?;
    let found = probe.ask(stream).await;
    found
        .inspect_err(|error| tracing::debug!(%remote, %error, "found no peer at this address"))
        .ok()
}

/// Most probes that wait for their turn.
const MAX_WAITING: usize = 64;
const MAX_AT_ONCE: usize = 4;

#[cfg(test)]
mod tests;
