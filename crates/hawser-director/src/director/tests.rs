mod datagrams;
mod far_ends;
mod gateway;
mod history;
mod rates;

use hawser_policy::{Action, Avoid, Class, Condition, LinkChoice, Rule, Source};
use hawser_sched::connection::Load;
use hawser_sched::rules::LinkRules;
use hawser_types::{LimitedBy, LinkKind, Permission};

use super::*;
use crate::health::Health;
use crate::testing::{Rig, RigFlow, index, link};

fn director(policy: ConnectionPolicy, links: &[&str]) -> Rig {
    Rig::with_links(policy, links)
}

fn set_links(director: &Rig, names: &[&str]) {
    director.set_links(names);
}

fn by(program: &str) -> ConnectionRequest {
    ConnectionRequest {
        program: Some(program.to_owned()),
        remote: Some("198.51.100.1".parse().unwrap()),
        port: 443,
        ..ConnectionRequest::default()
    }
}

/// Returns the links for a connection, in the order of trying.
fn order(director: &Rig, origin: &ConnectionRequest) -> Vec<String> {
    let decision = director.decide(origin);
    decision
        .candidates
        .iter()
        .map(|it| it.link.name.clone())
        .collect()
}

/// Opens a connection on the link that the director prefers.
fn connect(director: &Rig, origin: &ConnectionRequest) -> RigFlow {
    let decision = director.decide(origin);
    let link = decision.candidates[0].link.index;
    let flow = director.open(&decision, link);
    flow.connected(None);
    flow
}

fn rule(then: Action) -> Rule {
    Rule {
        name: None,
        source: Source::User,
        when: Condition::default(),
        then,
    }
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn what_is_heard_of_afterwards_is_no_moments_work() {
    let director = director(ConnectionPolicy::Auto, &["a"]);
    let decision = director.decide(&ConnectionRequest::default());
    let link = decision.candidates[0].link.index;
    director.advance(Duration::from_secs(3));
    let flow = director.open(&decision, link);
    flow.connected_since(Some(Duration::from_millis(20)), Duration::from_secs(2));
    flow.moved(0, 5_000_000);
    director.advance(Duration::from_nanos(1000));
    drop(flow);
    let down = director.report().links[0].down;
    assert_eq!(down.bits_per_second() / 1_000_000, 19);
}

#[test]
fn a_burst_spreads_before_any_of_it_has_moved() {
    let director = director(ConnectionPolicy::MaxThroughput, &["a", "b"]);
    let flows: Vec<RigFlow> = (0..10).map(|_| connect(&director, &by("x"))).collect();
    let report = director.report();
    assert!(
        report.links.iter().all(|it| it.load.connections == 5),
        "{report:?}"
    );
    drop(flows);
    assert!(
        director
            .report()
            .links
            .iter()
            .all(|it| it.load == Load::default())
    );
}

#[test]
fn what_a_connection_has_moved_is_no_load_any_more_and_idle_ones_are_none() {
    let director = director(ConnectionPolicy::MaxThroughput, &["a"]);
    let flow = connect(&director, &by("x"));
    let before = director.report().links[0].load.down;
    flow.moved(0, 1000);
    director.advance(Duration::from_millis(100));
    let load = director.report().links[0].load;
    assert_eq!(load.down, before - ByteCount::new(1000));
    director.advance(Duration::from_secs(3));
    assert_eq!(director.report().links[0].load, Load::default());
    assert_eq!(director.report().links[0].open, 1);
    flow.moved(0, 1);
    director.advance(Duration::from_millis(100));
    assert_eq!(director.report().links[0].load.connections, 1);
}

#[test]
fn connections_are_stranded_when_their_link_stays_away() {
    let director = director(ConnectionPolicy::RoundRobin, &["a", "b"]);
    let flows: Vec<RigFlow> = (0..4).map(|_| connect(&director, &by("x"))).collect();
    let stranded = || director.with(|it, now| it.stranded(now)).len();
    let secs = Duration::from_secs;
    set_links(&director, &["b"]);
    director.advance(secs(2));
    assert_eq!(stranded(), 0, "it may come back");
    set_links(&director, &["a", "b"]);
    director.advance(secs(2));
    set_links(&director, &["b"]);
    director.advance(secs(2));
    assert_eq!(stranded(), 0, "it came back meanwhile");
    director.advance(secs(1));
    assert_eq!(stranded(), 2);
    drop(flows);
    assert_eq!(stranded(), 0);
}

#[test]
fn the_next_connections_go_by_another_policy_and_what_is_open_stays() {
    let director = director(ConnectionPolicy::OnlyOne, &["a", "b"]);
    let first = connect(&director, &by("x"));
    let changed = || director.with(|it, _| it.take_change());
    changed();
    director.with(|it, _| it.set_policy(ConnectionPolicy::OnlyOne));
    assert!(!changed());
    director.with(|it, _| it.set_policy(ConnectionPolicy::RoundRobin));
    assert!(changed());
    assert_eq!(
        director.with(|it, _| it.policy()),
        ConnectionPolicy::RoundRobin
    );
    let next: Vec<RigFlow> = (0..4).map(|_| connect(&director, &by("x"))).collect();
    let on_first = next.iter().filter(|it| it.link() == first.link()).count();
    assert_eq!(on_first, 2);
    assert_eq!(director.with(|it, _| it.open_count()), 5);

    let never = LinkRules {
        up: Permission::Forbidden(LimitedBy::Choice),
        ..LinkRules::default()
    };
    let rules = AllLinkRules {
        by_name: [("a".to_owned(), never)].into(),
        ..AllLinkRules::default()
    };
    for is_news in [true, false] {
        director.set_link_rules(rules.clone());
        assert_eq!(changed(), is_news);
    }
    assert_eq!(order(&director, &by("x")), ["b"]);
    let asked = director.with(|it, _| it.links_for_names());
    assert_eq!(
        asked,
        [Link::clone(&link("b"))],
        "names go by the same rules"
    );
    assert_eq!(director.with(|it, _| it.open_count()), 5);
}

#[test]
fn what_waits_in_a_long_queue_still_counts() {
    let director = director(ConnectionPolicy::MaxThroughput, &["a"]);
    let flow = connect(&director, &by("wget"));
    director.handle_answer(flow.link(), Some(Duration::from_secs(1)));
    flow.moved(500, 1_000);
    director.advance(Duration::from_millis(100));
    let load = || director.report().links[0].load;
    assert_eq!(load().connections, 1);
    director.advance(Duration::from_millis(7_900));
    assert_eq!(load().connections, 1);
    director.advance(Duration::from_millis(200));
    assert_eq!(load(), Load::default());
    // A connection that its link has not answered yet counts for as long as programs wait.
    let decision = director.decide(&by("wget"));
    let _begun = director.open(&decision, flow.link());
    director.advance(Duration::from_secs(14));
    assert_eq!(load().connections, 1);
    director.advance(Duration::from_secs(2));
    assert_eq!(load(), Load::default());
}

#[test]
fn what_was_asked_of_a_link_says_nothing_of_it_after_it_came_back() {
    let director = director(ConnectionPolicy::Auto, &["a"]);
    let index = index("a");
    let (silent, waited) = (director.now(), Duration::from_millis(250));
    director.advance(Duration::from_secs(1));
    set_links(&director, &[]);
    set_links(&director, &["a"]);
    director.handle_silence(index, silent, waited);
    assert_eq!(director.report().links[0].health, Health::Sound);
    director.handle_silence(index, director.now(), waited);
    assert_eq!(director.report().links[0].health, Health::Suspect);
}

#[test]
fn what_rules_in_the_kernel_leave_a_connection_is_all_it_is_asked_over() {
    let director = director(ConnectionPolicy::RoundRobin, &["a", "b", "c"]);
    director.handle_silence(index("b"), director.now(), Duration::from_millis(250));
    director.advance(Duration::from_secs(2));
    let bound = ConnectionRequest {
        among: Some(vec![index("a"), index("c")]),
        ..by("x")
    };
    let decision = director.decide(&bound);
    let mut candidates: Vec<_> = decision.candidates.iter().map(|it| &it.link.name).collect();
    candidates.sort();
    assert_eq!(candidates, ["a", "c"]);
    assert!(decision.trial.is_none());
    // Other links are still available, so the suspect one can be tried.
    let trial = director.decide(&by("x")).trial;
    assert_eq!(trial.map(|link| link.name.clone()).as_deref(), Some("b"));
}

#[test]
fn what_a_link_showed_under_load_is_forgotten_when_it_is_empty() {
    let director = director(ConnectionPolicy::MaxThroughput, &["a"]);
    let flow = connect(&director, &by("wget"));
    let latency = || director.report().links[0].latency;
    director.handle_answer(flow.link(), Some(Duration::from_millis(30)));
    director.handle_answer(flow.link(), Some(Duration::from_millis(830)));
    assert!(latency() > Duration::from_millis(100));
    drop(flow);
    director.advance(Duration::from_millis(100));
    assert!(latency() <= Duration::from_millis(30));
}

#[test]
fn the_end_of_a_connection_teaches_what_its_program_needs_and_counts_for_its_link() {
    let director = director(ConnectionPolicy::MaxThroughput, &["a"]);
    let flow = connect(&director, &by("wget"));
    flow.moved(500, 9_000_000);
    drop(flow);
    assert_eq!(
        director.decide(&by("wget")).demand().down,
        ByteCount::new(9_000_000)
    );
    assert_ne!(
        director.decide(&by("curl")).demand().down,
        ByteCount::new(9_000_000)
    );
    assert_eq!(director.with(|it, _| it.take_learned()).len(), 1);
    let expected = [ByteCount::new(500), ByteCount::new(9_000_000)];
    assert_eq!(director.moved()["a"], expected);
    // A connection that was never established teaches nothing.
    let decision = director.decide(&by("wget"));
    drop(director.open(&decision, decision.candidates[0].link.index));
    assert!(director.with(|it, _| it.take_learned()).is_empty());
}

#[test]
fn rules_choose_links_and_name_their_order() {
    let director = director(ConnectionPolicy::RoundRobin, &["a", "b", "c"]);
    let links = |choice| Action {
        links: Some(choice),
        ..Action::default()
    };
    director.set_rule(rule(links(LinkChoice::Only(names(&["b"])))));
    assert_eq!(order(&director, &by("x")), ["b"]);
    director.set_rule(rule(links(LinkChoice::Order(names(&["gone", "c", "a"])))));
    assert_eq!(order(&director, &by("x")), ["c", "a"]);
    director.set_rule(rule(links(LinkChoice::Except(names(&["a", "b"])))));
    assert_eq!(order(&director, &by("x")), ["c"]);
    director.set_rule(rule(links(LinkChoice::Only(names(&["gone"])))));
    let decision = director.decide(&by("x"));
    assert!(decision.candidates.is_empty() && !decision.system.is_open);
}

#[test]
fn metered_links_and_those_with_calls_are_avoided_where_rules_say_so() {
    let director = director(ConnectionPolicy::OnlyOne, &["a", "b", "c"]);
    director.set_link_rules(AllLinkRules {
        metered: names(&["a"]),
        ..AllLinkRules::default()
    });
    director.set_rule(rule(Action {
        class: Some(Class::RealTime),
        links: Some(LinkChoice::Only(names(&["b"]))),
        ..Action::default()
    }));
    let call = connect(&director, &by("phone"));
    director.set_rule(rule(Action {
        avoid: Some(vec![Avoid::Metered, Avoid::Calls]),
        ..Action::default()
    }));
    assert_eq!(order(&director, &by("x"))[0], "c");
    drop(call);
    assert_eq!(order(&director, &by("x"))[0], "b");
}

#[test]
fn links_that_were_named_are_the_only_ones_even_while_they_are_away() {
    let director = Rig::new(ConnectionPolicy::Auto, names(&["b"]));
    set_links(&director, &["a", "b"]);
    assert_eq!(order(&director, &by("x")), ["b"]);
    set_links(&director, &["a"]);
    let decision = director.decide(&by("x"));
    assert!(decision.candidates.is_empty() && !decision.system.is_open);
}

#[test]
fn a_link_that_was_busy_shows_what_it_can_do() {
    let director = director(ConnectionPolicy::Auto, &["a", "b"]);
    let flow = connect(&director, &by("x"));
    let mut total = ByteCount::ZERO;
    for _ in 0..10 {
        flow.moved(0, 250_000);
        total += ByteCount::new(250_000);
        director.advance(Duration::from_millis(500));
        let counters = [ByteCount::ZERO, total];
        director.handle_counters(&[(flow.link(), counters)].into());
    }
    let report = director.report();
    let link = report
        .links
        .iter()
        .find(|it| it.link.index == flow.link())
        .unwrap();
    assert_eq!(link.down.bits_per_second(), 4_000_000);
    assert_eq!(link.up.bits_per_second(), 0, "no bytes were sent");
}

#[test]
fn what_a_connection_moves_before_it_pauses_is_what_its_link_can_do() {
    let director = director(ConnectionPolicy::Auto, &["a"]);
    let wait = |seconds| director.advance(Duration::from_secs(seconds));
    wait(1);
    let flow = connect(&director, &by("x"));
    let began = director.now();
    let down = || director.report().links[0].down.bits_per_second();
    wait(1);
    assert_eq!(down(), 0);
    // Reported in one piece, as by the kernel's program, and checked since.
    flow.moved_since(began, 0, 2_500_000);
    director.moved();
    assert_eq!(down(), 0, "it may go on");
    wait(10);
    assert_eq!(down(), 20_000_000);
    flow.moved_since(director.now(), 0, 9);
    drop(flow);
    assert_eq!(down(), 20_000_000);
}

#[test]
fn a_link_keeps_what_is_known_of_it_until_another_gets_its_number() {
    let director = director(ConnectionPolicy::RoundRobin, &["a"]);
    let index = index("a");
    director.handle_answer(index, Some(Duration::from_millis(30)));
    set_links(&director, &["a", "b"]);
    assert_eq!(
        director.report().links[0].latency,
        Duration::from_millis(30)
    );
    let renamed = Link {
        name: "other".to_owned(),
        ..Link::clone(&link("a"))
    };
    director.set_all_links(&[renamed]);
    assert_eq!(director.report().links[0].latency, Duration::ZERO);
}

#[test]
fn a_vpn_for_all_traffic_is_not_passed_by_unless_links_are_named() {
    let vpn = Link {
        kind: LinkKind::Tunnel,
        takes_ordinary_v4: true,
        ..Link::clone(&link("vpn"))
    };
    let links = ["a", "b"].map(|name| Link::clone(&link(name)));
    let links = [&links[..], &[vpn]].concat();
    let [v4, v6] = ["198.51.100.1", "2001:db8::7"].map(|text| text.parse().unwrap());
    let towards = |remote| ConnectionRequest {
        remote: Some(remote),
        ..by("x")
    };
    let director = director(ConnectionPolicy::RoundRobin, &[]);
    director.set_all_links(&links);
    let way = |director: &Rig, remote| director.decide(&towards(remote)).route(remote);
    assert_eq!(way(&director, v4), AddressRoute::System);
    assert!(order(&director, &towards(v4)).is_empty());
    assert_eq!(
        way(&director, v6),
        AddressRoute::Links,
        "the VPN is for IPv4 only"
    );
    let to_name = ConnectionRequest {
        remote: None,
        ..by("x")
    };
    assert_eq!(director.decide(&to_name).route(v4), AddressRoute::System);
    assert!(director.with(|it, _| it.links_for_names().is_empty()));

    let choose = |links| {
        let then = Action {
            links: Some(links),
            ..Action::default()
        };
        director.set_rule(rule(then));
        way(&director, v4)
    };
    assert_eq!(choose(LinkChoice::Only(names(&["a"]))), AddressRoute::Links);
    assert_eq!(choose(LinkChoice::Only(vec![])), AddressRoute::Closed);
    assert_eq!(
        choose(LinkChoice::Except(names(&["a"]))),
        AddressRoute::System
    );
    assert_eq!(
        choose(LinkChoice::Except(names(&["vpn"]))),
        AddressRoute::Links
    );

    let named = Rig::new(ConnectionPolicy::RoundRobin, names(&["b"]));
    named.set_all_links(&links);
    assert_eq!(order(&named, &towards(v4)), ["b"]);
    director.set_rule(Rule::default());
    director.set_all_links(&links[..2]);
    assert_eq!(way(&director, v4), AddressRoute::Links, "the VPN is gone");
}

#[test]
fn lookups_are_left_to_the_system_unless_a_rule_names_links() {
    let director = director(ConnectionPolicy::RoundRobin, &["a", "b"]);
    let lookup = ConnectionRequest {
        port: 53,
        ..by("x")
    };
    let remote = lookup.remote.unwrap();
    assert_eq!(director.decide(&lookup).route(remote), AddressRoute::System);
    assert!(order(&director, &lookup).is_empty());
    director.set_rule(rule(Action {
        links: Some(LinkChoice::Only(names(&["b"]))),
        ..Action::default()
    }));
    assert_eq!(order(&director, &lookup), ["b"]);
}

#[test]
fn the_way_of_an_attempt_may_be_gone_or_forbidden_by_the_time_it_is_made() {
    let director = director(ConnectionPolicy::RoundRobin, &["a", "b"]);
    let request = by("x");
    let remote = request.remote.unwrap();
    let outlook = |link: Option<&str>| {
        let link = link.map(crate::testing::link);
        director.with(|it, _| it.outlook(&request, remote, link.as_deref()))
    };
    assert_eq!(outlook(Some("a")), Outlook::Open);
    assert_eq!(outlook(None), Outlook::Gone, "links lead there now");
    let only = |name: &str| {
        director.set_rule(rule(Action {
            links: Some(LinkChoice::Only(names(&[name]))),
            ..Action::default()
        }));
    };
    only("b");
    assert_eq!(outlook(Some("a")), Outlook::Forbidden);
    assert_eq!(outlook(Some("b")), Outlook::Open);
    only("c");
    assert_eq!(outlook(None), Outlook::Forbidden);
    director.set_rule(Rule::default());
    set_links(&director, &["b"]);
    assert_eq!(outlook(Some("a")), Outlook::Gone);
    set_links(&director, &[]);
    assert_eq!(outlook(None), Outlook::Open);
}
