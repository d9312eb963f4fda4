//! Copies of what a silent path has in flight, and packets in which a SACK leaves no room.

use hawser_wire::sctp::Chunk;

use super::*;

/// Four packets in flight on each of two paths, and as many that wait.
fn busy() -> Bench {
    let mut bench = Bench::with_rtts(&[10, 20], &config());
    (0..12).for_each(|_| bench.write(0, FULL));
    let sent = bench.pump();
    let on_first = sent.iter().filter(|it| it.path == PathId::new(0));
    assert_eq!((numbers(&sent).len(), on_first.count()), (8, 4));
    bench
}

fn suspect_at(bench: &Bench, path: u32) -> Instant {
    let path = bench.paths.path(PathId::new(path)).unwrap();
    path.suspect_at().unwrap()
}

impl Bench {
    /// Fills the next packet behind a SACK; tells whether anything else found room there.
    fn fill_behind_a_sack(&mut self) -> bool {
        let id = self.outbound.next_path(self.now, &mut self.paths).unwrap();
        let size = self.outbound.packet_size(self.paths.path(id).unwrap());
        let mut writer = PacketWriter::new(9, 9, VerificationTag::new(1), size);
        assert!(writer.put(&Chunk::Sack(self.sack_of(0, &[]))));
        self.outbound
            .fill(self.now, &mut self.paths, id, &mut writer)
    }
}

#[test]
fn a_copy_for_a_silent_path_that_finds_no_room_behind_a_sack_leaves_next() {
    let mut bench = busy();
    bench.now = suspect_at(&bench, 0);
    bench.sack(0, &[(4, 7)]).unwrap();
    assert!(!bench.fill_behind_a_sack());
    let next = bench.packet().unwrap();
    assert_eq!((next.path, next.numbers()), (PathId::new(1), vec![0]));
    let next = bench.packet().unwrap();
    assert_eq!((next.path, next.numbers()), (PathId::new(1), vec![1]));
}

#[test]
fn a_duplicate_that_finds_no_room_behind_a_sack_leaves_next() {
    let twice = AssociationConfig {
        policy: ChunkPolicy::Redundant,
        ..config()
    };
    let mut bench = Bench::with_rtts(&[10, 20], &twice);
    bench.write(0, FULL);
    assert_eq!(bench.packet().unwrap().path, PathId::new(0));
    assert!(!bench.fill_behind_a_sack());
    let next = bench.packet().unwrap();
    assert_eq!((next.path, next.numbers()), (PathId::new(1), vec![0]));
    assert!(bench.packet().is_none());
}

#[test]
fn a_probe_that_finds_no_room_behind_a_sack_leaves_next() {
    let mut bench = Bench::with_rtts(&[50], &config());
    (0..3).for_each(|_| bench.write(0, FULL));
    bench.pump();
    bench.wait_for_timer();
    assert!(!bench.fill_behind_a_sack());
    assert_eq!(numbers(&bench.pump()), [2]);
}

#[test]
fn a_short_request_takes_another_path_as_well_when_its_answer_is_late() {
    let mut bench = Bench::with_rtts(&[10, 200], &config());
    bench.write(0, 100);
    bench.pump();
    let waited = bench.wait_for_timer();
    assert!(waited < suspect_at(&bench, 0).since(bench.now - waited));
    let sent = bench.pump();
    let paths: Vec<_> = sent.iter().map(|packet| packet.path.value()).collect();
    assert_eq!((numbers(&sent), paths), (vec![0, 0], vec![0, 1]));
    bench.wait_for_timer();
    let again = bench.pump();
    assert!(again.iter().all(|it| it.path == PathId::new(0)), "once");
}

#[test]
fn a_probe_of_a_busy_path_takes_that_path_alone() {
    let mut bench = busy();
    bench.wait_for_timer();
    let sent = bench.pump();
    let paths: Vec<_> = sent.iter().map(|packet| packet.path.value()).collect();
    assert_eq!((numbers(&sent), paths), (vec![8], vec![0]));
}

#[test]
fn a_path_that_is_kept_full_is_suspect_long_before_a_round_trip_is_over() {
    let mut bench = Bench::with_rtts(&[200], &config());
    let mut sent = vec![0];
    for step in 0..400_usize {
        bench.write(0, FULL);
        let new = numbers(&bench.pump()).len() as u64;
        sent.push(sent[step] + new);
        bench.wait(10);
        // Everything is acknowledged after 200 ms.
        bench.sack(sent[step.saturating_sub(18)], &[]).unwrap();
    }
    let patience = suspect_at(&bench, 0).since(bench.now);
    assert!(patience < ms(150), "{patience:?}");
}
