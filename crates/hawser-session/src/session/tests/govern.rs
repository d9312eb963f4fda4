use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use hawser_sched::chunk::ChunkPolicy;
use hawser_sched::governor::{Exclusion, Harm, Standing};
use hawser_sched::rules::LinkRules;
use hawser_types::{ChannelId, LimitedBy, LinkIndex, Permission, StreamId};
use hawser_wire::{ChannelRole, Command};

use super::pair::{CLIENT, GATEWAY, Pair, link, pattern};
use super::raw;
use crate::{Event, Misbehaviour, PeerFault, SessionConfig};

const MB: usize = 1_000_000;
const BACKUP: Permission = Permission::Reserve(LimitedBy::Choice);
const NEVER: Permission = Permission::Forbidden(LimitedBy::Choice);

/// The rules in which link 2 has these permissions.
fn second(up: Permission, down: Permission) -> BTreeMap<LinkIndex, LinkRules> {
    let rules = LinkRules {
        up,
        down,
        ..LinkRules::default()
    };
    BTreeMap::from([(LinkIndex::new(2), rules)])
}

/// Two links with two channels each; 2 and 3 are on the second, which is the quicker one.
fn two_links(scheduler: ChunkPolicy, rules: &BTreeMap<LinkIndex, LinkRules>) -> Pair {
    let config = SessionConfig {
        scheduler,
        ..SessionConfig::default()
    };
    let mut pair = Pair::new(config);
    pair.sides[CLIENT].set_rules(pair.now, rules);
    let (slow, quick) = (link(1, 20, 20), link(2, 20, 5));
    pair.add_channel(0, ChannelRole::Express, &slow);
    pair.run_for(100);
    pair.add_channel(1, ChannelRole::Bulk, &slow);
    pair.add_channel(2, ChannelRole::Bulk, &quick);
    pair.add_channel(3, ChannelRole::Express, &quick);
    pair
}

/// Chunk bytes that a side has sent on the second link.
fn sent_on_second(pair: &Pair, side: usize) -> u64 {
    let channels = pair.sides[side].snapshot(pair.now, 0).channels;
    let second = channels.iter().filter(|c| c.link == LinkIndex::new(2));
    second.map(|channel| channel.sent.as_u64()).sum()
}

#[test]
fn under_every_policy_a_backup_carries_nothing_while_another_link_lives() {
    for policy in ChunkPolicy::ALL {
        for from in [CLIENT, GATEWAY] {
            let mut pair = two_links(policy, &second(BACKUP, BACKUP));
            let data = pattern(MB);
            assert!(pair.transfer(from, &data).0 == data);
            for side in [CLIENT, GATEWAY] {
                assert_eq!(sent_on_second(&pair, side), 0, "{policy} from {from}");
            }
        }
    }
}

#[test]
fn under_every_policy_others_get_what_a_preferred_link_cannot_take() {
    for policy in ChunkPolicy::ALL {
        if policy == ChunkPolicy::Redundant {
            continue;
        }
        let rules = second(Permission::Preferred, Permission::Preferred);
        let mut pair = two_links(policy, &rules);
        let data = pattern(4 * MB);
        let (got, took) = pair.transfer(CLIENT, &data);
        assert!(got == data);
        // One link alone would take 1.6 s, and some policies may find that sooner.
        let uses_all = matches!(policy, ChunkPolicy::Backlog | ChunkPolicy::Auto);
        assert!(!uses_all || took.as_millis() < 1400, "{policy}: {took:?}");
        let before = sent_on_second(&pair, CLIENT);
        // Data in pieces that one link can take.
        for _ in 0..20 {
            assert!(pair.transfer(CLIENT, &data[..1200]).0 == data[..1200]);
            pair.run_for(20);
        }
        let moved = sent_on_second(&pair, CLIENT) - before;
        assert!(moved >= 20 * 1200, "{policy}: {moved}");
    }
}

#[test]
fn rules_hold_for_one_direction() {
    let mut pair = two_links(ChunkPolicy::default(), &second(NEVER, Permission::Allowed));
    let data = pattern(MB);
    assert!(pair.transfer(CLIENT, &data).0 == data);
    assert!(pair.transfer(GATEWAY, &data).0 == data);
    assert_eq!(sent_on_second(&pair, CLIENT), 0);
    assert!(sent_on_second(&pair, GATEWAY) > 200_000);
}

#[test]
fn a_backup_takes_over_when_the_last_other_link_falls_silent_and_stands_back_later() {
    for from in [CLIENT, GATEWAY] {
        let mut pair = two_links(ChunkPolicy::default(), &second(BACKUP, BACKUP));
        let id = open(&mut pair, from);
        let data = pattern(4 * MB);
        let mut rest = Bytes::from(data.clone());
        pair.sides[from].write(pair.now, id, &mut rest).unwrap();
        pair.run_for(200);
        pair.hole(0);
        pair.hole(1);
        let mut got = Vec::new();
        for _ in 0..4000 {
            pair.sides[from].write(pair.now, id, &mut rest).unwrap();
            pair.run_for(1);
            pair.read_into(1 - from, id, &mut got);
        }
        assert!(got == data, "{} of {}", got.len(), data.len());
        assert!(sent_on_second(&pair, from) > 0);

        let third = link(3, 20, 10);
        pair.add_channel(10, ChannelRole::Bulk, &third);
        pair.add_channel(11, ChannelRole::Express, &third);
        pair.run_for(100);
        let before = [CLIENT, GATEWAY].map(|side| sent_on_second(&pair, side));
        assert!(pair.transfer(from, &data[..MB]).0 == data[..MB]);
        let after = [CLIENT, GATEWAY].map(|side| sent_on_second(&pair, side));
        assert_eq!(before, after);
    }
}

#[test]
fn rules_change_under_a_running_transfer_and_no_byte_is_lost() {
    let mut pair = two_links(ChunkPolicy::default(), &BTreeMap::new());
    let ids = [CLIENT, GATEWAY].map(|from| open(&mut pair, from));
    let data = pattern(8 * MB);
    let mut rest = [(); 2].map(|()| Bytes::from(data.clone()));
    let mut got = [(); 2].map(|()| Vec::new());
    let mut sent = [0; 2];
    for millis in 0..8000 {
        match millis {
            300 => {
                let rules = second(NEVER, BACKUP);
                pair.sides[CLIENT].set_rules(pair.now, &rules);
            }
            600 => sent = [CLIENT, GATEWAY].map(|side| sent_on_second(&pair, side)),
            1200 => {
                let now = [CLIENT, GATEWAY].map(|side| sent_on_second(&pair, side));
                assert_eq!(sent, now);
                assert!(sent.iter().all(|sent| *sent > 0));
                let rules = second(Permission::Allowed, Permission::Preferred);
                pair.sides[CLIENT].set_rules(pair.now, &rules);
            }
            _ => {}
        }
        for from in [CLIENT, GATEWAY] {
            let stream = ids[from];
            pair.sides[from]
                .write(pair.now, stream, &mut rest[from])
                .unwrap();
        }
        pair.run_for(1);
        for from in [CLIENT, GATEWAY] {
            pair.read_into(1 - from, ids[from], &mut got[from]);
        }
    }
    assert!(got.iter().all(|got| *got == data));
    for side in [CLIENT, GATEWAY] {
        assert!(sent_on_second(&pair, side) > sent[side] + MB as u64);
        assert_eq!(
            pair.sides[side]
                .snapshot(pair.now, 0)
                .counters
                .channels_lost,
            0
        );
    }
}

#[test]
fn a_link_that_may_not_be_used_is_not_used_for_want_of_others_either() {
    let mut pair = two_links(ChunkPolicy::default(), &second(NEVER, NEVER));
    pair.cut(0);
    pair.cut(1);
    let id = open(&mut pair, CLIENT);
    let mut rest = Bytes::from(pattern(1000));
    pair.sides[CLIENT].write(pair.now, id, &mut rest).unwrap();
    pair.run_for(500);
    assert_eq!(sent_on_second(&pair, CLIENT), 0);
    let links = pair.sides[CLIENT].snapshot(pair.now, 0).links;
    assert_eq!(links[1].standing, Standing::Excluded(Exclusion::Never));
    pair.sides[CLIENT].set_rules(pair.now, &BTreeMap::new());
    let mut got = Vec::new();
    pair.read_for(100, GATEWAY, id, &mut got);
    assert_eq!(got.len(), 1000);
}

#[test]
fn what_went_over_a_link_is_known_after_its_channels_are_gone_and_at_both_ends() {
    let mut pair = two_links(ChunkPolicy::default(), &BTreeMap::new());
    let data = pattern(MB);
    assert!(pair.transfer(CLIENT, &data).0 == data);
    pair.run_for(100);
    pair.cut(2);
    pair.cut(3);
    let [client, gateway] =
        [CLIENT, GATEWAY].map(|side| pair.sides[side].snapshot(pair.now, 0).links);
    let sent: u64 = client.iter().map(|link| link.sent.as_u64()).sum();
    assert!((MB as u64..MB as u64 * 11 / 10).contains(&sent), "{sent}");
    assert!(client.iter().all(|link| link.sent.as_u64() > 100_000));
    for (here, there) in client.iter().zip(&gateway) {
        assert_eq!(here.link, there.link);
        // Acknowledgements may have been on their way when the channels were cut.
        let lost = [here.sent - there.received, there.sent - here.received];
        assert!(lost.iter().all(|lost| lost.as_u64() < 500), "{lost:?}");
    }
}

#[test]
fn a_link_that_stalls_the_other_for_more_than_it_brings_is_found_out() {
    let config = SessionConfig {
        scheduler: ChunkPolicy::RoundRobin,
        receive_memory: hawser_types::ByteCount::from_mib(1),
        ..SessionConfig::default()
    };
    let mut pair = Pair::new(config);
    let (good, bad) = (link(1, 50, 5), link(2, 1, 300));
    pair.add_channel(0, ChannelRole::Express, &good);
    pair.add_channel(1, ChannelRole::Bulk, &good);
    pair.add_channel(2, ChannelRole::Bulk, &bad);
    let id = open(&mut pair, CLIENT);
    let mut rest = Bytes::from(pattern(20 * MB));
    let (mut got, mut probing) = (Vec::new(), 0);
    for _ in 0..6000 {
        pair.sides[CLIENT].write(pair.now, id, &mut rest).unwrap();
        pair.run_for(1);
        pair.read_into(GATEWAY, id, &mut got);
        let links = pair.sides[CLIENT].snapshot(pair.now, 0).links;
        assert_eq!(links[0].standing, Standing::Full);
        probing += u32::from(links[1].standing == Standing::Probing(Harm::LowersGoodput));
    }
    let links = pair.sides[CLIENT].snapshot(pair.now, 0).links;
    assert!(probing > 500, "{probing} {links:?}");
    let delivered: u64 = links.iter().map(|link| link.delivered.as_u64()).sum();
    assert!(delivered >= got.len() as u64);
    assert!(links[1].blocked > links[0].blocked * 4, "{links:?}");
}

#[test]
fn only_a_client_says_what_its_user_allows() {
    is_refused_by_a_client(&Command::LinkRules(Vec::new()));
}

#[test]
fn only_a_client_says_that_it_accepts_joins() {
    is_refused_by_a_client(&Command::AcceptsJoins { port: 7450 });
}

fn is_refused_by_a_client(command: &Command) {
    let mut pair = Pair::new(SessionConfig::default());
    pair.sides[CLIENT].add_channel(pair.now, raw::spec(0, ChannelRole::Express, 1));
    let mut bytes = BytesMut::new();
    raw::HELLO.encode(&mut bytes);
    command.encode(&mut bytes);
    let record = raw::commands_at(0, &bytes);
    let result = pair.sides[CLIENT].handle_record(pair.now, ChannelId::new(0), record);
    let fault = PeerFault::Misbehaved(Misbehaviour::WrongSide);
    assert_eq!(result, Err(fault));
}

#[test]
fn a_gateway_hears_at_which_port_its_client_accepts_joins() {
    let mut pair = Pair::new(SessionConfig::default());
    pair.add_channel(0, ChannelRole::Express, &link(1, 20, 20));
    for port in [80, 7450] {
        pair.sides[CLIENT].accept_joins(pair.now, port);
    }
    pair.run_for(200);
    let mut told = pair.events[GATEWAY].iter();
    // A service's port is not told.
    let is_told = |event: &&Event| matches!(event, Event::JoinsAccepted(_));
    assert_eq!(told.find(is_told), Some(&Event::JoinsAccepted(7450)));
    assert_eq!(told.find(is_told), None);
}

fn open(pair: &mut Pair, from: usize) -> StreamId {
    let opened = pair.sides[from].open_stream(pair.now, Bytes::new());
    opened.unwrap()
}
