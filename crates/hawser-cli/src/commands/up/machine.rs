//! What only one process can have at a time: the capture of this machine's connections and packets,
//! and what their handshakes say.

use std::sync::Arc;

use hawser_config::{CaptureScope, ConnectionConfig};
use hawser_front::connection::SharedDirector;
use hawser_front::dialer::ConnectionDialer;
use hawser_front::name_stub::KnownNames;
use hawser_front::packets::InboundFlows;
use hawser_front::peer::{DiscoveredServers, ReservedNames, VouchedServers};
use hawser_front::this_machine::ThisMachine;
use hawser_net::client::Client;

use crate::daemon::handshake::announcing::Announcing;
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
    /// Takes what hosts behind this machine send, where it is their router.
    pub(super) lans: Option<Arc<LanCapture>>,
    pub(super) connection: ConnectionConfig,
    pub(super) links: Links,
    pub(super) rules: ConnectionRules,
    /// Names that no server is asked for, and the machine that names may not lead to.
    pub(super) reserved: (ReservedNames, ThisMachine),
    /// Who may begin flows of packets to this machine.
    pub(super) inbound: InboundFlows,
    pub(super) dialer: Arc<ConnectionDialer>,
    pub(super) director: SharedDirector,
    pub(super) kill_switch: Option<KillSwitchSince>,
    pub(super) names: KnownNames,
    pub(super) discovered: Option<DiscoveredServers>,
    /// Handshakes ask servers for Hawser.
    pub(super) announcing: Option<Arc<Announcing>>,
    pub(super) vouched: Option<VouchedServers>,
}

impl Machine {
    /// Captures what is wanted. In the place of another process, two capture connections for a
    /// moment, so that none gets past; packets, and all that hosts send, are that one's until
    /// [`Self::carry`] is called.
    pub(super) async fn start(facts: Facts, is_succeeding: bool) -> anyhow::Result<Self> {
        let mut machine = Self {
            facts,
            packets: None,
            captured: None,
            released: Vec::new(),
        };
        machine.take(is_succeeding).await?;
        Ok(machine)
    }

    /// The other process is about to give up what it has. What hosts send is held until packets are
    /// carried here.
    pub(super) async fn hold(&self) {
        if let Some(lans) = &self.facts.lans {
            lans.hold().await;
        }
    }

    /// From now on packets are carried here.
    pub(super) fn carry(&self) {
        self.packets.iter().for_each(CarriedPackets::begin);
    }

    async fn take(&mut self, is_succeeding: bool) -> anyhow::Result<()> {
        self.packets = self.carry_packets(is_succeeding);
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
        if let Some(announcing) = &self.facts.announcing {
            announcing.pause();
        }
    }

    /// Takes back what was given up, since the other process has ended.
    pub(super) async fn take_back(&mut self) {
        if let Some(announcing) = &self.facts.announcing {
            announcing.resume();
        }
        match self.take(false).await {
            Ok(()) => self.carry(),
            Err(error) => tracing::error!("nothing is captured any more: {error:#}"),
        }
    }

    /// How many connections that were captured are open.
    pub(super) fn open(&self) -> u64 {
        let all = self.released.iter().chain(&self.captured);
        let lans = self.facts.lans.as_ref().map(|it| it.counters().snapshot());
        all.map(Captured::open).sum::<u64>() + lans.map_or(0, |it| it.current)
    }

    /// Ends it; the system is as before when this returns.
    pub(super) async fn end(mut self) {
        self.release().await;
    }

    /// Carries packets over the gateway, of whoever is captured.
    fn carry_packets(&self, is_succeeding: bool) -> Option<CarriedPackets> {
        let facts = &self.facts;
        let senders = Senders {
            machine: facts.programs == Some(CaptureScope::System),
            lans: facts.lans.clone(),
            names: facts.names.clone(),
            reserved: facts.reserved.clone(),
            inbound: facts.inbound,
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
