//! Entry points for fuzzers: each takes any bytes and must return, in bounded memory.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use hawser_sched::PathView;
use hawser_sched::packet::PacketPolicy;
use hawser_types::{ByteCount, ChannelId, Instant, LinkIndex, PathId, Rate};
use hawser_wire::tunnel::TunnelMessage;

use crate::offload::{Coalescer, Split};
use crate::packet::{PacketView, mark_congestion};
use crate::{
    PathDelay, Placed, Receiver, ReceiverConfig, Sender, SenderConfig, TunnelPaths, icmp, reset,
};

/// A packet as a TUN device or a peer gives it.
pub fn fuzz_packet(data: &[u8]) {
    let Ok(view) = PacketView::parse(data) else {
        return;
    };
    assert_eq!(view.length() + view.trailing(), data.len());
    let key = view.flow_key();
    for from in [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()] {
        let answers = [
            icmp::too_big(&view, 1280, from),
            icmp::prohibited(&view, from),
            reset(&view),
        ];
        for answer in answers.into_iter().flatten() {
            let read = PacketView::parse(&answer).expect("an answer is a packet");
            assert_eq!(read.destination(), view.source());
            assert!(icmp::too_big(&read, 1280, from).is_none() || read.tcp_flags().is_some());
            assert!(icmp::prohibited(&read, from).is_none() || read.tcp_flags().is_some());
            assert!(reset(&read).is_none());
        }
    }
    let mut changed = view.bytes().to_vec();
    mark_congestion(&mut changed);
    icmp::clamp_segment_size(&mut changed, 1280);
    let again = PacketView::parse(&changed).expect("it is a packet still");
    assert_eq!(again.flow_key(), key);
    assert!(!icmp::clamp_segment_size(&mut changed, 1280));
}

/// A frame of a TUN device: what it is split into is joined, and split again.
pub fn fuzz_frame(data: &[u8]) {
    let packets = split(data);
    let mut coalescer = Coalescer::new(true);
    for packet in &packets {
        coalescer.push(packet.clone());
    }
    coalescer.push(Bytes::copy_from_slice(data));
    coalescer.finish();
    let mut bytes = 0;
    while let Some(frame) = coalescer.pop() {
        let whole: Vec<u8> = frame
            .parts
            .iter()
            .fold(frame.head.clone(), |mut whole, part| {
                whole.extend_from_slice(part);
                whole
            });
        if frame.parts.len() > 1 {
            let again = split(&whole);
            assert_eq!(again.len(), frame.parts.len());
            bytes += again.iter().map(Bytes::len).sum::<usize>();
        } else {
            bytes += frame.parts[0].len();
        }
    }
    let before: usize = packets.iter().map(Bytes::len).sum();
    assert_eq!(bytes, before + data.len());
}

fn split(frame: &[u8]) -> Vec<Bytes> {
    let mut packets = Vec::new();
    let Ok(mut split) = Split::new(frame) else {
        return packets;
    };
    let mut out = BytesMut::new();
    while let Some(length) = split.write_next(&mut out) {
        assert!(length <= split.longest().max(frame.len()));
        packets.push(out.split().freeze());
    }
    packets
}

/// A sender and a receiver with a network that loses and reorders; an odd first byte lets a peer
/// that follows no rule take part.
pub fn fuzz_pair(script: &[u8]) {
    let Some((first, mut script)) = script.split_first() else {
        return;
    };
    let mut pair = Pair::new(first & 1 != 0);
    while script.has_remaining() {
        pair.act(&mut script);
    }
    pair.end();
}

struct Pair {
    now: Instant,
    sender: Sender,
    receiver: Receiver,
    bounds: ReceiverConfig,
    paths: TunnelPaths,
    flying: Vec<(u64, Placed)>,
    place: u64,
    sent: u32,
    handed_on: BTreeSet<u32>,
    arrived: BTreeSet<u32>,
    is_hostile: bool,
}

impl Pair {
    fn new(is_hostile: bool) -> Self {
        let bounds = ReceiverConfig {
            max_bytes: ByteCount::new(20_000),
            max_packets: 64,
            ..ReceiverConfig::default()
        };
        Self {
            now: Instant::from_nanos(1_000_000_000),
            sender: Sender::new(SenderConfig {
                max_packets: 64,
                max_bytes: ByteCount::new(20_000),
                ..SenderConfig::default()
            }),
            receiver: Receiver::new(bounds),
            bounds,
            paths: TunnelPaths::default(),
            flying: Vec::new(),
            place: 0,
            sent: 0,
            handed_on: BTreeSet::new(),
            arrived: BTreeSet::new(),
            is_hostile,
        }
    }

    fn act(&mut self, script: &mut &[u8]) {
        let kind = next(script);
        let value = next(script);
        match kind % 8 {
            0 | 1 => self.enqueue(value),
            2 => self.send(value),
            3 => self.arrive(usize::from(value)),
            4 => {
                let place = usize::from(value);
                if place < self.flying.len() {
                    let (_, lost) = self.flying.remove(place);
                    self.sender.repair(self.now, lost.header, lost.packet);
                }
            }
            5 => self.pass(Duration::from_millis(u64::from(value))),
            6 => {
                let policies = PacketPolicy::ALL;
                let policy = policies[usize::from(value) % policies.len()];
                self.sender.set_policy(policy);
                self.tell(value);
            }
            _ => self.attack(script),
        }
        self.check();
    }

    fn enqueue(&mut self, value: u8) {
        let mut bytes = vec![0; 40 + usize::from(value >> 2) * 20];
        bytes[0] = 0x45;
        let length = bytes.len() as u16;
        bytes[2..4].copy_from_slice(&length.to_be_bytes());
        bytes[9] = 17;
        bytes[21] = value & 3;
        bytes[36..40].copy_from_slice(&self.sent.to_be_bytes());
        self.sent += 1;
        let taken = self.sender.enqueue(self.now, bytes.into());
        taken.expect("its headers are right");
    }

    fn send(&mut self, rooms: u8) {
        self.paths.clear();
        for number in 0..3u32 {
            let view = PathView {
                channel: ChannelId::new(number),
                link: LinkIndex::new(number),
                rtt: Duration::from_millis(10 + 40 * u64::from(number)),
                min_rtt: Duration::from_millis(10),
                rate: Rate::from_bits_per_second(1_000_000),
                ..PathView::default()
            };
            if rooms >> number & 1 != 0 {
                let room = ByteCount::new(u64::from(rooms >> 3) * 500);
                self.paths.push(view, room);
            }
        }
        while let Some(placed) = self.sender.poll(self.now, &mut self.paths) {
            self.place += 1;
            self.flying.push((self.place, placed));
        }
    }

    fn arrive(&mut self, index: usize) {
        if index >= self.flying.len() {
            return;
        }
        let (place, placed) = self.flying.remove(index);
        self.arrived.insert(number_of(&placed.packet));
        let path = PathId::new(placed.path.value());
        let Placed { header, packet, .. } = placed;
        let mut bytes = BytesMut::new();
        header.put(&mut bytes);
        let read = TunnelMessage::take(&mut bytes.freeze());
        assert_eq!(read, Ok(TunnelMessage::Packet(header)));
        self.receiver.handle(self.now, path, place, &header, packet);
    }

    fn tell(&mut self, value: u8) {
        let paths: Vec<_> = (0..3)
            .filter(|number| value >> number & 1 != 0)
            .map(|number| PathDelay {
                path: PathId::new(number),
                link: LinkIndex::new(number + 1),
                rtt: Duration::from_millis(u64::from(value)),
                variation: Duration::from_millis(u64::from(value >> 4)),
            })
            .collect();
        self.receiver.set_paths(self.now, &paths);
    }

    fn attack(&mut self, script: &mut &[u8]) {
        if !self.is_hostile {
            return;
        }
        let place = u64::from(next(script)) << (next(script) % 56);
        let path = PathId::new(u32::from(next(script)));
        if let Ok(TunnelMessage::Packet(header)) = TunnelMessage::take(script) {
            let packet = Bytes::from_static(&[0; 100]);
            self.receiver.handle(self.now, path, place, &header, packet);
        }
    }

    fn pass(&mut self, span: Duration) {
        self.now += span;
        self.receiver.handle_timeout(self.now);
    }

    fn check(&mut self) {
        assert!(self.receiver.held() <= self.bounds.max_bytes);
        let limit = ByteCount::new(20_000);
        assert!(self.sender.waiting() <= limit);
        while let Some(delivery) = self.receiver.poll_delivery() {
            if !self.is_hostile {
                let number = number_of(&delivery.packet);
                assert!(self.handed_on.insert(number), "{number} came twice");
            }
        }
    }

    /// Lets time pass until all packets that arrived are handed on.
    fn end(&mut self) {
        for _ in 0..100 {
            self.pass(Duration::from_secs(1));
        }
        self.check();
        assert_eq!(self.receiver.poll_timeout(), None);
        if !self.is_hostile {
            assert_eq!(self.handed_on, self.arrived);
        }
    }
}

fn number_of(packet: &[u8]) -> u32 {
    u32::from_be_bytes(*packet[36..].first_chunk().expect("it was made here"))
}

fn next(script: &mut &[u8]) -> u8 {
    script.try_get_u8().unwrap_or_default()
}

/// More memory than a pair takes at once.
pub const MAX_PAIR_MEMORY: u64 = 4 << 20;

#[cfg(test)]
mod tests;
