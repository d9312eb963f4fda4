//! Comparisons of the candidates, and the table.

use hawser_types::ByteCount;

use super::candidates::{HAWSER, LIBRARY, LIBRARY_PLAIN, MPTCP, RELAYS};
use super::options::LINKS;
use super::report::{AskedRatio, Row, UnshapedReport};
use crate::text_table::aligned;

/// Sets the rows of one direction against those that they are compared with.
pub(super) fn compare(rows: &mut [Row]) {
    let speed = |rows: &[Row], by: &str| rows.iter().find(|row| row.by == by)?.gbps;
    let bases = [MPTCP, RELAYS].map(|by| (by, speed(rows, by)));
    for row in rows {
        for (by, base) in bases {
            if let (Some(own), Some(base)) = (row.gbps, base)
                && row.by != by
            {
                row.of.insert(by, own / base);
            }
        }
        row.asked = asked(row.by);
    }
}

fn asked(by: &str) -> Option<AskedRatio> {
    let (of, ratio) = match by {
        HAWSER => (RELAYS, 0.4),
        LIBRARY => (MPTCP, 0.5),
        LIBRARY_PLAIN => (MPTCP, 0.8),
        _ => return None,
    };
    Some(AskedRatio { of, ratio })
}

/// The report as text.
pub(super) fn render(report: &UnshapedReport) -> String {
    let mut header = [
        "",
        "transfer",
        "Gbit/s",
        "of mptcp",
        "of relays",
        "asked",
        "",
    ]
    .map(str::to_owned)
    .to_vec();
    header.extend(PROCESSES.map(str::to_owned));
    header.push("all".to_owned());
    let mut rows = vec![header];
    rows.extend(report.rows.iter().map(line));
    let mut text = report.head.title(&format!(
        "{} over {LINKS} virtual cables, offloads on, median of {}; processor seconds per GB of \
         payload, by process",
        ByteCount::new(report.payload),
        report.repeat
    ));
    text.push_str(&aligned(&rows));
    text
}

fn line(row: &Row) -> Vec<String> {
    let show = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{v:.2}"));
    let mut line = vec![
        row.direction.name().to_owned(),
        row.by.to_owned(),
        show(row.gbps),
        show(row.of.get(MPTCP).copied()),
        show(row.of.get(RELAYS).copied()),
    ];
    line.extend(match row.asked {
        None => [String::new(), String::new()],
        Some(asked) => [
            format!("{} of {}", asked.ratio, asked.of),
            match row.of.get(asked.of) {
                Some(ratio) if *ratio >= asked.ratio => "pass".to_owned(),
                Some(_) => "FAIL".to_owned(),
                None => "-".to_owned(),
            },
        ],
    });
    let cost = |name: &&str| row.cpu_per_gigabyte.get(*name).copied();
    line.extend(PROCESSES.iter().map(|name| show(cost(name))));
    line.push(show(PROCESSES.iter().filter_map(cost).reduce(|a, b| a + b)));
    line
}

const PROCESSES: [&str; 4] = ["client", "client proxy", "server proxy", "server"];

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::scenario::Direction;

    fn row(by: &'static str, gbps: f64) -> Row {
        Row {
            direction: Direction::Put,
            by,
            gbps: Some(gbps),
            of: BTreeMap::new(),
            asked: None,
            cpu_per_gigabyte: BTreeMap::new(),
            samples: vec![gbps],
            failures: Vec::new(),
        }
    }

    #[test]
    fn each_row_is_set_against_what_it_is_asked_for() {
        let mut rows = [row(MPTCP, 10.0), row(RELAYS, 4.0), row(LIBRARY_PLAIN, 7.0)];
        compare(&mut rows);
        assert_eq!(rows[0].of.get(MPTCP), None);
        assert_eq!(rows[2].of[MPTCP], 0.7);
        assert_eq!(rows[2].of[RELAYS], 1.75);
        assert_eq!(rows[2].asked.map(|asked| asked.ratio), Some(0.8));
        assert!(line(&rows[2]).contains(&"FAIL".to_owned()));
        assert_eq!(rows[0].asked, None);
    }

    #[test]
    fn without_a_base_nothing_is_judged() {
        let mut rows = [row(LIBRARY, 7.0)];
        compare(&mut rows);
        assert!(rows[0].of.is_empty());
        assert!(
            !line(&rows[0])
                .iter()
                .any(|cell| cell == "pass" || cell == "FAIL")
        );
    }
}
