use std::sync::Arc;
use std::time::Duration;

use hawser_net::links::Link;
use hawser_policy::{Action, Condition, LinkChoice, Rule, RuleSet, Source};
use hawser_sched::connection::{ConnectionPolicy, Reason};
use hawser_types::{ByteCount, LinkIndex};

use super::super::super::decision::tests::link;
use super::*;
use crate::connection::Flow;
use crate::connection::story::Try;

fn director(links: &[&str]) -> Director {
    let director = Director::new(ConnectionPolicy::MaxThroughput, Vec::new());
    let links: Vec<Link> = links.iter().map(|name| Link::clone(&link(name))).collect();
    director.set_links(&links);
    director
}

fn origin() -> Origin {
    Origin {
        program: Some("curl".to_owned()),
        executable: Some("/usr/bin/curl".to_owned()),
        remote: Some("198.51.100.1".parse().unwrap()),
        domain: Some("example.org".to_owned()),
        port: 443,
        ..Origin::default()
    }
}

fn open(director: &Director, decision: &Decision, place: usize) -> Flow {
    let link = &decision.candidates[place].link;
    director.open(decision, LinkIndex::new(link.index))
}

fn only(director: &Director) -> Story {
    let (_, stories) = director.stories(10);
    assert_eq!(stories.len(), 1, "{stories:?}");
    stories[0].clone()
}

fn names(tries: &[Try]) -> Vec<String> {
    let links = tries.iter().filter_map(|it| it.link.as_ref());
    links.map(|link| link.name.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_told_of_from_its_decision_to_its_end() {
    let director = director(&["a", "b"]);
    director.set_rules(Arc::new(RuleSet::new([Rule {
        name: Some("mine".to_owned()),
        source: Source::User,
        when: Condition::default(),
        then: Action {
            links: Some(LinkChoice::Except(vec!["b".to_owned()])),
            ..Action::default()
        },
    }])));
    let decision = director.decide(&origin());
    let story = only(&director);
    assert_eq!((story.number, story.tries.len()), (1, 0));
    assert_eq!(story.subject.domain.as_deref(), Some("example.org"));
    assert_eq!(story.reason, Some(Reason::FinishesFirst));
    assert_eq!(story.candidates.len(), 1);
    assert_eq!(story.candidates[0].link.name, "a");
    let by = story.verdict.links_by.unwrap();
    assert_eq!(story.rules.rules()[by].name.as_deref(), Some("mine"));

    tokio::time::advance(Duration::from_millis(10)).await;
    let flow = open(&director, &decision, 0);
    tokio::time::advance(Duration::from_millis(20)).await;
    let waiting = only(&director).tries[0].clone();
    assert_eq!(waiting.state, TryState::Waiting);
    assert_eq!(
        (waiting.after, waiting.lasted),
        (Duration::from_millis(10), Duration::from_millis(20))
    );
    flow.connected(None);
    flow.moved(ByteCount::new(300), ByteCount::new(5000));
    tokio::time::advance(Duration::from_secs(2)).await;
    let is = |state, down| {
        let story = only(&director);
        let outcome = story.outcome().unwrap();
        assert_eq!(
            (outcome.state, outcome.lasted),
            (state, Duration::from_secs(2))
        );
        assert_eq!(outcome.moved, [ByteCount::new(300), ByteCount::new(down)]);
    };
    is(TryState::Open, 5000);
    flow.moved(ByteCount::ZERO, ByteCount::new(1));
    drop(flow);
    tokio::time::advance(Duration::from_secs(9)).await;
    is(TryState::Ended, 5001);
}

#[tokio::test(start_paused = true)]
async fn tries_on_several_links_and_a_second_decision_are_one_story() {
    let director = director(&["a", "b", "c"]);
    let decision = director.decide(&origin());
    let refused = open(&director, &decision, 0);
    refused.failed(DialError::ConnectionRefused);
    drop(refused);
    let slow = open(&director, &decision, 1);
    let again = director.decide_again(&origin(), &decision);
    tokio::time::advance(Duration::from_millis(250)).await;
    // Whatever is the third choice by now.
    let third = LinkIndex::new(decision.candidates[2].link.index);
    let quick = director.open(&again, third);
    quick.connected(None);
    drop(slow);
    let story = only(&director);
    assert_eq!(story.decided_again, 1);
    let states: Vec<TryState> = story.tries.iter().map(|it| it.state).collect();
    let refused = TryState::Failed(DialError::ConnectionRefused);
    assert_eq!(states, [refused, TryState::GivenUp, TryState::Open]);
    let order = decision.candidates.iter().map(|it| it.link.name.clone());
    assert_eq!(names(&story.tries), order.collect::<Vec<_>>());
    assert_eq!(story.tries[1].lasted, Duration::from_millis(250));
    assert_eq!(story.outcome().unwrap().state, TryState::Open);
}

#[tokio::test(start_paused = true)]
async fn a_bounded_number_is_remembered_and_late_ends_of_others_do_no_harm() {
    let director = director(&["a"]);
    let decision = director.decide(&origin());
    let first = open(&director, &decision, 0);
    for _ in 0..1000 {
        director.decide(&origin());
    }
    first.connected(None);
    drop(first);
    let (_, all) = director.stories(usize::MAX);
    let numbers: Vec<u64> = all.iter().map(|story| story.number).collect();
    assert_eq!(numbers, (746..=1001).collect::<Vec<u64>>());
    assert_eq!(director.latest_story(), 1001);
    assert!(director.story(745).1.is_none() && director.story(1002).1.is_none());
    assert_eq!(director.story(746).1.unwrap().number, 746);
    let (_, two) = director.stories(2);
    assert_eq!(two[0].number, 1000);
    assert!(two.iter().all(|story| story.tries.is_empty()));
}

#[tokio::test(start_paused = true)]
async fn what_the_policy_does_not_choose_is_told_of_as_well() {
    let director = director(&["a", "b"]);
    let lookup = Origin {
        port: 53,
        ..origin()
    };
    let decision = director.decide(&lookup);
    director.note_by_system(&decision);
    let story = only(&director);
    assert_eq!(story.left_to, Some(LeftTo::Resolver));
    assert!(story.candidates.is_empty());
    assert_eq!(story.tries[0].state, TryState::Untold);

    let destination: Destination = "198.51.100.1:443".parse().unwrap();
    let peer = "198.51.100.1".parse().unwrap();
    director.note_bonded(&destination, &Origin::default(), peer);
    let (_, story) = director.story(2);
    let story = story.unwrap();
    assert_eq!(story.left_to, Some(LeftTo::Peer(peer)));
    assert_eq!(
        (story.subject.remote, story.subject.port),
        (Some(peer), 443)
    );

    // The kernel's choice goes over the director's.
    let decision = director.decide(&origin());
    let demand = Demand {
        up: ByteCount::new(7),
        ..Demand::default()
    };
    director.note_kernels(&decision, Some(Reason::Turn), demand);
    let story = director.story(3).1.unwrap();
    assert!(story.is_kernels);
    assert_eq!((story.reason, story.demand), (Some(Reason::Turn), demand));
    director.note_failure(&decision, DialError::TimedOut);
    assert_eq!(
        director.story(3).1.unwrap().failed,
        Some(DialError::TimedOut)
    );
}
