use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use hawser_sched::PathView;
use hawser_sched::rules::LinkRules;
use hawser_types::{ByteCount, LimitedBy, LinkIndex, Permission};
use proptest::prelude::*;
use smallvec::SmallVec;

use super::*;
use crate::PathSelector;
use crate::path::Path;

const fn ms(value: u64) -> Duration {
    Duration::from_millis(value)
}

fn at(value: u64) -> Instant {
    Instant::ZERO + ms(value)
}

fn route(local: u8, remote: u8) -> Route {
    Route {
        local: Local {
            link: LinkIndex::new(u32::from(local)),
            address: IpAddr::V4(Ipv4Addr::new(10, 0, 0, local)),
        },
        remote: SocketAddr::from(([192, 0, 2, remote], 9899)),
    }
}

/// Where answers come from; it does not matter for paths that the peer has named.
fn somewhere() -> SocketAddr {
    route(1, 1).remote
}

/// A path table over a network where each pair has a round-trip time or is cut.
struct Network {
    now: Instant,
    paths: Paths,
    /// Round-trip times by path number.
    rtts: Vec<Option<Duration>>,
    answers: Vec<(Instant, Vec<u8>)>,
    largest: usize,
    sent: usize,
}

impl Network {
    fn new(config: &AssociationConfig, rtts: &[(Route, Option<u64>)]) -> Self {
        let mut paths = Paths::new(config, 7);
        for (route, _) in rtts {
            paths.add(at(0), *route, false).unwrap();
        }
        Self {
            now: at(0),
            paths,
            rtts: rtts.iter().map(|(_, rtt)| rtt.map(ms)).collect(),
            answers: Vec::new(),
            largest: 1300,
            sent: 0,
        }
    }

    fn run(&mut self, span: Duration) {
        let end = self.now + span;
        loop {
            let next = self.answers.iter().map(|(at, _)| *at);
            let next = next.chain(self.paths.poll_timeout()).min().unwrap_or(end);
            if next > end {
                self.now = end;
                return;
            }
            self.now = self.now.max(next);
            let now = self.now;
            for (_, info) in self.answers.extract_if(.., |(at, _)| *at <= now) {
                self.paths.on_heartbeat_ack(now, somewhere(), &info);
            }
            self.paths.handle_timeout(now);
            while let Some(heartbeat) = self.paths.poll_heartbeat(now) {
                self.sent += 1;
                let size = usize::from(heartbeat.pad) + 36;
                let rtt = self.rtts[heartbeat.path.value() as usize];
                if let Some(rtt) = rtt.filter(|_| size <= self.largest) {
                    self.answers.push((now + rtt, heartbeat.info.to_vec()));
                }
            }
        }
    }

    fn states(&self) -> Vec<PathState> {
        self.paths.iter().map(|path| path.state).collect()
    }

    fn selected(&self) -> Vec<u32> {
        let selected = self.paths.iter().filter(|path| path.selected);
        selected.map(|path| path.id.value()).collect()
    }

    fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.paths.poll_event()).collect()
    }
}

#[test]
fn heartbeats_find_the_pairs_that_answer_and_how_quickly() {
    let pairs = [
        (route(1, 1), Some(20)),
        (route(1, 2), None),
        (route(2, 1), Some(70)),
    ];
    let mut network = Network::new(&AssociationConfig::default(), &pairs);
    assert_eq!(network.paths.best(at(0)), Some(PathId::new(0)));
    network.run(ms(100));
    use PathState::{Active, Unconfirmed};
    assert_eq!(network.states(), [Active, Unconfirmed, Active]);
    assert_eq!(
        network.events(),
        [Event::PathUp(route(1, 1)), Event::PathUp(route(2, 1))]
    );
    let rtts = network.paths.iter().map(|path| path.rtt.smoothed());
    assert_eq!(rtts.collect::<Vec<_>>(), [Some(ms(20)), None, Some(ms(70))]);
    assert_eq!(network.paths.best(at(100)), Some(PathId::new(0)));
    assert_eq!(network.selected(), [0, 2]);
}

/// Two links of the peer behind one NAT: one address, two ports.
#[test]
fn what_is_said_of_a_link_holds_for_the_path_that_the_peer_says_is_its() {
    let named = AssociationConfig {
        announces_links: true,
        ..AssociationConfig::default()
    };
    let (mut ours, mut theirs) = (
        Paths::new(&AssociationConfig::default(), 7),
        Paths::new(&named, 8),
    );
    let from = |port| {
        let mut route = route(1, 1);
        route.remote.set_port(port);
        route
    };
    let ids = [4000, 4001].map(|port| ours.add(at(0), from(port), true).unwrap());
    for link in [5, 6] {
        theirs.add(at(0), route(link, 1), true).unwrap();
    }
    let info = |paths, link| LinkInfo {
        paths,
        link: LinkIndex::new(link),
        rules: LinkRules::default(),
    };
    let peer = |link| info(PathSelector::Peer(LinkIndex::new(link)), link);
    let address = info(PathSelector::Remote(from(4000).remote.ip()), 6);
    let [link_of_5, link_of_6] = [5, 6].map(|number| route(number, 1).local.link.value());
    ours.set_links(vec![peer(link_of_5), peer(link_of_6), address]);
    let links = |ours: &Paths| ids.map(|id| ours.path(id).unwrap().link.value());
    assert_eq!(links(&ours), [6, 6]);
    for port in [4000, 4001] {
        let heartbeat = theirs.poll_heartbeat(at(0)).unwrap();
        ours.on_heartbeat(&from(port), &heartbeat.info);
        theirs.on_heartbeat_ack(at(10), somewhere(), &heartbeat.info);
    }
    assert_eq!(links(&ours), [link_of_5, link_of_6]);
    assert!(theirs.iter().all(|path| path.rtt.smoothed().is_some()));
    // None of these states a link.
    let plain = ours.poll_heartbeat(at(0)).unwrap().info;
    for info in [&plain[..], &[], &[0; 16], &[255; 16], &[1; 17]] {
        ours.on_heartbeat(&from(4000), info);
    }
    assert_eq!(links(&ours), [link_of_5, link_of_6]);
}

#[test]
fn a_forged_or_repeated_answer_is_passed_over() {
    let mut paths = Paths::new(&AssociationConfig::default(), 7);
    paths.add(at(0), route(1, 1), false).unwrap();
    let heartbeat = paths.poll_heartbeat(at(0)).unwrap();
    let mut forged = heartbeat.info.to_vec();
    forged[11] ^= 1;
    for info in [&forged[..], &[], &[0; 11], &[255; 4096]] {
        paths.on_heartbeat_ack(at(5), somewhere(), info);
        assert_eq!(paths.iter().next().unwrap().state, PathState::Unconfirmed);
    }
    paths.on_heartbeat_ack(at(10), somewhere(), &heartbeat.info);
    paths.on_heartbeat_ack(at(9000), somewhere(), &heartbeat.info);
    let path = paths.iter().next().unwrap();
    assert_eq!((path.state, path.rtt.latest()), (PathState::Active, ms(10)));
}

#[test]
fn a_path_goes_down_after_timeouts_in_a_row_and_returns_by_a_heartbeat() {
    let config = AssociationConfig::default();
    let pairs = [(route(1, 1), Some(20)), (route(2, 1), Some(30))];
    let mut network = Network::new(&config, &pairs);
    network.run(ms(100));
    network.events();
    let (now, id) = (network.now, PathId::new(0));
    let time_out = |network: &mut Network, seconds| {
        let then = now + Duration::from_secs(seconds);
        network.paths.on_timeout_counted(then, now, id);
    };
    (1..32).for_each(|seconds| time_out(&mut network, seconds));
    network.paths.on_answered(now, id);
    (1..32).for_each(|seconds| time_out(&mut network, seconds));
    // However many heartbeats are sent meanwhile.
    (32..63).for_each(|seconds| time_out(&mut network, seconds));
    assert_eq!(network.events(), []);
    time_out(&mut network, 63);
    assert_eq!(network.events(), [Event::PathDown(route(1, 1))]);
    assert_eq!(
        (network.selected(), network.paths.best(now)),
        (vec![1], Some(PathId::new(1)))
    );
    network.run(config.heartbeat_interval * 2);
    assert_eq!(network.events(), [Event::PathUp(route(1, 1))]);
    assert_eq!(network.selected(), [0, 1]);
}

#[test]
fn an_outage_is_seen_by_heartbeats_alone_and_its_end_within_some_intervals() {
    let config = AssociationConfig::default();
    let mut network = Network::new(&config, &[(route(1, 1), Some(20)), (route(2, 1), Some(30))]);
    network.run(ms(100));
    network.events();
    network.rtts[1] = None;
    network.run(config.heartbeat_interval * 20);
    assert_eq!(network.events(), [Event::PathDown(route(2, 1))]);
    assert!(!network.paths.is_lost(network.now));
    network.rtts[1] = Some(ms(30));
    network.run(config.heartbeat_interval * 3);
    assert_eq!(network.events(), [Event::PathUp(route(2, 1))]);
}

#[test]
fn the_association_is_lost_when_no_path_answers_any_more() {
    let config = AssociationConfig::default();
    let mut network = Network::new(&config, &[(route(1, 1), Some(20)), (route(2, 1), Some(30))]);
    network.run(ms(100));
    network.rtts = vec![None, None];
    // A minute until they are inactive, and five more.
    network.run(Duration::from_secs(360));
    assert!(!network.paths.is_lost(network.now));
    network.run(Duration::from_secs(30));
    assert!(network.paths.is_lost(network.now));
}

#[test]
fn an_address_that_never_answered_does_not_put_off_the_end() {
    let config = AssociationConfig::default();
    let ends_after = |others: &[(Route, Option<u64>)]| {
        let pairs = [&[(route(1, 1), Some(20))], others].concat();
        let mut network = Network::new(&config, &pairs);
        network.run(Duration::from_secs(300));
        network.rtts[0] = None;
        let began = network.now;
        while !network.paths.is_lost(network.now) {
            network.run(Duration::from_secs(1));
        }
        network.now.since(began)
    };
    let alone = ends_after(&[]);
    let beside = ends_after(&[(route(1, 2), None)]);
    assert!(
        beside < alone + Duration::from_secs(10),
        "{alone:?} {beside:?}"
    );
    let mut fresh = Network::new(&config, &[(route(1, 1), None)]);
    (0..20).for_each(|_| fresh.paths.on_timeout_counted(at(0), at(0), PathId::new(0)));
    fresh.paths.add(fresh.now, route(1, 3), false);
    assert!(!fresh.paths.is_lost(fresh.now), "a new one may answer yet");
}

#[test]
fn control_chunks_leave_a_path_at_its_first_time_out_while_another_answers() {
    let config = AssociationConfig::default();
    let mut network = Network::new(&config, &[(route(1, 1), Some(20)), (route(2, 1), Some(90))]);
    network.run(ms(200));
    assert_eq!(network.paths.best(network.now), Some(PathId::new(0)));
    time_out_once(&mut network, 0);
    assert_eq!(network.paths.best(network.now), Some(PathId::new(1)));
}

fn time_out_once(network: &mut Network, path: u32) {
    let now = network.now;
    let paths = &mut network.paths;
    paths.on_timeout_counted(now, now, PathId::new(path));
}

#[test]
fn an_unreachable_pair_is_asked_a_bounded_number_of_times() {
    let config = AssociationConfig::default();
    let mut network = Network::new(&config, &[(route(1, 1), None)]);
    network.run(Duration::from_secs(600));
    assert!((10..30).contains(&network.sent), "{}", network.sent);
}

#[test]
fn the_papers_selection_follows_what_heartbeats_find() {
    let config = AssociationConfig::paper();
    let pairs = [
        (route(1, 1), Some(20)),
        (route(1, 2), Some(90)),
        (route(2, 1), Some(30)),
        (route(2, 2), Some(40)),
    ];
    let mut network = Network::new(&config, &pairs);
    network.run(ms(200));
    // 1-1 and 2-1 are fastest; 2-2 is selected for the second address of the peer.
    assert_eq!(network.selected(), [0, 3]);
    network.rtts[0] = None;
    network.run(Duration::from_secs(600));
    assert_eq!(network.selected(), [1, 2]);
}

#[test]
fn larger_packets_are_used_once_they_are_known_to_pass() {
    let mut network = Network::new(&AssociationConfig::default(), &[(route(1, 1), Some(20))]);
    assert_eq!(network.paths.smallest_packet(), 1200);
    network.run(Duration::from_secs(30));
    let size = network.paths.smallest_packet();
    assert!((1284..=1300).contains(&size), "{size}");
    assert!(network.states() == [PathState::Active]);
    let now = network.now;
    for _ in 0..2 {
        network
            .paths
            .path_mut(PathId::new(0))
            .unwrap()
            .on_timeout(now);
        // Heartbeats are small and still answered.
        network.paths.on_answered(now, PathId::new(0));
    }
    assert_eq!(network.paths.smallest_packet(), 1200);
}

#[test]
fn removed_paths_are_gone_and_their_numbers_are_not_used_again() {
    let mut paths = Paths::new(&AssociationConfig::default(), 7);
    let ids: Vec<_> = [(1, 1), (1, 2), (2, 1)]
        .map(|(local, remote)| paths.add(at(0), route(local, remote), true).unwrap())
        .into();
    assert_eq!(paths.add(at(0), route(1, 2), false), Some(ids[1]));
    assert_eq!(paths.remove_local(route(1, 1).local), ids[..2]);
    assert_eq!(paths.remove_remote(route(1, 1).remote.ip()), ids[2..]);
    assert!(paths.best(at(0)).is_none() && paths.path(ids[0]).is_none() && !paths.is_lost(at(0)));
    let new = paths.add(at(0), route(1, 1), true).unwrap();
    assert!(!ids.contains(&new));
}

#[test]
fn there_are_only_so_many_paths() {
    let mut paths = Paths::new(&AssociationConfig::default(), 7);
    let added = (0..255).filter(|n| paths.add(at(0), route(*n, 1), true).is_some());
    assert_eq!(added.count(), MAX_PATHS);
}

#[test]
fn schedulers_see_what_may_carry_data_and_the_next_best_where_nothing_may() {
    let mut paths = Paths::new(&AssociationConfig::default(), 7);
    let first = paths.add(at(0), route(1, 1), true).unwrap();
    let second = paths.add(at(0), route(2, 1), false).unwrap();
    let numbers = |views: &[PathView]| -> Vec<u32> {
        views.iter().map(|view| view.channel.value()).collect()
    };
    assert_eq!(numbers(paths.views(at(0), Path::has_room)), [0]);
    paths.on_answered(at(0), second);
    assert_eq!(numbers(paths.views(at(0), Path::has_room)), [0, 1]);
    (0..9).for_each(|_| paths.on_timeout_counted(at(100_000), at(0), first));
    let views = paths.views(at(0), Path::has_room);
    assert_eq!(numbers(views), [1]);
    assert!(views[0].ready && views[0].chunk == ByteCount::new(1200 - 32));
    (0..9).for_each(|_| paths.on_timeout_counted(at(100_000), at(0), second));
    assert_eq!(numbers(paths.views(at(0), Path::has_room)), [0, 1]);
}

/// Sends a data packet over a path, without an answer.
fn send(paths: &mut Paths, now: Instant, id: PathId) {
    let path = paths.path_mut(id).unwrap();
    path.on_sent(now, ByteCount::new(1000), path.flight.bytes());
    path.flight.on_sent(now, SmallVec::new(), 1000, None);
}

#[test]
fn a_path_that_is_silent_against_expectation_is_suspect_and_asked_at_once() {
    let config = AssociationConfig::default();
    let mut network = Network::new(&config, &[(route(1, 1), Some(20)), (route(2, 1), Some(30))]);
    network.largest = 1500;
    network.run(ms(500));
    let (id, sent) = (PathId::new(0), network.sent);
    send(&mut network.paths, network.now, id);
    let suspect = |network: &mut Network| {
        let views = network.paths.views(network.now, Path::has_room);
        views.iter().map(|view| view.suspect).collect::<Vec<_>>()
    };
    network.run(ms(100));
    assert_eq!(
        (suspect(&mut network), network.sent),
        (vec![false, false], sent)
    );
    network.rtts[0] = None;
    network.run(ms(200));
    assert_eq!(suspect(&mut network), [true, false]);
    assert_eq!(network.sent, sent + 1);
    assert_eq!(network.paths.best(network.now), Some(PathId::new(1)));
    network.rtts[0] = Some(ms(20));
    network.run(ms(1500));
    assert_eq!(suspect(&mut network), [false, false]);
}

#[test]
fn control_chunks_go_where_the_peer_prefers_while_it_answers() {
    let config = AssociationConfig::default();
    let mut network = Network::new(&config, &[(route(1, 1), Some(20)), (route(1, 2), Some(30))]);
    network.run(ms(100));
    network.paths.prefer(route(1, 2).remote.ip());
    assert_eq!(network.paths.best(network.now), Some(PathId::new(1)));
    (0..9).for_each(|_| time_out_once(&mut network, 1));
    assert_eq!(network.paths.best(network.now), Some(PathId::new(0)));
}

proptest! {
    /// In any order of events, the table stays usable and its timers advance.
    #[test]
    fn no_order_of_events_breaks_the_table(
        steps in prop::collection::vec((0u8..8, 0u8..4, 0u64..100_000), 0..200),
    ) {
        let mut paths = Paths::new(&AssociationConfig::paper(), 7);
        let (mut now, mut infos) = (at(0), Vec::<bytes::Bytes>::new());
        for (step, n, wait) in steps {
            let id = PathId::new(u32::from(n));
            now += ms(wait);
            match step {
                0 => { paths.add(now, route(n, n / 2), n == 0); }
                1 => { paths.remove_local(route(n, 0).local); }
                2 => paths.on_timeout_counted(now, now, id),
                3 => paths.on_answered(now, id),
                4 => if let Some(info) = infos.pop() {
                    paths.on_heartbeat_ack(now, somewhere(), &info);
                },
                5 => { paths.handle_timeout(now); }
                6 => if let Some(path) = paths.path_mut(id) {
                    path.on_timeout(now);
                    path.on_sent(now, ByteCount::new(wait), ByteCount::ZERO);
                },
                _ => {
                    paths.handle_timeout(now);
                    let mut count = 0;
                    while let Some(heartbeat) = paths.poll_heartbeat(now) {
                        infos.push(heartbeat.info);
                        count += 1;
                        prop_assert!(count < 100);
                    }
                    prop_assert!(paths.poll_timeout().is_none_or(|at| at > now));
                }
            }
            let views = paths.views(now, Path::has_room).to_vec();
            prop_assert!(views.is_sorted_by_key(|view| view.channel));
        }
    }
}

#[test]
fn what_the_user_forbids_carries_nothing_and_what_is_kept_in_reserve_waits_for_the_others_to_fail()
{
    let mut paths = Paths::new(&AssociationConfig::default(), 7);
    let ids: Vec<PathId> = (1..=3)
        .map(|number| paths.add(at(0), route(number, 1), true).unwrap())
        .collect();
    let numbers = |paths: &mut Paths| -> Vec<u32> {
        let views = paths.views(at(0), Path::has_room);
        views.iter().map(|view| view.channel.value()).collect()
    };
    let info = |paths, up| LinkInfo {
        paths,
        link: LinkIndex::new(70),
        rules: LinkRules {
            up,
            price: 2.5,
            ..LinkRules::default()
        },
    };
    let link = |number| PathSelector::Link(route(number, 1).local.link);
    let remote = PathSelector::Remote(route(3, 1).remote.ip());
    paths.set_links(vec![
        info(link(1), Permission::Forbidden(LimitedBy::Choice)),
        info(link(2), Permission::Reserve(LimitedBy::Choice)),
        info(remote, Permission::Preferred),
    ]);
    assert_eq!(numbers(&mut paths), [2]);
    let view = paths.views(at(0), Path::has_room)[0].clone();
    assert!(view.preferred && view.price == 2.5, "{view:?}");
    assert_eq!(view.link, LinkIndex::new(70));
    (0..9).for_each(|_| paths.on_timeout_counted(at(100_000), at(0), ids[2]));
    assert_eq!(numbers(&mut paths), [1], "the one in reserve");
    paths.remove_local(route(2, 1).local);
    assert_eq!(numbers(&mut paths), [2], "it may come back");
    paths.remove_local(route(3, 1).local);
    assert!(numbers(&mut paths).is_empty());
    // A link entry applies to paths added later.
    paths.add(at(0), route(2, 1), true);
    paths.add(at(0), route(4, 1), true);
    assert_eq!(numbers(&mut paths), [4]);
}
