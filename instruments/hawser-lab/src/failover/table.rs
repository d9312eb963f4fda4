//! The report as text.

use super::options::Load;
use super::report::{Case, FailoverReport};
use crate::statistics::median;
use crate::text_table::aligned;

pub(super) fn render(report: &FailoverReport) -> String {
    let header = [
        "trouble",
        "load",
        "contender",
        "times",
        "gap or first byte, ms: median",
        "worst",
        "full rate after, s: median",
        "worst",
    ];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    rows.extend(report.cases.iter().map(row));
    let mut text = report.head.title(&format!(
        "{} times each, {} s before the trouble, with it and after it",
        report.repeat, report.part_seconds
    ));
    text.push_str(&aligned(&rows));
    text
}

fn row(case: &Case) -> Vec<String> {
    let gaps = || case.samples.iter().map(|sample| sample.gap_seconds);
    let milliseconds =
        |gap: Option<f64>| gap.map_or("-".to_owned(), |gap| format!("{:.0}", gap * 1e3));
    // One that never came back is later than all others.
    let returns = case.samples.iter();
    let returns = returns.map(|sample| sample.full_rate_after.unwrap_or(f64::INFINITY));
    let seconds = |after: Option<f64>| match after {
        _ if case.load == Load::Idle => String::new(),
        None => "-".to_owned(),
        Some(after) if after.is_infinite() => "never".to_owned(),
        Some(after) => format!("{after:.2}"),
    };
    vec![
        case.trouble.name().to_owned(),
        case.load.name().to_owned(),
        case.by.clone(),
        case.samples.len().to_string(),
        milliseconds(median(gaps())),
        milliseconds(gaps().reduce(f64::max)),
        seconds(median(returns)),
        seconds(case.slowest_return()),
    ]
}
