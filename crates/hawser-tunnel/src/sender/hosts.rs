//! Turns among hosts, and among the flows of each.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

use hawser_wire::tunnel::TunnelFlow;

use crate::packet::FlowKey;

/// The address of a packet that names the host whose share it uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HostEnd {
    /// The source, as at a router.
    #[default]
    Source,
    /// The destination, as at its far end.
    Destination,
}

/// Place of a host in [`Hosts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HostNumber(u16);

/// Hosts that take turns by what each has sent, whatever number of flows it has.
///
/// Source: start-time fair queuing (Goyal, Vin, Cheng 1996), with hosts in place of flows. Looking
/// at hosts changes nothing, so a host whose flows find no path keeps its place.
///
/// A host is known for as long as a flow of it has a number, so there are no more of them than
/// flows.
#[derive(Debug, Default)]
pub(super) struct Hosts {
    numbers: BTreeMap<IpAddr, HostNumber>,
    hosts: Vec<Host>,
    /// Places of hosts that are no longer known.
    unused: Vec<HostNumber>,
    /// Hosts with flows that have had a turn. The one that stands lowest is next.
    turns: BTreeSet<(u64, HostNumber)>,
    /// Hosts that send.
    active: usize,
    /// Flows that stand in any list.
    sending: usize,
    /// Place of each flow in the list of those that its host sends, by number.
    places: Vec<usize>,
    /// Where the host stood that had its turn last.
    reached: u64,
}

#[derive(Debug)]
struct Host {
    address: IpAddr,
    /// Flows that have a number.
    known_flows: usize,
    /// Flows that stand in any list.
    sending: Vec<TunnelFlow>,
    /// Flows that have had a turn.
    flows: VecDeque<TunnelFlow>,
    /// Bytes that wait.
    bytes: u64,
    /// Bytes that it has sent, on a scale that all hosts share.
    stands_at: u64,
}

impl HostEnd {
    /// The host that a flow belongs to.
    pub(super) const fn of(self, key: &FlowKey) -> IpAddr {
        match self {
            Self::Source => key.source,
            Self::Destination => key.destination,
        }
    }
}

impl Hosts {
    /// Adds a flow to those of the host with this address.
    pub(super) fn join(&mut self, address: IpAddr) -> HostNumber {
        if let Some(number) = self.numbers.get(&address) {
            self.hosts[number.index()].known_flows += 1;
            return *number;
        }
        let host = Host {
            address,
            known_flows: 1,
            sending: Vec::new(),
            flows: VecDeque::new(),
            bytes: 0,
            stands_at: self.reached,
        };
        let number = match self.unused.pop() {
            Some(number) => {
                self.hosts[number.index()] = host;
                number
            }
            None => {
                self.hosts.push(host);
                HostNumber((self.hosts.len() - 1) as u16)
            }
        };
        self.numbers.insert(address, number);
        number
    }

    /// Takes a flow that rests from those of a host.
    pub(super) fn leave(&mut self, number: HostNumber) {
        let host = &mut self.hosts[number.index()];
        host.known_flows -= 1;
        if host.known_flows == 0 {
            self.numbers.remove(&host.address);
            self.unused.push(number);
        }
    }

    /// The host with this address, if a flow of it has a number.
    pub(super) fn number_of(&self, address: IpAddr) -> Option<HostNumber> {
        self.numbers.get(&address).copied()
    }

    /// Tells whether one more flow of the host may begin to send with a number of its own. A host
    /// sends as many as there are numbers that rest, so that others find some, whatever it does.
    ///
    /// Source: dynamic thresholds (Choudhury, Hahne 1998), of numbers in place of memory.
    pub(super) fn may_send_another(&self, number: HostNumber) -> bool {
        let rest = usize::from(TunnelFlow::COUNT).saturating_sub(self.sending);
        self.sending_of(number).len() < rest
    }

    /// Flows of the host that send.
    pub(super) fn sending_of(&self, number: HostNumber) -> &[TunnelFlow] {
        &self.hosts[number.index()].sending
    }

    /// A flow of the host begins to send. A host that has rested has no claim to what others have
    /// sent meanwhile.
    pub(super) fn on_flow_begins(&mut self, number: HostNumber, flow: TunnelFlow) {
        let host = &mut self.hosts[number.index()];
        if host.flows.is_empty() {
            host.stands_at = host.stands_at.max(self.reached);
        }
        let known = self.places.len().max(flow.index() + 1);
        self.places.resize(known, 0);
        self.places[flow.index()] = host.sending.len();
        host.sending.push(flow);
        self.sending += 1;
        self.active += usize::from(host.sending.len() == 1);
    }

    /// A flow of the host has nothing to send any more, and stands in no list.
    pub(super) fn on_flow_rests(&mut self, number: HostNumber, flow: TunnelFlow) {
        let host = &mut self.hosts[number.index()];
        let place = self.places[flow.index()];
        host.sending.swap_remove(place);
        if let Some(moved) = host.sending.get(place) {
            self.places[moved.index()] = place;
        }
        self.sending -= 1;
        self.active -= usize::from(host.sending.is_empty());
    }

    /// Gives a flow a place behind the others of its host.
    pub(super) fn push(&mut self, number: HostNumber, flow: TunnelFlow) {
        let host = &mut self.hosts[number.index()];
        if host.flows.is_empty() {
            self.turns.insert((host.stands_at, number));
        }
        host.flows.push_back(flow);
    }

    /// Returns the first flow of the host that is next when this many hosts are skipped.
    pub(super) fn first_after(&self, skipped: usize) -> Option<TunnelFlow> {
        let (_, number) = self.turns.iter().nth(skipped)?;
        self.hosts[number.index()].flows.front().copied()
    }

    /// Takes a host's first flow out.
    pub(super) fn take_first(&mut self, number: HostNumber) {
        let host = &mut self.hosts[number.index()];
        host.flows.pop_front();
        if host.flows.is_empty() {
            self.turns.remove(&(host.stands_at, number));
        }
    }

    /// Tells whether a packet has to wait for its host's turn: the host has sent too much ahead of
    /// that, and other hosts send.
    pub(super) fn has_to_wait(&self, number: HostNumber, real_time: bool) -> bool {
        let host = &self.hosts[number.index()];
        let ahead = host.stands_at.saturating_sub(self.reached);
        let others = self.active - usize::from(!host.sending.is_empty());
        ahead >= max_ahead(real_time) && others > 0
    }

    /// Charges what a flow of the host has sent, in its host's turn or ahead of it.
    pub(super) fn charge(
        &mut self,
        number: HostNumber,
        length: usize,
        real_time: bool,
        in_turn: bool,
    ) {
        let host = &mut self.hosts[number.index()];
        let before = host.stands_at;
        if in_turn {
            self.reached = self.reached.max(before);
        }
        // Bytes beyond the limit are not charged: they kept no other host waiting.
        let most = before.max(self.reached + max_ahead(real_time));
        host.stands_at = (before + length as u64).min(most);
        if self.turns.remove(&(before, number)) {
            self.turns.insert((host.stands_at, number));
        }
    }

    /// Counts what waits.
    pub(super) fn on_added(&mut self, number: HostNumber, length: usize) {
        self.hosts[number.index()].bytes += length as u64;
    }

    /// Counts what waits no longer.
    pub(super) fn on_removed(&mut self, number: HostNumber, length: usize) {
        self.hosts[number.index()].bytes -= length as u64;
    }

    /// Bytes of the host that wait.
    pub(super) fn bytes(&self, number: HostNumber) -> u64 {
        self.hosts[number.index()].bytes
    }

    /// Flows that send until one of this host has its turn again, where all send as much.
    pub(super) fn round(&self, number: HostNumber) -> usize {
        let flows = self.sending_of(number).len();
        flows.max(1) * self.active.max(1)
    }

    /// Flows that have had a turn, in the order of their hosts' turns.
    pub(super) fn flows(&self) -> impl Iterator<Item = &TunnelFlow> {
        let hosts = self.turns.iter();
        hosts.flat_map(|(_, number)| &self.hosts[number.index()].flows)
    }

    /// Returns the hosts in the order of the table, from place `from` (modulo its length) to its
    /// end.
    pub(super) fn numbers(&self, from: usize) -> impl Iterator<Item = HostNumber> {
        let skipped = from.checked_rem(self.hosts.len()).unwrap_or(0);
        (skipped..self.hosts.len()).map(|it| HostNumber(it as u16))
    }

    /// Returns the flows of a host that have had a turn, from place `from` to the end of its list.
    pub(super) fn flows_of(
        &self,
        number: HostNumber,
        from: usize,
    ) -> impl Iterator<Item = &TunnelFlow> {
        let flows = &self.hosts[number.index()].flows;
        let skipped = from.checked_rem(flows.len()).unwrap_or(0);
        flows.iter().skip(skipped)
    }

    /// How many flows of a host have had a turn.
    pub(super) fn count_of(&self, number: HostNumber) -> usize {
        self.hosts[number.index()].flows.len()
    }

    /// Tells whether no flow has had a turn.
    pub(super) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }
}

impl HostNumber {
    const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Bytes that a host may send ahead of its turn: the first packets of some flows of bulk, and the
/// calls of a host for a second.
const fn max_ahead(real_time: bool) -> u64 {
    if real_time { 64_000 } else { 12_000 }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn address(number: u32) -> IpAddr {
        Ipv4Addr::from(number).into()
    }

    #[test]
    fn a_host_is_forgotten_with_its_last_flow_and_its_place_used_again() {
        let mut hosts = Hosts::default();
        let kept = hosts.join(address(0));
        for number in 1..10_000 {
            let host = hosts.join(address(number));
            assert_eq!(hosts.join(address(number)), host);
            hosts.leave(host);
            assert_eq!(hosts.numbers.len(), 2);
            hosts.leave(host);
        }
        assert_eq!((hosts.numbers.len(), hosts.hosts.len()), (1, 2));
        assert_eq!(hosts.join(address(0)), kept);
    }

    #[test]
    fn hosts_send_as_much_whatever_their_packets_are() {
        let mut hosts = Hosts::default();
        let flows = [0, 1].map(|it| TunnelFlow::new(it).unwrap());
        for (number, flow) in (0..).zip(flows) {
            let host = hosts.join(address(number));
            hosts.on_flow_begins(host, flow);
            hosts.push(host, flow);
        }
        let mut sent = [0_i64; 2];
        for _ in 0..300 {
            let flow = hosts.first_after(0).unwrap();
            // One of them sends packets of three times the size.
            let length = 500 * (1 + 2 * flow.index());
            sent[flow.index()] += length as i64;
            hosts.charge(HostNumber(flow.value()), length, false, true);
        }
        assert!((sent[0] - sent[1]).abs() <= 1500, "{sent:?}");
    }
}
