use hawser_wire::tunnel::{FlowNumber, Run};

use super::*;
use crate::packet::samples::{ip, udp};

const NEAR: PathId = PathId::new(1);
const FAR: PathId = PathId::new(2);
/// Below the near path.
const DSL: LinkIndex = LinkIndex::new(7);

fn ms(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

fn header(number: u64) -> TunnelHeader {
    TunnelHeader {
        flow: TunnelFlow::default(),
        number: FlowNumber::of(number),
        unheld: false,
        copied: false,
        early: false,
        run: Run::default(),
    }
}

/// A receiver whose packets say their own number.
struct Bench(Receiver);

impl Bench {
    fn new() -> Self {
        Self::with(ReceiverConfig {
            max_repair: Duration::ZERO,
            ..ReceiverConfig::default()
        })
    }

    fn with(config: ReceiverConfig) -> Self {
        let mut bench = Self(Receiver::new(config));
        // Both paths have delivered something.
        bench.reach(NEAR, 0);
        bench.reach(FAR, 0);
        bench
    }

    /// A path delivers a packet of another flow with this place.
    fn reach(&mut self, path: PathId, place: u64) {
        self.0.paths.on_place(path, place);
        self.0.resolve(Instant::ZERO, path);
    }

    fn give(&mut self, at: u64, path: PathId, place: u64, header: &TunnelHeader) -> Vec<u64> {
        let TunnelHeader { number, .. } = header;
        let payload = Bytes::copy_from_slice(&number.expand(0).to_be_bytes());
        self.0.handle(ms(at), path, place, header, payload);
        self.taken()
    }

    fn taken(&mut self) -> Vec<u64> {
        let number = |it: Delivery| u64::from_be_bytes(*it.packet.first_chunk().unwrap());
        std::iter::from_fn(|| self.0.poll_delivery())
            .map(number)
            .collect()
    }
}

#[test]
fn what_comes_ahead_of_its_turn_waits_for_the_slow_path() {
    let mut bench = Bench::new();
    assert_eq!(bench.give(0, NEAR, 1, &header(0)), [0]);
    // Number 1 left over the far path with place 2.
    assert_eq!(bench.give(1, NEAR, 3, &header(2)), []);
    assert_eq!(bench.give(2, NEAR, 4, &header(3)), []);
    assert_eq!(bench.give(30, FAR, 2, &header(1)), [1, 2, 3]);
    assert_eq!(bench.0.poll_timeout(), None);
    assert_eq!(bench.0.held(), ByteCount::ZERO);
}

#[test]
fn a_packet_is_lost_once_every_path_has_delivered_a_later_seal() {
    let mut bench = Bench::new();
    bench.give(0, NEAR, 1, &header(0));
    assert_eq!(bench.give(1, NEAR, 3, &header(2)), []);
    // A packet of another flow comes over the far path, sealed after number 2.
    bench.reach(FAR, 4);
    assert_eq!(bench.taken(), []);
    bench.reach(NEAR, 5);
    assert_eq!(bench.taken(), [2]);
    // Number 1 comes all the same: once.
    assert_eq!(bench.give(9, FAR, 2, &header(1)), [1]);
    assert_eq!(bench.give(9, FAR, 2, &header(1)), []);
    let stats = bench.0.stats();
    assert_eq!((stats.late, stats.duplicates, stats.skipped), (1, 1, 1));
}

#[test]
fn an_idle_path_is_waited_for_as_long_as_packets_are_late() {
    let mut bench = Bench::new();
    bench.give(0, NEAR, 1, &header(0));
    bench.give(1, NEAR, 3, &header(2));
    bench.reach(NEAR, 9);
    let limit = bench.0.hold_limit();
    assert_eq!(limit, Duration::from_millis(50));
    assert_eq!(bench.0.poll_timeout(), Some(ms(1) + limit));
    bench.0.handle_timeout(ms(50));
    assert_eq!(bench.taken(), []);
    bench.0.handle_timeout(ms(51));
    assert_eq!(bench.taken(), [2]);
    // It comes 80 ms after it was missed: from now on that is waited for.
    assert_eq!(bench.give(81, FAR, 2, &header(1)), [1]);
    let limit = bench.0.hold_limit();
    assert_eq!(limit, Duration::from_millis(80 + 4 * 20));
}

#[test]
fn where_one_path_carried_all_that_is_missing_the_others_are_not_waited_for() {
    let mut bench = Bench::new();
    bench.give(0, NEAR, 1, &header(0));
    let after_three = TunnelHeader {
        run: Run::of(3),
        ..header(3)
    };
    assert_eq!(bench.give(1, NEAR, 4, &after_three), []);
    assert_eq!(bench.give(2, NEAR, 5, &header(4)), [3, 4]);
    // Of two that are missing the run explains one only.
    let after_one = TunnelHeader {
        run: Run::of(1),
        ..header(7)
    };
    assert_eq!(bench.give(3, NEAR, 8, &after_one), []);
    assert_eq!(bench.give(4, NEAR, 9, &header(8)), []);
}

#[test]
fn a_packet_that_left_ahead_of_its_turn_proves_nothing() {
    let mut bench = Bench::new();
    bench.give(0, NEAR, 1, &header(0));
    let early = TunnelHeader {
        early: true,
        ..header(3)
    };
    assert_eq!(bench.give(1, FAR, 2, &early), []);
    bench.reach(FAR, 9);
    assert_eq!(bench.give(2, NEAR, 10, &header(1)), [1]);
    assert_eq!(bench.give(3, NEAR, 11, &header(2)), [2, 3]);
}

#[test]
fn unheld_packets_never_wait_and_copies_come_once() {
    let mut bench = Bench::new();
    let unheld = |number| TunnelHeader {
        unheld: true,
        copied: true,
        ..header(number)
    };
    assert_eq!(bench.give(0, NEAR, 1, &unheld(0)), [0]);
    assert_eq!(bench.give(0, FAR, 2, &unheld(0)), []);
    assert_eq!(bench.give(1, NEAR, 5, &unheld(2)), [2]);
    assert_eq!(bench.give(2, FAR, 6, &unheld(2)), []);
    assert_eq!(bench.give(3, FAR, 4, &unheld(1)), [1]);
    assert_eq!(bench.give(3, NEAR, 3, &unheld(1)), []);
    assert_eq!(bench.0.stats().duplicates, 3);
    assert_eq!(bench.0.held(), ByteCount::ZERO);
}

#[test]
fn a_path_that_is_gone_is_not_waited_for() {
    let mut bench = Bench::new();
    bench.give(0, NEAR, 1, &header(0));
    bench.give(1, NEAR, 3, &header(2));
    bench.reach(NEAR, 4);
    let near = PathDelay {
        path: NEAR,
        link: DSL,
        rtt: Duration::from_millis(20),
        variation: Duration::from_millis(1),
    };
    bench.0.set_paths(Instant::ZERO, &[near]);
    assert_eq!(bench.taken(), [2]);
}

#[test]
fn memory_is_bounded_and_the_longest_wait_ends_first() {
    let mut bench = Bench::new();
    bench.0.config.max_packets = 10;
    bench.give(0, NEAR, 1, &header(0));
    let mut handed_on = Vec::new();
    for number in 2..40 {
        // Every second one is missing.
        handed_on.extend(bench.give(number, NEAR, number, &header(number * 2)));
        assert!(bench.0.held_packets <= 10);
    }
    assert_eq!(handed_on, (2..30).map(|n| n * 2).collect::<Vec<_>>());
    assert_eq!(bench.0.stats().squeezed, 28);
}

#[test]
fn a_flow_that_is_joined_in_the_middle_begins_there() {
    let mut bench = Bench::new();
    assert_eq!(bench.give(0, NEAR, 1, &header(70_000)), [70_000]);
    assert_eq!(bench.give(0, FAR, 0, &header(69_999)), [69_999]);
    assert_eq!(bench.give(0, FAR, 0, &header(69_999)), []);
}

#[test]
fn numbers_go_on_beyond_24_bits() {
    let mut bench = Bench::new();
    let start = (1 << 24) - 3;
    for number in start..start + 6 {
        let wrapped = FlowNumber::of(number).expand(0);
        assert_eq!(bench.give(0, NEAR, number, &header(number)), [wrapped]);
    }
}

#[test]
fn each_flow_of_the_peer_is_counted_with_its_links_and_what_came_late() {
    let mut bench = Bench::new();
    let near = PathDelay {
        path: NEAR,
        link: DSL,
        rtt: Duration::from_millis(20),
        variation: Duration::from_millis(1),
    };
    bench.0.set_paths(Instant::ZERO, &[near]);
    let packet = Bytes::from(udp(4, (1, 53), 100));
    let mut give = |number, path| {
        let packet = packet.clone();
        bench
            .0
            .handle(ms(number), path, number, &header(number), packet);
    };
    give(0, NEAR);
    // Numbers 1 and 2 are passed over, since the only path has delivered more.
    give(3, NEAR);
    give(4, NEAR);
    give(1, FAR);
    // It came before.
    give(3, NEAR);
    let flows: Vec<_> = bench.0.flows().collect();
    let [(key, tally)] = flows[..] else {
        panic!("{flows:?}");
    };
    assert_eq!(key.ports, (1, 53));
    assert_eq!(
        (tally.received_packets, tally.late, tally.lost()),
        (4, 1, 1)
    );
    let length = packet.len() as u64;
    let links = tally.links().iter();
    let links: Vec<_> = links.map(|it| (it.link, it.received.as_u64())).collect();
    assert_eq!(links, [(DSL, 3 * length), (LinkIndex::ALL, length)]);
    // The number is another flow's from now on.
    let other = Bytes::from(udp(4, (2, 53), 100));
    bench.0.handle(ms(9), NEAR, 9, &header(5), other);
    let flows: Vec<_> = bench
        .0
        .flows()
        .map(|(key, it)| (key.ports.0, it.received_packets))
        .collect();
    assert_eq!(flows, [(2, 1)]);
}

/// A receiver of packets that are sent once more when they are lost, with round trips of 20 and
/// 80 ms. Number 1 is missing.
fn repaired() -> Bench {
    let mut bench = Bench::with(ReceiverConfig::default());
    let delay = |path, rtt| PathDelay {
        path,
        link: DSL,
        rtt: Duration::from_millis(rtt),
        variation: Duration::ZERO,
    };
    bench.0.set_paths(ms(0), &[delay(NEAR, 20), delay(FAR, 80)]);
    bench.give(0, NEAR, 1, &header(0));
    assert_eq!(bench.give(1, NEAR, 3, &header(2)), []);
    bench
}

#[test]
fn a_lost_packet_is_waited_for_until_it_was_sent_once_more() {
    let mut bench = repaired();
    let limit = bench.0.hold_limit();
    // It is lost for sure at 5 ms.
    bench.give(4, NEAR, 4, &header(3));
    assert_eq!(bench.give(5, FAR, 5, &header(4)), []);
    let again = TunnelHeader {
        copied: true,
        ..header(1)
    };
    assert_eq!(bench.give(30, NEAR, 9, &again), [1, 2, 3, 4]);
    assert_eq!(bench.0.poll_timeout(), None);
    let stats = bench.0.stats();
    assert_eq!((stats.skipped, stats.late), (0, 0));
    assert_eq!(bench.0.hold_limit(), limit, "its path is no later for it");
    // It was not lost after all.
    assert_eq!(bench.give(60, FAR, 2, &header(1)), []);
    assert_eq!(bench.0.stats().duplicates, 1);
}

#[test]
fn a_packet_that_is_lost_twice_holds_others_up_for_a_round_trip() {
    let mut bench = repaired();
    bench.give(4, NEAR, 4, &header(3));
    bench.give(5, FAR, 5, &header(4));
    // A round trip of the longest path, an eighth of it, and what timers need.
    let until = ms(5 + 90 + 10);
    assert_eq!(bench.0.poll_timeout(), Some(until));
    // Packets that come meanwhile change nothing.
    assert_eq!(bench.give(50, NEAR, 8, &header(5)), []);
    assert_eq!(bench.0.poll_timeout(), Some(until));
    bench.0.handle_timeout(until);
    assert_eq!(bench.taken(), [2, 3, 4, 5]);
    assert_eq!(bench.0.poll_timeout(), None);
}

#[test]
fn without_a_proof_the_wait_for_a_repair_follows_the_wait_for_the_packet() {
    let mut bench = repaired();
    let held_until = ms(1) + bench.0.hold_limit();
    assert_eq!(bench.0.poll_timeout(), Some(held_until));
    bench.0.handle_timeout(held_until);
    assert_eq!(bench.taken(), []);
    let until = held_until + Duration::from_millis(90 + 10);
    assert_eq!(bench.0.poll_timeout(), Some(until));
    bench.0.handle_timeout(until);
    assert_eq!(bench.taken(), [2]);
}

/// Packets 1 to 300 come within 100 ms while the first one is missing, which comes then. Returns
/// how many are handed on at once, and in each later step.
fn burst(packet: &[u8]) -> Vec<usize> {
    let mut receiver = Receiver::new(ReceiverConfig::default());
    let packet = Bytes::copy_from_slice(packet);
    for number in 1..=300 {
        let now = Instant::ZERO + Duration::from_micros(333 * number);
        receiver.handle(now, NEAR, number, &header(number), packet.clone());
    }
    receiver.handle(ms(100), FAR, 0, &header(0), packet.clone());
    // One more comes meanwhile, and one for the second time.
    receiver.handle(ms(100), NEAR, 301, &header(301), packet.clone());
    receiver.handle(ms(100), NEAR, 302, &header(40), packet);
    let mut steps = Vec::new();
    let mut now = ms(100);
    loop {
        steps.push(std::iter::from_fn(|| receiver.poll_delivery()).count());
        let Some(next) = receiver.poll_timeout() else {
            break;
        };
        assert!(
            next > now && next <= now + Duration::from_millis(1),
            "{next:?}"
        );
        now = next;
        receiver.handle_timeout(now);
    }
    assert_eq!(receiver.held(), ByteCount::ZERO);
    let stats = receiver.stats();
    assert_eq!((stats.delivered, stats.duplicates, stats.late), (302, 1, 0));
    steps
}

#[test]
fn datagrams_that_have_waited_go_on_in_portions_that_a_socket_holds() {
    let steps = burst(&udp(4, (1, 443), 1200));
    // The one that was missing goes first.
    let mut expected = vec![33];
    expected.extend([32; 8]);
    expected.push(13);
    assert_eq!(steps, expected);
}

#[test]
fn segments_of_tcp_that_have_waited_go_on_at_once() {
    assert_eq!(burst(&ip(4, 6, vec![0; 1200])), [302]);
}

#[test]
fn what_is_held_back_goes_on_when_memory_is_used_up() {
    let mut receiver = Receiver::new(ReceiverConfig {
        max_packets: 300,
        ..ReceiverConfig::default()
    });
    let packet = Bytes::from(udp(4, (1, 443), 1200));
    for number in 1..=300 {
        receiver.handle(ms(number), NEAR, number, &header(number), packet.clone());
    }
    for number in 301..=600 {
        receiver.handle(ms(300), NEAR, number, &header(number), packet.clone());
        assert!(receiver.held_packets <= 300);
    }
    while let Some(next) = receiver.poll_timeout() {
        receiver.handle_timeout(next);
    }
    assert_eq!(receiver.stats().delivered, 600);
}

#[test]
fn a_packet_that_waits_is_known_however_far_others_are_ahead() {
    let mut bench = Bench::new();
    assert_eq!(bench.give(0, NEAR, 1, &header(0)), [0]);
    assert_eq!(bench.give(1, NEAR, 3, &header(2)), []);
    // Farther than numbers are remembered.
    assert_eq!(bench.give(2, NEAR, 5001, &header(5000)), []);
    assert_eq!(bench.give(3, NEAR, 3, &header(2)), []);
    assert_eq!(bench.give(4, FAR, 2, &header(1)), [1, 2]);
    assert_eq!(bench.0.stats().duplicates, 1);
}
