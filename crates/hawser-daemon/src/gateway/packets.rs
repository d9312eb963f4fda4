//! Packets of a gateway's clients: the device, the route to the internet, and clients' addresses.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use hawser_config::{IpNet, PacketExit as Wanted, ServeConfig};
use hawser_front::gateway::{ClientId, DestinationPolicy};
use hawser_front::packets::{AddressPool, Exchange, MTU};
use hawser_host::packet_exit::{
    ExitKind, ExitPlan, FlowLimits, PacketExit, longest_tracked, refused_flows,
};
use hawser_host::tun::{NAME, Tun, TunAddresses, create, set_up, until_lost};
use hawser_keys::identity::PublicKey;
use hawser_keys::store::{GatewayStore, PacketAddresses, StateDir};
use hawser_link::links::{Link, list_links};
use parking_lot::{Mutex, MutexGuard};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::guard::start_guard;

/// Carries packets until dropped.
pub(crate) struct Packets {
    pub(crate) exchange: Arc<Exchange>,
    plan: ExitPlan,
    /// `None` while another process carries the packets.
    task: Mutex<Option<JoinHandle<()>>>,
}

/// The TUN device for clients' packets, and the forwarding of these packets to the internet.
struct Begun {
    tun: Tun,
    device: String,
    exit: PacketExit,
}

impl Packets {
    /// Begins to carry packets, if configured.
    pub(crate) async fn start(
        config: &ServeConfig,
        state: &StateDir,
        policy: DestinationPolicy,
    ) -> anyhow::Result<Option<Self>> {
        let kind = match config.packet_exit {
            Wanted::Off => return Ok(None),
            Wanted::Nat => ExitKind::Nat,
            Wanted::Routed => ExitKind::Routed,
        };
        let networks = carried(&config.packet_pool).await?;
        let mut pool = AddressPool::new(&networks, longest_tracked()).context("--packet-pool")?;
        let addresses = PacketAddresses::open(state)?;
        let peers = Arc::new(GatewayStore::open(state)?);
        let now = Instant::now();
        for (key, own) in addresses.given() {
            let client = ClientId::new(*key.as_bytes());
            if peers.is_peer(&key) {
                pool.remember(now, client, own);
            } else {
                // The kernel may still track connections of the client's hosts.
                pool.remember_block(now, client, own.block);
            }
        }
        let addresses = Arc::new(addresses);
        let nets = pool.gateway();
        let plan = ExitPlan {
            clients: nets.clone(),
            kind,
            opened: config.allow_destination.clone(),
            flows: FlowLimits {
                per_client: config.limits.packet_flows_per_client,
                per_second: config.limits.packet_flows_per_second,
            },
        };
        let begun = begin(&plan).await.context("--packet-exit")?;
        let keep = move |client: ClientId, own| {
            let key = PublicKey::from_bytes(client.to_bytes());
            let (peers, addresses) = (Arc::clone(&peers), Arc::clone(&addresses));
            // Writing waits for the disk and for other processes.
            tokio::task::spawn_blocking(move || {
                let _ = peers.reload_if_changed();
                if let Err(error) = addresses.give(key, own, |key| peers.is_peer(key)) {
                    tracing::warn!(%error, "can't save a client's inner addresses");
                }
            });
        };
        let exchange = Arc::new(Exchange::new(pool, policy, keep));
        tracing::info!(device = begun.device, ?nets, "clients' packets are carried");
        let carrying = carry(Arc::clone(&exchange), begun, plan.clone());
        let task = Mutex::new(Some(tokio::spawn(carrying)));
        Ok(Some(Self {
            exchange,
            plan,
            task,
        }))
    }

    /// Stops carrying packets. The system is as before when this returns.
    pub(crate) async fn end(self) {
        self.suspend().await;
    }

    /// Stops carrying packets until [`Self::resume`]; clients' packets are lost meanwhile.
    pub(crate) async fn suspend(&self) {
        let task = self.task().take();
        if let Some(task) = task {
            task.abort();
            // The device and the route are removed with the task.
            let _ = task.await;
        }
    }

    /// Carries packets again.
    pub(crate) fn resume(&self) {
        let exchange = Arc::clone(&self.exchange);
        let plan = self.plan.clone();
        let carrying = async move {
            let begun = begin_again(&plan).await;
            carry(exchange, begun, plan).await;
        };
        *self.task() = Some(tokio::spawn(carrying));
    }

    fn task(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.task.lock()
    }
}

impl Drop for Packets {
    fn drop(&mut self) {
        self.task().iter().for_each(JoinHandle::abort);
    }
}

/// Returns the networks whose families this machine has a route for. Clients prefer IPv6, so they
/// must not get it without a route.
async fn carried(pool: &[IpNet]) -> anyhow::Result<Vec<IpNet>> {
    let links = list_links().await.context("can't list the links")?;
    let has_v6 = links.iter().any(|link| link.has_default_route_v6);
    let is_carried = |net: &&IpNet| matches!(net, IpNet::V4(_)) || has_v6;
    Ok(pool.iter().filter(is_carried).copied().collect())
}

/// Returns why a pool can't be used: one of this machine's addresses is in it.
fn clash(pool: &IpNet, links: &[Link]) -> Option<String> {
    links.iter().find_map(|link| {
        let address = link.addresses.iter().find(|it| pool.contains(*it))?;
        let (name, pool) = (&link.name, pool.trunc());
        Some(format!(
            "packet-pool is {pool}, and {name} of this machine has {address}; allowed: a private \
             network that contains no address of this machine"
        ))
    })
}

/// Carries packets, for ever. Recreates a device that another program removes, renames or sets
/// down.
async fn carry(exchange: Arc<Exchange>, mut begun: Begun, plan: ExitPlan) {
    loop {
        let Begun { tun, device, exit } = begun;
        let exit = Arc::new(Mutex::new(exit));
        let problem = tokio::select! {
            error = exchange.run(tun) => anyhow::Error::from(error),
            error = until_lost(&device) => error.into(),
            error = limit_flows(&exchange, &exit) => error,
        };
        tracing::warn!("clients' packets are not carried: {problem:#}");
        // Dropping the exit waits for a process.
        let _ = tokio::task::spawn_blocking(move || drop(exit)).await;
        begun = begin_again(&plan).await;
        let device = &begun.device;
        tracing::info!(device, "clients' packets are carried again");
    }
}

/// Updates the limits for flows as clients connect and leave, and counts the flows that the limits
/// refuse. Returns the error once an update fails.
async fn limit_flows(exchange: &Exchange, exit: &Arc<Mutex<PacketExit>>) -> anyhow::Error {
    let table = exit.lock().table().to_owned();
    let (mut counted, mut counted_at) = (0, Instant::now());
    let mut counting: Option<JoinHandle<Result<u64, _>>> = None;
    loop {
        let owned = exchange.owned().into_iter();
        let owned = owned.map(|(net, client)| (net, client.to_bytes()));
        let (owned, exit) = (owned.collect(), Arc::clone(exit));
        // A large change runs a process and waits for it; packets are carried meanwhile.
        let changed = tokio::task::spawn_blocking(move || exit.lock().limit_flows(&owned));
        match changed.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return error.into(),
            Err(error) => return error.into(),
        }
        // Updates do not wait for the count: it runs a process, which takes long under load.
        if let Some(finished) = counting.take_if(|it| it.is_finished())
            && let Ok(Ok(refused)) = finished.await
        {
            let counters = exchange.counters();
            counters.add_refused_flows(refused.saturating_sub(counted));
            if counted == 0 && refused > 0 {
                tracing::warn!(refused, "flows of clients are beyond limits");
            }
            counted = refused;
        }
        if counting.is_none() && counted_at.elapsed() >= COUNT_PERIOD {
            counted_at = Instant::now();
            let table = table.clone();
            counting = Some(tokio::task::spawn_blocking(move || refused_flows(&table)));
        }
        exchange.moved().await;
        // Tunnels that open and close within this pause need one update together, or no update.
        sleep(BETWEEN_CHANGES).await;
    }
}

async fn begin_again(plan: &ExitPlan) -> Begun {
    let (mut pause, mut complaint) = (FIRST_PAUSE, String::new());
    loop {
        sleep(pause).await;
        match begin(plan).await {
            Ok(begun) => return begun,
            Err(error) => {
                let text = format!("{error:#}");
                if text != complaint {
                    tracing::warn!("clients' packets are not carried: {text}");
                    complaint = text;
                }
            }
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Creates the device, unless an address of this machine is in the clients' pool.
async fn begin(plan: &ExitPlan) -> anyhow::Result<Begun> {
    let links = list_links().await.context("can't list the links")?;
    if let Some(problem) = plan.clients.iter().find_map(|net| clash(net, &links)) {
        bail!("{problem}");
    }
    let (file, device) = create(NAME)?;
    let wanted = TunAddresses {
        addresses: plan.clients.clone(),
        mtu: MTU,
        is_default: false,
    };
    set_up(&device, &wanted).await?;
    let (name, plan) = (device.clone(), plan.clone());
    let beginning = tokio::task::spawn_blocking(move || {
        anyhow::Ok(PacketExit::begin(&name, &plan, start_guard()?)?)
    });
    let exit = beginning.await??;
    let tun = Tun::new(file)?;
    Ok(Begun { tun, device, exit })
}

/// Pause between updates of the limits for clients' addresses.
const BETWEEN_CHANGES: Duration = Duration::from_millis(50);
/// Period of reading the kernel's count of refused flows, while packets pass.
const COUNT_PERIOD: Duration = Duration::from_secs(2);
/// First pause before a device is created again.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use hawser_types::LinkIndex;

    use super::*;

    #[test]
    fn a_pool_that_an_address_of_this_machine_is_in_is_refused() {
        let link = |name: &str, addresses: &[&str]| Link {
            addresses: addresses.iter().map(|it| it.parse().unwrap()).collect(),
            has_default_route_v4: true,
            takes_ordinary_v4: true,
            ..Link::new(LinkIndex::new(1), name)
        };
        let links = [
            link("eth0", &["192.0.2.7"]),
            link("eth1", &["fd48::1", "10.83.7.1"]),
        ];
        let clash = |pool: &str| clash(&pool.parse().unwrap(), &links);
        assert_eq!(clash("10.84.0.0/16"), None);
        assert_eq!(clash("fd48:1::/64"), None);
        // A pool with the gateway's address in it.
        let told = clash("10.83.0.1/16").unwrap();
        assert!(
            told.starts_with("packet-pool is 10.83.0.0/16, and eth1"),
            "{told}"
        );
        assert!(clash("fd48::/64").is_some());
    }
}
