//! Tables: columns with headers, and rows of which one may be selected.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{HighlightSpacing, Row, TableState};

use super::cursor::first_shown;
use super::look::Look;

/// A column of a table.
pub(super) struct Column {
    head: &'static str,
    width: Constraint,
    side: Alignment,
}

impl Column {
    pub(super) const fn left(head: &'static str, width: Constraint) -> Self {
        Self {
            head,
            width,
            side: Alignment::Left,
        }
    }

    pub(super) const fn right(head: &'static str, width: Constraint) -> Self {
        Self {
            head,
            width,
            side: Alignment::Right,
        }
    }
}

/// Rows under a header, of which one may be selected.
pub(super) struct Table<'a> {
    pub(super) columns: &'a [Column],
    pub(super) selected: Option<usize>,
    /// Number of rows.
    pub(super) count: usize,
    /// Text in place of the rows of an empty table.
    pub(super) empty: &'static str,
}

impl Table<'_> {
    /// Draws the rows that fit, including the selected one; `row` creates a row by its place.
    pub(super) fn draw(
        &self,
        look: Look,
        frame: &mut Frame<'_>,
        area: Rect,
        row: impl Fn(usize) -> Option<Vec<Span<'static>>>,
    ) {
        if self.count == 0 {
            return frame.render_widget(Line::raw(self.empty), area);
        }
        let room = usize::from(area.height.saturating_sub(1));
        let first = first_shown(self.selected.unwrap_or(0), self.count, room);
        let rows = (first..first + room).map_while(row);
        let heads = self
            .columns
            .iter()
            .map(|it| Line::raw(it.head).alignment(it.side));
        let aligned = |cells: Vec<Span<'static>>| {
            let cells = cells.into_iter().zip(self.columns);
            Row::new(cells.map(|(cell, column)| Line::from(cell).alignment(column.side)))
        };
        let widths = self.columns.iter().map(|column| column.width);
        let table = ratatui::widgets::Table::new(rows.map(aligned), widths)
            .header(Row::new(heads).style(look.head()))
            .column_spacing(1)
            .row_highlight_style(look.selected())
            .highlight_symbol("> ")
            .highlight_spacing(HighlightSpacing::Always);
        let selected = self.selected.map(|place| place.saturating_sub(first));
        let mut shown = TableState::new().with_selected(selected);
        frame.render_stateful_widget(table, area, &mut shown);
    }
}
