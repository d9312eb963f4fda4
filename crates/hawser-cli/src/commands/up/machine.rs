//! What only one process can have at a time: the capture of this machine's connections and packets.

use std::sync::Arc;

use hawser_config::{CaptureScope, ConnectionConfig};
use hawser_front::connection::SharedDirector;
use hawser_front::dialer::ConnectionDialer;
use hawser_front::name_stub::KnownNames;
use hawser_front::peer::{DiscoveredServers, ReservedNames, VouchedServers};
use hawser_net::client::Client;

use crate::daemon::proxy::captured::{Captured, Capturing};
use crate::daemon::proxy::direct::ConnectionRules;
use crate::daemon::proxy::lan::LanCapture;
use crate::daemon::proxy::links::Links;
use crate::daemon::proxy::packets::{CarriedPackets, KillSwitchSince, Senders};

/// Connections and packets are captured, unless another process does that.
pub(super) struct Machine {
    facts: Facts,
    packets: Option<CarriedPackets>,
    captured: Option<Captured>,
    /// What was captured before, with connections that may be open.
    released: Vec<Captured>,
}

/// What the parts of a capture need.
pub(super) struct Facts {
    /// Whose connections are captured in the kernel.
    pub(super) programs: Option<CaptureScope>,
    pub(super) gateway: Option<Arc<Client>>,
    pub(super) connection: ConnectionConfig,
    pub(super) links: Links,
    pub(super) rules: ConnectionRules,
    pub(super) reserved: ReservedNames,
    pub(super) dialer: Arc<ConnectionDialer>,
    pub(super) director: SharedDirector,
    pub(super) kill_switch: Option<KillSwitchSince>,
    pub(super) names: KnownNames,
    pub(super) discovered: Option<DiscoveredServers>,
    pub(super) vouched: Option<VouchedServers>,
}

impl Machine {
    /// Captures what is wanted, and what hosts of `lans` send. In the place of another process, two
    /// capture connections for a moment, so that none gets past; packets are that one's until
    /// [`Self::carry`] is called.
    pub(super) async fn start(
        facts: Facts,
        lans: Option<LanCapture>,
        is_succeeding: bool,
    ) -> anyhow::Result<Self> {
        let mut machine = Self {
            facts,
            packets: None,
            captured: None,
            released: Vec::new(),
        };
        machine.take(lans, is_succeeding).await?;
        Ok(machine)
    }

    /// From now on packets are carried here.
    pub(super) fn carry(&self) {
        self.packets.iter().for_each(CarriedPackets::begin);
    }

    async fn take(&mut self, lans: Option<LanCapture>, is_succeeding: bool) -> anyhow::Result<()> {
        self.packets = self.carry_packets(lans, is_succeeding);
        match self.capture().await {
            Ok(captured) => {
                self.captured = captured;
                Ok(())
            }
            Err(error) => {
                if let Some(packets) = self.packets.take() {
                    packets.end().await;
                }
                Err(error)
            }
        }
    }

    /// Gives it up for another process. Connections that were captured go on.
    pub(super) async fn release(&mut self) {
        if let Some(packets) = self.packets.take() {
            packets.end().await;
        }
        if let Some(mut captured) = self.captured.take() {
            captured.release().await;
            self.released.push(captured);
        }
    }

    /// Takes back what was given up, since the other process has ended.
    pub(super) async fn take_back(&mut self) {
        match self.take(None, false).await {
            Ok(()) => self.carry(),
            Err(error) => tracing::error!("nothing is captured any more: {error:#}"),
        }
    }

    /// How many connections that were captured are open.
    pub(super) fn open(&self) -> u64 {
        let all = self.released.iter().chain(&self.captured);
        all.map(Captured::open).sum()
    }

    /// Ends it; the system is as before when this returns.
    pub(super) async fn end(mut self) {
        self.release().await;
    }

    /// Carries packets over the gateway, of whoever is captured.
    fn carry_packets(
        &self,
        lans: Option<LanCapture>,
        is_succeeding: bool,
    ) -> Option<CarriedPackets> {
        let facts = &self.facts;
        let senders = Senders {
            machine: facts.programs == Some(CaptureScope::System),
            lans,
            names: facts.names.clone(),
            reserved: facts.reserved.clone(),
        };
        CarriedPackets::start(
            senders,
            facts.gateway.clone()?,
            facts.links.clone(),
            facts.director.clone(),
            (facts.kill_switch.clone(), is_succeeding),
        )
    }

    async fn capture(&self) -> anyhow::Result<Option<Captured>> {
        let facts = &self.facts;
        let Some(scope) = &facts.programs else {
            return Ok(None);
        };
        let packets = self.packets.as_ref();
        let capturing = Capturing {
            scope,
            policy: facts.connection.scheduler,
            director: facts.director.clone(),
            rules: facts.rules.clone(),
            gateway: facts.gateway.as_ref().map(|_| facts.connection.gateway),
            discovered: facts.discovered.clone(),
            vouched: facts.vouched.clone(),
            packets: packets.and_then(CarriedPackets::of_machine),
            names: facts.names.clone(),
            reserved: facts.reserved.clone(),
        };
        capturing.start(&facts.dialer).await.map(Some)
    }
}
