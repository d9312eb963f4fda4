use super::*;
use crate::LossRule;

fn counting() -> AssociationConfig {
    AssociationConfig {
        losses: LossRule::Reports,
        control: Control::FirstReno,
        ..config()
    }
}

/// Two packets over the quicker path, two over the slower one.
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
    // The first packet is late. What comes after it over both paths counts.
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

#[test]
fn of_what_was_under_way_together_only_the_first_loss_reduces_a_window() {
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
