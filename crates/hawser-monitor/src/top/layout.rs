//! Parts of the screen, and lines of text in them.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::Line;

use super::look::Look;

/// Returns the lines of a view on a terminal of this height.
pub(super) fn body_height(height: u16) -> u16 {
    height.saturating_sub(4)
}

/// Draws lines of text, without the first `scroll` ones.
pub(super) fn draw_lines<'a>(
    look: Look,
    scroll: usize,
    frame: &mut Frame<'_>,
    area: Rect,
    lines: impl Iterator<Item = &'a str>,
) {
    let shown = lines.skip(scroll).zip(area.rows());
    for (line, row) in shown {
        frame.render_widget(Line::raw(look.text(line)), row);
    }
}

/// Splits an area into its upper lines and the rest.
pub(super) fn split_top(area: Rect, height: u16) -> (Rect, Rect) {
    let parts = [Constraint::Length(height), Constraint::Fill(1)];
    let [top, rest] = Layout::vertical(parts).areas(area);
    (top, rest)
}
