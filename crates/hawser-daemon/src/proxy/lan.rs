//! `hawser up --capture lan:INTERFACE`: hosts behind this machine, which is their router.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use hawser_front::name_stub::{NameStub, StubPort};
use hawser_front::packets::Terms;
use hawser_front::proxy::ProxyCounters;
use hawser_front::redirect::{Forwarded, RedirectServer};
use hawser_front::transport::Dialer;
use hawser_host::lan::{
    LanHold, LanPlan, LanPorts, LanRouting, check, check_system, listen, listen_for_names,
};
use hawser_link::links::{Link, OwnAddresses, list_links};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::sleep;

use super::direct::ConnectionRules;
use crate::guard::start_guard;

/// The configured interfaces, after a check that they can be used.
#[derive(Clone, Debug)]
pub(crate) struct Lans {
    interfaces: Vec<String>,
}

impl Lans {
    /// Checks that these interfaces, and this machine, can be used. `links` are the links that the
    /// user has named. Returns `None` without an interface.
    pub(crate) async fn find(
        interfaces: Vec<String>,
        links: &[String],
    ) -> anyhow::Result<Option<Self>> {
        if interfaces.is_empty() {
            return Ok(None);
        }
        let all = list_links().await.context("can't list the links")?;
        let lans = Self { interfaces };
        let checked = check(&lans.interfaces, &all, links);
        checked.with_context(|| lans.flags())?;
        let checked = spawn_blocking(check_system).await?;
        checked.with_context(|| lans.flags())?;
        Ok(Some(lans))
    }

    /// Opens the ports for hosts' TCP connections; `dialer` connects to their destinations.
    pub(crate) fn take<D: Dialer>(
        self,
        dialer: &Arc<D>,
        own: OwnAddresses,
        rules: ConnectionRules,
    ) -> anyhow::Result<LanCapture> {
        let v4 = listen(false).with_context(|| self.flags())?;
        let v6 = listen(true);
        let v6 =
            v6.inspect_err(|error| tracing::debug!(%error, "can't accept hosts' IPv6 connections"));
        let forwarded = Forwarded::new(own);
        let server = RedirectServer::with(v4, v6.ok(), Arc::clone(dialer), forwarded)?;
        let ports = LanPorts {
            v4: server.v4(),
            v6: server.v6(),
        };
        let counters = server.counters();
        let serving = server.run(std::future::pending());
        Ok(LanCapture {
            lans: self,
            ports,
            rules,
            counters,
            server: tokio::spawn(serving),
            hold: Mutex::default(),
        })
    }

    /// Returns the command-line flags that name the interfaces, for error messages.
    fn flags(&self) -> String {
        let flags = self
            .interfaces
            .iter()
            .map(|it| format!("--capture lan:{it}"));
        flags.collect::<Vec<_>>().join(" ")
    }
}

/// The ports for hosts' connections, open until dropped. No traffic is redirected there yet.
/// `rules` decide which connections go as packets instead.
pub(crate) struct LanCapture {
    lans: Lans,
    ports: LanPorts,
    rules: ConnectionRules,
    counters: Arc<ProxyCounters>,
    server: JoinHandle<()>,
    /// Holds hosts' traffic while this process takes over the routing from another one.
    hold: Mutex<Option<LanHold>>,
}

/// Routes hosts until dropped or ended.
pub(crate) struct LanRouted {
    routing: JoinHandle<()>,
    end: oneshot::Sender<()>,
    _names: Vec<StubPort>,
}

impl LanCapture {
    /// Returns the counters of hosts' connections.
    pub(crate) fn counters(&self) -> Arc<ProxyCounters> {
        Arc::clone(&self.counters)
    }

    /// Holds the traffic of hosts from before another process stops routing until this one routes,
    /// or until [`LONGEST_HOLD`] has passed.
    pub(crate) async fn hold(self: &Arc<Self>) {
        let begun = async {
            let guard = start_guard()?;
            anyhow::Ok(LanHold::begin(&self.lans.interfaces, guard).await?)
        };
        match begun.await {
            Ok(hold) => *self.held() = Some(hold),
            Err(error) => {
                tracing::warn!("can't hold hosts' traffic during the upgrade: {error:#}");
            }
        }
        let held = Arc::downgrade(self);
        tokio::spawn(async move {
            sleep(LONGEST_HOLD).await;
            if let Some(lans) = held.upgrade() {
                lans.let_go().await;
            }
        });
    }

    async fn let_go(&self) {
        let hold = self.held().take();
        if let Some(hold) = hold {
            hold.end().await;
        }
    }

    fn held(&self) -> MutexGuard<'_, Option<LanHold>> {
        self.hold.lock()
    }

    /// Routes hosts' traffic to the TUN device and to the ports, and answers their DNS queries with
    /// `names`. `terms` are the addresses that the gateway has granted.
    pub(crate) async fn route(
        &self,
        device: &str,
        terms: Terms,
        names: &NameStub,
    ) -> anyhow::Result<LanRouted> {
        let guard = start_guard()?;
        let plan = LanPlan {
            interfaces: self.lans.interfaces.clone(),
            device: device.to_owned(),
            families: terms.client.addresses().collect(),
            hosts: terms.hosts.networks().collect(),
            ports: self.ports,
            rules: self.rules.borrow().rules().to_vec(),
        };
        let routing = LanRouting::begin(plan, guard).await;
        let routing = routing.with_context(|| self.lans.flags())?;
        let is_succeeding = self.held().is_some();
        let names = self.answer(names, is_succeeding).await;
        self.let_go().await;
        // Logged last: readers of the log may use the routes and the name server at once.
        tracing::info!(interfaces = ?self.lans.interfaces, device, "hosts are routed");
        let (end, ended) = oneshot::channel();
        Ok(LanRouted {
            routing: tokio::spawn(obey(routing, self.rules.clone(), ended)),
            end,
            _names: names,
        })
    }

    /// Answers DNS queries at the addresses of the interfaces, except where a name server runs.
    /// `is_succeeding`: another process may still answer its last queries there.
    async fn answer(&self, names: &NameStub, is_succeeding: bool) -> Vec<StubPort> {
        let listed = list_links().await.inspect_err(|error| {
            tracing::warn!(%error, "can't answer the hosts' DNS queries");
        });
        let links = listed.unwrap_or_default().into_iter();
        let lans = links.filter(|link| self.lans.interfaces.contains(&link.name));
        let mut ports = Vec::new();
        for lan in lans {
            for address in &lan.addresses {
                let mut tries = if is_succeeding { MOST_TRIES } else { 1 };
                let opened = loop {
                    tries -= 1;
                    match open_for_names(&lan, *address, names) {
                        Err(error) if is_in_use(&error) && tries > 0 => sleep(PAUSE).await,
                        opened => break opened,
                    }
                };
                match opened {
                    Ok(port) => ports.push(port),
                    Err(error) => {
                        tracing::info!(%address, %error, "DNS queries at port 53 are not answered");
                    }
                }
            }
        }
        ports
    }
}

impl Drop for LanCapture {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl LanRouted {
    /// Ends the routing. The network is as before when this returns.
    pub(crate) async fn end(self) {
        let _ = self.end.send(());
        let _ = self.routing.await;
    }
}

fn open_for_names(lan: &Link, address: IpAddr, names: &NameStub) -> io::Result<StubPort> {
    let (tcp, udp) = listen_for_names(lan, address)?;
    names.answer_at(tcp, udp)
}

fn is_in_use(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrInUse
}

/// Applies the rules as they change, until `ended` resolves; then ends the routing.
async fn obey(
    mut routing: LanRouting,
    mut rules: ConnectionRules,
    mut ended: oneshot::Receiver<()>,
) {
    loop {
        tokio::select! {
            changed = rules.changed() => if changed.is_err() {
                // The rules do not change any more.
                let _ = (&mut ended).await;
                break;
            },
            _ = &mut ended => break,
        }
        let now = rules.borrow_and_update().rules().to_vec();
        if let Err(error) = routing.set_rules(now).await {
            tracing::warn!(%error, "can't change which connections of hosts go as packets");
        }
    }
    routing.end().await;
}

/// Longest time from before another process stops routing until this one routes.
const LONGEST_HOLD: Duration = Duration::from_secs(8);
/// Limit of tries to open the DNS ports, which another process may still have for a moment.
const MOST_TRIES: u32 = 30;
const PAUSE: Duration = Duration::from_millis(100);
