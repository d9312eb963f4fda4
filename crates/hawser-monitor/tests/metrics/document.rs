//! `docs/metrics.md` has every metric, and no other.

use std::collections::{BTreeMap, BTreeSet};

use hawser_monitor::metrics::render;

use super::format::parse;
use super::sample::rich;

/// The type and the labels of each metric.
type Heads = BTreeMap<String, (String, BTreeSet<String>)>;

#[test]
fn every_metric_is_documented_and_no_other() {
    let documented = documented();
    let rendered = rendered();
    assert_eq!(documented, rendered);
    assert!(rendered.len() > 50, "{}", rendered.len());
}

/// Returns the metrics of the document's tables: name, type, labels, meaning.
fn documented() -> Heads {
    let mut heads = Heads::new();
    for line in DOCUMENT
        .lines()
        .filter(|line| line.starts_with("| `hawser_"))
    {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [name, kind, labels, meaning] = cells[..] else {
            panic!("a row has four cells: {line}");
        };
        assert!(!meaning.is_empty(), "{line}");
        let labels = labels.split(", ").filter(|label| !label.is_empty());
        let labels = labels.map(|label| label.trim_matches('`').to_owned());
        let head = (kind.to_owned(), labels.collect());
        let before = heads.insert(name.trim_matches('`').to_owned(), head);
        assert_eq!(before, None, "{name} twice");
    }
    heads
}

fn rendered() -> Heads {
    let mut heads = Heads::new();
    for family in parse(&render(&rich())) {
        assert!(!family.samples.is_empty(), "{} is not tried", family.name);
        let labels = family.samples.iter().flat_map(|it| it.labels.keys());
        let head = (family.kind, labels.cloned().collect());
        heads.insert(family.name, head);
    }
    heads
}

const DOCUMENT: &str = include_str!("../../../../docs/metrics.md");
