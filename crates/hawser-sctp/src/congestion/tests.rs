use std::time::Duration;

use hawser_types::{ByteCount, Instant, Rate};
use proptest::prelude::*;

use super::bench::{Link, PACKET, Sender, run, share};
use super::{Acknowledged, CongestionControl, Lost, RateSample};
use crate::Control;

const ALL: [Control; 3] = [Control::Reno, Control::Cubic, Control::Bbr];
const RTT: Duration = Duration::from_millis(40);

fn sender(control: Control) -> Sender {
    Sender::new(super::new(control, PACKET))
}

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

#[test]
fn each_fills_a_link_with_a_queue_of_one_bandwidth_delay_product() {
    for control in ALL {
        let mut link = Link::new(10, RTT);
        let mut senders = [sender(control)];
        let begin = share(&mut link, &mut senders, 0, 5)[0];
        let then = share(&mut link, &mut senders, 5, 30)[0];
        assert!(begin > 0.8 && then > 0.95, "{control:?}: {begin} {then}");
    }
}

#[test]
fn bbr_does_not_mind_random_loss() {
    for (loss, least) in [(0.02, 0.9), (0.05, 0.8)] {
        let mut link = Link::new(10, RTT);
        link.loss = loss;
        let mut senders = [sender(Control::Bbr)];
        share(&mut link, &mut senders, 0, 2);
        let then = share(&mut link, &mut senders, 2, 30)[0];
        assert!(then > least, "{loss}: {then}");
    }
}

#[test]
fn bbr_finds_the_rate_though_a_tenth_is_lost_from_the_beginning() {
    let mut link = Link::new(20, RTT);
    link.loss = 0.1;
    let mut senders = [sender(Control::Bbr)];
    let begin = share(&mut link, &mut senders, 0, 1)[0];
    // A start that stops at the first losses has 0.70.
    assert!(begin > 0.74, "{begin}");
}

#[test]
fn bbr_fills_links_whose_acknowledgements_come_in_bursts() {
    for (rtt, turns, loss) in [(40, 25, 0.0), (10, 25, 0.0), (10, 60, 0.02)] {
        let mut link = Link::new(10, Duration::from_millis(rtt));
        link.queue = link.rate * RTT;
        link.turns = Duration::from_millis(turns);
        link.loss = loss;
        let mut senders = [sender(Control::Bbr)];
        share(&mut link, &mut senders, 0, 3);
        let then = share(&mut link, &mut senders, 3, 20)[0];
        assert!(then > 0.92, "{rtt} {turns} {loss}: {then}");
    }
}

#[test]
fn bbr_leaves_a_queue_mostly_empty() {
    let mut link = Link::new(10, RTT);
    link.queue = ByteCount::new(1_000_000);
    let mut senders = [sender(Control::Bbr)];
    share(&mut link, &mut senders, 0, 3);
    senders[0].max_in_flight = ByteCount::ZERO;
    let then = share(&mut link, &mut senders, 3, 20)[0];
    let product = link.rate * RTT;
    let most = senders[0].max_in_flight;
    assert!(then > 0.95, "{then}");
    assert!(
        most.as_u64() < product.as_u64() * 3 / 2,
        "{most} of {product}"
    );
}

#[test]
fn a_short_queue_and_a_long_way_are_used_too() {
    for (mbit, rtt, queue, least) in [
        (10, 40, 12_000, 0.85),
        (30, 20, 20_000, 0.85),
        (10, 600, 750_000, 0.85),
        (1, 100, 12_500, 0.85),
    ] {
        for control in [Control::Cubic, Control::Bbr] {
            let mut link = Link::new(mbit, Duration::from_millis(rtt));
            link.queue = ByteCount::new(queue);
            let mut senders = [sender(control)];
            share(&mut link, &mut senders, 0, 15);
            let then = share(&mut link, &mut senders, 15, 40)[0];
            assert!(then > least, "{control:?} {mbit} {rtt}: {then}");
        }
    }
}

#[test]
fn two_flows_share_a_link() {
    for control in ALL {
        let mut link = Link::new(10, RTT);
        let mut senders = [sender(control), sender(control)];
        senders[1].begins = at(5);
        share(&mut link, &mut senders, 0, 20);
        let shares = share(&mut link, &mut senders, 20, 60);
        assert!(
            shares.iter().all(|share| *share > 0.3),
            "{control:?}: {shares:?}"
        );
        assert!(shares.iter().sum::<f64>() > 0.93, "{control:?}: {shares:?}");
    }
}

#[test]
fn bbr_neither_starves_cubic_nor_is_starved_by_it() {
    let mut link = Link::new(10, RTT);
    let mut senders = [sender(Control::Cubic), sender(Control::Bbr)];
    share(&mut link, &mut senders, 0, 10);
    let shares = share(&mut link, &mut senders, 10, 60);
    assert!(shares.iter().all(|share| *share > 0.15), "{shares:?}");
}

#[test]
fn bbr_fills_short_and_long_ways_alike() {
    for rtt in [2, 20, 200, 800] {
        let mut link = Link::new(5, Duration::from_millis(rtt));
        link.queue = link.queue.max(ByteCount::new(20_000));
        let mut senders = [sender(Control::Bbr)];
        share(&mut link, &mut senders, 0, 15);
        let then = share(&mut link, &mut senders, 15, 40)[0];
        assert!(then > 0.93, "{rtt}: {then}");
    }
}

#[test]
fn after_an_outage_the_link_is_filled_again() {
    for control in ALL {
        for outage in [1, 8] {
            let mut link = Link::new(10, RTT);
            let mut senders = [sender(control)];
            share(&mut link, &mut senders, 0, 10);
            link.cut = true;
            share(&mut link, &mut senders, 10, 10 + outage);
            link.cut = false;
            // The running time-out may last as long as the outage again.
            let again = 10 + 3 * outage + 4;
            share(&mut link, &mut senders, 10 + outage, again);
            let then = share(&mut link, &mut senders, again, again + 10)[0];
            assert!(then > 0.9, "{control:?} after {outage} s: {then}");
        }
    }
}

#[test]
fn bbr_follows_a_rate_that_changes() {
    let mut link = Link::new(10, RTT);
    let mut senders = [sender(Control::Bbr)];
    share(&mut link, &mut senders, 0, 10);
    link.rate = Rate::from_bits_per_second(40_000_000);
    link.queue = link.rate * RTT;
    share(&mut link, &mut senders, 10, 13);
    let up = share(&mut link, &mut senders, 13, 20)[0];
    link.rate = Rate::from_bits_per_second(4_000_000);
    share(&mut link, &mut senders, 20, 24);
    let down = share(&mut link, &mut senders, 24, 30)[0];
    assert!(up > 0.93 && down > 0.93, "{up} {down}");
    assert!(senders[0].control.window() < link.rate * (RTT * 5));
}

#[test]
fn bbr_follows_a_rate_that_trebles_twice_a_second() {
    let mut link = Link::new(8, RTT);
    link.queue = ByteCount::new(500_000);
    let mut senders = [sender(Control::Bbr)];
    let (mut now, mut most) = (Instant::ZERO, ByteCount::ZERO);
    for turn in 0..80 {
        link.rate = Rate::from_bits_per_second([8_000_000, 24_000_000][turn % 2]);
        let then = now + Duration::from_millis(500);
        run(&mut link, &mut senders, now, then);
        most += link.rate * then.since(now);
        now = then;
    }
    let share = senders[0].delivered().as_u64() as f64 / most.as_u64() as f64;
    // With probes every five to eight round trips it is 0.72.
    assert!(share > 0.76, "{share}");
}

#[test]
fn bbr_finds_a_rate_that_has_grown_though_round_trips_vary_by_half() {
    let mut link = Link::new(5, RTT);
    link.jitter = RTT / 2;
    let mut senders = [sender(Control::Bbr)];
    share(&mut link, &mut senders, 0, 5);
    link.rate = Rate::from_bits_per_second(25_000_000);
    link.queue = link.rate * RTT;
    let rising = share(&mut link, &mut senders, 5, 7)[0];
    let then = share(&mut link, &mut senders, 7, 9)[0];
    assert!(rising > 0.6 && then > 0.95, "{rising} {then}");
}

#[test]
fn a_queue_ends_startup_though_the_application_limits_the_rate() {
    // The path holds 50 kB without a queue.
    for held in [70, 80, 90] {
        let mut link = Link::new(10, RTT);
        let mut senders = [sender(Control::Bbr)];
        senders[0].held = Some(ByteCount::new(held * 1000));
        let filled = share(&mut link, &mut senders, 0, 2)[0];
        let is_over = senders[0].control.short_queue().is_some();
        assert!(is_over && filled > 0.8, "{held} kB: {filled}");
    }
}

#[test]
fn what_the_application_holds_back_is_not_taken_for_the_path() {
    for control in ALL {
        let mut link = Link::new(10, RTT);
        let mut senders = [sender(control)];
        senders[0].demand = Some(Rate::from_bits_per_second(1_000_000));
        let held = share(&mut link, &mut senders, 0, 10)[0];
        assert!(held > 0.095, "{control:?}: {held}");
        senders[0].demand = None;
        share(&mut link, &mut senders, 10, 13);
        let then = share(&mut link, &mut senders, 13, 20)[0];
        assert!(then > 0.93, "{control:?}: {then}");
    }
}

proptest! {
    /// No report of a path, plausible or not, causes a panic, a window that closes for good, or one
    /// without bound.
    #[test]
    fn odd_news_do_no_harm(
        steps in prop::collection::vec(
            (
                0u8..7,
                prop_oneof![0..5u64, 0..100_000u64, any::<u64>()],
                prop_oneof![0..5u64, 0..2_000_000_000u64, any::<u64>()],
            ),
            1..300,
        ),
    ) {
        for control in ALL {
            let mut control = super::new(control, PACKET);
            let mut now = Instant::ZERO;
            for (step, bytes, nanos) in &steps {
                let span = Duration::from_nanos(*nanos);
                let size = ByteCount::new(*bytes);
                now += Duration::from_nanos(nanos % 10_000_000_000);
                apply(&mut *control, now, *step, size, span);
                let window = control.window().as_u64();
                prop_assert!((1..=1 << 33).contains(&window), "{window}");
                prop_assert!(control.pacing() != Some(Rate::ZERO));
            }
        }
    }
}

fn apply(
    control: &mut dyn CongestionControl,
    now: Instant,
    step: u8,
    size: ByteCount,
    span: Duration,
) {
    match step {
        0 => control.on_sent(now, size, ByteCount::new(size.as_u64() / 2)),
        1 => control.on_lost(&Lost {
            now,
            bytes: size,
            newest_sent: now - span,
        }),
        2 => control.on_timeout(now),
        3 => control.on_spurious(now),
        4 => control.on_idle(size.as_u64() as u32),
        5 => control.on_packet_size(ByteCount::new(size.as_u64() % 70_000)),
        _ => control.on_acknowledged(&Acknowledged {
            now,
            bytes: size,
            flight_before: size,
            flight: ByteCount::new(size.as_u64() / 3),
            rtt: Some(span),
            smoothed_rtt: span,
            newest_sent: now - span,
            may_grow: true,
            sample: Some(RateSample {
                rate: Rate::over(size, span),
                delivered: size,
                delivered_before: ByteCount::new(size.as_u64() / 2),
                application_limited: size.as_u64().is_multiple_of(2),
            }),
        }),
    }
}

/// The initial window takes 190 ms on this link, and its queue 300 ms.
#[test]
fn the_first_windows_of_bbr_fit_into_the_queue_of_a_slow_link() {
    let mut link = Link::new(1, RTT);
    link.rate = Rate::from_bits_per_second(633_000);
    link.queue = link.rate * Duration::from_millis(300);
    let room = link.queue + link.rate * RTT;
    let mut senders = [sender(Control::Bbr)];
    let begin = share(&mut link, &mut senders, 0, 2)[0];
    let most = senders[0].max_in_flight;
    assert!(most + PACKET < room, "{most:?} of {room:?}");
    assert!(begin > 0.9, "{begin}");
}

/// A path has carried only a message of 13 bytes, acknowledged late, before more data comes.
#[test]
fn what_comes_before_there_is_much_to_send_does_not_slow_the_first_window() {
    let (rtt, packet) = (Duration::from_millis(25), ByteCount::new(1400));
    let mut bbr = super::new(Control::Bbr, packet);
    let now = Instant::ZERO + rtt;
    let bytes = ByteCount::new(13);
    bbr.on_acknowledged(&Acknowledged {
        now,
        bytes,
        flight_before: bytes,
        flight: ByteCount::ZERO,
        rtt: Some(rtt),
        smoothed_rtt: rtt,
        newest_sent: Instant::ZERO,
        may_grow: true,
        sample: Some(RateSample {
            rate: Rate::over(bytes, rtt),
            delivered: bytes,
            delivered_before: ByteCount::ZERO,
            application_limited: true,
        }),
    });
    let pacing = bbr.pacing().unwrap();
    assert!(pacing >= Rate::over(bbr.window(), rtt), "{pacing:?}");
}
