//! Counts of placements, for the owner's streams.

use hawser_sched::chunk::Reason;
use hawser_sched::rules::LinkRules;
use hawser_sched::tally::{LinkTally, Placed, Verdict};
use hawser_types::{LimitedBy, Permission, StreamId};

use super::*;
use crate::{LinkInfo, PathSelector};

const STREAM: StreamId = StreamId::new(6);

impl Bench {
    /// Queues a full packet of the owner's stream.
    fn write_of(&mut self, owner_stream: StreamId) {
        let message = Message {
            owner_stream: Some(owner_stream),
            ..message(FULL)
        };
        let stream = StreamNumber::new((owner_stream.value() % 16) as u16);
        self.outbound.send(self.now, stream, message).unwrap();
    }

    /// Takes the counts of a link for the stream.
    fn tally(placed: &[Placed], link: u32) -> LinkTally {
        let is_it = |it: &&Placed| it.stream == Some(STREAM) && it.link == LinkIndex::new(link);
        placed
            .iter()
            .find(is_it)
            .map(|it| it.tally)
            .unwrap_or_default()
    }
}

fn verdicts(tally: &LinkTally) -> Vec<(Verdict, u64)> {
    tally.verdicts().collect()
}

#[test]
fn what_is_placed_on_each_link_is_counted_with_its_reason_until_it_is_taken() {
    let mut bench = Bench::with_rtts(&[10, 20], &config());
    (0..5).for_each(|_| bench.write_of(STREAM));
    // Path 1 has the shorter round-trip time, and room for four packets.
    assert_eq!(bench.pump().len(), 5);
    let placed = bench.outbound.take_placed();
    let [quick, slow] = [1, 2].map(|link| Bench::tally(&placed, link));
    assert_eq!((quick.bytes, slow.bytes), (4 * FULL as u64, FULL as u64));
    assert_eq!((quick.copied, slow.copied), (0, 0));
    assert_eq!(quick.chosen().collect::<Vec<_>>(), [(Reason::LeastRtt, 4)]);
    assert_eq!(slow.chosen().collect::<Vec<_>>(), [(Reason::LeastRtt, 1)]);
    assert_eq!(
        verdicts(&quick),
        [(Verdict::Carried, 4), (Verdict::Busy, 1)]
    );
    assert_eq!(
        verdicts(&slow),
        [(Verdict::Carried, 1), (Verdict::Later, 4)]
    );
    assert_eq!(bench.outbound.take_placed(), []);
    // Messages of no named stream of the owner are not counted.
    bench.sack(5, &[]).unwrap();
    bench.write(0, FULL);
    assert_eq!(bench.pump().len(), 1);
    assert_eq!(bench.outbound.take_placed(), []);
}

#[test]
fn what_another_path_repeats_is_a_copy_there_and_what_the_same_path_repeats_is_not() {
    for count in [2, 1] {
        let mut bench = Bench::with_rtts(&[10, 20][..count], &config());
        (0..4).for_each(|_| bench.write_of(STREAM));
        assert!(bench.pump().iter().all(|packet| packet.path.value() == 0));
        bench.wait(10);
        bench.sack(0, &[(3, 3)]).unwrap();
        assert_eq!(bench.status(0), Some(Status::Fail));
        assert!(!bench.pump().is_empty());
        let placed = bench.outbound.take_placed();
        let first = Bench::tally(&placed, 1);
        assert_eq!((first.bytes, first.copied), (4 * FULL as u64, 0));
        let copied = Bench::tally(&placed, 2).copied;
        assert_eq!(copied > 0, count == 2, "{copied}");
    }
}

#[test]
fn a_path_alone_is_chosen_for_what_it_takes_and_one_that_is_forbidden_is_excluded() {
    let mut bench = Bench::with_rtts(&[10], &config());
    bench.write_of(STREAM);
    assert_eq!(bench.pump().len(), 1);
    let alone = Bench::tally(&bench.outbound.take_placed(), 1);
    assert_eq!(alone.chosen().collect::<Vec<_>>(), [(Reason::Writable, 1)]);

    let mut bench = Bench::with_rtts(&[10, 20, 30], &config());
    (0..9).for_each(|_| bench.write_of(STREAM));
    assert_eq!(bench.pump().len(), 9);
    bench.outbound.take_placed();
    bench.sack(9, &[]).unwrap();
    let link = LinkIndex::new(1);
    bench.paths.set_links(vec![LinkInfo {
        paths: PathSelector::Link(link),
        link,
        rules: LinkRules {
            up: Permission::Forbidden(LimitedBy::Choice),
            ..LinkRules::default()
        },
    }]);
    bench.write_of(STREAM);
    assert_eq!(bench.pump().len(), 1);
    let placed = bench.outbound.take_placed();
    assert_eq!(
        verdicts(&Bench::tally(&placed, 1)),
        [(Verdict::Excluded, 1)]
    );
    assert_eq!(verdicts(&Bench::tally(&placed, 2)), [(Verdict::Carried, 1)]);
}

#[test]
fn streams_without_number_take_bounded_memory_and_no_byte_is_left_out() {
    let mut bench = Bench::with_rtts(&[10], &config());
    for stream in 1..=300 {
        bench.write_of(StreamId::new(stream));
        assert_eq!(bench.pump().len(), 1);
        bench.sack(stream, &[]).unwrap();
    }
    let placed = bench.outbound.take_placed();
    assert!(placed.len() <= 32, "{}", placed.len());
    let bytes: u64 = placed.iter().map(|it| it.tally.bytes).sum();
    assert_eq!(bytes, 300 * FULL as u64);
    assert!(placed.iter().any(|it| it.stream.is_none()));
}

#[test]
fn all_copies_are_reported_and_retransmissions_are_not() {
    let mut bench = Bench::with_rtts(&[10, 12], &config());
    let twice = Message {
        twice: true,
        ..message(200)
    };
    let stream = StreamNumber::new(1);
    bench.outbound.send(bench.now, stream, twice).unwrap();
    assert_eq!(bench.pump().len(), 2);
    // The fixed rate that is always allowed pays for it, not the owner's budget.
    let backlog = bench.outbound.backlog();
    assert_eq!(backlog.copied, ByteCount::new(200));
    assert_eq!(backlog.sent_twice, ByteCount::ZERO);
    bench.sack(1, &[]).unwrap();

    let mut bench = Bench::with_rtts(&[10], &config());
    (0..4).for_each(|_| bench.write(0, FULL));
    bench.pump();
    bench.wait(10);
    bench.sack(0, &[(3, 3)]).unwrap();
    assert!(!bench.pump().is_empty());
    assert!(bench.outbound.repeated() > ByteCount::ZERO);
    assert_eq!(bench.outbound.backlog().copied, ByteCount::ZERO);
}
