//! The report as text.

use super::case::{Case, Figures};
use super::report::WatchersReport;
use crate::text_table::aligned;

pub(super) fn render(report: &WatchersReport) -> String {
    let header = [
        "who looks",
        "Mbit/s without",
        "with",
        "of without",
        "95 %",
        "longest gap, ms: without",
        "with",
        "daemon, s/GB: without",
        "with",
        "memory, MB: without",
        "with",
        "descriptors: without",
        "with",
        "they took, of a core",
    ];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    rows.extend(report.cases.iter().map(row));
    let pairs = report.cases.iter().map(|case| case.without.count()).max();
    let mut text = report.head.title(&format!(
        "up to {} pairs each, one with them and one without",
        pairs.unwrap_or(0)
    ));
    text.push_str(&aligned(&rows));
    text.push('\n');
    for case in &report.cases {
        let answers = case.seen.answers.iter();
        let answers: Vec<_> = answers
            .map(|(what, count)| format!("{what} {count} times"))
            .collect();
        text.push_str(&format!("{}: {}", case.name(), answers.join(", ")));
        if case.seen.most_feeds > 0 {
            text.push_str(&format!("; {} feeds at once", case.seen.most_feeds));
        }
        text.push('\n');
    }
    let [before, after] = report.memory.map(|bytes| bytes as f64 / 1e6);
    text.push_str(&format!(
        "the daemon's memory: {before:.1} MB before the first client, {after:.1} MB after the last\n"
    ));
    text
}

fn row(case: &Case) -> Vec<String> {
    let both = |show: fn(&Figures) -> String| [show(&case.without), show(&case.with)];
    let mut row = vec![case.name()];
    row.extend(both(|figures| number(figures.mbps, 2)));
    row.push(number(case.of_without, 4));
    row.push(case.interval.map_or("-".to_owned(), |[low, high]| {
        format!("{low:.4} to {high:.4}")
    }));
    row.extend(both(|figures| {
        number(figures.longest_gap.map(|seconds| seconds * 1e3), 1)
    }));
    row.extend(both(|figures| number(figures.cpu_per_gigabyte, 2)));
    row.extend(both(|figures| {
        number(figures.memory.map(|bytes| bytes / 1e6), 1)
    }));
    row.extend(both(|figures| figures.descriptors.to_string()));
    row.push(format!(
        "{:.3}",
        case.seen.cpu_seconds / case.seen.seconds.max(1e-9)
    ));
    row
}

fn number(figure: Option<f64>, digits: usize) -> String {
    figure.map_or("-".to_owned(), |figure| format!("{figure:.digits$}"))
}
