//! Quantities in few columns.

use std::time::Duration;

use hawser_control::LinkAllowed;
use hawser_text::size;
use hawser_types::{LinkUse, Rate};

/// Returns Mbit/s in at most six columns below a terabit.
pub(super) fn megabits(rate: Rate) -> String {
    let value = rate.bits_per_second() as f64 / 1e6;
    match value {
        ..9.995 => format!("{value:.2}"),
        ..99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// Returns milliseconds; a dash for an unknown span.
pub(super) fn milliseconds(span: Option<Duration>) -> String {
    let Some(span) = span else {
        return UNKNOWN.to_owned();
    };
    let value = span.as_secs_f64() * 1e3;
    match value {
        ..99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// Returns a percentage of a part from 0 to 1; a dash for an unknown part.
pub(super) fn percent(part: Option<f64>) -> String {
    part.map_or_else(|| UNKNOWN.to_owned(), |part| format!("{:.0} %", part * 1e2))
}

/// Returns the use of a link: one word, or a letter for each direction. The letter is also the key
/// that sets the use.
pub(super) fn usage(allowed: &LinkAllowed) -> String {
    if allowed.up == allowed.down {
        allowed.up.to_string()
    } else {
        format!("{}/{}", letter(allowed.up), letter(allowed.down))
    }
}

fn letter(usage: LinkUse) -> char {
    match usage {
        LinkUse::Prefer => 'p',
        LinkUse::Backup => 'b',
        LinkUse::Never => 'x',
        LinkUse::Normal => 'n',
    }
}

/// Returns the month's traffic of a link, with its allowance and cost.
pub(super) fn month(allowed: &LinkAllowed) -> String {
    let mut text = size(allowed.sent_bytes + allowed.received_bytes);
    if let Some(allowance) = allowed.allowance_bytes {
        text += &format!(" of {}", size(allowance));
    }
    if let Some(cost) = &allowed.cost {
        text += &format!(", {cost}");
    }
    if let Some(limit) = &allowed.limit {
        text += &format!(": {limit}");
    }
    text
}

const UNKNOWN: &str = "-";
