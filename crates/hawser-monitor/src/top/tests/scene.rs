//! A daemon's answers, and the resulting pictures.

use std::time::Duration;

use hawser_control::{
    Change, ChannelStatus, ConnectionsStatus, Event, HistoryReport, LinkAllowed, LinkHistory,
    LinkState, LinkStatus, LinkTraffic, PathState, PathStatus, PlacedConnection, PlacedReport,
    PolicyStatus, Request, Response, Role, RuleStatus, SessionState, SessionStatus, StatusSnapshot,
    StreamStatus, WhyReport,
};
use hawser_types::{ByteCount, LinkIndex, LinkUse, Rate, StreamId};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::super::keys::Wish;
use super::super::look::Look;
use super::super::screen;
use super::super::state::State;

pub(super) const PLAIN: Look = Look {
    colour: false,
    ascii: false,
};
pub(super) const COLOURED: Look = Look {
    colour: true,
    ascii: false,
};
pub(super) const ASCII: Look = Look {
    colour: false,
    ascii: true,
};

/// Answers of a simulated daemon.
#[derive(Clone)]
pub(super) struct Scene {
    pub(super) status: StatusSnapshot,
    pub(super) history: HistoryReport,
    pub(super) policy: PolicyStatus,
    pub(super) events: Vec<Event>,
    pub(super) placed: Vec<PlacedConnection>,
}

impl Scene {
    /// Creates two links, a session with a stream, and a connection beside it.
    pub(super) fn new() -> Self {
        let links = vec![link("dsl", 2, 1, 49), link("lte", 3, 0, 30)];
        let history = links.iter().map(history).collect();
        let status = StatusSnapshot {
            version: "0.1.0".to_owned(),
            role: Role::Client,
            process_id: 7,
            uptime: Duration::from_secs(3725),
            sessions: vec![session(&links)],
            session_count: 1,
            connections: Some(ConnectionsStatus::default()),
            links,
            ..StatusSnapshot::default()
        };
        Self {
            status,
            history: HistoryReport {
                at_unix_ms: 43_384_100,
                every: Duration::from_secs(1),
                links: history,
            },
            policy: policy(),
            events: vec![Event {
                id: 1,
                at_unix_ms: 43_384_100,
                what: Change::LinkAppeared {
                    link: "lte".to_owned(),
                    state: LinkState::Up,
                },
            }],
            placed: vec![connection()],
        }
    }

    /// Returns the answer to one request; every change succeeds.
    pub(super) fn answer(&self, request: &Request) -> Response {
        match request {
            Request::Status { .. } => Response::Status(Box::new(self.status.clone())),
            Request::History { .. } => Response::History(Box::new(self.history.clone())),
            Request::Policy => Response::Policy(Box::new(self.policy.clone())),
            Request::Events { after, .. } => Response::Events {
                events: self
                    .events
                    .iter()
                    .filter(|it| it.id > *after)
                    .cloned()
                    .collect(),
                latest: self.events.last().map_or(0, |event| event.id),
            },
            Request::Why { .. } => Response::Why(Box::new(WhyReport {
                placed: Some(PlacedReport {
                    connections: self.placed.clone(),
                    latest_id: self.placed.len() as u64,
                }),
                ..WhyReport::default()
            })),
            _ => Response::Done { saved: None },
        }
    }

    /// Creates a terminal that has shown this for a second.
    pub(super) fn shown(&self, look: Look, size: (u16, u16)) -> State {
        let mut state = State::new(look, size);
        state.handle_second();
        self.answer_all(&mut state);
        state
    }

    /// Answers until no request is left. Returns the requests.
    pub(super) fn answer_all(&self, state: &mut State) -> Vec<Request> {
        let mut asked = Vec::new();
        while let Some(request) = state.poll_request() {
            state.handle_answer(Ok(self.answer(&request)));
            asked.push(request);
        }
        asked
    }
}

/// Presses the keys of `text` one after the other, with `\n` for Enter and `\u{1b}` for Esc.
pub(super) fn press(state: &mut State, text: &str) -> Wish {
    let mut wish = Wish::Show;
    for key in text.chars() {
        let code = match key {
            '\n' => KeyCode::Enter,
            '\u{1b}' => KeyCode::Esc,
            key => KeyCode::Char(key),
        };
        wish = state.handle_key(KeyEvent::new(code, KeyModifiers::NONE));
    }
    wish
}

/// Returns the content of the terminal.
pub(super) fn picture(state: &State) -> Buffer {
    let (columns, lines) = state.size;
    let mut terminal = Terminal::new(TestBackend::new(columns, lines)).unwrap();
    terminal.draw(|frame| screen::draw(state, frame)).unwrap();
    terminal.backend().buffer().clone()
}

/// Returns the lines of the terminal, without trailing blanks.
pub(super) fn lines(state: &State) -> Vec<String> {
    let buffer = picture(state);
    let width = usize::from(buffer.area.width.max(1));
    let rows = buffer.content.chunks(width);
    let text =
        |row: &[ratatui::buffer::Cell]| -> String { row.iter().map(|it| it.symbol()).collect() };
    rows.map(|row| text(row).trim_end().to_owned()).collect()
}

pub(super) fn text(state: &State) -> String {
    lines(state).join("\n")
}

pub(super) fn link(name: &str, index: u32, up: u64, down: u64) -> LinkStatus {
    LinkStatus {
        name: name.to_owned(),
        index: LinkIndex::new(index),
        addresses: vec![format!("10.{index}.0.2").parse().unwrap()],
        state: LinkState::Up,
        reason: None,
        since_unix_ms: None,
        state_age: None,
        rank: None,
        signal: None,
        modem: None,
        standby: None,
        allowed: Some(LinkAllowed {
            up: LinkUse::Normal,
            down: LinkUse::Normal,
            since: "2026-11-01".to_owned(),
            sent_bytes: ByteCount::new(200_000_000),
            received_bytes: ByteCount::new(1_000_000_000),
            allowance_bytes: Some(ByteCount::new(10_000_000_000)),
            limit: None,
            cost: Some("2.40 EUR".to_owned()),
            price: Some("2EUR/GB".to_owned()),
            weight: Some(1),
        }),
        traffic: LinkTraffic {
            up: megabits(up),
            down: megabits(down),
            sent_bytes: ByteCount::new(1_000_000),
            received_bytes: ByteCount::new(50_000_000),
            rtt: Some(Duration::from_micros(20_300)),
            up_loss: Some(0.001),
            queue: Some(Duration::from_millis(12)),
            cwnd_bytes: ByteCount::new(64_000),
        },
    }
}

pub(super) fn stream(id: u64, destination: &str, rate: u64) -> StreamStatus {
    StreamStatus {
        id: StreamId::new(id),
        destination: Some(destination.to_owned()),
        bytes_sent: ByteCount::new(1000),
        bytes_received: ByteCount::new(5_000_000),
        age: Duration::from_secs(65),
        program: Some("curl".to_owned()),
        rate: megabits(rate),
    }
}

fn history(link: &LinkStatus) -> LinkHistory {
    let ramp = |rate: Rate| (0..=8).map(move |step| rate.bits_per_second() * step / 8);
    LinkHistory {
        name: link.name.clone(),
        index: link.index,
        up: ramp(link.traffic.up)
            .map(Rate::from_bits_per_second)
            .collect(),
        down: ramp(link.traffic.down)
            .map(Rate::from_bits_per_second)
            .collect(),
        rtt: (0..=8)
            .map(|step| (step > 2).then(|| Duration::from_millis(step)))
            .collect(),
        state: vec![Some(link.state); 9],
    }
}

fn session(links: &[LinkStatus]) -> SessionStatus {
    let path = |link: &LinkStatus| PathStatus {
        link: link.name.clone(),
        index: link.index,
        state: PathState::Up,
        channels: vec![ChannelStatus::default()],
        ..PathStatus::default()
    };
    SessionStatus {
        id: "1a2b".to_owned(),
        peer: "gw.example".to_owned(),
        state: SessionState::Established,
        scheduler: "auto".to_owned(),
        paths: links.iter().map(path).collect(),
        stream_count: 1,
        streams: vec![stream(6, "example.org:443", 78)],
        ..SessionStatus::default()
    }
}

fn connection() -> PlacedConnection {
    PlacedConnection {
        id: 17,
        at_unix_ms: 43_384_100,
        protocol: "tcp".to_owned(),
        program: Some("firefox".to_owned()),
        destination: "news.example:443".to_owned(),
        scheduler: "auto".to_owned(),
        why: "finishes-first".to_owned(),
        meaning: "all open connections finish soonest that way".to_owned(),
        link: Some("lte".to_owned()),
        state: "open".to_owned(),
        bytes_received: ByteCount::new(20_000),
        lasted: Some(Duration::from_secs(2)),
        rate: megabits(2),
        ..PlacedConnection::default()
    }
}

fn policy() -> PolicyStatus {
    let names = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect();
    PolicyStatus {
        sessions: "auto".to_owned(),
        sessions_known: names(&["auto", "round-robin", "least-rtt"]),
        connections: Some("auto".to_owned()),
        connections_known: names(&["auto", "only-one"]),
        packets: Some("auto".to_owned()),
        packets_known: names(&["auto", "ikr"]),
        transport: Some("tcp".to_owned()),
        transports_known: names(&["tcp", "sctp", "auto"]),
        profile: Some("speed".to_owned()),
        profiles_known: names(&["speed", "calls", "saver"]),
        gateway: Some("always".to_owned()),
        rules: vec![
            rule(1, "session", None, ["program firefox", "only lte"]),
            rule(2, "user", Some("night"), ["program rsync", "class bulk"]),
        ],
        rule_count: 2,
        file: Some("/etc/hawser.toml".to_owned()),
    }
}

fn rule(number: u64, source: &str, name: Option<&str>, [when, then]: [&str; 2]) -> RuleStatus {
    let rule = serde_json::json!({
        "number": number, "source": source, "name": name, "when": when, "then": then,
        "rule": format!("{when}, {then}"),
    });
    serde_json::from_value(rule).unwrap()
}

fn megabits(rate: u64) -> Rate {
    Rate::from_bits_per_second(rate * 1_000_000)
}
