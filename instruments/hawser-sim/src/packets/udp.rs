//! Flows of UDP that send at a fixed rate, regardless of loss.

use std::ops::Range;
use std::time::Duration;

use hawser_scenario::Congestion;
use hawser_types::{ByteCount, Instant, Rate};

use super::connection::{Connection, End};
use super::inner;
use super::plan::Run;
use super::report::{CallReport, Disorder, UdpReport};
use super::tcp_flow;
use super::tunnel::Tunnel;

/// Length of a packet of the flow.
pub(super) const PACKET: usize = 1400;

/// A flow that is sent, and what came of it.
#[derive(Debug)]
pub(super) struct Flow {
    port: u16,
    size: usize,
    every: Duration,
    pub(super) next_at: Instant,
    counted_from: Instant,
    /// Send time of each packet.
    sent: Vec<Instant>,
    /// Time of arrival of each.
    arrived: Vec<Option<Instant>>,
    highest: Option<u64>,
    disordered: u64,
    delays: Vec<Duration>,
}

impl Flow {
    pub(super) fn new(port: u16, size: usize, rate: Rate, now: Instant, warm_up: Duration) -> Self {
        let every = rate.time_for(ByteCount::from(size));
        Self {
            port,
            size,
            every: every.unwrap_or(Duration::from_secs(1)),
            next_at: now,
            counted_from: now + warm_up,
            sent: Vec::new(),
            arrived: Vec::new(),
            highest: None,
            disordered: 0,
            delays: Vec::new(),
        }
    }

    pub(super) fn send_due(&mut self, tunnel: &mut Tunnel, host: usize) {
        while self.next_at <= tunnel.now() {
            let number = self.sent.len() as u64;
            tunnel.enqueue(host, inner::packet(17, self.port, number, self.size));
            self.sent.push(tunnel.now());
            self.arrived.push(None);
            self.next_at += self.every;
        }
    }

    fn arrive(&mut self, now: Instant, number: u64) {
        let sent = self.sent[number as usize];
        let arrived = self.arrived[number as usize].replace(now);
        assert!(arrived.is_none(), "a packet came twice");
        if self.highest.is_some_and(|highest| number < highest) {
            self.disordered += u64::from(sent >= self.counted_from);
        }
        self.highest = self.highest.max(Some(number));
        if sent >= self.counted_from {
            self.delays.push(now.since(sent));
        }
    }

    /// Takes a packet of this flow alone.
    pub(super) fn take(&mut self, now: Instant, packet: &[u8]) {
        if let Some((_, number)) = inner::read(packet) {
            self.arrive(now, number);
        }
    }

    /// How many packets were sent in a span, and the delays of those of them that arrived.
    pub(super) fn sent_in(&self, span: &Range<Instant>) -> (u64, Vec<Duration>) {
        let all = self.sent.iter().zip(&self.arrived);
        let own = all.filter(|(at, _)| span.contains(at));
        let delays = own
            .clone()
            .filter_map(|(at, arrived)| Some((*arrived)?.since(*at)));
        (own.count() as u64, delays.collect())
    }

    /// The longest time between two arrivals of which the later one is in a span.
    pub(super) fn gap_in(&self, span: &Range<Instant>) -> Duration {
        let mut arrived: Vec<Instant> = self.arrived.iter().copied().flatten().collect();
        arrived.sort_unstable();
        let within = arrived.windows(2).filter(|pair| span.contains(&pair[1]));
        let gaps = within.map(|pair| pair[1].since(pair[0]));
        gaps.max().unwrap_or(span.end.since(span.start))
    }

    fn counted(&self) -> u64 {
        let counted = self.sent.iter().filter(|at| **at >= self.counted_from);
        counted.count() as u64
    }

    fn disorder(&mut self) -> Disorder {
        self.delays.sort_unstable();
        let at = |part: f64| {
            let place = (self.delays.len() as f64 * part) as usize;
            let delay = self
                .delays
                .get(place.min(self.delays.len().saturating_sub(1)));
            delay.map_or(0, |delay| delay.as_micros() as u64)
        };
        Disorder {
            sent: self.counted(),
            arrived: self.delays.len() as u64,
            disordered: self.disordered,
            delay_p50: at(0.5),
            delay_p99: at(0.99),
        }
    }

    fn goodput(&self, span: Duration) -> Rate {
        let bytes = self.delays.len() as u64 * self.size as u64;
        Rate::over(ByteCount::new(bytes), span)
    }
}

/// One flow at a share of `allowed`.
pub(super) fn run(tunnel: &mut Tunnel, run: &Run, allowed: Rate, share: f64) -> UdpReport {
    let (from, began) = (run.from(), tunnel.now());
    let rate = (allowed.bytes_per_second() as f64 * share) as u64;
    let rate = Rate::from_bytes_per_second(rate);
    let mut flow = Flow::new(1000, PACKET, rate, began, run.warm_up);
    let end = began + run.span;
    while tunnel.now() < end + DRAINS {
        if tunnel.now() < end {
            flow.send_due(tunnel, from);
            tunnel.pump(from);
        }
        let next = if flow.next_at < end {
            flow.next_at
        } else {
            end + DRAINS
        };
        tunnel.step(next);
        while let Some(delivery) = tunnel.take(1 - from) {
            flow.take(tunnel.now(), &delivery.packet);
        }
    }
    let (sender, receiver) = (tunnel.stats(from).sent, tunnel.stats(1 - from).received);
    UdpReport {
        policy: run.policy.name(),
        offered: rate.bits_per_second() / 1000,
        goodput: flow.goodput(run.span - run.warm_up).bits_per_second() / 1000,
        flow: flow.disorder(),
        placed: tunnel.carried(from),
        dropped: sender.dropped + sender.overflowed,
        late: receiver.late,
    }
}

/// A call alone, or beside TCP connections of both hosts, which send all they can.
pub(super) fn call(tunnel: &mut Tunnel, run: &Run, beside: Beside) -> CallReport {
    let (from, began) = (run.from(), tunnel.now());
    let rate = Rate::from_bytes_per_second(50 * CALL as u64);
    let mut call = Flow::new(CALL_PORT, CALL, rate, began, run.warm_up);
    let (counted_from, end) = (began + run.warm_up, began + run.span);
    let hosts: &[usize] = match beside {
        Beside::Nothing => &[],
        Beside::Bulk => &[0, 1],
    };
    let bulk = hosts.iter().map(|&host| {
        let ends = tcp_flow::ends(began, host, Congestion::Cubic);
        Connection::new(ends, host, BULK_PORTS[host])
    });
    let mut bulk: Vec<_> = bulk.collect();
    let mut before = None;
    while tunnel.now() < end + DRAINS {
        let now = tunnel.now();
        if now >= counted_from && before.is_none() {
            before = Some(arrived(&bulk, from));
        }
        let mut next = end + DRAINS;
        if now < end {
            call.send_due(tunnel, from);
            tunnel.pump(from);
            for connection in &mut bulk {
                connection.drive(tunnel);
            }
            let timers = bulk.iter_mut().filter_map(|it| it.next_timeout(now));
            next = timers.chain([call.next_at, end]).min().unwrap_or(end);
        }
        tunnel.step(next);
        for host in 0..2 {
            while let Some(delivery) = tunnel.take(host) {
                match inner::read(&delivery.packet) {
                    Some((CALL_PORT, number)) => call.arrive(tunnel.now(), number),
                    _ => bulk
                        .iter_mut()
                        .for_each(|it| it.take(tunnel.now(), host, &delivery.packet)),
                }
            }
        }
    }
    let carried = arrived(&bulk, from) - before.unwrap_or_default();
    let carried = Rate::over(ByteCount::new(carried), run.span - run.warm_up);
    CallReport {
        policy: run.policy.name(),
        call: call.disorder(),
        bulk: carried.bits_per_second() / 1000,
    }
}

/// What else goes through the tunnel.
#[derive(Clone, Copy, Debug)]
pub(super) enum Beside {
    Nothing,
    Bulk,
}

/// Bytes of the connection of this host, if there is one.
fn arrived<E: End>(bulk: &[Connection<E>], host: usize) -> u64 {
    bulk.get(host).map_or(0, Connection::arrived)
}

/// A packet of a call.
const CALL: usize = 200;
pub(super) const DRAINS: Duration = Duration::from_secs(2);
const CALL_PORT: u16 = 1000;
/// Of the connections of both hosts.
const BULK_PORTS: [u16; 2] = [2000, 2001];
