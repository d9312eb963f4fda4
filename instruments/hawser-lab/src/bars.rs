//! Pictures of bars, as SVG that follows the reader's light or dark preference.

use std::fmt::Write as _;

use hawser_monitor::report::escaped;

/// Bars in groups, all to one scale.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bars {
    pub(crate) title: String,
    /// A line below the bars.
    pub(crate) note: String,
    pub(crate) groups: Vec<Group>,
}

/// Bars that are compared with each other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Group {
    pub(crate) label: String,
    pub(crate) bars: Vec<Bar>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Bar {
    /// Its style class, one of those in [`STYLE`].
    pub(crate) class: &'static str,
    pub(crate) name: String,
    /// None where there is nothing to be drawn.
    pub(crate) length: Option<f64>,
    /// What is written behind the bar.
    pub(crate) value: String,
}

impl Bars {
    /// The picture as a file of its own.
    pub(crate) fn file(&self) -> String {
        self.svg(&format!("<style>\n{STYLE}</style>\n"))
    }

    /// The picture as a part of a page that has [`STYLE`].
    pub(crate) fn part(&self) -> String {
        self.svg("")
    }

    fn svg(&self, style: &str) -> String {
        let bars = self.groups.iter().map(|group| group.bars.len());
        let height = TOP + bars.map(group_height).sum::<usize>() + BOTTOM;
        let (title, note) = (escaped(&self.title), escaped(&self.note));
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
             role=\"img\" aria-label=\"{title}\">\n{style}\
             <rect class=\"page\" width=\"{WIDTH}\" height=\"{height}\" rx=\"8\"/>\n\
             <text class=\"title\" x=\"{MARGIN}\" y=\"34\">{title}</text>\n"
        );
        let lengths = self.groups.iter().flat_map(|group| &group.bars);
        let full = lengths.filter_map(|bar| bar.length).fold(0.0, f64::max);
        let mut top = TOP;
        for group in &self.groups {
            group.draw(&mut svg, top, full);
            top += group_height(group.bars.len());
        }
        let foot = height - 16;
        let _ = writeln!(
            svg,
            "<text class=\"note\" x=\"{MARGIN}\" y=\"{foot}\">{note}</text>\n</svg>"
        );
        svg
    }
}

impl Group {
    /// Appends the label and the bars; a bar of the length `full` is as long as can be.
    fn draw(&self, svg: &mut String, top: usize, full: f64) {
        let (label, base) = (escaped(&self.label), top + 14);
        let _ = writeln!(
            svg,
            "<text class=\"label\" x=\"{MARGIN}\" y=\"{base}\">{label}</text>"
        );
        for (index, bar) in self.bars.iter().enumerate() {
            let y = top + LABEL_HEIGHT + index * BAR_STEP;
            let (base, name, class) = (y + 11, escaped(&bar.name), bar.class);
            let _ = write!(
                svg,
                "<text class=\"name\" x=\"{NAMES_END}\" y=\"{base}\">{name}</text>"
            );
            let length = match bar.length {
                Some(length) if full > 0.0 => length / full * BAR_LENGTH,
                _ => 0.0,
            };
            if length > 0.0 {
                let _ = write!(
                    svg,
                    "<rect class=\"{class}\" x=\"{BAR_LEFT}\" y=\"{y}\" width=\"{length:.1}\" \
                     height=\"13\" rx=\"2\"/>"
                );
            }
            let (x, value) = (BAR_LEFT + length + 6.0, escaped(&bar.value));
            let _ = writeln!(
                svg,
                "<text class=\"value\" x=\"{x:.1}\" y=\"{base}\">{value}</text>"
            );
        }
    }
}

fn group_height(bars: usize) -> usize {
    LABEL_HEIGHT + bars * BAR_STEP + GROUP_GAP
}

const WIDTH: usize = 760;
const MARGIN: usize = 24;
const TOP: usize = 56;
const BOTTOM: usize = 36;
const LABEL_HEIGHT: usize = 22;
const GROUP_GAP: usize = 14;
const BAR_STEP: usize = 17;
/// Where names end.
const NAMES_END: usize = 252;
const BAR_LEFT: f64 = 260.0;
const BAR_LENGTH: f64 = 430.0;
/// Styles of all pictures. Each has a background of its own.
pub(crate) const STYLE: &str = "\
svg text { font-family: system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif; }
.page { fill: #ffffff; stroke: #d0d7de; }
.title { font-size: 17px; font-weight: 600; fill: #1f2328; }
.label { font-size: 13px; font-weight: 600; fill: #1f2328; }
.name { font-size: 12px; text-anchor: end; fill: #1f2328; }
.value, .note { font-size: 11.5px; fill: #59636e; }
.link { fill: #afb8c1; }
.mptcp { fill: #6e9bd1; }
.wireguard { fill: #b58bc9; }
.hawser { fill: #0b6e4f; }
.hawser-more { fill: #54a88a; }
@media (prefers-color-scheme: dark) {
  .page { fill: #0d1117; stroke: #30363d; }
  .title, .label, .name { fill: #e6edf3; }
  .value, .note { fill: #9198a1; }
  .link { fill: #59636e; }
  .mptcp { fill: #4f7fb8; }
  .wireguard { fill: #8e65a3; }
  .hawser { fill: #35b585; }
  .hawser-more { fill: #237a5a; }
}
";

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(length: Option<f64>) -> Bar {
        Bar {
            class: "hawser",
            name: "a <b>".to_owned(),
            length,
            value: "x".to_owned(),
        }
    }

    #[test]
    fn a_bar_is_as_long_as_its_part_of_the_longest() {
        let group = |bars| Group {
            label: "both".to_owned(),
            bars,
        };
        let bars = Bars {
            groups: vec![
                group(vec![bar(Some(25.0)), bar(None)]),
                group(vec![bar(Some(50.0))]),
            ],
            ..Bars::default()
        };
        let svg = bars.part();
        for length in ["215.0", "430.0"] {
            assert!(svg.contains(&format!("width=\"{length}\"")), "{length}");
        }
        assert_eq!(svg.matches("class=\"hawser\"").count(), 2);
        assert!(!svg.contains("<b>") && !svg.contains("<style>"));
        assert!(bars.file().contains("prefers-color-scheme: dark"));
    }

    #[test]
    fn bars_without_length_divide_by_nothing() {
        let bars = Bars {
            groups: vec![Group {
                label: String::new(),
                bars: vec![bar(Some(0.0)), bar(None)],
            }],
            ..Bars::default()
        };
        let svg = bars.part();
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}
