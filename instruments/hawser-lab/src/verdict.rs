//! Bounds for Hawser, and whether they are met: the last lines of every report.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::text_table::aligned;

/// One figure beside what is asked of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Verdict {
    /// Name of the figure, such as `put first: of the sum`; a time names its unit.
    pub what: String,
    /// The figure; none when it was never reached.
    pub figure: Option<f64>,
    /// The bound for the figure.
    #[serde(flatten)]
    pub asked: Asked,
    /// True if the figure is good enough.
    pub met: bool,
}

/// A bound for a figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
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
    /// Sets a figure against what is asked of it. One that is infinite was never reached.
    pub fn new(what: String, figure: f64, asked: Asked) -> Self {
        let met = match asked {
            Asked::AtLeast(bound) => figure >= bound,
            Asked::AtMost(bound) => figure <= bound,
            Asked::Below(bound) => figure < bound,
        };
        Self {
            what,
            figure: Some(figure).filter(|figure| figure.is_finite()),
            asked,
            met,
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
        let word = match (verdict.met, verdict.figure) {
            (true, _) => "met".to_owned(),
            (false, Some(figure)) => {
                let missing = match verdict.asked {
                    Asked::AtLeast(bound) => bound - figure,
                    Asked::AtMost(bound) | Asked::Below(bound) => figure - bound,
                };
                format!("SHORT by {missing:.3}")
            }
            (false, None) => "SHORT".to_owned(),
        };
        vec![
            of.to_owned(),
            verdict.what.clone(),
            verdict
                .figure
                .map_or("never".to_owned(), |figure| format!("{figure:.3}")),
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
    fn what_was_never_reached_comes_back_from_json() {
        let never = Verdict::new("full rate, s".to_owned(), f64::INFINITY, Asked::AtMost(1.5));
        assert!(!never.met);
        let text = serde_json::to_string(&never).unwrap();
        assert_eq!(serde_json::from_str::<Verdict>(&text).unwrap(), never);
        assert!(lines([("x", &never)]).ends_with("never  ≤ 1.500  SHORT\n"));
    }

    #[test]
    fn a_line_says_by_how_much_a_figure_is_short() {
        let gap = Verdict::new("gap, s".to_owned(), 0.25, Asked::AtMost(0.22));
        let text = lines([("hole", &gap)]);
        assert_eq!(text, "hole  gap, s  0.250  ≤ 0.220  SHORT by 0.030\n");
    }
}
