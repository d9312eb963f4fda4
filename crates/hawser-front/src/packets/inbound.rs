//! Filter for the packets that a gateway sends to its client.
//!
//! The gateway is trusted with the packets that it forwards, not with this machine: its operator
//! must reach no service of this machine or of the hosts behind it. The client accepts a packet
//! only if its destination is the client's, its source is not, and its flow began here.

use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;

use bytes::Bytes;
use hawser_tunnel::packet::PacketView;
use ipnet::IpNet;
use parking_lot::Mutex;

/// The hosts that may begin flows to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InboundFlows {
    /// The client alone.
    Refused,
    /// Every host, through a gateway that routes; the client's inner addresses may be public then.
    Accepted,
}

/// Filters packets of the gateway, by the packets that the client has sent to the gateway.
#[derive(Debug)]
pub(super) struct Inbound {
    /// The client's addresses and networks.
    own: Vec<IpNet>,
    /// The flows that began here; `None` where other hosts may begin flows as well.
    begun: Option<Mutex<BegunFlows>>,
}

impl Inbound {
    /// Creates a filter that accepts packets for `own`.
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
        let mut begun = begun.lock();
        for packet in packets {
            let flow = PacketView::parse(packet).ok().and_then(|it| sent(&it));
            if let Some(flow) = flow {
                begun.note(flow);
            }
        }
    }

    /// Retains those of the gateway's packets that are accepted; returns how many are refused.
    pub(super) fn retain(&self, packets: &mut Vec<Bytes>) -> u64 {
        let before = packets.len();
        let begun = self.begun.as_ref();
        let mut begun = begun.map(|it| it.lock());
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

    /// Tells whether the packet is for the client, has a possible source address, and does not
    /// configure the kernel.
    fn is_plausible(&self, packet: &PacketView<'_>) -> bool {
        let is_own = |address: IpAddr| self.own.iter().any(|net| net.contains(&address));
        let source = packet.source();
        let is_nowhere = source.is_unspecified() || source.is_loopback() || source.is_multicast();
        let is_near = is_broadcast(source) || is_link_local(source);
        let is_usual = !is_own(source) && !is_nowhere && !is_near && !configures(packet);
        is_own(packet.destination()) && is_usual
    }
}

/// Identity of a flow, the same for packets of both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Flow {
    here: (IpAddr, u16),
    there: (IpAddr, u16),
    protocol: u8,
}

/// Kind of a packet from the gateway.
enum Received {
    /// A packet of this flow.
    Of(Flow),
    /// An error, which the kernel compares with the packets that it sent; or a later fragment,
    /// which is useless without the first fragment.
    Harmless,
    /// An unsolicited packet.
    Unasked,
}

/// Returns the flow of a packet of the client; `None` if no answer is expected.
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

/// Returns the identifier of an echo message of one of these kinds.
fn echo(packet: &PacketView<'_>, kinds: &[u8; 2]) -> Option<u16> {
    let expected = kinds[usize::from(packet.protocol() == ICMPV6)];
    let [kind, _, _, _, high, low] = *packet.transport().first_chunk()?;
    let is_meant = packet.is_first_fragment() && kind == expected;
    is_meant.then_some(u16::from_be_bytes([high, low]))
}

/// Returns source and destination port, also of a first fragment; zeros if the protocol has no
/// ports. `None`: the packet is too short.
fn ports(packet: &PacketView<'_>) -> Option<(u16, u16)> {
    if !HAVE_PORTS.contains(&packet.protocol()) {
        return Some((0, 0));
    }
    let [a, b, c, d] = *packet.transport().first_chunk()?;
    Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
}

/// Tells whether this is a router's or neighbour's message: advertisement, solicitation, redirect.
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

/// The flows that the client has used last. The memory is fixed, however many flows programs use.
///
/// A flow belongs to one set of places, by a hash that the peer can't predict. The flow that was
/// used least recently is evicted from its set. The client's next packet adds an evicted flow
/// again.
struct BegunFlows {
    hasher: RandomState,
    /// Hashes of flows, most recently used first; zero: an empty place.
    sets: Box<[[u64; PLACES]]>,
    /// Flows that need no search: most packets belong to the same flow as the packet before.
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
        // `found` may be the flow that was evicted.
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
        // The client's next packet must update the order again.
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
