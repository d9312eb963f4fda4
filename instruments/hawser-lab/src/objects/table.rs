//! The report as text.

use super::report::{Group, ObjectsReport, Row};
use crate::text_table::aligned;

pub(super) fn render(report: &ObjectsReport) -> String {
    let header = [
        "object",
        "contender",
        "link",
        "number",
        "min",
        "median",
        "p90",
        "p99",
        "max",
    ];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for group in &report.groups {
        rows.extend(group.rows.iter().map(|row| line(group, row)));
    }
    let seconds = report.span_seconds;
    let what = format!("{seconds} s for each size, ms from connecting to the last byte");
    let mut text = report.head.title(&what);
    text.push_str(&aligned(&rows));
    text
}

fn line(group: &Group, row: &Row) -> Vec<String> {
    let link = if row.by.starts_with("tcp") {
        group.tcp_link.to_string()
    } else {
        "all".to_owned()
    };
    let mut line = vec![
        group.name(),
        row.by.clone(),
        link,
        row.samples.len().to_string(),
    ];
    line.extend(match row.seconds {
        None => ["-"; 5].map(str::to_owned),
        Some(s) => [s.min, s.median, s.p90, s.p99, s.max].map(|time| format!("{:.1}", time * 1e3)),
    });
    line
}
