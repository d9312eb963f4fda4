//! Keys become requests, and answers become notes.

use hawser_control::{ErrorReason, LinkChange, Request, Response, Scheduled};
use hawser_types::{LinkUse, StreamId};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::super::NoAnswer;
use super::super::keys::Wish;
use super::super::state::{State, View};
use super::scene::{ASCII, PLAIN, Scene, lines, press, stream, text};

/// Returns the requests after these keys, on a terminal without pending requests.
fn asked(keys: &str) -> Vec<Request> {
    let scene = Scene::new();
    let mut state = scene.shown(PLAIN, (80, 24));
    press(&mut state, keys);
    let is_change = |it: &Request| {
        !matches!(
            it,
            Request::Status { .. }
                | Request::Policy
                | Request::History { .. }
                | Request::Why { .. }
        )
    };
    scene
        .answer_all(&mut state)
        .into_iter()
        .filter(is_change)
        .collect()
}

fn change(name: &str) -> LinkChange {
    LinkChange {
        name: name.to_owned(),
        ..LinkChange::default()
    }
}

#[test]
fn a_key_uses_the_selected_link_otherwise() {
    for (keys, name, up, down) in [
        ("x", "dsl", Some(LinkUse::Never), Some(LinkUse::Never)),
        ("jn", "lte", Some(LinkUse::Normal), Some(LinkUse::Normal)),
        ("jkb", "dsl", Some(LinkUse::Backup), Some(LinkUse::Backup)),
        ("jjjdp", "lte", Some(LinkUse::Prefer), None),
        ("ddp", "dsl", None, Some(LinkUse::Prefer)),
        ("dddx", "dsl", Some(LinkUse::Never), Some(LinkUse::Never)),
        ("/lt\nx", "lte", Some(LinkUse::Never), Some(LinkUse::Never)),
    ] {
        let wanted = LinkChange {
            up,
            down,
            ..change(name)
        };
        assert_eq!(asked(keys), [Request::SetLink(wanted)], "{keys}");
    }
    assert_eq!(asked("/nowhere\nx"), []);
}

#[test]
fn weight_price_and_allowance_are_filled_in() {
    let weight = LinkChange {
        weight: Some(30),
        ..change("dsl")
    };
    assert_eq!(asked("w30\n"), [Request::SetLink(weight)]);
    let price = LinkChange {
        price: Some("2.5EUR/GB".to_owned()),
        ..change("lte")
    };
    assert_eq!(asked("jc2.5EUR/GB\n"), [Request::SetLink(price)]);
    let allowance = LinkChange {
        allowance: Some("none".to_owned()),
        ..change("dsl")
    };
    assert_eq!(asked("anone\n"), [Request::SetLink(allowance)]);
    for nothing in ["w\n", "w30\u{1b}", "wmuch\n"] {
        assert_eq!(asked(nothing), [], "{nothing}");
    }
}

#[test]
fn policies_are_picked_from_what_the_daemon_knows() {
    let scheduler = |of, name: &str| Request::SetScheduler {
        of,
        scheduler: name.to_owned(),
        save: false,
    };
    assert_eq!(
        asked("Sj\n"),
        [scheduler(Scheduled::Sessions, "round-robin")]
    );
    assert_eq!(
        asked("5j\nj\n"),
        [scheduler(Scheduled::Connections, "only-one")]
    );
    let transport = "sctp".to_owned();
    assert_eq!(
        asked("Tj\n"),
        [Request::SetTransport {
            transport,
            save: false
        }]
    );
    let usage = "never".to_owned();
    assert_eq!(asked("Gjj\n"), [Request::SetGateway { usage, save: false }]);
    let profile = "calls".to_owned();
    assert_eq!(
        asked("Pj\n"),
        [Request::SetProfile {
            profile,
            save: false
        }]
    );
    assert_eq!(asked("Pj\u{1b}"), []);
}

#[test]
fn what_is_saved_is_said_with_the_change() {
    let profile = "speed".to_owned();
    assert_eq!(
        asked("sP\n"),
        [Request::SetProfile {
            profile,
            save: true
        }]
    );
    let used = LinkChange {
        up: Some(LinkUse::Never),
        down: Some(LinkUse::Never),
        save: true,
        ..change("dsl")
    };
    assert_eq!(asked("sx"), [Request::SetLink(used)]);

    let mut scene = Scene::new();
    scene.policy.file = None;
    let mut state = scene.shown(PLAIN, (80, 24));
    press(&mut state, "s");
    assert!(
        text(&state).contains("rules are saved, too; no --config"),
        "{}",
        text(&state)
    );
}

#[test]
fn an_application_is_bound_to_a_link_by_a_rule() {
    let rule = |text: &str| Request::AddRule {
        rule: text.to_owned(),
        save: false,
    };
    let of = |scene: &Scene| {
        let mut state = scene.shown(PLAIN, (80, 24));
        press(&mut state, "2rj\n");
        let mut requests = scene.answer_all(&mut state);
        requests.retain(|it| matches!(it, Request::AddRule { .. }));
        requests
    };
    let mut scene = Scene::new();
    scene.placed.clear();
    let session = |scene: &mut Scene, program: Option<&str>, to: &str| {
        let stream = &mut scene.status.sessions[0].streams[0];
        stream.program = program.map(str::to_owned);
        stream.destination = Some(to.to_owned());
    };
    for (program, to, wanted) in [
        (Some("curl"), "x:1", "program = \"curl\"\nonly = \"lte\"\n"),
        (
            Some("we \"quote\""),
            "x:1",
            "program = 'we \"quote\"'\nonly = \"lte\"\n",
        ),
        (
            None,
            "example.org:443",
            "domain = \"example.org\"\nonly = \"lte\"\n",
        ),
        (
            None,
            "[2001:db8::1]:443",
            "address = \"2001:db8::1\"\nonly = \"lte\"\n",
        ),
        (
            None,
            "192.0.2.1:53 (udp)",
            "address = \"192.0.2.1\"\nonly = \"lte\"\n",
        ),
    ] {
        session(&mut scene, program, to);
        assert_eq!(of(&scene), [rule(wanted)], "{to}");
    }
    for (program, to) in [
        (Some("*"), "x:1"),
        (Some("a\nb"), "x:1"),
        (None, "\u{1b}[2J:1"),
    ] {
        session(&mut scene, program, to);
        assert_eq!(of(&scene), [], "{program:?}");
    }
}

#[test]
fn a_rule_is_removed_where_it_stands_and_only_when_that_is_confirmed() {
    let remove = |number, rule: &str, save| Request::RemoveRule {
        number,
        rule: rule.to_owned(),
        save,
    };
    assert_eq!(
        asked("5jjjjjjxj\n"),
        [remove(1, "program firefox, only lte", false)]
    );
    assert_eq!(
        asked("5jjjjjjjxj\n"),
        [remove(2, "program rsync, class bulk", true)]
    );
    assert_eq!(asked("5jjjjjjx\n"), []);
    assert_eq!(asked("5xj\n"), [], "the policy is no rule");

    // The shown rule is removed, even if another rule has its number by now.
    let mut scene = Scene::new();
    let mut state = scene.shown(PLAIN, (80, 24));
    press(&mut state, "5jjjjjjx");
    scene.policy.rules.remove(0);
    scene.policy.rules[0].number = 1;
    state.handle_second();
    scene.answer_all(&mut state);
    press(&mut state, "j\n");
    let requests = scene.answer_all(&mut state);
    let wanted = remove(1, "program firefox, only lte", false);
    assert!(requests.contains(&wanted), "{requests:?}");
}

#[test]
fn one_flow_is_asked_about_and_no_other_answer_is_taken_for_its() {
    let scene = Scene::new();
    let mut state = scene.shown(PLAIN, (80, 24));
    press(&mut state, "3");
    let about_all = state.poll_request();
    assert!(
        matches!(about_all, Some(Request::Why { stream: None, .. })),
        "{about_all:?}"
    );
    press(&mut state, "2\n");
    state.handle_answer(Ok(scene.answer(&Request::Why {
        session: None,
        stream: None,
        connection: None,
        connections: None,
    })));
    assert!(state.seen.why.is_none());
    let requests = scene.answer_all(&mut state);
    let wanted = Request::Why {
        session: Some("1a2b".to_owned()),
        stream: Some(StreamId::new(6)),
        connection: None,
        connections: None,
    };
    assert!(requests.contains(&wanted), "{requests:?}");
    assert!(state.seen.why.is_some());
    assert!(text(&state).contains("About stream 6 of session 1a2b"));
    press(&mut state, "\u{1b}");
    assert!(state.about.is_none() && state.view == View::Why);
}

#[test]
fn streams_are_asked_for_while_they_are_shown() {
    let scene = Scene::new();
    let mut state = scene.shown(PLAIN, (80, 24));
    for view in ["1", "3", "4", "5"] {
        press(&mut state, view);
        scene.answer_all(&mut state);
        state.handle_second();
        let asked = scene.answer_all(&mut state);
        assert!(asked.contains(&Request::STATUS_WITHOUT_SESSIONS), "{view}");
        assert!(!asked.contains(&Request::STATUS), "{view}");
    }
    press(&mut state, "2");
    assert!(scene.answer_all(&mut state).contains(&Request::STATUS));
    state.handle_second();
    let asked = scene.answer_all(&mut state);
    let statuses = |it: &&Request| matches!(it, Request::Status { .. });
    assert_eq!(asked.iter().filter(statuses).count(), 1, "{asked:?}");
}

#[test]
fn nothing_more_is_asked_while_an_answer_is_due() {
    let scene = Scene::new();
    let mut state = scene.shown(ASCII, (80, 24));
    state.handle_second();
    assert_eq!(state.poll_request(), Some(Request::STATUS_WITHOUT_SESSIONS));
    for _ in 0..100 {
        state.handle_second();
        press(&mut state, "12345");
        assert_eq!(state.poll_request(), None);
    }
    let asked = scene.answer_all(&mut state);
    assert_eq!(asked, []);
    state.handle_answer(Ok(scene.answer(&Request::STATUS)));
    let asked = scene.answer_all(&mut state);
    assert!(asked.len() <= 6, "{asked:?}");
    // Changes do not pile up either.
    press(&mut state, "1");
    press(&mut state, &"x".repeat(100));
    let changes = scene.answer_all(&mut state);
    let changes = changes
        .iter()
        .filter(|it| matches!(it, Request::SetLink(_)))
        .count();
    assert_eq!(changes, 16);
}

#[test]
fn what_comes_of_a_change_is_said() {
    let mut state = Scene::new().shown(PLAIN, (80, 24));
    let mut answered = |response: Result<Response, NoAnswer>| {
        press(&mut state, "x");
        assert!(matches!(state.poll_request(), Some(Request::SetLink(_))));
        state.handle_answer(response);
        lines(&state)[22].clone()
    };
    let done = |saved: Option<&str>| {
        let saved = saved.map(str::to_owned);
        Ok(Response::Done { saved })
    };
    assert_eq!(answered(done(None)), "dsl: never, until the daemon ends");
    assert_eq!(answered(done(Some("/c"))), "dsl: never; saved in /c");
    let refused = Response::Error {
        reason: ErrorReason::Unsupported,
        message: "gateways\u{7} choose none".to_owned(),
    };
    assert_eq!(answered(Ok(refused)), "! dsl: never: gateways? choose none");
    let silent = answered(Err(NoAnswer::NoDaemon));
    assert_eq!(silent, "! dsl: never: it is unknown whether that was done");
}

#[test]
fn a_daemon_that_ends_and_one_that_comes_are_told() {
    let mut scene = Scene::new();
    let mut state = scene.shown(PLAIN, (80, 24));
    state.handle_second();
    while state.poll_request().is_some() {
        state.handle_answer(Err(NoAnswer::NoDaemon));
    }
    assert_eq!(lines(&state)[22], "! no daemon runs; trying again");
    assert!(
        text(&state).contains("dsl"),
        "what was known is still shown"
    );

    scene.status.process_id = 8;
    scene.events[0].at_unix_ms += 1000;
    state.handle_second();
    scene.answer_all(&mut state);
    assert_eq!(lines(&state)[22], "the daemon was restarted");
    // The event numbers of the new daemon start again.
    state.handle_second();
    let asked = scene.answer_all(&mut state);
    assert!(
        asked.contains(&Request::Events {
            after: 0,
            wait: None
        }),
        "{asked:?}"
    );
    assert_eq!(state.seen.events.len(), 1);
}

#[test]
fn an_older_daemon_is_shown_as_far_as_it_knows() {
    let mut scene = Scene::new();
    scene.status.connections = None;
    let mut state = State::new(PLAIN, (80, 24));
    for _ in 0..3 {
        state.handle_second();
        while let Some(request) = state.poll_request() {
            let unsupported = Response::Error {
                reason: ErrorReason::Unsupported,
                message: "what?".to_owned(),
            };
            state.handle_answer(Ok(match request {
                Request::Status { .. } => scene.answer(&request),
                _ => unsupported,
            }));
        }
    }
    assert!(text(&state).contains("dsl") && state.note.is_none());
}

#[test]
fn flows_are_filtered_and_put_in_order() {
    let mut scene = Scene::new();
    scene.status.sessions[0].streams =
        vec![stream(2, "b.example:443", 1), stream(4, "a.example:443", 5)];
    scene.placed[0].state = "ended".to_owned();
    let mut state = scene.shown(PLAIN, (80, 24));
    press(&mut state, "2");
    scene.answer_all(&mut state);
    let shown = |state: &State| -> Vec<String> {
        state
            .shown_flows()
            .into_iter()
            .map(|flow| flow.destination)
            .collect()
    };
    assert_eq!(
        shown(&state),
        ["a.example:443", "b.example:443", "news.example:443"]
    );
    press(&mut state, "jooo/");
    assert_eq!(state.flow().unwrap().destination, "b.example:443");
    press(&mut state, "CURL\n");
    assert_eq!(shown(&state), ["b.example:443", "a.example:443"]);
    press(&mut state, "\u{1b}o");
    assert_eq!(
        shown(&state),
        ["a.example:443", "b.example:443", "news.example:443"]
    );
}

#[test]
fn keys_that_every_program_knows_do_what_they_always_do() {
    let mut state = Scene::new().shown(PLAIN, (80, 24));
    let control = |key| KeyEvent::new(KeyCode::Char(key), KeyModifiers::CONTROL);
    assert_eq!(state.handle_key(control('c')), Wish::Quit);
    assert_eq!(state.handle_key(control('z')), Wish::Suspend);
    assert_eq!(state.handle_key(control('l')), Wish::Repaint);
    assert_eq!(press(&mut state, "q"), Wish::Quit);
    // Within a line it is a letter.
    assert_eq!(press(&mut state, "/q"), Wish::Show);
    assert_eq!(state.filter, "q");
    assert_eq!(state.handle_key(control('c')), Wish::Quit);
    assert_eq!(press(&mut state, "\u{1b}"), Wish::Show);
    let mut released = KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE);
    released.kind = KeyEventKind::Release;
    assert_eq!(state.handle_key(released), Wish::Show);
    for key in [KeyCode::Tab, KeyCode::BackTab, KeyCode::BackTab] {
        state.handle_key(KeyEvent::new(key, KeyModifiers::NONE));
    }
    assert_eq!(state.view, View::Policy);
}
