use std::net::IpAddr;
use std::time::Duration;

use hawser_types::Instant;
use hawser_wire::sctp::{Chunk, Parameter};

use super::cookie::{Cookie, CookieKey};
use super::identifiers::Identifiers;
use super::negotiated::Negotiated;
use super::offer::{MAX_PEER_ADDRESSES, Offer, PeerOffer};
use super::scope::{is_host, may_list};
use crate::{Local, Route};

/// The inputs of an INIT ACK.
#[derive(Debug)]
pub(crate) struct Answer<'a> {
    pub(crate) offer: &'a Offer,
    pub(crate) locals: &'a [Local],
    pub(crate) key: &'a CookieKey,
    /// Lifetime of the cookie.
    pub(crate) life: Duration,
}

impl Answer<'_> {
    /// Builds the INIT ACK. `tie`: see [`Cookie::tie`].
    ///
    /// It has at most three times the bytes of the INIT on the wire; own addresses that exceed this
    /// are left out.
    pub(crate) fn init_ack(
        &self,
        now: Instant,
        route: Route,
        identifiers: Identifiers,
        tie: u64,
        peer: &PeerOffer,
    ) -> Chunk {
        let negotiated = Negotiated::agree(self.offer, identifiers, peer, route.remote);
        let life = self.life + peer.cookie_life_increment.min(self.life);
        let cookie = self.key.seal(&Cookie {
            expires: now + life,
            tie,
            negotiated,
        });
        let reported: usize = peer.unrecognized.iter().map(|it| it.len() + 8).sum();
        let mut room = (MAX_GROWTH * (peer.min_packet_size + LOWER_HEADERS))
            .saturating_sub(LOWER_HEADERS + ANSWER_BASE + cookie.len() + reported);
        let mut addresses = own_addresses(self.locals, route, peer.families);
        addresses.retain(|address| {
            let size = if address.is_ipv4() { 8 } else { 20 };
            let fits = size <= room;
            room -= if fits { size } else { 0 };
            fits
        });
        let mut init = self.offer.init(identifiers, &addresses);
        init.parameters.push(Parameter::Cookie(cookie));
        init.parameters.extend(
            peer.unrecognized
                .iter()
                .cloned()
                .map(Parameter::Unrecognized),
        );
        Chunk::InitAck(init)
    }
}

/// Returns the own addresses to list to the peer of `route`, without the address in use.
/// `families`: the peer supports IPv4, and IPv6.
pub(crate) fn own_addresses(locals: &[Local], route: Route, families: [bool; 2]) -> Vec<IpAddr> {
    let mut addresses: Vec<IpAddr> = Vec::new();
    for Local { address, .. } in locals {
        let is_new = *address != route.local.address && !addresses.contains(address);
        let is_usable = is_host(*address)
            && may_list(route.remote.ip(), *address)
            && families[usize::from(address.is_ipv6())];
        if is_new && is_usable && addresses.len() + 1 < MAX_PEER_ADDRESSES {
            addresses.push(*address);
        }
    }
    addresses
}

/// Maximum size of an INIT ACK as a multiple of its INIT, both on the wire.
const MAX_GROWTH: usize = 3;

/// Size of the IPv4 and UDP headers.
const LOWER_HEADERS: usize = 28;

/// Size of an INIT ACK with all features, without addresses, cookie content and reports: common
/// header 12, chunk 20, FORWARD-TSN 4, zero checksum 8, extensions 12, the cookie's header 4 and
/// padding 3.
const ANSWER_BASE: usize = 63;
