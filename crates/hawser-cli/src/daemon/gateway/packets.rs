//! Packets of a gateway's clients: the device, the way to the internet, and who has which address.

use std::process::Command;
use std::sync::Arc;

use anyhow::Context as _;
use hawser_config::{IpNet, PacketExit as Wanted, ServeConfig};
use hawser_front::gateway::{ClientId, DestinationPolicy};
use hawser_front::packets::{AddressPool, Exchange, MTU};
use hawser_net::guard::Guard;
use hawser_net::identity::PublicKey;
use hawser_net::links::list_links;
use hawser_net::packet_exit::{ExitKind, PacketExit};
use hawser_net::store::{GatewayStore, PacketAddresses, StateDir};
use hawser_net::tun::{NAME, Tun, TunAddresses, create, set_up};
use tokio::task::JoinHandle;

/// Packets are carried for as long as this lives.
pub(crate) struct Packets {
    pub(crate) exchange: Arc<Exchange>,
    task: JoinHandle<()>,
    _exit: PacketExit,
}

impl Packets {
    /// Begins, if `config` wants packets carried.
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
        let mut pool = AddressPool::new(&networks).context("--packet-pool")?;
        let addresses = PacketAddresses::open(state)?;
        let peers = Arc::new(GatewayStore::open(state)?);
        for (key, number) in addresses.given() {
            if peers.is_peer(&key) {
                pool.remember(ClientId::new(*key.as_bytes()), number);
            }
        }
        let addresses = Arc::new(addresses);
        let begun = begin(&pool, kind).await;
        let (tun, device, exit) = begun.context("--packet-exit")?;
        let keep = move |client: ClientId, number| {
            let key = PublicKey::from_bytes(client.to_bytes());
            let (peers, addresses) = (Arc::clone(&peers), Arc::clone(&addresses));
            // Writing waits for disks and for other processes.
            tokio::task::spawn_blocking(move || {
                let _ = peers.reload_if_changed();
                if let Err(error) = addresses.give(key, number, |key| peers.is_peer(key)) {
                    tracing::warn!(%error, "a client's inner address is not remembered");
                }
            });
        };
        let nets = pool.gateway();
        let exchange = Arc::new(Exchange::new(tun, pool, policy, keep));
        tracing::info!(device, ?nets, "clients' packets are carried");
        let running = Arc::clone(&exchange);
        let task = tokio::spawn(async move {
            if let Err(error) = running.run().await {
                tracing::error!(%error, "clients' packets are carried no longer");
            }
        });
        Ok(Some(Self {
            exchange,
            task,
            _exit: exit,
        }))
    }
}

impl Drop for Packets {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The networks of families that this machine has a way out for: clients would prefer IPv6 to
/// nowhere.
async fn carried(pool: &[IpNet]) -> anyhow::Result<Vec<IpNet>> {
    let links = list_links().await.context("can't list the links")?;
    let has_v6 = links.iter().any(|link| link.has_default_route_v6);
    let is_carried = |net: &&IpNet| matches!(net, IpNet::V4(_)) || has_v6;
    Ok(pool.iter().filter(is_carried).copied().collect())
}

async fn begin(pool: &AddressPool, kind: ExitKind) -> anyhow::Result<(Tun, String, PacketExit)> {
    let addresses = pool.gateway();
    let (file, device) = create(NAME)?;
    let wanted = TunAddresses {
        addresses: addresses.clone(),
        mtu: MTU,
        is_default: false,
    };
    set_up(&device, &wanted).await?;
    let mut guard = Command::new(std::env::current_exe()?);
    guard.arg("guard");
    let name = device.clone();
    let beginning = tokio::task::spawn_blocking(move || {
        let guard = Guard::start(guard).context("can't start a guard")?;
        anyhow::Ok(PacketExit::begin(&name, &addresses, kind, guard)?)
    });
    let exit = beginning.await??;
    Ok((Tun::new(file)?, device, exit))
}
