//! `cargo xtask chart`: draws the picture in the README from the recorded measurements.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

/// Reads the reports under `bench/` and writes `docs/images/gain.svg`.
pub(crate) fn draw(root: &Path) -> Result<()> {
    let mut groups = Vec::new();
    for (scenario, label) in SCENARIOS {
        let path = root.join(RECORDED).join(format!("run-{scenario}.json"));
        groups.push(Group::read(&path, label).with_context(|| path.display().to_string())?);
    }
    let picture = root.join(PICTURE);
    fs::write(&picture, render(&groups)).with_context(|| picture.display().to_string())?;
    eprintln!("{} written", picture.display());
    Ok(())
}

/// Download rates of one scenario, in Mbit/s of payload.
#[derive(Debug, PartialEq)]
struct Group {
    label: &'static str,
    best_link: f64,
    mptcp: f64,
    hawser: f64,
}

impl Group {
    /// Reads the medians of the downloads from a report of `hawser-lab run`.
    fn read(path: &Path, label: &'static str) -> Result<Self> {
        let report: ChartData = serde_json::from_str(&fs::read_to_string(path)?)?;
        let is_download = |s: &&Summary| s.direction == "get";
        let summary = report.summaries.iter().find(is_download);
        let summary = summary.context("the report has no downloads")?;
        Ok(Self {
            label,
            best_link: summary.best_single,
            mptcp: summary.mptcp,
            hawser: summary.hawser_first,
        })
    }

    /// The bars of this group from top to bottom: style class and rate.
    fn bars(&self) -> [(&'static str, f64); 3] {
        [
            ("link", self.best_link),
            ("mptcp", self.mptcp),
            ("hawser", self.hawser),
        ]
    }
}

/// The part of a report of `hawser-lab run` that the chart shows.
#[derive(Deserialize)]
struct ChartData {
    summaries: Vec<Summary>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Summary {
    direction: String,
    best_single: f64,
    mptcp: f64,
    hawser_first: f64,
}

/// Returns the whole picture as SVG.
fn render(groups: &[Group]) -> String {
    let rates = groups.iter().flat_map(Group::bars).map(|(_, rate)| rate);
    let full = rates.fold(1.0, f64::max);
    let height = TOP + groups.len() * GROUP_HEIGHT + BOTTOM;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         role=\"img\" aria-labelledby=\"title\">\n<title id=\"title\">{TITLE}</title>\n\
         <style>\n{STYLE}</style>\n\
         <rect class=\"page\" width=\"{WIDTH}\" height=\"{height}\" rx=\"8\"/>\n\
         <text class=\"title\" x=\"{MARGIN}\" y=\"34\">{TITLE}</text>\n"
    );
    legend(&mut svg);
    for (index, group) in groups.iter().enumerate() {
        draw_group(&mut svg, TOP + index * GROUP_HEIGHT, group, full);
    }
    let foot = height - 18;
    let _ = writeln!(
        svg,
        "<text class=\"note\" x=\"{MARGIN}\" y=\"{foot}\">{NOTE}</text>\n</svg>"
    );
    svg
}

/// Appends one square and one name for each kind of bar.
fn legend(svg: &mut String) {
    let mut x = MARGIN;
    for (class, name, width) in LEGEND {
        let text = x + 18;
        let _ = writeln!(
            svg,
            "<rect class=\"{class}\" x=\"{x}\" y=\"50\" width=\"12\" height=\"12\" rx=\"2\"/>\
             <text class=\"label\" x=\"{text}\" y=\"60.5\">{name}</text>"
        );
        x += width;
    }
}

/// Appends the label and the three bars of `group`; a bar of the rate `full` has the full length.
fn draw_group(svg: &mut String, top: usize, group: &Group, full: f64) {
    let Group { label, .. } = group;
    let middle = top + 3 * BAR_STEP / 2 + 3;
    let _ = writeln!(
        svg,
        "<text class=\"label\" x=\"{MARGIN}\" y=\"{middle}\">{label}</text>"
    );
    for (index, (class, rate)) in group.bars().into_iter().enumerate() {
        let y = top + index * BAR_STEP;
        let length = rate / full * BAR_LENGTH;
        let x = BAR_LEFT + length + 6.0;
        let text = y + 11;
        let _ = writeln!(
            svg,
            "<rect class=\"{class}\" x=\"{BAR_LEFT}\" y=\"{y}\" width=\"{length:.1}\" \
             height=\"13\" rx=\"2\"/>\
             <text class=\"value {class}-value\" x=\"{x:.1}\" y=\"{text}\">{rate:.1}</text>"
        );
    }
}

/// Folder of the reports, relative to the workspace: one run of one commit.
const RECORDED: &str = "bench/2026-11-21/e3899e3";
/// Picture that is written, relative to the workspace.
const PICTURE: &str = "docs/images/gain.svg";
/// Scenarios from top to bottom, each with its label.
const SCENARIOS: [(&str, &str); 6] = [
    ("wifi-lte", "Wi-Fi 30 + LTE 20 Mbit/s"),
    ("three-unlike", "VDSL 40 + LTE 15 + DSL 6"),
    ("four-unlike", "Four unlike links, 87 in all"),
    ("lossy", "30 + 20, losing 1 % and 0.1 %"),
    ("cellular", "Two cellular links, changing"),
    ("sat-dsl", "Satellite 20 + DSL 5"),
];
const TITLE: &str = "One download: Mbit/s of payload";
const NOTE: &str = "First transfer of a session, median of three. Emulated links, real kernels. \
                    Commit e3899e3, 2026-11-21.";
/// Class, name and width of each entry of the legend.
const LEGEND: [(&str, &str, usize); 3] = [
    ("link", "best link alone (TCP)", 190),
    ("mptcp", "kernel MPTCP, all links", 195),
    ("hawser", "Hawser, all links", 150),
];
const WIDTH: usize = 760;
const MARGIN: usize = 24;
const TOP: usize = 84;
const BOTTOM: usize = 36;
const GROUP_HEIGHT: usize = 62;
const BAR_STEP: usize = 15;
const BAR_LEFT: f64 = 250.0;
const BAR_LENGTH: f64 = 440.0;
/// Colours follow the reader's light or dark preference; the page has a background of its own.
const STYLE: &str = "\
text { font-family: system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif; }
.page { fill: #ffffff; stroke: #d0d7de; }
.title { font-size: 17px; font-weight: 600; fill: #1f2328; }
.label { font-size: 13px; fill: #1f2328; }
.value { font-size: 11.5px; fill: #59636e; }
.hawser-value { font-weight: 600; fill: #1f2328; }
.note { font-size: 11.5px; fill: #59636e; }
.link { fill: #afb8c1; }
.mptcp { fill: #6e9bd1; }
.hawser { fill: #0b6e4f; }
@media (prefers-color-scheme: dark) {
  .page { fill: #0d1117; stroke: #30363d; }
  .title, .label, .hawser-value { fill: #e6edf3; }
  .value:not(.hawser-value), .note { fill: #9198a1; }
  .link { fill: #59636e; }
  .mptcp { fill: #4f7fb8; }
  .hawser { fill: #35b585; }
}
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_picture_shows_the_recorded_figures() {
        let root = crate::workspace_root();
        let group = |(scenario, label): (&str, &'static str)| {
            let file = root.join(RECORDED).join(format!("run-{scenario}.json"));
            Group::read(&file, label).expect("the report is there")
        };
        let groups: Vec<_> = SCENARIOS.into_iter().map(group).collect();
        let committed = fs::read_to_string(root.join(PICTURE)).expect("the picture is there");
        assert_eq!(committed, render(&groups), "run `cargo xtask chart`");
    }

    #[test]
    fn a_bar_is_as_long_as_its_part_of_the_highest_rate() {
        let group = Group {
            label: "both",
            best_link: 25.0,
            mptcp: 40.0,
            hawser: 50.0,
        };
        let svg = render(&[group]);
        for length in ["220.0", "352.0", "440.0"] {
            assert!(svg.contains(&format!("width=\"{length}\"")), "{length}");
        }
    }
}
