//! A report as text.

use std::fmt::Write;

use super::overhead::WireCost;
use super::report::RunReport;
use super::summary::Summary;
use crate::experiment::Findings;
use crate::text_table::aligned;

/// The report as a table of medians, with what went wrong below it.
pub(super) fn render(report: &RunReport) -> String {
    let payloads = report.summaries.iter();
    let payloads = payloads.map(|summary| {
        let (way, bytes) = (summary.direction.name(), summary.payload);
        format!("{way} {:.2} MB", bytes as f64 / 1e6)
    });
    let mut text = report.head.title(&format!(
        "{}, median of {}, Mbit/s of payload",
        payloads.collect::<Vec<_>>().join(", "),
        report.repeat
    ));
    let eventful = report
        .samples
        .iter()
        .any(|entry| !entry.recovery.is_empty());
    let mut rows = vec![vec![
        String::new(),
        "transfer".to_owned(),
        "median".to_owned(),
        "worst gap".to_owned(),
        if eventful { "full rate after" } else { "" }.to_owned(),
    ]];
    for entry in &report.samples {
        rows.push(vec![
            entry.direction.name().to_owned(),
            entry.kind.to_string(),
            entry.samples.median().map_or("failed".to_owned(), figure),
            entry
                .samples
                .worst_gap()
                .map_or(String::new(), |gap| format!("{:.0} ms", gap * 1e3)),
            recovery(&entry.recovery),
        ]);
    }
    text.push_str(&aligned(&rows));
    text.push('\n');
    let mut rows = vec![header()];
    rows.extend(report.summaries.iter().flat_map(lines));
    text.push_str(&aligned(&rows));
    text.push('\n');
    text.push_str(&aligned(&wire(&report.summaries)));
    for note in &report.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

/// One row for each scenario and direction, then every verdict.
pub(super) fn render_all(reports: &[RunReport]) -> String {
    let header = [
        "scenario", "", "sum", "best", "mptcp", "first", "warm", "of sum", "warm", "of mptcp",
        "warm", "asked", "overhead",
    ];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for report in reports {
        rows.extend(report.summaries.iter().map(|summary| row(report, summary)));
    }
    let mut text = aligned(&rows);
    text.push('\n');
    for report in reports {
        text.push_str(&report.judgement());
        if report.failure_count() > 0 {
            let (name, count) = (&report.head.scenario, report.failure_count());
            let _ = writeln!(text, "{name}: {count} transfers failed");
        }
    }
    text
}

fn row(report: &RunReport, summary: &Summary) -> Vec<String> {
    let show = |value: Option<f64>| value.map_or("-".to_owned(), figure);
    let of =
        |own: Option<f64>, base: Option<f64>| show(own.zip(base).map(|(own, base)| own / base));
    let (first, warm) = (summary.hawser_first, summary.hawser_warm);
    let way = format!("{} ", summary.direction.name());
    let mut verdicts = report.verdicts.iter();
    let met = verdicts.all(|verdict| verdict.met || !verdict.what.starts_with(&way));
    vec![
        report.head.scenario.clone(),
        summary.direction.name().to_owned(),
        show(summary.sum),
        show(summary.best_single),
        show(summary.mptcp),
        show(first),
        show(warm),
        of(first, summary.sum),
        of(warm, summary.sum),
        of(first, summary.mptcp),
        of(warm, summary.mptcp),
        if met { "met" } else { "SHORT" }.to_owned(),
        overhead(summary),
    ]
}

fn overhead(summary: &Summary) -> String {
    let of = summary.overhead;
    of.map_or("-".to_owned(), |of| format!("{:.2} %", of.one_way * 100.0))
}

/// IP bytes for each byte of payload.
fn wire(summaries: &[Summary]) -> Vec<Vec<String>> {
    let header = ["", "IP bytes / payload", "tcp", "first", "warm", "over tcp"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for summary in summaries {
        rows.push(wire_line(summary, "its direction", |cost| cost.one_way));
        rows.push(wire_line(summary, "both directions", |cost| cost.both_ways));
    }
    rows
}

fn wire_line(summary: &Summary, name: &str, of: fn(&WireCost) -> f64) -> Vec<String> {
    let show =
        |cost: Option<WireCost>| cost.map_or("-".to_owned(), |cost| format!("{:.4}", of(&cost)));
    let over = summary.overhead;
    vec![
        summary.direction.name().to_owned(),
        name.to_owned(),
        show(summary.tcp_wire),
        show(summary.hawser_first_wire),
        show(summary.hawser_warm_wire),
        over.map_or("-".to_owned(), |over| format!("{:.2} %", of(&over) * 100.0)),
    ]
}

/// The slowest recovery of all transfers.
fn recovery(all: &[Option<f64>]) -> String {
    if all.is_empty() {
        return String::new();
    }
    let known: Option<Vec<f64>> = all.iter().copied().collect();
    match known.and_then(|all| all.into_iter().reduce(f64::max)) {
        Some(slowest) => format!("{slowest:.2} s"),
        None => "never".to_owned(),
    }
}

fn header() -> Vec<String> {
    [
        "",
        "",
        "sum",
        "mptcp",
        "hawser",
        "of sum",
        "of mptcp",
        "of best link",
    ]
    .map(str::to_owned)
    .to_vec()
}

fn lines(summary: &Summary) -> Vec<Vec<String>> {
    let show = |value: Option<f64>| value.map_or("-".to_owned(), figure);
    let line = |name: &str, hawser: Option<f64>| {
        let of = |base: Option<f64>| {
            hawser
                .zip(base)
                .map_or("-".to_owned(), |(own, base)| format!("{:.3}", own / base))
        };
        vec![
            summary.direction.name().to_owned(),
            name.to_owned(),
            show(summary.sum),
            show(summary.mptcp),
            show(hawser),
            of(summary.sum),
            of(summary.mptcp),
            of(summary.best_single),
        ]
    };
    vec![
        line("first", summary.hawser_first),
        line("warm", summary.hawser_warm),
    ]
}

fn figure(mbps: f64) -> String {
    format!("{mbps:.3}")
}
