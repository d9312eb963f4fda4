//! The view of events, the latest first.

use hawser_control::Event;
use hawser_text::{clock, render_change};
use ratatui::Frame;
use ratatui::layout::Rect;

use super::filter::contains;
use super::layout::draw_lines;
use super::state::State;

/// One line for each event that matches the filter.
pub(super) fn lines(state: &State) -> impl Iterator<Item = String> {
    let lines = state.seen.events.iter().map(line);
    lines.filter(move |line| contains(line, &state.filter))
}

pub(super) fn draw(state: &State, frame: &mut Frame<'_>, area: Rect) {
    let lines: Vec<String> = lines(state).collect();
    let shown = if lines.is_empty() {
        vec!["Nothing has changed yet."]
    } else {
        lines.iter().map(String::as_str).collect()
    };
    draw_lines(state.look, state.scroll, frame, area, shown.into_iter());
}

fn line(event: &Event) -> String {
    format!(
        "{}  {}",
        clock(event.at_unix_ms),
        render_change(&event.what)
    )
}
