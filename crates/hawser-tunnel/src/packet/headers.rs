use super::error::PacketFault;
use super::version::IpVersion;

/// Contents of the IP headers of a packet, with places counted from its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Headers {
    pub(super) version: IpVersion,
    /// Length of the packet; not less than `transport`.
    pub(super) length: usize,
    /// Where what is behind the IP headers begins.
    pub(super) transport: usize,
    /// Protocol of what is behind them.
    pub(super) protocol: u8,
    /// Offset in the whole packet, in bytes, where this is a fragment of one.
    pub(super) fragment: Option<usize>,
}

impl Headers {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, PacketFault> {
        match bytes.first().ok_or(PacketFault::Empty)? >> 4 {
            4 => Self::parse_v4(bytes),
            6 => Self::parse_v6(bytes),
            version => Err(PacketFault::Version(version)),
        }
    }

    fn parse_v4(bytes: &[u8]) -> Result<Self, PacketFault> {
        let fixed = bytes
            .first_chunk::<IPV4_HEADER>()
            .ok_or(PacketFault::Truncated)?;
        let header = usize::from(fixed[0] & 0x0f) * 4;
        let length = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
        if header < IPV4_HEADER || header > length {
            return Err(PacketFault::HeaderLength(header));
        }
        let field = u16::from_be_bytes([fixed[6], fixed[7]]);
        let (offset, more) = (usize::from(field & 0x1fff) * 8, field & 0x2000 != 0);
        Ok(Self {
            version: IpVersion::V4,
            length,
            transport: header,
            protocol: fixed[9],
            fragment: (more || offset > 0).then_some(offset),
        })
    }

    fn parse_v6(bytes: &[u8]) -> Result<Self, PacketFault> {
        let fixed = bytes
            .first_chunk::<IPV6_HEADER>()
            .ok_or(PacketFault::Truncated)?;
        let payload = usize::from(u16::from_be_bytes([fixed[4], fixed[5]]));
        let length = IPV6_HEADER + payload;
        let packet = bytes.get(..length).ok_or(PacketFault::Truncated)?;
        let mut headers = Self {
            version: IpVersion::V6,
            length,
            transport: IPV6_HEADER,
            protocol: fixed[6],
            fragment: None,
        };
        let mut count = 0;
        while headers.skip_extension(packet)? {
            count += 1;
            if count > MAX_EXTENSION_HEADERS {
                return Err(PacketFault::ExtensionHeaders(MAX_EXTENSION_HEADERS));
            }
        }
        Ok(headers)
    }

    /// Goes past one extension header. Returns whether there was one.
    fn skip_extension(&mut self, packet: &[u8]) -> Result<bool, PacketFault> {
        let is_later_fragment = self.fragment.is_some_and(|offset| offset > 0);
        if is_later_fragment || !EXTENSIONS.contains(&self.protocol) {
            return Ok(false);
        }
        let rest = &packet[self.transport..];
        let fixed = rest.first_chunk::<4>().ok_or(PacketFault::Truncated)?;
        let length = match self.protocol {
            FRAGMENT => 8,
            _ => (usize::from(fixed[1]) + 1) * 8,
        };
        if length > rest.len() {
            return Err(PacketFault::HeaderLength(length));
        }
        if self.protocol == FRAGMENT {
            let field = u16::from_be_bytes([fixed[2], fixed[3]]);
            let (offset, more) = (usize::from(field & !7), field & 1 != 0);
            // A packet that is whole in spite of the header is no fragment (RFC 6946).
            self.fragment = (more || offset > 0).then_some(offset);
        }
        self.protocol = fixed[0];
        self.transport += length;
        Ok(true)
    }
}

const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;
const FRAGMENT: u8 = 44;
/// Hop-by-hop options, routing, fragment, destination options, mobility. The authentication header
/// counts as the protocol: its parameter index tells flows apart.
const EXTENSIONS: [u8; 5] = [0, 43, FRAGMENT, 60, 135];
/// Real packets have one or two.
const MAX_EXTENSION_HEADERS: usize = 8;
