//! Associations over links with occasional real-world faults.

use std::time::Duration;

use bytes::Bytes;
use hawser_scenario::{Line, Loss, Service};
use hawser_sctp::{AssociationConfig, Checksum, Control, Framing, Message, SendError};
use hawser_sim::association::{Disorder, Fabric, LinkModel, client_local};
use hawser_types::{Instant, Rate};
use hawser_wire::sctp::StreamNumber;

#[test]
fn a_transfer_goes_on_when_the_packets_of_its_only_link_become_smaller() {
    for largest in [1252, 1000] {
        let took = move_bytes(&[link(20, 10)], 10_000_000, |fabric| {
            disorder(fabric, 0).largest = Some(largest);
        });
        // Four seconds, and a second for time-outs and smaller packets.
        assert!(
            took.is_some_and(|took| took < secs(8)),
            "{largest}: {took:?}"
        );
    }
}

#[test]
fn a_transfer_uses_both_links_when_the_packets_of_one_become_smaller() {
    let took = move_bytes(&[link(20, 10), link(20, 30)], 20_000_000, |fabric| {
        disorder(fabric, 0).largest = Some(1252);
    });
    // Eight seconds over one of them.
    assert!(took.is_some_and(|took| took < secs(6)), "{took:?}");
}

#[test]
fn a_link_that_is_dead_towards_the_sender_does_not_swallow_what_others_would_bring() {
    for far in [10, 80] {
        let took = move_bytes(&[link(20, 10), link(20, far)], 20_000_000, |fabric| {
            disorder(fabric, 0).mute = true;
        });
        // Four seconds with both links whole, and eight over the other.
        assert!(
            took.is_some_and(|took| took < secs(7)),
            "{far} ms: {took:?}"
        );
    }
}

/// Answers go back over the quick way and come much sooner than a path's own round trip, or are
/// lost, or wait for room: none of that says anything of what the link carries towards the server.
#[test]
fn a_link_with_a_bad_way_back_carries_as_much_as_another() {
    let back = |change: fn(&mut Line)| {
        let mut link = link(20, 10);
        change(&mut link.down);
        link
    };
    let long = back(|line| line.delay = Duration::from_millis(300));
    let lossy = back(|line| line.loss.mean = 0.1);
    let narrow = back(|line| line.rate = Rate::from_bits_per_second(64_000));
    for (name, bad) in [("long", long), ("lossy", lossy), ("narrow", narrow)] {
        let took = move_bytes(&[link(20, 10), bad], 20_000_000, |_| {});
        // Eight seconds over one of them.
        assert!(
            took.is_some_and(|took| took < Duration::from_millis(4700)),
            "{name}: {took:?}"
        );
    }
}

/// What is sent over one of them is known sooner than either's round trip.
#[test]
fn links_that_are_long_in_different_directions_are_both_used() {
    let (mut first, mut second) = (link(20, 10), link(20, 10));
    first.down.delay = Duration::from_millis(300);
    second.up.delay = Duration::from_millis(300);
    let took = move_bytes(&[first, second], 20_000_000, |_| {});
    assert!(took.is_some_and(|took| took < secs(7)), "{took:?}");
}

/// The server sees one address with a port for each link, and not those that the client lists.
#[test]
fn two_links_behind_one_address_translator_are_both_used() {
    let sealed = AssociationConfig {
        checksum: Checksum::LowerLayer,
        framing: Framing::Compact,
        announces_links: true,
        ..AssociationConfig::default()
    };
    for config in [AssociationConfig::default(), sealed] {
        let mut fabric = Fabric::new([&config; 2], &[link(10, 10), link(5, 20)], 1, 1);
        fabric.translate();
        let took = move_bytes_over(&mut fabric, &config, 20_000_000, |_| {});
        let rate = 160.0 / took.expect("all arrives").as_secs_f64();
        assert!(rate > 0.9 * 15.0, "{rate:.1} of 15 Mbit/s");
    }
}

/// Calls and games beside a transfer wait in the queues that it builds in front of links.
/// Acknowledgements of several paths arrive together, so that rates seem higher than they are.
#[test]
fn a_long_transfer_leaves_short_queues() {
    let sets: [&[LinkModel]; 5] = [
        &[link(50, 10)],
        &[link(50, 10), link(50, 10)],
        &[link(30, 10), link(20, 30)],
        &[link(50, 10), link(5, 20)],
        &[link(20, 5), link(20, 100)],
    ];
    for links in sets {
        for wait in waits(links) {
            assert!(wait <= Duration::from_millis(4), "{wait:?} {links:?}");
        }
    }
}

/// The mean wait in front of each link in the second ten seconds of a transfer, by the round-trip
/// times that its sender measures.
fn waits(links: &[LinkModel]) -> Vec<Duration> {
    let config = AssociationConfig {
        control: Control::Bbr,
        ..AssociationConfig::default()
    };
    let mut fabric = Fabric::new([&config; 2], links, 1, 1);
    assert!(fabric.establish(&config));
    let mut round_trips = vec![Vec::new(); links.len()];
    let (from, end) = (fabric.now() + secs(10), fabric.now() + secs(20));
    let mut next = fabric.now();
    while fabric.now() < end {
        fill(&mut fabric, usize::MAX);
        fabric.step(next);
        while fabric.association(1).receive().is_some() {}
        fabric.pump(1);
        let now = fabric.now();
        if now < next {
            continue;
        }
        next = now + Duration::from_millis(10);
        for path in fabric.association(0).paths(now) {
            let mut numbers = 0..links.len();
            let number = numbers.find(|number| client_local(*number).link == path.link);
            let (Some(number), Some(rtt)) = (number, path.rtt) else {
                continue;
            };
            round_trips[number].push((now, rtt));
        }
    }
    let wait = |samples: &Vec<(Instant, Duration)>| {
        let least = samples.iter().map(|(_, rtt)| *rtt).min().unwrap();
        let late = samples.iter().filter(|(at, _)| *at >= from);
        let waits: Vec<_> = late.map(|(_, rtt)| *rtt - least).collect();
        waits.iter().sum::<Duration>() / u32::try_from(waits.len()).unwrap()
    };
    round_trips.iter().map(wait).collect()
}

/// Moves so many bytes from the client to the server; `change` happens after a second. How long it
/// took.
fn move_bytes(
    links: &[LinkModel],
    bytes: usize,
    change: impl FnOnce(&mut Fabric),
) -> Option<Duration> {
    let config = AssociationConfig::default();
    let mut fabric = Fabric::new([&config; 2], links, 1, 1);
    move_bytes_over(&mut fabric, &config, bytes, change)
}

fn move_bytes_over(
    fabric: &mut Fabric,
    config: &AssociationConfig,
    bytes: usize,
    change: impl FnOnce(&mut Fabric),
) -> Option<Duration> {
    assert!(fabric.establish(config));
    fabric.run_until(secs(2), |_| false);
    let (began, mut left, mut arrived) = (fabric.now(), bytes, 0);
    let (end, mut change) = (began + PATIENCE, Some(change));
    while arrived < bytes {
        if fabric.now() >= began + secs(1)
            && let Some(change) = change.take()
        {
            change(fabric);
        }
        left -= fill(fabric, left);
        fabric.step(next_look(began, fabric).min(end));
        while let Some(received) = fabric.association(1).receive() {
            arrived += received.length();
        }
        fabric.pump(1);
        if fabric.now() >= end {
            return None;
        }
    }
    Some(fabric.now().since(began))
}

/// Gives the client what it takes, at most so many bytes; returns how many it took.
fn fill(fabric: &mut Fabric, most: usize) -> usize {
    let mut given = 0;
    while given < most {
        let now = fabric.now();
        let length = ZEROS.len().min(most - given);
        let message = Message::new(Bytes::from_static(&ZEROS[..length]));
        match fabric
            .association(0)
            .send(now, StreamNumber::new(0), message)
        {
            Ok(()) => given += length,
            Err(SendError::Full) => break,
            Err(other) => panic!("{other}"),
        }
    }
    fabric.pump(0);
    given
}

/// At the first second, or never.
fn next_look(began: Instant, fabric: &Fabric) -> Instant {
    if fabric.now() < began + secs(1) {
        began + secs(1)
    } else {
        began + PATIENCE
    }
}

/// Mbit/s and one-way delay in milliseconds.
fn link(rate: u64, delay: u64) -> LinkModel {
    let line = Line {
        rate: Rate::from_bits_per_second(rate * 1_000_000),
        delay: Duration::from_millis(delay),
        jitter: Duration::ZERO,
        loss: Loss {
            mean: 0.0,
            burst: None,
        },
        queue: Duration::from_millis(60),
        service: Service::Steady,
        largest_packet: None,
    };
    LinkModel {
        up: line.clone(),
        down: line,
        disorder: Disorder::default(),
    }
}

fn disorder(fabric: &mut Fabric, number: usize) -> &mut Disorder {
    let link = client_local(number).link;
    fabric.disorder_mut(link).expect("a link of the fabric")
}

const fn secs(value: u64) -> Duration {
    Duration::from_secs(value)
}

static ZEROS: [u8; 16 * 1024] = [0; 16 * 1024];
const PATIENCE: Duration = secs(120);
