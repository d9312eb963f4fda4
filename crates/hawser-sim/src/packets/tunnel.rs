use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hawser_channels::association::below_seal;
use hawser_scenario::Link;
use hawser_sched::PathView;
use hawser_sched::packet::PacketPolicy;
use hawser_sctp::{AssociationConfig, Message, PathSnapshot, Reliability};
use hawser_tunnel::{
    Delivery, PathDelay, Placed, Receiver, ReceiverConfig, ReceiverStats, Sender, SenderConfig,
    SenderStats, TunnelPaths,
};
use hawser_types::{ByteCount, ChannelId, Instant, LinkIndex, PathId};
use hawser_wire::sctp::StreamNumber;
use hawser_wire::tunnel::{TunnelHeader, TunnelMessage};

use crate::association::Fabric;

/// Two hosts with a tunnel between them, over an association on each link.
///
/// An association of one path each lets the tunnel choose the link, with the congestion control of
/// associations. The number of a datagram's seal is that of the message in it: each leaves at
/// once, in a datagram of its own.
#[derive(Debug)]
pub(super) struct Tunnel {
    now: Instant,
    fabrics: Vec<Fabric>,
    ends: [End; 2],
}

#[derive(Debug)]
struct End {
    sender: Sender,
    receiver: Receiver,
    paths: TunnelPaths,
    seal: u32,
    /// Lowest round-trip time of each path so far.
    shortest: Vec<Duration>,
    /// Bytes of inner packets placed on each path.
    placed: Vec<u64>,
    told_at: Instant,
    delivered: VecDeque<Delivery>,
}

impl Tunnel {
    /// Lets associations come to be over the links and find their packet sizes.
    pub(super) fn new(links: &[Link], policy: PacketPolicy, seed: u64) -> Option<Self> {
        let config = AssociationConfig {
            send_buffer: SEND_BUFFER,
            ..below_seal(AssociationConfig::default())
        };
        let mut fabrics = Vec::new();
        for (number, link) in links.iter().enumerate() {
            let seed = seed.wrapping_mul(64) + number as u64;
            let mut fabric = Fabric::of_links(&config, std::slice::from_ref(link), seed);
            if !fabric.establish(&config) {
                return None;
            }
            fabrics.push(fabric);
        }
        let established = fabrics.iter().map(Fabric::now).max()?;
        let now = established + SETTLES;
        for fabric in &mut fabrics {
            while fabric.step(now).is_some() {}
        }
        let end = || End {
            sender: Sender::new(SenderConfig {
                policy,
                seed,
                ..SenderConfig::default()
            }),
            receiver: Receiver::new(ReceiverConfig::default()),
            paths: TunnelPaths::default(),
            seal: 0,
            shortest: vec![Duration::MAX; links.len()],
            placed: vec![0; links.len()],
            told_at: Instant::ZERO,
            delivered: VecDeque::new(),
        };
        Some(Self {
            now,
            fabrics,
            ends: [end(), end()],
        })
    }

    pub(super) fn now(&self) -> Instant {
        self.now
    }

    /// Gives a packet to a host.
    pub(super) fn enqueue(&mut self, host: usize, packet: Bytes) {
        let taken = self.ends[host].sender.enqueue(self.now, packet);
        taken.expect("the simulator's packets are right");
    }

    /// Memory of the packets that wait at a host.
    pub(super) fn waiting(&self, host: usize) -> ByteCount {
        self.ends[host].sender.waiting()
    }

    /// Returns the next packet that a host hands on.
    pub(super) fn take(&mut self, host: usize) -> Option<Delivery> {
        self.ends[host].delivered.pop_front()
    }

    pub(super) fn stats(&self, host: usize) -> (SenderStats, ReceiverStats) {
        let end = &self.ends[host];
        (end.sender.stats(), end.receiver.stats())
    }

    /// Bytes of inner packets that a host has placed on each link.
    pub(super) fn placed(&self, host: usize) -> &[u64] {
        &self.ends[host].placed
    }

    /// Sends what may leave.
    pub(super) fn pump(&mut self, host: usize) {
        let now = self.now;
        let end = &mut self.ends[host];
        end.paths.clear();
        let mut delays = Vec::new();
        for (number, fabric) in self.fabrics.iter_mut().enumerate() {
            fabric.pass(now);
            let association = fabric.association(host);
            let queued = association.backlog().queued;
            let Some(path) = association.paths(now).into_iter().next() else {
                continue;
            };
            let rtt = path.rtt.unwrap_or_default();
            end.shortest[number] = end.shortest[number].min(rtt);
            if path.is_active && !path.is_suspect {
                delays.push(PathDelay {
                    path: PathId::new(number as u32),
                    rtt,
                    variation: Duration::ZERO,
                });
            }
            let view = view(number, &path, end.shortest[number], queued);
            end.paths.push(view, room(&path, queued));
        }
        if now.since(end.told_at) >= TELL_EACH {
            end.told_at = now;
            end.receiver.set_paths(&delays);
        }
        let mut used = vec![false; self.fabrics.len()];
        while let Some(placed) = end.sender.poll(now, &mut end.paths) {
            let number = placed.path.value() as usize;
            end.placed[number] += placed.packet.len() as u64;
            end.seal += 1;
            let message = message(&placed, end.seal);
            let association = self.fabrics[number].association(host);
            let sent = association.send(now, StreamNumber::new(0), message);
            sent.expect("its buffer is large enough");
            used[number] = true;
        }
        for (fabric, _) in self.fabrics.iter_mut().zip(used).filter(|(_, used)| *used) {
            fabric.pump(host);
        }
        self.collect(host);
    }

    /// Lets time pass until something happens, at `until` at most.
    pub(super) fn step(&mut self, until: Instant) {
        let fabrics = self.fabrics.iter().enumerate();
        let arrivals = fabrics.filter_map(|(number, it)| Some((it.next_at()?, Some(number))));
        let timers = self.ends.iter().flat_map(|end| {
            let both = [end.sender.poll_timeout(), end.receiver.poll_timeout()];
            both.into_iter().flatten().map(|at| (at, None))
        });
        let next = arrivals.chain(timers).min().filter(|(at, _)| *at <= until);
        let Some((at, fabric)) = next else {
            self.now = self.now.max(until);
            return;
        };
        self.now = self.now.max(at);
        match fabric {
            Some(number) => {
                if let Some(host) = self.fabrics[number].step(self.now) {
                    self.receive(host, number);
                    self.pump(host);
                }
            }
            None => {
                for host in 0..2 {
                    self.ends[host].receiver.handle_timeout(self.now);
                    self.pump(host);
                }
            }
        }
    }

    fn receive(&mut self, host: usize, number: usize) {
        let (now, end) = (self.now, &mut self.ends[host]);
        let path = PathId::new(number as u32);
        let association = self.fabrics[number].association(host);
        let mut any = false;
        while let Some(received) = association.receive() {
            any = true;
            let mut payload = received.payload();
            let read = TunnelMessage::take(&mut payload);
            if let Ok(TunnelMessage::Packet(header)) = read {
                let seal = u64::from(received.protocol);
                end.receiver.handle(now, path, seal, &header, payload);
            }
        }
        if any {
            self.fabrics[number].pump(host);
        }
        self.collect(host);
    }

    fn collect(&mut self, host: usize) {
        let end = &mut self.ends[host];
        while let Some(delivery) = end.receiver.poll_delivery() {
            end.delivered.push_back(delivery);
        }
    }
}

fn message(placed: &Placed, seal: u32) -> Message {
    let mut payload = BytesMut::with_capacity(placed.packet.len() + TunnelHeader::MAX_LENGTH);
    placed.header.put(&mut payload);
    payload.extend_from_slice(&placed.packet);
    Message {
        protocol: seal,
        unordered: true,
        reliability: Reliability::Retransmissions(0),
        ..Message::new(payload.freeze())
    }
}

fn view(number: usize, path: &PathSnapshot, shortest: Duration, queued: ByteCount) -> PathView {
    PathView {
        channel: ChannelId::new(number as u32),
        link: LinkIndex::new(number as u32),
        suspect: !path.is_active || path.is_suspect,
        rtt: path.rtt.unwrap_or_default(),
        min_rtt: shortest,
        rate: path.rate,
        congestion_window: path.window,
        in_flight: path.in_flight + queued,
        ..PathView::default()
    }
}

/// What may wait in the association: as much as leaves in the next moments. It never runs empty, in
/// front of a full window either, since that would pass for an application that has no more; and
/// it gets no more than that, since what waits there has its path.
fn room(path: &PathSnapshot, queued: ByteCount) -> ByteCount {
    (path.rate * AHEAD).max(MIN_AHEAD) - queued
}

/// As long as the search for the packet size takes.
const SETTLES: Duration = Duration::from_secs(3);
const TELL_EACH: Duration = Duration::from_millis(50);
/// Room for what is acknowledged behind abandoned messages, and kept until these are passed.
const SEND_BUFFER: ByteCount = ByteCount::from_mib(256);
const MIN_AHEAD: ByteCount = ByteCount::new(2 * 1500);
const AHEAD: Duration = Duration::from_millis(2);
