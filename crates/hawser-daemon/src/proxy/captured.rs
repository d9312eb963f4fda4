//! `hawser up --capture`: places connections of unaware programs on links, in the kernel.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use hawser_capture::process::{Process, is_outermost};
use hawser_capture::{Capture, CarriedFamilies, Origins, Settings, Unruled, mount_point};
use hawser_config::CaptureScope;
use hawser_front::connection::{KernelPlaces, Origin, SharedDirector};
use hawser_front::name_stub::{KnownNames, NameStub};
use hawser_front::peer::{DiscoveredServers, ReservedNames, VouchedServers};
use hawser_front::proxy::ProxyCounters;
use hawser_front::redirect::{Lookup, RedirectServer, Redirected};
use hawser_front::this_machine::ThisMachine;
use hawser_front::transport::Dialer;
use hawser_link::bind::own_mark;
use hawser_link::links::particular_prefixes;
use hawser_policy::RuleSet;
use hawser_sched::connection::{ConnectionPolicy, GatewayUse};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Returns the folder of the control group with the programs of `scope`; `None` for a scope of
/// hosts.
fn folder(scope: &CaptureScope) -> anyhow::Result<Option<PathBuf>> {
    let mount = mount_point()?;
    Ok(match scope {
        CaptureScope::System => Some(mount),
        CaptureScope::Group(path) if path.starts_with(&mount) => Some(path.clone()),
        CaptureScope::Group(path) => Some(mount.join(path.strip_prefix("/").unwrap_or(path))),
        CaptureScope::Lan(_) => None,
    })
}

/// Settings and parts of a capture.
pub(crate) struct Capturing<'a> {
    pub(crate) scope: &'a CaptureScope,
    pub(crate) policy: ConnectionPolicy,
    pub(crate) director: SharedDirector,
    pub(crate) rules: watch::Receiver<Arc<RuleSet>>,
    /// Use of the gateway, if there is one.
    pub(crate) gateway: Option<GatewayUse>,
    /// Servers that connections reach over sessions, if such servers are looked for.
    pub(crate) discovered: Option<DiscoveredServers>,
    /// Names that are checked against their vouchers.
    pub(crate) vouched: Option<VouchedServers>,
    /// The address families whose packets the machine's routes lead to a tunnel.
    pub(crate) packets: Option<watch::Receiver<CarriedFamilies>>,
    /// Collects the names that programs ask for.
    pub(crate) names: KnownNames,
    /// Names that no name server is asked for, and this machine, to which names must not resolve.
    pub(crate) reserved: (ReservedNames, ThisMachine),
}

/// Captures connections of programs in the kernel until it is dropped.
pub(crate) struct Captured {
    places: JoinHandle<()>,
    /// Accepts redirected connections.
    server: Option<(JoinHandle<()>, Arc<ProxyCounters>)>,
}

impl Capturing<'_> {
    /// Begins the capture. `dialer` makes the connections that may use the gateway or another
    /// session; the kernel places all others.
    pub(crate) async fn start<D: Dialer>(self, dialer: &Arc<D>) -> anyhow::Result<Captured> {
        let scope = self.scope;
        let settings = settings(self.policy);
        let folder = folder(scope)?.context("hosts have no control group")?;
        let capture = Capture::start(&folder, &settings);
        let mut capture = capture.with_context(|| format!("--capture {scope}"))?;
        let mut server = None;
        if self.gateway.is_some() || self.discovered.is_some() || self.vouched.is_some() {
            // Exceptions must be in force before anything is redirected.
            capture.set_rules(&self.rules.borrow())?;
            capture.set_local_prefixes(&particular_prefixes().await?)?;
            let redirected = redirect(&mut capture, dialer, settings, self.gateway).await?;
            let counters = redirected.counters();
            let serving = tokio::spawn(redirected.run(std::future::pending()));
            server = Some((serving, counters));
        }
        let mut places = KernelPlaces::new(capture, self.director.clone())?;
        if let Some(servers) = self.discovered {
            places.turn_to(Arc::new(servers));
        }
        if let Some(servers) = &self.vouched {
            places.hold(Arc::new(servers.clone()));
        }
        if let Some(packets) = self.packets {
            places.follow_packets(packets);
        }
        let (director, held) = (self.director, self.vouched);
        let names = NameStub::start(director, self.reserved, self.names, held).await;
        places.answer_names(names);
        let rules = Arc::clone(&self.rules.borrow());
        if let Err(error) = places.fill(&rules).await {
            tracing::warn!(%error, "can't capture all connections yet, trying again");
        }
        tracing::info!(%scope, "connections are captured");
        Ok(Captured {
            places: tokio::spawn(places.run(self.rules)),
            server,
        })
    }
}

impl Captured {
    /// Ends the capture: new connections are no longer redirected. Redirected connections, and
    /// their port, stay open until this is dropped.
    pub(crate) async fn release(&mut self) {
        self.places.abort();
        // The end of the task detaches the programs in the kernel.
        let _ = (&mut self.places).await;
    }

    /// Returns the number of open redirected connections.
    pub(crate) fn open(&self) -> u64 {
        let counters = self
            .server
            .as_ref()
            .map(|(_, counters)| counters.snapshot());
        counters.map_or(0, |it| it.current)
    }
}

impl Drop for Captured {
    fn drop(&mut self) {
        self.places.abort();
        self.server.iter().for_each(|(task, _)| task.abort());
    }
}

/// Returns settings by which captured sockets that are bound to links pass a kill switch, like
/// this process's own.
pub fn settings(policy: ConnectionPolicy) -> Settings {
    Settings {
        policy,
        mark: own_mark(),
        ..Settings::default()
    }
}

/// Opens the ports to which `capture` redirects connections that `usage` and the rules send to the
/// gateway, and connections to peers. `dialer` makes them, and may choose another route. `usage`
/// is `None` without a gateway.
pub async fn redirect<D: Dialer>(
    capture: &mut Capture,
    dialer: &Arc<D>,
    settings: Settings,
    usage: Option<GatewayUse>,
) -> anyhow::Result<RedirectServer<D, Captives>> {
    let server = RedirectServer::bind(Arc::clone(dialer), Captives(capture.origins()))
        .await
        .context("can't listen on loopback for captured connections")?;
    let v6 = |port| SocketAddrV6::new(Ipv6Addr::LOCALHOST, port, 0, 0);
    capture.set_settings(&Settings {
        unruled: usage.map_or(Unruled::Peers, Unruled::from),
        redirect_ipv4: Some(SocketAddrV4::new(Ipv4Addr::LOCALHOST, server.v4())),
        redirect_ipv6: server.v6().map(v6),
        ..settings
    })?;
    Ok(server)
}

/// Finds the original destination and the application of connections that the capture program in
/// the kernel has redirected.
pub struct Captives(Origins);

impl Lookup for Captives {
    type Kept = ();

    fn take(&self, peer: SocketAddr, _local: SocketAddr) -> Option<Redirected<()>> {
        let found = self.0.find(peer)?;
        // Rules need more facts about the process than the program in the kernel reports.
        let process = Process::read(is_outermost().then_some(found.process), found.user);
        Some(Redirected {
            destination: found.remote,
            origin: Origin {
                // A thread may have a name of its own.
                program: Some(found.program),
                dscp: Some(found.dscp),
                ..process.into()
            },
            kept: (),
        })
    }
}
