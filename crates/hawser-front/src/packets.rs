//! Packet mode: transport of IP packets between TUN devices, beside streams of a session.
//!
//! At the client, [`PacketTunnel`] forwards the packets of one device. At the gateway, the
//! [`Exchange`] has one device for the packets of all clients, and gives each client an address.

mod answers;
mod exchange;
mod fit;
mod inbound;
mod pool;
mod question;
mod terms;
mod tunnel;

use std::net::{Ipv4Addr, Ipv6Addr};

use hawser_tunnel::packet::PacketView;

pub use exchange::{Exchange, PacketCounters, PacketStats};
pub use fit::{Unfit, check_apart};
pub use inbound::InboundFlows;
pub use pool::{AddressPool, Inner, PoolError};
pub use terms::{HostNetworks, Terms, Wish};
pub use tunnel::{PacketTunnel, TunnelError};

/// See [`crate::fuzzing::fuzz_packets`].
pub(crate) fn fuzz(data: &[u8]) {
    if let Some(wish) = Wish::of_opening(data) {
        assert_eq!(Wish::of_opening(&wish.to_opening()), Some(wish));
    }
    if let Some(terms) = Terms::read(data) {
        assert_eq!(Terms::read(&terms.to_bytes()), Some(terms));
    }
    let gateway = Inner {
        v4: Some(Ipv4Addr::new(10, 83, 0, 1)),
        v6: Some(Ipv6Addr::LOCALHOST),
    };
    let view = PacketView::parse(data).ok();
    if let Some(question) = view.and_then(|view| question::Question::of(&view, gateway)) {
        let answer = question.answered_by(&question.message);
        let view = PacketView::parse(&answer).expect("an answer is a packet");
        assert_eq!(view.destination(), question.from.ip());
        assert_eq!(view.ports(), Some((53, question.from.port())));
        assert_eq!(view.length(), answer.len());
    }
}

/// Largest inner packet. It travels in one outer packet over IPv4 and a link of 1500 bytes.
/// WireGuard uses the same size, so programs are used to it.
pub const MTU: u16 = 1420;
