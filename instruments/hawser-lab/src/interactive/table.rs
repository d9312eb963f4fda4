//! The report as text.

use super::report::{InteractiveReport, Phase, alone};
use crate::scenario::Direction;
use crate::statistics::Spread;
use crate::statistics::median;
use crate::text_table::aligned;

pub(super) fn render(report: &InteractiveReport) -> String {
    let header = [
        "contender",
        "bulk",
        "echoes",
        "median",
        "p99",
        "max",
        "p99 over median alone",
        "bulk, Mbit/s",
    ];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    rows.extend(report.phases.iter().map(|phase| row(report, phase)));
    let mut text = report.head.title(&format!(
        "64 bytes every 20 ms each way, ms until the echo; {} x {} s; best link {}",
        report.repeat, report.span_seconds, report.best_link
    ));
    text.push_str(&aligned(&rows));
    text
}

fn row(report: &InteractiveReport, phase: &Phase) -> Vec<String> {
    let show = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.1}"));
    let of = |of: fn(&Spread) -> f64| show(phase.echo_seconds.map(|s| of(&s) * 1e3));
    let added = match phase.bulk {
        None => String::new(),
        Some(_) => show(
            phase
                .added(alone(&report.phases, phase))
                .map(|added| added * 1e3),
        ),
    };
    vec![
        phase.by.clone(),
        phase.bulk.map_or("none", Direction::name).to_owned(),
        phase.samples.len().to_string(),
        of(|s| s.median),
        of(|s| s.p99),
        of(|s| s.max),
        added,
        show(median(phase.bulk_mbps.iter().copied())),
    ]
}
