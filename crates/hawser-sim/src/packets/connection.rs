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

/// The ends of the connection, and segments in the tunnel by their numbers.
struct Connection<E: End> {
    ends: [E; 2],
    flying: BTreeMap<u64, E::Segment>,
    next: u64,
}

/// What came of it.
pub(super) struct Outcome {
    /// Payload that arrived after the warm-up, over that time.
    pub(super) goodput: Rate,
    pub(super) retransmissions: u64,
}

impl<E: End> Connection<E> {
    /// Takes a segment out of the tunnel.
    fn arrive(&mut self, now: Instant, host: usize, packet: &[u8]) {
        let number = inner::read(packet).map(|(_, number)| number);
        if let Some(segment) = number.and_then(|number| self.flying.remove(&number)) {
            self.ends[host].handle_segment(now, &segment);
        }
    }

    /// Puts an end's segments into the tunnel. Returns whether there were any.
    fn send(&mut self, tunnel: &mut Tunnel, host: usize) -> bool {
        let mut any = false;
        while let Some((segment, size)) = self.ends[host].poll_segment(tunnel.now()) {
            let port = 1000 + host as u16;
            tunnel.enqueue(host, inner::packet(E::PROTOCOL, port, self.next, size));
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

    fn next_timeout(&mut self) -> Option<Instant> {
        self.ends.iter_mut().filter_map(E::poll_timeout).min()
    }
}

// long: the loop of one run, with its clock.
/// Lets the end of the host that sends fill the tunnel for as long as the run says.
pub(super) fn run<E: End>(tunnel: &mut Tunnel, run: &Run, ends: [E; 2]) -> Outcome {
    let began = tunnel.now();
    let (counted_from, end) = (began + run.warm_up, began + run.span);
    let from = run.from();
    let to = 1 - from;
    let mut connection = Connection {
        ends,
        flying: BTreeMap::new(),
        next: 0,
    };
    let mut before = None;
    while tunnel.now() < end {
        let now = tunnel.now();
        if now >= counted_from && before.is_none() {
            before = Some(connection.ends[to].arrived());
        }
        for host in 0..2 {
            let due = connection.ends[host].poll_timeout();
            if due.is_some_and(|at| at <= now) {
                connection.ends[host].handle_timeout(now);
            }
            if host == from {
                connection.ends[host].fill(now);
            }
            if connection.send(tunnel, host) {
                tunnel.pump(host);
            }
        }
        let timer = connection.next_timeout().filter(|at| *at > now);
        let limit = timer.into_iter().chain([counted_from, end]);
        let next = limit.filter(|at| *at > now).min().unwrap_or(end);
        tunnel.step(next);
        for host in 0..2 {
            while let Some(delivery) = tunnel.take(host) {
                connection.arrive(tunnel.now(), host, &delivery.packet);
            }
        }
    }
    let arrived = connection.ends[to].arrived() - before.unwrap_or_default();
    Outcome {
        goodput: Rate::over(ByteCount::new(arrived), run.span - run.warm_up),
        retransmissions: connection.ends[from].retransmissions(end),
    }
}

const MAX_FLYING: usize = 100_000;
