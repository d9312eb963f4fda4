//! A page in a real browser.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use anyhow::Context as _;
use hawser_types::ByteCount;
use serde::Deserialize;

use super::downloads::empty;
use super::files;
use super::site::{HOSTS, Load, Site};

/// A page, and what its parts hold.
pub(super) struct Page {
    sizes: Vec<usize>,
    folder: PathBuf,
}

/// The page's report on its loading.
#[derive(Debug, Deserialize)]
struct Said {
    /// From the start of the navigation to its load event.
    milliseconds: f64,
    /// Number of parts that arrived whole.
    parts: usize,
}

impl Page {
    /// Puts the page and its parts onto the server.
    pub(super) fn publish(site: &Site<'_>) -> io::Result<Self> {
        let sizes = files::parts(PARTS, site.percent);
        let folder = site.root.join("page");
        std::fs::create_dir_all(&folder)?;
        let (mut head, mut body) = (String::new(), String::new());
        let mut written = Vec::new();
        for (number, wanted) in sizes.into_iter().enumerate() {
            let host = format!("http://{}/page", name_of(number));
            let part = Part::of(number);
            let ending = match part {
                Part::Style => "css",
                Part::Script => "js",
                Part::Image => "svg",
            };
            let name = format!("part{number}.{ending}");
            let text = part.of_size(number, wanted);
            written.push(text.len());
            std::fs::write(folder.join(&name), text)?;
            let url = format!("{host}/{name}");
            match part {
                Part::Style => head.push_str(&format!("<link rel=stylesheet href={url}>")),
                Part::Script => body.push_str(&format!("<script defer src={url}></script>")),
                Part::Image => body.push_str(&format!("<img src={url}>")),
            }
        }
        let page = format!(
            "<!doctype html><head>{head}<script>{SHOW}</script></head>\
             <body>{body}<p id=\"out\">nothing</p></body>"
        );
        std::fs::write(folder.join("index.html"), page)?;
        Ok(Self {
            sizes: written,
            folder: site.folder.join("browser"),
        })
    }
}

impl Load for Page {
    fn bytes(&self) -> ByteCount {
        ByteCount::new(self.sizes.iter().map(|size| *size as u64).sum())
    }

    fn command(&self, _round: u8) -> io::Result<Vec<OsString>> {
        // A browser that has seen nothing yet.
        empty(&self.folder)?;
        let mut home = OsString::from("HOME=");
        home.push(&self.folder);
        let mut user = OsString::from("--user-data-dir=");
        user.push(self.folder.join("user"));
        let hosts = HOSTS.iter().enumerate();
        let hosts = hosts.map(|(number, host)| format!("MAP {} {host}", name_of(number)));
        let hosts = hosts.collect::<Vec<_>>().join(", ");
        let mut words = vec!["env".into(), home, "chromium".into()];
        words.extend(FLAGS.map(OsString::from));
        words.extend([user, format!("--host-resolver-rules={hosts}").into()]);
        words.push("--dump-dom".into());
        words.push(format!("http://{}/page/index.html", name_of(0)).into());
        Ok(words)
    }

    fn check(&self, printed: &str) -> anyhow::Result<Option<f64>> {
        let said = printed.split_once("<p id=\"out\">");
        let said = said.and_then(|(_, rest)| rest.split_once("</p>"));
        let said = said
            .context("the browser shows another page")
            .map(|it| it.0)?;
        let said: Said = serde_json::from_str(said)
            .with_context(|| format!("the page says {said:?} of itself"))?;
        let (came, all) = (said.parts, self.sizes.len());
        anyhow::ensure!(came == all, "of {all} parts {came} came whole");
        Ok(Some(said.milliseconds / 1000.0))
    }
}

/// Kinds of parts of the page.
#[derive(Clone, Copy, Debug)]
enum Part {
    Style,
    Script,
    Image,
}

impl Part {
    /// One in ten is a style sheet, two are scripts, the rest are images.
    fn of(number: usize) -> Self {
        match number % 10 {
            0 => Self::Style,
            1 | 2 => Self::Script,
            _ => Self::Image,
        }
    }

    /// Returns a part of this kind with as many bytes, or as few more as it needs. The mark that
    /// the page checks stands at its end.
    fn of_size(self, number: usize, size: usize) -> String {
        let (start, end) = match self {
            Self::Style => ("/*", format!("*/:root{{--part{number}:1}}")),
            Self::Script => ("/*", "*/scripts++".to_owned()),
            Self::Image => (
                "<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'><!--",
                "--></svg>".to_owned(),
            ),
        };
        let filling = size.saturating_sub(start.len() + end.len());
        format!("{start}{}{end}", "a".repeat(filling))
    }
}

/// Under which name parts of this number are asked for.
fn name_of(number: usize) -> String {
    format!("host{}.lab", number % HOSTS.len())
}

const PARTS: usize = 100;
/// Says when the page was there, and what of it came whole.
const SHOW: &str = "
var scripts = 0;
addEventListener('load', () => {
    const milliseconds = performance.now();
    const images = [...document.images].filter(image => image.naturalWidth === 9).length;
    const root = getComputedStyle(document.documentElement);
    const styles = [...document.styleSheets].filter(
        sheet => root.getPropertyValue('--' + /part[0-9]+/.exec(sheet.href)[0]) !== '').length;
    const said = { milliseconds, parts: images + scripts + styles };
    document.getElementById('out').textContent = JSON.stringify(said);
});
";
/// Without a sandbox, which root may not use, and silent but for the page.
const FLAGS: [&str; 10] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--no-proxy-server",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> Page {
        Page {
            sizes: vec![2_000, 3_000],
            folder: PathBuf::new(),
        }
    }

    fn dom(said: &str) -> String {
        format!("<html><body><p id=\"out\">{said}</p></body></html>")
    }

    #[test]
    fn a_page_that_came_whole_says_how_long_it_took() {
        let said = r#"{"milliseconds":1234.5,"parts":2}"#;
        assert_eq!(page().check(&dom(said)).unwrap(), Some(1.2345));
    }

    #[test]
    fn a_page_that_lacks_something_is_a_failure() {
        for said in ["nothing", r#"{"milliseconds":1.0,"parts":1}"#] {
            assert!(page().check(&dom(said)).is_err(), "{said}");
        }
        assert!(page().check("<html></html>").is_err());
    }

    #[test]
    fn parts_have_the_sizes_that_were_drawn() {
        for number in 0..3 {
            assert_eq!(Part::of(number).of_size(number, 2_000).len(), 2_000);
        }
        assert!(Part::Image.of_size(3, 1).len() > 1);
    }
}
