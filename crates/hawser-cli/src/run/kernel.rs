//! Takes a program's connections by a program in the kernel: those that go straight never pass through
//! this process.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::process::{Command, ExitCode};
use std::sync::Arc;

use anyhow::Context as _;
use hawser_capture::{Capture, CaptureError, Origins, RunGroup, Settings, Unruled};
use hawser_front::connection::{KernelPlaces, Origin};
use hawser_front::redirect::{Lookup, RedirectServer, Redirected};
use hawser_front::transport::Dialer;
use hawser_sched::connection::ConnectionPolicy;
use tokio::sync::oneshot;

use super::child::Child;
use crate::args::RunArgs;
use crate::direct::{ConnectionRules, Direct};
use crate::session::Links;

/// A control group of its own, whose connections can be captured.
pub(super) struct Kernel {
    // Detached before the group goes.
    capture: Capture,
    group: RunGroup,
}

/// What the kernel's tables are filled from.
pub(super) struct Sources<'a> {
    pub(super) direct: &'a Direct,
    pub(super) links: Links,
    pub(super) rules: ConnectionRules,
}

impl Kernel {
    /// Fails where that is not permitted, or the kernel can't.
    pub(super) fn prepare() -> Result<Self, CaptureError> {
        let group = RunGroup::create()?;
        let capture = Capture::start(group.path(), &Settings::default())?;
        Ok(Self { capture, group })
    }

    /// Runs the program in the group, each connection over the link that `policy` chooses.
    pub(super) async fn run(
        mut self,
        args: &RunArgs,
        policy: ConnectionPolicy,
        sources: Sources<'_>,
    ) -> anyhow::Result<ExitCode> {
        self.capture.set_settings(&Settings {
            policy,
            unruled: Unruled::Direct,
            ..Settings::default()
        })?;
        self.start(args, sources).await
    }

    /// Runs the program with all its connections made by `dialer`.
    pub(super) async fn run_bonded<D: Dialer>(
        mut self,
        args: &RunArgs,
        dialer: Arc<D>,
        sources: Sources<'_>,
    ) -> anyhow::Result<ExitCode> {
        let server = RedirectServer::bind(dialer, Captives(self.capture.origins()))
            .await
            .context("can't take connections on loopback")?;
        let v6 = |port| SocketAddrV6::new(Ipv6Addr::LOCALHOST, port, 0, 0);
        self.capture.set_settings(&Settings {
            unruled: Unruled::Bonded,
            redirect_ipv4: Some(SocketAddrV4::new(Ipv4Addr::LOCALHOST, server.v4())),
            redirect_ipv6: server.v6().map(v6),
            ..Settings::default()
        })?;
        let (end, ended) = oneshot::channel::<()>();
        let serving = tokio::spawn(server.run(async move {
            // Dropped or sent: either is the end.
            let _ = ended.await;
        }));
        let code = self.start(args, sources).await;
        drop(end);
        serving.await?;
        code
    }

    async fn start(self, args: &RunArgs, sources: Sources<'_>) -> anyhow::Result<ExitCode> {
        let mut command = Command::new(args.program());
        command.args(args.arguments());
        self.group
            .enter(&mut command)
            .context("can't start the program in a control group")?;
        let mut places = KernelPlaces::new(self.capture, sources.direct.director())?;
        let rules = Arc::clone(&sources.rules.borrow());
        places.fill(&rules).await?;
        let child = match Child::start(command)? {
            Ok(child) => child,
            Err(code) => return Ok(code),
        };
        let keeping = tokio::spawn(places.run(sources.rules, sources.links));
        let code = child.end().await;
        keeping.abort();
        // The programs are detached with it, before the group goes.
        let _ = keeping.await;
        code
    }
}

/// Connections that the kernel's program has redirected.
struct Captives(Origins);

impl Lookup for Captives {
    type Kept = ();

    fn take(&self, peer: SocketAddr, _local: SocketAddr) -> Option<Redirected<()>> {
        let found = self.0.find(peer)?;
        Some(Redirected {
            destination: found.remote,
            origin: Origin {
                program: Some(found.program),
                user: Some(found.user),
                ..Origin::default()
            },
            kept: (),
        })
    }
}
