//! TCP by hand: from any address, with any options, and without a kernel that resets unknown
//! connections.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::Wire;
use super::segment::{Flag, Segment};

/// Sends segments from addresses that need not be the host's, and hears what is answered. The far
/// end needs a route for those addresses that leads to this namespace.
pub struct ByHand {
    wire: Wire,
    v4: Socket,
    v6: Socket,
}

/// A connection that the far end has answered.
pub struct Connection<'a> {
    hand: &'a ByHand,
    /// The segment that acknowledges all that was heard.
    next: Segment,
    /// The SYN-ACK.
    pub answer: Segment,
}

impl ByHand {
    /// In the namespace that the calling thread is in.
    ///
    /// # Errors
    /// What the kernel says; it takes root, or CAP_NET_RAW.
    pub fn new() -> io::Result<Self> {
        let raw = |domain| Socket::new(domain, Type::RAW, Some(Protocol::from(RAW)));
        Ok(Self {
            wire: Wire::new()?,
            v4: raw(Domain::IPV4)?,
            v6: raw(Domain::IPV6)?,
        })
    }

    /// Sends a segment.
    ///
    /// # Panics
    /// Where the kernel refuses it.
    pub fn send(&self, segment: &Segment) {
        let socket = if segment.to.is_ipv4() {
            &self.v4
        } else {
            &self.v6
        };
        // Raw sockets of IPv6 want no port.
        let to = SockAddr::from(SocketAddr::new(segment.to.ip(), 0));
        let packet = segment.packet();
        assert_eq!(socket.send_to(&packet, &to).unwrap(), packet.len());
    }

    /// Sends a SYN with these options, and waits for the SYN-ACK.
    ///
    /// # Panics
    /// Where none comes.
    pub fn connect(&self, from: SocketAddr, to: SocketAddr, options: &[u8]) -> Connection<'_> {
        let syn = Segment {
            sequence: FIRST,
            options: options.to_vec(),
            ..Segment::new(from, to, &[Flag::Syn])
        };
        self.send(&syn);
        let is_answer = |it: &Segment| (it.from, it.to) == (to, from) && it.has(Flag::Syn);
        let answer = self.wire.wait_for(PATIENCE, is_answer);
        let answer = answer.unwrap_or_else(|| panic!("no answer from {to} to {from}"));
        let next = Segment {
            sequence: FIRST.wrapping_add(1),
            acknowledgement: answer.sequence.wrapping_add(1),
            ..Segment::new(from, to, &[Flag::Ack])
        };
        Connection {
            hand: self,
            next,
            answer,
        }
    }
}

impl Connection<'_> {
    /// Sends bytes, few enough for one segment.
    pub fn say(&mut self, bytes: &[u8]) {
        let segment = Segment {
            payload: bytes.to_vec(),
            flags: self.next.flags | Flag::Push as u8,
            ..self.next.clone()
        };
        self.hand.send(&segment);
        let length = u32::try_from(bytes.len()).unwrap();
        self.next.sequence = self.next.sequence.wrapping_add(length);
    }

    /// Returns all that the far end says until it ends or resets the connection.
    ///
    /// # Panics
    /// Where it does neither in time.
    pub fn hear(mut self) -> Vec<u8> {
        let (mut heard, begun) = (Vec::new(), Instant::now());
        let (near, far) = (self.next.from, self.next.to);
        loop {
            let left = PATIENCE.saturating_sub(begun.elapsed());
            let its = |it: &Segment| (it.from, it.to) == (far, near) && !it.has(Flag::Syn);
            let segment = self.hand.wire.wait_for(left, its);
            let segment = segment.unwrap_or_else(|| panic!("{far} says no end: {heard:02x?}"));
            if segment.has(Flag::Reset) {
                return heard;
            }
            let is_next = segment.sequence == self.next.acknowledgement;
            let is_end = segment.has(Flag::Fin);
            if segment.payload.is_empty() && !is_end {
                continue;
            }
            if is_next {
                heard.extend(&segment.payload);
                let length = u32::try_from(segment.payload.len()).unwrap();
                let length = length + u32::from(is_end);
                self.next.acknowledgement = self.next.acknowledgement.wrapping_add(length);
            }
            if is_next && is_end {
                // It is done with on both sides.
                self.next.flags |= Flag::Reset as u8;
                self.hand.send(&self.next);
                return heard;
            }
            self.hand.send(&self.next);
        }
    }
}

/// `IPPROTO_RAW`: what is sent begins with the header of IP.
const RAW: i32 = 255;
/// Sequence number of the SYN.
const FIRST: u32 = 1_000_000;
const PATIENCE: Duration = Duration::from_secs(20);
