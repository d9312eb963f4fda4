//! Routes that change to smaller packets, and drop larger ones without a word.

use super::*;

/// A bench whose paths carry packets of 1400 bytes.
fn bench(rtts: &[u64]) -> Bench {
    let mut bench = Bench::with_rtts(rtts, &config());
    for path in bench.paths.iter_mut() {
        path.learn_packet_size(1400);
    }
    bench
}

/// Sends one full packet and then, round by round, short ones, of which all arrive.
fn lose_the_first(bench: &mut Bench, rounds: u64) {
    bench.write(0, 1400 - 12 - 20);
    for round in 1..=rounds {
        bench.write(1, 100);
        assert!(!bench.pump().is_empty());
        bench.wait(20);
        bench.sack(0, &[(1, round)]).unwrap();
        bench.wait(10);
    }
}

#[test]
fn large_packets_that_vanish_are_noticed_although_short_ones_arrive() {
    let mut bench = bench(&[20]);
    lose_the_first(&mut bench, 2);
    let size = |bench: &Bench| bench.paths.iter().next().unwrap().packet_size;
    assert_eq!(size(&bench), 1400, "that may be chance");
    let mut bench = self::bench(&[20]);
    lose_the_first(&mut bench, 3);
    assert_eq!(size(&bench), 1200);
    // Chunks that are cut from now on fit.
    bench.write(2, 5000);
    let sent = bench.pump();
    let cut = sent.iter().flat_map(|packet| &packet.chunks);
    let longest = cut.filter(|data| data.stream.value() == 2);
    let longest = longest.map(|data| data.payload.len()).max();
    assert_eq!(longest, Some(FULL));
}

#[test]
fn an_association_is_stuck_once_no_path_carries_what_the_peer_waits_for() {
    let mut bench = bench(&[20]);
    let is_stuck = |bench: &Bench| bench.outbound.is_stuck(bench.now, &bench.paths);
    lose_the_first(&mut bench, 3);
    assert!(!is_stuck(&bench), "it may pass in fragments");
    bench.now += ms(1000);
    assert!(is_stuck(&bench));
    let route = route(7);
    bench.paths.add(bench.now, route, true).unwrap();
    assert!(!is_stuck(&bench), "another path may carry it");
    bench.paths.remove_local(route.local);
    assert!(is_stuck(&bench));
    bench.sack(4, &[]).unwrap();
    assert!(!is_stuck(&bench));
}

#[test]
fn large_packets_that_are_lost_now_and_then_keep_their_size() {
    let mut bench = bench(&[20]);
    for round in 0..20_u64 {
        // Of two full packets the first is lost at first.
        (0..2).for_each(|_| bench.write(0, 1400 - 12 - 20));
        bench.pump();
        bench.wait(20);
        bench
            .sack(2 * round, &[(2 * round + 1, 2 * round + 1)])
            .unwrap();
        bench.wait(10);
        bench.pump();
        bench.wait(20);
        bench.sack(2 * round + 2, &[]).unwrap();
    }
    assert_eq!(bench.paths.iter().next().unwrap().packet_size, 1400);
}
