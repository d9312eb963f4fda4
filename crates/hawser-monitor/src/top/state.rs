//! `hawser top` without its terminal and its socket.

use hawser_control::{ErrorReason, LinkChange, LinkState, LinkStatus, Request, Response};
use hawser_types::{LinkIndex, LinkUse};

use super::asking::{Asked, Asking};
use super::cursor::Cursor;
use super::daemon::NoAnswer;
use super::filter::contains;
use super::flows::{Flow, FlowKey, Order, flows};
use super::input::Input;
use super::look::Look;
use super::seen::LatestAnswers;
use super::settings::PolicyKey;

/// State of the program: everything that it shows and requests.
///
/// Pass keys ([`handle_key`](Self::handle_key)), answers ([`handle_answer`](Self::handle_answer)),
/// the terminal's size ([`handle_size`](Self::handle_size)), and a tick every second
/// ([`handle_second`](Self::handle_second)). After each, send the next request of
/// [`poll_request`](Self::poll_request); there is no other one before its answer.
/// [`screen::draw`](super::screen::draw) draws the state.
#[derive(Debug)]
pub(super) struct State {
    pub(super) look: Look,
    pub(super) seen: LatestAnswers,
    pub(super) view: View,
    pub(super) links: Cursor<LinkIndex>,
    pub(super) flows: Cursor<FlowKey>,
    pub(super) policy: Cursor<PolicyKey>,
    pub(super) order: Order,
    /// Text that entries must contain, in lower case; empty for all entries.
    pub(super) filter: String,
    /// The flow that `why` explains; `None` for all flows.
    pub(super) about: Option<FlowKey>,
    /// Lines of text scrolled out at the top.
    pub(super) scroll: usize,
    pub(super) direction: Direction,
    /// True if changes are saved to the configuration.
    pub(super) save: bool,
    pub(super) input: Option<Input>,
    pub(super) note: Option<Note>,
    /// Error while the daemon does not answer.
    pub(super) silence: Option<String>,
    /// The terminal's columns and lines.
    pub(super) size: (u16, u16),
    asking: Asking,
    /// Seconds until the next request for the policy.
    until_policy: u8,
}

/// A view that fills the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum View {
    #[default]
    Links,
    Traffic,
    Why,
    Events,
    Policy,
}

/// Direction of a link to which changes apply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Direction {
    #[default]
    Both,
    Up,
    Down,
}

/// Outcome of the last change.
#[derive(Debug)]
pub(super) struct Note {
    pub(super) text: String,
    pub(super) is_bad: bool,
    /// Remaining seconds on screen.
    left: u8,
}

impl View {
    pub(super) const ALL: [Self; 5] = [
        Self::Links,
        Self::Traffic,
        Self::Why,
        Self::Events,
        Self::Policy,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Links => "Links",
            Self::Traffic => "Traffic",
            Self::Why => "Why",
            Self::Events => "Events",
            Self::Policy => "Policy",
        }
    }
}

impl Direction {
    pub(super) fn next(self) -> Self {
        match self {
            Self::Both => Self::Up,
            Self::Up => Self::Down,
            Self::Down => Self::Both,
        }
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Both => "both",
            Self::Up => "up",
            Self::Down => "down",
        }
    }
}

impl State {
    /// Creates a state without any answers.
    pub(super) fn new(look: Look, size: (u16, u16)) -> Self {
        Self {
            look,
            seen: LatestAnswers::default(),
            view: View::default(),
            links: Cursor::default(),
            flows: Cursor::default(),
            policy: Cursor::default(),
            order: Order::default(),
            filter: String::new(),
            about: None,
            scroll: 0,
            direction: Direction::default(),
            save: false,
            input: None,
            note: None,
            silence: None,
            size,
            asking: Asking::default(),
            until_policy: 0,
        }
    }

    /// Sets the terminal's columns and lines.
    pub(super) fn handle_size(&mut self, size: (u16, u16)) {
        self.size = size;
    }

    /// Handles a tick: requests the shown data again, unless answers are still due.
    pub(super) fn handle_second(&mut self) {
        self.note = self.note.take().and_then(|note| {
            let left = note.left.checked_sub(1)?;
            Some(Note { left, ..note })
        });
        if self.asking.is_idle() {
            self.until_policy = self.until_policy.saturating_sub(1);
            self.asking.question(self.question_status());
            let after = self.seen.latest_event;
            self.asking.question(Request::Events { after, wait: None });
            self.ask_for_view();
        }
    }

    /// Requests the daemon's status, unless answers are still due.
    pub(super) fn handle_look(&mut self) {
        if self.asking.is_idle() {
            self.asking.question(self.question_status());
        }
    }

    /// Returns the states of all links, in their order.
    pub(super) fn link_states(&self) -> Vec<LinkState> {
        let links = self.seen.status.iter().flat_map(|status| &status.links);
        links.map(|link| link.state).collect()
    }

    /// Returns the next request, once the previous one is answered.
    pub(super) fn poll_request(&mut self) -> Option<Request> {
        self.asking.poll_request()
    }

    /// Handles the answer to the last request.
    pub(super) fn handle_answer(&mut self, answer: Result<Response, NoAnswer>) {
        let asked = self.asking.answered();
        match (answer, asked) {
            (Ok(response), Some(asked)) => {
                self.silence = None;
                match asked.change {
                    Some(change) => self.handle_outcome(&change, response),
                    None => self.handle_news(&asked.request, response),
                }
            }
            (Err(why), asked) => self.handle_silence(&why, asked),
            (Ok(_), None) => {}
        }
    }

    /// Requests a change, which `words` describe.
    pub(super) fn change(&mut self, request: Request, words: String) {
        if !self.asking.change(request, words) {
            self.complain("too many changes wait for the daemon; this one is not made");
        }
    }

    /// Changes the use of the selected link, in the chosen direction.
    pub(super) fn use_link(&mut self, usage: LinkUse) {
        let Some(link) = self.link() else {
            return self.complain("no link is selected");
        };
        let name = link.name.clone();
        let (up, down) = match self.direction {
            Direction::Both => (true, true),
            Direction::Up => (true, false),
            Direction::Down => (false, true),
        };
        let words = match self.direction {
            Direction::Both => format!("{name}: {usage}"),
            one => format!("{name}: {usage} for {}", one.word()),
        };
        let change = LinkChange {
            name,
            up: up.then_some(usage),
            down: down.then_some(usage),
            save: self.save,
            ..LinkChange::default()
        };
        self.change(Request::SetLink(change), words);
    }

    /// Shows another view, and requests its data.
    pub(super) fn show(&mut self, view: View) {
        if self.view != view {
            self.view = view;
            self.scroll = 0;
        }
        self.until_policy = 0;
        self.ask_for_view();
    }

    /// Requests the reasons for one flow, or for all of them.
    pub(super) fn ask_why(&mut self, about: Option<FlowKey>) {
        self.about = about;
        self.seen.why = None;
        self.show(View::Why);
    }

    /// Returns the links that match the filter; unused ones come last.
    pub(super) fn shown_links(&self) -> Vec<&LinkStatus> {
        let links = self.seen.links().iter();
        let matching = links.filter(|link| contains(&link.name, &self.filter));
        let mut shown: Vec<&LinkStatus> = matching.collect();
        shown.sort_by_key(|link| link.state == LinkState::Unused);
        shown
    }

    /// Returns the selected link.
    pub(super) fn link(&self) -> Option<&LinkStatus> {
        let links = self.shown_links();
        let keys: Vec<LinkIndex> = links.iter().map(|link| link.index).collect();
        links.get(self.links.place(&keys)?).copied()
    }

    /// Returns the flows in the order of the list.
    pub(super) fn shown_flows(&self) -> Vec<Flow> {
        flows(&self.seen, self.order, &self.filter)
    }

    /// Returns the selected flow.
    pub(super) fn flow(&self) -> Option<Flow> {
        let mut flows = self.shown_flows();
        let keys: Vec<FlowKey> = flows.iter().map(|flow| flow.key.clone()).collect();
        let place = self.flows.place(&keys)?;
        Some(flows.swap_remove(place))
    }

    pub(super) fn say(&mut self, text: String) {
        self.note = Some(Note {
            text,
            is_bad: false,
            left: NOTE_SECONDS,
        });
    }

    pub(super) fn complain(&mut self, text: &str) {
        let text = text.to_owned();
        self.note = Some(Note {
            text,
            is_bad: true,
            left: NOTE_SECONDS,
        });
    }

    /// Returns the request for the daemon's status, with sessions if the view shows them.
    fn question_status(&self) -> Request {
        match self.view {
            View::Traffic => Request::STATUS,
            _ => Request::STATUS_WITHOUT_SESSIONS,
        }
    }

    /// Requests the data that the view shows in addition to the status.
    fn ask_for_view(&mut self) {
        match self.view {
            View::Links => self.asking.question(Request::History {
                samples: Some(SAMPLES),
            }),
            View::Traffic => {
                self.asking.question(self.question_status());
                if self.seen.places() {
                    self.asking.question(Request::Why {
                        session: None,
                        stream: None,
                        connection: None,
                        connections: Some(CONNECTIONS),
                    });
                }
            }
            View::Why => self.asking.question(self.question_why()),
            View::Events | View::Policy => {}
        }
        if self.seen.policy.is_none() || self.until_policy == 0 {
            self.until_policy = POLICY_SECONDS;
            self.asking.question(Request::Policy);
        }
    }

    /// Returns the request for the reasons that the user wants to see.
    fn question_why(&self) -> Request {
        let (session, stream, connection) = match &self.about {
            None => (None, None, None),
            Some(FlowKey::Connection(id)) => (None, None, Some(*id)),
            Some(FlowKey::Stream { session, id }) => (Some(session.clone()), Some(*id), None),
            // The report on its session contains the flow.
            Some(FlowKey::Packets { session, .. }) => (Some(session.clone()), None, None),
        };
        Request::Why {
            session,
            stream,
            connection,
            connections: None,
        }
    }

    /// Shows the outcome of a change.
    fn handle_outcome(&mut self, change: &str, response: Response) {
        match response {
            Response::Done { saved: Some(file) } => self.say(format!("{change}; saved in {file}")),
            Response::Done { saved: None } => self.say(format!("{change}, until the daemon ends")),
            Response::Error { message, .. } => self.complain(&format!("{change}: {message}")),
            _ => self.complain("the daemon answers something else than was asked"),
        }
        self.until_policy = 0;
        self.asking.question(self.question_status());
        self.asking.question(Request::Policy);
    }

    /// Handles the answer to a question.
    fn handle_news(&mut self, request: &Request, response: Response) {
        // The user may have selected another flow meanwhile.
        let is_why = *request == self.question_why();
        match (request, response) {
            (_, Response::Status(status)) => {
                if self.seen.handle_status(*status) {
                    self.asking.forget_questions();
                    self.say("the daemon was restarted".to_owned());
                }
            }
            (_, Response::Why(report)) if is_why => self.seen.why = Some(Ok(*report)),
            (
                Request::Why {
                    connections: Some(_),
                    ..
                },
                Response::Why(report),
            ) => {
                self.seen.placed = report.placed.map_or(Vec::new(), |it| it.connections);
            }
            (_, Response::Error { message, .. }) if is_why => self.seen.why = Some(Err(message)),
            // An older daemon, or one of another role, does not support all requests.
            (
                _,
                Response::Error {
                    reason: ErrorReason::Unsupported | ErrorReason::Malformed,
                    ..
                },
            ) => {}
            (_, Response::Error { message, .. }) => self.complain(&message),
            (_, response) => self.seen.handle_answer(response),
        }
    }

    fn handle_silence(&mut self, why: &NoAnswer, asked: Option<Asked>) {
        self.silence = Some(why.to_string());
        let mut undone = self.asking.give_up();
        undone.extend(asked.and_then(|asked| asked.change));
        if let Some(change) = undone.pop() {
            self.complain(&format!("{change}: it is unknown whether that was done"));
        }
    }
}

const NOTE_SECONDS: u8 = 10;
const POLICY_SECONDS: u8 = 5;
/// Samples of history: as many as the widest bars have columns.
const SAMPLES: u64 = 240;
/// Limit of listed connections that were placed by themselves.
const CONNECTIONS: u64 = 256;
