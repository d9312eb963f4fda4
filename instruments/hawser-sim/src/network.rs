//! Links and the connections over them, in virtual time.

mod firewall;
mod middlebox;
mod queueing;

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use hawser_path::KernelSample;
use hawser_scenario::{Congestion, Direction, Fate, LineState, Link, Nat, TcpOption};
use hawser_types::{ByteCount, ChannelId, Instant};

use crate::queue::Queue;
use crate::tcp::{Packet, Tcp, TcpConfig};
use firewall::Firewall;
pub use firewall::UdpFate;
use middlebox::{Mapping, Outward};
pub use queueing::Queueing;

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct End {
    /// The number of the connection, in order of their beginning.
    pub connection: usize,
    /// The end that connected: the client's host.
    pub client: bool,
}

impl End {
    /// The same connection's other end.
    pub fn other(self) -> Self {
        Self {
            client: !self.client,
            ..self
        }
    }
}

/// What the owner of a network is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening {
    /// Something changed at an end of a connection.
    End(End),
    /// An alarm that the owner has set.
    Alarm(u64),
    /// A datagram has come: [`Network::take_datagram`] has it.
    Datagram,
}

/// A datagram between both hosts, which no translation forgets.
#[derive(Clone, Debug)]
pub struct Datagram {
    /// The link that it takes.
    pub link: usize,
    /// It goes to the server.
    pub to_server: bool,
    /// Whose keys would open it.
    pub channel: ChannelId,
    /// What UDP carries.
    pub payload: Bytes,
    /// What headers and seals add on the link.
    pub overhead: ByteCount,
}

/// Links, connections and what is in flight.
#[derive(Debug)]
pub struct Network {
    now: Instant,
    links: Vec<LinkState>,
    /// The number of what all links share in front of the server, behind them in `links`.
    shared: Option<usize>,
    connections: Vec<Connection>,
    queue: Queue<Planned>,
    /// Datagrams that have come.
    inbox: VecDeque<Datagram>,
    firewall: Firewall,
    seed: u64,
    counters: Counters,
}

/// What the links did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Counters {
    /// Packets that reached their other end.
    pub delivered: u64,
    /// Packets that found the queue full.
    pub overflowed: u64,
    /// Packets lost by chance, in a black hole, to a translation that has forgotten, to a firewall,
    /// or since they were too large.
    pub lost: u64,
}

#[derive(Debug)]
struct LinkState {
    /// Towards the server, towards the client.
    ways: [LinkDirection; 2],
    black_hole: bool,
    nat: Option<Nat>,
    strip: Vec<TcpOption>,
}

#[derive(Debug)]
struct LinkDirection {
    line: LineState,
    delay: Duration,
    /// What has come to the other end.
    carried: ByteCount,
    queueing: Queueing,
    in_flight: VecDeque<(Instant, Cargo)>,
}

/// What a line carries.
#[derive(Debug)]
enum Cargo {
    /// To an end.
    Segment(End, Packet),
    Datagram(Datagram),
}

#[derive(Debug)]
struct Connection {
    link: usize,
    /// The server's, the client's.
    ends: [Tcp; 2],
    /// When each end's timer is planned to be looked at.
    planned: [Option<Instant>; 2],
    /// The client's address is gone: nothing of it arrives any more.
    orphaned: bool,
    mapping: Mapping,
}

#[derive(Debug)]
enum Planned {
    Arrival { link: usize, way: usize },
    Timer(End),
    Alarm(u64),
}

impl Network {
    /// A network of idle links at the beginning of time, behind which everything passes through
    /// `server`, if that is a bottleneck of its own. `seed` draws loss, jitter and service.
    pub fn new(links: &[Link], server: Option<&Link>, seed: u64) -> Self {
        let (now, count) = (START, links.len());
        let rates = links.iter().map(|link| [link.up.rate, link.down.rate]);
        let firewall = Firewall::new(now, rates);
        let way = |line: &hawser_scenario::Line, number: u64| LinkDirection {
            // As the lab seeds its lines.
            line: LineState::new(line.clone(), seed.wrapping_mul(1_000_003) ^ number, now),
            delay: line.delay,
            carried: ByteCount::ZERO,
            queueing: Queueing::default(),
            in_flight: VecDeque::new(),
        };
        let links = links.iter().chain(server).enumerate();
        let links = links.map(|(index, link)| LinkState {
            ways: [
                way(&link.up, 2 * index as u64),
                way(&link.down, 2 * index as u64 + 1),
            ],
            black_hole: false,
            nat: link.nat,
            strip: link.strip.clone(),
        });
        Self {
            now,
            links: links.collect(),
            shared: server.map(|_| count),
            connections: Vec::new(),
            queue: Queue::new(),
            inbox: VecDeque::new(),
            firewall,
            seed,
            counters: Counters::default(),
        }
    }

    /// The present.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// What the links did so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Begins a connection from the client to the server over a link. Returns the client's end.
    pub fn connect(&mut self, link: usize, config: TcpConfig) -> End {
        let connection = self.connections.len();
        let strips = |option| self.links[link].strip.contains(&option);
        let seeded = |side: u64| TcpConfig {
            selective: config.selective && !strips(TcpOption::Sack),
            stamps: config.stamps && !strips(TcpOption::Timestamps),
            seed: self.seed ^ config.seed ^ ((connection as u64) << 8 | side),
            ..config
        };
        self.connections.push(Connection {
            link,
            ends: [Tcp::listen(seeded(0)), Tcp::connect(self.now, seeded(1))],
            planned: [None; 2],
            orphaned: false,
            mapping: Mapping::new(self.now),
        });
        let end = End {
            connection,
            client: true,
        };
        self.pump(end);
        end
    }

    /// Writes up to `bytes`; returns how many were taken.
    pub fn write(&mut self, end: End, bytes: u64) -> u64 {
        let (now, mut taken) = (self.now, 0);
        while taken < bytes {
            let step = self.tcp_mut(end).write(now, bytes - taken);
            if step == 0 {
                break;
            }
            taken += step;
            self.pump(end);
        }
        taken
    }

    /// Puts a datagram on its way.
    pub fn send_datagram(&mut self, datagram: Datagram) {
        let (link, way) = (datagram.link, usize::from(!datagram.to_server));
        let first = if datagram.to_server {
            link
        } else {
            self.shared.unwrap_or(link)
        };
        let size = ByteCount::from(datagram.payload.len()) + datagram.overhead;
        if !self.firewall.lets_pass(self.now, (link, way), size) {
            self.counters.lost += 1;
            return;
        }
        self.put(first, way, Cargo::Datagram(datagram));
    }

    /// Decides what becomes of datagrams from now on.
    pub fn set_udp(&mut self, fate: UdpFate) {
        self.firewall.set(self.now, fate);
    }

    /// A datagram that has come.
    pub fn take_datagram(&mut self) -> Option<Datagram> {
        self.inbox.pop_front()
    }

    /// Closes an end. `tell`: the other end is sent a reset.
    pub fn close(&mut self, end: End, tell: bool) {
        self.tcp_mut(end).close(tell);
        self.pump(end);
    }

    /// The client's address on a connection's link is gone: nothing of it arrives any more.
    pub fn orphan(&mut self, end: End) {
        self.connections[end.connection].orphaned = true;
        self.tcp_mut(end).close(false);
    }

    /// Drops every packet of a link, both ways, or lets them pass again.
    pub fn set_black_hole(&mut self, link: usize, closed: bool) {
        self.links[link].black_hole = closed;
    }

    /// Lets packets of more than `most` bytes vanish on a link from `at` on, both ways.
    pub fn narrow(&mut self, link: usize, at: Instant, most: ByteCount) {
        for way in &mut self.links[link].ways {
            way.line.narrow(at, most);
        }
    }

    /// Makes a link another one from `at` on, of the same delay.
    pub fn change(&mut self, link: usize, at: Instant, into: &Link) {
        let [up, down] = &mut self.links[link].ways;
        up.line.change(at, into.up.clone());
        down.line.change(at, into.down.clone());
    }

    /// Reports [`Happening::Alarm`] at a time.
    pub fn set_alarm(&mut self, at: Instant, token: u64) {
        self.queue.push(at.max(self.now), Planned::Alarm(token));
    }

    /// Sets `TCP_NOTSENT_LOWAT` of an end.
    pub fn set_low_water(&mut self, end: End, bytes: u64) {
        self.tcp_mut(end).set_low_water(bytes);
    }

    /// Whether `poll(2)` says that an end can be written to.
    pub fn is_writable(&self, end: End) -> bool {
        self.tcp(end).is_writable()
    }

    /// Whether the handshake is over, as this end sees it.
    pub fn is_established(&self, end: End) -> bool {
        self.tcp(end).is_established()
    }

    /// Whether the connection is over, as this end sees it.
    pub fn is_closed(&self, end: End) -> bool {
        self.tcp(end).is_closed()
    }

    /// Bytes of payload in a full segment of an end.
    pub fn segment_size(&self, end: End) -> u32 {
        self.tcp(end).segment()
    }

    /// Bytes that an end was given to send.
    pub fn written(&self, end: End) -> u64 {
        self.tcp(end).written()
    }

    /// Bytes of an end that are acknowledged.
    pub fn acknowledged(&self, end: End) -> u64 {
        self.tcp(end).acknowledged()
    }

    /// Bytes that came to an end in order.
    pub fn arrived(&self, end: End) -> u64 {
        self.tcp(end).arrived()
    }

    /// Bytes that came to an end and wait behind a hole.
    pub fn waiting(&self, end: End) -> u64 {
        self.tcp(end).waiting()
    }

    /// What the kernel says of an end.
    pub fn sample(&self, end: End) -> KernelSample {
        self.tcp(end).sample(self.now)
    }

    /// IP bytes that a link has carried so far, towards the server and towards the client.
    pub fn carried(&self, link: usize) -> [ByteCount; 2] {
        self.links[link].ways.each_ref().map(|way| way.carried)
    }

    /// Returns what packets in a direction have waited for so far, on all links together.
    pub fn queueing(&self, direction: Direction) -> Queueing {
        let way = usize::from(direction == Direction::Get);
        let mut all = Queueing::default();
        for link in &self.links {
            all.add(link.ways[way].queueing);
        }
        all
    }

    /// Changes the congestion control of an end.
    pub fn set_congestion(&mut self, end: End, congestion: Congestion) {
        let now = self.now;
        self.tcp_mut(end).set_congestion(now, congestion);
    }

    /// Lets time pass until something happens that the owner has to know, at `until` at most.
    pub fn step(&mut self, until: Instant) -> Option<Happening> {
        while let Some((at, planned)) = self.queue.step(until, &mut self.now) {
            match planned {
                Planned::Alarm(token) => return Some(Happening::Alarm(token)),
                Planned::Arrival { link, way } => {
                    if let Some(happening) = self.arrive(link, way) {
                        return Some(happening);
                    }
                }
                Planned::Timer(end) => {
                    if self.on_timer(end, at) {
                        return Some(Happening::End(end));
                    }
                }
            }
        }
        self.now = self.now.max(until);
        None
    }

    fn arrive(&mut self, link: usize, way: usize) -> Option<Happening> {
        let hole = self.links[link].black_hole;
        let state = &mut self.links[link].ways[way];
        let (_, cargo) = state.in_flight.pop_front()?;
        state.carried += cargo.size();
        if let Some((at, _)) = state.in_flight.front() {
            self.queue.push(*at, Planned::Arrival { link, way });
        }
        match cargo {
            Cargo::Segment(end, packet) => self.on_segment(link, way, end, packet),
            Cargo::Datagram(_) if hole => {
                self.counters.lost += 1;
                None
            }
            Cargo::Datagram(datagram) => self.datagram(link, way, datagram),
        }
    }

    /// A datagram has passed a line.
    fn datagram(&mut self, link: usize, way: usize, datagram: Datagram) -> Option<Happening> {
        let next = match (self.shared, datagram.to_server) {
            (Some(shared), true) if link != shared => Some(shared),
            (Some(shared), false) if link == shared => Some(datagram.link),
            _ => None,
        };
        if let Some(next) = next {
            self.put(next, way, Cargo::Datagram(datagram));
            return None;
        }
        self.counters.delivered += 1;
        self.inbox.push_back(datagram);
        Some(Happening::Datagram)
    }

    /// A segment of TCP has passed a line.
    fn on_segment(
        &mut self,
        link: usize,
        way: usize,
        end: End,
        packet: Packet,
    ) -> Option<Happening> {
        let hole = self.links[link].black_hole;
        let passes = !hole && !self.connections[end.connection].orphaned;
        let leaves_link = !end.client && self.shared != Some(link);
        if !passes || leaves_link && !self.leaves(end, &packet) {
            self.counters.lost += 1;
            return None;
        }
        if let Some(next) = self.next_link(link, end) {
            self.put(next, way, Cargo::Segment(end, packet));
            return None;
        }
        self.counters.delivered += 1;
        let now = self.now;
        self.tcp_mut(end).handle_packet(now, &packet);
        self.pump(end);
        Some(Happening::End(end))
    }

    /// A packet from the client comes to the translation of its link. Whether it goes on.
    fn leaves(&mut self, to: End, packet: &Packet) -> bool {
        let now = self.now;
        let connection = &mut self.connections[to.connection];
        let link = connection.link;
        let outward = connection
            .mapping
            .on_outward(now, self.links[link].nat, packet);
        if outward == Outward::Refused {
            // The server knows no such connection.
            self.put(link, 1, Cargo::Segment(to.other(), Packet::reset(now)));
        }
        outward == Outward::Passes
    }

    /// A packet from the server comes to the translation of its link. Whether it goes on.
    fn enters(&mut self, from: End) -> bool {
        let connection = &mut self.connections[from.connection];
        let nat = self.links[connection.link].nat;
        let passes = connection.mapping.on_inward(self.now, nat);
        if !passes {
            self.counters.lost += 1;
        }
        passes
    }

    /// Where a packet goes that has passed a link on its way to an end; `None`: it is there.
    fn next_link(&self, passed: usize, to: End) -> Option<usize> {
        let shared = self.shared?;
        let own = self.connections[to.connection].link;
        match (passed == shared, to.client) {
            (true, true) => Some(own),
            (false, false) => Some(shared),
            _ => None,
        }
    }

    fn on_timer(&mut self, end: End, at: Instant) -> bool {
        let planned = &mut self.connections[end.connection].planned[usize::from(end.client)];
        if *planned != Some(at) {
            return false;
        }
        *planned = None;
        let now = self.now;
        let tcp = self.tcp_mut(end);
        let due = tcp.poll_timeout().is_some_and(|due| due <= now);
        if due {
            tcp.handle_timeout(now);
        }
        self.pump(end);
        due
    }

    /// Puts on the link what an end has to send, and plans its timer.
    fn pump(&mut self, end: End) {
        let now = self.now;
        while let Some(packet) = self.tcp_mut(end).poll_packet(now) {
            self.carry(end, packet);
        }
        let state = &mut self.connections[end.connection];
        let side = usize::from(end.client);
        if let Some(at) = state.ends[side].poll_timeout() {
            let at = at.max(now);
            if state.planned[side].is_none_or(|planned| at < planned) {
                state.planned[side] = Some(at);
                self.queue.push(at, Planned::Timer(end));
            }
        }
    }

    fn carry(&mut self, from: End, packet: Packet) {
        let connection = &self.connections[from.connection];
        let (link, way) = (connection.link, usize::from(!from.client));
        if connection.orphaned && from.client || !from.client && !self.enters(from) {
            return;
        }
        let first = if from.client {
            link
        } else {
            self.shared.unwrap_or(link)
        };
        self.put(first, way, Cargo::Segment(from.other(), packet));
    }

    /// Puts something on a line.
    fn put(&mut self, link: usize, way: usize, cargo: Cargo) {
        let state = &mut self.links[link].ways[way];
        let size = cargo.size();
        match state.line.handle_packet(self.now, size) {
            Fate::Delivered(at) => {
                let waited = at.since(self.now).saturating_sub(state.delay);
                state.queueing.note(size, waited);
                if state.in_flight.is_empty() {
                    self.queue.push(at, Planned::Arrival { link, way });
                }
                state.in_flight.push_back((at, cargo));
            }
            Fate::Overflowed => self.counters.overflowed += 1,
            Fate::Lost | Fate::TooLarge => self.counters.lost += 1,
        }
    }

    fn tcp(&self, end: End) -> &Tcp {
        &self.connections[end.connection].ends[usize::from(end.client)]
    }

    fn tcp_mut(&mut self, end: End) -> &mut Tcp {
        &mut self.connections[end.connection].ends[usize::from(end.client)]
    }
}

impl Cargo {
    fn size(&self) -> ByteCount {
        match self {
            Self::Segment(_, packet) => packet.size(),
            Self::Datagram(datagram) => ByteCount::from(datagram.payload.len()) + datagram.overhead,
        }
    }
}

/// Far enough from zero that nothing reaches back before the beginning.
const START: Instant = Instant::from_nanos(1_000_000_000_000);
