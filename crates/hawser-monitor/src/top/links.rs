//! The view of links, with all details of the selected one.

use std::time::Duration;

use hawser_control::{LinkHistory, LinkState, LinkStatus, Role};
use hawser_text::{size, state_of_link};
use hawser_types::{LinkIndex, LinkUse, Rate};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Sparkline;

use super::figures::{megabits, milliseconds, month, percent, usage};
use super::look::Look;
use super::state::State;
use super::table::{Column, Table};

/// Draws the table, and below it the selected link.
pub(super) fn draw(state: &State, frame: &mut Frame<'_>, area: Rect) {
    let links = state.shown_links();
    let keys: Vec<LinkIndex> = links.iter().map(|link| link.index).collect();
    let selected = state.links.place(&keys);
    // The list leaves enough for the selected link.
    let height = u16::try_from(links.len() + 1).unwrap_or(u16::MAX);
    let height = height.min(area.height.saturating_sub(MIN_BELOW)).max(2);
    let [list, below] =
        Layout::vertical([Constraint::Length(height), Constraint::Fill(1)]).areas(area);
    let columns = columns(area.width);
    let table = Table {
        columns: &columns,
        selected,
        empty: "No links are known.",
        count: links.len(),
    };
    let tops = Tops::of(state);
    let bars = bars_width(area.width);
    table.draw(state.look, frame, list, |place| {
        let mut row = row(state, links.get(place)?, &tops, bars);
        row.truncate(columns.len());
        Some(row)
    });
    if let Some(link) = selected.and_then(|place| links.get(place)) {
        draw_one(state, link, frame, below);
    }
}

/// Returns the columns for a terminal of this width; the last columns are left out first.
fn columns(width: u16) -> Vec<Column> {
    let bars = Constraint::Length(bars_width(width));
    let mut columns = vec![
        Column::left("LINK", Constraint::Fill(1)),
        Column::left("STATE", Constraint::Length(11)),
        Column::left("USE", Constraint::Length(6)),
        Column::right("UP", Constraint::Length(6)),
        Column::left("Mbit/s", bars),
        Column::right("DOWN", Constraint::Length(6)),
        Column::left("Mbit/s", bars),
        Column::right("RTT ms", Constraint::Length(6)),
        Column::right("SHARE", Constraint::Length(5)),
    ];
    if width >= WIDE {
        columns.push(Column::right("LOSS", Constraint::Length(6)));
        columns.push(Column::right("QUEUE", Constraint::Length(6)));
        columns.push(Column::left("THIS MONTH", Constraint::Fill(2)));
    }
    columns
}

/// Returns the width of the bars of one direction.
fn bars_width(width: u16) -> u16 {
    let fixed = if width >= WIDE { 103 } else { 61 };
    (width.saturating_sub(fixed) / 2).clamp(1, 60)
}

/// The largest rates of any link, the scale of all bars.
struct Tops {
    up: u64,
    down: u64,
}

impl Tops {
    fn of(state: &State) -> Self {
        let largest = |part: fn(&LinkHistory) -> &[Rate]| {
            let links = state.seen.history.links.iter();
            links
                .flat_map(part)
                .max()
                .map_or(1, |rate| rate.bits_per_second())
        };
        Self {
            up: largest(|it| &it.up),
            down: largest(|it| &it.down),
        }
    }
}

fn row(state: &State, link: &LinkStatus, tops: &Tops, bars: u16) -> Vec<Span<'static>> {
    let look = state.look;
    let history = state.seen.history(link);
    let bars = |rates: Option<&Vec<Rate>>, top| {
        look.bars(&bits(rates.map_or(&[], Vec::as_slice)), top, bars.into())
    };
    let traffic = &link.traffic;
    let share = state
        .seen
        .status
        .as_ref()
        .and_then(|status| status.share(link));
    let is_client = state
        .seen
        .status
        .as_ref()
        .is_some_and(|it| it.role == Role::Client);
    // Links that no rule mentions.
    let unsaid = || {
        if is_client && link.state != LinkState::Unused {
            LinkUse::Normal.to_string()
        } else {
            String::new()
        }
    };
    let allowed = link.allowed.as_ref();
    vec![
        Span::raw(look.text(&link.name)),
        Span::styled(link.state.to_string(), state_style(look, link.state)),
        Span::raw(allowed.map_or_else(unsaid, usage)),
        Span::raw(megabits(traffic.up)),
        Span::styled(bars(history.map(|it| &it.up), tops.up), look.up()),
        Span::raw(megabits(traffic.down)),
        Span::styled(bars(history.map(|it| &it.down), tops.down), look.down()),
        Span::raw(milliseconds(traffic.rtt)),
        Span::raw(percent(share)),
        Span::raw(loss(traffic.up_loss)),
        Span::raw(milliseconds(traffic.queue)),
        Span::raw(look.text(&allowed.map(month).unwrap_or_default())),
    ]
}

fn state_style(look: Look, state: LinkState) -> Style {
    match state {
        LinkState::Up => look.good(),
        LinkState::Down | LinkState::Silent => look.bad(),
        LinkState::NoInternet => look.notable(),
        _ => Style::new(),
    }
}

/// Draws the details of one link.
fn draw_one(state: &State, link: &LinkStatus, frame: &mut Frame<'_>, area: Rect) {
    let look = state.look;
    let chart = (area.height.saturating_sub(1 + TEXT_LINES) / 3).clamp(1, MAX_CHART);
    let parts = [1, chart, chart, chart, TEXT_LINES].map(Constraint::Length);
    let [title, up, down, rtt, text] = Layout::vertical(parts).areas(area);
    draw_title(state, link, frame, title);
    let history = state.seen.history(link);
    let mbits = |word: &str, rate| format!("{word:<5}{:>6} Mbit/s", megabits(rate));
    let rates = |rates: Option<&Vec<Rate>>| -> Vec<Option<u64>> {
        bits(rates.map_or(&[], Vec::as_slice))
            .into_iter()
            .map(Some)
            .collect()
    };
    let traffic = &link.traffic;
    draw_chart(
        look,
        frame,
        up,
        &Chart {
            label: mbits("up", traffic.up),
            values: rates(history.map(|it| &it.up)),
            top: largest_rate,
            style: look.up(),
        },
    );
    draw_chart(
        look,
        frame,
        down,
        &Chart {
            label: mbits("down", traffic.down),
            values: rates(history.map(|it| &it.down)),
            top: largest_rate,
            style: look.down(),
        },
    );
    let micros =
        |span: &Option<Duration>| span.map(|it| u64::try_from(it.as_micros()).unwrap_or(u64::MAX));
    draw_chart(
        look,
        frame,
        rtt,
        &Chart {
            label: format!("{:<5}{:>6} ms", "RTT", milliseconds(traffic.rtt)),
            values: history.map_or(Vec::new(), |it| it.rtt.iter().map(micros).collect()),
            top: |top| {
                format!(
                    "{:>11} at most",
                    milliseconds(Some(Duration::from_micros(top)))
                )
            },
            style: look.notable(),
        },
    );
    for (line, row) in words(link).into_iter().zip(text.rows()) {
        frame.render_widget(Line::raw(look.text(&line)), row);
    }
}

fn largest_rate(bits: u64) -> String {
    format!("{:>11} at most", megabits(Rate::from_bits_per_second(bits)))
}

fn draw_title(state: &State, link: &LinkStatus, frame: &mut Frame<'_>, area: Rect) {
    let look = state.look;
    let rule = look.rule();
    let addresses: Vec<String> = link.addresses.iter().map(ToString::to_string).collect();
    let text = format!(
        "{}, {}  {}",
        link.name,
        state_of_link(link),
        addresses.join(" ")
    );
    let text = format!("{rule}{rule} {} ", look.text(text.trim_end()));
    frame.render_widget(Line::raw(rule.repeat(area.width.into())), area);
    frame.render_widget(Line::styled(text, look.head()), area);
}

/// Recent values of a quantity, as bars with a label before them.
struct Chart {
    label: String,
    values: Vec<Option<u64>>,
    /// Formats the largest value.
    top: fn(u64) -> String,
    style: Style,
}

fn draw_chart(look: Look, frame: &mut Frame<'_>, area: Rect, chart: &Chart) {
    let parts = [Constraint::Length(LABEL), Constraint::Fill(1)];
    let [label, bars] = Layout::horizontal(parts).areas(area);
    let width = usize::from(bars.width);
    let shown = chart
        .values
        .iter()
        .skip(chart.values.len().saturating_sub(width));
    let missing = width.saturating_sub(shown.len());
    let values: Vec<Option<u64>> = std::iter::repeat_n(None, missing)
        .chain(shown.copied())
        .collect();
    let top = values.iter().flatten().max().copied().unwrap_or(0);
    let labels = [chart.label.clone(), (chart.top)(top)];
    for (text, row) in labels.into_iter().zip(label.rows()) {
        frame.render_widget(Line::raw(text), row);
    }
    let bars_of = Sparkline::default().data(values).max(top.max(1));
    let bars_of = bars_of.bar_set(look.bar_set()).style(chart.style);
    frame.render_widget(bars_of, bars);
}

/// Returns the details that bars do not show.
fn words(link: &LinkStatus) -> Vec<String> {
    let traffic = &link.traffic;
    let mut lines = vec![format!(
        "loss {}  queue {} ms  cwnd {}  in all {} up, {} down",
        loss(traffic.up_loss),
        milliseconds(traffic.queue),
        size(traffic.cwnd_bytes),
        size(traffic.sent_bytes),
        size(traffic.received_bytes)
    )];
    if let Some(allowed) = &link.allowed {
        let usage = if allowed.up == allowed.down {
            allowed.up.to_string()
        } else {
            format!("{} up, {} down", allowed.up, allowed.down)
        };
        let mut line = format!("use {usage}");
        if let Some(weight) = allowed.weight {
            line += &format!(", weight {weight}");
        }
        if let Some(price) = &allowed.price {
            line += &format!(", {price}");
        }
        line += &format!("; since {} {}", allowed.since, month(allowed));
        lines.push(line);
    }
    lines
}

fn loss(part: Option<f64>) -> String {
    part.map_or_else(|| "-".to_owned(), |part| format!("{:.1} %", part * 1e2))
}

fn bits(rates: &[Rate]) -> Vec<u64> {
    rates.iter().map(|rate| rate.bits_per_second()).collect()
}

/// Width from which all columns fit.
const WIDE: u16 = 120;
/// A title, three charts, and the text.
const MIN_BELOW: u16 = 4 + TEXT_LINES;
const TEXT_LINES: u16 = 2;
const LABEL: u16 = 20;
const MAX_CHART: u16 = 8;
