use hawser_policy::{Action, Avoid, Class, Condition, Mode, Rule, Source};
use hawser_sched::connection::{By, ConnectionPolicy, GatewayUse, Load};
use hawser_sched::rules::LinkRules;
use hawser_types::{DialError, LimitedBy, Permission};

use super::super::*;
use crate::FarEnds;
use crate::story::TryState;
use crate::testing::{Rig, RigFlow, index};

/// Creates a director with links a of 20 and b of 10 Mbit/s, and a session over both.
fn director(usage: GatewayUse) -> Rig {
    let director = Rig::new(ConnectionPolicy::Auto, Vec::new());
    director.set_gateway(usage);
    director.set_links(&["a", "b"]);
    for (name, megabytes) in [("a", 5), ("b", 2)] {
        let (bytes, span) = (megabytes * 1_000_000, Duration::from_secs(2));
        director.handle_probe(index(name), false, bytes, span);
        director.handle_probe(index(name), true, bytes, span);
        director.handle_answer(index(name), Some(ms(20)));
    }
    director.set_session(Some(session(ByteCount::ZERO)));
    director
}

fn session(received: ByteCount) -> SessionView {
    SessionView {
        links: vec![(index("a"), ms(25)), (index("b"), ms(25))],
        moved: [ByteCount::ZERO, received],
    }
}

const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn to(address: &str) -> ConnectionRequest {
    ConnectionRequest {
        remote: address.parse().ok(),
        port: 443,
        ..ConnectionRequest::default()
    }
}

/// Keeps connections off metered links while another link exists.
fn keep_off_metered(director: &Rig) {
    let rule = Rule {
        then: Action {
            avoid: Some(vec![Avoid::Metered]),
            ..Action::default()
        },
        ..Rule::default()
    };
    director.set_rule(rule);
}

/// Puts all connections into one class.
fn class(director: &Rig, class: Class) {
    let rule = Rule {
        source: Source::User,
        then: Action {
            class: Some(class),
            ..Action::default()
        },
        ..Rule::default()
    };
    director.set_rule(rule);
}

fn way(director: &Rig, address: &str) -> By {
    match director.decide_way(&to(address), false) {
        Route::Gateway(_) => By::Gateway,
        _ => By::Link,
    }
}

/// Returns the decision on a connection over the gateway.
fn chosen(director: &Rig, request: &ConnectionRequest) -> GatewayDecision {
    match director.decide_way(request, false) {
        Route::Gateway(decision) => decision,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_long_goes_by_the_gateway_and_what_is_short_or_heard_does_not() {
    let director = director(GatewayUse::Auto);
    // Each address is a site of its own.
    for (kind, address, expected) in [
        (Class::Bulk, "198.51.100.1", By::Gateway),
        (Class::Interactive, "198.51.100.2", By::Link),
        (Class::RealTime, "198.51.100.3", By::Link),
    ] {
        class(&director, kind);
        assert_eq!(way(&director, address), expected, "{kind}");
    }
    class(&director, Class::Bulk);
    director.set_session(None);
    assert_eq!(way(&director, "198.51.100.1"), By::Link);
}

#[test]
fn a_site_sees_one_address_until_it_is_left_alone_for_ten_minutes() {
    let director = director(GatewayUse::Auto);
    class(&director, Class::Bulk);
    let decision = chosen(&director, &to("198.51.100.1"));
    director.open_by_gateway(&decision).connected(Some(ms(40)));
    class(&director, Class::RealTime);
    assert_eq!(way(&director, "198.51.100.1"), By::Gateway);
    assert_eq!(way(&director, "198.51.100.2"), By::Link);
    director.advance(Duration::from_secs(601));
    assert_eq!(way(&director, "198.51.100.1"), By::Link);
    // Rules override the site's previous route.
    director.open_by_gateway(&decision).connected(Some(ms(40)));
    let rule = Rule {
        then: Action {
            mode: Some(Mode::Direct),
            ..Action::default()
        },
        ..Rule::default()
    };
    director.set_rule(rule);
    assert_eq!(way(&director, "198.51.100.1"), By::Link);
}

/// Receives this many Mbit/s for some seconds, of the session's total.
fn carry(director: &Rig, flow: &RigFlow, mbit: u64, session_mbit: u64) {
    let bytes = |mbit: u64| mbit * 62_500;
    let mut total = 0;
    for _ in 0..12 {
        director.advance(ms(500));
        total += bytes(session_mbit);
        flow.moved(100, bytes(mbit));
        director.set_session(Some(session(ByteCount::new(total))));
        director.handle_counters(&Default::default());
    }
}

#[test]
fn a_gateway_that_was_seen_to_carry_less_than_a_link_is_left_aside() {
    let director = director(GatewayUse::Auto);
    class(&director, Class::Bulk);
    let decision = chosen(&director, &to("198.51.100.1"));
    let flow = director.open_by_gateway(&decision);
    flow.connected(Some(ms(40)));
    carry(&director, &flow, 4, 4);
    drop(flow);
    // The rate counts for this site itself; for the gateway, it counts for any other site.
    assert_eq!(way(&director, "198.51.100.2"), By::Link);
    let report = director.report().gateway.unwrap();
    assert_eq!(report.down.bits_per_second() / 100_000, 40);
    assert_eq!((report.opened, report.open), (1, 0));
    assert!(
        director.moved().is_empty(),
        "the session counts that itself"
    );
}

#[test]
fn the_rate_reached_with_a_site_counts_as_measured_gain() {
    let director = director(GatewayUse::Auto);
    class(&director, Class::Bulk);
    let origin = to("198.51.100.1");
    // The server gives no client more, which favours no route; other sites show that the gateway
    // does.
    let decision = chosen(&director, &origin);
    let flow = director.open_by_gateway(&decision);
    flow.connected(Some(ms(40)));
    carry(&director, &flow, 2, 30);
    drop(flow);
    director.advance(Duration::from_secs(601));
    assert_eq!(way(&director, "198.51.100.1"), By::Link);
    assert_eq!(way(&director, "198.51.100.2"), By::Gateway);
}

#[test]
fn a_burst_to_a_new_site_takes_one_way() {
    let director = director(GatewayUse::Auto);
    class(&director, Class::Bulk);
    assert_eq!(way(&director, "198.51.100.1"), By::Gateway);
    // No connection of the burst has been answered yet.
    class(&director, Class::RealTime);
    assert_eq!(way(&director, "198.51.100.1"), By::Gateway);
    assert_eq!(way(&director, "198.51.100.2"), By::Link);
    // The route that is finally answered counts.
    let decision = director.decide(&to("198.51.100.1"));
    director.open(&decision, index("a")).connected(Some(ms(20)));
    class(&director, Class::Bulk);
    assert_eq!(way(&director, "198.51.100.1"), By::Link);
}

/// Lets the session receive a million bytes a second.
fn at_a_steady_rate(director: &Rig, flow: &RigFlow, looks: impl IntoIterator<Item = [u64; 2]>) {
    let began = director.now();
    for [seen, counted] in looks {
        director.advance(ms(seen) - director.now().since(began));
        director.set_session(Some(session(ByteCount::new(seen * 1000))));
        director.advance(ms(counted) - director.now().since(began));
        flow.moved(0, 1000);
        director.handle_counters(&Default::default());
    }
}

#[test]
fn it_does_not_matter_when_a_session_is_looked_at_and_when_it_is_counted() {
    let director = director(GatewayUse::Always);
    let decision = chosen(&director, &to("198.51.100.1"));
    let flow = director.open_by_gateway(&decision);
    flow.connected(None);
    // Reports half a second before the count, then just before: one span is half as long again.
    let early = (1..10).map(|tick| [tick * 500 - 490, tick * 500]);
    let late = (10..20).map(|tick| [tick * 500 - 10, tick * 500]);
    at_a_steady_rate(&director, &flow, early.chain(late));
    let down = || director.report().gateway.unwrap().down.bits_per_second();
    assert_eq!(down(), 8_000_000);
    // Two counts of the same report.
    director.advance(ms(10));
    director.handle_counters(&Default::default());
    assert_eq!(down(), 8_000_000);
}

#[test]
fn what_goes_by_the_gateway_has_its_story() {
    let director = director(GatewayUse::Auto);
    class(&director, Class::Bulk);
    let decision = chosen(&director, &to("198.51.100.1"));
    let flow = director.open_by_gateway(&decision);
    let latest = || director.stories(1).pop().unwrap();
    assert_eq!(latest().left_to, Some(LeftTo::Gateway("it gains by it")));
    assert_eq!(latest().tries[0].state, TryState::Waiting);
    flow.connected(Some(ms(40)));
    flow.moved(10, 1000);
    drop(flow);
    let ended = latest().tries.remove(0);
    assert_eq!(ended.route, TryRoute::Gateway);
    assert_eq!(ended.state, TryState::Ended);
    assert_eq!(ended.moved, [ByteCount::new(10), ByteCount::new(1000)]);
    // The next decision has another reason, and so has one by a rule.
    let decision = chosen(&director, &to("198.51.100.1"));
    director.with(|it, _| it.tell_by_gateway(&decision));
    let kept = LeftTo::Gateway("others went to its site that way lately");
    assert_eq!(latest().left_to, Some(kept));
    let rule = Rule {
        then: Action {
            mode: Some(Mode::Bonded),
            ..Action::default()
        },
        ..Rule::default()
    };
    director.set_rule(rule);
    let decision = chosen(&director, &to("198.51.100.2"));
    director
        .open_by_gateway(&decision)
        .failed(DialError::RefusedByPolicy);
    let refused = latest();
    assert_eq!(refused.left_to, Some(LeftTo::Gateway("its mode is bonded")));
    assert_eq!(refused.verdict.mode_by, Some(0));
    let state = TryState::Failed(DialError::RefusedByPolicy);
    assert_eq!(refused.tries[0].state, state);
}

#[test]
fn who_uses_a_gateway_otherwise_keeps_what_is_known_of_it() {
    let director = director(GatewayUse::Always);
    let decision = chosen(&director, &to("198.51.100.1"));
    assert!(decision.waits_for_gateway);
    director.open_by_gateway(&decision).connected(Some(ms(40)));
    director.set_gateway(GatewayUse::Auto);
    let report = director.report().gateway.unwrap();
    assert_eq!((report.usage, report.opened), (GatewayUse::Auto, 1));
    assert_eq!(report.latency, ms(40));
    class(&director, Class::Bulk);
    let decision = chosen(&director, &to("198.51.100.1"));
    assert!(!decision.waits_for_gateway);
    // A connection that does not use the gateway does not wait for it.
    director.set_gateway(GatewayUse::Always);
    let near = director.decide_way(&to("10.0.0.1"), true);
    assert!(matches!(near, Route::Links(_)));
}

#[test]
fn what_is_open_by_the_gateway_is_on_its_books_and_teaches_what_programs_need() {
    let director = director(GatewayUse::Always);
    let origin = ConnectionRequest {
        program: Some("wget".to_owned()),
        ..to("198.51.100.1")
    };
    let decision = chosen(&director, &origin);
    let flow = director.open_by_gateway(&decision);
    flow.connected(Some(ms(40)));
    let report = director.report();
    assert_eq!(report.opened, 0);
    assert!(report.links.iter().all(|link| link.load == Load::default()));
    let gateway = report.gateway.unwrap();
    assert_eq!((gateway.open, gateway.load.connections), (1, 1));
    flow.moved(10, 1_000_000);
    drop(flow);
    let gateway = director.report().gateway.unwrap();
    assert_eq!((gateway.open, gateway.load), (0, Load::default()));
    let demands = director.with(|it, _| it.demands().clone());
    let learned = demands.values().next().unwrap();
    assert_eq!(learned.down, ByteCount::new(1_000_000));
}

#[test]
fn links_that_only_a_session_keeps_busy_show_what_they_can_do_at_least() {
    let director = director(GatewayUse::Always);
    let decision = chosen(&director, &to("198.51.100.1"));
    let flow = director.open_by_gateway(&decision);
    flow.connected(None);
    let mut total = 0;
    let down = || director.report().links.last().unwrap().down;
    assert_eq!(down().bits_per_second(), 8_000_000);
    for mbit in [12, 1] {
        for _ in 0..200 {
            director.advance(ms(500));
            total += mbit * 62_500;
            flow.moved(0, mbit * 62_500);
            let counters = [(index("b"), [ByteCount::ZERO, ByteCount::new(total)])];
            director.handle_counters(&counters.into());
        }
        assert_eq!(down().bits_per_second(), 12_000_000);
    }
}

#[test]
fn links_to_be_avoided_keep_off_the_gateway_wherever_there_are_any() {
    let director = director(GatewayUse::Always);
    keep_off_metered(&director);
    assert_eq!(way(&director, "198.51.100.1"), By::Gateway);
    // A link that does not exist yet will join the session later.
    for metered in ["b", "lte"] {
        director.set_link_rules(AllLinkRules {
            metered: vec![metered.to_owned()],
            ..AllLinkRules::default()
        });
        assert_eq!(way(&director, "198.51.100.1"), By::Link);
    }
}

#[test]
fn links_that_no_session_may_take_keep_no_connection_off_the_gateway() {
    let wanted = vec!["a".to_owned()];
    let director = Rig::new(ConnectionPolicy::Auto, wanted);
    director.set_gateway(GatewayUse::Always);
    director.set_links(&["a", "b"]);
    director.set_link_rules(AllLinkRules {
        metered: vec!["b".to_owned()],
        ..AllLinkRules::default()
    });
    keep_off_metered(&director);
    assert_eq!(way(&director, "198.51.100.1"), By::Gateway);
}

#[test]
fn links_in_reserve_add_nothing_to_a_session() {
    let director = director(GatewayUse::Auto);
    class(&director, Class::Bulk);
    let reserve = LinkRules {
        up: Permission::Reserve(LimitedBy::Choice),
        down: Permission::Reserve(LimitedBy::Choice),
        ..LinkRules::default()
    };
    assert_eq!(way(&director, "198.51.100.1"), By::Gateway);
    director.set_link_rules(AllLinkRules {
        by_name: [("b".to_owned(), reserve)].into(),
        ..AllLinkRules::default()
    });
    assert_eq!(way(&director, "198.51.100.2"), By::Link);
}

/// A rule by address adds to the judgement of a name once the name is resolved. Two judgements, one
/// of the name and one of its address, once differed: the first chose a link, and the second, which
/// had to choose the link, skipped a rule that gives the address to the gateway.
#[test]
fn a_name_whose_address_is_for_the_gateway_goes_there() {
    let director = director(GatewayUse::Never);
    let remote = "198.51.100.1".parse().unwrap();
    director.set_rule(Rule {
        when: Condition {
            address: vec!["198.51.100.0/24".parse().unwrap()],
            ..Condition::default()
        },
        then: Action {
            mode: Some(Mode::Bonded),
            ..Action::default()
        },
        ..Rule::default()
    });
    let mut request = ConnectionRequest {
        domain: Some("example.org".to_owned()),
        port: 443,
        ..ConnectionRequest::default()
    };
    let question = Question {
        request: &request,
        is_near: Some(false),
        is_resolved: false,
        ends: FarEnds::NONE,
    };
    let decision = director.with(|it, now| it.decide(now, &question));
    assert!(
        matches!(decision, Route::Unresolved(Missing::Addresses)),
        "{decision:?}"
    );
    assert!(director.stories(1).is_empty(), "nothing is decided yet");
    request.remote = Some(remote);
    let decision = director.decide_way(&request, false);
    assert!(matches!(decision, Route::Gateway(_)));
    // Before a link is chosen for it, the name's connection has not taken a turn of the policy.
    request.remote = Some("203.0.113.1".parse().unwrap());
    let decision = director.decide_way(&request, false);
    assert!(matches!(decision, Route::Links(_)));
    assert_eq!(director.stories(10).len(), 1, "one story");
}
