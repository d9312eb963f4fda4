//! Takes a program's connections by a program in the kernel: those that go straight never pass
//! through this process.

use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Arc;

use anyhow::Context as _;
use hawser_capture::{Capture, CaptureError, RunGroup, Settings, Unruled};
use hawser_front::bonded::BondDialer;
use hawser_front::connection::KernelPlaces;
use hawser_front::dialer::ConnectionDialer;
use hawser_front::name_stub::NameStub;
use hawser_front::peer::{DiscoveredServers, Peers, VouchedServers};
use hawser_front::this_machine::ThisMachine;
use hawser_front::transport::Dialer;
use hawser_sched::connection::{ConnectionPolicy, GatewayUse};
use tokio::sync::oneshot;

use super::child::Child;
use crate::args::RunArgs;
use crate::daemon::proxy::captured::{redirect, settings};
use crate::daemon::proxy::direct::{ConnectionRules, Direct};
use crate::daemon::proxy::links::Links;

/// A control group of its own, whose connections can be captured.
pub(super) struct Kernel {
    // Detached before the group goes.
    capture: Capture,
    group: RunGroup,
}

/// Sources of the kernel's tables.
pub(super) struct Sources<'a> {
    pub(super) direct: &'a Direct,
    pub(super) links: Links,
    pub(super) rules: ConnectionRules,
    /// Servers that connections go to over sessions with them, where such are looked for.
    pub(super) discovered: Option<DiscoveredServers>,
    /// Names that are held to their vouchers.
    pub(super) vouched: Option<VouchedServers>,
    /// Answers what the program asks name servers.
    pub(super) names: NameStub,
    /// What names do not lead to.
    pub(super) machine: ThisMachine,
}

impl Sources<'_> {
    /// Opens connections over links, and by these ways besides.
    pub(super) fn dialer(
        &self,
        gateway: Option<BondDialer>,
        peers: Option<Peers>,
    ) -> ConnectionDialer {
        let dialer = self.direct.dialer(gateway, peers);
        let dialer = dialer.guarding(self.machine.clone());
        let dialer = match &self.vouched {
            Some(servers) => dialer.holding(Arc::new(servers.clone())),
            None => dialer,
        };
        match &self.discovered {
            Some(servers) => dialer.discovering(Arc::new(servers.clone())),
            None => dialer,
        }
    }
}

impl Kernel {
    /// Fails where that is not permitted, or the kernel can't.
    pub(super) fn prepare() -> Result<Self, CaptureError> {
        let group = RunGroup::create()?;
        let capture = Capture::start(group.path(), &Settings::default())?;
        Ok(Self { capture, group })
    }

    /// The control group's folder.
    pub(super) fn group(&self) -> &Path {
        self.group.path()
    }

    /// Runs the program in the group, each connection over the link that `policy` chooses, but for
    /// those to servers that are discovered or vouched for.
    pub(super) async fn run(
        mut self,
        args: &RunArgs,
        policy: ConnectionPolicy,
        sources: Sources<'_>,
    ) -> anyhow::Result<ExitCode> {
        if sources.discovered.is_some() || sources.vouched.is_some() {
            let dialer = Arc::new(sources.dialer(None, None));
            return self.run_bonded(args, dialer, (policy, None), sources).await;
        }
        self.capture.set_settings(&Settings {
            unruled: Unruled::Direct,
            ..settings(policy)
        })?;
        self.start(args, sources).await
    }

    /// Runs the program with those of its connections made by `dialer` that `usage` and the rules
    /// have for the gateway, or that go to servers that were discovered, and each other one over
    /// the link that `policy` chooses. Without a gateway there is no usage of it.
    pub(super) async fn run_bonded<D: Dialer>(
        mut self,
        args: &RunArgs,
        dialer: Arc<D>,
        (policy, usage): (ConnectionPolicy, Option<GatewayUse>),
        sources: Sources<'_>,
    ) -> anyhow::Result<ExitCode> {
        let server = redirect(&mut self.capture, &dialer, settings(policy), usage).await?;
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
        let director = sources.direct.director();
        let mut places = KernelPlaces::new(self.capture, director)?;
        if let Some(servers) = sources.discovered {
            places.turn_to(Arc::new(servers));
        }
        if let Some(servers) = sources.vouched {
            places.hold(Arc::new(servers));
        }
        places.answer_names(sources.names);
        let rules = Arc::clone(&sources.rules.borrow());
        places.fill(&rules).await?;
        let child = match Child::start(command)? {
            Ok(child) => child,
            Err(code) => return Ok(code),
        };
        let keeping = tokio::spawn(places.run(sources.rules));
        let code = child.end().await;
        keeping.abort();
        // The programs are detached with it, before the group goes.
        let _ = keeping.await;
        code
    }
}
