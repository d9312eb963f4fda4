//! Vouchers, and sessions with servers that prove their keys.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use hawser_capture::MAX_PEERS;
use hawser_keys::identity::PublicKey;
use hawser_keys::store::{KeptVoucher, VoucherStore};
use hawser_keys::unix_time::UnixTime;
use hawser_keys::voucher::VouchedKeys;
use hawser_policy::RuleSet;
use hawser_seal::TlsProbe;
use hawser_types::HostName;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use super::fetch::{HTTPS, fetch};
use super::led::{Led, MAX_ADDRESSES};
use super::parts::{StartVouched, VouchedName, VouchedSettings, VouchedWay};
use super::refusal::Refusal;
use super::watched::Watched;
use crate::bonded::Bonded;
use crate::connect::ConnectOptions;
use crate::connection::{
    Counted, LinkResolver, Origin, OverLinks, RememberingResolver, TcpVia, resolved,
};
use crate::destination::{Destination, Host};
use crate::own_ports::at_peer;
use crate::peer::Remote as _;
use crate::peer::pool::SessionPool;
use crate::root_certificates::RootCertificates;
use crate::transport::{DialError, Dialer as _};

/// State that tasks and dialers share.
pub(super) struct VouchedState {
    names: Vec<Arc<Watched>>,
    roots: RootCertificates,
    store: Arc<VoucherStore>,
    links: OverLinks,
    port: u16,
    start: Box<StartVouched>,
    pub(super) rules: watch::Receiver<Arc<RuleSet>>,
    pub(super) pool: SessionPool<(IpAddr, PublicKey)>,
    /// The addresses that the names lead to.
    pub(super) led: Led,
}

/// The names to whose vouchers a connection is held, and the connection's address.
pub(super) struct Held {
    /// Names that lead to the destination; at least one, the most recently told first.
    pub(super) names: Vec<Arc<Watched>>,
    /// The address of the connection, if only the address is known. The answer of a name server
    /// that led to it may be forged, and the address may be another host's. So only a server at
    /// this address counts.
    pub(super) at: Option<IpAddr>,
}

/// A name, and the keys that its owner vouches for.
struct Claim {
    of: Arc<Watched>,
    keys: BTreeSet<PublicKey>,
}

/// A server that has proved a key of a name.
struct Proved {
    of: Arc<Watched>,
    address: IpAddr,
    key: PublicKey,
}

impl VouchedState {
    pub(super) fn new(settings: VouchedSettings) -> Self {
        let names: BTreeSet<HostName> = settings.names.into_iter().collect();
        let director = settings.director;
        let resolver = RememberingResolver::new(LinkResolver::new(director.clone()));
        let (via, options) = (TcpVia::for_own(), ConnectOptions::default());
        Self {
            led: Led::new(names.len(), settings.machine),
            names: names.into_iter().map(Watched::new).map(Arc::new).collect(),
            roots: settings.roots,
            store: Arc::new(settings.store),
            links: OverLinks::new(director, via, resolver, options),
            port: settings.port,
            start: settings.start,
            rules: settings.rules,
            pool: SessionPool::new(),
        }
    }

    /// The names that are held to their vouchers.
    pub(super) fn watched(&self) -> impl Iterator<Item = &Arc<Watched>> {
        self.names.iter()
    }

    /// Returns the names whose vouchers apply to a destination: its own name; for an address, the
    /// names that lead to it, except those whose vouchers do not list the port.
    pub(super) fn held(&self, destination: &Destination) -> Option<Held> {
        match &destination.host {
            Host::Name(name) => self.named(name.as_str()).map(|watched| Held {
                names: vec![watched],
                at: None,
            }),
            Host::Ip(address) => {
                let mut names = self.led.names_of(*address);
                names.retain(|it| {
                    let ports = self.ports(it);
                    ports.is_none_or(|it| it.contains(&destination.port))
                });
                let at = Some(address.to_canonical());
                (!names.is_empty()).then_some(Held { names, at })
            }
        }
    }

    /// Returns the watched name that equals `name`; a name with a final dot is the same one.
    pub(super) fn named(&self, name: &str) -> Option<Arc<Watched>> {
        let without_dot = name.trim_end_matches('.');
        let is_same = |it: &HostName| {
            it.as_str()
                .trim_end_matches('.')
                .eq_ignore_ascii_case(without_dot)
        };
        self.watched().find(|it| is_same(&it.name)).cloned()
    }

    /// Returns the held ports of a name; `None` stands for all ports, while there is no voucher.
    fn ports(&self, watched: &Watched) -> Option<BTreeSet<u16>> {
        let voucher = self.store.voucher(&watched.name, UnixTime::now())?;
        let bonded = voucher.bonded.map(|it| it.ports);
        Some(bonded.unwrap_or_default())
    }

    /// Returns the version of the table, and the addresses held now, with ports. Port 0 stands for
    /// all ports; connections to ports that are not held then go on as usual.
    pub(super) fn held_addresses(&self) -> (u64, Vec<SocketAddr>) {
        let (version, led) = self.led.list();
        if self.is_all_by_gateway() {
            return (version, Vec::new());
        }
        let mut all = BTreeMap::<IpAddr, Option<BTreeSet<u16>>>::new();
        for (address, watched) in led {
            let of_all = all.entry(address).or_insert_with(|| Some(BTreeSet::new()));
            match self.ports(&watched) {
                Some(ports) => of_all.iter_mut().for_each(|it| it.extend(&ports)),
                None => *of_all = None,
            }
        }
        let held = all.into_iter().flat_map(|(address, ports)| {
            let ports = ports.filter(|it| it.len() <= MAX_LISTED);
            let ports = ports.unwrap_or_else(|| BTreeSet::from([0]));
            let at = move |port| SocketAddr::new(address, port);
            ports.into_iter().map(at)
        });
        (version, held.collect())
    }

    /// Returns whether all connections go through the gateway now, so that nothing is held.
    pub(super) fn is_all_by_gateway(&self) -> bool {
        self.links.director().is_all_by_gateway()
    }

    pub(super) fn names(&self) -> Vec<VouchedName> {
        let (now, sessions) = (UnixTime::now(), self.pool.clients());
        let view = |watched: &Arc<Watched>| {
            let voucher = self.store.voucher(&watched.name, now);
            let (until, problem) = (voucher.as_ref().map(|it| it.until), watched.problem());
            let bonded = voucher.and_then(|it| it.bonded);
            let is_of = |key: &PublicKey| bonded.as_ref().is_some_and(|it| it.keys.contains(key));
            let mut sessions = sessions.iter();
            let is_bonded = sessions.any(|((_, key), it)| is_of(key) && it.is_admitted());
            let refused = watched.refused();
            let refused = refused.map(|(port, refusal)| format!("port {port}: {refusal}"));
            VouchedName {
                name: watched.name.clone(),
                ports: bonded.map(|it| it.ports).unwrap_or_default(),
                until,
                is_bonded,
                refused,
                stale: problem,
            }
        };
        self.watched().map(view).collect()
    }

    /// Returns the only way of a connection; `None` where the vouchers let it go as usual.
    pub(super) async fn judge<'a>(
        &'a self,
        held: Held,
        port: u16,
        origin: &'a Origin,
    ) -> Option<VouchedWay<'a, Bonded>> {
        let Held { names, at } = held;
        let vouchers = join_all(names.iter().map(|it| self.voucher(it))).await;
        let (mut claims, mut unknown) = (Vec::new(), None);
        for (of, voucher) in names.iter().zip(vouchers) {
            let of = Arc::clone(of);
            match voucher {
                Some(voucher) => {
                    let bonded = voucher.bonded.filter(|it| it.ports.contains(&port));
                    claims.extend(bonded.map(|VouchedKeys { keys, .. }| Claim { of, keys }));
                }
                None => unknown = unknown.or(Some(of)),
            }
        }
        if claims.is_empty() {
            let Some(watched) = unknown else {
                for name in &names {
                    name.set_refused(None);
                }
                return None;
            };
            let problem = watched.problem();
            let problem = problem.unwrap_or_else(|| "the voucher is being fetched".to_owned());
            let error = self.refuse(&watched, port, Refusal::NoVoucher(problem));
            return Some(async move { Err(error) }.boxed());
        }
        let dialing = async move {
            let proved = self.proved(&claims, at).await;
            let proved = proved.map_err(|refusal| self.refuse(&claims[0].of, port, refusal))?;
            let watched = &proved.of;
            match self.dial(&proved, port, origin).await {
                Ok(stream) => {
                    if watched.set_refused(None) {
                        let name = &watched.name;
                        tracing::info!(%name, port, "connections go over a session again");
                    }
                    Ok((proved.address, stream))
                }
                // The server works; nothing listens on the port.
                Err(Refusal::Stream(error @ DialError::ConnectionRefused)) => Err(error),
                Err(refusal) => Err(self.refuse(watched, port, refusal)),
            }
        };
        Some(dialing.boxed())
    }

    /// Returns the voucher of a name. Fetches it at once if there is none.
    async fn voucher(&self, watched: &Watched) -> Option<KeptVoucher> {
        let kept = || self.store.voucher(&watched.name, UnixTime::now());
        if let Some(voucher) = kept() {
            return Some(voucher);
        }
        watched.fetched_soon(FETCH_PATIENCE).await;
        kept()
    }

    /// Opens a stream to a server that has proved its key.
    async fn dial(&self, proved: &Proved, port: u16, origin: &Origin) -> Result<Bonded, Refusal> {
        let (address, key) = (proved.address, proved.key);
        let no_session = Refusal::NoSession(DialError::GatewayUnavailable);
        let door = SocketAddr::new(address, self.port);
        let way = self.pool.dialer((address, key), || (self.start)(door, key));
        let dialing = way.ok_or(no_session)?;
        match dialing.dial_for(&at_peer(port), origin).await {
            Ok(stream) => {
                self.pool.note_opened();
                Ok(stream)
            }
            Err(error @ DialError::GatewayUnavailable) => {
                // Another address of the name may have a session.
                if self.pool.running((address, key)).is_none() {
                    self.pool.give_up((address, key));
                }
                Err(Refusal::NoSession(error))
            }
            Err(error) => Err(Refusal::Stream(error)),
        }
    }

    /// Finds a server that has proved a key of one of these vouchers: at `at` if given, otherwise
    /// at any address of the name.
    async fn proved(&self, claims: &[Claim], at: Option<IpAddr>) -> Result<Proved, Refusal> {
        let not_reached = |error| Refusal::NotReached {
            port: self.port,
            error,
        };
        let first = claims.first();
        let first = first.ok_or(not_reached(DialError::RefusedByPolicy))?;
        let proved_by = |address: IpAddr, key: PublicKey| {
            let claim = claims.iter().find(|it| it.keys.contains(&key))?;
            let of = Arc::clone(&claim.of);
            Some(Proved { of, address, key })
        };
        let known = || {
            let mut proved = first.of.proved.lock();
            proved.retain(|it| self.pool.has(it));
            let there = proved.iter().filter(|it| at.is_none_or(|at| at == it.0));
            let mut there = there.filter_map(|(address, key)| proved_by(*address, *key));
            there
                .next()
                .inspect(|it| self.led.note_proved(&it.of, it.address))
        };
        if let Some(proved) = known() {
            return Ok(proved);
        }
        // Of several simultaneous connections, one asks the server.
        let turn = timeout(ASK_PATIENCE, first.of.asking.lock()).await;
        let _turn = turn.map_err(|_| not_reached(DialError::TimedOut))?;
        if let Some(proved) = known() {
            return Ok(proved);
        }
        let (address, got) = self.ask(&first.of, at).await?;
        let Some(proved) = proved_by(address, got) else {
            // The owner may have published another voucher since.
            claims.iter().for_each(|it| it.of.want());
            let vouched = claims.iter().flat_map(|it| &it.keys).copied().collect();
            return Err(Refusal::OtherKey { got, vouched });
        };
        self.led.note_proved(&proved.of, address);
        first.of.proved.lock().insert((address, got));
        Ok(proved)
    }

    /// Has the server at one of the name's addresses prove its key, whichever key that is; only the
    /// server at `at`, if given.
    async fn ask(
        &self,
        watched: &Arc<Watched>,
        at: Option<IpAddr>,
    ) -> Result<(IpAddr, PublicKey), Refusal> {
        let port = self.port;
        let not_reached = |error| Refusal::NotReached { port, error };
        let no_key = |reason: String| Refusal::NoKey { port, reason };
        let asking = async {
            let stream = match at {
                Some(at) => {
                    let destination = Destination::new(Host::Ip(at), port);
                    let request = Origin::default().towards(&destination);
                    self.links.dial(request, vec![at], Vec::new()).await
                }
                None => self.connect(watched, port).await,
            };
            let stream = as_its_own(&stream.map_err(not_reached)?);
            let stream = stream.map_err(|error| no_key(error.to_string()))?;
            let at = stream.peer_addr();
            let at = at.map_err(|error| not_reached(DialError::from_io(&error)))?;
            let probe = TlsProbe::for_anyone().map_err(|error| no_key(error.to_string()))?;
            let key = probe.ask(stream).await;
            let key = key.map_err(|error| no_key(error.to_string()))?;
            Ok((at.ip().to_canonical(), key))
        };
        timeout(ASK_PATIENCE, asking)
            .await
            .unwrap_or(Err(not_reached(DialError::TimedOut)))
    }

    /// Connects to a port of a name over whichever link leads there.
    async fn connect(
        &self,
        watched: &Arc<Watched>,
        port: u16,
    ) -> Result<Counted<TcpStream>, DialError> {
        let destination = Destination::new(Host::Name(watched.name.clone()), port);
        let addresses = self.links.resolve(&destination).await?;
        // Applications may know these addresses from other sources: Hawser tells only held ones.
        let _ = self.led.note(watched, &addresses);
        let request = resolved(Origin::default().towards(&destination), &addresses);
        self.links.dial(request, addresses, Vec::new()).await
    }

    /// Records why a connection is refused; returns the error for the application.
    fn refuse(&self, watched: &Watched, port: u16, refusal: Refusal) -> DialError {
        let told = refusal.told();
        if watched.set_refused(Some((port, refusal.clone()))) {
            let name = &watched.name;
            tracing::warn!(%name, port, reason = %refusal,
                "refusing a connection to a vouched name");
        }
        told
    }

    /// Fetches the voucher of a name and keeps it.
    async fn fetch(&self, watched: &Arc<Watched>) -> Result<KeptVoucher, String> {
        let name = &watched.name;
        let voucher = fetch(name, &self.roots, self.connect(watched, HTTPS)).await;
        let voucher = voucher.map_err(|error| error.to_string())?;
        let (store, name) = (Arc::clone(&self.store), name.clone());
        let kept = spawn_blocking(move || store.keep(&name, &voucher, UnixTime::now()));
        let kept = kept.await.map_err(|error| error.to_string())?;
        kept.map_err(|error| error.to_string())
    }
}

/// Keeps the voucher of a name fresh until the future is dropped.
pub(super) async fn keep(shared: Arc<VouchedState>, watched: Arc<Watched>) {
    let name = &watched.name;
    let mut pause = FIRST_PAUSE;
    let kept = shared.store.voucher(name, UnixTime::now());
    let mut told = None;
    if let Some(kept) = &kept {
        tell(name, kept);
        told = Some(kept.bonded.clone());
    }
    loop {
        let wait = match shared.fetch(&watched).await {
            Ok(kept) => {
                let is_news = told.as_ref() != Some(&kept.bonded);
                if watched.note_fetched(None) || is_news {
                    tell(name, &kept);
                    told = Some(kept.bonded.clone());
                }
                pause = FIRST_PAUSE;
                // Early enough that a new key becomes known in time.
                let half = kept.until.since(kept.since) / 2;
                let age = UnixTime::now().since(kept.since);
                half.min(FETCH_EVERY).saturating_sub(age)
            }
            Err(problem) => {
                if watched.note_fetched(Some(problem.clone())) {
                    tracing::warn!(%name, %problem, "can't fetch the voucher of this name");
                }
                pause = (pause * 2).min(MAX_PAUSE);
                pause
            }
        };
        // Refused connections do not make fetches more frequent.
        sleep(MIN_PAUSE).await;
        watched.until_wanted(wait).await;
    }
}

fn tell(name: &HostName, kept: &KeptVoucher) {
    match &kept.bonded {
        Some(bonded) => {
            let ports: Vec<String> = bonded.ports.iter().map(u16::to_string).collect();
            let (keys, ports) = (bonded.keys.len(), ports.join(" "));
            tracing::info!(%name, keys, ports, "applying voucher: connections to these ports go \
                over a session with one of the voucher's keys, or are refused");
        }
        None => tracing::info!(%name, "voucher says that the name no longer has Hawser"),
    }
}

/// Returns the connection itself, no longer counted for its link.
fn as_its_own(stream: &Counted<TcpStream>) -> std::io::Result<TcpStream> {
    let socket = stream.socket().try_clone_to_owned()?;
    TcpStream::from_std(socket.into())
}

/// Most ports of an address, over all names that lead there, that the kernel's table lists.
const MAX_LISTED: usize = 8;
const _: () = assert!(MAX_LISTED * MAX_ADDRESSES <= MAX_PEERS);
/// The longest time between two fetches of a voucher.
const FETCH_EVERY: Duration = Duration::from_secs(86_400);
/// Time for which a connection waits for a voucher.
const FETCH_PATIENCE: Duration = Duration::from_secs(10);
/// Least time between two fetches, whatever asks for them.
const MIN_PAUSE: Duration = Duration::from_secs(2);
/// Pause after a failed fetch, doubled each time.
const FIRST_PAUSE: Duration = Duration::from_secs(3);
const MAX_PAUSE: Duration = Duration::from_secs(600);
/// Time for connection and handshake.
const ASK_PATIENCE: Duration = Duration::from_secs(10);
