use hawser_policy::{Action, Class, Rule, RuleSet, Source};
use hawser_sched::connection::ConnectionPolicy;
use hawser_sched::governor::Exclusion;
use hawser_sched::rules::{Permission, Terms};

use super::super::decision::tests::link;
use super::super::{LinkTerms, TryState};
use super::*;
use crate::transport::DialError;

/// Links a of 20 and b of 10 Mbit/s, and a session over both.
fn director(usage: GatewayUse) -> Director {
    let director = Director::new(ConnectionPolicy::Auto, Vec::new());
    director.set_gateway(usage);
    director.set_links(&["a", "b"].map(|name| Link::clone(&link(name))));
    for (name, megabytes) in [("a", 5), ("b", 2)] {
        let (bytes, span) = (
            ByteCount::new(megabytes * 1_000_000),
            Duration::from_secs(2),
        );
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

fn index(name: &str) -> LinkIndex {
    LinkIndex::new(link(name).index)
}

const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn to(address: &str) -> Origin {
    Origin {
        remote: address.parse().ok(),
        port: 443,
        ..Origin::default()
    }
}

/// No connection takes a metered link while another is there.
fn keep_off_metered(director: &Director) {
    let rule = Rule {
        then: Action {
            avoid: Some(vec![Avoid::Metered]),
            ..Action::default()
        },
        ..Rule::default()
    };
    director.set_rules(Arc::new(RuleSet::new([rule])));
}

/// All connections are of one class.
fn class(director: &Director, class: Class) {
    let rule = Rule {
        source: Source::User,
        then: Action {
            class: Some(class),
            ..Action::default()
        },
        ..Rule::default()
    };
    director.set_rules(Arc::new(RuleSet::new([rule])));
}

fn way(director: &Director, address: &str) -> By {
    director.choose(&to(address), false).by
}

#[tokio::test(start_paused = true)]
async fn what_is_long_goes_by_the_gateway_and_what_is_short_or_heard_does_not() {
    let director = director(GatewayUse::Auto);
    // Each is a site of its own.
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

#[tokio::test(start_paused = true)]
async fn a_site_sees_one_address_until_it_is_left_alone_for_ten_minutes() {
    let director = director(GatewayUse::Auto);
    class(&director, Class::Bulk);
    let chosen = director.choose(&to("198.51.100.1"), false);
    director.open_by_gateway(&chosen).connected(Some(ms(40)));
    class(&director, Class::RealTime);
    assert_eq!(way(&director, "198.51.100.1"), By::Gateway);
    assert_eq!(way(&director, "198.51.100.2"), By::Link);
    tokio::time::advance(Duration::from_secs(601)).await;
    assert_eq!(way(&director, "198.51.100.1"), By::Link);
    // Rules come before what was.
    director.open_by_gateway(&chosen).connected(Some(ms(40)));
    let rule = Rule {
        then: Action {
            mode: Some(Mode::Direct),
            ..Action::default()
        },
        ..Rule::default()
    };
    director.set_rules(Arc::new(RuleSet::new([rule])));
    assert_eq!(way(&director, "198.51.100.1"), By::Link);
}

/// Carries so much down for some seconds, of what the session carries in all.
async fn carry(director: &Director, flow: &Flow, mbit: u64, session_mbit: u64) {
    let bytes = |mbit: u64| ByteCount::new(mbit * 62_500);
    let mut total = ByteCount::ZERO;
    for _ in 0..12 {
        tokio::time::advance(ms(500)).await;
        total += bytes(session_mbit);
        flow.moved(ByteCount::new(100), bytes(mbit));
        director.set_session(Some(session(total)));
        director.handle_counters(&Default::default());
    }
}

#[tokio::test(start_paused = true)]
async fn a_gateway_that_was_seen_to_carry_less_than_a_link_is_left_aside() {
    let director = director(GatewayUse::Auto);
    class(&director, Class::Bulk);
    let chosen = director.choose(&to("198.51.100.1"), false);
    assert_eq!(chosen.by, By::Gateway);
    let flow = director.open_by_gateway(&chosen);
    flow.connected(Some(ms(40)));
    carry(&director, &flow, 4, 4).await;
    drop(flow);
    // Of the site it is known for itself; of the gateway, for any other.
    assert_eq!(way(&director, "198.51.100.2"), By::Link);
    let report = director.report().gateway.unwrap();
    assert_eq!(report.down.bits_per_second() / 100_000, 40);
    assert_eq!((report.opened, report.open), (1, 0));
    assert!(
        director.moved().is_empty(),
        "the session counts that itself"
    );
}

#[tokio::test(start_paused = true)]
async fn what_was_reached_with_a_site_is_measured_gain() {
    let director = director(GatewayUse::Auto);
    class(&director, Class::Bulk);
    let origin = to("198.51.100.1");
    // The server gives no more to anybody, which speaks for no way; others have it that the
    // gateway does.
    let chosen = director.choose(&origin, false);
    let flow = director.open_by_gateway(&chosen);
    flow.connected(Some(ms(40)));
    carry(&director, &flow, 2, 30).await;
    drop(flow);
    tokio::time::advance(Duration::from_secs(601)).await;
    assert_eq!(way(&director, "198.51.100.1"), By::Link);
    assert_eq!(way(&director, "198.51.100.2"), By::Gateway);
}

#[tokio::test(start_paused = true)]
async fn a_burst_to_a_new_site_takes_one_way() {
    let director = director(GatewayUse::Auto);
    class(&director, Class::Bulk);
    assert_eq!(way(&director, "198.51.100.1"), By::Gateway);
    // None of it has been answered yet.
    class(&director, Class::RealTime);
    assert_eq!(way(&director, "198.51.100.1"), By::Gateway);
    assert_eq!(way(&director, "198.51.100.2"), By::Link);
    // What is answered in the end counts.
    let decision = director.decide(&to("198.51.100.1"));
    director.open(&decision, index("a")).connected(Some(ms(20)));
    class(&director, Class::Bulk);
    assert_eq!(way(&director, "198.51.100.1"), By::Link);
}

/// The session has received a million bytes a second.
async fn at_a_steady_rate(
    director: &Director,
    flow: &Flow,
    looks: impl IntoIterator<Item = [u64; 2]>,
) {
    let began = tokio::time::Instant::now();
    for [seen, counted] in looks {
        tokio::time::advance(ms(seen) - began.elapsed()).await;
        director.set_session(Some(session(ByteCount::new(seen * 1000))));
        tokio::time::advance(ms(counted) - began.elapsed()).await;
        flow.moved(ByteCount::ZERO, ByteCount::new(1000));
        director.handle_counters(&Default::default());
    }
}

#[tokio::test(start_paused = true)]
async fn it_does_not_matter_when_a_session_is_looked_at_and_when_it_is_counted() {
    let director = director(GatewayUse::Always);
    let chosen = director.choose(&to("198.51.100.1"), false);
    let flow = director.open_by_gateway(&chosen);
    flow.connected(None);
    // Half a second before it is counted, then just before, so that one span has half as much again.
    let early = (1..10).map(|tick| [tick * 500 - 490, tick * 500]);
    let late = (10..20).map(|tick| [tick * 500 - 10, tick * 500]);
    at_a_steady_rate(&director, &flow, early.chain(late)).await;
    let down = || director.report().gateway.unwrap().down.bits_per_second();
    assert_eq!(down(), 8_000_000);
    // Counted twice of the same look.
    tokio::time::advance(ms(10)).await;
    director.handle_counters(&Default::default());
    assert_eq!(down(), 8_000_000);
}

#[tokio::test(start_paused = true)]
async fn what_goes_by_the_gateway_has_its_story() {
    let director = director(GatewayUse::Auto);
    class(&director, Class::Bulk);
    let chosen = director.choose(&to("198.51.100.1"), false);
    let flow = director.open_by_gateway(&chosen);
    let latest = || director.stories(1).1.pop().unwrap();
    assert_eq!(latest().left_to, Some(LeftTo::Gateway("it gains by it")));
    assert_eq!(latest().tries[0].state, TryState::Waiting);
    flow.connected(Some(ms(40)));
    flow.moved(ByteCount::new(10), ByteCount::new(1000));
    drop(flow);
    let ended = latest().tries.remove(0);
    assert_eq!(ended.link.unwrap().name, "gateway");
    assert_eq!(ended.state, TryState::Ended);
    assert_eq!(ended.moved, [ByteCount::new(10), ByteCount::new(1000)]);
    // The next one has another reason, and one that a rule gives away has that.
    let chosen = director.choose(&to("198.51.100.1"), false);
    director.tell_by_gateway(&chosen);
    let kept = LeftTo::Gateway("others went to its site that way lately");
    assert_eq!(latest().left_to, Some(kept));
    let rule = Rule {
        then: Action {
            mode: Some(Mode::Bonded),
            ..Action::default()
        },
        ..Rule::default()
    };
    director.set_rules(Arc::new(RuleSet::new([rule])));
    let chosen = director.choose(&to("198.51.100.2"), false);
    director
        .open_by_gateway(&chosen)
        .failed(DialError::RefusedByPolicy);
    let refused = latest();
    assert_eq!(refused.left_to, Some(LeftTo::Gateway("its mode is bonded")));
    assert_eq!(refused.verdict.mode_by, Some(0));
    let state = TryState::Failed(DialError::RefusedByPolicy);
    assert_eq!(refused.tries[0].state, state);
}

#[tokio::test(start_paused = true)]
async fn who_uses_a_gateway_otherwise_keeps_what_is_known_of_it() {
    let director = director(GatewayUse::Always);
    let chosen = director.choose(&to("198.51.100.1"), false);
    assert!(chosen.waits_for_gateway);
    director.open_by_gateway(&chosen).connected(Some(ms(40)));
    director.set_gateway(GatewayUse::Auto);
    assert!(director.has_session());
    let report = director.report().gateway.unwrap();
    assert_eq!((report.usage, report.opened), (GatewayUse::Auto, 1));
    assert_eq!(report.latency, ms(40));
    class(&director, Class::Bulk);
    let chosen = director.choose(&to("198.51.100.1"), false);
    assert_eq!((chosen.by, chosen.waits_for_gateway), (By::Gateway, false));
    // Nobody waits for what it does not take.
    director.set_gateway(GatewayUse::Always);
    let chosen = director.choose(&to("10.0.0.1"), true);
    assert_eq!((chosen.by, chosen.waits_for_gateway), (By::Link, false));
}

#[tokio::test(start_paused = true)]
async fn what_is_open_by_the_gateway_is_on_its_books_and_teaches_what_programs_need() {
    let director = director(GatewayUse::Always);
    let origin = Origin {
        program: Some("wget".to_owned()),
        ..to("198.51.100.1")
    };
    let chosen = director.choose(&origin, false);
    let flow = director.open_by_gateway(&chosen);
    flow.connected(Some(ms(40)));
    let report = director.report();
    assert_eq!(report.opened, 0);
    assert!(report.links.iter().all(|link| link.load == Load::default()));
    let gateway = report.gateway.unwrap();
    assert_eq!((gateway.open, gateway.load.connections), (1, 1));
    flow.moved(ByteCount::new(10), ByteCount::new(1_000_000));
    drop(flow);
    let gateway = director.report().gateway.unwrap();
    assert_eq!((gateway.open, gateway.load), (0, Load::default()));
    let demands = director.demands();
    let learned = demands.values().next().unwrap();
    assert_eq!(learned.down, ByteCount::new(1_000_000));
}

#[tokio::test(start_paused = true)]
async fn links_that_only_a_session_keeps_busy_show_what_they_can_do_at_least() {
    let director = director(GatewayUse::Always);
    let chosen = director.choose(&to("198.51.100.1"), false);
    let flow = director.open_by_gateway(&chosen);
    flow.connected(None);
    let mut total = 0;
    let down = || director.report().links.last().unwrap().down;
    assert_eq!(down().bits_per_second(), 8_000_000);
    for mbit in [12, 1] {
        for _ in 0..200 {
            tokio::time::advance(ms(500)).await;
            total += mbit * 62_500;
            flow.moved(ByteCount::ZERO, ByteCount::new(mbit * 62_500));
            let counters = [(link("b").index, [ByteCount::ZERO, ByteCount::new(total)])];
            director.handle_counters(&counters.into());
        }
        assert_eq!(down().bits_per_second(), 12_000_000);
    }
}

#[test]
fn rules_come_first_then_where_it_leads_then_what_the_gateway_is_for() {
    let verdict = |mode| Verdict {
        mode,
        ..Verdict::default()
    };
    let by = |usage, mode, is_near| ruled(usage, &verdict(mode), false, is_near).0;
    for usage in GatewayUse::ALL {
        for is_near in [false, true] {
            assert_eq!(by(usage, Mode::Direct, is_near), Some(By::Link));
            assert_eq!(by(usage, Mode::Bonded, is_near), Some(By::Gateway));
        }
        assert_eq!(by(usage, Mode::Auto, true), Some(By::Link));
        let bonded = verdict(Mode::Bonded);
        assert_eq!(ruled(usage, &bonded, true, false).0, Some(By::Link));
    }
    let auto = |usage| by(usage, Mode::Auto, false);
    assert_eq!(auto(GatewayUse::Always), Some(By::Gateway));
    assert_eq!(auto(GatewayUse::Never), Some(By::Link));
    assert_eq!(auto(GatewayUse::Auto), None);
}

#[tokio::test(start_paused = true)]
async fn links_to_be_avoided_keep_off_the_gateway_wherever_there_are_any() {
    let director = director(GatewayUse::Always);
    keep_off_metered(&director);
    assert_eq!(way(&director, "198.51.100.1"), By::Gateway);
    // One that is not there yet will be in the session.
    for metered in ["b", "lte"] {
        director.set_terms(LinkTerms {
            metered: vec![metered.to_owned()],
            ..LinkTerms::default()
        });
        assert_eq!(way(&director, "198.51.100.1"), By::Link);
    }
}

#[tokio::test(start_paused = true)]
async fn links_that_no_session_may_take_keep_nobody_off_the_gateway() {
    let wanted = vec!["a".to_owned()];
    let director = Director::new(ConnectionPolicy::Auto, wanted);
    director.set_gateway(GatewayUse::Always);
    director.set_links(&["a", "b"].map(|name| Link::clone(&link(name))));
    director.set_terms(LinkTerms {
        metered: vec!["b".to_owned()],
        ..LinkTerms::default()
    });
    keep_off_metered(&director);
    assert_eq!(way(&director, "198.51.100.1"), By::Gateway);
}

#[tokio::test(start_paused = true)]
async fn links_in_reserve_add_nothing_to_a_session() {
    let director = director(GatewayUse::Auto);
    class(&director, Class::Bulk);
    let reserve = Terms {
        up: Permission::Reserve(Exclusion::Reserve),
        down: Permission::Reserve(Exclusion::Reserve),
        ..Terms::default()
    };
    assert_eq!(way(&director, "198.51.100.1"), By::Gateway);
    director.set_terms(LinkTerms {
        terms: [("b".to_owned(), reserve)].into(),
        ..LinkTerms::default()
    });
    assert_eq!(way(&director, "198.51.100.2"), By::Link);
}
