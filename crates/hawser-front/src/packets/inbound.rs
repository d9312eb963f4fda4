//! What a client takes of the packets that its gateway hands it.
//!
//! The gateway is trusted with the packets that it carries, not with this machine: its operator
//! reaches no service of this machine or of the hosts behind it. The client takes a packet only if
//! its destination is the client's, its source is not, and its flow began here.

use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use hawser_tunnel::packet::PacketView;
use ipnet::IpNet;

/// Who may begin flows to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InboundFlows {
    /// The client alone.
    Refused,
    /// Anyone, by a gateway that routes; the client's inner addresses may be public then.
    Accepted,
}

/// Judges packets of the gateway, by what was sent to it.
#[derive(Debug)]
pub(super) struct Inbound {
    /// The client's addresses and networks.
    own: Vec<IpNet>,
    /// None where others may begin flows as well.
    begun: Option<Mutex<BegunFlows>>,
}

impl Inbound {
    /// Takes packets for `own`.
    pub(super) fn new(own: Vec<IpNet>, inbound: InboundFlows) -> Self {
        let begun = match inbound {
            InboundFlows::Refused => Some(Mutex::new(BegunFlows::new())),
            InboundFlows::Accepted => None,
        };
        Self { own, begun }
    }

    /// Notes the flows that these packets of the client belong to.
    pub(super) fn note(&self, packets: &[Bytes]) {
        let Some(begun) = &self.begun else {
            return;
        };
        let mut begun = begun.lock().unwrap_or_else(PoisonError::into_inner);
        for packet in packets {
            let flow = PacketView::parse(packet).ok().and_then(|it| sent(&it));
            if let Some(flow) = flow {
                begun.note(flow);
            }
        }
    }

    /// Leaves those of the gateway's packets that are taken; returns how many are refused.
    pub(super) fn retain(&self, packets: &mut Vec<Bytes>) -> u64 {
        let before = packets.len();
        let begun = self.begun.as_ref();
        let mut begun = begun.map(|it| it.lock().unwrap_or_else(PoisonError::into_inner));
        packets.retain(|packet| {
            let Ok(view) = PacketView::parse(packet) else {
                return false;
            };
            self.is_plausible(&view)
                && begun.as_mut().is_none_or(|begun| match received(&view) {
                    Received::Of(flow) => begun.has(flow),
                    Received::Harmless => true,
                    Received::Unasked => false,
                })
        });
        (before - packets.len()) as u64
    }

    /// Whether the packet is for the client, from an address that it may be from, and does not tell
    /// the kernel how to send.
    fn is_plausible(&self, packet: &PacketView<'_>) -> bool {
        let is_own = |address: IpAddr| self.own.iter().any(|net| net.contains(&address));
        let source = packet.source();
        let is_nowhere = source.is_unspecified() || source.is_loopback() || source.is_multicast();
        let is_near = is_broadcast(source) || is_link_local(source);
        let is_usual = !is_own(source) && !is_nowhere && !is_near && !configures(packet);
        is_own(packet.destination()) && is_usual
    }
}

/// What packets of a flow have in common, whichever end they are from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Flow {
    here: (IpAddr, u16),
    there: (IpAddr, u16),
    protocol: u8,
}

/// What a packet of the gateway is.
enum Received {
    /// A part of this flow.
    Of(Flow),
    /// An error, which the kernel compares with what it has sent, or the rest of a datagram, which
    /// is nothing without its first fragment.
    Harmless,
    /// Nothing that an end asks for.
    Unasked,
}

/// The flow that a packet of the client begins or goes on with; `None` where nothing is to come
/// back.
fn sent(packet: &PacketView<'_>) -> Option<Flow> {
    let (here, there) = (packet.source(), packet.destination());
    let (from, to) = match packet.protocol() {
        ICMP | ICMPV6 => {
            let id = echo(packet, &[ECHO_V4, ECHO_V6])?;
            (id, id)
        }
        _ if !packet.is_first_fragment() => return None,
        _ => ports(packet)?,
    };
    Some(Flow {
        here: (here, from),
        there: (there, to),
        protocol: packet.protocol(),
    })
}

fn received(packet: &PacketView<'_>) -> Received {
    let (from, to) = match packet.protocol() {
        protocol @ (ICMP | ICMPV6) if packet.is_first_fragment() => {
            let errors = if protocol == ICMP {
                ERRORS_V4
            } else {
                ERRORS_V6
            };
            let kind = packet.transport().first();
            if kind.is_some_and(|kind| errors.contains(kind)) {
                return Received::Harmless;
            }
            match echo(packet, &[REPLY_V4, REPLY_V6]) {
                Some(id) => (id, id),
                None => return Received::Unasked,
            }
        }
        _ if !packet.is_first_fragment() => return Received::Harmless,
        _ => match ports(packet) {
            Some(ports) => ports,
            None => return Received::Unasked,
        },
    };
    Received::Of(Flow {
        here: (packet.destination(), to),
        there: (packet.source(), from),
        protocol: packet.protocol(),
    })
}

/// The identifier of an echo of one of these kinds.
fn echo(packet: &PacketView<'_>, kinds: &[u8; 2]) -> Option<u16> {
    let expected = kinds[usize::from(packet.protocol() == ICMPV6)];
    let [kind, _, _, _, high, low] = *packet.transport().first_chunk()?;
    let is_meant = packet.is_first_fragment() && kind == expected;
    is_meant.then_some(u16::from_be_bytes([high, low]))
}

/// Source and destination port, also of a first fragment; zeros where the protocol has none.
/// `None`: they are cut off.
fn ports(packet: &PacketView<'_>) -> Option<(u16, u16)> {
    if !HAVE_PORTS.contains(&packet.protocol()) {
        return Some((0, 0));
    }
    let [a, b, c, d] = *packet.transport().first_chunk()?;
    Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
}

/// Whether a router or a neighbour would send this: advertisements, solicitations, redirects.
fn configures(packet: &PacketView<'_>) -> bool {
    let kinds = match packet.protocol() {
        ICMP => ROUTING_V4,
        ICMPV6 => ROUTING_V6,
        _ => return false,
    };
    let kind = packet.transport().first();
    packet.is_first_fragment() && kind.is_some_and(|kind| kinds.contains(kind))
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

fn is_broadcast(address: IpAddr) -> bool {
    matches!(address, IpAddr::V4(address) if address.is_broadcast())
}

/// The flows that the client has used last: a fixed amount of memory, whatever programs here do.
///
/// Each flow has one set of places, by a hash that the peer can't foretell. The one of the set that
/// was not used for longest goes first. A flow that is forgotten is known again with the client's
/// next packet.
struct BegunFlows {
    hasher: RandomState,
    /// Hashes of flows, those used last first; zero: none.
    sets: Box<[[u64; PLACES]]>,
    /// Flows that need no look: most packets are of the same as the one before.
    noted: Option<Flow>,
    found: Option<Flow>,
}

impl BegunFlows {
    fn new() -> Self {
        Self {
            hasher: RandomState::new(),
            sets: vec![[0; PLACES]; SETS].into_boxed_slice(),
            noted: None,
            found: None,
        }
    }

    fn note(&mut self, flow: Flow) {
        if self.noted == Some(flow) {
            return;
        }
        self.noted = Some(flow);
        let (hash, set) = self.set(flow);
        let place = set.iter().position(|known| *known == hash);
        set[..=place.unwrap_or(PLACES - 1)].rotate_right(1);
        set[0] = hash;
        // It may be the one that is forgotten.
        self.found = None;
    }

    fn has(&mut self, flow: Flow) -> bool {
        if self.found == Some(flow) {
            return true;
        }
        let (hash, set) = self.set(flow);
        let Some(place) = set.iter().position(|known| *known == hash) else {
            return false;
        };
        set[..=place].rotate_right(1);
        // The client's next packet has to say that it uses the flow.
        self.noted = None;
        self.found = Some(flow);
        true
    }

    fn set(&mut self, flow: Flow) -> (u64, &mut [u64; PLACES]) {
        let hash = self.hasher.hash_one(flow).max(1);
        let set = (hash >> 32) as usize % SETS;
        (hash, &mut self.sets[set])
    }
}

impl std::fmt::Debug for BegunFlows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BegunFlows").finish_non_exhaustive()
    }
}

/// 16,384 flows in 128 KiB.
const SETS: usize = 2048;
const PLACES: usize = 8;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
const ECHO_V4: u8 = 8;
const REPLY_V4: u8 = 0;
const ECHO_V6: u8 = 128;
const REPLY_V6: u8 = 129;
/// Destination unreachable, time exceeded, parameter problem (RFC 792).
const ERRORS_V4: &[u8] = &[3, 11, 12];
/// Destination unreachable, packet too big, time exceeded, parameter problem (RFC 4443).
const ERRORS_V6: &[u8] = &[1, 2, 3, 4];
/// Redirect, router advertisement, router solicitation (RFC 792, RFC 1256).
const ROUTING_V4: &[u8] = &[5, 9, 10];
/// Router and neighbour solicitations and advertisements, redirect (RFC 4861).
const ROUTING_V6: &[u8] = &[133, 134, 135, 136, 137];
/// TCP, UDP, DCCP, SCTP, UDP-Lite.
const HAVE_PORTS: [u8; 5] = [6, 17, 33, 132, 136];

#[cfg(test)]
mod tests;
