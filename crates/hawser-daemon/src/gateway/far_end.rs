//! Common parts of `serve` and `receive`: a daemon that accepts clients.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use anyhow::Context as _;
use hawser_config::ServeConfig;
use hawser_control::{DirectoryStatus, LinkStatus, PolicyStatus, Role};
use hawser_front::gateway::{GatewayCounters, MeetingPlace};
use hawser_front::packets::PacketCounters;
use hawser_keys::store::StateDir;
use hawser_link::links::{Link, LinkMonitor};
use hawser_net::gateway::{Gateway, Incoming};
use hawser_net::takeover::PortOf;
use hawser_sched::chunk::ChunkPolicy;
use hawser_sched::packet::PacketPolicy;
use hawser_session::recorder::Recorder;
use hawser_types::Instant;
use tokio::sync::watch;

use crate::counters::flat;
use crate::gateway::directory::{OwnDirectory, PlannedDirectory};
use crate::gateway::door::{Door, InviteWish, watch_peers};
use crate::gateway::front_door::{FrontDoor, Services, ShownFront};
use crate::gateway::packets::Packets;
use crate::gateway::views::{congestion_name, read_recorder, views};
use crate::setup::{Setup, link_list};
use crate::subject::{Subject, View};
use crate::takeover::{Passed, Successor};
use crate::web::Web;
use crate::{Asked, Asking, Daemon};

/// A daemon that accepts clients.
pub struct FarEnd<'a> {
    pub(crate) setup: &'a Setup,
    /// State directory with the key, the peers and the daemon's lock.
    pub(crate) state: &'a StateDir,
    pub(crate) config: &'a ServeConfig,
    pub(crate) role: Role,
    /// File for the invite.
    pub(crate) invite_file: Option<&'a Path>,
    /// Command that a client runs with the invite.
    pub(crate) command: &'a str,
    /// Counters of the relay, which `hawser status` shows with those of the port.
    pub(crate) relay: Option<Arc<GatewayCounters>>,
    /// Carries clients' packets; `None` if packets are not carried.
    pub(crate) packets: Option<Packets>,
    /// Meeting place of clients, whose counters `hawser status` shows, too.
    pub(crate) meeting: Option<Arc<MeetingPlace>>,
    /// The directory to run beside the port.
    pub(crate) directory: Option<PlannedDirectory>,
    /// Services for hosts that have not enrolled.
    pub(crate) services: Services,
}

impl<'a> FarEnd<'a> {
    /// Returns a far end that receives files: it carries no packets and fronts no service. Its key
    /// and its peers are in `state`.
    pub fn receiving(
        setup: &'a Setup,
        state: &'a StateDir,
        config: &'a ServeConfig,
        invite_file: Option<&'a Path>,
    ) -> Self {
        Self {
            setup,
            state,
            config,
            role: Role::Receiver,
            invite_file,
            command: "hawser send FILE|DIR --to INVITE",
            relay: None,
            packets: None,
            meeting: None,
            directory: None,
            services: Services::default(),
        }
    }

    /// Opens the port, shows the invite, and passes every stream to `serve` until the daemon is
    /// asked to end. Then ends all sessions in order.
    pub async fn run(self, daemon: &Daemon, serve: impl Fn(Incoming)) -> anyhow::Result<()> {
        let web = Web::start(self.config.web, self.state, daemon)?;
        let (_monitor, links) = LinkMonitor::start()
            .await
            .context("can't follow the links")?;
        let wish = InviteWish {
            file: self.invite_file,
            // Each run of a receiver makes an invite for its own sender.
            always: self.role == Role::Receiver,
        };
        let of = (self.setup, self.state, self.config);
        let door = Door::open(of, links.clone(), wish, daemon.predecessor()).await?;
        let directory = match self.directory {
            Some(plan) => Some(Arc::new(OwnDirectory::start(plan, self.state).await?)),
            None => None,
        };
        let front = FrontDoor::open(of, self.services, &links, daemon.predecessor()).await?;
        door.announce(self.invite_file, self.command)?;
        // The invite is written before the address appears, so that readers of the address find it.
        daemon.set_listen(door.listen).await?;
        let gateway = Arc::new(door.gateway);
        if let Some(meeting) = &self.meeting {
            meeting.set_gateway(&gateway);
        }
        daemon.show(GatewaySubject {
            gateway: Arc::downgrade(&gateway),
            relay: self.relay,
            packets: self.packets.as_ref().map(|it| it.exchange.counters()),
            meeting: self.meeting,
            front: front.as_ref().map(FrontDoor::shown),
            directory: directory.clone(),
            links,
            names: GatewayNames::of(self.setup),
        });
        tokio::spawn(watch_peers(Arc::downgrade(&gateway), door.store));
        let mut asking = daemon.requests();
        let one = OfOneProcess {
            packets: self.packets.as_ref(),
            front: front.as_ref(),
            directory: directory.as_deref(),
        };
        let successor = replaced(daemon, &gateway, &serve, (&mut asking, one)).await;
        if let Some(successor) = &successor {
            serve_rest((&gateway, front.as_ref()), &serve, successor, daemon).await;
        }
        tracing::info!("ending all sessions");
        gateway.close(END_PATIENCE).await;
        if let Some(front) = front {
            front.end(END_PATIENCE, successor.is_some()).await;
        }
        web.end().await;
        if let Some(packets) = self.packets {
            packets.end().await;
        }
        match successor {
            Some(successor) => successor.outlive(daemon.asked_to_end()).await,
            None => Ok(()),
        }
    }
}

/// The resources that only one process can have at a time.
#[derive(Clone, Copy)]
struct OfOneProcess<'a> {
    packets: Option<&'a Packets>,
    front: Option<&'a FrontDoor>,
    directory: Option<&'a OwnDirectory>,
}

impl OfOneProcess<'_> {
    /// Gives up the resources until [`Self::resume`].
    async fn suspend(self) {
        if let Some(front) = self.front {
            front.suspend().await;
        }
        if let Some(directory) = self.directory {
            directory.suspend().await;
        }
        if let Some(packets) = self.packets {
            packets.suspend().await;
        }
    }

    /// Takes the resources again.
    async fn resume(self) {
        self.front.into_iter().for_each(FrontDoor::resume);
        self.packets.into_iter().for_each(Packets::resume);
        if let Some(directory) = self.directory {
            directory.resume().await;
        }
    }
}

/// Serves until another process has taken over; returns `None` if the daemon is asked to end.
async fn replaced(
    daemon: &Daemon,
    gateway: &Gateway,
    serve: &impl Fn(Incoming),
    (asking, one): (&mut Asking<'_>, OfOneProcess<'_>),
) -> Option<Successor> {
    loop {
        match serve_until(gateway, serve, asking.next()).await? {
            Asked::ToEnd => return None,
            Asked::ToYield(takeover) => {
                one.suspend().await;
                if let Some(successor) = daemon.hand_on(*takeover).await {
                    return Some(successor);
                }
                one.resume().await;
            }
        }
    }
}

/// Serves open sessions until they end, the time limit is reached, or the daemon is asked to end.
async fn serve_rest(
    (gateway, front): (&Gateway, Option<&FrontDoor>),
    serve: &impl Fn(Incoming),
    successor: &Successor,
    daemon: &Daemon,
) {
    let strangers = front.map(FrontDoor::gateway);
    for door in [gateway].into_iter().chain(strangers) {
        door.stop_listening();
        door.go_away();
    }
    let open = || gateway.session_count() as u64 + front.map_or(0, FrontDoor::open_count);
    let taking = take_passed(successor, gateway, strangers);
    let serving = successor.serve_rest(open, taking, daemon.asked_to_end());
    serve_until(gateway, serve, serving).await;
}

/// Serves streams until `happening` resolves, and returns its output; `None` if no more streams
/// can arrive.
async fn serve_until<T>(
    gateway: &Gateway,
    serve: &impl Fn(Incoming),
    happening: impl Future<Output = T>,
) -> Option<T> {
    tokio::pin!(happening);
    loop {
        tokio::select! {
            happened = &mut happening => return Some(happened),
            incoming = gateway.accept() => serve(incoming?),
        }
    }
}

/// Takes connections and datagrams that the new process received for this one. Never returns.
async fn take_passed(successor: &Successor, gateway: &Gateway, strangers: Option<&Gateway>) {
    loop {
        match successor.next().await {
            Passed::Datagrams(datagrams) => gateway.take_datagrams(datagrams),
            Passed::Join(connection, join) => {
                let door = match join.port {
                    PortOf::Clients => Some(gateway),
                    // Any host can connect here, so a connection must belong to a session.
                    PortOf::Strangers => strangers.filter(|it| it.has_session_of(&join)),
                };
                let taken = door.map(|door| door.take_join(connection, &join));
                if let Some(Err(error)) = taken {
                    tracing::debug!(%error, "can't accept a connection from the new process");
                }
            }
            // Only clients accept offers.
            Passed::Offer(..) => {}
        }
    }
}

/// The parts of a gateway that `hawser status` shows.
struct GatewaySubject {
    gateway: Weak<Gateway>,
    relay: Option<Arc<GatewayCounters>>,
    packets: Option<Arc<PacketCounters>>,
    meeting: Option<Arc<MeetingPlace>>,
    front: Option<ShownFront>,
    directory: Option<Arc<OwnDirectory>>,
    links: watch::Receiver<Arc<Vec<Link>>>,
    names: GatewayNames,
}

/// Names of the schedulers and the congestion control that a gateway's sessions use.
struct GatewayNames {
    scheduler: &'static str,
    packet_scheduler: &'static str,
    congestion: String,
}

impl GatewayNames {
    fn of(setup: &Setup) -> Self {
        let session = &setup.config.session;
        Self {
            scheduler: session.scheduler.name(),
            packet_scheduler: session.packet_scheduler.name(),
            congestion: congestion_name(session),
        }
    }
}

impl GatewaySubject {
    /// Returns the open ports: for clients, and for hosts that have not enrolled.
    fn doors(&self) -> impl Iterator<Item = Arc<Gateway>> {
        let front = self.front.as_ref().and_then(|front| front.door.upgrade());
        self.gateway.upgrade().into_iter().chain(front)
    }
}

impl Subject for GatewaySubject {
    fn sessions(&self, wanted: &dyn Fn(&str) -> bool, max_streams: usize) -> Vec<View> {
        let congestion = &self.names.congestion;
        let of_door = |door: Arc<Gateway>| views(&door, wanted, max_streams, congestion);
        self.doors().flat_map(of_door).collect()
    }

    fn session_count(&self) -> usize {
        self.doors().map(|gateway| gateway.session_count()).sum()
    }

    fn links(&self) -> Vec<LinkStatus> {
        link_list(&self.links.borrow(), &[], false)
    }

    fn directory(&self, most: usize) -> Option<DirectoryStatus> {
        self.directory.as_ref()?.status(most)
    }

    fn policy(&self) -> Option<PolicyStatus> {
        Some(PolicyStatus {
            sessions: self.names.scheduler.to_owned(),
            packets: Some(self.names.packet_scheduler.to_owned()),
            packets_known: PacketPolicy::ALL.map(|it| it.name().to_owned()).into(),
            sessions_known: ChunkPolicy::ALL.map(|it| it.name().to_owned()).into(),
            ..PolicyStatus::default()
        })
    }

    fn recorder(&self, session: &str, read: &mut dyn FnMut(&Recorder, Instant)) -> bool {
        self.doors()
            .any(|gateway| read_recorder(&gateway, session, read))
    }

    fn counters(&self) -> BTreeMap<String, u64> {
        let mut list = BTreeMap::new();
        if let Some(gateway) = self.gateway.upgrade() {
            flat(&mut list, "door", &gateway.counters());
        }
        if let Some(relay) = &self.relay {
            flat(&mut list, "gateway", &relay.snapshot());
        }
        if let Some(packets) = &self.packets {
            flat(&mut list, "packets", &packets.snapshot());
        }
        if let Some(meeting) = &self.meeting {
            flat(&mut list, "meeting", &meeting.stats());
        }
        if let Some(front) = &self.front {
            if let Some(door) = front.door.upgrade() {
                flat(&mut list, "front-door", &door.counters());
            }
            flat(&mut list, "front", &front.counters.snapshot());
            front.answers.list(&mut list, "front-handshakes");
        }
        let directory = self.directory.as_ref();
        if let Some(counts) = directory.and_then(|it| it.counts()) {
            flat(&mut list, "directory", &counts);
        }
        list
    }
}

const END_PATIENCE: Duration = Duration::from_secs(3);
