//! The view of reasons why links were used or not.

use hawser_text::render_why;
use ratatui::Frame;
use ratatui::layout::Rect;

use super::flows::FlowKey;
use super::layout::draw_lines;
use super::state::State;

/// Returns the text in lines as wide as the terminal.
pub(super) fn lines(state: &State) -> Vec<String> {
    let width = usize::from(state.size.0);
    let about = match &state.about {
        None => "all that goes over links; Enter in the list of traffic asks about one".to_owned(),
        Some(FlowKey::Connection(id)) => format!("connection {id}; Esc: all"),
        Some(FlowKey::Stream { session, id }) => {
            format!("stream {} of session {session}; Esc: all", id.value())
        }
        Some(FlowKey::Packets { session, .. }) => format!("session {session}; Esc: all"),
    };
    let mut lines = vec![format!("About {about}"), String::new()];
    match &state.seen.why {
        None => lines.push("Asking.".to_owned()),
        Some(Err(message)) => lines.push(message.clone()),
        Some(Ok(report)) => lines.extend(render_why(report, width).lines().map(str::to_owned)),
    }
    lines
}

pub(super) fn draw(state: &State, frame: &mut Frame<'_>, area: Rect) {
    let lines = lines(state);
    let shown = lines.iter().map(String::as_str);
    draw_lines(state.look, state.scroll, frame, area, shown);
}
