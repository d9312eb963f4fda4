//! One TCP connection inside the tunnel.

use std::collections::BTreeMap;

use hawser_scenario::Congestion;
use hawser_types::{ByteCount, Instant, Rate};

use super::inner;
use super::plan::Run;
use super::report::TcpReport;
use super::tunnel::Tunnel;
use crate::tcp::{Packet, Tcp, TcpConfig};

/// Length of a full segment's packet: what fits the tunnel's inner MTU.
pub(super) const PACKET: usize = 1400;

/// The ends of the connection, and segments in the tunnel by their numbers.
struct Connection {
    ends: [Tcp; 2],
    flying: BTreeMap<u64, Packet>,
    next: u64,
}

impl Connection {
    /// Takes a segment out of the tunnel.
    fn arrive(&mut self, now: Instant, host: usize, packet: &[u8]) {
        let number = inner::read(packet).map(|(_, number)| number);
        if let Some(segment) = number.and_then(|number| self.flying.remove(&number)) {
            self.ends[host].handle_packet(now, &segment);
        }
    }

    /// Puts an end's segments into the tunnel. Returns whether there were any.
    fn send(&mut self, tunnel: &mut Tunnel, host: usize) -> bool {
        let mut any = false;
        while let Some(segment) = self.ends[host].poll_packet(tunnel.now()) {
            if segment.is_reset() {
                continue;
            }
            let size = segment.size().as_usize();
            let port = 1000 + host as u16;
            tunnel.enqueue(host, inner::packet(6, port, self.next, size));
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

    fn next_timeout(&self) -> Option<Instant> {
        self.ends.iter().filter_map(Tcp::poll_timeout).min()
    }
}

// long: the loop of one run, with its clock.
pub(super) fn run(
    tunnel: &mut Tunnel,
    run: &Run,
    congestion: Congestion,
    allowed: Rate,
) -> TcpReport {
    let began = tunnel.now();
    let (counted_from, end) = (began + run.warm_up, began + run.span);
    let mut config = TcpConfig::new(congestion);
    config.segment = (PACKET as u64 - crate::tcp::HEADER) as u32;
    let from = run.from();
    let to = 1 - from;
    let mut ends = [Tcp::listen(config), Tcp::listen(config)];
    ends[from] = Tcp::connect(began, config);
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
                connection.ends[host].write(now, WRITES);
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
    let span = run.span - run.warm_up;
    let now = tunnel.now();
    let payload = u64::from(config.segment);
    TcpReport {
        policy: run.policy.name(),
        congestion: congestion.name(),
        allowed: allowed.bits_per_second() / 1000 * payload / PACKET as u64,
        goodput: Rate::over(ByteCount::new(arrived), span).bits_per_second() / 1000,
        retransmissions: connection.ends[from].sample(now).retransmissions,
        dropped: tunnel.stats(from).sent.dropped,
        late: tunnel.stats(to).received.late,
    }
}

/// More than any buffer takes.
const WRITES: u64 = 1 << 30;
const MAX_FLYING: usize = 100_000;
