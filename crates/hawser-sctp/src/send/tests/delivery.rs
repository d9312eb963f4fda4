//! Everything arrives, whatever the links do.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::network::{Link, Network};
use super::*;

fn link(delay: u64, mbit: u64, loss: f64) -> Link {
    Link {
        delay: ms(delay),
        jitter: Duration::ZERO,
        loss,
        rate: mbit * 125_000,
        outage: None,
    }
}

/// Creates messages with distinct contents.
fn messages(sizes: &[(u16, usize)]) -> impl Iterator<Item = (u16, Message)> {
    sizes.iter().enumerate().map(|(number, (stream, size))| {
        let payload: Vec<u8> = (0..*size).map(|byte| (byte * 7 + number) as u8).collect();
        let message = Message {
            payload: payload.into(),
            ..message(1)
        };
        (*stream, message)
    })
}

/// Sends these messages and checks that each arrived unchanged and in order.
fn deliver(network: &mut Network, sizes: &[(u16, usize)]) -> Duration {
    let took = network.run(&mut messages(sizes));
    let mut expected = BTreeMap::new();
    let mut numbers: BTreeMap<u16, u32> = BTreeMap::new();
    for (stream, message) in messages(sizes) {
        let number = numbers.entry(stream).or_default();
        expected.insert((stream, false, *number), message.payload.to_vec());
        *number += 1;
    }
    assert!(
        network.peer.messages() == expected,
        "something else has arrived"
    );
    for path in 0..network.bench.paths.iter().count() {
        assert_eq!(network.bench.in_flight(path as u32), 0);
    }
    took
}

fn bulk(megabytes: usize) -> Vec<(u16, usize)> {
    vec![(0, 50_000); megabytes * 20]
}

/// Returns the goodput in bits per second.
fn goodput(sizes: &[(u16, usize)], took: Duration) -> f64 {
    let bytes: usize = sizes.iter().map(|(_, size)| size).sum();
    bytes as f64 * 8.0 / took.as_secs_f64()
}

#[test]
fn two_links_carry_nearly_the_sum_of_what_they_can() {
    let links = vec![link(10, 20, 0.0), link(20, 10, 0.0)];
    let mut network = Network::new(links, &config(), 4 << 20, 1);
    let sizes = bulk(8);
    let took = deliver(&mut network, &sizes);
    let rate = goodput(&sizes, took);
    assert!(rate > 24e6, "{rate}");
}

#[test]
fn without_loss_nothing_is_sent_twice_over_links_of_very_different_delay() {
    let links = vec![link(5, 20, 0.0), link(80, 20, 0.0)];
    // The windows never fill the links' queues.
    let mut network = Network::new(links, &config(), 100_000, 1);
    let sizes = bulk(1);
    deliver(&mut network, &sizes);
    let payload: usize = sizes.iter().map(|(_, size)| size).sum();
    let overhead = network.sent as f64 / payload as f64;
    assert!(overhead < 1.1, "{overhead}");
}

#[test]
fn a_link_that_goes_and_returns_is_used_again() {
    let mut cut = link(10, 20, 0.0);
    cut.outage = Some((ms(300), ms(900)));
    let mut network = Network::new(vec![cut, link(20, 5, 0.0)], &config(), 4 << 20, 3);
    let sizes = bulk(8);
    let took = deliver(&mut network, &sizes);
    assert!(goodput(&sizes, took) > 10e6, "{took:?}");
}

#[test]
fn a_peer_that_gives_up_messages_hears_of_each() {
    let links = vec![link(30, 5, 0.1), link(60, 2, 0.1)];
    let mut network = Network::new(links, &config(), 1 << 20, 5);
    let count = 2000;
    let mut messages = (0..count).map(|number| {
        let message = Message {
            reliability: match number % 4 {
                0 => Reliability::Full,
                1 => Reliability::Lifetime(ms(150)),
                2 => Reliability::Retransmissions(0),
                _ => Reliability::Lifetime(ms(20)),
            },
            ..message(700)
        };
        ((number % 5) as u16, message)
    });
    network.run(&mut messages);
    let mut abandoned = 0;
    while let Some(event) = network.bench.outbound.poll_event() {
        abandoned += usize::from(matches!(event, crate::Event::Abandoned(_)));
    }
    let arrived = network.peer.chunks.len();
    assert!(
        abandoned > 0 && arrived + abandoned >= count as usize,
        "{arrived} + {abandoned}"
    );
    assert!(arrived < count as usize);
}

fn any_link() -> impl Strategy<Value = Link> {
    let outage = proptest::option::weighted(0.3, (0_u64..3000, 1_u64..5000));
    (1_u64..150, 0_u64..60, 0.0..0.3, 1_u64..50, outage).prop_map(
        |(delay, jitter, loss, rate, outage)| Link {
            delay: ms(delay),
            jitter: ms(jitter),
            loss,
            rate: rate * 100_000,
            outage: outage.map(|(from, length)| (ms(from), ms(from + length))),
        },
    )
}

proptest! {
    #[test]
    fn everything_arrives_as_it_was_over_links_that_lose_and_reorder(
        links in prop::collection::vec(any_link(), 1..4),
        sizes in prop::collection::vec((0_u16..4, 1_usize..9000), 1..80),
        policy in prop::sample::select(ChunkPolicy::ALL.to_vec()),
        control in prop::sample::select(vec![Control::Reno, Control::Cubic, Control::Bbr]),
        interleaving: bool,
        window in 3000_u32..300_000,
        seed: u64,
    ) {
        let config = AssociationConfig {
            policy,
            control,
            interleaving,
            ..config()
        };
        let mut network = Network::new(links, &config, window, seed);
        deliver(&mut network, &sizes);
    }
}

#[test]
fn no_chunk_leaves_that_a_sack_could_not_tell_of() {
    let config = AssociationConfig {
        send_buffer: ByteCount::new(1 << 26),
        ..config()
    };
    let mut bench = Bench::with_rtts(&[20], &config);
    (0..70_000).for_each(|_| bench.write(0, 1));
    let (mut end, mut idle) = (0, 0);
    while idle < 10 {
        bench.pump();
        bench.wait(20);
        let before = end;
        end = bench.outbound.window.end();
        // All but the first arrive.
        bench.sack(0, &[(1, end - 1)]).unwrap();
        idle = if end == before { idle + 1 } else { 0 };
    }
    assert_eq!(end, 65_535);
    bench.sack(end, &[]).unwrap();
    bench.pump();
    assert!(bench.outbound.window.end() > end);
}
