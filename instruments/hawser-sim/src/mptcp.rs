//! A model of the kernel's MPTCP over all links: the reference for Hawser.
//!
//! One transfer over a fresh connection. Its subflows are the simulator's TCP connections. What
//! MPTCP adds follows Linux 6.18:
//!
//! - The first subflow is on the first link. The others join once it is established.
//! - The default scheduler gives the next 64 KiB to the subflow that will have sent first what it
//!   holds, and waits while that one is full.
//! - Send buffers grow with windows and never shrink.
//! - A subflow that acknowledges nothing through four time-outs gets nothing new, and the others
//!   send what it holds.
//!
//! Left out, all in favour of MPTCP: the growth of the receive window (as for plain TCP here), the
//! bytes of its options, and the fourth packet of a join. Not checked against a kernel yet.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use hawser_scenario::{Congestion, Direction, Link};
use hawser_types::{Instant, RangeSet};

use crate::network::{End, Happening, Network, Queueing};
use crate::plain::Transfer;
use crate::tcp::TcpConfig;

/// Outcome of one transfer.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Time from the SYN to the moment at which the client knows that everything has arrived.
    pub took: Duration,
    /// Queues in the direction of the payload.
    pub queueing: Queueing,
}

/// Makes one transfer; `None` when it takes longer than its limit.
///
/// [`Transfer::events`] are not followed.
pub fn run(links: &[Link], transfer: &Transfer) -> Option<Outcome> {
    let mut network = Network::new(links, None, transfer.seed);
    let began = network.now();
    let mut connection = Connection::begin(&mut network, transfer);
    network.set_alarm(began + LOOK_EVERY, LOOK);
    while let Some(happening) = network.step(began + transfer.limit) {
        if happening == Happening::Alarm(LOOK) {
            connection.find_stale(network.now());
            network.set_alarm(network.now() + LOOK_EVERY, LOOK);
        }
        connection.join_all(&mut network, links.len(), transfer.congestion);
        connection.take_in(&network);
        connection.send(&mut network);
        if connection.is_over(&mut network) {
            return Some(Outcome {
                took: network.now().since(began),
                queueing: network.queueing(transfer.direction),
            });
        }
    }
    None
}

/// An MPTCP connection, both ends of it.
struct Connection {
    direction: Direction,
    /// Number of windows that a send buffer has room for.
    windows: u64,
    bytes: u64,
    subflows: Vec<Subflow>,
    /// Payload given to subflows for the first time.
    next: u64,
    /// Payload to be sent again.
    again: RangeSet,
    /// Payload that the sender knows to have arrived.
    acknowledged: RangeSet,
    arrived: RangeSet,
}

struct Subflow {
    from: End,
    to: End,
    /// Payload in the order in which it was written, with the number of bytes written by its end:
    /// what the sender does not know to have arrived, and what has not arrived.
    unacknowledged: VecDeque<(u64, Range<u64>)>,
    outstanding: VecDeque<(u64, Range<u64>)>,
    send_buffer: u64,
    /// Bytes acknowledged, and the time since when there are no more of them.
    progress: (u64, Instant),
    is_stale: bool,
}

impl Connection {
    fn begin(network: &mut Network, transfer: &Transfer) -> Self {
        let mut connection = Self {
            direction: transfer.direction,
            windows: match transfer.congestion {
                Congestion::Bbr => 3,
                Congestion::Cubic => 2,
            },
            bytes: transfer.bytes.as_u64(),
            subflows: Vec::new(),
            next: 0,
            again: RangeSet::new(),
            acknowledged: RangeSet::new(),
            arrived: RangeSet::new(),
        };
        connection.join(network, 0, transfer.congestion);
        connection
    }

    fn join(&mut self, network: &mut Network, link: usize, congestion: Congestion) {
        let client = network.connect(link, TcpConfig::new(congestion));
        let server = client.other();
        let (from, to) = match self.direction {
            Direction::Put => (client, server),
            Direction::Get => (server, client),
        };
        self.subflows.push(Subflow {
            from,
            to,
            unacknowledged: VecDeque::new(),
            outstanding: VecDeque::new(),
            send_buffer: FIRST_SEND_BUFFER,
            progress: (0, network.now()),
            is_stale: false,
        });
    }

    /// Begins the other subflows once the first one stands.
    fn join_all(&mut self, network: &mut Network, links: usize, congestion: Congestion) {
        let stands = network.is_established(self.subflows[0].client());
        if stands && self.subflows.len() < links {
            for link in self.subflows.len()..links {
                self.join(network, link, congestion);
            }
        }
    }

    /// Takes in what has arrived, and what the sender knows of it.
    fn take_in(&mut self, network: &Network) {
        for subflow in &mut self.subflows {
            // The request of a download is on the first subflow, in the other direction.
            let arrived = network.arrived(subflow.to);
            for range in take_up_to(&mut subflow.outstanding, arrived) {
                self.arrived.insert(range);
            }
            let acknowledged = network.acknowledged(subflow.from);
            for range in take_up_to(&mut subflow.unacknowledged, acknowledged) {
                self.acknowledged.insert(range);
            }
            if acknowledged > subflow.progress.0 || subflow.unacknowledged.is_empty() {
                subflow.progress = (acknowledged, network.now());
                subflow.is_stale = false;
            }
            let window = network.sample(subflow.from).congestion_window.as_u64();
            let wanted = window.saturating_mul(self.windows).min(MAX_SEND_BUFFER);
            subflow.send_buffer = subflow.send_buffer.max(wanted);
        }
        let arrived = self.acknowledged.prefix();
        self.again.remove_below(arrived);
    }

    /// Has the other subflows repeat what a subflow holds that has acknowledged nothing for long.
    fn find_stale(&mut self, now: Instant) {
        if self.subflows.len() < 2 {
            return;
        }
        for subflow in &mut self.subflows {
            if subflow.is_stale || now.since(subflow.progress.1) < STALE_AFTER {
                continue;
            }
            subflow.is_stale = true;
            for (_, range) in &subflow.unacknowledged {
                if !self.acknowledged.covers(range) {
                    self.again.insert(range.clone());
                }
            }
        }
    }

    fn send(&mut self, network: &mut Network) {
        if !self.may_send(network) {
            return;
        }
        while let Some(range) = self.next_range() {
            let Some(place) = self.choose(network) else {
                return;
            };
            let subflow = &mut self.subflows[place];
            let length = range.end - range.start;
            let taken = network.write(subflow.from, length.min(subflow.room(network)));
            if taken == 0 {
                return;
            }
            let range = range.start..range.start + taken;
            let entry = (network.written(subflow.from), range.clone());
            subflow.unacknowledged.push_back(entry.clone());
            subflow.outstanding.push_back(entry);
            self.again.remove(range.clone());
            self.next = self.next.max(range.end);
        }
    }

    /// Tells whether the sender has been asked.
    fn may_send(&self, network: &mut Network) -> bool {
        let first = &self.subflows[0];
        let client = first.client();
        match self.direction {
            Direction::Put => network.is_established(client),
            Direction::Get => {
                let written = network.written(client);
                if network.is_established(client) && written < REQUEST {
                    network.write(client, REQUEST - written);
                }
                network.arrived(client.other()) == REQUEST
            }
        }
    }

    /// Returns the payload to be sent next, what is repeated first.
    fn next_range(&self) -> Option<Range<u64>> {
        let repeated = self.again.iter().next();
        let buffer: u64 = self.subflows.iter().map(|it| it.send_buffer).sum();
        let end = self.bytes.min(self.acknowledged.prefix() + buffer);
        let fresh = (self.next < end).then_some(self.next..end);
        let range = repeated.or(fresh)?;
        Some(range.start..range.end.min(range.start + BURST))
    }

    /// Returns the subflow that has sent first what it holds; `None` while that one is full.
    fn choose(&self, network: &Network) -> Option<usize> {
        let usable = (0..self.subflows.len()).filter(|place| {
            let subflow = &self.subflows[*place];
            network.is_established(subflow.from) && !subflow.is_stale
        });
        let first = usable.min_by(|a, b| {
            let [a, b] = [a, b].map(|place| self.subflows[*place].time_to_send(network));
            a.total_cmp(&b)
        })?;
        (self.subflows[first].room(network) > 0).then_some(first)
    }

    /// Tells whether the client knows that everything has arrived.
    fn is_over(&self, network: &mut Network) -> bool {
        let is_whole = self.arrived.prefix() >= self.bytes;
        if self.direction == Direction::Get {
            return is_whole;
        }
        let [client, server] = {
            let client = self.subflows[0].client();
            [client, client.other()]
        };
        if is_whole && network.written(server) == 0 {
            network.write(server, VERDICT);
        }
        network.arrived(client) == VERDICT
    }
}

impl Subflow {
    fn client(&self) -> End {
        if self.from.client { self.from } else { self.to }
    }

    fn queued(&self, network: &Network) -> u64 {
        network.written(self.from) - network.acknowledged(self.from)
    }

    fn room(&self, network: &Network) -> u64 {
        self.send_buffer.saturating_sub(self.queued(network))
    }

    /// Returns the seconds until all that it holds is sent.
    fn time_to_send(&self, network: &Network) -> f64 {
        let sample = network.sample(self.from);
        let rate = sample.congestion_window.as_u64() as f64 / sample.rtt.as_secs_f64().max(1e-6);
        self.queued(network) as f64 / rate.max(1.0)
    }
}

/// Takes out the ranges that end at a place up to this one.
fn take_up_to(
    ranges: &mut VecDeque<(u64, Range<u64>)>,
    place: u64,
) -> impl Iterator<Item = Range<u64>> + '_ {
    let done = ranges.partition_point(|(end, _)| *end <= place);
    ranges.drain(..done).map(|(_, range)| range)
}

/// `MPTCP_SEND_BURST_SIZE`.
const BURST: u64 = 64 * 1024;
/// What the default of `tcp_wmem` comes to when a connection stands.
const FIRST_SEND_BUFFER: u64 = 46_080;
/// The largest of `tcp_wmem`.
const MAX_SEND_BUFFER: u64 = 4 << 20;
/// Four time-outs of 200 ms, doubled each time.
const STALE_AFTER: Duration = Duration::from_secs(3);
const LOOK: u64 = 1;
const LOOK_EVERY: Duration = Duration::from_millis(100);
const REQUEST: u64 = 16;
const VERDICT: u64 = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use hawser_scenario::Scenario;

    /// Goodput in Mbit/s of a transfer of ten seconds at `sum` Mbit/s.
    fn goodput(links: &str, sum: u64, congestion: Congestion, direction: Direction) -> f64 {
        let text = format!("summary = \"s\"\npayload = \"1MB\"\n{links}");
        let scenario = Scenario::parse("s", &text, &hawser_scenario::no_files).unwrap();
        let bytes = sum * 10_000_000 / 8;
        let transfer = Transfer {
            congestion,
            direction,
            bytes: hawser_types::ByteCount::new(bytes),
            seed: 1,
            events: Vec::new(),
            limit: Duration::from_secs(300),
        };
        let outcome = run(&scenario.links, &transfer).unwrap();
        bytes as f64 * 8.0 / outcome.took.as_secs_f64() / 1e6
    }

    fn link(rate: u64, delay: u64) -> String {
        format!("[[link]]\nrate = \"{rate}Mbit/s\"\ndelay = \"{delay}ms\"\nqueue = \"60ms\"\n")
    }

    #[test]
    fn two_links_carry_nearly_what_both_carry_and_no_more() {
        let links = link(30, 10) + &link(20, 10);
        for congestion in Congestion::ALL {
            for direction in [Direction::Put, Direction::Get] {
                let rate = goodput(&links, 50, congestion, direction);
                assert!((43.0..48.5).contains(&rate), "{congestion:?} {rate}");
            }
        }
    }

    #[test]
    fn a_link_that_goes_silent_is_left_and_its_data_is_repeated() {
        let silent = "[[link]]\ndelay = \"10ms\"\nqueue = \"1s\"\n\
                      trace = [{ for = \"1s\", rate = \"20Mbit/s\" }, \
                      { for = \"60s\", rate = \"1kbit/s\" }]\n";
        let rate = goodput(
            &(link(20, 10) + silent),
            20,
            Congestion::Cubic,
            Direction::Get,
        );
        assert!((10.0..20.0).contains(&rate), "{rate}");
    }
}
