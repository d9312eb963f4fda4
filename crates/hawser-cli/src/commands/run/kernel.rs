//! Captures a program's connections in the kernel: direct connections never pass through this
//! process.

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
use hawser_daemon::proxy::captured::{redirect, settings};
use hawser_daemon::proxy::direct::{ConnectionRules, Direct};
use hawser_daemon::proxy::links::Links;

/// A control group for the program, whose connections can be captured.
pub(super) struct Kernel {
    // Dropped first: the kernel's programs are detached before the group is removed.
    capture: Capture,
    group: RunGroup,
}

/// Sources for the kernel's tables.
pub(super) struct Sources<'a> {
    pub(super) direct: &'a Direct,
    pub(super) links: Links,
    pub(super) rules: ConnectionRules,
    /// Servers that connections reach over sessions, if such servers are looked for.
    pub(super) discovered: Option<DiscoveredServers>,
    /// Names that are checked against their vouchers.
    pub(super) vouched: Option<VouchedServers>,
    /// Answers the program's DNS queries.
    pub(super) names: NameStub,
    /// This machine, to whose addresses names must not resolve.
    pub(super) machine: ThisMachine,
}

impl Sources<'_> {
    /// Returns a dialer over links, and also over the gateway and peers if given.
    pub(super) fn dialer(
        &self,
        gateway: Option<BondDialer>,
        peers: Option<Peers>,
    ) -> ConnectionDialer {
        let dialer = self.direct.dialer(gateway, peers);
        let dialer = dialer.with_guarded_machine(self.machine.clone());
        let dialer = match &self.vouched {
            Some(servers) => dialer.with_vouched_names(Arc::new(servers.clone())),
            None => dialer,
        };
        match &self.discovered {
            Some(servers) => dialer.with_discovered_servers(Arc::new(servers.clone())),
            None => dialer,
        }
    }
}

impl Kernel {
    /// Prepares the control group and the capture. Fails if the kernel lacks or forbids a feature.
    pub(super) fn prepare() -> Result<Self, CaptureError> {
        let group = RunGroup::create()?;
        let capture = Capture::start(group.path(), &Settings::default())?;
        Ok(Self { capture, group })
    }

    /// Returns the control group's folder.
    pub(super) fn group(&self) -> &Path {
        self.group.path()
    }

    /// Runs the program in the group. Each connection uses the link that `policy` chooses, except
    /// connections to servers that are discovered or vouched for.
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

    /// Runs the program in the group. `dialer` makes the connections that `usage` and the rules
    /// send to the gateway, and those to discovered servers. Each other connection uses the link
    /// that `policy` chooses. `usage` is `None` without a gateway.
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
            // Ends when the sender sends or is dropped.
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
        // The kernel's programs are detached with the task, before the group is removed.
        let _ = keeping.await;
        code
    }
}
