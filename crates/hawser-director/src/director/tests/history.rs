use hawser_policy::{Action, Condition, LinkChoice, Rule, Source};
use hawser_sched::connection::{ConnectionPolicy, Demand, Reason};
use hawser_types::DialError;

use super::super::*;
use crate::story::{Try, TryState};
use crate::testing::{Rig, RigFlow};

fn director(links: &[&str]) -> Rig {
    Rig::with_links(ConnectionPolicy::MaxThroughput, links)
}

fn origin() -> ConnectionRequest {
    ConnectionRequest {
        program: Some("curl".to_owned()),
        executable: Some("/usr/bin/curl".to_owned()),
        remote: Some("198.51.100.1".parse().unwrap()),
        domain: Some("example.org".to_owned()),
        port: 443,
        ..ConnectionRequest::default()
    }
}

fn open(director: &Rig, decision: &LinkDecision, place: usize) -> RigFlow {
    let link = &decision.candidates[place].link;
    director.open(decision, link.index)
}

fn only(director: &Rig) -> Story {
    let stories = director.stories(10);
    assert_eq!(stories.len(), 1, "{stories:?}");
    stories[0].clone()
}

fn names(tries: &[Try]) -> Vec<String> {
    let name = |it: &Try| match &it.route {
        TryRoute::Link(link) => link.name.clone(),
        other => format!("{other:?}"),
    };
    tries.iter().map(name).collect()
}

#[test]
fn a_connection_is_told_of_from_its_decision_to_its_end() {
    let director = director(&["a", "b"]);
    director.set_rule(Rule {
        name: Some("mine".to_owned()),
        source: Source::User,
        when: Condition::default(),
        then: Action {
            links: Some(LinkChoice::Except(vec!["b".to_owned()])),
            ..Action::default()
        },
    });
    let decision = director.decide(&origin());
    let story = only(&director);
    assert_eq!((story.number, story.tries.len()), (1, 0));
    assert_eq!(story.subject.domain.as_deref(), Some("example.org"));
    assert_eq!(story.reason, Some(Reason::FinishesFirst));
    assert_eq!(story.candidates.len(), 1);
    assert_eq!(story.candidates[0].link.name, "a");
    let by = story.verdict.links_by.unwrap();
    assert_eq!(story.rules.rules()[by].name.as_deref(), Some("mine"));

    director.advance(Duration::from_millis(10));
    let flow = open(&director, &decision, 0);
    director.advance(Duration::from_millis(20));
    let waiting = only(&director).tries[0].clone();
    assert_eq!(waiting.state, TryState::Waiting);
    assert_eq!(
        (waiting.after, waiting.lasted),
        (Duration::from_millis(10), Duration::from_millis(20))
    );
    flow.connected(None);
    flow.moved(300, 5000);
    director.advance(Duration::from_secs(2));
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
    flow.moved(0, 1);
    drop(flow);
    director.advance(Duration::from_secs(9));
    is(TryState::Ended, 5001);
}

#[test]
fn tries_on_several_links_and_a_second_decision_are_one_story() {
    let director = director(&["a", "b", "c"]);
    let decision = director.decide(&origin());
    let refused = open(&director, &decision, 0);
    refused.failed(DialError::ConnectionRefused);
    drop(refused);
    let slow = open(&director, &decision, 1);
    let again = director.with(|it, now| it.decide_again(now, &origin(), &decision));
    director.advance(Duration::from_millis(250));
    // The current third choice.
    let third = decision.candidates[2].link.index;
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

#[test]
fn a_bounded_number_is_remembered_and_late_ends_of_others_do_no_harm() {
    let director = director(&["a"]);
    let decision = director.decide(&origin());
    let first = open(&director, &decision, 0);
    for _ in 0..1000 {
        director.decide(&origin());
    }
    first.connected(None);
    drop(first);
    let all = director.stories(usize::MAX);
    let numbers: Vec<u64> = all.iter().map(|story| story.number).collect();
    assert_eq!(numbers, (746..=1001).collect::<Vec<u64>>());
    assert_eq!(director.with(|it, _| it.latest_story()), 1001);
    assert!(director.story(745).is_none() && director.story(1002).is_none());
    assert_eq!(director.story(746).unwrap().number, 746);
    let two = director.stories(2);
    assert_eq!(two[0].number, 1000);
    assert!(two.iter().all(|story| story.tries.is_empty()));
}

#[test]
fn what_the_policy_does_not_choose_is_told_of_as_well() {
    let director = director(&["a", "b"]);
    let lookup = ConnectionRequest {
        port: 53,
        ..origin()
    };
    let decision = director.decide(&lookup);
    director.with(|it, now| it.note_by_system(now, &decision));
    let story = only(&director);
    assert_eq!(story.left_to, Some(LeftTo::Resolver));
    assert!(story.candidates.is_empty());
    assert_eq!(story.tries[0].state, TryState::Untold);

    let peer = "198.51.100.1".parse().unwrap();
    let request = ConnectionRequest {
        remote: Some(peer),
        port: 443,
        ..ConnectionRequest::default()
    };
    director.with(|it, now| it.note_bonded(now, &request, peer));
    let story = director.story(2);
    let story = story.unwrap();
    assert_eq!(story.left_to, Some(LeftTo::Peer(peer)));
    assert_eq!(
        (story.subject.remote, story.subject.port),
        (Some(peer), 443)
    );

    // The kernel's choice overrides the director's.
    let decision = director.decide(&origin());
    let demand = Demand {
        up: ByteCount::new(7),
        ..Demand::default()
    };
    director.with(|it, _| it.note_kernels(&decision, Some(Reason::Turn), demand));
    let story = director.story(3).unwrap();
    assert!(story.is_kernels);
    assert_eq!((story.reason, story.demand), (Some(Reason::Turn), demand));
    director.with(|it, _| it.note_failure(&decision, DialError::TimedOut));
    assert_eq!(director.story(3).unwrap().failed, Some(DialError::TimedOut));
}
