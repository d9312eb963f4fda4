//! How the daemon chooses links, and what else it could do.

use hawser_control::{PolicyStatus, Scheduled};
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::text::Span;

use super::input::Then;
use super::screen::{Column, Table, split_top};
use super::state::State;

/// A line of the policy.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum PolicyKey {
    Scheduler(Scheduled),
    TransportChoice,
    Gateway,
    Profile,
    Rule(u64),
}

/// What one line may be changed to.
pub(super) struct Choice {
    pub(super) title: &'static str,
    pub(super) now: Option<String>,
    pub(super) known: Vec<String>,
    pub(super) then: Then,
}

/// The lines, in their order.
pub(super) fn keys(state: &State) -> Vec<PolicyKey> {
    let rules = state.seen.policy.iter().flat_map(|policy| &policy.rules);
    let rules = rules.map(|rule| PolicyKey::Rule(rule.number));
    match &state.seen.policy {
        Some(_) => SETTINGS.into_iter().chain(rules).collect(),
        None => Vec::new(),
    }
}

/// What one of the settings may be; none for a rule.
pub(super) fn choice(policy: &PolicyStatus, key: &PolicyKey) -> Option<Choice> {
    let choice = |title, now, known, then| Choice {
        title,
        now,
        known,
        then,
    };
    Some(match key {
        PolicyKey::Scheduler(Scheduled::Connections) => choice(
            "links for connections are chosen by",
            policy.connections.clone(),
            policy.connections_known.clone(),
            Then::Scheduler(Scheduled::Connections),
        ),
        PolicyKey::Scheduler(of) => choice(
            "links for sessions are chosen by",
            Some(policy.sessions.clone()),
            policy.sessions_known.clone(),
            Then::Scheduler(*of),
        ),
        PolicyKey::TransportChoice => choice(
            "sessions travel over",
            policy.transport.clone(),
            policy.transports_known.clone(),
            Then::TransportChoice,
        ),
        PolicyKey::Gateway => {
            let known = match &policy.gateway {
                Some(_) => GATEWAY_USES.map(str::to_owned).to_vec(),
                None => Vec::new(),
            };
            choice(
                "the gateway is used",
                policy.gateway.clone(),
                known,
                Then::Gateway,
            )
        }
        PolicyKey::Profile => {
            let (now, known) = (policy.profile.clone(), policy.profiles_known.clone());
            choice("profile of rules", now, known, Then::Profile)
        }
        PolicyKey::Rule(_) => return None,
    })
}

/// All of it.
pub(super) fn draw(state: &State, frame: &mut Frame<'_>, area: Rect) {
    let (title, list) = split_top(area, 1);
    let file = state
        .seen
        .policy
        .as_ref()
        .and_then(|policy| policy.file.as_deref());
    let saved = match (state.save, file) {
        (true, Some(file)) => format!("changes are saved in {file}"),
        _ => "changes hold until the daemon ends".to_owned(),
    };
    let style = state.look.head();
    let buffer = frame.buffer_mut();
    buffer.set_stringn(
        title.x,
        title.y,
        state.look.text(&saved),
        title.width.into(),
        style,
    );
    let keys = keys(state);
    let table = Table {
        columns: &COLUMNS,
        selected: state.policy.place(&keys),
        empty: "The daemon has not told its policy.",
        count: keys.len(),
    };
    table.draw(state.look, frame, list, |place| {
        let policy = state.seen.policy.as_ref()?;
        let row = row(policy, keys.get(place)?)?;
        Some(
            row.into_iter()
                .map(|cell| Span::raw(state.look.text(&cell)))
                .collect(),
        )
    });
}

fn row(policy: &PolicyStatus, key: &PolicyKey) -> Option<[String; 3]> {
    if let PolicyKey::Rule(number) = key {
        let rule = policy.rules.iter().find(|rule| rule.number == *number)?;
        let name = rule
            .name
            .as_ref()
            .map_or(String::new(), |name| format!(", {name}"));
        let head = format!("rule {number} ({}{name})", rule.source);
        return Some([head, rule.when.clone(), rule.then.clone()]);
    }
    let choice = choice(policy, key)?;
    let now = choice.now.unwrap_or_else(|| "-".to_owned());
    let others = choice.known.iter().filter(|it| **it != now);
    let others: Vec<&str> = others.map(String::as_str).collect();
    Some([choice.title.to_owned(), now, others.join(" ")])
}

const SETTINGS: [PolicyKey; 5] = [
    PolicyKey::Scheduler(Scheduled::Sessions),
    PolicyKey::Scheduler(Scheduled::Connections),
    PolicyKey::TransportChoice,
    PolicyKey::Gateway,
    PolicyKey::Profile,
];
const GATEWAY_USES: [&str; 3] = ["always", "auto", "never"];
const COLUMNS: [Column; 3] = [
    Column::left("WHAT", Constraint::Length(35)),
    Column::left("IS", Constraint::Fill(1)),
    Column::left("MAY BE", Constraint::Fill(1)),
];
