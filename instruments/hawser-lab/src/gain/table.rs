//! The report as text.

use super::figures::Range;
use super::report::{Done, GainReport, Row};
use super::variant::Sample;
use crate::statistics::median;
use crate::text_table::aligned;

pub(super) fn render(report: &GainReport) -> String {
    let header = [
        "task",
        "way",
        "first, s",
        "later, s",
        "Mbit/s",
        "by link, %",
        "start, s",
        "of the best link: first",
        "later",
        "of round robin: first",
        "later",
    ];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for done in &report.tasks {
        rows.extend(done.ways.iter().map(|row| self::row(done, row)));
    }
    let via = report.round_robin_via;
    let mut text = report
        .head
        .title(&format!("nginx, HTTP/1.1; round robin by {via}"));
    text.push_str(&aligned(&rows));
    text
}

fn row(done: &Done, row: &Row) -> Vec<String> {
    let figures = &row.figures;
    let mut cells = vec![done.task.name().to_owned(), row.way.to_string()];
    cells.push(show(figures.first_seconds));
    cells.push(show(figures.later_seconds));
    cells.push(show(figures.later_mbps));
    cells.push(shares(&row.samples));
    let starts = row.samples.iter().map(|sample| sample.start_seconds);
    cells.push(show(median(starts)));
    for gain in [figures.of_best_link, figures.of_round_robin] {
        cells.push(show(gain.first));
        cells.push(gain.later.map_or("-".to_owned(), |range| {
            let Range { min, median, max } = range;
            format!("{median:.2} ({min:.2} to {max:.2})")
        }));
    }
    cells
}

/// Returns the percentage of the received bytes that each link carried, after the first round if
/// there are others.
fn shares(samples: &[Sample]) -> String {
    let is_alone = samples.len() == 1;
    let later = samples.iter().filter(|it| it.round > 1 || is_alone);
    let mut sums: Vec<u64> = Vec::new();
    for sample in later {
        sums.resize(sums.len().max(sample.carried.len()), 0);
        for (sum, link) in sums.iter_mut().zip(&sample.carried) {
            *sum += link.down;
        }
    }
    let all = sums.iter().sum::<u64>().max(1) as f64;
    let parts = sums.iter().map(|sum| *sum as f64 * 100.0 / all);
    let parts: Vec<_> = parts.map(|part| format!("{part:.0}")).collect();
    parts.join("+")
}

fn show(figure: Option<f64>) -> String {
    figure.map_or("-".to_owned(), |figure| format!("{figure:.2}"))
}
