//! Converts a director's record of connections to the form that is shown.

use std::time::Duration;

use hawser_control::{PlacedCandidate, PlacedConnection, PlacedReport, PlacedRule, PlacedTry};
use hawser_director::{LeftTo, Promise, Story, Try, TryRoute, TryState};
use hawser_front::connection::SharedDirector;
use hawser_policy::Protocol;
use hawser_types::{ByteCount, Instant, Rate};

use crate::subject::PlacedRange;

/// Returns the remembered connections; `since_1970` is the current time.
pub(crate) fn report(
    director: &SharedDirector,
    which: PlacedRange,
    since_1970: Duration,
) -> PlacedReport {
    let (now, stories) = match which {
        PlacedRange::Latest(count) => director.stories(count),
        PlacedRange::One(number) => {
            let (now, story) = director.story(number);
            (now, story.into_iter().collect())
        }
    };
    let told = |story: &Story| connection(story, now, since_1970);
    PlacedReport {
        connections: stories.iter().map(told).collect(),
        latest_id: director.with(|director, _| director.latest_story()),
    }
}

fn connection(story: &Story, now: Instant, since_1970: Duration) -> PlacedConnection {
    let subject = &story.subject;
    let at = since_1970.saturating_sub(now.since(story.begun));
    let outcome = story.outcome();
    let (why, meaning) = why(story);
    let [bytes_sent, bytes_received] = outcome.map(|it| it.moved).unwrap_or_default();
    let state = state(story, outcome);
    let lasted = outcome.filter(|_| matches!(state, "open" | "ended"));
    let lasted = lasted.map(|it| it.lasted);
    let is_by_gateway = matches!(story.left_to, Some(LeftTo::Gateway(_)));
    let link = outcome.filter(|_| state != "failed" && !is_by_gateway);
    PlacedConnection {
        id: story.number,
        at_unix_ms: u64::try_from(at.as_millis()).unwrap_or(u64::MAX),
        protocol: subject.protocol.name().to_owned(),
        program: subject.program.clone(),
        user: subject.user,
        destination: destination(story),
        address: subject.remote,
        class: story.demand.class.name().to_owned(),
        expected_up_bytes: story.demand.up,
        expected_down_bytes: story.demand.down,
        scheduler: story.policy.name().to_owned(),
        in_kernel: story.is_kernels,
        why: why.to_owned(),
        meaning,
        rules: rules(story),
        candidates: story
            .candidates
            .iter()
            .map(|it| candidate(it, story))
            .collect(),
        tries: story.tries.iter().map(one_try).collect(),
        decided_again: story.decided_again.into(),
        link: link.and_then(link_name),
        state: state.to_owned(),
        error: story.failed.map(|error| error.to_string()),
        bytes_sent,
        bytes_received,
        lasted,
        rate: lasted.map_or(Rate::ZERO, |span| rate(bytes_sent + bytes_received, span)),
    }
}

fn destination(story: &Story) -> String {
    let subject = &story.subject;
    match (&subject.domain, subject.remote) {
        (Some(name), _) => format!("{name}:{}", subject.port),
        (None, Some(address)) => std::net::SocketAddr::new(address, subject.port).to_string(),
        (None, None) => format!("?:{}", subject.port),
    }
}

/// Returns the reason for the first choice, as a name and as text.
fn why(story: &Story) -> (&'static str, String) {
    let is_systems = story
        .tries
        .first()
        .is_some_and(|it| it.route == TryRoute::System);
    match (&story.left_to, story.reason) {
        (Some(LeftTo::Peer(address)), _) => {
            ("peer", format!("the destination is a peer, at {address}"))
        }
        (Some(LeftTo::Gateway(why)), _) => ("gateway", (*why).to_owned()),
        (Some(LeftTo::Tunnel(name)), _) if is_systems => {
            ("vpn", format!("{name} takes all traffic"))
        }
        (Some(LeftTo::Resolver), _) if is_systems => (
            "resolver",
            "resolvers are reached as the system has it".to_owned(),
        ),
        _ if is_systems => (
            "route",
            "it has a route of its own there, or no link leads there".to_owned(),
        ),
        _ if story.candidates.is_empty() && !story.is_kernels => (
            "closed",
            "no link that leads there may be used for it".to_owned(),
        ),
        _ if story.candidates.len() == 1 => (
            "only",
            "it is the only link that leads there and may be used".to_owned(),
        ),
        (_, Some(reason)) => (reason.name(), reason.meaning().to_owned()),
        (_, None) if story.is_kernels => ("closed", "the rules left it no link".to_owned()),
        (_, None) => ("suspect", "no link has answered lately".to_owned()),
    }
}

/// Returns the rules that applied to the connection.
fn rules(story: &Story) -> Vec<PlacedRule> {
    let verdict = &story.verdict;
    let avoid: Vec<&str> = verdict.avoid.iter().map(|avoid| avoid.name()).collect();
    let fields = [
        ("class", verdict.class.to_string(), verdict.class_by),
        ("links", verdict.links.to_string(), verdict.links_by),
        ("avoid", avoid.join(" "), verdict.avoid_by),
        ("mode", verdict.mode.to_string(), verdict.mode_by),
    ];
    let rule = |(field, value, by): (&str, String, Option<usize>)| {
        let place = by?;
        let rule = story.rules.rules().get(place)?;
        Some(PlacedRule {
            field: field.to_owned(),
            value,
            number: place as u64 + 1,
            source: rule.source.to_string(),
            name: rule.name.clone(),
        })
    };
    fields.into_iter().filter_map(rule).collect()
}

fn candidate(promise: &Promise, story: &Story) -> PlacedCandidate {
    let view = &promise.view;
    PlacedCandidate {
        link: promise.link.name.clone(),
        index: promise.link.index,
        standing: match (promise.is_suspect, promise.is_reserve) {
            (true, _) => "suspect",
            (false, true) => "reserve",
            (false, false) => "equal",
        }
        .to_owned(),
        up: view.up,
        down: view.down,
        latency: (!view.latency.is_zero()).then_some(view.latency),
        active: view.load.connections.into(),
        up_bytes: view.load.up,
        down_bytes: view.load.down,
        finish: view.time_to_finish(&story.demand),
        answer: view.time_to_answer(&story.demand),
    }
}

fn one_try(it: &Try) -> PlacedTry {
    let (state, error) = match it.state {
        TryState::Waiting if it.moved[1] == ByteCount::ZERO => ("waiting", None),
        TryState::Waiting | TryState::Open | TryState::Ended => ("connected", None),
        TryState::Failed(error) => ("failed", Some(error.to_string())),
        TryState::GivenUp => ("given-up", None),
        _ => ("untold", None),
    };
    let waited = matches!(state, "failed" | "given-up").then_some(it.lasted);
    PlacedTry {
        link: link_name(it),
        after: it.after,
        state: state.to_owned(),
        error,
        waited,
    }
}

fn state(story: &Story, outcome: Option<&Try>) -> &'static str {
    if story.failed.is_some() {
        return "failed";
    }
    let is_uncounted = story.is_kernels && story.subject.protocol == Protocol::Udp;
    match outcome.map(|it| (it.state, it.moved)) {
        // The kernel reports answers only at the end of a connection, and never for datagrams.
        Some((TryState::Waiting, [_, down])) if down > ByteCount::ZERO => "open",
        Some((TryState::Waiting, _)) if is_uncounted => "open",
        Some((TryState::GivenUp, _)) if is_uncounted => "ended",
        Some((TryState::Open, _)) => "open",
        Some((TryState::Ended, _)) => "ended",
        Some((TryState::GivenUp | TryState::Failed(_), _)) => "failed",
        Some((TryState::Untold, _)) => "untold",
        None if matches!(story.left_to, Some(LeftTo::Peer(_) | LeftTo::Gateway(_))) => "untold",
        _ => "connecting",
    }
}

fn link_name(it: &Try) -> Option<String> {
    match &it.route {
        TryRoute::Link(link) => Some(link.name.clone()),
        TryRoute::Gateway => Some("gateway".to_owned()),
        TryRoute::System => None,
    }
}

/// Returns the rate over `span`; zero if it is too short for an estimate.
fn rate(bytes: ByteCount, span: Duration) -> Rate {
    if span < Duration::from_millis(1) {
        Rate::ZERO
    } else {
        Rate::over(bytes, span)
    }
}

#[cfg(test)]
mod tests;
