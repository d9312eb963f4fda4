//! Answers to the sender of a packet that is not forwarded, in place of silence.

use std::net::IpAddr;

use hawser_tunnel::icmp::{clamp_segment_size, prohibited, too_big};
use hawser_tunnel::packet::PacketView;
use hawser_tunnel::reset;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::terms::Inner;
use crate::token_bucket::TokenBucket;

/// Answers in the name of one end of a tunnel.
///
/// The rate of answers is limited (RFC 1812 §4.3.2.8, RFC 4443 §2.4): a sender that gets no
/// answer may get one when it retries.
#[derive(Debug)]
pub(super) struct Answers {
    from: Inner,
    limit: Mutex<TokenBucket>,
}

impl Answers {
    /// Creates answers whose source is one of these addresses.
    pub(super) fn new(from: Inner) -> Self {
        Self {
            from,
            limit: Mutex::new(TokenBucket::new(Instant::now())),
        }
    }

    /// Returns the answer to a packet that a policy keeps from its destination.
    pub(super) fn to_prohibited(&self, packet: &PacketView<'_>) -> Option<Vec<u8>> {
        self.limited(prohibited(packet, self.own(packet)?))
    }

    /// Returns the answer to a packet that the client must not or need not send to the gateway.
    pub(super) fn at_client(&self, packet: &PacketView<'_>, mtu: u16) -> Option<Vec<u8>> {
        if packet.length() > usize::from(mtu) {
            self.to_too_big(packet, mtu)
        } else {
            self.to_stub(packet)
        }
    }

    /// Returns the answer to a packet of more than `mtu` bytes.
    fn to_too_big(&self, packet: &PacketView<'_>, mtu: u16) -> Option<Vec<u8>> {
        self.limited(too_big(packet, mtu, self.own(packet)?))
    }

    /// Returns the answer to a TCP segment for a name server at these addresses, where DNS is
    /// served over UDP only.
    fn to_stub(&self, packet: &PacketView<'_>) -> Option<Vec<u8>> {
        let (_, port) = packet.ports()?;
        let is_meant = port == NAMES && self.from.contains(packet.destination());
        is_meant.then(|| self.limited(reset(packet))).flatten()
    }

    /// Returns this end's address of the packet's family.
    fn own(&self, packet: &PacketView<'_>) -> Option<IpAddr> {
        let is_v4 = packet.source().is_ipv4();
        self.from.addresses().find(|own| own.is_ipv4() == is_v4)
    }

    fn limited(&self, answer: Option<Vec<u8>>) -> Option<Vec<u8>> {
        let answer = answer?;
        let mut limit = self.limit.lock();
        let may = limit.take(ANSWERS_PER_SECOND, BURST, Instant::now());
        may.then_some(answer)
    }
}

/// Returns the packet with a segment size that fits `mtu`, if it is a SYN that announces more.
pub(super) fn fitted(packet: &PacketView<'_>, mtu: u16) -> Option<Vec<u8>> {
    if packet.tcp_flags()? & SYN == 0 {
        return None;
    }
    let mut packet = packet.bytes().to_vec();
    clamp_segment_size(&mut packet, mtu).then_some(packet)
}

const ANSWERS_PER_SECOND: u32 = 100;
const BURST: u32 = 50;
/// Port of name servers.
const NAMES: u16 = 53;
const SYN: u8 = 0x02;

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn answers() -> Answers {
        Answers::new(Inner {
            v4: Some(Ipv4Addr::new(10, 83, 0, 1)),
            v6: None,
        })
    }

    /// Returns a packet from 10.83.0.2 with this protocol and the bytes behind the IP header.
    fn packet(to: [u8; 4], protocol: u8, transport: &[u8]) -> Vec<u8> {
        let length = (20 + transport.len()) as u16;
        let mut packet = vec![
            0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, protocol, 0, 0, 10, 83, 0, 2,
        ];
        packet[2..4].copy_from_slice(&length.to_be_bytes());
        packet.extend_from_slice(&to);
        packet.extend_from_slice(transport);
        packet
    }

    /// A SYN to a port that announces segments of 1460 bytes.
    fn syn(to: [u8; 4], port: u8) -> Vec<u8> {
        let mut segment = [0; 24];
        (segment[3], segment[12], segment[13]) = (port, 0x60, SYN);
        segment[20..].copy_from_slice(&[2, 4, 5, 0xb4]);
        packet(to, 6, &segment)
    }

    #[test]
    fn refusals_are_told_at_a_limited_rate() {
        let answers = answers();
        let packet = packet([8, 8, 8, 8], 17, &[0; 8]);
        let view = PacketView::parse(&packet).unwrap();
        let told = (0..10_000).filter(|_| answers.to_prohibited(&view).is_some());
        let told = told.count() as u32;
        assert!((BURST..10_000).contains(&told), "{told}");
        let none = Answers::new(Inner::default());
        assert_eq!(none.to_prohibited(&view), None, "there is no address");
    }

    #[test]
    fn a_packet_that_is_too_big_is_told_the_size() {
        let packet = packet([8, 8, 8, 8], 17, &[0; 1400]);
        let answer = answers().to_too_big(&PacketView::parse(&packet).unwrap(), 1300);
        assert_eq!(answer.unwrap()[26..28], 1300_u16.to_be_bytes());
    }

    #[test]
    fn only_the_name_server_without_tcp_refuses_connections() {
        let refused = |packet: &[u8]| {
            let answer = answers().to_stub(&PacketView::parse(packet).unwrap());
            answer.is_some()
        };
        assert!(refused(&syn([10, 83, 0, 1], 53)));
        assert!(!refused(&syn([10, 83, 0, 1], 80)));
        assert!(!refused(&syn([8, 8, 8, 8], 53)));
        assert!(!refused(&packet(
            [10, 83, 0, 1],
            17,
            &[0, 9, 0, 53, 0, 8, 0, 0]
        )));
    }

    #[test]
    fn segments_are_made_to_fit() {
        let packet = syn([8, 8, 8, 8], 80);
        let fitted = |packet: &[u8]| super::fitted(&PacketView::parse(packet).unwrap(), 1400);
        let fitting = fitted(&packet).unwrap();
        assert_eq!(fitting[42..], [2, 4, 5, 0x50][2..]);
        assert_eq!(fitted(&fitting), None);
        let mut other = packet;
        other[33] = 0x10;
        assert_eq!(fitted(&other), None);
    }
}
