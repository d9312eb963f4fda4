//! The report as text.

use super::case::Case;
use super::report::CutReport;
use crate::statistics::Spread;
use crate::text_table::aligned;

pub(super) fn render(report: &CutReport) -> String {
    let header = [
        "way, loss",
        "before: median, ms",
        "longest",
        "later: begun",
        "failed",
        "median, ms",
        "longest",
        "caught",
        "late",
        "longest, ms",
        "failed",
        "after, ms",
        "stood on it",
        "untold",
        "old, living",
        "broken",
    ];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    rows.extend(report.cases.iter().map(row));
    let mut text = report.head.title(&format!(
        "link {} is lost with connections open and new ones coming",
        report.link
    ));
    text.push_str(&aligned(&rows));
    for case in &report.cases {
        for (error, count) in &case.caught.errors {
            text.push_str(&format!("{}, caught: {count} times {error}\n", case.name()));
        }
    }
    text
}

fn row(case: &Case) -> Vec<String> {
    let millis = |seconds: f64| format!("{:.1}", seconds * 1e3);
    let spread = |spread: Option<Spread>, which: fn(&Spread) -> f64| {
        spread.map_or("-".to_owned(), |spread| millis(which(&spread)))
    };
    let caught = &case.caught;
    vec![
        case.name(),
        spread(case.before, |it| it.median),
        spread(case.before, |it| it.max),
        case.later_begun.to_string(),
        case.later_failed.to_string(),
        spread(case.later, |it| it.median),
        spread(case.later, |it| it.max),
        caught.begun.to_string(),
        caught.late.to_string(),
        millis(caught.longest),
        caught.failed.to_string(),
        millis(caught.longest_failed),
        caught.lost.to_string(),
        caught.untold.to_string(),
        case.old.living.to_string(),
        case.old.broken.to_string(),
    ]
}
