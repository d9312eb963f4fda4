//! IPv4 and IPv6 packets, read in place.

mod error;
mod headers;
mod mark;
#[cfg(test)]
pub(crate) mod samples;
#[cfg(test)]
mod tests;
mod version;

use std::net::IpAddr;

pub use error::PacketFault;
pub use mark::{Ecn, mark_congestion};
pub use version::IpVersion;

use headers::Headers;

pub use crate::flow_key::FlowKey;

/// A packet whose IP headers were checked.
///
/// The header behind them is not: a TCP segment whose header is cut short has no ports here, and
/// is carried as it is.
#[derive(Clone, Copy, Debug)]
pub struct PacketView<'a> {
    /// The packet, without anything behind its end.
    bytes: &'a [u8],
    headers: Headers,
    trailing: usize,
}

impl<'a> PacketView<'a> {
    /// Reads a packet at the front of `bytes`. What follows its end is left out, see
    /// [`Self::trailing`].
    ///
    /// # Errors
    /// Fails where the IP headers contradict themselves, or the packet is cut short.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, PacketFault> {
        let headers = Headers::parse(bytes)?;
        let (packet, rest) = bytes
            .split_at_checked(headers.length)
            .ok_or(PacketFault::Truncated)?;
        Ok(Self {
            bytes: packet,
            headers,
            trailing: rest.len(),
        })
    }

    /// The packet.
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Length of the packet, by its header.
    pub const fn length(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes behind the packet's end, as of padding on a short Ethernet frame.
    pub const fn trailing(&self) -> usize {
        self.trailing
    }

    /// Version of the Internet Protocol.
    pub const fn version(&self) -> IpVersion {
        self.headers.version
    }

    /// Source address.
    pub fn source(&self) -> IpAddr {
        self.addresses().0
    }

    /// Destination address. With a routing header it is the next hop's.
    pub fn destination(&self) -> IpAddr {
        self.addresses().1
    }

    /// Protocol behind the IP headers; of IPv6 the first one that is not an extension header.
    pub const fn protocol(&self) -> u8 {
        self.headers.protocol
    }

    /// The packet is a fragment of a larger one, the first or a later one.
    pub const fn is_fragment(&self) -> bool {
        self.headers.fragment.is_some()
    }

    /// The packet carries the beginning of what is behind the IP headers.
    pub fn is_first_fragment(&self) -> bool {
        self.headers.fragment.is_none_or(|offset| offset == 0)
    }

    /// The packet forbids routers to fragment it, as every packet of IPv6 does.
    pub fn forbids_fragments(&self) -> bool {
        match self.version() {
            IpVersion::V4 => self.bytes[6] & 0x40 != 0,
            IpVersion::V6 => true,
        }
    }

    /// Length of the IP headers, with options and extension headers.
    pub const fn header_length(&self) -> usize {
        self.headers.transport
    }

    /// Returns the bytes behind the IP headers.
    pub fn transport(&self) -> &'a [u8] {
        &self.bytes[self.headers.transport..]
    }

    /// Source and destination port of TCP, UDP, UDP-Lite, SCTP and DCCP. `None` in fragments and
    /// where the header is cut short.
    pub fn ports(&self) -> Option<(u16, u16)> {
        if self.is_fragment() || !HAVE_PORTS.contains(&self.protocol()) {
            return None;
        }
        let words = self.transport().first_chunk::<4>()?;
        Some(halves(*words))
    }

    /// Flags of a TCP segment, as in its fourteenth byte. `None` where that is cut short.
    pub fn tcp_flags(&self) -> Option<u8> {
        let is_whole = self.protocol() == TCP && self.is_first_fragment();
        self.transport().get(13).copied().filter(|_| is_whole)
    }

    /// Differentiated services code point.
    pub fn dscp(&self) -> u8 {
        self.traffic_class() >> 2
    }

    /// Explicit congestion notification.
    pub fn ecn(&self) -> Ecn {
        Ecn::of(self.traffic_class())
    }

    /// Returns the key that all packets of its flow share.
    pub fn flow_key(&self) -> FlowKey {
        let (source, destination) = self.addresses();
        FlowKey {
            source,
            destination,
            protocol: self.protocol(),
            dscp: self.dscp(),
            ports: self.flow_ports().unwrap_or_default(),
        }
    }

    fn flow_ports(&self) -> Option<(u16, u16)> {
        if self.is_fragment() {
            return None;
        }
        let transport = self.transport();
        match self.protocol() {
            ICMP | ICMPV6 => {
                let is_echo = ECHOES.contains(transport.first()?);
                let id = u16::from_be_bytes(*transport.get(4..6)?.first_chunk()?);
                is_echo.then_some((id, id))
            }
            ESP => Some(halves(*transport.first_chunk()?)),
            AH => Some(halves(*transport.get(4..)?.first_chunk()?)),
            _ => self.ports(),
        }
    }

    fn addresses(&self) -> (IpAddr, IpAddr) {
        fn at<const N: usize>(bytes: &[u8], place: usize) -> [u8; N] {
            let mut address = [0; N];
            address.copy_from_slice(&bytes[place..place + N]);
            address
        }
        let bytes = self.bytes;
        match self.version() {
            IpVersion::V4 => (at::<4>(bytes, 12).into(), at::<4>(bytes, 16).into()),
            IpVersion::V6 => (at::<16>(bytes, 8).into(), at::<16>(bytes, 24).into()),
        }
    }

    fn traffic_class(&self) -> u8 {
        match self.version() {
            IpVersion::V4 => self.bytes[1],
            IpVersion::V6 => self.bytes[0] << 4 | self.bytes[1] >> 4,
        }
    }
}

fn halves(word: [u8; 4]) -> (u16, u16) {
    let [a, b, c, d] = word;
    (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))
}

pub(crate) const ICMP: u8 = 1;
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
pub(crate) const ESP: u8 = 50;
pub(crate) const AH: u8 = 51;
pub(crate) const ICMPV6: u8 = 58;
/// TCP, UDP, DCCP, SCTP, UDP-Lite: all begin with both ports.
const HAVE_PORTS: [u8; 5] = [TCP, UDP, 33, 132, 136];
/// Echo replies and requests, of ICMP and of ICMPv6.
const ECHOES: [u8; 4] = [0, 8, 128, 129];
