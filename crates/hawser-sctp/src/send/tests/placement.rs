//! Assignment of chunks to paths: the compound window, the policies, streams and messages.

use hawser_sched::PathView;
use hawser_sched::chunk::{ChunkPolicy, ChunkScheduler, ChunkUnit, Decision, Reason};
use hawser_types::ChannelId;
use hawser_wire::sctp::DataOrder;
use std::collections::BTreeSet;

use super::hostile::open;
use super::*;
use crate::SendError;

/// Table 2 of the paper: 1004 failed on path 1, 1003 was acknowledged on path 2, the others wait.
#[test]
fn the_papers_table_of_records() {
    let mut bench = Bench::with_rtts(&[10, 20], &config());
    (0..5).for_each(|_| bench.write(0, FULL));
    // Path 1 has the shorter round-trip time, and room for four packets.
    let sent = bench.pump();
    let paths: Vec<_> = sent.iter().map(|packet| packet.path.value()).collect();
    assert_eq!(paths, [0, 0, 0, 0, 1]);
    let records: Vec<_> = (0..5)
        .map(|chunk| bench.outbound.window.get(chunk).unwrap())
        .map(|record| (record.in_flight[0].path.value(), record.status))
        .collect();
    assert_eq!(records[..4], [(0, Status::Wait); 4]);
    assert_eq!(records[4], (1, Status::Wait));
    bench.wait(20);
    bench.sack(0, &[(3, 3)]).unwrap();
    assert_eq!(bench.status(3), Some(Status::Ack));
    // Three later packets of the same path were acknowledged; packets count, not reports.
    assert_eq!(bench.status(0), Some(Status::Fail));
    assert_eq!(
        bench.status(4),
        Some(Status::Wait),
        "nothing later went over path 2"
    );
    assert_eq!(
        bench.outbound.window.cumulative(),
        tsn(u64::MAX),
        "nor does the window slide"
    );
    bench.sack(4, &[]).unwrap();
    assert_eq!(bench.outbound.window.first(), 4);
}

#[test]
fn a_path_gets_no_more_than_its_window_and_the_quickest_is_filled_first() {
    let mut bench = Bench::with_rtts(&[30, 10, 20], &config());
    (0..60).for_each(|_| bench.write(0, FULL));
    let sent = bench.pump();
    let order: Vec<_> = sent.iter().map(|packet| packet.path.value()).collect();
    let mut runs = order.clone();
    runs.dedup();
    assert_eq!(runs, [1, 2, 0]);
    for path in 0..3 {
        assert!(bench.in_flight(path) >= bench.window(path).as_u64());
        assert!(bench.in_flight(path) < bench.window(path).as_u64() + 1200);
    }
}

#[test]
fn another_policy_places_what_waits_already() {
    let mut bench = Bench::with_rtts(&[30, 10, 20], &config());
    (0..60).for_each(|_| bench.write(0, FULL));
    bench.outbound.set_policy(ChunkPolicy::RoundRobin);
    let sent = bench.pump();
    let order: Vec<_> = sent.iter().map(|packet| packet.path.value()).collect();
    assert_eq!(order[..6], [0, 1, 2, 0, 1, 2]);
}

#[test]
fn what_failed_goes_over_the_quickest_path_that_has_not_failed_it() {
    let mut bench = Bench::with_rtts(&[10, 30, 20], &config());
    (0..4).for_each(|_| bench.write(0, FULL));
    bench.pump();
    bench.wait(10);
    bench.sack(0, &[(1, 3)]).unwrap();
    let again = bench.pump();
    assert_eq!(numbers(&again), [0]);
    assert_eq!(again[0].path, PathId::new(2));
}

#[test]
fn where_there_is_no_other_path_it_goes_over_the_same_one() {
    let mut bench = Bench::with_rtts(&[10], &config());
    (0..4).for_each(|_| bench.write(0, FULL));
    bench.pump();
    bench.wait(10);
    bench.sack(0, &[(1, 3)]).unwrap();
    assert_eq!(numbers(&bench.pump()), [0]);
}

/// The paper's deadlock: the first chunk needs a path that is full of later ones.
#[test]
fn the_first_chunk_of_all_may_exceed_a_full_window_by_a_packet_and_no_other_may() {
    let mut bench = Bench::with_rtts(&[10, 20], &config());
    (0..60).for_each(|_| bench.write(0, FULL));
    bench.pump();
    let full = bench.in_flight(1);
    bench.wait(10);
    // 0 and 1 failed on the first path, whose window is halved; that of the second is full.
    bench.sack(0, &[(2, 3)]).unwrap();
    bench.wait(2);
    let sent = bench.pump();
    let again: Vec<_> = sent
        .iter()
        .filter(|packet| packet.path == PathId::new(1))
        .flat_map(Sent::numbers)
        .collect();
    assert_eq!(again, [0]);
    assert_eq!(bench.in_flight(1), full + 1200);
    assert!(
        bench
            .outbound
            .window
            .to_retransmit()
            .any(|chunk| chunk == 1)
    );
    assert!(bench.pump().is_empty());
}

#[test]
fn messages_are_cut_to_what_every_path_takes_and_small_ones_share_packets() {
    let mut bench = Bench::new(1, &config());
    bench.write(0, 3 * FULL + 5);
    bench.write(1, 40);
    bench.write(2, 40);
    let sent = bench.pump();
    let sizes: Vec<Vec<_>> = sent
        .iter()
        .map(|packet| {
            packet
                .chunks
                .iter()
                .map(|data| data.payload.len())
                .collect()
        })
        .collect();
    // Streams take turns, chunk by chunk.
    assert_eq!(
        sizes,
        [vec![FULL], vec![40, 40, FULL - 120], vec![FULL], vec![125]]
    );
}

#[test]
fn with_interleaving_parts_of_several_messages_come_in_turns() {
    let mut bench = Bench::new(1, &config());
    open(&mut bench, 0);
    bench.write(3, 2 * FULL);
    bench.write(4, 2 * FULL);
    let sent: Vec<_> = bench
        .pump()
        .into_iter()
        .flat_map(|packet| packet.chunks)
        .collect();
    let streams: Vec<_> = sent.iter().map(|data| data.stream.value()).collect();
    assert_eq!(streams, [3, 4, 3, 4]);
    let order = |message, fragment| DataOrder::Interleaved { message, fragment };
    assert_eq!(sent[2].order, order(0, 1));
    assert!(sent[0].first && !sent[0].last && !sent[2].first && sent[2].last);
}

#[test]
fn without_interleaving_a_message_has_consecutive_tsns() {
    let plain = AssociationConfig {
        interleaving: false,
        ..config()
    };
    let mut bench = Bench::new(1, &plain);
    open(&mut bench, 0);
    bench.write(3, 2 * FULL);
    bench.write(4, 10);
    bench.write(3, 10);
    let sent: Vec<_> = bench
        .pump()
        .into_iter()
        .flat_map(|packet| packet.chunks)
        .collect();
    let order: Vec<_> = sent
        .iter()
        .map(|data| (data.stream.value(), data.order))
        .collect();
    let sequence = DataOrder::Sequence;
    let expected = [
        (3, sequence(0)),
        (3, sequence(0)),
        (4, sequence(0)),
        (3, sequence(1)),
    ];
    assert_eq!(order, expected);
}

#[test]
fn ordered_and_unordered_messages_are_counted_apart() {
    let mut bench = Bench::new(1, &config());
    for unordered in [false, true, false] {
        let message = Message {
            unordered,
            ..message(10)
        };
        bench
            .outbound
            .send(bench.now, StreamNumber::new(0), message)
            .unwrap();
    }
    let sent: Vec<_> = bench
        .pump()
        .into_iter()
        .flat_map(|packet| packet.chunks)
        .collect();
    let counted: Vec<_> = sent
        .iter()
        .map(|data| match data.order {
            DataOrder::Interleaved { message, .. } => (data.unordered, message),
            DataOrder::Sequence(_) => unreachable!(),
        })
        .collect();
    assert_eq!(counted, [(false, 0), (true, 0), (false, 1)]);
}

#[test]
fn the_buffer_refuses_when_it_is_full_and_tells_when_there_is_room() {
    let small = AssociationConfig {
        send_buffer: AssociationConfig::MIN_BUFFER,
        ..config()
    };
    let mut bench = Bench::with_rtts(&[10], &small);
    let mut taken = 0;
    while bench
        .outbound
        .send(bench.now, StreamNumber::new(0), message(1000))
        .is_ok()
    {
        taken += 1;
    }
    assert!((48..=64).contains(&taken), "{taken}");
    assert_eq!(bench.outbound.poll_event(), None);
    let mut acknowledged = 0;
    while acknowledged < taken {
        acknowledged += numbers(&bench.pump()).len() as u64;
        bench.wait(10);
        bench.sack(acknowledged, &[]).unwrap();
    }
    assert_eq!(bench.outbound.poll_event(), Some(crate::Event::Writable));
    assert_eq!(bench.outbound.poll_event(), None);
}

/// A stream that writes without end has filled the buffer. Other streams have a quarter more, one
/// small message each at a time. Their messages leave among the first, and the buffer does not grow
/// beyond that.
#[test]
fn a_stream_that_fills_the_buffer_keeps_no_other_from_saying_a_word() {
    let small = AssociationConfig {
        send_buffer: AssociationConfig::MIN_BUFFER,
        ..config()
    };
    let mut bench = Bench::with_rtts(&[10], &small);
    let send = |bench: &mut Bench, stream: u16, size| {
        let stream = StreamNumber::new(stream);
        bench.outbound.send(bench.now, stream, message(size))
    };
    while send(&mut bench, 0, 1000).is_ok() {}
    assert_eq!(send(&mut bench, 0, 1), Err(SendError::Full));
    assert_eq!(send(&mut bench, 1, 2000), Err(SendError::Full));
    assert_eq!(send(&mut bench, 1, 100), Ok(()));
    assert_eq!(send(&mut bench, 1, 100), Err(SendError::Full));
    let first = bench.pump();
    let streams = first.iter().flat_map(|packet| &packet.chunks);
    assert!(streams.into_iter().any(|chunk| chunk.stream.value() == 1));
    for stream in 2..1000 {
        let _ = send(&mut bench, stream, 1000);
    }
    let most = small.send_buffer.as_u64() / 4 * 5;
    let held = bench.outbound.held();
    assert!((most - 2000..=most).contains(&held), "{held}");
}

#[test]
fn tiny_messages_count_for_what_they_take_of_memory() {
    let small = AssociationConfig {
        send_buffer: AssociationConfig::MIN_BUFFER,
        ..config()
    };
    let mut bench = Bench::new(1, &small);
    let mut taken = 0;
    while bench
        .outbound
        .send(bench.now, StreamNumber::new(0), message(1))
        .is_ok()
    {
        taken += 1;
    }
    assert!(taken <= 64 * 1024 / 256, "{taken}");
}

#[test]
fn messages_that_can_not_be_sent_are_refused_with_the_reason() {
    let mut bench = Bench::new(1, &config());
    let stream = StreamNumber::new(16);
    let none = SendError::NoSuchStream { stream, count: 16 };
    assert_eq!(
        bench.outbound.send(bench.now, stream, message(1)),
        Err(none)
    );
    for size in [0, (1 << 20) + 1] {
        let refused = SendError::Size {
            size: ByteCount::from(size),
            max: ByteCount::from_mib(1),
        };
        let answer = bench
            .outbound
            .send(bench.now, StreamNumber::new(0), message(size));
        assert_eq!(answer, Err(refused));
    }
}

#[test]
fn the_redundant_policy_sends_each_chunk_over_two_paths() {
    let twice = AssociationConfig {
        policy: ChunkPolicy::Redundant,
        ..config()
    };
    let mut bench = Bench::with_rtts(&[10, 20], &twice);
    bench.write(0, FULL);
    bench.write(0, FULL);
    let sent = bench.pump();
    let order: Vec<_> = sent
        .iter()
        .map(|packet| (packet.path.value(), packet.numbers()))
        .collect();
    assert_eq!(
        order,
        [(0, vec![0]), (1, vec![0]), (0, vec![1]), (1, vec![1])]
    );
    bench.wait(20);
    bench.sack(2, &[]).unwrap();
    assert_eq!((bench.in_flight(0), bench.in_flight(1)), (0, 0));
}

#[test]
fn a_full_receiver_is_helped_by_a_copy_of_what_it_waits_for_over_a_quicker_path() {
    let mut bench = Bench::with_rtts(&[200, 10], &config());
    let mut negotiated = negotiated(&config());
    negotiated.peer_window = 10 * FULL as u32;
    bench.outbound = Outbound::new(&config(), &negotiated);
    (0..12).for_each(|_| bench.write(0, FULL));
    let sent = bench.pump();
    assert_eq!(
        numbers(&sent),
        (0..8).collect::<Vec<_>>(),
        "both windows are full"
    );
    bench.wait(10);
    // The fast path's four chunks have arrived and nearly use up the peer's window.
    let mut sack = bench.sack_of(0, &[]);
    sack.cumulative = tsn(3);
    sack.window = 4 * FULL as u32;
    bench.read(&sack).unwrap();
    let copy = bench.pump();
    assert_eq!(numbers(&copy), [4, 5, 6, 7]);
    assert!(copy.iter().all(|packet| packet.path == PathId::new(1)));
    assert!(bench.pump().is_empty(), "once");
}

#[test]
fn at_the_end_of_a_transfer_an_idle_path_takes_over_from_a_much_slower_one() {
    let mut bench = Bench::with_rtts(&[10, 200], &config());
    (0..5).for_each(|_| bench.write(0, FULL));
    let sent = bench.pump();
    assert_eq!(sent[4].path, PathId::new(1));
    bench.wait(10);
    bench.sack(4, &[]).unwrap();
    let copies = bench.pump();
    assert_eq!(numbers(&copies), [4]);
    assert_eq!(copies[0].path, PathId::new(0));
    assert!(bench.pump().is_empty());
}

#[test]
fn what_a_path_is_late_with_goes_over_an_idle_one_before_it_is_suspect() {
    let mut bench = Bench::with_rtts(&[20, 22], &config());
    (0..5).for_each(|_| bench.write(0, FULL));
    let sent = bench.pump();
    assert_eq!(sent[4].path, PathId::new(1));
    bench.wait(20);
    bench.sack(4, &[]).unwrap();
    assert!(bench.pump().is_empty(), "it is not late");
    let mut waited = ms(20);
    loop {
        waited += bench.wait_for_timer();
        assert!(waited < ms(100), "no path is suspect so soon");
        let sent = bench.pump();
        if let Some(copy) = sent.iter().find(|it| it.path == PathId::new(0)) {
            assert_eq!(copy.numbers(), [4]);
            break;
        }
    }
    let copy_takes = ms(20);
    assert!(waited > ms(22) + copy_takes * 3 / 2, "{waited:?}");
}

/// The rate of short messages is no rate of the path.
#[test]
fn after_short_messages_a_burst_is_sent_once() {
    let mut bench = Bench::with_rtts(&[20, 22], &config());
    for count in 1..=20 {
        bench.write(0, 100);
        bench.pump();
        bench.wait(22);
        bench.sack(count, &[]).unwrap();
    }
    (0..5).for_each(|_| bench.write(0, FULL));
    let sent = bench.pump();
    let numbers = sent.iter().flat_map(|packet| packet.numbers());
    let numbers: Vec<_> = numbers.collect();
    let different: BTreeSet<_> = numbers.iter().collect();
    assert!(
        numbers.len() >= 5 && different.len() == numbers.len(),
        "{numbers:?}"
    );
}

fn write_twice(bench: &mut Bench, bytes: usize) {
    let message = Message {
        twice: true,
        ..message(bytes)
    };
    let stream = StreamNumber::new(1);
    bench.outbound.send(bench.now, stream, message).unwrap();
}

/// Returns the paths of the packets that leave now with this chunk.
fn paths_of(bench: &mut Bench, chunk: u64) -> Vec<u32> {
    let carries = |packet: &Sent| packet.chunks.iter().any(|data| data.tsn == tsn(chunk));
    let sent = bench.pump();
    let sent = sent.iter().filter(|packet| carries(packet));
    sent.map(|packet| packet.path.value()).collect()
}

#[test]
fn what_is_to_go_twice_takes_the_two_quickest_paths_of_like_delay() {
    let mut bench = Bench::with_rtts(&[30, 20, 25], &config());
    write_twice(&mut bench, 100);
    assert_eq!(paths_of(&mut bench, 0), [1, 2]);
}

#[test]
fn what_is_to_go_twice_takes_a_longer_path_as_well_unless_the_copy_would_be_late() {
    for (longer, expected) in [(160, &[0, 1][..]), (161, &[0])] {
        let mut bench = Bench::with_rtts(&[20, longer], &config());
        write_twice(&mut bench, 100);
        assert_eq!(paths_of(&mut bench, 0), expected, "{longer} ms");
    }
}

#[test]
fn what_is_to_go_twice_takes_one_path_twice_while_that_loses_packets() {
    let mut bench = Bench::with_rtts(&[20], &config());
    write_twice(&mut bench, 100);
    assert_eq!(paths_of(&mut bench, 0), [0]);
    // The first is lost, and three later packets arrive.
    (0..3).for_each(|_| bench.write(0, FULL));
    bench.pump();
    bench.wait(20);
    bench.sack(0, &[(1, 3)]).unwrap();
    bench.pump();
    write_twice(&mut bench, 100);
    assert_eq!(paths_of(&mut bench, 4), [0, 0]);
    bench.wait(20);
    bench.sack(5, &[]).unwrap();
    assert_eq!((bench.in_flight(0), bench.outbound.is_settled()), (0, true));
    // Some hundred packets later the loss is forgotten.
    for round in 1..=200 {
        bench.write(0, FULL);
        bench.pump();
        bench.wait(20);
        bench.sack(5 + round, &[]).unwrap();
    }
    write_twice(&mut bench, 100);
    assert_eq!(paths_of(&mut bench, 205), [0]);
}

#[test]
fn what_went_twice_over_a_path_that_loses_packets_takes_a_longer_one_when_its_answer_is_late() {
    let mut bench = Bench::with_rtts(&[20, 100], &config());
    (0..4).for_each(|_| bench.write(0, FULL));
    bench.pump();
    bench.wait(20);
    bench.sack(0, &[(1, 3)]).unwrap();
    bench.pump();
    bench.wait(100);
    bench.sack(4, &[]).unwrap();
    write_twice(&mut bench, 100);
    assert_eq!(paths_of(&mut bench, 4), [0, 0]);
    bench.wait_for_timer();
    assert_eq!(paths_of(&mut bench, 4), [0, 1]);
}

#[test]
fn no_more_goes_twice_than_the_budget_allows() {
    let copies_of = |wait: u64| {
        let mut bench = Bench::with_rtts(&[20, 20], &config());
        let mut copies = 0;
        for chunk in 0..200 {
            write_twice(&mut bench, 1000);
            copies += paths_of(&mut bench, chunk).len() - 1;
            bench.wait(wait);
            bench.sack(chunk + 1, &[]).unwrap();
        }
        // The charge beyond the fixed rate is at most the initial budget and a fiftieth.
        let charged = bench.outbound.backlog().sent_twice.as_u64();
        assert!(
            (30_000..=32 * 1024 + 200_000 / 50).contains(&charged),
            "{charged}"
        );
        copies
    };
    // A call of 400 kbit/s: 64 KiB, a fiftieth of 200 kB less what arrived while the budget was
    // full, and 32 kB for each of four seconds.
    assert_eq!(copies_of(20), 195);
    // At five times the rate, the time is a fifth.
    assert_eq!(copies_of(4), 94);
}

/// Alternates between two paths, if the next is ready, and claims to be `policy`.
#[derive(Debug)]
struct Alternating {
    policy: ChunkPolicy,
    last: ChannelId,
}

impl ChunkScheduler for Alternating {
    fn select(&mut self, _: Instant, _: ChunkUnit, paths: &[PathView]) -> Decision {
        let other = |view: &&PathView| view.ready && view.channel != self.last;
        let found = paths.iter().find(other);
        if let Some(view) = found.or(paths.iter().find(|view| view.ready)) {
            self.last = view.channel;
        }
        Decision::Channel(self.last, Reason::Writable)
    }

    fn policy(&self) -> ChunkPolicy {
        self.policy
    }
}

/// Returns the number of packets that leave at once over two paths after this many
/// acknowledgements, and the number of rows on one path that they form.
fn rows(policy: ChunkPolicy, acknowledged: u64) -> (usize, usize) {
    let mut bench = Bench::new(2, &config());
    let last = ChannelId::new(1);
    bench.outbound.scheduler = Box::new(Alternating { policy, last });
    (0..1500).for_each(|_| bench.write(0, FULL));
    let mut sent = bench.pump().len() as u64;
    for next in 1..=acknowledged {
        bench.now += Duration::from_micros(5);
        bench.sack(next, &[]).unwrap();
        sent += bench.pump().len() as u64;
    }
    bench.now += Duration::from_micros(100);
    bench.sack(sent, &[]).unwrap();
    let packets = bench.pump();
    let paths: Vec<_> = packets.iter().map(|packet| packet.path.value()).collect();
    let rows = paths.chunk_by(|one, next| one == next).count();
    (packets.len(), rows)
}

#[test]
fn under_auto_packets_leave_in_rows_where_a_path_carries_many_in_a_part_of_a_round_trip() {
    // At first a sixteenth of a round trip is less than a packet.
    let (packets, rows_at_first) = rows(ChunkPolicy::Auto, 0);
    assert_eq!(packets, rows_at_first);
    let (packets, rows_then) = rows(ChunkPolicy::Auto, 300);
    assert!(
        packets > 2 * rows_then && rows_then > 4,
        "{packets}, {rows_then}"
    );
    let (packets, turns) = rows(ChunkPolicy::RoundRobin, 300);
    // At the end one path may be full while the other is not.
    assert!(turns * 10 > packets * 9, "{packets}, {turns}");
}
