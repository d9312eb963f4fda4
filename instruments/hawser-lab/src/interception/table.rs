//! The report as text.

use hawser_types::ByteCount;

use super::report::{Connects, InterceptionReport};
use crate::statistics::Spread;
use crate::statistics::median;
use crate::text_table::aligned;

pub(super) fn render(report: &InterceptionReport) -> String {
    let header = [
        "connect",
        "median",
        "p99",
        "captured: median",
        "p99",
        "added: median",
        "p99",
    ];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    rows.extend(report.connects.iter().map(row));
    let rounds = report
        .connects
        .first()
        .map_or(0, |connects| connects.rounds.len());
    let mut text = report
        .head
        .title(&format!("{rounds} rounds each, times in µs"));
    text.push_str(&aligned(&rows));
    let transfers = &report.transfers;
    let show = |speeds: &[f64]| median(speeds.iter().copied());
    if let (Some(plain), Some(captured)) = (show(&transfers.plain), show(&transfers.captured)) {
        text.push_str(&format!(
            "\none connection, median of {}: plain {plain:.2} Gbit/s, captured {captured:.2} Gbit/s\n",
            transfers.plain.len()
        ));
    }
    if let (Some(of_plain), Some([low, high])) = (transfers.of_plain, transfers.interval) {
        text.push_str(&format!(
            "of plain, median of the pairs: {of_plain:.3} ({low:.3} to {high:.3})\n"
        ));
    }
    if let Some((runs, bytes)) = transfers.runs {
        let moved = ByteCount::new(bytes);
        text.push_str(&format!(
            "the programs ran {runs} times while one moved {moved}\n"
        ));
    }
    text
}

fn row(connects: &Connects) -> Vec<String> {
    let show = |time: Option<f64>| time.map_or("-".to_owned(), |time| format!("{:.1}", time * 1e6));
    let of = |spread: Option<Spread>| {
        let both = [spread.map(|s| s.median), spread.map(|s| s.p99)];
        both.map(show)
    };
    let mut row = vec![connects.protocol.to_owned()];
    row.extend(of(connects.plain));
    row.extend(of(connects.captured));
    row.extend([connects.added_to_median, connects.added_to_p99].map(show));
    row
}
