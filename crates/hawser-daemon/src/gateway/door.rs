//! The port that clients connect to: keys, peers, invites and admission.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use hawser_config::ServeConfig;
use hawser_keys::host_port::HostPort;
use hawser_keys::identity::PublicKey;
use hawser_keys::invite::{Invite, MAX_ADDRESSES, read_reference};
use hawser_keys::replace_if_changed;
use hawser_keys::store::{GatewayStore, StateDir, StateFile};
use hawser_keys::unix_time::UnixTime;
use hawser_link::links::{Link, OwnAddresses, list_links};
use hawser_net::gateway::{AcceptLimits, Admission, Gateway, GatewayConfig};
use hawser_net::ticks::Ticks;
use hawser_session::SessionConfig;
use hawser_text::span;
use hawser_types::is_private;
use tokio::sync::watch;

use super::found::{is_made_for, with_found};
use crate::setup::{Setup, not_listening, show};
use crate::takeover::Predecessor;

/// A gateway whose port is open.
pub(crate) struct Door {
    /// Accepts sessions and hands out their streams.
    pub(crate) gateway: Gateway,
    /// The clients that may connect.
    pub(crate) store: Arc<GatewayStore>,
    /// Address at which the gateway listens, with the port that was opened.
    pub(crate) listen: SocketAddr,
    /// New invite for one client; `None` if an earlier invite is still open, or if no invite could
    /// be made.
    invite: Option<Invite>,
    /// The addresses for invites were found, not configured.
    is_found: bool,
}

/// When to make an invite at the start, and where to write it.
#[derive(Clone, Copy)]
pub(crate) struct InviteWish<'a> {
    /// File for the invite.
    pub(crate) file: Option<&'a Path>,
    /// Make an invite although another one is open.
    pub(crate) always: bool,
}

impl Door {
    /// Opens the port with the keys and peers in `state`, or inherits the predecessor's port.
    /// `links` are the links of this machine.
    pub(crate) async fn open(
        (setup, state, config): (&Setup, &StateDir, &ServeConfig),
        links: watch::Receiver<Arc<Vec<Link>>>,
        wish: InviteWish<'_>,
        predecessor: Option<&Predecessor>,
    ) -> anyhow::Result<Self> {
        // The addresses are checked before anything is opened.
        let is_told = !told(&config.advertise, Some(config.listen.port().max(1)))?.is_empty();
        let is_found = !is_told && config.listen.ip().is_unspecified();
        let identity = state.identity()?;
        let store = Arc::new(GatewayStore::open(state)?);
        let listen = predecessor.map_or(config.listen, |it| it.listen(config.listen));
        let listener =
            hawser_link::bind::listen(listen).map_err(|error| not_listening(listen, &error))?;
        let listen = listener.local_addr()?;
        let addresses = if is_told {
            told(&config.advertise, Some(listen.port()))?
        } else {
            own_addresses(listen).await?
        };
        prepare_invites(state, &store, &addresses);
        let key = identity.public();
        let gateway = GatewayConfig {
            identity,
            session: SessionConfig {
                follows_scheduler: config.client_schedulers,
                ..setup
                    .config
                    .session
                    .for_session(config.limits.streams_per_session)
            },
            limits: limits(config),
            congestion: setup.config.session.congestion.name(),
            predecessor: predecessor.map(Predecessor::to),
        };
        let admission = Arc::new(Enrolled {
            store: Arc::clone(&store),
        });
        let mut gateway = Gateway::start(gateway, vec![listener], admission)?;
        if config.udp {
            gateway = gateway.with_associations();
        }
        let gateway = joining_clients(gateway, config, &links).await?;
        let gateway = gateway.with_links(links);
        // Clients are admitted while names for the invite are looked up.
        let invite = if wish.lacks_invite(&store, &addresses) {
            let addresses = with_found(&addresses).await;
            let made = new_invite(&store, key, addresses, DEFAULT_TTL);
            made.inspect_err(|error| tracing::warn!("can't make an invite: {error:#}"))
                .ok()
        } else {
            None
        };
        Ok(Self {
            gateway,
            store,
            listen,
            invite,
            is_found,
        })
    }

    /// Shows the invite if there is a new one, and writes it to `file`.
    pub(crate) fn announce(&self, file: Option<&Path>, command: &str) -> anyhow::Result<()> {
        tracing::info!(listen = %self.listen, "accepting clients");
        let Some(invite) = &self.invite else {
            let now = UnixTime::now();
            if self.store.invites().iter().any(|it| it.is_open(now)) {
                tracing::info!(
                    "an invite that was made before is still open: `hawser invite list` shows it, \
                     `hawser invite` makes another"
                );
            }
            return Ok(());
        };
        if let Some(path) = file {
            invite.write_file(path)?;
        }
        show(&format!("{}\n", invite.to_line().as_str()))?;
        let left = span(invite.expires().since(UnixTime::now()));
        tracing::info!("the invite above enrols one client within {left}: {command}");
        if self.is_found
            && let Some(private) = all_private(invite.addresses())
        {
            tracing::warn!("{}", leads_nowhere(private));
        }
        Ok(())
    }
}

impl InviteWish<'_> {
    /// Returns whether an invite must be made: no invite is open, or, with a file, the invite in
    /// the file is not open or not for these addresses.
    fn lacks_invite(self, store: &GatewayStore, addresses: &[HostPort]) -> bool {
        let now = UnixTime::now();
        let invites = store.invites();
        let mut open = invites.iter().filter(|invite| invite.is_open(now));
        let is_open = match self.file {
            Some(path) => {
                let there = read_reference(&format!("@{}", path.display()));
                there.is_ok_and(|there| {
                    let key = there.enrolment_identity().public();
                    is_made_for(there.addresses(), addresses)
                        && open.any(|invite| invite.key == key)
                })
            }
            None => open.next().is_some(),
        };
        self.always || !is_open
    }
}

/// Returns a warning about an invite whose addresses are all private, and the remedy.
pub fn leads_nowhere(private: &HostPort) -> String {
    format!(
        "the invite leads to {private}, which clients elsewhere can't reach: if this machine has a \
         public address or name, give it with --advertise ADDRESS"
    )
}

/// Makes the gateway connect to clients from its further links, if any are configured.
async fn joining_clients(
    gateway: Gateway,
    config: &ServeConfig,
    links: &watch::Receiver<Arc<Vec<Link>>>,
) -> anyhow::Result<Gateway> {
    let names = &config.further_links;
    if names.is_empty() {
        return Ok(gateway);
    }
    let own = OwnAddresses::follow().await;
    let own = own.context("can't follow this machine's addresses")?;
    Ok(gateway.with_further_links(names.clone(), links.clone(), own))
}

/// Returns the first address if all addresses are private.
pub fn all_private(addresses: &[HostPort]) -> Option<&HostPort> {
    // Names are not resolved here, so a name does not count as private.
    let is_one = |it: &HostPort| it.socket_addr().is_some_and(|it| is_private(it.ip()));
    let is_all = addresses.iter().all(is_one);
    addresses.first().filter(|_| is_all)
}

/// Makes an invite and stores its public half.
pub fn new_invite(
    store: &GatewayStore,
    gateway: PublicKey,
    addresses: Vec<HostPort>,
    ttl: Duration,
) -> anyhow::Result<Invite> {
    let now = UnixTime::now();
    let invite = Invite::generate(gateway, addresses, now + ttl)?;
    store.add_invite(invite.enrolment_identity().public(), invite.expires(), now)?;
    Ok(invite)
}

/// Ends the sessions of clients that `hawser peers revoke` has removed, for as long as the gateway
/// lives.
pub(crate) async fn watch_peers(gateway: Weak<Gateway>, store: Arc<GatewayStore>) {
    let mut ticks = Ticks::every(PEERS_PERIOD);
    loop {
        ticks.tick().await;
        let Some(gateway) = gateway.upgrade() else {
            return;
        };
        if let Err(error) = store.reload_if_changed() {
            tracing::warn!(%error, "can't reload the list of peers");
        }
        // A handshake may have reloaded the changed file first, so sessions are always checked.
        gateway.drop_revoked();
    }
}

/// Returns the addresses of `--advertise`; `port` is the default port.
pub fn told(
    advertise: &[hawser_config::HostPort],
    port: Option<u16>,
) -> anyhow::Result<Vec<HostPort>> {
    ensure!(
        advertise.len() <= MAX_ADDRESSES,
        "--advertise: an invite has at most {MAX_ADDRESSES} addresses, got {}",
        advertise.len()
    );
    let read = |address: &hawser_config::HostPort| {
        HostPort::parse(&address.to_string(), port).context("--advertise")
    };
    advertise.iter().map(read).collect()
}

/// Returns the listening address if it is specified, else every address of this machine that is
/// not loopback, else loopback.
async fn own_addresses(listen: SocketAddr) -> anyhow::Result<Vec<HostPort>> {
    let mut ips = vec![listen.ip()];
    if listen.ip().is_unspecified() {
        let links = list_links().await?;
        let links = links.iter().filter(|link| !link.loopback && link.up);
        ips = links.flat_map(|link| link.addresses.clone()).collect();
        ips.retain(|ip| ip.is_ipv4() || listen.is_ipv6());
        if ips.is_empty() {
            ips.push(IpAddr::from([127, 0, 0, 1]));
        }
    }
    ips.truncate(MAX_ADDRESSES);
    ips.into_iter()
        .map(|ip| Ok(HostPort::new(ip.into(), listen.port())?))
        .collect()
}

fn limits(config: &ServeConfig) -> AcceptLimits {
    AcceptLimits {
        sessions: config.limits.sessions as usize,
        sessions_per_client: config.limits.sessions_per_client as usize,
        half_open: config.limits.half_open_handshakes as usize,
        memory: config.limits.memory,
        ..AcceptLimits::default()
    }
}

/// Saves the addresses for later invites, and limits the number of unused invites. Failures are
/// only logged: enrolled clients need neither.
fn prepare_invites(state: &StateDir, store: &GatewayStore, addresses: &[HostPort]) {
    let written = serde_json::to_vec_pretty(addresses)
        .map_err(anyhow::Error::from)
        .and_then(|text| Ok(replace_if_changed(&state.file(ADDRESSES), &text)?));
    if let Err(error) = written {
        tracing::warn!("can't save the addresses for `hawser invite`: {error:#}");
    }
    if let Err(error) = store.limit_unused_invites(MAX_UNUSED_INVITES) {
        tracing::warn!(%error, "can't limit the number of unused invites");
    }
}

/// Admits the clients that are listed in the state directory.
struct Enrolled {
    store: Arc<GatewayStore>,
}

impl Enrolled {
    fn refresh(&self) {
        if let Err(error) = self.store.reload_if_changed() {
            tracing::warn!(%error, "can't reload the list of peers");
        }
    }
}

impl Admission for Enrolled {
    fn admits(&self, key: &PublicKey) -> bool {
        self.refresh();
        self.store.is_peer(key) || self.store.accepts_enrolment(key, UnixTime::now())
    }

    fn is_enrolled(&self, key: &PublicKey) -> bool {
        self.store.is_peer(key)
    }

    fn name(&self, key: &PublicKey) -> Option<String> {
        self.store.name(key)
    }

    fn enrol(&self, invite: PublicKey, client: PublicKey, name: &str) -> Result<(), String> {
        let admitted = self.store.admit_enrolment(invite, client, UnixTime::now());
        admitted.map_err(|error| error.to_string())?;
        if !name.is_empty()
            && let Err(error) = self.store.rename(client, Some(name))
        {
            tracing::debug!(%error, "can't save the client's name");
        }
        Ok(())
    }
}

/// The file with the addresses for invites.
pub const ADDRESSES: &str = StateFile::Addresses.name();
/// Default time for which an invite is valid.
pub const DEFAULT_TTL: Duration = Duration::from_secs(24 * 3600);
const PEERS_PERIOD: Duration = Duration::from_secs(1);
const MAX_UNUSED_INVITES: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invite_that_leads_nowhere_from_elsewhere_is_noticed() {
        let first = |addresses: &[&str]| {
            let addresses: Vec<HostPort> = addresses
                .iter()
                .map(|it| HostPort::parse(it, None).unwrap())
                .collect();
            all_private(&addresses).map(ToString::to_string)
        };
        let clouds = [
            "10.0.0.5:7443",
            "100.64.0.1:7443",
            "[fd00::1]:7443",
            "[fe80::1]:7443",
        ];
        assert_eq!(first(&clouds).as_deref(), Some("10.0.0.5:7443"));
        assert_eq!(first(&["10.0.0.5:7443", "8.8.8.8:7443"]), None);
        assert_eq!(first(&["10.0.0.5:7443", "[2001:4860::1]:7443"]), None);
        assert_eq!(first(&["10.0.0.5:7443", "gw.example:7443"]), None);
    }
}
