//! Captures a program's connections with a library that the program loads.

use std::env;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use hawser_capture::process::Process;
use hawser_capture::shim::{Admit, Open, Registry, ShimFile, ShimServer, unaffected};
use hawser_front::name_stub::NameStub;
use hawser_front::peer::VouchedServers;
use hawser_front::redirect::{Lookup, RedirectServer, Redirected};
use hawser_front::transport::Dialer;
use hawser_link::links::{Link, Routes, full_tunnel, usable};
use tokio::sync::oneshot;

use super::child::{self, Child};
use crate::args::RunArgs;
use hawser_daemon::proxy::links::Links;
use hawser_daemon::setup::Setup;

/// Runs the program. `dialer` makes its connections, and `names` answers its DNS queries.
/// Connections to `held` servers are made by `dialer` or refused.
pub(super) async fn run<D: Dialer>(
    setup: &Setup,
    args: &RunArgs,
    (dialer, names, held): (Arc<D>, NameStub, Option<VouchedServers>),
    leads_out: LeadsOut,
) -> anyhow::Result<ExitCode> {
    let holds = held.is_some();
    let admission = Admission {
        leads_out,
        names,
        held,
    };
    let shims = ShimServer::start(admission).context("can't observe the program's connections")?;
    let registry = shims.registry().clone();
    let server = RedirectServer::bind(dialer, Announced(registry.clone()))
        .await
        .context("can't take connections on loopback")?;
    let file = ShimFile::write_in_one_of(&folders(setup))?;
    let mut command = Command::new(args.program());
    command
        .args(args.arguments())
        .env(PRELOAD, file.preload(env::var_os(PRELOAD).as_deref()))
        .env(SETTINGS, shims.settings(server.v4(), server.v6(), holds));
    say_if_unaffected(args);
    let (end, ended) = oneshot::channel::<()>();
    let serving = tokio::spawn(server.run(async move {
        // Ends when the sender sends or is dropped.
        let _ = ended.await;
    }));
    let code = match Child::start(command)? {
        Ok(child) => {
            let code = child.end().await?;
            outlive(&registry).await;
            code
        }
        Err(code) => code,
    };
    drop(end);
    serving.await?;
    Ok(code)
}

/// Waits for the connections of processes that the program has left running; a signal ends them.
async fn outlive(registry: &Registry) {
    let mut left = registry.living();
    if left > 0 {
        tracing::warn!(
            connections = left,
            "the program has ended; waiting for programs that it started and that are still connected"
        );
    }
    let asked = hawser_daemon::setup::asked_to_end();
    tokio::pin!(asked);
    while left > 0 {
        tokio::select! {
            () = &mut asked => return,
            () = tokio::time::sleep(OUTLIVE_PERIOD) => left = registry.living(),
        }
    }
}

/// Admits destinations that the links lead to, but not this machine, its networks, or a VPN.
pub(super) struct LeadsOut {
    pub(super) links: Links,
    /// Names of links; empty for all.
    pub(super) wanted: Vec<String>,
    /// True if connections that no link can carry may go over the gateway.
    pub(super) by_gateway: bool,
    pub(super) routes: Routes,
}

/// Decides which connections of a program are captured.
struct Admission {
    leads_out: LeadsOut,
    names: NameStub,
    held: Option<VouchedServers>,
}

impl Admission {
    fn holds(&self, to: SocketAddr, process: &Process) -> bool {
        let holds = |held: &VouchedServers| held.holds(to, &process.clone().into());
        self.held.as_ref().is_some_and(holds)
    }
}

impl Admit for Admission {
    async fn admits(&self, to: SocketAddr, process: &Process) -> bool {
        self.holds(to, process) || self.leads_out.takes(to.ip()).await
    }

    fn admits_datagrams(&self, to: SocketAddr, process: &Process) -> bool {
        !self.holds(to, process)
    }

    fn stub_of(&self, server: SocketAddr) -> Option<SocketAddr> {
        self.names.stub_of(server)
    }

    fn server_at(&self, stub: SocketAddr) -> Option<SocketAddr> {
        self.names.server_at(stub)
    }
}

impl LeadsOut {
    async fn takes(&self, to: IpAddr) -> bool {
        let leads = |link: &Link| link.source_address(to).is_some() && link.has_default_route(to);
        let reached = {
            let links = self.links.borrow();
            let ours = usable(&links, &self.wanted);
            let is_left = self.wanted.is_empty() && full_tunnel(&links, to.is_ipv6()).is_some();
            if self.by_gateway {
                !ours.is_empty()
            } else {
                !is_left && ours.iter().any(leads)
            }
        };
        reached && !self.routes.is_particular(to).await
    }
}

/// Warns if the program will evidently bypass the library.
fn say_if_unaffected(args: &RunArgs) {
    let Some(path) = child::find(args.program()) else {
        return;
    };
    if let Ok(Some(why)) = unaffected(&path) {
        let program = path.display();
        tracing::warn!("{program} connects without Hawser: {why}");
    }
}

/// Returns the folders for the library: programs of other users must be able to read it.
fn folders(setup: &Setup) -> Vec<PathBuf> {
    let runtime = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let mut folders = vec![env::temp_dir(), setup.state.path().to_owned()];
    folders.extend(runtime);
    folders
}

/// Connections that the program has announced.
struct Announced(Registry);

impl Lookup for Announced {
    type Kept = Open;

    fn take(&self, peer: SocketAddr, local: SocketAddr) -> Option<Redirected<Open>> {
        let arrival = self.0.take(peer, local)?;
        tracing::debug!(
            destination = %arrival.destination,
            process = arrival.process.name,
            "accepted a connection of the program"
        );
        Some(Redirected {
            destination: arrival.destination,
            origin: arrival.process.into(),
            kept: arrival.open,
        })
    }
}

const PRELOAD: &str = "LD_PRELOAD";
const SETTINGS: &str = "HAWSER_SHIM";
const OUTLIVE_PERIOD: Duration = Duration::from_millis(100);
