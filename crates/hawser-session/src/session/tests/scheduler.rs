use bytes::Bytes;
use hawser_sched::chunk::ChunkPolicy;
use hawser_types::ChannelId;
use hawser_wire::ChannelRole;

use super::pair::{CLIENT, GATEWAY, Pair, link, pattern};
use crate::{Session, SessionConfig};

/// Two bulk channels, 1 and 2, that take turns.
fn in_turns() -> Pair {
    let config = SessionConfig {
        scheduler: ChunkPolicy::RoundRobin,
        ..SessionConfig::default()
    };
    let mut pair = Pair::new(config);
    pair.add_channel(0, ChannelRole::Express, &link(1, 20, 20));
    pair.run_for(100);
    pair.add_channel(1, ChannelRole::Bulk, &link(1, 20, 20));
    pair.add_channel(2, ChannelRole::Bulk, &link(2, 50, 5));
    pair.run_for(100);
    pair
}

#[test]
fn what_one_policy_lets_wait_goes_at_once_when_another_does_not() {
    let mut pair = in_turns();
    let now = pair.now;
    let id = pair.sides[CLIENT].open_stream(now, Bytes::new()).unwrap();
    let mut data = Bytes::from(pattern(4_000_000));
    pair.sides[CLIENT].write(now, id, &mut data).unwrap();
    pair.run_for(30);
    let (now, client) = (pair.now, &mut pair.sides[CLIENT]);
    let waits = |client: &Session| {
        let seen = client.snapshot(now, 1);
        // However few streams are listed.
        assert_eq!(client.snapshot(now, 0).unsent, seen.streams[0].queued);
        seen.unsent
    };
    let [busy, ready] = [1, 2].map(ChannelId::new);
    client.handle_full(busy);
    // It may have had a turn left, but not two.
    for _ in 0..2 {
        client.handle_writable(now, ready);
        while client.poll_wake().is_some() {}
    }
    let before = waits(client);
    client.set_scheduler(now, ChunkPolicy::RoundRobin);
    assert_eq!(waits(client), before, "it is the busy one's turn");
    client.set_scheduler(now, ChunkPolicy::Backlog);
    assert!(waits(client) < before);
}

#[test]
fn what_is_in_flight_arrives_whole_whatever_the_policy_becomes() {
    let data = pattern(6_000_000);
    let mut pair = in_turns();
    let now = pair.now;
    let id = pair.sides[CLIENT].open_stream(now, Bytes::new()).unwrap();
    let mut rest = Bytes::from(data.clone());
    let mut got = Vec::new();
    let mut policies = ChunkPolicy::ALL.iter().cycle();
    while got.len() < data.len() {
        let now = pair.now;
        pair.sides[CLIENT].set_scheduler(now, *policies.next().unwrap());
        if !rest.is_empty() {
            let _ = pair.sides[CLIENT].write(now, id, &mut rest);
        }
        pair.run_for(50);
        pair.read_into(GATEWAY, id, &mut got);
        assert!(
            pair.now.as_nanos() < 60_000_000_000,
            "{} of it came",
            got.len()
        );
    }
    assert!(got == data);
}

/// A session that has begun, with these policies and this leave at the gateway.
fn begun(client: ChunkPolicy, gateway: ChunkPolicy, follows: bool) -> Pair {
    let mut pair = Pair::with_configs([client, gateway].map(|scheduler| SessionConfig {
        scheduler,
        follows_scheduler: follows,
        ..SessionConfig::default()
    }));
    pair.add_channel(0, ChannelRole::Express, &link(1, 20, 20));
    pair.run_for(200);
    pair
}

#[test]
fn a_gateway_sends_by_the_policy_that_the_clients_user_chose() {
    use ChunkPolicy::{Auto, Blest, Ecf, Redundant};
    let mut pair = begun(Redundant, Ecf, true);
    let by = |pair: &Pair| pair.sides[GATEWAY].scheduler();
    assert_eq!(by(&pair), Redundant, "told at the beginning");
    assert_eq!(pair.sides[CLIENT].peer_follows_scheduler(), Some(true));
    assert_eq!(pair.sides[GATEWAY].peer_follows_scheduler(), None);
    for (chosen, expected) in [(Blest, Blest), (Auto, Ecf)] {
        let now = pair.now;
        pair.sides[CLIENT].set_scheduler(now, chosen);
        pair.run_for(200);
        assert_eq!(by(&pair), expected);
    }
    for (number, expected) in [
        (1, ChunkPolicy::Backlog),
        (9, ChunkPolicy::Backlog),
        (0, Ecf),
    ] {
        let now = pair.now;
        pair.sides[GATEWAY].on_scheduler(now, number);
        assert_eq!(by(&pair), expected, "{number}");
    }
    let plain = begun(Auto, Ecf, true);
    assert_eq!(by(&plain), Ecf, "no policy was chosen");
}

#[test]
fn a_gateway_that_does_not_follow_says_so_and_keeps_its_policy() {
    let mut pair = begun(ChunkPolicy::Redundant, ChunkPolicy::Ecf, false);
    assert_eq!(pair.sides[CLIENT].peer_follows_scheduler(), Some(false));
    let now = pair.now;
    pair.sides[GATEWAY].on_scheduler(now, 8);
    assert_eq!(pair.sides[GATEWAY].scheduler(), ChunkPolicy::Ecf);
}
