//! Flows of a tunnel, merged from the counters of its sender and receiver at this end.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use hawser_sched::tally::FlowTally;
use hawser_session::{FlowEnds, PacketFlow, Side};
use hawser_tunnel::packet::FlowKey;
use hawser_types::Instant;

/// Returns the flows that moved data lately, at most `most` of them, the latest first, and their
/// total number; if there are more, those of the direction with more flows. The keys of `sent` and
/// `received` are those of this end's packets and of the peer's.
pub(super) fn list<'a>(
    now: Instant,
    side: Side,
    (sent, received): (
        impl Iterator<Item = (&'a FlowKey, &'a FlowTally)>,
        impl Iterator<Item = (&'a FlowKey, &'a FlowTally)>,
    ),
    most: usize,
) -> (Vec<PacketFlow>, usize) {
    let (sent, sent_count) = latest(now, sent, most);
    let (received, received_count) = latest(now, received, most);
    let is_client = side == Side::Client;
    let sent = sent.into_iter().map(|it| (it, is_client));
    let received = received.into_iter().map(|it| (it, !is_client));
    let mut flows: BTreeMap<FlowEnds, (u8, FlowTally)> = BTreeMap::new();
    // Sent flows come first, because their marking counts.
    for ((key, tally), is_from_client) in sent.chain(received) {
        let known = flows.entry(ends(key, is_from_client));
        known
            .and_modify(|(_, sum)| sum.add(tally))
            .or_insert_with(|| (key.dscp, tally.clone()));
    }
    let is_cut = sent_count.max(received_count) > most;
    let count = if is_cut {
        sent_count.max(received_count)
    } else {
        flows.len()
    };
    let flow = |(ends, (dscp, tally)): (FlowEnds, (u8, FlowTally))| PacketFlow {
        ends,
        dscp,
        age: now.since(tally.began),
        idle: now.since(tally.latest),
        tally,
    };
    let mut flows: Vec<_> = flows.into_iter().map(flow).collect();
    flows.sort_by_key(|flow| (flow.idle, Reverse(flow.age)));
    flows.truncate(most);
    (flows, count)
}

/// Returns the `most` latest flows that moved data lately, and their number: a flood of flows must
/// not cost a map look-up for each of them.
fn latest<'a>(
    now: Instant,
    flows: impl Iterator<Item = (&'a FlowKey, &'a FlowTally)>,
    most: usize,
) -> (Vec<(&'a FlowKey, &'a FlowTally)>, usize) {
    let has_moved = |tally: &FlowTally| {
        tally.sent_packets + tally.received_packets + tally.dropped > 0
            && now.since(tally.latest) <= LATELY
    };
    let mut flows: Vec<_> = flows.filter(|(_, tally)| has_moved(tally)).collect();
    let count = flows.len();
    if count > most {
        flows.select_nth_unstable_by_key(most, |(_, tally)| Reverse(tally.latest));
        flows.truncate(most);
    }
    (flows, count)
}

/// Returns the ends of a flow: the packet's source is the client's end, or else its destination.
fn ends(key: &FlowKey, is_from_client: bool) -> FlowEnds {
    let ports = match key.protocol {
        // The ports of one direction say nothing about the other.
        ESP | AH => (0, 0),
        _ => key.ports,
    };
    let (source, destination) = ((key.source, ports.0), (key.destination, ports.1));
    let (client, remote) = if is_from_client {
        (source, destination)
    } else {
        (destination, source)
    };
    FlowEnds {
        protocol: key.protocol,
        client,
        remote,
    }
}

/// A flow has no explicit end: it counts as over when it was idle for this long, like flows of
/// datagrams at a gateway.
const LATELY: Duration = Duration::from_secs(150);
const ESP: u8 = 50;
const AH: u8 = 51;

#[cfg(test)]
mod tests {
    use hawser_sched::packet::PacketReason;
    use hawser_types::{ByteCount, LinkIndex};

    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    fn key(port: u16, dscp: u8) -> FlowKey {
        FlowKey {
            source: [10, 83, 0, 2].into(),
            destination: [192, 0, 2, 1].into(),
            protocol: 17,
            dscp,
            ports: (port, 443),
        }
    }

    /// Returns the key of the packets in the other direction.
    fn back(key: FlowKey) -> FlowKey {
        FlowKey {
            source: key.destination,
            destination: key.source,
            ports: (key.ports.1, key.ports.0),
            ..key
        }
    }

    fn sent(when: Instant) -> FlowTally {
        let mut tally = FlowTally::new(when);
        let (link, bytes) = (LinkIndex::new(1), ByteCount::new(100));
        tally.on_sent(when, link, bytes, PacketReason::Home);
        tally
    }

    fn received(when: Instant) -> FlowTally {
        let mut tally = FlowTally::new(when);
        tally.on_received(when, LinkIndex::new(2), ByteCount::new(7));
        tally
    }

    #[test]
    fn both_directions_and_all_markings_of_a_flow_are_one() {
        let (call, answer) = (key(1, 46), back(key(1, 0)));
        let (there, more) = (sent(at(1)), sent(at(3)));
        let come = received(at(2));
        let other = received(at(5));
        let (new, unmarked) = (back(key(2, 8)), key(1, 0));
        let up = [(&call, &there), (&unmarked, &more)];
        let down = [(&answer, &come), (&new, &other)];
        let both = || (up.into_iter(), down.into_iter());
        let (flows, count) = list(at(10), Side::Client, both(), 9);
        assert_eq!((flows.len(), count), (2, 2));
        let one = &flows[1];
        assert_eq!(
            (one.dscp, one.ends.client.1, one.ends.remote.1),
            (46, 1, 443)
        );
        assert_eq!(
            (one.age, one.idle),
            (Duration::from_secs(9), Duration::from_secs(7))
        );
        assert_eq!((one.tally.sent_packets, one.tally.received_packets), (2, 1));
        assert_eq!(one.tally.links().len(), 2);
        assert_eq!((flows[0].dscp, flows[0].ends.client.1), (8, 2));
        // The latest is kept, and all are counted.
        let (flows, count) = list(at(10), Side::Client, both(), 1);
        assert_eq!((flows[0].ends.client.1, flows.len(), count), (2, 1, 2));
        let (flows, count) = list(at(10), Side::Client, both(), 0);
        assert_eq!((flows.len(), count), (0, 2));
    }

    #[test]
    fn a_gateway_has_the_client_at_the_same_end() {
        let call = key(1, 0);
        let (answer, sent, come) = (back(call), sent(at(1)), received(at(1)));
        let both = ([(&answer, &sent)].into_iter(), [(&call, &come)].into_iter());
        let (flows, _) = list(at(2), Side::Gateway, both, 9);
        assert_eq!(flows[0].ends.client, (call.source, 1));
        assert_eq!(flows[0].tally.sent_packets, 1);
        assert_eq!(flows.len(), 1);
    }

    #[test]
    fn what_rests_for_long_is_over() {
        let (call, old) = (key(1, 0), sent(at(1)));
        let none = || std::iter::empty();
        let at_end = at(1) + LATELY;
        let both = || ([(&call, &old)].into_iter(), none());
        assert_eq!(list(at_end, Side::Client, both(), 9).1, 1);
        let later = at_end + Duration::from_nanos(1);
        assert_eq!(list(later, Side::Client, both(), 9).1, 0);
    }
}
