//! Groups of streams have equal shares.

use bytes::Bytes;
use hawser_types::{StreamGroup, StreamId};
use hawser_wire::ChannelRole;

use super::pair::{CLIENT, GATEWAY, Pair, link, pattern};

/// Sends by one stream of the first group and eight of the second for eight seconds, from one end;
/// the client has opened them. Returns what came for each group.
fn sent_by_one_and_eight(from: usize, groups: [StreamGroup; 2]) -> [usize; 2] {
    let mut pair = Pair::over(&[link(1, 20, 5), link(2, 20, 30)]);
    pair.add_channel(2, ChannelRole::Bulk, &link(1, 20, 5));
    pair.run_for(200);
    let mut open = Vec::new();
    for (place, count) in [(0, 1), (1, 8)] {
        for _ in 0..count {
            let (now, client) = (pair.now, &mut pair.sides[CLIENT]);
            let id = client.open_stream_for(now, groups[place], Bytes::new());
            open.push((place, id.unwrap(), Vec::new()));
        }
    }
    pair.run_for(200);
    let data = Bytes::from(pattern(200_000));
    let to = [GATEWAY, CLIENT][from];
    for _ in 0..400 {
        for (_, id, got) in &mut open {
            let (now, sender) = (pair.now, &mut pair.sides[from]);
            sender.write(now, *id, &mut data.clone()).unwrap();
            pair.read_into(to, *id, got);
        }
        pair.run_for(20);
    }
    let came = |wanted| {
        let of_group = open.iter().filter(|(place, ..)| *place == wanted);
        of_group.map(|(.., got)| got.len()).sum()
    };
    [0, 1].map(came)
}

/// Jain's index: 1 where both have as much, a half where one has all.
fn jain(shares: [usize; 2]) -> f64 {
    let [one, other] = shares.map(|it| it as f64);
    (one + other).powi(2) / (2.0 * (one * one + other * other))
}

#[test]
fn groups_have_equal_shares_of_what_either_end_sends_whatever_number_of_streams_they_have() {
    let [one, other] = [7, 1 << 29].map(StreamGroup::new);
    for from in [CLIENT, GATEWAY] {
        let shares = sent_by_one_and_eight(from, [one, other]);
        assert!(jain(shares) >= 0.95, "{shares:?} from {from}");
        // So have the client's own streams.
        let shares = sent_by_one_and_eight(from, [StreamGroup::OWN, other]);
        assert!(jain(shares) >= 0.95, "{shares:?} from {from}");
        // Streams of one group share by stream.
        let shares = sent_by_one_and_eight(from, [one, one]);
        assert!(jain(shares) < 0.75, "{shares:?} from {from}");
    }
}

#[test]
fn an_end_learns_the_groups_of_streams_that_the_other_one_opens_and_of_no_others() {
    let mut pair = Pair::over(&[link(1, 20, 5)]);
    pair.run_for(200);
    let group = StreamGroup::new(5);
    let now = pair.now;
    let own = pair.sides[CLIENT].open_stream(now, Bytes::new()).unwrap();
    let id = pair.sides[CLIENT].open_stream_for(now, group, Bytes::new());
    let id = id.unwrap();
    pair.run_for(200);
    let group_of = |pair: &Pair, side: usize, id: StreamId| {
        pair.sides[side].streams.get(id).map(|it| it.group())
    };
    assert_eq!(group_of(&pair, GATEWAY, id), Some(group));
    assert_eq!(group_of(&pair, GATEWAY, own), Some(StreamGroup::OWN));
    // The answer's opening chunk says nothing of it.
    pair.sides[GATEWAY]
        .streams
        .set_group(pair.now, id, StreamGroup::new(6));
    pair.sides[GATEWAY]
        .accept_stream(pair.now, id, Bytes::new())
        .unwrap();
    pair.run_for(200);
    assert_eq!(group_of(&pair, CLIENT, id), Some(group));
}
