//! The resources that only one process can have at a time: the capture of this machine's
//! connections and packets, and the announcements in their handshakes.

use std::sync::Arc;

use hawser_config::{CaptureScope, ConnectionConfig};
use hawser_front::connection::SharedDirector;
use hawser_front::dialer::ConnectionDialer;
use hawser_front::name_stub::KnownNames;
use hawser_front::packets::InboundFlows;
use hawser_front::peer::{DiscoveredServers, ReservedNames, VouchedServers};
use hawser_front::this_machine::ThisMachine;
use hawser_net::client::Client;

use crate::handshake::announcing::Announcing;
use crate::proxy::captured::{Captured, Capturing};
use crate::proxy::direct::ConnectionRules;
use crate::proxy::lan::LanCapture;
use crate::proxy::links::Links;
use crate::proxy::packets::{CarriedPackets, KillSwitchSince, Senders};

/// The capture of connections and packets, unless another process has it.
pub(super) struct Machine {
    facts: Facts,
    packets: Option<CarriedPackets>,
    captured: Option<Captured>,
    /// Earlier captures, whose connections may still be open.
    released: Vec<Captured>,
}

/// Inputs of a capture.
pub(super) struct Facts {
    /// Programs whose connections are captured in the kernel.
    pub(super) programs: Option<CaptureScope>,
    pub(super) gateway: Option<Arc<Client>>,
    /// Captures the traffic of hosts behind this machine, if it is their router.
    pub(super) lans: Option<Arc<LanCapture>>,
    pub(super) connection: ConnectionConfig,
    pub(super) links: Links,
    pub(super) rules: ConnectionRules,
    /// Names that no name server is asked for, and this machine, to which names must not resolve.
    pub(super) reserved: (ReservedNames, ThisMachine),
    /// Whether other hosts may begin flows of packets to this machine.
    pub(super) inbound: InboundFlows,
    pub(super) dialer: Arc<ConnectionDialer>,
    pub(super) director: SharedDirector,
    pub(super) kill_switch: Option<KillSwitchSince>,
    pub(super) names: KnownNames,
    pub(super) discovered: Option<DiscoveredServers>,
    /// Asks servers for Hawser in handshakes.
    pub(super) announcing: Option<Arc<Announcing>>,
    pub(super) vouched: Option<VouchedServers>,
}

impl Machine {
    /// Starts the configured captures. During a takeover, both processes capture connections for
    /// a moment, so that none bypasses them. The old process carries packets, and all traffic of
    /// hosts behind this machine, until [`Self::carry`] is called.
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

    /// Holds the traffic of hosts behind this machine until this process carries packets. Call
    /// before the old process yields.
    pub(super) async fn hold(&self) {
        if let Some(lans) = &self.facts.lans {
            lans.hold().await;
        }
    }

    /// Begins to carry packets.
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

    /// Gives the resources up for another process. Captured connections stay open.
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

    /// Takes the resources back after the other process has ended.
    pub(super) async fn take_back(&mut self) {
        if let Some(announcing) = &self.facts.announcing {
            announcing.resume();
        }
        match self.take(false).await {
            Ok(()) => self.carry(),
            Err(error) => tracing::error!("can't resume capturing: {error:#}"),
        }
    }

    /// Returns the number of open captured connections.
    pub(super) fn open(&self) -> u64 {
        let all = self.released.iter().chain(&self.captured);
        let lans = self.facts.lans.as_ref().map(|it| it.counters().snapshot());
        all.map(Captured::open).sum::<u64>() + lans.map_or(0, |it| it.current)
    }

    /// Ends the capture. The system is as before when this returns.
    pub(super) async fn end(mut self) {
        self.release().await;
    }

    /// Starts to carry the packets of captured machines and hosts over the gateway.
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
