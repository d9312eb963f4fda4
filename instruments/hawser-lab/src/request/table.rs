//! The report as text.

use super::report::{Phase, RequestReport};
use crate::scenario::Direction;
use crate::statistics::Spread;
use crate::statistics::median;
use crate::text_table::aligned;

pub(super) fn render(report: &RequestReport) -> String {
    let header = [
        "contender",
        "bulk",
        "min",
        "median",
        "p90",
        "p99",
        "max",
        "p99 / RTT",
        "links, Mbit/s",
    ];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    rows.extend(report.phases.iter().map(row));
    let mut text = report.head.title(&format!(
        "{} x {} requests of {} bytes, round trips in ms; RTT of the better link ({}) {:.1} ms",
        report.repeat,
        report.count,
        report.size,
        report.better_link,
        report.base_rtt_seconds * 1e3
    ));
    text.push_str(&aligned(&rows));
    text
}

fn row(phase: &Phase) -> Vec<String> {
    let show = |value: Option<String>| value.unwrap_or("-".to_owned());
    let milliseconds =
        |of: fn(&Spread) -> f64| show(phase.rtt_seconds.map(|s| format!("{:.1}", of(&s) * 1e3)));
    let links = phase.runs.iter().map(|run| run.link_mbps.len()).max();
    let rates = (0..links.unwrap_or(0)).filter_map(|link| {
        let of_link = phase.runs.iter();
        median(of_link.filter_map(|run| run.link_mbps.get(link).copied()))
    });
    let rates = rates.map(|mbps| format!("{mbps:.1}"));
    vec![
        phase.by.clone(),
        phase.bulk.map_or("none", Direction::name).to_owned(),
        milliseconds(|spread| spread.min),
        milliseconds(|spread| spread.median),
        milliseconds(|spread| spread.p90),
        milliseconds(|spread| spread.p99),
        milliseconds(|spread| spread.max),
        show(phase.p99_over_base_rtt.map(|ratio| format!("{ratio:.2}"))),
        rates.collect::<Vec<_>>().join(" + "),
    ]
}
