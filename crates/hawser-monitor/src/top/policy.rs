//! The view of the policy: how the daemon chooses links, and the alternatives.

use hawser_control::PolicyStatus;
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::text::Span;

use super::layout::split_top;
use super::settings::{PolicyKey, choice, keys};
use super::state::State;
use super::table::{Column, Table};

/// Draws the view.
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
    let keys = keys(state.seen.policy.as_ref());
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

const COLUMNS: [Column; 3] = [
    Column::left("WHAT", Constraint::Length(35)),
    Column::left("IS", Constraint::Fill(1)),
    Column::left("MAY BE", Constraint::Fill(1)),
];
