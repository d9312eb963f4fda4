//! Packet mode over modelled links: the production code of the tunnel, over an association.

pub mod chaos;
mod connection;
mod inner;
mod plan;
mod quic_flow;
pub mod report;
mod roam;
mod roam_connection;
mod tcp_flow;
mod tunnel;
mod udp;

use hawser_scenario::{Congestion, Direction, Link, Scenario};
use hawser_types::Rate;

pub use plan::{Protocol, Run};

use report::{CallReport, ConnectionReport, RateReport, RoamReport, UdpReport};
use tunnel::Tunnel;
use udp::Beside;

impl Run {
    /// One flow of UDP at this share of what the paths' payload allows. `None`: no association
    /// came to be.
    pub fn udp(&self, links: &[Link], share: f64) -> Option<UdpReport> {
        let mut tunnel = Tunnel::new(links, self.policy, self.seed)?;
        Some(udp::run(
            &mut tunnel,
            self,
            allowed(links, self.direction, udp::PACKET),
            share,
        ))
    }

    /// A call of 50 packets/s beside TCP connections both ways. `None`: as above.
    pub fn call(&self, links: &[Link]) -> Option<CallReport> {
        let mut tunnel = Tunnel::new(links, self.policy, self.seed)?;
        Some(udp::call(&mut tunnel, self, Beside::Bulk))
    }

    /// The same call alone. `None`: as above.
    pub fn lone_call(&self, links: &[Link]) -> Option<CallReport> {
        let mut tunnel = Tunnel::new(links, self.policy, self.seed)?;
        Some(udp::call(&mut tunnel, self, Beside::Nothing))
    }

    /// One flow of UDP at this rate while the scenario's links come and go, announced or not.
    /// `None`: as above.
    pub fn roam(&self, scenario: &Scenario, announced: bool, rate: Rate) -> Option<RoamReport> {
        let mut tunnel = Tunnel::new(&scenario.links, self.policy, self.seed)?;
        Some(roam::run(&mut tunnel, self, scenario, announced, rate))
    }

    /// One TCP connection while the scenario's links come and go, announced or not. `None`: as
    /// above.
    pub fn roam_tcp(
        &self,
        scenario: &Scenario,
        announced: bool,
        congestion: Congestion,
    ) -> Option<RateReport> {
        let mut tunnel = Tunnel::new(&scenario.links, self.policy, self.seed)?;
        let ends = tcp_flow::ends(tunnel.now(), self.from(), congestion);
        let most = |links: &[usize]| {
            let links: Vec<Link> = links.iter().map(|it| scenario.links[*it].clone()).collect();
            payload(&links, self.direction, tcp_flow::PAYLOAD)
        };
        let phases = roam_connection::run(&mut tunnel, self, scenario, announced, ends, most);
        Some(RateReport {
            scenario: scenario.name.clone(),
            policy: self.policy.name(),
            congestion: congestion.name(),
            announced,
            phases,
        })
    }

    /// One connection of this protocol. `None`: as above.
    pub fn connection(
        &self,
        links: &[Link],
        protocol: Protocol,
        congestion: Congestion,
    ) -> Option<ConnectionReport> {
        let mut tunnel = Tunnel::new(links, self.policy, self.seed)?;
        let (now, from) = (tunnel.now(), self.from());
        let (outcome, payload) = match protocol {
            Protocol::Tcp => {
                let ends = tcp_flow::ends(now, from, congestion);
                let outcome = connection::run(&mut tunnel, self, ends);
                (outcome, tcp_flow::PAYLOAD)
            }
            Protocol::Quic => {
                let ends = quic_flow::ends(now, from, congestion).ok()?;
                let outcome = connection::run(&mut tunnel, self, ends);
                (outcome, quic_flow::PAYLOAD)
            }
        };
        let allowed = self::payload(links, self.direction, payload).bits_per_second();
        Some(ConnectionReport {
            policy: self.policy.name(),
            protocol: protocol.name(),
            congestion: congestion.name(),
            allowed: allowed / 1000,
            goodput: outcome.goodput.bits_per_second() / 1000,
            retransmissions: outcome.retransmissions,
            dropped: tunnel.stats(from).sent.dropped,
            late: tunnel.stats(1 - from).received.late,
        })
    }
}

/// Bytes of inner packets of `size` that the links carry in a second: what is added to each takes
/// its part of their rates.
fn allowed(links: &[Link], direction: Direction, size: usize) -> Rate {
    let rates = links.iter().map(|link| link.line(direction).rate);
    let total = rates.sum::<Rate>().bytes_per_second();
    let size = size as u64;
    Rate::from_bytes_per_second(total * size / (size + ADDED))
}

/// Bytes in a second of a connection's payload, of which each packet has so much.
fn payload(links: &[Link], direction: Direction, payload: u64) -> Rate {
    let packets = allowed(links, direction, connection::PACKET).bytes_per_second();
    Rate::from_bytes_per_second(packets * payload / connection::PACKET as u64)
}

/// What the tunnel, SCTP, the seal, UDP and IPv4 add to an inner packet.
const ADDED: u64 = 68;
