use std::collections::VecDeque;

use bytes::Bytes;

use super::split::pseudo_header;
use super::{
    ACK, PSH, Segmentation, TCP_CHECKSUM, TCP_HEADER, UDP_CHECKSUM, UDP_HEADER, VirtioHeader,
};
use crate::checksum::{Sum, put_checksum};
use crate::packet::{IpVersion, PacketView, TCP, UDP};

/// Makes one frame of consecutive packets of a flow.
///
/// Push what is to be written, [`Self::finish`], and pop frames to `None`. The order within each
/// flow stays. Packets whose checksum is wrong are never joined, since the frame's would be right.
#[derive(Debug, Default)]
pub struct Coalescer {
    joins_udp: bool,
    open: Vec<Open>,
    ready: VecDeque<Frame>,
}

/// A frame to be written with one call: the parts follow each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// [`VirtioHeader`], and the packet's headers where several were joined.
    pub head: Vec<u8>,
    /// A whole packet, or the payloads of those that were joined, not copied.
    pub parts: Vec<Bytes>,
}

/// A frame that more may be joined to.
#[derive(Debug)]
struct Open {
    first: Bytes,
    /// Length of the headers of the first packet, and of those of IP.
    head: usize,
    start: usize,
    segmentation: Segmentation,
    segment: usize,
    parts: Vec<Bytes>,
    payload: usize,
    last_flags: u8,
}

/// Parts of a packet that can be joined.
#[derive(Clone, Copy, Debug)]
struct Joinable {
    segmentation: Segmentation,
    start: usize,
    head: usize,
}

impl Coalescer {
    /// Creates one. `joins_udp`: the kernel takes frames of UDP (from Linux 6.2).
    pub fn new(joins_udp: bool) -> Self {
        Self {
            joins_udp,
            ..Self::default()
        }
    }

    /// Takes the next packet.
    pub fn push(&mut self, packet: Bytes) {
        let joinable = Joinable::of(&packet)
            .filter(|it| self.joins_udp || it.segmentation != Segmentation::Udp);
        let Some(joinable) = joinable else {
            self.close_flow(&packet);
            self.ready.push_back(Frame::of_one(packet));
            return;
        };
        let mut open = self.open.iter();
        if let Some(place) = open.position(|open| open.is_flow_of(&packet, &joinable)) {
            if self.open[place].join(&packet, &joinable) {
                if self.open[place].is_full() {
                    self.close(place);
                }
                return;
            }
            self.close(place);
        }
        if self.open.len() == MAX_OPEN {
            self.close(0);
        }
        let open = Open::new(packet, &joinable);
        // A segment with the push flag ends what its sender wrote at once.
        let is_over = open.last_flags & PSH != 0;
        self.open.push(open);
        if is_over {
            self.close(self.open.len() - 1);
        }
    }

    /// Nothing follows for now: frames that are open are ready.
    pub fn finish(&mut self) {
        while !self.open.is_empty() {
            self.close(0);
        }
    }

    /// Returns the next frame to write.
    pub fn pop(&mut self) -> Option<Frame> {
        self.ready.pop_front()
    }

    /// A packet that is written by itself must not overtake others of its flow.
    fn close_flow(&mut self, packet: &Bytes) {
        let Ok(view) = PacketView::parse(packet) else {
            return;
        };
        let (source, destination) = (view.source(), view.destination());
        let is_same = |open: &Open| {
            PacketView::parse(&open.first).is_ok_and(|first| {
                first.source() == source
                    && first.destination() == destination
                    && first.protocol() == view.protocol()
            })
        };
        while let Some(place) = self.open.iter().position(is_same) {
            self.close(place);
        }
    }

    fn close(&mut self, place: usize) {
        let open = self.open.remove(place);
        self.ready.push_back(open.into_frame());
    }
}

impl Frame {
    fn of_one(packet: Bytes) -> Self {
        Self {
            head: VirtioHeader::default().encode().to_vec(),
            parts: vec![packet],
        }
    }

    /// Number of the packets in it.
    pub fn packets(&self) -> u64 {
        self.parts.len() as u64
    }

    /// Bytes of these packets, each with its own headers.
    pub fn packet_bytes(&self) -> u64 {
        let payload: usize = self.parts.iter().map(Bytes::len).sum();
        let headers = self.head.len() - VirtioHeader::LENGTH;
        (payload + headers * self.parts.len()) as u64
    }

    /// Length of the frame in bytes.
    pub fn length(&self) -> usize {
        self.head.len() + self.parts.iter().map(Bytes::len).sum::<usize>()
    }
}

impl Joinable {
    fn of(packet: &[u8]) -> Option<Self> {
        let view = PacketView::parse(packet).ok()?;
        if view.is_fragment() || view.trailing() > 0 || !view.forbids_fragments() {
            return None;
        }
        let transport = view.transport();
        let (segmentation, length, least) = match (view.protocol(), view.version()) {
            (UDP, _) => {
                let length = usize::from(u16::from_be_bytes(*transport.get(4..6)?.first_chunk()?));
                let has_checksum = transport.get(6..8)? != [0, 0];
                let is_whole = length == transport.len() && has_checksum;
                is_whole.then_some((Segmentation::Udp, UDP_HEADER, UDP_HEADER))?
            }
            (TCP, version) => {
                let flags = *transport.get(13)?;
                let is_plain = flags & !PSH == ACK;
                let segmentation = match version {
                    IpVersion::V4 => Segmentation::Tcp4,
                    IpVersion::V6 => Segmentation::Tcp6,
                };
                let length = usize::from(transport[12] >> 4) * 4;
                is_plain.then_some((segmentation, length, TCP_HEADER))?
            }
            _ => return None,
        };
        let is_right = || {
            let sum = pseudo_header(&view, transport.len()).add_bytes(transport);
            sum.finish() == 0
        };
        let has_payload = length >= least && length < transport.len();
        let start = view.header_length();
        let head = start + length;
        (has_payload && is_right()).then_some(Self {
            segmentation,
            start,
            head,
        })
    }
}

impl Open {
    fn new(packet: Bytes, joinable: &Joinable) -> Self {
        let Joinable {
            segmentation,
            start,
            head,
        } = *joinable;
        let part = packet.slice(head..);
        Self {
            head,
            start,
            segmentation,
            segment: part.len(),
            payload: part.len(),
            last_flags: flags(&packet, joinable),
            parts: vec![part],
            first: packet,
        }
    }

    /// Addresses, ports and protocol are the same.
    fn is_flow_of(&self, packet: &[u8], joinable: &Joinable) -> bool {
        let addresses = match self.segmentation {
            Segmentation::Tcp6 => 8..40,
            Segmentation::Udp if self.first[0] >> 4 == 6 => 8..40,
            _ => 12..20,
        };
        let ports = |bytes: &[u8], start: usize| [0, 1, 2, 3].map(|at| bytes[start + at]);
        self.segmentation == joinable.segmentation
            && self.first[0] == packet[0]
            && self.start == joinable.start
            && self.first[addresses.clone()] == packet[addresses]
            && ports(&self.first, self.start) == ports(packet, joinable.start)
    }

    /// Joins the next packet of the flow, if it goes on where the last one ended, and differs in
    /// nothing that the frame has once only.
    fn join(&mut self, packet: &Bytes, joinable: &Joinable) -> bool {
        let part = packet.slice(joinable.head..);
        let fits = part.len() <= self.segment
            && self.head + self.payload + part.len() <= MAX_PACKET
            && joinable.head == self.head;
        if !fits || !self.has_same_ip_header(packet) || !self.goes_on_with(packet) {
            return false;
        }
        self.payload += part.len();
        self.last_flags = flags(packet, joinable);
        self.parts.push(part);
        true
    }

    /// All that an IP header says but lengths, identification and checksum.
    fn has_same_ip_header(&self, packet: &[u8]) -> bool {
        let own = &self.first;
        match own[0] >> 4 {
            4 => {
                own[..2] == packet[..2]
                    && own[6..10] == packet[6..10]
                    && own[20..self.start] == packet[20..self.start]
            }
            _ => own[..4] == packet[..4] && own[6..self.start] == packet[6..self.start],
        }
    }

    fn goes_on_with(&self, packet: &[u8]) -> bool {
        if self.segmentation == Segmentation::Udp {
            return true;
        }
        let (own, other) = (&self.first[self.start..self.head], &packet[self.start..]);
        let sequence = |bytes: &[u8]| u32::from_be_bytes([4, 5, 6, 7].map(|at| bytes[at]));
        let expected = sequence(own).wrapping_add(self.payload as u32);
        // The acknowledgement, the window and the options, in which the time stamps are.
        sequence(other) == expected
            && own[8..13] == other[8..13]
            && own[14..16] == other[14..16]
            && own[18..] == other[18..self.head - self.start]
    }

    /// Nothing may follow: the last part is short, or ends what its sender wrote.
    fn is_full(&self) -> bool {
        let is_short = self.parts.last().is_some_and(|it| it.len() < self.segment);
        is_short || self.last_flags & PSH != 0 || self.parts.len() == MAX_JOINED
    }

    fn into_frame(self) -> Frame {
        if self.parts.len() == 1 {
            return Frame::of_one(self.first);
        }
        let (start, length) = (self.start, self.head + self.payload);
        let place = match self.segmentation {
            Segmentation::Udp => UDP_CHECKSUM,
            _ => TCP_CHECKSUM,
        };
        let header = VirtioHeader {
            needs_checksum: true,
            segmentation: self.segmentation,
            header_length: self.head as u16,
            segment_size: self.segment as u16,
            checksum_start: start as u16,
            checksum_offset: place as u16,
        };
        let mut head = Vec::with_capacity(VirtioHeader::LENGTH + self.head);
        head.extend_from_slice(&header.encode());
        head.extend_from_slice(&self.first[..self.head]);
        let packet = &mut head[VirtioHeader::LENGTH..];
        match packet[0] >> 4 {
            4 => {
                packet[2..4].copy_from_slice(&(length as u16).to_be_bytes());
                put_checksum(&mut packet[..start], 10, Sum::default(), 0);
            }
            _ => packet[4..6].copy_from_slice(&((length - V6_HEADER) as u16).to_be_bytes()),
        }
        let transport = (length - start) as u16;
        if self.segmentation == Segmentation::Udp {
            packet[start + 4..start + 6].copy_from_slice(&transport.to_be_bytes());
        } else {
            packet[start + 13] |= self.last_flags & PSH;
        }
        if let Ok(view) = PacketView::parse(&self.first) {
            let sum = pseudo_header(&view, usize::from(transport)).fold();
            packet[start + place..start + place + 2].copy_from_slice(&sum.to_be_bytes());
        }
        Frame {
            head,
            parts: self.parts,
        }
    }
}

/// Flags of a TCP segment; none of UDP.
fn flags(packet: &[u8], joinable: &Joinable) -> u8 {
    match joinable.segmentation {
        Segmentation::Udp => 0,
        _ => packet[joinable.start + 13],
    }
}

const V6_HEADER: usize = 40;
/// Longest packet of IPv4.
const MAX_PACKET: usize = 65_535;
/// Datagrams that Linux cuts a frame of UDP into, before 6.9.
const MAX_JOINED: usize = 64;
/// Flows whose packets may alternate.
const MAX_OPEN: usize = 8;
