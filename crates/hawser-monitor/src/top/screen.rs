//! The whole picture: header, views, the line for messages and input, the line of keys.

use hawser_control::StatusSnapshot;
use hawser_text::span;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear};

use super::cursor::first_shown;
use super::figures::megabits;
use super::input::{Input, List};
use super::layout::{body_height, draw_lines};
use super::look::Look;
use super::state::{State, View};
use super::{events, help, links, policy, traffic, why};

/// Draws the state.
pub(super) fn draw(state: &State, frame: &mut Frame<'_>) {
    let area = frame.area();
    if area.width < MIN_WIDTH || area.height < MIN_HEIGHT {
        return too_small(state, frame);
    }
    let bars = [1, 1, body_height(area.height), 1, 1].map(Constraint::Length);
    let [head_area, tab_area, body, note_area, key_area] = Layout::vertical(bars).areas(area);
    head(state, frame, head_area);
    tabs(state, frame, tab_area);
    match state.view {
        View::Links => links::draw(state, frame, body),
        View::Traffic => traffic::draw(state, frame, body),
        View::Why => why::draw(state, frame, body),
        View::Events => events::draw(state, frame, body),
        View::Policy => policy::draw(state, frame, body),
    }
    note(state, frame, note_area);
    frame.render_widget(Line::raw(keys(state)), key_area);
    match &state.input {
        Some(Input::List(list)) => pick(state.look, list, frame, body),
        Some(Input::Help) => {
            frame.render_widget(Clear, body);
            let lines = help::LINES.into_iter();
            draw_lines(state.look, state.scroll, frame, body, lines);
        }
        Some(Input::Line(_)) | None => {}
    }
}

/// Draws the daemon's state and the sum of all links.
fn head(state: &State, frame: &mut Frame<'_>, area: Rect) {
    let Some(status) = &state.seen.status else {
        return frame.render_widget(Line::styled("hawser", state.look.head()), area);
    };
    let daemon = format!(
        "hawser {} {}, running for {}",
        status.version,
        status.role,
        span(status.uptime)
    );
    let total = total(state.look, status);
    let width = u16::try_from(total.chars().count()).unwrap_or(u16::MAX);
    let parts = [Constraint::Fill(1), Constraint::Length(width)];
    let [left, right] = Layout::horizontal(parts).spacing(1).areas(area);
    frame.render_widget(
        Line::styled(state.look.text(&daemon), state.look.head()),
        left,
    );
    frame.render_widget(Line::styled(total, state.look.head()), right);
}

fn total(look: Look, status: &StatusSnapshot) -> String {
    let gain = match status.gain() {
        Some(gain) => format!("{} {gain:.2}", look.times()),
        None => "-".to_owned(),
    };
    format!(
        "up {} down {} Mbit/s  gain {gain}",
        megabits(status.up()),
        megabits(status.down())
    )
}

fn tabs(state: &State, frame: &mut Frame<'_>, area: Rect) {
    let tab = |(place, view): (usize, &View)| {
        let name = format!("{} {}", place + 1, view.name());
        // Brackets as well: not every terminal shows the style.
        if *view == state.view {
            Span::styled(format!("[{name}]"), state.look.selected())
        } else {
            Span::raw(format!(" {name} "))
        }
    };
    let tabs: Line<'_> = View::ALL.iter().enumerate().map(tab).collect();
    frame.render_widget(tabs, area);
    let mut modes = Vec::new();
    if !state.filter.is_empty() {
        modes.push(format!("only \"{}\"", state.look.text(&state.filter)));
    }
    if state.save {
        modes.push("saving".to_owned());
    }
    let modes = Line::styled(modes.join(", "), state.look.notable());
    frame.render_widget(modes.right_aligned(), area);
}

/// Draws the entry line, else the current problem, else the outcome of the last change.
fn note(state: &State, frame: &mut Frame<'_>, area: Rect) {
    let look = state.look;
    if let Some(Input::Line(input)) = &state.input {
        let text = look.text(&format!("{}: {}", input.title, input.text));
        let line = Line::styled(text, look.notable());
        let end = u16::try_from(line.width()).unwrap_or(u16::MAX);
        let end = area
            .x
            .saturating_add(end)
            .min(area.right().saturating_sub(1));
        frame.render_widget(line, area);
        return frame.set_cursor_position((end, area.y));
    }
    let line = match (&state.silence, &state.note) {
        (_, Some(note)) if note.is_bad => {
            Line::styled(format!("! {}", look.text(&note.text)), look.bad())
        }
        (Some(silence), _) => {
            let text = format!("! {silence}; trying again");
            Line::styled(look.text(&text), look.bad())
        }
        (None, Some(note)) => Line::styled(look.text(&note.text), look.good()),
        (None, None) => Line::default(),
    };
    frame.render_widget(line, area);
}

fn keys(state: &State) -> String {
    let own = match (&state.input, state.view) {
        (Some(Input::Line(_)), _) => return "Enter: do it   Esc: leave it".to_owned(),
        (Some(Input::List(_)), _) => {
            return "arrows: choose   Enter: do it   Esc: leave it".to_owned();
        }
        (Some(Input::Help), _) => return "arrows: more   any other key: back".to_owned(),
        (None, View::Links) => {
            let direction = state.direction.word();
            format!("n p b x use ({direction}: d)  w weight  c price  a allowance")
        }
        (None, View::Traffic) => "Enter why  r rule  o order  / filter".to_owned(),
        (None, View::Why) => "arrows scroll".to_owned(),
        (None, View::Events) => "arrows scroll  / filter".to_owned(),
        (None, View::Policy) => "Enter change  x remove rule".to_owned(),
    };
    format!("{own}  s save  ? help  q quit")
}

/// Draws the choices of a list over the view.
fn pick(look: Look, list: &List, frame: &mut Frame<'_>, area: Rect) {
    let widest = list
        .choices
        .iter()
        .chain([&list.title])
        .map(|it| it.chars().count())
        .max();
    let width = u16::try_from(widest.unwrap_or(0) + 6)
        .unwrap_or(u16::MAX)
        .min(area.width);
    let height = u16::try_from(list.choices.len() + 2)
        .unwrap_or(u16::MAX)
        .min(area.height);
    let area = area.centered(Constraint::Length(width), Constraint::Length(height));
    let block = Block::bordered()
        .border_set(look.border())
        .title(look.text(&list.title));
    let inner = block.inner(area);
    frame.render_widget(Clear, area);
    frame.render_widget(block, area);
    let first = first_shown(list.place, list.choices.len(), inner.height.into());
    let choices = list.choices.iter().enumerate().skip(first);
    for ((place, choice), row) in choices.zip(inner.rows()) {
        let choice = look.text(choice);
        let line = if place == list.place {
            Line::styled(format!("> {choice}"), look.selected())
        } else {
            Line::raw(format!("  {choice}"))
        };
        frame.render_widget(line, row);
    }
}

/// Draws only the totals: there is no room for lists.
fn too_small(state: &State, frame: &mut Frame<'_>) {
    let area = frame.area();
    let total = state
        .seen
        .status
        .as_ref()
        .map(|status| total(state.look, status));
    let total = total.unwrap_or_default();
    let lines = [
        total,
        format!(
            "Lists need {MIN_WIDTH} columns and {MIN_HEIGHT} lines; here are {} and {}.",
            area.width, area.height
        ),
        "q quits".to_owned(),
    ];
    for (line, row) in lines.into_iter().zip(area.rows()) {
        frame.render_widget(Line::raw(line), row);
    }
}

const MIN_WIDTH: u16 = 60;
const MIN_HEIGHT: u16 = 16;
