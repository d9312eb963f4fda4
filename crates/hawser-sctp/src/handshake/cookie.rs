use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use hawser_types::Instant;
use hawser_wire::sctp::{Cause, Tsn, VerificationTag};
use subtle::ConstantTimeEq as _;

use super::negotiated::Negotiated;
use super::offer::MAX_PEER_ADDRESSES;

/// A state cookie: an association that does not exist yet. The peer carries it, so that an INIT
/// costs no memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cookie {
    /// Time from which the cookie is stale.
    pub(crate) expires: Instant,
    /// Number of the association that it would replace, 0 for none. It reveals nothing about that
    /// association's tags.
    pub(crate) tie: u64,
    /// The negotiated values.
    pub(crate) negotiated: Negotiated,
}

/// Key for cookies that others can neither make nor change.
///
/// Each span of time has a key derived from this one, so that none is used for long.
#[derive(Clone)]
pub(crate) struct CookieKey([u8; 32]);

/// The cookie is not from this host, or was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Forged;

impl Cookie {
    /// Tells whether the cookie may come from this source, in a packet with this tag and these SCTP
    /// ports.
    pub(crate) fn fits(
        &self,
        source: SocketAddr,
        tag: VerificationTag,
        port: u16,
        peer_port: u16,
    ) -> bool {
        let negotiated = &self.negotiated;
        negotiated.local_tag == tag
            && (negotiated.port, negotiated.peer_port) == (port, peer_port)
            && negotiated
                .peer_addresses
                .iter()
                .any(|it| it.ip() == source.ip())
    }

    /// Returns the cause to report for a stale cookie; `None` while it is fresh.
    pub(crate) fn stale_cause(&self, now: Instant) -> Option<Cause> {
        let late = now.since(self.expires).as_micros();
        (self.expires <= now).then(|| Cause::StaleCookie(u32::try_from(late).unwrap_or(u32::MAX)))
    }

    fn encode(&self) -> BytesMut {
        let negotiated = &self.negotiated;
        let mut out = BytesMut::with_capacity(96);
        out.put_u64(self.expires.as_nanos());
        out.put_u64(self.tie);
        out.put_u32(negotiated.local_tag.value());
        out.put_u32(negotiated.peer_tag.value());
        out.put_u32(negotiated.initial_tsn.value());
        out.put_u32(negotiated.peer_initial_tsn.value());
        out.put_u32(negotiated.peer_window);
        for number in [
            negotiated.outbound_streams,
            negotiated.inbound_streams,
            negotiated.port,
            negotiated.peer_port,
        ] {
            out.put_u16(number);
        }
        out.put_u8(
            u8::from(negotiated.interleaving)
                | u8::from(negotiated.partial_reliability) << 1
                | u8::from(negotiated.reconfiguration) << 2
                | u8::from(negotiated.zero_checksum) << 3,
        );
        // One port for all addresses, since one packet listed them.
        out.put_u16(
            negotiated
                .peer_addresses
                .first()
                .map_or(0, SocketAddr::port),
        );
        for address in &negotiated.peer_addresses {
            match address.ip() {
                IpAddr::V4(address) => {
                    out.put_u8(4);
                    out.put_slice(&address.octets());
                }
                IpAddr::V6(address) => {
                    out.put_u8(6);
                    out.put_slice(&address.octets());
                }
            }
        }
        out
    }

    fn decode(mut from: &[u8]) -> Option<Self> {
        let from = &mut from;
        let expires = Instant::from_nanos(from.try_get_u64().ok()?);
        let tie = from.try_get_u64().ok()?;
        let mut word = || from.try_get_u32().ok();
        let tags = [word()?, word()?].map(VerificationTag::new);
        let numbers = [word()?, word()?].map(Tsn::new);
        let peer_window = word()?;
        let mut half = || from.try_get_u16().ok();
        let [outbound_streams, inbound_streams, port, peer_port] =
            [half()?, half()?, half()?, half()?];
        let flags = from.try_get_u8().ok()?;
        let udp_port = from.try_get_u16().ok()?;
        let mut peer_addresses = Vec::new();
        while from.has_remaining() {
            let address =
                decode_address(from).filter(|_| peer_addresses.len() < MAX_PEER_ADDRESSES)?;
            peer_addresses.push(SocketAddr::new(address, udp_port));
        }
        let negotiated = Negotiated {
            local_tag: tags[0],
            peer_tag: tags[1],
            initial_tsn: numbers[0],
            peer_initial_tsn: numbers[1],
            outbound_streams,
            inbound_streams,
            peer_window,
            port,
            peer_port,
            peer_addresses,
            interleaving: flags & 1 != 0,
            partial_reliability: flags & 2 != 0,
            reconfiguration: flags & 4 != 0,
            zero_checksum: flags & 8 != 0,
        };
        Some(Self {
            expires,
            tie,
            negotiated,
        })
    }
}

impl CookieKey {
    pub(crate) fn new(secret: [u8; 32]) -> Self {
        Self(secret)
    }

    /// Encodes and authenticates a cookie.
    pub(crate) fn seal(&self, cookie: &Cookie) -> Bytes {
        let mut out = cookie.encode();
        let code = self.code(cookie.expires, &out);
        out.put_slice(&code);
        out.freeze()
    }

    /// Verifies and decodes a cookie. The caller checks its age.
    pub(crate) fn open(&self, sealed: &[u8]) -> Result<Cookie, Forged> {
        let length = sealed.len().checked_sub(CODE_LENGTH).ok_or(Forged)?;
        let (content, code) = sealed.split_at(length);
        let expires = content.first_chunk().ok_or(Forged)?;
        let expires = Instant::from_nanos(u64::from_be_bytes(*expires));
        if !bool::from(self.code(expires, content).ct_eq(code)) {
            return Err(Forged);
        }
        Cookie::decode(content).ok_or(Forged)
    }

    /// Returns a number that names the association with this tag in cookies, without revealing the
    /// tag; never 0.
    pub(crate) fn tie(&self, tag: VerificationTag) -> u64 {
        let mut named = *b"tie\0\0\0\0";
        named[3..].copy_from_slice(&tag.value().to_be_bytes());
        let hash = blake3::keyed_hash(&self.0, &named);
        u64::from_be_bytes(*hash.as_bytes().first_chunk().expect("32 bytes")).max(1)
    }

    fn code(&self, expires: Instant, content: &[u8]) -> [u8; CODE_LENGTH] {
        let span = expires.as_nanos() / KEY_SPAN.as_nanos() as u64;
        let key = blake3::keyed_hash(&self.0, &span.to_be_bytes());
        let code = blake3::keyed_hash(key.as_bytes(), content);
        *code.as_bytes().first_chunk().expect("32 bytes")
    }
}

impl std::fmt::Debug for CookieKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CookieKey(..)")
    }
}

fn decode_address(from: &mut &[u8]) -> Option<IpAddr> {
    match from.try_get_u8().ok()? {
        4 => from
            .try_get_u32()
            .ok()
            .map(|it| Ipv4Addr::from_bits(it).into()),
        6 => from
            .try_get_u128()
            .ok()
            .map(|it| Ipv6Addr::from_bits(it).into()),
        _ => None,
    }
}

/// Length of the authentication code: half a hash is as hard to guess as any key, and keeps the
/// answer short.
const CODE_LENGTH: usize = 16;

/// Time span of one derived key.
const KEY_SPAN: Duration = Duration::from_secs(600);
