//! The report as text.

use super::report::{FairnessReport, Row};
use crate::text_table::aligned;

pub(super) fn render(report: &FairnessReport) -> String {
    let header = [
        "",
        "pair",
        "times",
        "tcp, Mbit/s",
        "the other",
        "Jain",
        "taken after",
        "other links",
    ];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    rows.extend(report.rows.iter().map(row));
    let mut text = report.head.title(&format!(
        "both on link {}, medians of {}, IP bytes; {} s at equal shares",
        report.link, report.repeat, report.span_seconds
    ));
    text.push_str(&aligned(&rows));
    text
}

fn row(row: &Row) -> Vec<String> {
    let show = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.3}"));
    let others = row.shares.iter().any(|share| share.others.is_some());
    let others = others.then(|| row.median(|share| share.others.unwrap_or(0.0)));
    vec![
        row.direction.name().to_owned(),
        format!("{} beside tcp {}", row.by, row.beside.name()),
        row.shares.len().to_string(),
        show(row.median(|share| share.tcp_mbps)),
        show(row.median(|share| share.own_mbps)),
        show(row.median(|share| share.jain)),
        show(row.median(|share| share.taken_after)),
        show(others.flatten()),
    ]
}
