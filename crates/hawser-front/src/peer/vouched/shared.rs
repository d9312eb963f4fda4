//! Vouchers, and sessions with servers that prove their keys.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use hawser_net::identity::PublicKey;
use hawser_net::store::{KeptVoucher, VoucherStore};
use hawser_net::tls::TlsProbe;
use hawser_net::unix_time::UnixTime;
use hawser_net::voucher::VouchedKeys;
use hawser_policy::RuleSet;
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

/// What tasks and dialers share.
pub(super) struct Shared {
    names: Vec<Arc<Watched>>,
    roots: RootCertificates,
    store: Arc<VoucherStore>,
    links: OverLinks,
    port: u16,
    start: Box<StartVouched>,
    pub(super) rules: watch::Receiver<Arc<RuleSet>>,
    pub(super) pool: SessionPool<(IpAddr, PublicKey)>,
    /// Where the names lead to.
    pub(super) led: Led,
}

impl Shared {
    pub(super) fn new(settings: VouchedSettings) -> Self {
        let names: BTreeSet<HostName> = settings.names.into_iter().collect();
        let director = settings.director;
        let resolver = RememberingResolver::new(LinkResolver::new(director.clone()));
        let (via, options) = (TcpVia::for_own(), ConnectOptions::default());
        Self {
            names: names.into_iter().map(Watched::new).map(Arc::new).collect(),
            roots: settings.roots,
            store: Arc::new(settings.store),
            links: OverLinks::new(director, via, resolver, options),
            port: settings.port,
            start: settings.start,
            rules: settings.rules,
            pool: SessionPool::new(),
            led: Led::default(),
        }
    }

    /// The names that are held to their vouchers.
    pub(super) fn watched(&self) -> impl Iterator<Item = &Arc<Watched>> {
        self.names.iter()
    }

    /// The one of them that a destination is: by its name, or by an address that the name leads to
    /// and a port that its voucher has.
    pub(super) fn held(&self, destination: &Destination) -> Option<Arc<Watched>> {
        match &destination.host {
            Host::Name(name) => self.named(name.as_str()),
            Host::Ip(address) => {
                let mut names = self.led.names_of(*address).into_iter();
                let ports = |it: &Arc<Watched>| self.ports(it);
                names.find(|it| ports(it).is_none_or(|it| it.contains(&destination.port)))
            }
        }
    }

    /// The one of them with this name.
    pub(super) fn named(&self, name: &str) -> Option<Arc<Watched>> {
        self.watched().find(|it| is_same(&it.name, name)).cloned()
    }

    /// The ports of a name that are held; `None` stands for all, as long as there is no voucher.
    fn ports(&self, watched: &Watched) -> Option<BTreeSet<u16>> {
        let voucher = self.store.voucher(&watched.name, UnixTime::now())?;
        let bonded = voucher.bonded.map(|it| it.ports);
        Some(bonded.unwrap_or_default())
    }

    /// The version of the addresses that names lead to, and those that are held now, with their
    /// ports. Port 0 stands for all; connections to those that are not held go on as ever then.
    pub(super) fn held_addresses(&self) -> (u64, Vec<SocketAddr>) {
        let (version, led) = self.led.list();
        if self.links.director().is_all_by_gateway() {
            return (version, Vec::new());
        }
        let of = |(address, watched): (IpAddr, Arc<Watched>)| {
            let ports = self.ports(&watched).filter(|it| it.len() <= MAX_LISTED);
            let ports = ports.unwrap_or_else(|| BTreeSet::from([0]));
            ports
                .into_iter()
                .map(move |port| SocketAddr::new(address, port))
        };
        (version, led.into_iter().flat_map(of).collect())
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

    /// The only way of a connection to a name; `None` where its voucher lets it go as ever.
    pub(super) async fn judge<'a>(
        &'a self,
        watched: Arc<Watched>,
        port: u16,
        origin: &'a Origin,
    ) -> Option<VouchedWay<'a, Bonded>> {
        let bonded = match self.voucher(&watched).await {
            Some(voucher) => voucher.bonded.filter(|it| it.ports.contains(&port)),
            None => {
                let problem = watched.problem();
                let problem = problem.unwrap_or_else(|| "it is being fetched".to_owned());
                let error = self.refuse(&watched, port, Refusal::NoVoucher(problem));
                return Some(async move { Err(error) }.boxed());
            }
        };
        let VouchedKeys { keys, .. } = match bonded {
            Some(bonded) => bonded,
            None => {
                watched.set_refused(None);
                return None;
            }
        };
        let dialing = async move {
            let dialed = self.dial(&watched, port, &keys, origin).await;
            match dialed {
                Ok(dialed) => {
                    if watched.set_refused(None) {
                        let name = &watched.name;
                        tracing::info!(%name, port, "connections go over a session again");
                    }
                    Ok(dialed)
                }
                // The server is as it should be; nothing listens there.
                Err(Refusal::Stream(error @ DialError::ConnectionRefused)) => Err(error),
                Err(refusal) => Err(self.refuse(&watched, port, refusal)),
            }
        };
        Some(dialing.boxed())
    }

    /// The voucher of a name. Where there is none, it is fetched at once.
    async fn voucher(&self, watched: &Watched) -> Option<KeptVoucher> {
        let kept = || self.store.voucher(&watched.name, UnixTime::now());
        if let Some(voucher) = kept() {
            return Some(voucher);
        }
        watched.fetched_soon(FETCH_PATIENCE).await;
        kept()
    }

    /// Opens a stream to a server of the name that proves one of these keys.
    async fn dial(
        &self,
        watched: &Arc<Watched>,
        port: u16,
        keys: &BTreeSet<PublicKey>,
        origin: &Origin,
    ) -> Result<(IpAddr, Bonded), Refusal> {
        let (address, key) = self.proved(watched, keys).await?;
        let no_session = Refusal::NoSession(DialError::GatewayUnavailable);
        let door = SocketAddr::new(address, self.port);
        let way = self.pool.dialer((address, key), || (self.start)(door, key));
        let dialing = way.ok_or(no_session)?;
        match dialing.dial_for(&at_peer(port), origin).await {
            Ok(stream) => {
                self.pool.note_opened();
                Ok((address, stream))
            }
            Err(error @ DialError::GatewayUnavailable) => {
                // Perhaps another address of the name has it.
                if let Ok(mut proved) = watched.proved.try_lock() {
                    *proved = None;
                }
                if self.pool.running((address, key)).is_none() {
                    self.pool.give_up((address, key));
                }
                Err(Refusal::NoSession(error))
            }
            Err(error) => Err(Refusal::Stream(error)),
        }
    }

    /// The address of a server that has proved one of these keys, and which one.
    async fn proved(
        &self,
        watched: &Arc<Watched>,
        keys: &BTreeSet<PublicKey>,
    ) -> Result<(IpAddr, PublicKey), Refusal> {
        // Of several connections at once, one asks.
        let turn = timeout(ASK_PATIENCE, watched.proved.lock()).await;
        let mut proved = turn.map_err(|_| Refusal::NotReached {
            port: self.port,
            error: DialError::TimedOut,
        })?;
        if let Some((address, key)) = *proved
            && keys.contains(&key)
            && self.pool.has(&(address, key))
        {
            return Ok((address, key));
        }
        *proved = None;
        let (address, got) = self.ask(watched).await?;
        if !keys.contains(&got) {
            // Its owner may have published another one since.
            watched.want();
            let vouched = keys.clone();
            return Err(Refusal::OtherKey { got, vouched });
        }
        *proved = Some((address, got));
        Ok((address, got))
    }

    /// Has the server at one of the name's addresses prove its key, whichever it is.
    async fn ask(&self, watched: &Arc<Watched>) -> Result<(IpAddr, PublicKey), Refusal> {
        let port = self.port;
        let not_reached = |error| Refusal::NotReached { port, error };
        let no_key = |reason: String| Refusal::NoKey { port, reason };
        let asking = async {
            let stream = self.connect(watched, port).await;
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
        // Programs may know them as well, from elsewhere. Where there is no room they are told
        // none.
        let _ = self.led.note(watched, &addresses);
        let request = resolved(Origin::default().towards(&destination), &addresses);
        self.links.dial(request, addresses, Vec::new()).await
    }

    /// Tells why a connection is refused; returns what the program is told.
    fn refuse(&self, watched: &Watched, port: u16, refusal: Refusal) -> DialError {
        let told = refusal.told();
        if watched.set_refused(Some((port, refusal.clone()))) {
            let name = &watched.name;
            tracing::warn!(%name, port, reason = %refusal,
                "a connection is refused: its server is vouched for");
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
pub(super) async fn keep(shared: Arc<Shared>, watched: Arc<Watched>) {
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
                before_next(&kept)
            }
            Err(problem) => {
                if watched.note_fetched(Some(problem.clone())) {
                    tracing::warn!(%name, %problem, "its voucher can't be fetched");
                }
                pause = (pause * 2).min(MAX_PAUSE);
                pause
            }
        };
        // Whoever has connections refused does not have it fetched more often.
        sleep(MIN_PAUSE).await;
        watched.until_wanted(wait).await;
    }
}

/// The time until a voucher is fetched again: a new key is to be known in time.
fn before_next(kept: &KeptVoucher) -> Duration {
    let half = kept.until.since(kept.since) / 2;
    let age = UnixTime::now().since(kept.since);
    half.min(FETCH_EVERY).saturating_sub(age)
}

fn tell(name: &HostName, kept: &KeptVoucher) {
    match &kept.bonded {
        Some(bonded) => {
            let ports: Vec<String> = bonded.ports.iter().map(u16::to_string).collect();
            let (keys, ports) = (bonded.keys.len(), ports.join(" "));
            tracing::info!(%name, keys, ports, "its voucher is known: connections to these ports \
                go over a session with one of its keys, or are refused");
        }
        None => tracing::info!(%name, "its voucher says that it has no Hawser any more"),
    }
}

/// The connection itself, no longer counted for its link.
fn as_its_own(stream: &Counted<TcpStream>) -> std::io::Result<TcpStream> {
    let socket = stream.socket().try_clone_to_owned()?;
    TcpStream::from_std(socket.into())
}

/// A name with a final dot is the same one.
fn is_same(a: &HostName, b: &str) -> bool {
    let (a, b) = (a.as_str().trim_end_matches('.'), b.trim_end_matches('.'));
    a.eq_ignore_ascii_case(b)
}

/// Ports of a name that the kernel is told one by one: its table has 4096 places.
const MAX_LISTED: usize = 8;
const _: () = assert!(MAX_LISTED * MAX_ADDRESSES < 4096);
/// The longest time between two fetches of a voucher.
const FETCH_EVERY: Duration = Duration::from_secs(86_400);
/// Time for which a connection waits for a voucher.
const FETCH_PATIENCE: Duration = Duration::from_secs(10);
/// Between two fetches, whoever wants them.
const MIN_PAUSE: Duration = Duration::from_secs(2);
/// After a fetch that failed, doubled each time.
const FIRST_PAUSE: Duration = Duration::from_secs(3);
const MAX_PAUSE: Duration = Duration::from_secs(600);
/// Time for connection and handshake.
const ASK_PATIENCE: Duration = Duration::from_secs(10);
