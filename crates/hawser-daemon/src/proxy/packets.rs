//! Packets over the gateway: those of this machine that are not captured otherwise, and those of
//! hosts behind it.

use std::sync::Arc;
use std::time::Duration;

use hawser_capture::CarriedFamilies;
use hawser_config::IpNet;
use hawser_front::connection::SharedDirector;
use hawser_front::name_stub::{KnownNames, NameStub};
use hawser_front::packets::{InboundFlows, PacketTunnel, Terms, TunnelError, Wish, check_apart};
use hawser_front::peer::ReservedNames;
use hawser_front::this_machine::ThisMachine;
use hawser_host::tun::{NAME, Tun, TunAddresses, TunRoutes, create, set_up, until_lost};
use hawser_keys::unix_time::UnixTime;
use hawser_link::links::{default_routes, list_links, networks_on_links, particular_prefixes};
use hawser_link::names::Names;
use hawser_net::client::{Client, OpenStreamError};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::lan::{LanCapture, LanRouted};
use super::links::Links;

/// Time since which a kill switch is on, if it is.
pub(crate) type KillSwitchSince = watch::Receiver<Option<UnixTime>>;

/// Carries packets until ended, while the gateway carries packets.
pub(crate) struct CarriedPackets {
    task: JoinHandle<()>,
    begin: watch::Sender<bool>,
    end: watch::Sender<bool>,
    are_carried: Option<watch::Receiver<CarriedFamilies>>,
}

/// Senders of the packets that are carried.
pub(crate) struct Senders {
    /// This machine itself.
    pub(crate) machine: bool,
    /// Hosts behind it.
    pub(crate) lans: Option<Arc<LanCapture>>,
    /// Collects the names that the senders ask for.
    pub(crate) names: KnownNames,
    /// Names that no name server is asked for, and this machine, to which names must not resolve.
    pub(crate) reserved: (ReservedNames, ThisMachine),
    /// Whether other hosts may begin flows to the senders.
    pub(crate) inbound: InboundFlows,
}

impl CarriedPackets {
    /// Prepares to carry packets, beginning once there is a session and [`Self::begin`] was called.
    /// Returns `None` if there are no senders. `kill_switch` tells since when one is on. If
    /// `is_succeeding`, another process carries the packets until then.
    pub(crate) fn start(
        senders: Senders,
        client: Arc<Client>,
        links: Links,
        director: SharedDirector,
        (kill_switch, is_succeeding): (Option<KillSwitchSince>, bool),
    ) -> Option<Self> {
        if !senders.machine && senders.lans.is_none() {
            return None;
        }
        let by_another = is_succeeding && senders.machine;
        let (carried, are_carried) = watch::channel(CarriedFamilies {
            v4: by_another,
            v6: by_another,
        });
        let (begin, begun) = watch::channel(false);
        let (end, ended) = watch::channel(false);
        let are_carried = senders.machine.then_some(are_carried);
        let carrying = Carrying {
            senders,
            client,
            links,
            director,
            kill_switch,
            carried,
            ended,
        };
        Some(Self {
            task: tokio::spawn(carrying.run_from(begun)),
            begin,
            end,
            are_carried,
        })
    }

    /// Allows this process to carry packets from now on.
    pub(crate) fn begin(&self) {
        self.begin.send_replace(true);
    }

    /// Returns the families that are routed to the tunnel; `None` if this machine's packets are not
    /// carried.
    pub(crate) fn of_machine(&self) -> Option<watch::Receiver<CarriedFamilies>> {
        self.are_carried.clone()
    }

    /// Stops carrying packets. Routes are as before when this returns.
    pub(crate) async fn end(self) {
        self.end.send_replace(true);
        let _ = self.task.await;
    }
}

struct Carrying {
    senders: Senders,
    client: Arc<Client>,
    links: Links,
    director: SharedDirector,
    kill_switch: Option<KillSwitchSince>,
    carried: watch::Sender<CarriedFamilies>,
    ended: watch::Receiver<bool>,
}

impl Carrying {
    async fn run_from(self, mut begun: watch::Receiver<bool>) {
        let mut ended = self.ended.clone();
        tokio::select! {
            begun = begun.wait_for(|begun| *begun) => if begun.is_err() {
                return;
            },
            _ = ended.wait_for(|ended| *ended) => return,
        }
        self.carried.send_replace(CarriedFamilies::default());
        self.run().await;
    }

    async fn run(mut self) {
        let mut complaint = String::new();
        loop {
            let Err(error) = self.carry(&mut complaint).await else {
                return;
            };
            if let Some(TunnelError::Open(OpenStreamError::Closed)) = error.downcast_ref() {
                return;
            }
            let text = format!("{error:#}");
            if text != complaint {
                let kill_switch = self.kill_switch.as_ref();
                if kill_switch.is_some_and(|since| since.borrow().is_some()) {
                    tracing::warn!(error = text, "the kill switch drops packets");
                } else {
                    tracing::warn!(error = text, "packets bypass Hawser");
                }
                complaint = text;
            }
            let mut ended = self.ended.clone();
            tokio::select! {
                () = sleep(PAUSE) => {}
                _ = ended.wait_for(|ended| *ended) => return,
            }
        }
    }

    /// Carries packets until that fails, or until told to end. Clears the last `complaint` as soon
    /// as packets are carried.
    async fn carry(&mut self, complaint: &mut String) -> anyhow::Result<()> {
        let wish = Wish {
            is_permanent: true,
            is_for_hosts: self.senders.lans.is_some(),
            ..Wish::default()
        };
        let mut ended = self.ended.clone();
        let mut tunnel = tokio::select! {
            opened = PacketTunnel::open(&self.client, wish, self.senders.inbound) => opened?,
            _ = ended.wait_for(|ended| *ended) => return Ok(()),
        };
        for (granted, theirs) in tunnel.leave_out(&networks_here().await?) {
            tracing::warn!(
                "hosts share this machine's address in the tunnel: the far end grants them \
                 {granted}, which overlaps with their own network {theirs}; allowed is a network \
                 that is not behind this machine"
            );
        }
        let terms = tunnel.terms();
        check_apart(&terms, &nearby().await?)?;
        let (file, device) = create(NAME)?;
        let wanted = TunAddresses {
            addresses: terms.client.addresses().map(Into::into).collect(),
            mtu: terms.mtu,
            is_default: false,
        };
        set_up(&device, &wanted).await?;
        let tun = Tun::new(file)?;
        let (director, senders) = (self.director.clone(), &self.senders);
        let (reserved, names) = (senders.reserved.clone(), senders.names.clone());
        let names = Arc::new(NameStub::start(director, reserved, names, None).await);
        let begun = self.lead_to(&device, terms, &names);
        let (routes, lans) = begun.await?;
        tracing::info!(device, addresses = ?wanted.addresses, "packets go over the gateway");
        complaint.clear();
        self.carried.send_replace(CarriedFamilies {
            v4: self.senders.machine && terms.client.v4.is_some(),
            v6: self.senders.machine && terms.client.v6.is_some(),
        });
        let outcome = tokio::select! {
            error = tunnel.carry(tun, names) => Err(error.into()),
            error = until_lost(&device) => Err(error.into()),
            _ = ended.wait_for(|ended| *ended) => Ok(()),
        };
        self.carried.send_replace(CarriedFamilies::default());
        if let Some(routes) = routes {
            routes.end().await;
        }
        if let Some(lans) = lans {
            lans.end().await;
        }
        outcome
    }

    /// Routes packets to the device.
    async fn lead_to(
        &self,
        device: &str,
        terms: Terms,
        names: &NameStub,
    ) -> anyhow::Result<(Option<TunRoutes>, Option<LanRouted>)> {
        let lans = match &self.senders.lans {
            Some(lans) => Some(lans.route(device, terms, names).await?),
            None => None,
        };
        if !self.senders.machine {
            return Ok((None, lans));
        }
        match TunRoutes::begin(device, terms.client.addresses(), self.links.clone()).await {
            Ok(routes) => Ok((Some(routes), lans)),
            Err(error) => {
                if let Some(lans) = lans {
                    lans.end().await;
                }
                Err(error.into())
            }
        }
    }
}

/// Returns all networks that this machine has routes to, except default routes.
async fn networks_here() -> anyhow::Result<Vec<IpNet>> {
    let mut here = particular_prefixes().await?;
    // Leave out addresses of tunnels, such as this one's earlier address.
    here.retain(|net| net.prefix_len() < net.max_prefix_len());
    Ok(here)
}

/// Returns the networks on this machine's links, its routers and its name servers.
async fn nearby() -> anyhow::Result<Vec<IpNet>> {
    let mut nearby = networks_on_links().await?;
    // Leave out addresses of tunnels, such as this one's earlier address.
    nearby.retain(|net| net.prefix_len() < net.max_prefix_len());
    let routers = default_routes().await?.into_iter();
    nearby.extend(routers.filter_map(|route| route.gateway).map(IpNet::from));
    let servers = Names::new().servers(&list_links().await?).await;
    nearby.extend(servers.iter().map(|server| IpNet::from(server.ip())));
    Ok(nearby)
}

/// Pause before the next try.
const PAUSE: Duration = Duration::from_secs(5);
