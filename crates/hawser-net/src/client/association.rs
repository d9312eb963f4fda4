//! Keeps an association with the gateway beside the TCP channels, if it is wanted and UDP passes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hawser_channels::association::{AssociationBackOff, association_config};
use hawser_sctp::Local;
use hawser_session::{Side, TransportChoice};
use hawser_types::{ChannelId, LinkIndex};
use tokio::time::{Instant, timeout};

use super::shared::ClientState;
use crate::association::AssociationEndpoint;
use crate::driver::Driver;
use hawser_keys::host_port::HostPort;

/// Keeps the association until the session ends.
pub(super) async fn keep(shared: Arc<ClientState>, driver: Driver) {
    let keeper = Keeper {
        endpoint: None,
        begun_at: Vec::new(),
        has_told_failure: false,
        shared,
        driver,
    };
    keeper.run().await;
}

struct Keeper {
    shared: Arc<ClientState>,
    driver: Driver,
    /// The sockets, which live while any session holds them.
    endpoint: Option<Arc<AssociationEndpoint>>,
    /// The gateway's addresses when the association began.
    begun_at: Vec<SocketAddr>,
    /// True once a failure to associate with the other host was logged.
    has_told_failure: bool,
}

impl Keeper {
    async fn run(mut self) {
        let mut wishes = self.shared.transport.subscribe();
        let mut links = self.shared.links.clone();
        let mut changes = self.driver.changes();
        let mut addresses = self.shared.addresses.subscribe();
        let mut back_off = AssociationBackOff::default();
        while self.driver.closed().is_none() {
            changes.mark_unchanged();
            links.mark_unchanged();
            addresses.mark_unchanged();
            let wish = *wishes.borrow_and_update();
            let port = self.driver.datagram_port();
            let (Some(port), true) = (port, wish != TransportChoice::Tcp) else {
                self.drop_endpoint();
                self.publish((wish != TransportChoice::Tcp).then(|| NOT_TAKEN.to_owned()));
                tokio::select! {
                    changed = wishes.changed() => if changed.is_err() { return },
                    changed = changes.changed() => if changed.is_err() { return },
                }
                continue;
            };
            // A relay leads to no UDP port.
            let has_relay = self.shared.config.relay.is_some();
            if has_relay && self.datagram_addresses().is_empty() {
                self.publish(Some(NO_ADDRESS.to_owned()));
                // Sockets have to exist before their outer addresses can be found out.
                let _ = self.take_places(&[]);
                tokio::select! {
                    _ = links.changed() => {}
                    changed = changes.changed() => if changed.is_err() { return },
                    changed = wishes.changed() => if changed.is_err() { return },
                    Ok(()) = addresses.changed() => {}
                }
                continue;
            }
            let begun = Instant::now();
            match self.begin(port).await {
                Ok(id) => {
                    self.note_success(id);
                    self.hold(id).await;
                }
                Err(problem) => self.note_failure(problem),
            }
            let pause = back_off.next_pause(begun.elapsed());
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                _ = links.changed() => back_off.reset(),
                _ = wishes.changed() => back_off.reset(),
                Ok(()) = addresses.changed() => back_off.reset(),
            }
        }
    }

    fn note_success(&mut self, id: ChannelId) {
        self.has_told_failure = false;
        match self.shared.config.relay {
            Some(_) => tracing::info!(%id, "UDP passes between the hosts, past the gateway"),
            None => tracing::debug!(%id, "association with the gateway established"),
        }
        self.publish(None);
    }

    /// Publishes that no association came about. If a relay carries everything instead, logs this
    /// once.
    fn note_failure(&mut self, problem: String) {
        if self.shared.config.relay.is_none() {
            tracing::info!(%problem, "no association with the gateway");
            return self.publish(Some(problem));
        }
        if !std::mem::replace(&mut self.has_told_failure, true) {
            tracing::info!(%problem,
        "UDP does not pass between the hosts: the gateway relays their data")
        } else {
            tracing::debug!(%problem, "UDP still does not pass between the hosts")
        }
        self.publish(Some(format!("the gateway relays, {problem}")));
    }

    /// Begins an association over every link and adds it to the session.
    async fn begin(&mut self, port: u16) -> Result<ChannelId, String> {
        let remotes = self.remotes(port).await?;
        let endpoint = self.take_places(&remotes)?;
        self.begun_at.clone_from(&remotes);
        let grant = timeout(GRANT_PATIENCE, self.grant()).await;
        let grant = grant.map_err(|_| "the gateway has granted no channel number".to_owned())?;
        let id = grant.id;
        self.driver
            .with(|session, now| session.begin_association(now, id));
        let config = association_config(&self.driver.session_config(), Side::Client);
        let seal = self.driver.association_seal(id);
        let association = endpoint.connect_sealed(config, &remotes, seal);
        let association = association.map_err(|error| error.to_string())?;
        match timeout(ANSWER_PATIENCE, association.established()).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => {
                let to: Vec<String> = remotes.iter().map(SocketAddr::to_string).collect();
                return Err(format!("no answer over UDP from {}", to.join(", ")));
            }
        }
        self.driver.add_association(grant.keep(), association);
        Ok(id)
    }

    /// Holds the association while it lives and is wanted; its local addresses follow the links.
    async fn hold(&mut self, id: ChannelId) {
        let mut wishes = self.shared.transport.subscribe();
        let mut links = self.shared.links.clone();
        let mut rules = self.shared.rules.subscribe();
        let mut changes = self.driver.changes();
        let mut addresses = self.shared.addresses.subscribe();
        while self.driver.channels().contains(&id) {
            if *wishes.borrow_and_update() == TransportChoice::Tcp {
                self.driver.drop_channel(id);
                return;
            }
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { return },
                changed = wishes.changed() => if changed.is_err() { return },
                _ = links.changed() => self.follow().await,
                _ = rules.changed() => self.follow().await,
                Ok(()) = addresses.changed() => if self.has_lost_gateway() {
                    // The association goes on while the gateway keeps one of its addresses.
                    self.driver.drop_channel(id);
                    return;
                },
            }
        }
    }

    /// True if the gateway has left all addresses at which the association began.
    fn has_lost_gateway(&self) -> bool {
        let addresses = self.shared.addresses.borrow();
        let mut known = addresses.iter().map(HostPort::socket_addr);
        !known.any(|address| {
            let is_at = |at: &SocketAddr| address.is_none_or(|it| it.ip() == at.ip());
            self.begun_at.iter().any(is_at)
        })
    }

    /// Updates the association's local addresses after a change of links.
    async fn follow(&mut self) {
        if let Some(port) = self.driver.datagram_port()
            && let Ok(remotes) = self.remotes(port).await
        {
            // Without any link the association waits for one.
            let _ = self.take_places(&remotes);
        }
    }

    /// The gateway's addresses; those that channels go to come first.
    async fn remotes(&self, port: u16) -> Result<Vec<SocketAddr>, String> {
        if self.shared.config.relay.is_some() {
            let mut known = self.datagram_addresses();
            known.truncate(MAX_REMOTES);
            return Ok(known);
        }
        let mut all: Vec<SocketAddr> = {
            let statuses = self.shared.statuses.lock();
            let links = statuses.by_link().values();
            links.filter_map(|status| status.remote).collect()
        };
        let candidates = self.shared.candidates(&self.shared.usable_links());
        all.extend(candidates.all().await);
        if all.is_empty() {
            return Err("the gateway has no address".to_owned());
        }
        let mut remotes: Vec<SocketAddr> = Vec::new();
        for address in all {
            let remote = SocketAddr::new(address.ip().to_canonical(), port);
            if remotes.len() < MAX_REMOTES && !remotes.contains(&remote) {
                remotes.push(remote);
            }
        }
        Ok(remotes)
    }

    /// Opens a socket on every link that may be used, and closes the others.
    fn take_places(&mut self, remotes: &[SocketAddr]) -> Result<Arc<AssociationEndpoint>, String> {
        // A session through a relay has a socket on every link: the far end's address is not known
        // yet.
        let locals = match self.shared.config.relay {
            Some(_) => self.places(&ANYWHERE),
            None => self.places(remotes),
        };
        let endpoint = self.endpoint()?;
        let failed = endpoint.set_locals(&locals);
        match failed.first() {
            Some((_, error)) if failed.len() == locals.len() => {
                Err(format!("can't open a UDP socket: {error}"))
            }
            None if locals.is_empty() => Err("no link is up that may be used".to_owned()),
            _ => Ok(endpoint),
        }
    }

    /// The endpoint with the sockets on the links, created when first needed.
    fn endpoint(&mut self) -> Result<Arc<AssociationEndpoint>, String> {
        let mut shared = self.shared.endpoint.lock();
        let endpoint = match shared.upgrade() {
            Some(endpoint) => endpoint,
            None => {
                let new = AssociationEndpoint::bind_sealed(&[], 0);
                let new = Arc::new(new.map_err(|error| error.to_string())?);
                *shared = Arc::downgrade(&new);
                new
            }
        };
        self.endpoint = Some(Arc::clone(&endpoint));
        Ok(endpoint)
    }

    fn places(&self, remotes: &[SocketAddr]) -> Vec<Local> {
        let mut places: Vec<Local> = Vec::new();
        for link in self.shared.machine_links() {
            for remote in remotes {
                let source = match remote.ip() {
                    IpAddr::V4(_) if link.loopback => {
                        Some((LinkIndex::new(0), Ipv4Addr::LOCALHOST.into()))
                    }
                    IpAddr::V6(_) if link.loopback => {
                        Some((LinkIndex::new(0), Ipv6Addr::LOCALHOST.into()))
                    }
                    remote => link.source_address(remote).map(|it| (link.index, it)),
                };
                let Some((link, address)) = source else {
                    continue;
                };
                let place = Local { link, address };
                if address.is_ipv4() == remote.is_ipv4() && !places.contains(&place) {
                    places.push(place);
                }
            }
        }
        places.truncate(MAX_PLACES);
        places
    }

    fn drop_endpoint(&mut self) {
        self.endpoint = None;
    }

    /// The known addresses of the gateway's UDP port; a relay does not lead there.
    fn datagram_addresses(&self) -> Vec<SocketAddr> {
        let addresses = self.shared.addresses.borrow();
        addresses.iter().filter_map(HostPort::socket_addr).collect()
    }

    async fn grant(&self) -> Grant {
        let mut changes = self.driver.changes();
        loop {
            if let Some(id) = self.driver.take_grant() {
                return Grant {
                    driver: self.driver.clone(),
                    id,
                    kept: false,
                };
            }
            if changes.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    fn publish(&self, problem: Option<String>) {
        // A superseded session does not publish.
        if !self.driver.is_superseded() {
            self.shared.association_problem.send_replace(problem);
        }
    }
}

/// A channel number for an association, given up on drop unless it was kept.
struct Grant {
    driver: Driver,
    id: ChannelId,
    kept: bool,
}

impl Grant {
    fn keep(mut self) -> ChannelId {
        self.kept = true;
        self.id
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        if !self.kept {
            self.driver.give_up_grant(self.id);
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.drop_endpoint();
        self.publish(None);
    }
}

/// Addresses that stand for the whole internet, one of each family.
const ANYWHERE: [SocketAddr; 2] = [
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 9),
    SocketAddr::new(
        IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
        9,
    ),
];

const NOT_TAKEN: &str = "the gateway has not said that it takes UDP";
const NO_ADDRESS: &str = "the address of the gateway's UDP port is not known";
const GRANT_PATIENCE: Duration = Duration::from_secs(10);
const ANSWER_PATIENCE: Duration = Duration::from_secs(10);
/// Most addresses that an association has.
const MAX_REMOTES: usize = 8;
const MAX_PLACES: usize = 16;
