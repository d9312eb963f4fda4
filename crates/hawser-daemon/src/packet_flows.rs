//! Converts a tunnel's counts of flows to the form that is shown.

use std::cmp::Reverse;
use std::net::{IpAddr, SocketAddr};

use hawser_control::{PacketFlowLink, PacketFlowStatus, PacketPlacing, WhyCount};
use hawser_sched::packet::PacketReason;
use hawser_sched::tally::{FlowTally, LinkOfFlow};
use hawser_session::PacketFlow;
use hawser_types::Rate;

use super::books::Account;
use super::subject::View;

/// Returns the flows of packets of a session, the latest first.
pub(super) fn shown(view: &View, account: Option<&Account>) -> Vec<PacketFlowStatus> {
    let flows = view.session.iter().flat_map(|session| &session.flows);
    let rate = |flow| account.map_or(Rate::ZERO, |account| account.packet_flow(flow));
    flows.map(|it| flow(it, view, rate(it))).collect()
}

/// Returns the `most` flows of packets with the most traffic, with the reasons for their links.
pub(super) fn with_reasons<'a>(
    flows: impl IntoIterator<Item = &'a PacketFlow>,
    view: &View,
    most: usize,
) -> Vec<PacketFlowStatus> {
    let mut flows: Vec<_> = flows.into_iter().collect();
    flows.sort_by_key(|flow| Reverse(flow.tally.sent + flow.tally.received));
    flows.truncate(most);
    let told = flows.into_iter().map(|it| {
        let mut told = flow(it, view, Rate::ZERO);
        for (link, counted) in told.links.iter_mut().zip(it.tally.links()) {
            link.chosen = chosen(counted);
        }
        told
    });
    told.collect()
}

fn flow(flow: &PacketFlow, view: &View, rate: Rate) -> PacketFlowStatus {
    let (tally, ends) = (&flow.tally, &flow.ends);
    let end = |(address, port)| end(ends.protocol, address, port);
    let name = view.names.get(&ends.remote.0);
    let links = tally.links().iter().map(|link| PacketFlowLink {
        link: view.link_name(link.link),
        index: link.link,
        bytes_sent: link.sent,
        bytes_copied: link.copied,
        bytes_received: link.received,
        chosen: Vec::new(),
    });
    PacketFlowStatus {
        protocol: protocol(ends.protocol),
        source: end(ends.client),
        destination: end(ends.remote),
        name: name.map(ToString::to_string),
        dscp: flow.dscp,
        placed: placed(tally),
        why: why(tally).map(|reason| reason.name().to_owned()),
        packets_sent: tally.sent_packets,
        bytes_sent: tally.sent,
        packets_received: tally.received_packets,
        bytes_received: tally.received,
        copies: tally.copies,
        dropped: tally.dropped,
        marked: tally.marked,
        lost: tally.lost(),
        late: tally.late,
        age: flow.age,
        idle: flow.idle,
        rate,
        links: links.collect(),
    }
}

/// Returns how most packets of the flow were placed.
fn placed(tally: &FlowTally) -> PacketPlacing {
    let is_most = |count: u64| count > 0 && 2 * count >= tally.sent_packets;
    if is_most(tally.copies) {
        PacketPlacing::Copied
    } else if is_most(tally.real_time) {
        PacketPlacing::RealTime
    } else {
        PacketPlacing::Bulk
    }
}

/// Returns the most frequent reason of the flow's packets.
fn why(tally: &FlowTally) -> Option<PacketReason> {
    let sum = |reason: PacketReason| -> u64 {
        let chosen = tally.links().iter().flat_map(LinkOfFlow::chosen);
        chosen
            .filter(|(why, _)| *why == reason)
            .map(|(_, count)| count)
            .sum()
    };
    let sums = PacketReason::ALL
        .into_iter()
        .map(|reason| (sum(reason), reason));
    let most = sums.max_by_key(|(count, _)| *count);
    most.filter(|(count, _)| *count > 0)
        .map(|(_, reason)| reason)
}

fn chosen(link: &LinkOfFlow) -> Vec<WhyCount> {
    let mut chosen: Vec<_> = link
        .chosen()
        .map(|(reason, count)| WhyCount {
            why: reason.name().to_owned(),
            meaning: reason.meaning().to_owned(),
            chunks: count,
        })
        .collect();
    chosen.sort_by_key(|count| Reverse(count.chunks));
    chosen
}

/// Formats an address, with the port if the protocol has one.
fn end(protocol: u8, address: IpAddr, port: u16) -> String {
    match port {
        0 => address.to_string(),
        _ if matches!(protocol, ICMP | ICMPV6) => address.to_string(),
        _ => SocketAddr::new(address, port).to_string(),
    }
}

/// Returns a protocol's name, or its number if the protocol is uncommon.
fn protocol(number: u8) -> String {
    let name = match number {
        ICMP => "icmp",
        2 => "igmp",
        6 => "tcp",
        17 => "udp",
        33 => "dccp",
        47 => "gre",
        50 => "esp",
        51 => "ah",
        ICMPV6 => "icmpv6",
        132 => "sctp",
        136 => "udplite",
        _ => return number.to_string(),
    };
    name.to_owned()
}

const ICMP: u8 = 1;
const ICMPV6: u8 = 58;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hawser_session::FlowEnds;
    use hawser_types::{ByteCount, Instant, LinkIndex};

    use super::super::books::tests;
    use super::*;

    fn view() -> View {
        let mut tally = FlowTally::new(Instant::ZERO);
        let (dsl, bytes) = (LinkIndex::new(2), ByteCount::new(100));
        for why in [
            PacketReason::Home,
            PacketReason::Earliest,
            PacketReason::Home,
        ] {
            tally.on_sent(Instant::ZERO, dsl, bytes, why);
        }
        tally.on_received(Instant::ZERO, LinkIndex::ALL, bytes);
        tally.real_time = 3;
        let ends = FlowEnds {
            protocol: 17,
            client: ([10, 83, 0, 2].into(), 40_000),
            remote: ([192, 0, 2, 1].into(), 443),
        };
        let flow = PacketFlow {
            ends,
            dscp: 46,
            age: Duration::from_secs(9),
            idle: Duration::ZERO,
            tally,
        };
        let mut view = tests::view(&[(0, 1)], &[]);
        view.names.insert(ends.remote.0, "example.org".into());
        let session = view.session.as_mut().unwrap();
        session.flow_count = 1;
        session.flows.push(flow);
        view
    }

    #[test]
    fn a_flow_shows_its_ends_its_links_and_how_it_is_placed() {
        let flows = shown(&view(), None);
        let [flow] = &flows[..] else {
            panic!("{flows:?}");
        };
        assert_eq!((flow.protocol.as_str(), flow.dscp), ("udp", 46));
        assert_eq!(flow.source, "10.83.0.2:40000");
        assert_eq!(flow.to(), "example.org:443");
        assert_eq!(flow.placed, PacketPlacing::RealTime);
        assert_eq!(flow.why.as_deref(), Some("home"));
        assert_eq!((flow.packets_sent, flow.bytes_received.as_u64()), (3, 100));
        let links: Vec<_> = flow.links.iter().map(|it| it.link.as_str()).collect();
        assert_eq!(links, ["dsl", "(unknown link)"]);
        assert!(flow.links.iter().all(|link| link.chosen.is_empty()));
        let own = view();
        let told = with_reasons(&own.session.as_ref().unwrap().flows, &own, 9);
        let chosen = &told[0].links[0].chosen;
        let counts: Vec<_> = chosen
            .iter()
            .map(|it| (it.why.as_str(), it.chunks))
            .collect();
        assert_eq!(counts, [("home", 2), ("earliest", 1)]);
    }

    #[test]
    fn ends_have_ports_where_these_mean_something() {
        let [v4, v6]: [IpAddr; 2] = ["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()];
        assert_eq!(end(6, v6, 443), "[2001:db8::1]:443");
        assert_eq!(end(ICMP, v4, 77), "192.0.2.1");
        assert_eq!(end(47, v4, 0), "192.0.2.1");
        assert_eq!(protocol(47), "gre");
        assert_eq!(protocol(200), "200");
    }

    #[test]
    fn most_packets_say_how_a_flow_is_placed() {
        let tally = |real_time, copies| {
            let mut tally = FlowTally::default();
            (tally.sent_packets, tally.real_time, tally.copies) = (10, real_time, copies);
            tally
        };
        assert_eq!(placed(&tally(4, 0)), PacketPlacing::Bulk);
        assert_eq!(placed(&tally(5, 1)), PacketPlacing::RealTime);
        assert_eq!(placed(&tally(9, 6)), PacketPlacing::Copied);
        assert_eq!(placed(&FlowTally::default()), PacketPlacing::Bulk);
    }
}
