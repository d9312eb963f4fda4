mod flow_numbers;

use std::collections::BTreeMap;

use hawser_sched::PathView;
use hawser_types::{LinkIndex, Rate};
use hawser_wire::tunnel::Run;

use super::*;
use crate::packet::Ecn;
use crate::packet::samples::udp;

fn ms(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

fn sender(policy: PacketPolicy) -> Sender {
    Sender::new(SenderConfig {
        policy,
        ..SenderConfig::default()
    })
}

/// Paths of 50 Mbit/s with round trips of 20 ms and so much room.
fn paths(rooms: &[u64]) -> TunnelPaths {
    let mut paths = TunnelPaths::default();
    for (number, room) in rooms.iter().enumerate() {
        let view = PathView {
            channel: ChannelId::new(number as u32 + 1),
            link: LinkIndex::new(number as u32 + 1),
            rtt: Duration::from_millis(20),
            min_rtt: Duration::from_millis(20),
            rate: Rate::from_bits_per_second(50_000_000),
            ..PathView::default()
        };
        paths.push(view, ByteCount::new(*room));
    }
    paths
}

/// Two of them, with round trips of 20 and 200 ms.
fn unlike_paths(near: u64, far: u64) -> TunnelPaths {
    let alike = paths(&[near, far]);
    let mut paths = TunnelPaths::default();
    let (mut longer, round_trip) = (alike.views()[1].clone(), Duration::from_millis(200));
    (longer.rtt, longer.min_rtt) = (round_trip, round_trip);
    paths.push(alike.views()[0].clone(), ByteCount::new(near));
    paths.push(longer, ByteCount::new(far));
    paths
}

fn packet(port: u16, payload: usize) -> Bytes {
    udp(4, (port, 53), payload).into()
}

fn drain(sender: &mut Sender, now: Instant, paths: &mut TunnelPaths) -> Vec<Placed> {
    std::iter::from_fn(|| sender.poll(now, paths)).collect()
}

#[test]
fn a_flow_is_numbered_and_says_how_many_packets_took_the_same_path() {
    let mut sender = sender(PacketPolicy::Auto);
    for _ in 0..8 {
        sender.enqueue(ms(0), packet(1, 1000)).unwrap();
    }
    let placed = drain(&mut sender, ms(0), &mut paths(&[1 << 20]));
    let numbers: Vec<_> = placed.iter().map(|it| it.header.number.expand(0)).collect();
    assert_eq!(numbers, (0..8).collect::<Vec<_>>());
    let runs: Vec<_> = placed.iter().map(|it| it.header.run).collect();
    assert_eq!(runs, [0, 1, 2, 3, 4, 5, 6, 7].map(Run::of));
    assert!(sender.is_empty());
    assert_eq!(sender.waiting(), ByteCount::ZERO);
}

#[test]
fn a_busy_flow_delays_no_other() {
    let mut sender = sender(PacketPolicy::Auto);
    for _ in 0..100 {
        sender.enqueue(ms(0), packet(1, 1000)).unwrap();
    }
    let mut paths = paths(&[3000]);
    assert_eq!(drain(&mut sender, ms(0), &mut paths).len(), 2);
    sender.enqueue(ms(1), packet(2, 100)).unwrap();
    paths = self::paths(&[3000]);
    let placed = drain(&mut sender, ms(1), &mut paths);
    // One packet of the busy flow was next already at most.
    let call = placed.iter().position(|it| it.packet.len() == 128);
    assert!(call <= Some(1), "{call:?}");
    assert!(placed[call.unwrap()].header.unheld);
}

#[test]
fn where_bulk_has_taken_all_room_a_call_has_some_and_no_flood_of_calls_has_more() {
    let mut sender = sender(PacketPolicy::Auto);
    for _ in 0..10 {
        sender.enqueue(ms(0), packet(1, 1000)).unwrap();
    }
    let mut paths = paths(&[2500, 2500]);
    assert_eq!(drain(&mut sender, ms(0), &mut paths).len(), 4);
    sender.enqueue(ms(0), packet(2, 100)).unwrap();
    let placed = drain(&mut sender, ms(0), &mut paths);
    assert_eq!(placed.len(), 1, "{placed:?}");
    assert_eq!(placed[0].packet.len(), 128);
    assert!(drain(&mut sender, ms(0), &mut paths).is_empty());
    for flow in 3..303 {
        sender.enqueue(ms(0), packet(flow, 100)).unwrap();
    }
    let placed = drain(&mut sender, ms(0), &mut paths).len();
    assert!((1..150).contains(&placed), "{placed}");
    // Bulk that was passed goes on in its order.
    let mut later = self::paths(&[1 << 20]);
    let numbers: Vec<_> = drain(&mut sender, ms(1), &mut later)
        .iter()
        .filter(|it| it.packet.len() == 1028)
        .map(|it| it.header.number.expand(0))
        .collect();
    assert_eq!(numbers, (4..10).collect::<Vec<_>>());
}

#[test]
fn a_flow_that_waits_for_the_nearer_path_lets_others_pass() {
    let mut sender = sender(PacketPolicy::Auto);
    for _ in 0..30 {
        sender.enqueue(ms(0), packet(1, 1000)).unwrap();
    }
    for _ in 0..600 {
        sender.enqueue(ms(0), packet(2, 1000)).unwrap();
    }
    // The longer path is 90 ms further away: 562,500 bytes at the rate of the nearer one.
    let mut paths = unlike_paths(0, 20_000);
    let placed = drain(&mut sender, ms(0), &mut paths);
    assert_eq!(placed.len(), 19);
    let second = ChannelId::new(2);
    for it in &placed {
        assert_eq!(it.path, second);
        assert_eq!(it.packet[20..22], 2u16.to_be_bytes(), "the small flow");
    }
    // Both go on where there is room, in turns.
    let mut paths = unlike_paths(20_000, 0);
    let placed = drain(&mut sender, ms(1), &mut paths);
    let of_the_first = placed.iter().filter(|it| it.packet[20..22] == [0, 1]);
    assert!((8..12).contains(&of_the_first.count()), "{placed:?}");
}

#[test]
fn a_small_packet_behind_a_large_one_of_its_flow_is_held_like_it() {
    let mut sender = sender(PacketPolicy::Auto);
    let mut paths = paths(&[1 << 20]);
    let mut is_unheld = |at: Instant, payload| {
        sender.enqueue(at, packet(1, payload)).unwrap();
        let placed = drain(&mut sender, at, &mut paths);
        placed[0].header.unheld
    };
    assert!(is_unheld(ms(0), 100));
    assert!(!is_unheld(ms(10), 1000));
    for at in (20..500).step_by(20) {
        assert!(!is_unheld(ms(at), 100));
    }
    // Now nothing is left that it could overtake.
    assert!(is_unheld(ms(520), 100));
}

#[test]
fn bytes_behind_a_packet_are_cut_off_and_nonsense_is_refused() {
    let mut sender = sender(PacketPolicy::Auto);
    let mut padded = udp(6, (1, 2), 10);
    padded.extend_from_slice(&[0; 20]);
    sender.enqueue(ms(0), padded.into()).unwrap();
    let placed = drain(&mut sender, ms(0), &mut paths(&[2000]));
    assert_eq!(placed[0].packet.len(), 58);
    let refused = sender.enqueue(ms(0), Bytes::from_static(&[0x45, 0, 0]));
    assert_eq!(refused, Err(Refused::Fault(PacketFault::Truncated)));
    assert_eq!(sender.stats().refused, 1);
}

#[test]
fn a_queue_that_stands_marks_what_understands_marks_and_drops_the_rest() {
    for capable in [true, false] {
        let mut sender = sender(PacketPolicy::Auto);
        let mut bytes = udp(6, (1, 2), 1000);
        bytes[1] |= if capable { 0b10 << 4 } else { 0 };
        for at in 0..1000 {
            for _ in 0..2 {
                sender
                    .enqueue(ms(at), Bytes::copy_from_slice(&bytes))
                    .unwrap();
            }
            let mut paths = paths(&[1100]);
            for placed in drain(&mut sender, ms(at), &mut paths) {
                let ecn = PacketView::parse(&placed.packet).unwrap().ecn();
                assert!(capable || ecn == Ecn::NotCapable);
            }
        }
        let stats = sender.stats();
        assert_eq!(stats.marked > 10, capable, "{stats:?}");
        assert_eq!(stats.dropped > 10, !capable, "{stats:?}");
    }
}

#[test]
fn a_flood_of_flows_takes_no_more_memory_than_allowed() {
    let mut sender = sender(PacketPolicy::Auto);
    let config = SenderConfig::default();
    let mut bytes = udp(4, (1, 2), 20);
    for number in 0..200_000u32 {
        bytes[12..16].copy_from_slice(&number.to_be_bytes());
        sender
            .enqueue(ms(0), Bytes::copy_from_slice(&bytes))
            .unwrap();
        assert!(sender.waiting() <= config.max_bytes);
    }
    let stats = sender.stats();
    let kept = stats.taken - stats.overflowed;
    assert!(kept <= config.max_packets as u64, "{stats:?}");
    // Hosts that were there before get a turn all the same.
    sender.enqueue(ms(1), packet(9, 200)).unwrap();
    assert!(!drain(&mut sender, ms(1), &mut paths(&[1 << 24])).is_empty());
}

#[test]
fn small_packets_are_copied_within_the_budget() {
    let mut sender = sender(PacketPolicy::Redundant);
    let mut both = paths(&[1 << 20, 1 << 20]);
    sender.enqueue(ms(0), packet(1, 100)).unwrap();
    let placed = drain(&mut sender, ms(0), &mut both);
    assert_eq!(placed.len(), 2);
    assert!(placed.iter().all(|it| it.header.copied && it.header.unheld));
    assert_eq!(placed[0].header.number, placed[1].header.number);
    assert_ne!(placed[0].path, placed[1].path);
    for port in 0..2000 {
        sender.enqueue(ms(0), packet(port, 100)).unwrap();
    }
    drain(&mut sender, ms(0), &mut both);
    let stats = sender.stats();
    assert_eq!(stats.placed, 2001);
    // 32 KiB, and one byte in fifty.
    assert!((240..300).contains(&stats.copies), "{stats:?}");
}

#[test]
fn bursts_leave_so_that_the_slow_path_has_what_is_needed_last() {
    let mut sender = sender(PacketPolicy::InOrder);
    let mut unequal = paths(&[1 << 20]);
    let slow = PathView {
        channel: ChannelId::new(2),
        link: LinkIndex::new(2),
        rate: Rate::from_bits_per_second(12_500_000),
        ..unequal.views()[0].clone()
    };
    unequal.push(slow, ByteCount::new(1 << 20));
    for _ in 0..5 {
        sender.enqueue(ms(0), packet(1, 1000)).unwrap();
    }
    let mut placed = drain(&mut sender, ms(0), &mut unequal);
    while let Some(at) = sender.poll_timeout() {
        placed.extend(drain(&mut sender, at, &mut unequal));
    }
    assert!(sender.is_empty());
    let last = placed.iter().find(|it| it.path == ChannelId::new(2));
    let last = last.unwrap().header;
    assert_eq!((last.number.expand(0), last.early), (4, true));
    let mut left: BTreeMap<u64, bool> = BTreeMap::new();
    for it in &placed {
        left.insert(it.header.number.expand(0), it.header.early);
    }
    assert_eq!(left.len(), 5);
    assert!(left.iter().all(|(number, early)| *number == 4 || !early));
}

#[test]
fn what_is_left_of_a_burst_leaves_when_its_path_goes() {
    let mut sender = sender(PacketPolicy::InOrder);
    let mut both = paths(&[5000, 5000]);
    for _ in 0..6 {
        sender.enqueue(ms(0), packet(1, 1000)).unwrap();
    }
    let mut count = drain(&mut sender, ms(0), &mut both).len();
    let mut one = paths(&[1 << 20]);
    for at in 1..20 {
        count += drain(&mut sender, ms(at), &mut one).len();
    }
    assert_eq!(count, 6);
    assert!(sender.is_empty());
    assert_eq!(sender.poll_timeout(), None);
}

#[test]
fn each_flow_is_counted_with_its_links_and_the_reasons_for_them() {
    let mut sender = sender(PacketPolicy::Redundant);
    sender.enqueue(ms(0), packet(1, 100)).unwrap();
    for _ in 0..3 {
        sender.enqueue(ms(0), packet(2, 1400)).unwrap();
    }
    drain(&mut sender, ms(5), &mut paths(&[1 << 20, 1 << 20]));
    let flows: Vec<_> = sender.flows().collect();
    let [(call, of_call), (_, of_bulk)] = flows[..] else {
        panic!("{flows:?}");
    };
    assert_eq!((call.ports, of_call.latest), ((1, 53), ms(5)));
    let counts = |it: &FlowTally| (it.sent_packets, it.real_time, it.copies);
    assert_eq!(counts(of_call), (1, 1, 1));
    assert_eq!(counts(of_bulk), (3, 0, 0));
    let by_link = |it: &FlowTally| -> Vec<_> {
        let links = it.links().iter();
        links
            .map(|it| (it.link.value(), it.sent.as_u64(), it.copied.as_u64()))
            .collect()
    };
    let length = packet(1, 100).len() as u64;
    assert_eq!(by_link(of_call), [(1, length, 0), (2, 0, length)]);
    let sent: u64 = by_link(of_bulk).iter().map(|(_, sent, _)| sent).sum();
    assert_eq!(sent, 3 * packet(2, 1400).len() as u64);
    let why: Vec<_> = of_call.links()[0].chosen().collect();
    assert_eq!(why, [(PacketReason::Redundant, 1)]);
}

#[test]
fn drops_are_counted_with_the_flow_whose_queue_stood() {
    let mut sender = Sender::new(SenderConfig {
        max_packets: 4,
        ..SenderConfig::default()
    });
    for _ in 0..9 {
        sender.enqueue(ms(0), packet(1, 1000)).unwrap();
    }
    let dropped: u64 = sender.flows().map(|(_, tally)| tally.dropped).sum();
    assert!(dropped > 0);
    assert_eq!(dropped, sender.stats().overflowed);
}

#[test]
fn what_is_lost_leaves_once_more_before_all_others_and_no_third_time() {
    let mut sender = sender(PacketPolicy::Auto);
    for _ in 0..3 {
        sender.enqueue(ms(0), packet(1, 1000)).unwrap();
    }
    let first = drain(&mut sender, ms(0), &mut paths(&[1 << 20])).swap_remove(0);
    sender.enqueue(ms(20), packet(2, 1000)).unwrap();
    sender.repair(ms(20), first.header, first.packet.clone());
    let placed = drain(&mut sender, ms(20), &mut paths(&[1 << 20]));
    let [again, other] = &placed[..] else {
        panic!("{placed:?}");
    };
    assert_eq!(again.packet, first.packet);
    assert!(again.header.copied && !other.header.copied);
    assert_eq!(again.header.number, first.header.number);
    assert_eq!(sender.stats().repaired, 1);
    sender.repair(ms(40), again.header, again.packet.clone());
    assert!(sender.is_empty());
}

#[test]
fn lost_packets_that_find_no_room_are_given_up_in_the_end() {
    let mut sender = sender(PacketPolicy::Auto);
    for _ in 0..9 {
        sender.enqueue(ms(0), packet(1, 1000)).unwrap();
    }
    for lost in drain(&mut sender, ms(0), &mut paths(&[1 << 20])) {
        sender.repair(ms(20), lost.header, lost.packet);
    }
    // Room that is kept for calls is not for many.
    assert!(drain(&mut sender, ms(20), &mut paths(&[0])).is_empty());
    assert!(!sender.is_empty() && sender.waiting() > ByteCount::ZERO);
    assert!(drain(&mut sender, ms(900), &mut paths(&[1 << 20])).is_empty());
    assert!(sender.is_empty());
    assert_eq!(sender.waiting(), ByteCount::ZERO);
}

/// A packet of a host, to another host or from it, whose flow is told by its port.
fn of_host(end: HostEnd, version: u8, host: u8, port: u16, payload: usize) -> Bytes {
    let mut packet = udp(version, (port, 53), payload);
    let last_of_address = match (version, end) {
        (4, HostEnd::Source) => 15,
        (4, HostEnd::Destination) => 19,
        (_, HostEnd::Source) => 23,
        (_, HostEnd::Destination) => 39,
    };
    packet[last_of_address] = host;
    packet.into()
}

/// How many of these packets are of this host.
fn count_of(host: u8, placed: &[Placed]) -> usize {
    placed.iter().filter(|it| it.packet[15] == host).count()
}

#[test]
fn hosts_have_equal_shares_whatever_number_of_flows_they_have() {
    for end in [HostEnd::Source, HostEnd::Destination] {
        for version in [4, 6] {
            let mut sender = Sender::new(SenderConfig {
                hosts: end,
                ..SenderConfig::default()
            });
            for number in 0..800 {
                let of_many = of_host(end, version, 7, 1 + number % 8, 1000);
                sender.enqueue(ms(0), of_many).unwrap();
                let of_one = of_host(end, version, 8, 99, 1000);
                sender.enqueue(ms(0), of_one).unwrap();
            }
            let placed = drain(&mut sender, ms(1), &mut paths(&[200_000]));
            let ports = |it: &&Placed| PacketView::parse(&it.packet).unwrap().ports();
            let of_one = placed.iter().filter(|it| ports(it) == Some((99, 53)));
            let (of_one, all) = (of_one.count(), placed.len());
            // The eight flows begin ahead of their host's turn, with a packet or two each.
            assert!(all > 150 && of_one * 2 + 24 > all, "{of_one} of {all}");
            assert!(of_one * 2 < all + 24, "{of_one} of {all}");
        }
    }
}

#[test]
fn a_host_gains_nothing_by_a_new_flow_for_each_packet() {
    let mut sender = sender(PacketPolicy::Auto);
    let mut placed = Vec::new();
    for number in 0..600 {
        let now = ms(number);
        let fresh = of_host(HostEnd::Source, 4, 7, 1000 + number as u16, 1000);
        sender.enqueue(now, fresh).unwrap();
        sender
            .enqueue(now, of_host(HostEnd::Source, 4, 8, 99, 1000))
            .unwrap();
        placed.extend(drain(&mut sender, now, &mut paths(&[1500])));
    }
    let (fresh, of_one) = (count_of(7, &placed), count_of(8, &placed));
    assert!(placed.len() > 550, "{}", placed.len());
    assert!(fresh.abs_diff(of_one) < 30, "{fresh} and {of_one}");
}

#[test]
fn a_call_of_a_busy_host_goes_ahead_of_its_turn() {
    let mut sender = sender(PacketPolicy::Auto);
    for number in 0..400 {
        let (host, port) = (number % 20, number / 20);
        let bulk = of_host(HostEnd::Source, 4, host as u8, port, 1000);
        sender.enqueue(ms(0), bulk).unwrap();
    }
    // All flows have had a turn.
    drain(&mut sender, ms(0), &mut paths(&[1_100_000]));
    // The first packet of the call, and those that follow while its host's bulk waits.
    for round in 1..20 {
        let now = ms(20 * round);
        for number in 0..400 {
            let (host, port) = (number % 20, number / 20);
            let bulk = of_host(HostEnd::Source, 4, host as u8, port, 1000);
            sender.enqueue(now, bulk).unwrap();
        }
        let call = of_host(HostEnd::Source, 4, 3, 999, 100);
        sender.enqueue(now, call).unwrap();
        let placed = drain(&mut sender, now, &mut paths(&[3000]));
        assert!(placed.iter().any(|it| it.packet.len() == 128), "{placed:?}");
    }
}

#[test]
fn a_host_with_very_many_calls_leaves_others_their_share() {
    let mut sender = sender(PacketPolicy::Auto);
    let mut of_others = 0;
    for round in 0..300 {
        let now = ms(round);
        // One packet of each of a thousand calls, in turns; more than there is room for.
        for number in 0..60 {
            let port = (round * 60 + number) % 1000;
            let call = of_host(HostEnd::Source, 4, 1, port as u16, 200);
            sender.enqueue(now, call).unwrap();
        }
        let bulk = of_host(HostEnd::Source, 4, 2, 80, 1000);
        sender.enqueue(now, bulk).unwrap();
        let placed = drain(&mut sender, now, &mut paths(&[4000]));
        of_others += placed.iter().filter(|it| it.packet.len() > 1000).count();
    }
    assert!(of_others > 60, "{of_others}");
}

#[test]
fn when_memory_is_used_up_the_host_that_has_most_loses() {
    let mut sender = Sender::new(SenderConfig {
        max_packets: 100,
        ..SenderConfig::default()
    });
    for number in 0..3000 {
        let flood = of_host(HostEnd::Source, 4, 7, number, 1000);
        sender.enqueue(ms(0), flood).unwrap();
        if number % 150 == 0 {
            let rare = of_host(HostEnd::Source, 4, 8, 99, 1000);
            sender.enqueue(ms(0), rare).unwrap();
        }
    }
    let placed = drain(&mut sender, ms(0), &mut paths(&[1 << 20]));
    assert_eq!(placed.len(), 100);
    assert_eq!(count_of(8, &placed), 20);
}
