//! One connection inside the tunnel: TCP or QUIC.

use std::collections::BTreeMap;

use hawser_types::{ByteCount, Instant, Rate};

use super::inner;
use super::plan::Run;
use super::tunnel::Tunnel;

/// Length of a full packet: what fits the tunnel's inner MTU.
pub(super) const PACKET: usize = 1400;

/// One end of a connection.
pub(super) trait End {
    /// What it sends and takes.
    type Segment;

    /// The number of its protocol in IP headers.
    const PROTOCOL: u8;

    /// Gives it as much to send as it takes.
    fn fill(&mut self, now: Instant);

    /// Returns the next segment that it sends, with its length as an IP packet.
    fn poll_segment(&mut self, now: Instant) -> Option<(Self::Segment, usize)>;

    /// Takes a segment of the other end.
    fn handle_segment(&mut self, now: Instant, segment: &Self::Segment);

    /// When [`Self::handle_timeout`] is due.
    fn poll_timeout(&mut self) -> Option<Instant>;

    /// Does what time demands.
    fn handle_timeout(&mut self, now: Instant);

    /// Bytes of payload that it has received in order.
    fn arrived(&self) -> u64;

    /// Segments that it has sent again, or holds lost.
    fn retransmissions(&self, now: Instant) -> u64;
}

/// A connection between both hosts, one of which sends all it can.
pub(super) struct Connection<E: End> {
    ends: [E; 2],
    /// The host that sends.
    from: usize,
    /// Tells its packets from those of others.
    port: u16,
    /// Segments in the tunnel by their numbers.
    flying: BTreeMap<u64, E::Segment>,
    next: u64,
}

impl<E: End> Connection<E> {
    /// Both ends' packets have the same port, which no other flow has.
    pub(super) fn new(ends: [E; 2], from: usize, port: u16) -> Self {
        Self {
            ends,
            from,
            port,
            flying: BTreeMap::new(),
            next: 0,
        }
    }

    /// Does what is due, and puts both ends' segments into the tunnel.
    pub(super) fn drive(&mut self, tunnel: &mut Tunnel) {
        let now = tunnel.now();
        for host in 0..2 {
            let due = self.ends[host].poll_timeout();
            if due.is_some_and(|at| at <= now) {
                self.ends[host].handle_timeout(now);
            }
            if host == self.from {
                self.ends[host].fill(now);
            }
            if self.send(tunnel, host) {
                tunnel.pump(host);
            }
        }
    }

    /// When [`Self::drive`] has something to do although nothing arrives.
    pub(super) fn next_timeout(&mut self, now: Instant) -> Option<Instant> {
        let all = self.ends.iter_mut().filter_map(E::poll_timeout);
        all.filter(|at| *at > now).min()
    }

    /// Takes a segment out of the tunnel, if it is of this connection.
    pub(super) fn take(&mut self, now: Instant, host: usize, packet: &[u8]) {
        let own = inner::read(packet).filter(|(port, _)| *port == self.port);
        let segment = own.and_then(|(_, number)| self.flying.remove(&number));
        if let Some(segment) = segment {
            self.ends[host].handle_segment(now, &segment);
        }
    }

    /// Bytes of payload that the other host has received in order.
    pub(super) fn arrived(&self) -> u64 {
        self.ends[1 - self.from].arrived()
    }

    /// Returns whether there were any segments.
    fn send(&mut self, tunnel: &mut Tunnel, host: usize) -> bool {
        let mut any = false;
        while let Some((segment, size)) = self.ends[host].poll_segment(tunnel.now()) {
            tunnel.enqueue(host, inner::packet(E::PROTOCOL, self.port, self.next, size));
            self.flying.insert(self.next, segment);
            self.next += 1;
            any = true;
        }
        // What was lost is never looked for again.
        while self.flying.len() > MAX_FLYING {
            self.flying.pop_first();
        }
        any
    }
}

/// What came of it.
pub(super) struct Outcome {
    /// Payload that arrived after the warm-up, over that time.
    pub(super) goodput: Rate,
    pub(super) retransmissions: u64,
}

/// Lets the end of the host that sends fill the tunnel for as long as the run says.
pub(super) fn run<E: End>(tunnel: &mut Tunnel, run: &Run, ends: [E; 2]) -> Outcome {
    let began = tunnel.now();
    let (counted_from, end) = (began + run.warm_up, began + run.span);
    let mut connection = Connection::new(ends, run.from(), 1000);
    let mut before = None;
    while tunnel.now() < end {
        let now = tunnel.now();
        if now >= counted_from && before.is_none() {
            before = Some(connection.arrived());
        }
        connection.drive(tunnel);
        let timer = connection.next_timeout(now);
        let limit = timer.into_iter().chain([counted_from, end]);
        let next = limit.filter(|at| *at > now).min().unwrap_or(end);
        tunnel.step(next);
        for host in 0..2 {
            while let Some(delivery) = tunnel.take(host) {
                connection.take(tunnel.now(), host, &delivery.packet);
            }
        }
    }
    let arrived = connection.arrived() - before.unwrap_or_default();
    Outcome {
        goodput: Rate::over(ByteCount::new(arrived), run.span - run.warm_up),
        retransmissions: connection.ends[run.from()].retransmissions(end),
    }
}

const MAX_FLYING: usize = 100_000;
