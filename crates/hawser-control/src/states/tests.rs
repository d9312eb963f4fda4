use hawser_types::LinkIndex;

use super::*;

const DSL: LinkIndex = LinkIndex::new(2);
const LTE: LinkIndex = LinkIndex::new(3);
const NOW: u64 = 1_000_000;

fn seconds(count: u64) -> Option<Duration> {
    Some(Duration::from_secs(count))
}

fn link(index: LinkIndex, state: LinkState, reason: Option<&str>) -> LinkStatus {
    LinkStatus {
        name: if index == DSL { "dsl" } else { "lte" }.to_owned(),
        index,
        addresses: vec![[10, 1, 0, 2].into()],
        state,
        reason: reason.map(str::to_owned),
        ..LinkStatus::default()
    }
}

/// A path that was last heard `unheard` seconds ago.
fn path(index: LinkIndex, state: PathState, unheard: Option<u64>) -> PathStatus {
    let is_silent = state == PathState::Suspect;
    PathStatus {
        link: if index == DSL { "dsl" } else { "lte" }.to_owned(),
        index,
        state,
        reason: (state == PathState::Dead).then(|| "timed out".to_owned()),
        silent: unheard.and_then(seconds).filter(|_| is_silent),
        unheard: unheard.and_then(seconds),
        ..PathStatus::default()
    }
}

fn session(state: SessionState, paths: Vec<PathStatus>) -> SessionStatus {
    SessionStatus {
        id: "8c5f".to_owned(),
        state,
        is_with_gateway: true,
        paths,
        ..SessionStatus::default()
    }
}

/// Connections over a link that were last answered `unheard` seconds ago.
fn placing(state: &str, silent: Option<u64>, unheard: Option<u64>) -> PlacingStatus {
    PlacingStatus {
        index: DSL,
        state: state.to_owned(),
        silent: silent.and_then(seconds),
        unheard: unheard.and_then(seconds),
        ..PlacingStatus::default()
    }
}

/// Evidence on dsl, and the expected state.
struct Case {
    what: &'static str,
    kernel: (LinkState, Option<&'static str>),
    paths: Vec<PathStatus>,
    placing: Option<PlacingStatus>,
    expected: (LinkState, Option<&'static str>),
}

impl Case {
    /// Creates a case in which the kernel reports the link as up.
    fn new(what: &'static str, expected: (LinkState, Option<&'static str>)) -> Self {
        Self {
            what,
            kernel: (LinkState::Up, None),
            paths: Vec::new(),
            placing: None,
            expected,
        }
    }

    fn kernel(mut self, state: LinkState, reason: &'static str) -> Self {
        self.kernel = (state, Some(reason));
        self
    }

    fn path(mut self, path: PathStatus) -> Self {
        self.paths.push(path);
        self
    }

    fn placing(mut self, placing: PlacingStatus) -> Self {
        self.placing = Some(placing);
        self
    }
}

fn cases() -> Vec<Case> {
    use LinkState::{Down, NoInternet, Silent, Unused, Up};
    use PathState::{Connecting, Dead, Suspect};
    let up = |index, unheard| path(index, PathState::Up, Some(unheard));
    let excluded = |reason: &str| PathStatus {
        standing: PathStanding::Excluded,
        reason: Some(reason.to_owned()),
        ..up(DSL, 1)
    };
    vec![
        Case::new("nothing but the kernel's word", (Up, None)),
        Case::new("no carrier", (Down, Some("no carrier")))
            .kernel(Down, "no carrier")
            .path(path(DSL, Suspect, Some(2))),
        Case::new("its address is gone", (Down, Some("it has no address")))
            .kernel(Down, "it has no address")
            .placing(placing("suspect", Some(2), None)),
        Case::new("the user named others", (Unused, Some("not named")))
            .kernel(Unused, "not named")
            .path(up(DSL, 0)),
        Case::new("a session's path answers", (Up, None)).path(up(DSL, 0)),
        Case::new("a path at rest", (Up, None)).path(up(DSL, 9)),
        Case::new("silent under load", (Silent, Some(NO_ANSWER)))
            .path(path(DSL, Suspect, Some(1)))
            .path(up(LTE, 0)),
        Case::new(
            "silent, and its channels given up",
            (Silent, Some(NO_ANSWER)),
        )
        .path(PathStatus {
            silent: seconds(9),
            ..path(DSL, Dead, None)
        })
        .path(up(LTE, 0)),
        Case::new("a hiccup", (Up, None)).path(PathStatus {
            silent: Some(Duration::from_millis(200)),
            ..path(DSL, Suspect, None)
        }),
        Case::new("another session heard it since", (Up, None))
            .path(path(DSL, Suspect, Some(5)))
            .path(up(DSL, 1)),
        Case::new("connections heard it since", (Up, None))
            .path(path(DSL, Suspect, Some(5)))
            .placing(placing("sound", None, Some(1))),
        Case::new("connections are silent since", (Silent, Some(UNANSWERED)))
            .path(up(DSL, 20))
            .placing(placing("suspect", Some(3), Some(40))),
        Case::new(
            "connections were silent, and a session heard it",
            (Up, None),
        )
        .path(up(DSL, 1))
        .placing(placing("suspect", Some(3), Some(40))),
        Case::new("connection mode, sound", (Up, None)).placing(placing("sound", None, None)),
        Case::new("connection mode, silent", (Silent, Some(UNANSWERED))).placing(placing(
            "suspect",
            Some(3),
            Some(40),
        )),
        Case::new("connection mode, a portal", (NoInternet, Some(PORTAL))).placing(placing(
            "portal",
            None,
            Some(1),
        )),
        Case::new("a portal that lets the gateway through", (Up, Some(PORTAL)))
            .path(up(DSL, 1))
            .placing(placing("portal", None, Some(1))),
        Case::new("no default route", (NoInternet, Some("no route")))
            .kernel(NoInternet, "no route")
            .placing(placing("sound", None, None)),
        Case::new("no default route, and a path nevertheless", (Up, None))
            .kernel(NoInternet, "no route")
            .path(up(DSL, 1)),
        Case::new("reached over others only", (NoInternet, Some("timed out")))
            .path(path(DSL, Dead, None))
            .path(up(LTE, 0)),
        Case::new(
            "reached over others, connections work",
            (Up, Some("timed out")),
        )
        .path(path(DSL, Dead, None))
        .path(up(LTE, 0))
        .placing(placing("sound", None, Some(2))),
        Case::new("the gateway is reached over none", (Up, Some("timed out")))
            .path(path(DSL, Dead, None))
            .path(path(LTE, Dead, None)),
        Case::new("a link that has just come", (Up, None))
            .path(path(DSL, Connecting, None))
            .path(up(LTE, 0)),
        Case::new(
            "a metered link, its allowance used up",
            (Up, Some("its allowance is used up")),
        )
        .path(excluded("its allowance is used up")),
        Case::new("kept as backup", (Up, Some("kept as backup"))).path(excluded("kept as backup")),
        Case::new("never used, by the user's word", (Up, None)).path(up(LTE, 0)),
    ]
}

#[test]
fn the_state_of_a_link_follows_from_the_strongest_and_latest_evidence() {
    for case in cases() {
        let (state, reason) = case.kernel;
        let link = link(DSL, state, reason);
        let sessions = [session(SessionState::Established, case.paths)];
        let verdict = judge(&link, &sessions, case.placing.as_ref());
        let found = (verdict.state, verdict.reason.as_deref());
        assert_eq!(found, case.expected, "{}", case.what);
    }
}

/// Returns a client with two links that are up in the kernel, and one session over these paths.
fn client(state: SessionState, paths: Vec<PathStatus>) -> StatusSnapshot {
    let links = [DSL, LTE].map(|index| link(index, LinkState::Up, None));
    StatusSnapshot {
        role: Role::Client,
        links: links.into(),
        session_count: 1,
        sessions: vec![session(state, paths)],
        connections: Some(ConnectionsStatus {
            gateway: Some(GatewayStatus::default()),
            ..ConnectionsStatus::default()
        }),
        ..StatusSnapshot::default()
    }
}

fn settled(states: &mut States, now: u64, mut seen: StatusSnapshot) -> StatusSnapshot {
    states.settle(now, &mut seen);
    seen
}

fn gateway(seen: &StatusSnapshot) -> GatewayStatus {
    let connections = seen.connections.clone();
    connections.and_then(|it| it.gateway).unwrap()
}

#[test]
fn a_silent_link_says_since_when_and_stays_silent_until_it_is_heard() {
    use PathState::{Connecting, Suspect, Up};
    let mut states = States::default();
    let both = || {
        let paths = vec![path(DSL, Up, Some(0)), path(LTE, Up, Some(0))];
        client(SessionState::Established, paths)
    };
    let seen = settled(&mut states, NOW, both());
    assert_eq!(seen.links[0].since_unix_ms, None, "so it was at first");
    let silent = |after| {
        let paths = vec![path(DSL, Suspect, Some(after)), path(LTE, Up, Some(0))];
        client(SessionState::Established, paths)
    };
    let since = |seen: &StatusSnapshot| (seen.links[0].state, seen.links[0].since_unix_ms);
    let seen = settled(&mut states, NOW + 2000, silent(2));
    assert_eq!(since(&seen), (LinkState::Silent, Some(NOW)));
    assert_eq!(seen.links[0].state_age, seconds(2));
    assert_eq!(seen.links[1].state, LinkState::Up);
    // The same result with another client and other clock readings.
    let seen = settled(&mut states, NOW + 3007, silent(3));
    assert_eq!(since(&seen), (LinkState::Silent, Some(NOW)));
    // The session is lost, and no evidence about the link is left.
    let lost = || client(SessionState::Connecting, vec![path(DSL, Connecting, None)]);
    let seen = settled(&mut states, NOW + 70_000, lost());
    assert_eq!(since(&seen), (LinkState::Silent, Some(NOW)));
    assert_eq!(seen.links[0].reason.as_deref(), Some(NO_ANSWER));
    // An idle channel of it is left, from which no answer is due; the clocks differ a little.
    for last_heard in [NOW - 50_000, NOW, NOW + 20] {
        let mut rest = client(SessionState::Interrupted, vec![path(DSL, Up, None)]);
        rest.sessions[0].paths[0].unheard = Some(Duration::from_millis(NOW + 75_000 - last_heard));
        let seen = settled(&mut states, NOW + 75_000, rest);
        assert_eq!(since(&seen), (LinkState::Silent, Some(NOW)), "{last_heard}");
    }
    let seen = settled(&mut states, NOW + 80_000, both());
    assert_eq!(since(&seen), (LinkState::Up, Some(NOW + 80_000)));
    // Another address is another network.
    settled(&mut states, NOW + 90_000, silent(1));
    let mut moved = lost();
    moved.links[0].addresses.clear();
    assert_eq!(
        settled(&mut states, NOW + 91_000, moved).links[0].state,
        LinkState::Up
    );
}

#[test]
fn a_silent_link_that_connections_hear_is_up() {
    let mut states = States::default();
    let with = |placing| {
        let mut seen = client(SessionState::Connecting, Vec::new());
        if let Some(connections) = &mut seen.connections {
            connections.links = vec![placing];
        }
        seen
    };
    let seen = settled(&mut states, NOW, with(placing("suspect", Some(2), Some(5))));
    assert_eq!(seen.links[0].state, LinkState::Silent);
    let seen = settled(
        &mut states,
        NOW + 1000,
        with(placing("sound", None, Some(6))),
    );
    assert_eq!(seen.links[0].state, LinkState::Silent, "heard before that");
    let seen = settled(
        &mut states,
        NOW + 2000,
        with(placing("sound", None, Some(1))),
    );
    assert_eq!(seen.links[0].state, LinkState::Up);
}

#[test]
fn a_session_whose_links_are_all_silent_is_interrupted_and_so_is_the_way_to_the_gateway() {
    use PathState::{Suspect, Up};
    let mut states = States::default();
    let both = |state, unheard| {
        let paths = vec![path(DSL, state, unheard), path(LTE, state, unheard)];
        client(SessionState::Established, paths)
    };
    let seen = settled(&mut states, NOW, both(Up, Some(0)));
    assert_eq!(seen.sessions[0].state, SessionState::Established);
    assert!(gateway(&seen).is_up);
    let mut silent = both(Suspect, Some(2));
    for path in &mut silent.sessions[0].paths {
        path.reason = Some(NO_ANSWER.to_owned());
    }
    let seen = settled(&mut states, NOW + 2000, silent);
    let reason = format!("dsl: {NO_ANSWER}; lte: {NO_ANSWER}");
    let session = &seen.sessions[0];
    assert_eq!(session.state, SessionState::Interrupted);
    assert_eq!(session.reason.as_ref(), Some(&reason));
    assert_eq!(session.since_unix_ms, Some(NOW));
    let way = gateway(&seen);
    assert_eq!((way.is_up, way.reason), (false, Some(reason)));
    assert_eq!(way.unreachable_since_unix_ms, Some(NOW));
    // The session is given up: the gateway is missed since the same time, with another reason.
    let mut connecting = client(SessionState::Connecting, Vec::new());
    connecting.sessions[0].reason = Some("timed out".to_owned());
    let way = gateway(&settled(&mut states, NOW + 60_000, connecting));
    assert_eq!(way.unreachable_since_unix_ms, Some(NOW));
    assert_eq!(way.reason.as_deref(), Some("timed out"));
    let seen = settled(&mut states, NOW + 70_000, both(Up, Some(0)));
    assert_eq!(gateway(&seen).unreachable_since_unix_ms, None);
    assert_eq!(seen.sessions[0].since_unix_ms, None);
}

#[test]
fn a_gateway_that_was_never_reached_is_missed_after_a_moment() {
    let mut states = States::default();
    let mut missed = |now| {
        let seen = settled(
            &mut states,
            now,
            client(SessionState::Connecting, Vec::new()),
        );
        gateway(&seen).unreachable_since_unix_ms
    };
    assert_eq!(missed(NOW), None);
    assert_eq!(missed(NOW + 2900), None);
    assert_eq!(missed(NOW + 3000), Some(NOW));
}

#[test]
fn a_peer_that_is_gone_makes_no_link_silent() {
    use PathState::{Suspect, Up};
    let link = link(DSL, LinkState::Up, None);
    let with_peer = |lte| {
        let paths = vec![path(DSL, Suspect, Some(5)), path(LTE, lte, Some(5))];
        [SessionStatus {
            is_with_gateway: false,
            ..session(SessionState::Established, paths)
        }]
    };
    let state = |sessions: &[SessionStatus]| judge(&link, sessions, None).state;
    assert_eq!(state(&with_peer(Suspect)), LinkState::Up);
    assert_eq!(state(&with_peer(Up)), LinkState::Silent);
}

#[test]
fn a_session_that_was_left_says_nothing_of_the_gateway_and_its_silence_nothing_of_links() {
    let mut states = States::default();
    let alive = vec![path(DSL, PathState::Up, Some(0))];
    let mut seen = client(SessionState::Established, alive);
    let silent = vec![path(DSL, PathState::Suspect, Some(5))];
    let left = SessionStatus {
        id: "1a2b".to_owned(),
        is_left: true,
        ..session(SessionState::Established, silent)
    };
    // Sessions may be in any order.
    seen.sessions.insert(0, left.clone());
    seen.session_count = 2;
    let seen = settled(&mut states, NOW, seen);
    assert_eq!(seen.sessions[0].state, SessionState::Interrupted);
    assert!(gateway(&seen).is_up);
    let link = link(DSL, LinkState::Up, None);
    assert_eq!(judge(&link, &[left], None).state, LinkState::Up);
}

#[test]
fn a_gateways_links_are_not_those_of_its_clients() {
    let mut states = States::default();
    let silent = vec![path(DSL, PathState::Suspect, Some(5))];
    let mut seen = client(SessionState::Established, silent);
    seen.role = Role::Gateway;
    let seen = settled(&mut states, NOW, seen);
    assert_eq!(seen.links[0].state, LinkState::Up);
    assert_eq!(seen.sessions[0].state, SessionState::Interrupted);
}
