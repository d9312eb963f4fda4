//! DNS questions in packets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use bytes::{BufMut as _, Bytes};
use hawser_tunnel::checksum::Sum;
use hawser_tunnel::packet::PacketView;

use super::terms::Inner;

/// A DNS question that a program has sent to the gateway's inner address.
pub(crate) struct Question {
    /// The program's socket.
    pub(crate) from: SocketAddr,
    /// The DNS message.
    pub(crate) message: Bytes,
    /// The address that the question was sent to.
    server: IpAddr,
}

impl Question {
    /// Returns the question in a packet, if the packet has one for `gateway`.
    pub(crate) fn of(view: &PacketView<'_>, gateway: Inner) -> Option<Self> {
        let (own, _) = view.ports().filter(|(_, to)| *to == PORT)?;
        if view.protocol() != UDP || !gateway.contains(view.destination()) {
            return None;
        }
        let message = view.transport().get(UDP_HEADER..)?;
        Some(Self {
            from: SocketAddr::new(view.source(), own),
            message: Bytes::copy_from_slice(message),
            server: view.destination(),
        })
    }

    /// Returns the packet with the answer.
    pub(crate) fn answered_by(&self, answer: &[u8]) -> Vec<u8> {
        let length = u16::try_from(UDP_HEADER + answer.len()).unwrap_or(u16::MAX);
        let mut packet = match (self.server, self.from.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => v4_header(from, to, length),
            (IpAddr::V6(from), IpAddr::V6(to)) => v6_header(from, to, length),
            // A packet has addresses of one family.
            _ => return Vec::new(),
        };
        let header = packet.len();
        packet.put_u16(PORT);
        packet.put_u16(self.from.port());
        packet.put_u16(length);
        packet.put_u16(0);
        packet.put_slice(answer);
        let addresses = addresses_of(&packet, header);
        let sum = checksum(&[
            addresses,
            &[0, UDP],
            &length.to_be_bytes(),
            &packet[header..],
        ]);
        // Zero means that there is no checksum (RFC 768).
        let sum = if sum == 0 { u16::MAX } else { sum };
        packet[header + 6..header + 8].copy_from_slice(&sum.to_be_bytes());
        packet
    }
}

fn v4_header(from: Ipv4Addr, to: Ipv4Addr, length: u16) -> Vec<u8> {
    let mut header = Vec::new();
    header.put_u16(0x4500);
    header.put_u16(length.saturating_add(V4_HEADER));
    // The identification has no meaning without fragments (RFC 6864).
    header.put_u16(0);
    header.put_u16(0x4000);
    header.put_slice(&[64, UDP, 0, 0]);
    header.put_slice(&from.octets());
    header.put_slice(&to.octets());
    let sum = checksum(&[&header]);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    header
}

fn v6_header(from: Ipv6Addr, to: Ipv6Addr, length: u16) -> Vec<u8> {
    let mut header = Vec::new();
    header.put_u32(0x6000_0000);
    header.put_u16(length);
    header.put_slice(&[UDP, 64]);
    header.put_slice(&from.octets());
    header.put_slice(&to.octets());
    header
}

/// Returns the addresses at the end of an IP header of `header` bytes.
fn addresses_of(packet: &[u8], header: usize) -> &[u8] {
    let begin = if header == usize::from(V4_HEADER) {
        12
    } else {
        8
    };
    &packet[begin..header]
}

/// Computes the internet checksum. Only the last part may have an odd length.
fn checksum(parts: &[&[u8]]) -> u16 {
    let add = |sum: Sum, part: &&[u8]| sum.add_bytes(part);
    parts.iter().fold(Sum::default(), add).finish()
}

const PORT: u16 = 53;
const UDP: u8 = 17;
const UDP_HEADER: usize = 8;
const V4_HEADER: u16 = 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn inner() -> Inner {
        Inner {
            v4: Some(Ipv4Addr::new(10, 83, 0, 1)),
            v6: Some(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1)),
        }
    }

    fn of(packet: &[u8]) -> Option<Question> {
        Question::of(&PacketView::parse(packet).unwrap(), inner())
    }

    /// Returns a program's packet, made by the same code with the ends exchanged.
    fn asked(from: &str, to: &str, message: &[u8]) -> Vec<u8> {
        let question = Question {
            from: SocketAddr::new(to.parse().unwrap(), PORT),
            message: Bytes::new(),
            server: from.parse().unwrap(),
        };
        question.answered_by(message)
    }

    #[test]
    fn a_question_is_found_and_its_answer_goes_back() {
        for (from, to) in [("10.83.0.2", "10.83.0.1"), ("fd00::2", "fd00::1")] {
            let packet = asked(from, to, b"who?");
            let question = of(&packet).unwrap();
            assert_eq!(question.message, "who?");
            assert_eq!(
                question.from,
                format!("{from}:53").parse().unwrap_or(question.from)
            );
            let answer = question.answered_by(b"it is me");
            let view = PacketView::parse(&answer).unwrap();
            assert_eq!(view.source(), question.server);
            assert_eq!(view.destination(), question.from.ip());
            assert_eq!(&view.transport()[UDP_HEADER..], b"it is me");
            // The checksum over all parts, the checksum field included, is zero.
            let header = view.header_length();
            let length = (answer.len() - header) as u16;
            let udp = [
                addresses_of(&answer, header),
                &[0, UDP],
                &length.to_be_bytes(),
                view.transport(),
            ];
            assert_eq!(checksum(&udp), 0);
        }
    }

    #[test]
    fn other_packets_are_left_alone() {
        let elsewhere = asked("10.83.0.2", "8.8.8.8", b"who?");
        assert!(of(&elsewhere).is_none());
        let mut tcp = asked("10.83.0.2", "10.83.0.1", b"who?");
        tcp[9] = 6;
        assert!(of(&tcp).is_none());
    }
}
