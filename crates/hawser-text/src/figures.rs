//! Numbers and paragraphs in the style of all reports.

use std::time::Duration;

use hawser_types::{ByteCount, Rate};

use hawser_control::LinkAllowed;

/// Returns a share, from 0 to 1, as a percentage.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 1e2)
}

/// Returns a count in at most seven characters: `512 B`, `12.3 kB`, `1.20 MB`.
pub fn size(bytes: ByteCount) -> String {
    let mut value = bytes.as_u64() as f64;
    if value < 1e3 {
        return format!("{value} B");
    }
    let mut unit = "";
    for larger in ["kB", "MB", "GB", "TB", "PB", "EB"] {
        if value < 999.5 {
            break;
        }
        value /= 1e3;
        unit = larger;
    }
    let digits = match value {
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {unit}")
}

/// Returns a span in its two largest units: `3d 4h`, `12m 05s`, `7s`.
pub fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h {:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d {}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// Returns the use of a link: one word, or one for each direction.
pub(crate) fn usage(allowed: &LinkAllowed) -> String {
    if allowed.up == allowed.down {
        allowed.up.to_string()
    } else {
        format!("{}/{}", allowed.up, allowed.down)
    }
}

/// Returns the line below a list that says how many entries are not shown.
pub(crate) fn left_out(total: u64, shown: usize, what: &str) -> Option<String> {
    let more = total.saturating_sub(shown as u64);
    (more > 0).then(|| format!("  and {more} more {what}"))
}

/// Returns a rate in Mbit/s, without the unit.
pub(crate) fn megabits(rate: Rate) -> String {
    format!("{:.2}", rate.bits_per_second() as f64 / 1e6)
}

/// Returns a span in milliseconds, without the unit.
pub(crate) fn milliseconds(span: Duration) -> String {
    format!("{:.1}", span.as_secs_f64() * 1e3)
}

/// Returns a span in milliseconds: `4.1 ms`, `250 ms`.
pub(crate) fn milliseconds_with_unit(span: Duration) -> String {
    let millis = span.as_secs_f64() * 1e3;
    if millis < 9.95 {
        format!("{millis:.1} ms")
    } else {
        format!("{millis:.0} ms")
    }
}

/// Returns a span in seconds from one second on, else in milliseconds.
pub(crate) fn seconds(span: Duration) -> String {
    if span < Duration::from_secs(1) {
        milliseconds_with_unit(span)
    } else {
        format!("{:.1} s", span.as_secs_f64())
    }
}

/// Returns the time of day of a moment in milliseconds since 1970-01-01 00:00 UTC: `12:03:04.1
/// UTC`.
pub fn clock(unix_ms: u64) -> String {
    let tenths = unix_ms / 100 % 864_000;
    let (seconds, tenth) = (tenths / 10, tenths % 10);
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:02}.{tenth} UTC", seconds % 60)
}

/// Breaks a paragraph into lines of at most `width` columns; all but the first are indented.
pub(crate) fn wrap(lines: &mut Vec<String>, text: &str, width: usize) {
    let mut line = String::new();
    let mut used = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if used > 0 && used + 1 + length > width {
            lines.push(std::mem::replace(&mut line, INDENT.to_owned()));
            used = INDENT.len();
        } else if used > 0 {
            line.push(' ');
            used += 1;
        }
        line.push_str(word);
        used += length;
    }
    lines.push(line);
}

/// Least width of the reports of `status`, `policy` and `why`.
pub(crate) const MIN_WIDTH: usize = 40;
const INDENT: &str = "  ";
