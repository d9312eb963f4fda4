//! Reports as pages: one file with text and charts, which opens without a network. The dashboard's
//! module draws the charts.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA256, digest};
use serde::Serialize;

/// A report as a page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// The subject of the page, in a few words.
    pub title: String,
    /// Text of fixed width, such as tables.
    pub text: String,
    /// Charts below the text, in this order.
    pub charts: Vec<Chart>,
}

/// Rates over time, one line for each compared series.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chart {
    /// Title of the chart.
    pub title: String,
    /// Interval of each mean value. The first one begins at the start of the measurement.
    pub step: Duration,
    /// The series to compare. Up to eight differ by colour and by dashes.
    pub series: Vec<Series>,
}

/// A rate over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// Name of the series.
    pub name: String,
    /// Rates in bit/s, one for each step, up to the last known one.
    pub rates: Vec<f64>,
}

impl Page {
    /// Returns the page as HTML.
    pub fn render(&self) -> String {
        let title = escaped(&self.title);
        let place = |chart: &Chart| {
            let title = escaped(&chart.title);
            format!("<section class=\"panel\" aria-label=\"{title}\"><h2>{title}</h2></section>\n")
        };
        let places: String = self.charts.iter().map(place).collect();
        let data: Vec<_> = self.charts.iter().map(Drawn::of).collect();
        // The data must not end the element that contains it.
        let data = serde_json::to_string(&data).unwrap_or_default();
        let data = data.replace('<', "\\u003c");
        let text = escaped(&self.text);
        let script = format!("\n{CHART}\n{DRAW}");
        let hash = STANDARD.encode(digest(&SHA256, script.as_bytes()));
        // The page runs its own script and loads nothing else.
        let policy =
            format!("default-src 'none'; script-src 'sha256-{hash}'; style-src 'unsafe-inline'");
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
             <header><h1>{title}</h1></header>\n<main>\n{places}\
             <section class=\"panel\" aria-label=\"Figures\"><h2>Figures</h2>\n<pre tabindex=\"0\">{text}</pre></section>\n</main>\n\
             <script type=\"application/json\" id=\"data\">{data}</script>\n\
             <script type=\"module\">{script}</script>\n</body>\n</html>\n"
        )
    }
}

/// A chart in the form that the module expects.
#[derive(Serialize)]
struct Drawn<'a> {
    title: &'a str,
    /// Milliseconds: the middle of each step.
    times: Vec<f64>,
    series: Vec<DrawnSeries<'a>>,
}

#[derive(Serialize)]
struct DrawnSeries<'a> {
    name: &'a str,
    slot: usize,
    values: &'a [f64],
}

impl<'a> Drawn<'a> {
    fn of(chart: &'a Chart) -> Self {
        let longest = chart.series.iter().map(|one| one.rates.len()).max();
        let step = chart.step.as_secs_f64() * 1e3;
        let series = chart.series.iter().enumerate();
        Self {
            title: &chart.title,
            times: (0..longest.unwrap_or(0))
                .map(|at| (at as f64 + 0.5) * step)
                .collect(),
            series: series
                .map(|(slot, one)| DrawnSeries {
                    name: &one.name,
                    slot,
                    values: &one.rates,
                })
                .collect(),
        }
    }
}

/// Escapes text for HTML and SVG.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('"', "&quot;")
}

const STYLE: &str = include_str!("../assets/style.css");
const CHART: &str = include_str!("../assets/chart.js");
/// Draws each chart into the section with its title.
const DRAW: &str = "
const shown = JSON.parse(document.getElementById('data').textContent);
const places = document.querySelectorAll('main > section');
shown.forEach(({ title, times, series }, at) => {
  const chart = new TimeChart(places[at], { title, unit: RATE, stacked: false, height: 300, fromStart: true });
  chart.draw({ times, series, from: 0, to: times.at(-1) ?? 1 });
});
";

#[cfg(test)]
mod tests {
    use super::*;

    fn page(name: &str) -> String {
        let series = Series {
            name: name.to_owned(),
            rates: vec![1e6, 2e6],
        };
        let chart = Chart {
            title: name.to_owned(),
            step: Duration::from_millis(250),
            series: vec![series],
        };
        let page = Page {
            title: name.to_owned(),
            text: name.to_owned(),
            charts: vec![chart],
        };
        page.render()
    }

    #[test]
    fn a_page_has_everything_in_it() {
        let page = page("hawser");
        assert!(page.contains("class TimeChart"));
        assert!(page.contains("\"times\":[125.0,375.0]"), "{page}");
        assert!(page.contains("\"values\":[1000000.0,2000000.0]"), "{page}");
        for word in ["src=", "href=", "url(http", "import "] {
            assert!(!page.contains(word), "{word}");
        }
    }

    #[test]
    fn names_stay_text_and_end_no_element() {
        let page = page("</script></pre><b>&");
        assert!(!page.contains("<b>"), "{page}");
        assert!(page.contains("<h1>&lt;/script>&lt;/pre>&lt;b>&amp;</h1>"));
        assert_eq!(page.matches("</script>").count(), 2);
        assert_eq!(page.matches("</pre>").count(), 1);
        assert!(!STYLE.contains("</style") && !CHART.contains("</script"));
    }
}
