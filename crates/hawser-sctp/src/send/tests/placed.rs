//! Messages whose path the owner chooses.

use hawser_wire::sctp::ForwardTsn;

use super::*;
use crate::{Front, PlacedMessage, SendError, ToPlace, Turn};

/// A configuration under a seal, where the owner places messages.
fn placing() -> AssociationConfig {
    AssociationConfig {
        framing: Framing::Compact,
        placed_stream: Some(StreamNumber::new(1)),
        ..config()
    }
}

impl Bench {
    fn place(&mut self, path: u32, bytes: usize) {
        let payload = Bytes::from(vec![9; bytes]);
        let path = PathId::new(path);
        let taken = self.outbound.send_over(&self.paths, path, payload.into());
        assert_eq!(taken, Ok(()));
    }

    fn rooms(&mut self, turn: Turn) -> Vec<u64> {
        let mut rooms = Vec::new();
        let (outbound, paths) = (&self.outbound, &mut self.paths);
        outbound.show_rooms(self.now, paths, turn, |_, room| rooms.push(room.as_u64()));
        rooms
    }

    /// Handles a SACK for everything that was sent.
    fn sack_all(&mut self) {
        let window = &self.outbound.window;
        let is_sent = |chunk: &u64| window.get(*chunk).is_some_and(|it| it.send_count > 0);
        let next = window.chunks().find(|it| !is_sent(it));
        let next = next.unwrap_or(window.end());
        let runs: Vec<_> = (next..window.end())
            .filter(is_sent)
            .map(|it| (it, it))
            .collect();
        self.sack(next, &runs).unwrap();
    }

    /// The sizes of messages that the owner gets back.
    fn lost(&mut self) -> Vec<usize> {
        let lost = std::iter::from_fn(|| self.outbound.take_lost());
        lost.map(|it| it.message.payload.len()).collect()
    }

    fn forward(&mut self) -> Option<ForwardTsn> {
        self.outbound.poll_forward_tsn(self.now)
    }
}

/// The paths of these packets, in order.
fn paths(packets: &[Sent]) -> Vec<u32> {
    packets.iter().map(|sent| sent.path.value()).collect()
}

#[test]
fn messages_leave_over_the_path_that_the_owner_chooses_in_its_order() {
    let mut bench = Bench::with_rtts(&[10, 50], &placing());
    for path in [1, 0, 1, 0] {
        bench.place(path, 900);
    }
    let sent = bench.pump();
    assert_eq!(
        (paths(&sent), numbers(&sent)),
        (vec![1, 0, 1, 0], vec![0, 1, 2, 3])
    );
    let chunks = sent.iter().flat_map(|it| &it.chunks);
    assert!(
        chunks
            .into_iter()
            .all(|data| data.unordered && data.stream.value() == 1)
    );
}

#[test]
fn a_front_is_part_of_its_message_and_comes_back_with_it() {
    let mut bench = Bench::with_rtts(&[50], &placing());
    super::hostile::open(&mut bench, 0);
    let message = |length: usize| PlacedMessage {
        front: Front::from_slice(b"front"),
        payload: vec![9; length].into(),
    };
    // The second one leaves in parts.
    for (length, count) in [(900, 1), (3000, 2), (900, 1)] {
        for _ in 0..count {
            let path = PathId::new(0);
            let taken = bench
                .outbound
                .send_over(&bench.paths, path, message(length));
            assert_eq!(taken, Ok(()));
        }
    }
    let queued = bench.outbound.window.bytes();
    assert_eq!(queued, ByteCount::new(2 * 905 + 2 * 3005));
    let sent = bench.pump();
    let chunks: Vec<_> = sent.iter().flat_map(|it| &it.chunks).collect();
    let mut whole = Vec::new();
    for chunk in &chunks {
        if chunk.first {
            assert!(chunk.payload.starts_with(b"front\x09"));
        }
        whole.extend_from_slice(&chunk.payload);
    }
    let expected = [900, 3000, 3000, 900].map(|length| [b"front", &vec![9; length][..]].concat());
    assert_eq!(whole, expected.concat());
    bench.wait(50);
    // The first one is missing.
    let last = chunks.len() as u64 - 1;
    bench.sack(0, &[(1, last)]).unwrap();
    assert!(bench.pump().is_empty());
    let lost = bench.outbound.take_lost().unwrap();
    assert_eq!(lost.message, message(900));
    assert_eq!(bench.outbound.window.bytes(), ByteCount::ZERO);
    bench.sack(last + 1, &[]).unwrap();
    assert!(bench.outbound.is_settled());
}

#[test]
fn a_path_without_room_holds_no_other_up() {
    let mut bench = Bench::with_rtts(&[10, 50], &placing());
    assert_eq!(bench.rooms(Turn::Own), [3000, 3000]);
    (0..9).for_each(|_| bench.place(0, 1000));
    bench.place(1, 1000);
    let sent = bench.pump();
    assert_eq!(paths(&sent).last(), Some(&1));
    assert_eq!(bench.rooms(Turn::Own)[0], 0);
    assert!(!bench.outbound.is_settled());
}

#[test]
fn what_is_lost_goes_back_to_the_owner_and_one_report_passes_over_all_holes() {
    let mut bench = Bench::with_rtts(&[50], &placing());
    super::hostile::open(&mut bench, 0);
    (0..12).for_each(|_| bench.place(0, 900));
    assert_eq!(bench.pump().len(), 12);
    bench.wait(50);
    // The second, the fourth and the sixth are missing.
    bench.sack(1, &[(2, 2), (4, 4), (6, 11)]).unwrap();
    assert!(bench.pump().is_empty());
    assert_eq!(
        [1, 3, 5].map(|it| bench.status(it)),
        [Some(Status::Abandoned); 3]
    );
    assert_eq!(bench.lost(), [900; 3]);
    let forward = bench.forward().unwrap();
    assert_eq!(forward.cumulative, tsn(5));
    assert_eq!(bench.forward(), None);
    assert_eq!(
        bench.outbound.window.bytes(),
        ByteCount::ZERO,
        "it is not needed any more"
    );
    bench.sack(12, &[]).unwrap();
    assert!(bench.outbound.is_settled());
}

#[test]
fn a_report_does_not_pass_what_may_still_arrive() {
    let mut bench = Bench::with_rtts(&[10, 90], &placing());
    super::hostile::open(&mut bench, 0);
    bench.place(0, 900);
    bench.place(1, 900);
    (0..8).for_each(|_| bench.place(0, 900));
    bench.pump();
    bench.wait(10);
    bench.sack(0, &[(2, 9)]).unwrap();
    assert_eq!(bench.status(0), Some(Status::Abandoned));
    assert_eq!(bench.forward().unwrap().cumulative, tsn(0));
    assert_eq!(bench.status(1), Some(Status::Wait));
}

#[test]
fn a_message_that_fits_no_packet_leaves_in_parts_behind_each_other() {
    let mut bench = Bench::with_rtts(&[10, 50], &placing());
    bench.place(0, 500);
    bench.place(0, 1432);
    bench.place(1, 700);
    let sent = bench.pump();
    assert_eq!(paths(&sent), [0, 0, 0, 1]);
    let parts: Vec<_> = sent.iter().flat_map(|it| &it.chunks).collect();
    let ends: Vec<_> = parts.iter().map(|it| (it.first, it.last)).collect();
    assert_eq!(
        ends,
        [(true, true), (true, false), (false, true), (true, true)]
    );
    let bytes = parts.iter().map(|it| it.payload.len()).sum::<usize>();
    assert_eq!(bytes, 500 + 1432 + 700);
}

#[test]
fn what_waits_for_a_path_that_goes_is_dropped() {
    let mut bench = Bench::with_rtts(&[10, 50], &placing());
    bench.place(0, 900);
    bench.pump();
    bench.place(0, 900);
    let gone = bench.paths.remove_local(route(0).local);
    for path in gone {
        bench
            .outbound
            .on_path_gone(bench.now, &mut bench.paths, path);
    }
    assert!(bench.pump().is_empty());
    assert_eq!(bench.forward().unwrap().cumulative, tsn(1));
    bench.sack(2, &[]).unwrap();
    assert!(bench.outbound.is_settled());
}

#[test]
fn what_waits_for_a_path_that_falls_silent_is_dropped_while_another_answers() {
    let mut bench = Bench::with_rtts(&[10, 10], &placing());
    super::hostile::open(&mut bench, 0);
    bench.place(0, 900);
    bench.pump();
    bench.place(0, 900);
    let silent = bench.paths.path(PathId::new(0)).unwrap().suspect_at();
    bench.now = silent.unwrap();
    assert!(bench.pump().is_empty());
    assert_eq!(bench.status(1), Some(Status::Abandoned));
}

#[test]
fn what_a_silent_path_has_in_flight_goes_back_to_the_owner_once() {
    let mut bench = Bench::with_rtts(&[10, 10], &placing());
    super::hostile::open(&mut bench, 0);
    let left_at = bench.now;
    bench.place(0, 900);
    bench.place(0, 800);
    bench.pump();
    let silent = bench.paths.path(PathId::new(0)).unwrap().suspect_at();
    bench.now = silent.unwrap();
    assert!(bench.pump().is_empty());
    let lost = bench.outbound.take_lost().unwrap();
    assert_eq!(
        (lost.message.payload.len(), lost.left_at),
        (900, Some(left_at))
    );
    assert_eq!(bench.lost(), [800]);
    // It may still arrive, and counts as lost for the path in the end.
    assert_eq!(bench.status(0), Some(Status::Wait));
    bench.wait(5000);
    bench.outbound.handle_timeout(bench.now, &mut bench.paths);
    assert_eq!(bench.status(0), Some(Status::Abandoned));
    assert_eq!(bench.lost(), [0; 0]);
}

#[test]
fn placed_messages_and_others_get_half_each_while_both_wait() {
    let mut bench = Bench::with_rtts(&[10], &placing());
    super::hostile::open(&mut bench, 0);
    (0..300).for_each(|_| bench.write(2, 1000));
    let (mut placed, mut others) = (0, 0);
    for _ in 0..60 {
        bench.outbound.set_to_place(ToPlace::InTurn);
        loop {
            let room = bench.rooms(Turn::Own)[0];
            (0..room / 1000).for_each(|_| bench.place(0, 1000));
            let sent = bench.pump();
            for data in sent.iter().flat_map(|it| &it.chunks) {
                let count = match data.stream.value() {
                    1 => &mut placed,
                    _ => &mut others,
                };
                *count += data.payload.len();
            }
            if sent.is_empty() {
                break;
            }
        }
        bench.wait(10);
        bench.sack_all();
        if bench.outbound.queued() < ByteCount::new(50_000) {
            // In the last turns there are no others to share with.
            break;
        }
    }
    assert!(others >= 100_000, "{others}");
    assert!(placed.abs_diff(others) <= 15_000, "{placed} and {others}");
}

#[test]
fn without_what_it_needs_nothing_can_be_placed() {
    let mut bench = Bench::with_rtts(&[10], &config());
    let refused = bench.outbound.send_over(
        &bench.paths,
        PathId::new(0),
        Bytes::from_static(b"?").into(),
    );
    assert!(matches!(refused, Err(SendError::NoSuchStream { .. })));
    let mut bench = Bench::with_rtts(&[10], &placing());
    let taken = bench
        .outbound
        .send(bench.now, StreamNumber::new(1), message(9));
    assert!(
        matches!(taken, Err(SendError::NoSuchStream { .. })),
        "the stream is reserved"
    );
}
