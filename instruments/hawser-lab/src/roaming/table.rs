//! The report as text.

use super::report::RoamingReport;
use crate::experiment::{Findings, Head};
use crate::scenario::Phase;
use crate::statistics::Spread;
use crate::text_table::{aligned, cells};
use crate::verdict::Verdict;

impl Findings for RoamingReport {
    fn head(&self) -> &Head {
        &self.head
    }

    fn table(&self) -> String {
        let mut rows = vec![cells([
            "", "phase", "links", "paper", "mean, ms", "median", "p99", "max", "lost",
        ])];
        for row in &self.streams {
            for (number, (phase, own)) in self.phases.iter().zip(&row.phases).enumerate() {
                let millis = |of: fn(&Spread) -> f64| {
                    let spread = own.delay.as_ref();
                    spread.map_or("-".to_owned(), |it| format!("{:.1}", of(it) * 1e3))
                };
                rows.push(cells([
                    &first(number, row.name()),
                    &name_of(phase),
                    &links(phase),
                    paper(phase),
                    &own.mean_delay
                        .map_or("-".to_owned(), |it| format!("{:.1}", it * 1e3)),
                    &millis(|it| it.median),
                    &millis(|it| it.p99),
                    &millis(|it| it.max),
                    &own.lost.to_string(),
                ]));
            }
        }
        rows.push(cells([
            "",
            "phase",
            "links",
            "Mbit/s",
            "of links",
            "full after, s",
            "least",
        ]));
        for row in &self.rates {
            for (number, (phase, own)) in self.phases.iter().zip(&row.phases).enumerate() {
                let told =
                    |figure: Option<f64>| figure.map_or("-".to_owned(), |it| format!("{it:.2}"));
                rows.push(cells([
                    &first(number, row.name()),
                    &name_of(phase),
                    &links(phase),
                    &told(own.mbps),
                    &told(own.of_links),
                    &told(own.full_after),
                    &told(own.least),
                ]));
            }
        }
        let title = "links come and go; the paper's delays are of figure 4";
        self.head.title(title) + &aligned(&rows)
    }

    fn failures(&self) -> Vec<String> {
        self.failures.clone()
    }

    fn verdicts(&self) -> &[Verdict] {
        &self.verdicts
    }
}

fn name_of(phase: &Phase) -> String {
    let (from, until) = (phase.from.as_secs_f64(), phase.until.as_secs_f64());
    format!("{from} to {until} s")
}

/// The name of a row's first line.
fn first(number: usize, name: String) -> String {
    if number == 0 { name } else { String::new() }
}

fn links(phase: &Phase) -> String {
    let links: Vec<_> = phase
        .links
        .iter()
        .map(|link| (link + 1).to_string())
        .collect();
    links.join(" + ")
}

/// The mean delay that the paper had with so many links (figure 4), in ms.
fn paper(phase: &Phase) -> &'static str {
    match phase.links.len() {
        1 => "27",
        2 => "70",
        _ => "300",
    }
}
