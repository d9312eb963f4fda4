use super::*;
use crate::LossRule;

fn counting() -> AssociationConfig {
    AssociationConfig {
        losses: LossRule::Reports { missing: 4 },
        control: Control::FirstReno,
        ..config()
    }
}

/// Sends two packets over the faster path and two over the slower one.
fn four_packets(config: &AssociationConfig) -> Bench {
    let mut bench = Bench::with_rtts(&[10, 100], config);
    bench.write(0, 4 * FULL);
    let paths: Vec<u32> = bench.pump().iter().map(|sent| sent.path.value()).collect();
    assert_eq!(paths, [0, 0, 1, 1]);
    bench
}

#[test]
fn the_fourth_report_of_any_path_makes_a_chunk_lost_once() {
    let mut bench = four_packets(&counting());
    // The first packet is late. Later arrivals over both paths count.
    bench.wait(10);
    bench.sack(0, &[(1, 1)]).unwrap();
    bench.sack(0, &[(1, 2)]).unwrap();
    bench.sack(0, &[(1, 2)]).unwrap();
    bench.sack(0, &[(1, 3)]).unwrap();
    bench.write(0, 2 * FULL);
    let again = bench.pump();
    assert_eq!(
        bench.status(0),
        Some(Status::Wait),
        "three have told something new"
    );
    let last = numbers(&again).into_iter().max().unwrap();
    assert_eq!(last, 5);
    bench.sack(0, &[(1, 4)]).unwrap();
    assert_eq!(bench.status(0), Some(Status::Fail));
    let again = bench.pump();
    assert_eq!((again[0].numbers(), again[0].path.value()), (vec![0], 1));
    for _ in 0..8 {
        bench.write(0, FULL);
        let newest = numbers(&bench.pump()).into_iter().max().unwrap_or(5);
        bench.sack(0, &[(1, newest)]).unwrap();
    }
    assert_eq!(
        bench.status(0),
        Some(Status::Wait),
        "only T3 repeats it again"
    );
}

/// Each path has a window and a threshold of its own.
#[test]
fn of_what_was_in_flight_on_a_path_the_first_loss_reduces_its_window_and_no_other() {
    let mut bench = Bench::with_rtts(&[10, 100], &counting());
    for path in [0, 1] {
        super::hostile::open(&mut bench, path);
    }
    (0..30).for_each(|_| bench.write(0, FULL));
    let sent = bench.pump();
    let of = |path: u32| -> Vec<u64> {
        let packets = sent.iter().filter(|sent| sent.path.value() == path);
        packets.flat_map(Sent::numbers).collect()
    };
    let (first, second) = (of(0), of(1));
    assert!(second.len() >= 10, "{second:?}");
    let before = [bench.window(0), bench.window(1)];
    bench.wait(100);
    // Of the first path's packets two are missing, then one of the second's as well.
    for last in 3..=6 {
        bench.sack(0, &[(first[2], first[last])]).unwrap();
    }
    assert_eq!(
        [0, 1].map(|chunk| bench.status(first[chunk])),
        [Some(Status::Fail); 2]
    );
    let halved = [bench.window(0), bench.window(1)];
    assert_eq!(halved[0].as_u64(), before[0].as_u64() / 2);
    assert_eq!(halved[1], before[1]);
    let known = (first[2], *first.last().unwrap());
    for last in 1..=4 {
        bench.sack(0, &[known, (second[1], second[last])]).unwrap();
    }
    assert_eq!(bench.status(second[0]), Some(Status::Fail));
    let halved_both = [bench.window(0), bench.window(1)];
    assert_eq!(halved_both[0], halved[0]);
    assert_eq!(halved_both[1].as_u64(), before[1].as_u64() / 2);
}

#[test]
fn windows_grow_when_the_cumulative_tsn_moves_and_not_else() {
    let mut bench = four_packets(&counting());
    bench.wait(10);
    let before = [bench.window(0), bench.window(1)];
    assert_eq!(before, [ByteCount::new(2400); 2]);
    bench.sack(2, &[]).unwrap();
    assert!(bench.window(0) > before[0], "the cumulative TSN has moved");
    let grown = bench.window(0);
    bench.sack(2, &[(3, 3)]).unwrap();
    assert_eq!(
        (bench.window(0), bench.window(1)),
        (grown, before[1]),
        "it has not"
    );
}
