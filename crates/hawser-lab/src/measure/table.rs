//! A report as text.

use std::fmt::Write;

use super::overhead::WireCost;
use super::report::{Report, Summary};
use super::verdict::{Base, Transfer, Verdict};

/// The report as a table of medians, with what went wrong below it.
pub fn render(report: &Report) -> String {
    let mut text = String::new();
    let machine = &report.machine;
    let _ = writeln!(
        text,
        "{}: {:.2} MB, median of {}, Mbit/s of payload (kernel {}, {} cores)\n",
        report.scenario,
        report.payload as f64 / 1e6,
        report.repeat,
        machine.kernel,
        machine.cores
    );
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
    for verdict in report.summaries.iter().flat_map(judged) {
        text.push_str(&verdict);
    }
    for note in &report.notes {
        let _ = writeln!(text, "note: {note}");
    }
    for entry in &report.samples {
        for failure in &entry.samples.failures {
            let _ = writeln!(
                text,
                "failed: {} {}: {failure}",
                entry.direction.name(),
                entry.kind
            );
        }
    }
    text
}

/// One row for each scenario and direction, with what is asked and whether it is reached.
pub fn render_all(reports: &[Report]) -> String {
    let header = [
        "scenario", "", "sum", "mptcp", "first", "warm", "of sum", "warm", "asked", "", "of mptcp",
        "warm", "asked", "", "overhead",
    ];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for report in reports {
        rows.extend(report.summaries.iter().map(|summary| row(report, summary)));
    }
    let mut text = aligned(&rows);
    for report in reports.iter().filter(|report| report.failures() > 0) {
        let _ = writeln!(
            text,
            "{}: {} transfers failed",
            report.scenario,
            report.failures()
        );
    }
    text
}

fn row(report: &Report, summary: &Summary) -> Vec<String> {
    let show = |value: Option<f64>| value.map_or("-".to_owned(), figure);
    let mut row = vec![
        report.scenario.clone(),
        summary.direction.name().to_owned(),
        show(summary.sum),
        show(summary.mptcp),
        show(summary.hawser_first),
        show(summary.hawser_warm),
    ];
    for base in [Base::Sum, Base::Mptcp] {
        let of = |of: Transfer| {
            let mut all = summary.verdicts.iter();
            all.find(|verdict| verdict.of == of && verdict.base == base)
        };
        let both = [of(Transfer::First), of(Transfer::Warm)];
        row.extend(both.map(|v| v.map_or("-".to_owned(), |v| format!("{:.3}", v.ratio))));
        let known: Vec<_> = both.into_iter().flatten().collect();
        row.push(
            known
                .first()
                .map_or(String::new(), |v| format!("{:.2}", v.asked)),
        );
        row.push(word(&known).to_owned());
    }
    row.push(overhead(summary));
    row
}

fn word(verdicts: &[&Verdict]) -> &'static str {
    match verdicts {
        [] => "",
        all if all.iter().all(|verdict| verdict.passes()) => "pass",
        _ => "FAIL",
    }
}

fn overhead(summary: &Summary) -> String {
    let of = summary.overhead;
    of.map_or("-".to_owned(), |of| format!("{:.2} %", of.one_way * 100.0))
}

/// What is asked for and not reached, a line each.
fn judged(summary: &Summary) -> Vec<String> {
    let failed = summary.verdicts.iter().filter(|verdict| !verdict.passes());
    failed
        .map(|verdict| {
            let of = match verdict.of {
                Transfer::First => "first",
                Transfer::Warm => "warm",
            };
            let base = match verdict.base {
                Base::Sum => "the sum",
                Base::Mptcp => "mptcp",
            };
            format!(
                "FAIL: {} {of}: {:.3} of {base}, asked {:.2}\n",
                summary.direction.name(),
                verdict.ratio,
                verdict.asked
            )
        })
        .collect()
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

/// Rows as lines with their columns aligned: the first two to the left, figures to the right.
pub(crate) fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let width = *width;
            if column < 2 {
                let _ = write!(line, "{cell:<width$}  ");
            } else {
                let _ = write!(line, "{cell:>width$}  ");
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = [vec!["a", "bb", "1.5"], vec!["", "b", "10.25"]];
        let rows = rows.map(|row| row.into_iter().map(str::to_owned).collect());
        assert_eq!(aligned(&rows), "a  bb    1.5\n   b   10.25\n");
    }
}
