//! The page and the picture that show recorded comparisons.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use hawser_monitor::report::escaped;
use serde::Deserialize;

use super::report::{Figures, Row};
use crate::bars::{Bar, Bars, Group, STYLE};
use crate::commands::files;

/// Options of the command.
#[derive(Debug, clap::Args)]
pub(crate) struct PageOptions {
    /// The folder with the reports that `compare --out` has written
    folder: PathBuf,
    /// Write the bars of downloads into FILE as well, as the picture in the README
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
}

/// The report of one scenario, as it was recorded.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Recorded {
    scenario: String,
    summary: String,
    seconds: u64,
    repeat: u32,
    command: String,
    unix_time: u64,
    kernel: String,
    cores: usize,
    rows: Vec<Row>,
}

impl PageOptions {
    /// Writes `compare.html` beside the reports.
    pub(crate) fn execute(&self) -> anyhow::Result<ExitCode> {
        let all = read(&self.folder)?;
        let page = self.folder.join("compare.html");
        fs::write(&page, render(&all)).with_context(|| page.display().to_string())?;
        eprintln!("written: {}", page.display());
        if let Some(picture) = &self.picture {
            let svg = bars(&all, &DOWNLOAD).file();
            fs::write(picture, svg).with_context(|| picture.display().to_string())?;
            eprintln!("written: {}", picture.display());
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Reads all comparisons of a folder, in order of their files' names.
fn read(folder: &Path) -> anyhow::Result<Vec<Recorded>> {
    let mut all = Vec::new();
    for path in files(folder, "json")? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("compare-") {
            let text = fs::read(&path).with_context(|| path.display().to_string())?;
            let report = serde_json::from_slice(&text);
            all.push(report.with_context(|| path.display().to_string())?);
        }
    }
    let folder = folder.display();
    ensure!(!all.is_empty(), "no compare-*.json in {folder}");
    Ok(all)
}

/// One figure of a comparison.
struct Shown {
    title: &'static str,
    note: &'static str,
    digits: usize,
    of: fn(&Figures) -> Option<f64>,
}

fn bars(all: &[Recorded], shown: &Shown) -> Bars {
    let groups = all.iter().map(|report| {
        let bars = report.rows.iter().map(|row| {
            let length = (shown.of)(&row.figures());
            Bar {
                class: row.way.class(),
                name: row.way.title().to_owned(),
                length,
                value: length.map_or_else(
                    || row.without().to_owned(),
                    |value| format!("{value:.*}", shown.digits),
                ),
            }
        });
        Group {
            label: report.summary.clone(),
            bars: bars.collect(),
        }
    });
    Bars {
        title: shown.title.to_owned(),
        note: shown.note.to_owned(),
        groups: groups.collect(),
    }
}

fn render(all: &[Recorded]) -> String {
    let pictures = SHOWN.iter().map(|shown| bars(all, shown).part());
    let pictures: String = pictures
        .map(|svg| format!("<figure>{svg}</figure>\n"))
        .collect();
    let tables: String = all.iter().map(table).collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" \
         content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{TITLE}</title>\n<style>\n{STYLE}{PAGE_STYLE}</style>\n</head>\n<body>\n\
         <h1>{TITLE}</h1>\n<p>{ABOUT}</p>\n{pictures}{tables}</body>\n</html>\n"
    )
}

fn table(report: &Recorded) -> String {
    let head = COLUMNS.map(|name| format!("<th scope=\"col\">{name}</th>"));
    let rows = report.rows.iter().map(|row| {
        let cells = row.cells().map(|cell| format!("<td>{cell}</td>")).concat();
        let name = escaped(&row.name());
        format!("<tr><th scope=\"row\">{name}</th>{cells}</tr>\n")
    });
    let rows: String = rows.collect();
    let date = hawser_sched::rules::Date::after_1970(report.unix_time / 86_400);
    let made = format!(
        "{date}, Linux {}, {} cores; transfers of {} s, {} times: {}",
        report.kernel, report.cores, report.seconds, report.repeat, report.command
    );
    let notes = report.rows.iter().filter_map(Row::note);
    let notes: String = notes
        .map(|note| format!("<p>{}.</p>\n", escaped(&note)))
        .collect();
    format!(
        "<h2>{}: {}</h2>\n<table>\n<tr>{}</tr>\n{rows}</table>\n{notes}<p class=\"made\">{}</p>\n",
        escaped(&report.scenario),
        escaped(&report.summary),
        head.concat(),
        escaped(&made)
    )
}

const TITLE: &str = "Hawser compared";
const ABOUT: &str = "Emulated links between real kernels, and real programs. The best link, MPTCP \
                     and WireGuard have the congestion control with which each is the quicker; \
                     Hawser chooses its own.";
const DOWNLOAD: Shown = Shown {
    title: "A download: Mbit/s of payload",
    note: "Median. Longer is better. Without a gateway, eight connections share the links.",
    digits: 1,
    of: |figures| figures.download,
};
const SHOWN: [Shown; 4] = [
    DOWNLOAD,
    Shown {
        title: "An upload: Mbit/s of payload",
        note: "Median. Longer is better. Without a gateway, eight connections share the links.",
        digits: 1,
        of: |figures| figures.upload,
    },
    Shown {
        title: "The best link dies: milliseconds without a byte",
        note: "The longest silence of all. Shorter is better.",
        digits: 0,
        of: |figures| figures.gap.map(|seconds| seconds * 1e3),
    },
    Shown {
        title: "A call beside a download: milliseconds there and back",
        note: "All but one in a hundred packets take less. Shorter is better.",
        digits: 0,
        of: |figures| figures.call.map(|spread| spread.p99 * 1e3),
    },
];
const COLUMNS: [&str; 6] = [
    "",
    "download, Mbit/s",
    "upload, Mbit/s",
    "gap, ms",
    "call, median ms",
    "call, p99 ms",
];
const PAGE_STYLE: &str = "\
body { font: 15px/1.5 system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif; \
max-width: 780px; margin: 2em auto; padding: 0 1em; color: #1f2328; background: #ffffff; }
figure { margin: 1.5em 0; }
figure svg { width: 100%; height: auto; }
table { border-collapse: collapse; width: 100%; font-size: 13px; }
th, td { border-bottom: 1px solid #d0d7de; padding: 0.3em 0.5em; text-align: right; }
th[scope=row] { text-align: left; font-weight: normal; }
.made { font-size: 12px; color: #59636e; }
@media (prefers-color-scheme: dark) {
  body { color: #e6edf3; background: #0d1117; }
  th, td { border-color: #30363d; }
  .made { color: #9198a1; }
}
";

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"{"experiment": "compare", "scenario": "two<", "summary": "two & more",
        "command": "hawser-lab compare", "unix-time": 1795737600, "kernel": "6.18", "cores": 2,
        "seconds": 5, "repeat": 1, "rows": [
        {"way": "link", "control": "bbr", "download": [20.0], "upload": [10.0], "gap": [],
         "call": [0.05, 0.06], "failures": []},
        {"way": "streams", "control": null, "download": [40.0, 50.0, 30.0], "upload": [],
         "gap": [0.1, 0.2], "call": [], "failures": ["x"]}]}"#;

    #[test]
    fn a_page_is_drawn_from_recorded_reports_and_loads_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let picture = folder.path().join("gain.svg");
        let options = PageOptions {
            folder: folder.path().to_owned(),
            picture: Some(picture.clone()),
        };
        assert!(options.execute().is_err());
        fs::write(folder.path().join("compare-two.json"), REPORT).unwrap();
        fs::write(folder.path().join("run-two.json"), "{}").unwrap();
        options.execute().unwrap();
        let page = fs::read_to_string(folder.path().join("compare.html")).unwrap();
        assert!(page.contains("two&lt;: two &amp; more"), "{page}");
        assert!(page.contains("2026-11-27, Linux 6.18"), "{page}");
        assert!(
            page.contains("<td>40.0</td><td>-</td><td>200</td>"),
            "{page}"
        );
        assert_eq!(page.matches("<svg").count(), 4);
        for word in ["src=", "href=", "url(", "<script"] {
            assert!(!page.contains(word), "{word}");
        }
        let picture = fs::read_to_string(picture).unwrap();
        assert!(picture.contains(">40.0</text>") && picture.contains("<style>"));
    }
}
