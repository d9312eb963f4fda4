//! One segment of TCP: as bytes of a packet, and back.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A segment of TCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Address and port that it comes from.
    pub from: SocketAddr,
    /// Address and port that it goes to.
    pub to: SocketAddr,
    /// Sequence number.
    pub sequence: u32,
    /// Acknowledgement number.
    pub acknowledgement: u32,
    /// Flags, each a bit of the header.
    pub flags: u8,
    /// Options, padding included.
    pub options: Vec<u8>,
    /// What it carries.
    pub payload: Vec<u8>,
    /// The whole frame that it was heard in.
    pub frame: Vec<u8>,
}

/// A flag of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "RFC 9293 says what they mean")]
pub enum Flag {
    Fin = 0x01,
    Syn = 0x02,
    Reset = 0x04,
    Push = 0x08,
    Ack = 0x10,
}

impl Segment {
    /// A segment with these flags, and with nothing in it.
    pub fn new(from: SocketAddr, to: SocketAddr, flags: &[Flag]) -> Self {
        Self {
            from,
            to,
            sequence: 0,
            acknowledgement: 0,
            flags: flags.iter().fold(0, |all, flag| all | *flag as u8),
            options: Vec::new(),
            payload: Vec::new(),
            frame: Vec::new(),
        }
    }

    /// Tells whether it has this flag.
    pub fn has(&self, flag: Flag) -> bool {
        self.flags & flag as u8 != 0
    }

    /// Reads a frame of Ethernet; `None` if it is no segment of TCP in one piece.
    pub fn of_frame(frame: &[u8]) -> Option<Self> {
        let packet = frame.get(ETHERNET..)?;
        let segment = match frame.get(12..ETHERNET)? {
            [0x08, 0x00] => Self::of_v4(packet)?,
            [0x86, 0xdd] => Self::of_v6(packet)?,
            _ => return None,
        };
        let frame = frame.to_vec();
        Some(Self { frame, ..segment })
    }

    fn of_v4(packet: &[u8]) -> Option<Self> {
        let header = usize::from(packet.first()? & 15) * 4;
        let length = usize::from(number(packet, 2)?);
        let is_piece = number(packet, 6)? & 0x3fff != 0;
        if *packet.get(9)? != TCP || is_piece {
            return None;
        }
        let address = |at: usize| Some(Ipv4Addr::from(*packet.get(at..)?.first_chunk::<4>()?));
        let ends = (address(12)?.into(), address(16)?.into());
        Self::of_tcp(packet.get(header..length)?, ends)
    }

    fn of_v6(packet: &[u8]) -> Option<Self> {
        let length = IPV6_HEADER + usize::from(number(packet, 4)?);
        if *packet.get(6)? != TCP {
            return None;
        }
        let address = |at: usize| Some(Ipv6Addr::from(*packet.get(at..)?.first_chunk::<16>()?));
        let ends = (address(8)?.into(), address(24)?.into());
        Self::of_tcp(packet.get(IPV6_HEADER..length)?, ends)
    }

    fn of_tcp(bytes: &[u8], (from, to): (IpAddr, IpAddr)) -> Option<Self> {
        let data = usize::from(bytes.get(12)? >> 4) * 4;
        let long = |at: usize| Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
        Some(Self {
            from: SocketAddr::new(from, number(bytes, 0)?),
            to: SocketAddr::new(to, number(bytes, 2)?),
            sequence: long(4)?,
            acknowledgement: long(8)?,
            flags: *bytes.get(13)?,
            options: bytes.get(TCP_HEADER..data)?.to_vec(),
            payload: bytes.get(data..)?.to_vec(),
            frame: Vec::new(),
        })
    }

    /// The packet that it is in, which begins with the header of IP.
    ///
    /// # Panics
    /// Where the addresses are not of one family, or where it is too long for a packet.
    pub fn packet(&self) -> Vec<u8> {
        let tcp = self.tcp();
        let length = u16::try_from(tcp.len()).unwrap();
        match (self.from.ip(), self.to.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let all = (length + IPV4_HEADER).to_be_bytes();
                let mut packet = vec![0x45, 0, all[0], all[1], 0, 0, 0, 0, 64, TCP, 0, 0];
                packet.extend(from.octets());
                packet.extend(to.octets());
                let sum = checksum(&[&packet]).to_be_bytes();
                packet[10..12].copy_from_slice(&sum);
                [packet, tcp].concat()
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let length = length.to_be_bytes();
                let mut packet = vec![0x60, 0, 0, 0, length[0], length[1], TCP, 64];
                packet.extend(from.octets());
                packet.extend(to.octets());
                [packet, tcp].concat()
            }
            ends => panic!("{ends:?}"),
        }
    }

    /// Header and payload of TCP.
    fn tcp(&self) -> Vec<u8> {
        let mut options = self.options.clone();
        options.resize(options.len().next_multiple_of(4), 0);
        let header = u8::try_from(TCP_HEADER + options.len()).unwrap();
        let mut bytes = Vec::new();
        bytes.extend(self.from.port().to_be_bytes());
        bytes.extend(self.to.port().to_be_bytes());
        bytes.extend(self.sequence.to_be_bytes());
        bytes.extend(self.acknowledgement.to_be_bytes());
        bytes.extend([(header / 4) << 4, self.flags]);
        bytes.extend(WINDOW.to_be_bytes());
        bytes.extend([0; 4]);
        bytes.extend(options);
        bytes.extend(&self.payload);
        let length = u32::try_from(bytes.len()).unwrap();
        let mut before = Vec::new();
        for end in [self.from.ip(), self.to.ip()] {
            match end {
                IpAddr::V4(address) => before.extend(address.octets()),
                IpAddr::V6(address) => before.extend(address.octets()),
            }
        }
        before.extend(length.to_be_bytes());
        before.extend([0, 0, 0, TCP]);
        let sum = checksum(&[&before, &bytes]).to_be_bytes();
        bytes[16..18].copy_from_slice(&sum);
        bytes
    }

    /// Returns its option of kind 254, if it has one.
    ///
    /// # Panics
    /// Where the options can't be read.
    pub fn option(&self) -> Option<&[u8]> {
        let mut rest = &self.options[..];
        loop {
            match rest {
                [] | [0, ..] => return None,
                [1, behind @ ..] => rest = behind,
                [kind, length, ..] => {
                    let (option, behind) = rest.split_at(usize::from(*length));
                    if *kind == 254 {
                        return Some(option);
                    }
                    rest = behind;
                }
                [_] => panic!("broken options: {:02x?}", self.options),
            }
        }
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The checksum of these bytes, in which each piece but the last has an even length.
///
/// Source: RFC 1071.
fn checksum(pieces: &[&[u8]]) -> u16 {
    let mut sum = 0_u32;
    for pair in pieces.iter().flat_map(|piece| piece.chunks(2)) {
        let low = pair.get(1).copied().unwrap_or_default();
        sum += u32::from(u16::from_be_bytes([pair[0], low]));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

const ETHERNET: usize = 14;
const IPV4_HEADER: u16 = 20;
const IPV6_HEADER: usize = 40;
const TCP_HEADER: usize = 20;
/// The protocol in a header of IP.
const TCP: u8 = 6;
const WINDOW: u16 = 0xffff;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again_and_its_checksum_holds() {
        for (from, to) in [
            ("192.0.2.1:1000", "203.0.113.1:443"),
            ("[2001:db8::1]:1000", "[2001:db8::2]:443"),
        ] {
            let segment = Segment {
                sequence: 7,
                acknowledgement: 0xffff_fff0,
                options: vec![254, 10, b'H', b'W', 0x11, 2, 1, 2, 3, 4, 0, 0],
                payload: b"odd".to_vec(),
                ..Segment::new(
                    from.parse().unwrap(),
                    to.parse().unwrap(),
                    &[Flag::Syn, Flag::Push],
                )
            };
            let kind: [u8; 2] = if from.starts_with('[') {
                [0x86, 0xdd]
            } else {
                [8, 0]
            };
            let frame = [&[0; 12][..], &kind, &segment.packet()].concat();
            let read = Segment::of_frame(&frame).unwrap();
            assert_eq!(read.option(), Some(&segment.options[..10]));
            let expected = Segment { frame, ..segment };
            assert_eq!(read, expected);
            assert!(read.has(Flag::Syn) && !read.has(Flag::Ack));
        }
        // The example of RFC 1071 §3.
        assert_eq!(
            checksum(&[&[0, 1, 0xf2, 3], &[0xf4, 0xf5, 0xf6, 0xf7]]),
            0x220d
        );
    }
}
