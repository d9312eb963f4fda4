//! What is asked of Hawser, and whether it is reached: the last lines of every report.

use std::fmt;

use serde::Serialize;

use crate::measure::aligned;

/// One figure beside what is asked of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Verdict {
    /// What was measured, such as `put first: of the sum`; a time says its unit.
    pub what: String,
    /// What came out.
    pub figure: f64,
    /// What is asked of it.
    #[serde(flatten)]
    pub asked: Asked,
    /// Whether the figure is good enough.
    pub met: bool,
}

/// A bound for a figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Asked {
    /// The figure reaches this.
    AtLeast(f64),
    /// The figure does not exceed this.
    AtMost(f64),
    /// The figure stays below this.
    Below(f64),
}

impl Verdict {
    /// Sets a figure against what is asked of it.
    pub fn new(what: String, figure: f64, asked: Asked) -> Self {
        Self {
            what,
            figure,
            asked,
            met: asked.allows(figure),
        }
    }

    /// What is missing; zero or less when nothing is.
    fn short_by(&self) -> f64 {
        match self.asked {
            Asked::AtLeast(bound) => bound - self.figure,
            Asked::AtMost(bound) | Asked::Below(bound) => self.figure - bound,
        }
    }
}

impl Asked {
    fn allows(self, figure: f64) -> bool {
        match self {
            Self::AtLeast(bound) => figure >= bound,
            Self::AtMost(bound) => figure <= bound,
            Self::Below(bound) => figure < bound,
        }
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(bound) => write!(f, "≥ {bound:.3}"),
            Self::AtMost(bound) => write!(f, "≤ {bound:.3}"),
            Self::Below(bound) => write!(f, "< {bound:.3}"),
        }
    }
}

/// A line for each verdict, with the name of what it belongs to in front.
pub(crate) fn lines<'a>(all: impl IntoIterator<Item = (&'a str, &'a Verdict)>) -> String {
    let row = |(of, verdict): (&str, &Verdict)| {
        let word = match verdict.met {
            true => "met".to_owned(),
            false => format!("SHORT by {:.3}", verdict.short_by()),
        };
        vec![
            of.to_owned(),
            verdict.what.clone(),
            format!("{:.3}", verdict.figure),
            verdict.asked.to_string(),
            word,
        ]
    };
    aligned(&all.into_iter().map(row).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_itself_is_good_enough_except_where_less_is_asked() {
        for (asked, met) in [
            (Asked::AtLeast(1.0), true),
            (Asked::AtMost(1.0), true),
            (Asked::Below(1.0), false),
            (Asked::AtLeast(1.1), false),
            (Asked::AtMost(0.9), false),
        ] {
            assert_eq!(Verdict::new(String::new(), 1.0, asked).met, met, "{asked}");
        }
    }

    #[test]
    fn a_line_says_by_how_much_a_figure_is_short() {
        let gap = Verdict::new("gap, s".to_owned(), 0.25, Asked::AtMost(0.22));
        let text = lines([("hole", &gap)]);
        assert_eq!(text, "hole  gap, s  0.250  ≤ 0.220  SHORT by 0.030\n");
    }
}
