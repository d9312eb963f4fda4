use std::sync::Arc;

use hawser_director::{ConnectionRequest, FarEnds, GatewayDecision, Question, Route};
use hawser_front::connection::SharedDirector;
use hawser_link::links::Link;
use hawser_policy::{Action, Condition, LinkChoice, Rule, RuleSet, Source};
use hawser_sched::connection::{ConnectionPolicy, GatewayUse};
use hawser_types::LinkIndex;

use super::*;

fn link(index: u32, name: &str) -> Link {
    Link {
        addresses: vec!["192.0.2.1".parse().unwrap()],
        has_default_route_v4: true,
        ..Link::new(LinkIndex::new(index), name)
    }
}

fn director() -> SharedDirector {
    let director = SharedDirector::new(ConnectionPolicy::RoundRobin, Vec::new());
    director.set_links(&[link(2, "dsl"), link(3, "lte")]);
    director
}

fn curl() -> ConnectionRequest {
    ConnectionRequest {
        program: Some("curl".to_owned()),
        user: Some(1000),
        remote: Some("198.51.100.1".parse().unwrap()),
        port: 443,
        ..ConnectionRequest::default()
    }
}

/// Returns the decision for a connection over the gateway.
fn by_gateway(director: &SharedDirector) -> GatewayDecision {
    let decision = director.decide(&Question {
        request: &curl(),
        is_near: Some(false),
        is_resolved: true,
        ends: FarEnds::NONE,
    });
    match decision {
        Route::Gateway(decision) => decision,
        other => panic!("{other:?}"),
    }
}

fn the_latest(director: &SharedDirector) -> PlacedConnection {
    let report = report(
        director,
        PlacedRange::Latest(1),
        Duration::from_secs(1_000_000),
    );
    report.connections.into_iter().next().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_told_with_what_links_promised_and_its_end() {
    let director = director();
    let decision = director.decide_links(&curl());
    let first = decision.candidates[0].link.index;
    let flow = director.open(&decision, first);
    assert_eq!(the_latest(&director).state, "connecting");
    flow.connected(Some(Duration::from_millis(30)));
    flow.moved(ByteCount::new(1000), ByteCount::new(99_000));
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(the_latest(&director).state, "open");
    drop(flow);
    tokio::time::advance(Duration::from_secs(3)).await;
    let told = the_latest(&director);
    assert_eq!((told.id, told.at_unix_ms), (1, 999_996_000));
    assert_eq!(told.destination, "198.51.100.1:443");
    assert_eq!(
        (told.program.as_deref(), told.user),
        (Some("curl"), Some(1000))
    );
    assert_eq!(
        (told.scheduler.as_str(), told.why.as_str()),
        ("round-robin", "turn")
    );
    assert_eq!(told.candidates.len(), 2);
    let promised = &told.candidates[0];
    assert_eq!(promised.standing, "equal");
    assert!(promised.down > Rate::ZERO && promised.finish > Duration::ZERO);
    assert_eq!(told.link.as_deref(), Some(promised.link.as_str()));
    assert_eq!(told.state, "ended");
    assert_eq!(told.bytes_received, ByteCount::new(99_000));
    assert_eq!(told.lasted, Some(Duration::from_secs(1)));
    assert_eq!(told.rate.bits_per_second(), 800_000);
}

#[tokio::test(start_paused = true)]
async fn rules_are_told_by_number_and_name_and_a_single_link_is_said_to_be_one() {
    let director = director();
    director.set_rules(Arc::new(RuleSet::new([Rule {
        name: Some("mine".to_owned()),
        source: Source::User,
        when: Condition::default(),
        then: Action {
            links: Some(LinkChoice::Only(vec!["lte".to_owned()])),
            ..Action::default()
        },
    }])));
    director.decide_links(&curl());
    let told = the_latest(&director);
    assert_eq!(told.why, "only");
    let rule = PlacedRule {
        field: "links".to_owned(),
        value: "only lte".to_owned(),
        number: 1,
        source: "user".to_owned(),
        name: Some("mine".to_owned()),
    };
    assert_eq!(told.rules, [rule]);

    director.set_links(&[link(2, "dsl")]);
    director.decide_links(&curl());
    let told = the_latest(&director);
    assert_eq!(
        (told.why.as_str(), told.state.as_str()),
        ("closed", "connecting")
    );
}

#[tokio::test(start_paused = true)]
async fn what_goes_over_a_peer_or_is_asked_for_in_vain_is_told_so() {
    let director = director();
    let request = ConnectionRequest {
        domain: Some("example.org".to_owned()),
        remote: None,
        port: 80,
        ..curl()
    };
    let peer = "198.51.100.7".parse().unwrap();
    director.with(|director, now| director.note_bonded(now, &request, peer));
    let told = the_latest(&director);
    assert_eq!((told.why.as_str(), told.state.as_str()), ("peer", "untold"));
    assert_eq!(told.destination, "example.org:80");
    let missing = report(&director, PlacedRange::One(2), Duration::ZERO);
    assert_eq!((missing.connections.len(), missing.latest_id), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn what_goes_by_the_gateway_is_told_with_its_reason_and_its_end() {
    let director = director();
    director.set_gateway(GatewayUse::Always);
    let chosen = by_gateway(&director);
    let flow = director.open_by_gateway(&chosen);
    flow.connected(Some(Duration::from_millis(30)));
    flow.moved(ByteCount::new(1000), ByteCount::new(99_000));
    tokio::time::advance(Duration::from_secs(1)).await;
    drop(flow);
    let told = the_latest(&director);
    assert_eq!(
        (told.why.as_str(), told.state.as_str()),
        ("gateway", "ended")
    );
    assert_eq!(told.meaning, "the gateway is for everything");
    assert_eq!((told.link, told.candidates.len()), (None, 0));
    assert_eq!(told.bytes_received, ByteCount::new(99_000));
    assert_eq!(told.rate.bits_per_second(), 800_000);
    // A connection that the gateway did not answer.
    drop(director.open_by_gateway(&chosen));
    let told = the_latest(&director);
    assert_eq!(
        (told.why.as_str(), told.state.as_str()),
        ("gateway", "failed")
    );
    assert_eq!(told.tries[0].state, "given-up");
}
