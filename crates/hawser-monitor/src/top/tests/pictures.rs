//! Pictures on the terminal.

use hawser_control::{
    Change, Event, LinkHistory, PacketFlowLink, PacketFlowStatus, PacketPlacing, PlacedConnection,
};
use hawser_types::{ByteCount, LinkIndex};
use ratatui::style::Color;

use super::super::state::State;
use super::scene::{ASCII, COLOURED, PLAIN, Scene, lines, link, picture, press, stream, text};

/// Every view, the help, a list and a line.
const EVERYTHING: [&str; 8] = ["1", "2", "3", "4", "5", "?", "S", "/x"];

#[test]
fn links_and_the_selected_one_fit_the_smallest_common_terminal() {
    let state = Scene::new().shown(PLAIN, (80, 24));
    let expected = LINKS.lines().collect::<Vec<_>>();
    assert_eq!(lines(&state), expected, "\n{}", text(&state));
}

#[test]
fn flows_say_what_they_use_and_why() {
    let scene = Scene::new();
    let mut state = scene.shown(PLAIN, (80, 24));
    press(&mut state, "2");
    scene.answer_all(&mut state);
    let expected = TRAFFIC.lines().collect::<Vec<_>>();
    assert_eq!(lines(&state)[..6], expected, "\n{}", text(&state));
}

#[test]
fn the_policy_shows_what_else_there_is() {
    let scene = Scene::new();
    let mut state = scene.shown(PLAIN, (80, 24));
    press(&mut state, "5");
    let expected = POLICY.lines().collect::<Vec<_>>();
    assert_eq!(lines(&state)[2..12], expected, "\n{}", text(&state));
}

#[test]
fn colours_say_nothing_that_is_not_said_without() {
    let scene = Scene::new();
    for keys in EVERYTHING {
        let [mut coloured, mut plain] = [COLOURED, PLAIN].map(|look| scene.shown(look, (80, 24)));
        for state in [&mut coloured, &mut plain] {
            press(state, keys);
            scene.answer_all(state);
        }
        assert_eq!(lines(&coloured), lines(&plain), "{keys}");
        let is_plain = |colour: Color| colour == Color::Reset;
        let picture = picture(&plain);
        let mut cells = picture.content.iter();
        assert!(
            cells.all(|cell| is_plain(cell.fg) && is_plain(cell.bg)),
            "{keys}"
        );
    }
    let coloured = picture(&scene.shown(COLOURED, (80, 24)));
    assert!(coloured.content.iter().any(|cell| cell.fg == Color::Green));
}

#[test]
fn ascii_is_enough() {
    let mut scene = Scene::new();
    scene.status.links[0].name = "größe".to_owned();
    for keys in EVERYTHING {
        let mut state = scene.shown(ASCII, (80, 24));
        press(&mut state, keys);
        scene.answer_all(&mut state);
        assert!(text(&state).is_ascii(), "{}", text(&state));
    }
}

#[test]
fn too_small_a_terminal_is_told_so() {
    let scene = Scene::new();
    let expected = [
        "up 1.00 down 79.0 Mbit/s  gain × 1.60",
        "Lists need 60 columns and 16 lines; here",
        "q quits",
    ];
    assert_eq!(lines(&scene.shown(PLAIN, (40, 20)))[..3], expected);
    for keys in EVERYTHING {
        for size in [
            (1, 1),
            (3, 200),
            (500, 2),
            (60, 16),
            (61, 17),
            (120, 16),
            (500, 200),
        ] {
            let mut state = scene.shown(PLAIN, size);
            press(&mut state, keys);
            scene.answer_all(&mut state);
            text(&state);
        }
    }
}

#[test]
fn flows_of_packets_stand_among_streams_with_their_links_and_lead_to_their_reasons() {
    let mut scene = Scene::new();
    let part = |link: &str, bytes| PacketFlowLink {
        link: link.to_owned(),
        bytes_sent: ByteCount::new(bytes),
        ..PacketFlowLink::default()
    };
    let call = PacketFlowStatus {
        protocol: "udp".to_owned(),
        source: "10.83.0.2:40000".to_owned(),
        destination: "192.0.2.1:5060".to_owned(),
        placed: PacketPlacing::RealTime,
        links: vec![part("dsl", 30), part("lte", 10)],
        ..PacketFlowStatus::default()
    };
    scene.status.sessions[0].packet_flows = vec![call];
    scene.status.sessions[0].streams.clear();
    scene.placed.clear();
    let mut state = scene.shown(PLAIN, (120, 24));
    press(&mut state, "2");
    let shown = text(&state);
    for part in [
        "192.0.2.1:5060 (udp packets)",
        "dsl 75% lte 25%",
        "real-time",
    ] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    press(&mut state, "\n");
    scene.answer_all(&mut state);
    assert!(text(&state).contains("About session"), "{}", text(&state));
}

#[test]
fn a_terminal_that_knows_nothing_yet_shows_that() {
    for keys in EVERYTHING {
        let mut state = State::new(PLAIN, (80, 24));
        press(&mut state, keys);
        assert!(text(&state).contains("hawser"));
    }
}

#[test]
fn hostile_names_command_nothing() {
    let hostile = "\u{1b}]0;x\u{7}\u{9b}2J\u{202e}\r\n\t\u{200b}漢字é";
    let mut scene = Scene::new();
    scene.status.version = hostile.to_owned();
    scene.status.links[0] = link(hostile, 2, 5, 5);
    scene.status.links[0].reason = Some(hostile.to_owned());
    scene.status.sessions[0].id = hostile.to_owned();
    scene.status.sessions[0].paths[0].link = hostile.to_owned();
    scene.status.sessions[0].streams =
        vec![stream(2, hostile, 1), stream(4, &hostile.repeat(500), 2)];
    scene.status.sessions[0].streams[0].program = Some(hostile.to_owned());
    scene.placed[0].destination = hostile.to_owned();
    scene.placed[0].meaning = hostile.to_owned();
    scene.policy.rules[0].when = hostile.to_owned();
    scene.policy.sessions_known.push(hostile.to_owned());
    scene.policy.file = Some(hostile.to_owned());
    scene.events.push(Event {
        id: 2,
        at_unix_ms: u64::MAX,
        what: Change::LinkGone {
            link: hostile.to_owned(),
        },
    });
    let keys = EVERYTHING
        .into_iter()
        .chain(["w", "2r", "2\n", "5jjjjjjx", "ss", "x"]);
    for keys in keys {
        for look in [PLAIN, ASCII] {
            let mut state = scene.shown(look, (80, 24));
            press(&mut state, keys);
            scene.answer_all(&mut state);
            for cell in &picture(&state).content {
                let is_bad = |it: char| it.is_control() || ('\u{200b}'..='\u{202e}').contains(&it);
                assert!(
                    !cell.symbol().contains(is_bad),
                    "{keys}: {:?}",
                    cell.symbol()
                );
            }
        }
    }
}

#[test]
fn ten_links_and_five_hundred_streams_can_all_be_reached() {
    let mut scene = Scene::new();
    scene.status.links = (0..10)
        .map(|n| link(&format!("wwan{n}"), n + 2, 1, 1))
        .collect();
    let streams = (0..500).map(|n| stream(2 * n, &format!("host{n}.example:443"), n));
    scene.status.sessions[0].streams = streams.collect();
    scene.placed.clear();
    let mut state = scene.shown(PLAIN, (80, 24));
    let shown = text(&state);
    assert!(
        (0..10).all(|n| shown.contains(&format!("wwan{n}"))),
        "{shown}"
    );
    assert!(
        shown.contains("RTT  "),
        "the selected one has its place\n{shown}"
    );
    press(&mut state, "2");
    for n in (0..500).rev().step_by(7) {
        let selected = format!("host{n}.example");
        let is_selected = |line: &String| line.starts_with("> ") && line.contains(&selected);
        assert!(
            lines(&state).iter().any(is_selected),
            "{selected}\n{}",
            text(&state)
        );
        press(&mut state, &"j".repeat(7));
    }
}

#[test]
fn what_goes_over_a_session_is_one_of_its_streams_and_counted_once() {
    let mut scene = Scene::new();
    scene.status.all_sessions.stream_count = 3;
    let by_itself = scene.placed[0].clone();
    let by_gateway = |id, state: &str| PlacedConnection {
        id,
        destination: format!("{state}.example:443"),
        why: "gateway".to_owned(),
        link: None,
        state: state.to_owned(),
        ..by_itself.clone()
    };
    scene.placed.extend([
        by_gateway(18, "open"),
        by_gateway(19, "untold"),
        by_gateway(20, "ended"),
    ]);
    let mut state = scene.shown(PLAIN, (80, 24));
    press(&mut state, "2");
    scene.answer_all(&mut state);
    let shown = text(&state);
    let title = "2 flows, 1 ended, 2 not listed, by rate (o: by another)";
    assert!(shown.contains(title), "{shown}");
    assert!(!shown.contains("open.example") && !shown.contains("untold.example"));
    assert!(shown.contains("ended.example"), "{shown}");
}

#[test]
fn a_history_is_drawn_of_the_link_that_it_is_of() {
    let mut scene = Scene::new();
    // Another interface has the number by now.
    scene.history.links[1] = LinkHistory {
        name: "gone0".to_owned(),
        index: LinkIndex::new(3),
        ..scene.history.links[1].clone()
    };
    let state = scene.shown(PLAIN, (80, 24));
    let bars = |name: &str| {
        let lines = lines(&state);
        lines
            .into_iter()
            .any(|line| line.contains(name) && line.contains('█'))
    };
    assert!(bars("dsl  ") && !bars("lte  "), "{}", text(&state));
}

const LINKS: &str = "\
hawser 0.1.0 client, running for 1h 02m    up 1.00 down 79.0 Mbit/s  gain × 1.60
[1 Links] 2 Traffic  3 Why  4 Events  5 Policy
  LINK         STATE       USE        UP Mbit/s      DOWN Mbit/s    RTT ms SHARE
> dsl          up          normal   1.00  ▁▂▃▄▅▆▇█   49.0  ▁▂▃▄▅▆▇█   20.3  62 %
  lte          up          normal   0.00             30.0  ▁▂▂▃▄▄▅▅   20.3  38 %
── dsl, up  10.2.0.2 ───────────────────────────────────────────────────────────
up     1.00 Mbit/s                                                            ▄█
       1.00 at most                                                         ▄███
                                                                          ▄█████
                                                                        ▄███████
down   49.0 Mbit/s                                                            ▄█
       49.0 at most                                                         ▄███
                                                                          ▄█████
                                                                        ▄███████
RTT    20.3 ms                                                                ▄█
        8.0 at most                                                         ▄███
                                                                          ▄█████
                                                                          ██████
loss 0.1 %  queue 12.0 ms  cwnd 64.0 kB  in all 1.00 MB up, 50.0 MB down
use normal, weight 1, 2EUR/GB; since 2026-11-01 1.20 GB of 10.0 GB, 2.40 EUR



n p b x use (both: d)  w weight  c price  a allowance  s save  ? help  q quit";
const TRAFFIC: &str = "\
hawser 0.1.0 client, running for 1h 02m    up 1.00 down 79.0 Mbit/s  gain × 1.60
 1 Links [2 Traffic] 3 Why  4 Events  5 Policy
2 flows, by rate (o: by another)
  PROGRAM    TO               OVER     WHY                Mbit/s   MOVED     FOR
> curl       example.org:443  dsl+lte  by auto              78.0 5.00 MB  1m 05s
  firefox    news.example:443 lte      finishes-first       2.00 20.0 kB      2s";
const POLICY: &str = "\
changes hold until the daemon ends
  WHAT                                IS                    MAY BE
> links for sessions are chosen by    auto                  round-robin least-rt
  links for connections are chosen by auto                  only-one
  links for packets are chosen by     auto                  ikr
  sessions travel over                tcp                   sctp auto
  the gateway is used                 always                auto never
  profile of rules                    speed                 calls saver
  rule 1 (session)                    program firefox       only lte
  rule 2 (user, night)                program rsync         class bulk";
