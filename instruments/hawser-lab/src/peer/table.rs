//! The report as text.

use super::found::Found;
use super::legacy::Legacy;
use super::report::PeerReport;
use crate::text_table::aligned;

pub(super) fn render(report: &PeerReport) -> String {
    let header = [
        "reserved port",
        "number",
        "off: median, ms",
        "p90",
        "auto: median, ms",
        "p90",
        "of off: median",
        "p90",
        "attempts",
    ];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    rows.extend(report.legacy.iter().map(legacy));
    let mut text = report.head.title(
        "connecting to hosts without Hawser, with a look for peers (auto) and without (off)",
    );
    text.push_str(&aligned(&rows));
    if !report.found.is_empty() {
        let header = [
            "started after, s",
            "bonded after, s",
            "download before, Mbit/s",
            "after",
        ];
        let mut rows = vec![header.map(str::to_owned).to_vec()];
        rows.extend(report.found.iter().map(found));
        text.push_str(&format!(
            "\na peer that is started, looked for every {} s\n",
            report.retry_seconds
        ));
        text.push_str(&aligned(&rows));
    }
    text
}

fn legacy(legacy: &Legacy) -> Vec<String> {
    let mut row = vec![legacy.name(), legacy.auto_samples.len().to_string()];
    for spread in [legacy.off, legacy.auto] {
        let both = [spread.map(|it| it.median), spread.map(|it| it.p90)];
        row.extend(both.map(|time| show(time.map(|time| time * 1e3), 2)));
    }
    let ratios = legacy.ratios();
    row.extend([0, 1].map(|place| show(ratios.map(|both| both[place]), 3)));
    row.push(legacy.attempts.to_string());
    row
}

fn found(found: &Found) -> Vec<String> {
    vec![
        show(Some(found.before_seconds), 1),
        show(found.bonded_after_seconds, 2),
        show(Some(found.direct_mbps), 2),
        show(Some(found.bonded_mbps), 2),
    ]
}

fn show(figure: Option<f64>, digits: usize) -> String {
    figure.map_or("-".to_owned(), |figure| format!("{figure:.digits$}"))
}
