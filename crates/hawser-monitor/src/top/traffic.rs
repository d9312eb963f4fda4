//! The view of applications' traffic.

use hawser_control::StatusSnapshot;
use hawser_text::{size, span};
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Span;

use super::figures::megabits;
use super::flows::{Flow, FlowKey};
use super::layout::split_top;
use super::state::State;
use super::table::{Column, Table};

/// Draws the table of all flows.
pub(super) fn draw(state: &State, frame: &mut Frame<'_>, area: Rect) {
    let flows = state.shown_flows();
    let keys: Vec<FlowKey> = flows.iter().map(|flow| flow.key.clone()).collect();
    let table = Table {
        columns: &COLUMNS,
        selected: state.flows.place(&keys),
        empty: "Nothing is open.",
        count: flows.len(),
    };
    let (title, list) = split_top(area, 1);
    frame.buffer_mut().set_stringn(
        title.x,
        title.y,
        summary(state, &flows),
        title.width.into(),
        state.look.head(),
    );
    table.draw(state.look, frame, list, |place| {
        let flow = flows.get(place)?;
        Some(row(state, flow))
    });
}

/// Returns the number of flows, as one line.
fn summary(state: &State, flows: &[Flow]) -> String {
    let over = flows.iter().filter(|flow| flow.is_over).count();
    let status = state.seen.status.iter();
    let unlisted = status.map(StatusSnapshot::unlisted_streams).sum();
    let more = |count: u64, what: &str| match count {
        0 => String::new(),
        _ => format!(", {count} {what}"),
    };
    format!(
        "{} flows{}{}, by {} (o: by another)",
        flows.len() - over,
        more(over as u64, "ended"),
        more(unlisted, "not listed"),
        state.order.word()
    )
}

fn row(state: &State, flow: &Flow) -> Vec<Span<'static>> {
    let text = |text: &str| Span::raw(state.look.text(text));
    let style = if flow.is_over {
        Style::new().add_modifier(Modifier::DIM)
    } else {
        Style::new()
    };
    let cells = vec![
        text(flow.program.as_deref().unwrap_or("?")),
        text(&flow.destination),
        text(&flow.over),
        text(&flow.why),
        match &flow.state {
            Some(word) => text(word),
            None => Span::raw(megabits(flow.rate)),
        },
        Span::raw(size(flow.moved)),
        Span::raw(span(flow.age)),
    ];
    cells
        .into_iter()
        .map(|cell| cell.patch_style(style))
        .collect()
}

const COLUMNS: [Column; 7] = [
    Column::left("PROGRAM", Constraint::Length(10)),
    Column::left("TO", Constraint::Fill(2)),
    Column::left("OVER", Constraint::Fill(1)),
    Column::left("WHY", Constraint::Length(14)),
    Column::right("Mbit/s", Constraint::Length(10)),
    Column::right("MOVED", Constraint::Length(7)),
    Column::right("FOR", Constraint::Length(7)),
];
