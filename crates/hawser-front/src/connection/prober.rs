use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hawser_config::{ConnectionConfig, HttpUrl};
use hawser_director::{Health, LinkReport};
use hawser_net::ticks::Ticks;
use hawser_types::{ByteCount, LinkIndex};
use tokio::time::Instant;

use super::SharedDirector;
use super::fetch::{Ask, Fetched, fetch};

/// Limits how much measuring may transfer.
pub trait ProbeBudget: Send + Sync + 'static {
    /// Takes bytes from what is left of a link's budget for today; `false` if too little is left.
    /// May block on the disk.
    fn take(&self, link: &str, bytes: ByteCount) -> bool;
}

/// Checks links with requests to servers that the user has named: for captive portals, and for the
/// rates of links that were not busy yet.
///
/// Source: DBAS §II.B.2 (active estimation; here with several servers and a budget).
#[derive(Debug)]
pub struct Prober<B> {
    director: SharedDirector,
    portal_checks: Vec<HttpUrl>,
    downloads: Vec<HttpUrl>,
    uploads: Vec<HttpUrl>,
    budget: Arc<B>,
    /// Last check and measurement of each link.
    done: BTreeMap<LinkIndex, Done>,
    turn: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Done {
    checked: Option<Instant>,
    measured: Option<Instant>,
}

impl<B: ProbeBudget> Prober<B> {
    /// Creates a prober for the links of `director`.
    pub fn new(director: SharedDirector, config: &ConnectionConfig, budget: B) -> Self {
        Self {
            director,
            portal_checks: config.portal_checks.clone(),
            downloads: config.probe_downloads.clone(),
            uploads: config.probe_uploads.clone(),
            budget: Arc::new(budget),
            done: BTreeMap::new(),
            turn: 0,
        }
    }

    /// Checks and measures links until the future is dropped.
    pub async fn run(mut self) {
        let asks = [&self.portal_checks, &self.downloads, &self.uploads];
        if asks.iter().all(|urls| urls.is_empty()) {
            return;
        }
        let mut ticks = Ticks::every(LOOK_EVERY);
        loop {
            ticks.tick().await;
            let report = self.director.report();
            let is_there =
                |index: &LinkIndex| report.links.iter().any(|it| it.link.index == *index);
            self.done.retain(|index, _| is_there(index));
            for link in &report.links {
                self.check(link).await;
                self.measure(link).await;
            }
        }
    }

    /// Checks whether a captive portal answers in place of servers, when a check is due.
    async fn check(&mut self, link: &LinkReport) {
        let done = self.done.entry(link.link.index).or_default();
        let pause = match link.health {
            Health::Portal => PORTAL_PAUSE,
            _ => SOUND_PAUSE,
        };
        let is_due = done.checked.is_none_or(|at| at.elapsed() >= pause);
        if !is_due || self.portal_checks.is_empty() {
            return;
        }
        done.checked = Some(Instant::now());
        for url in &self.portal_checks {
            let ask = Ask::Get(MAX_CHECK);
            match fetch(Some(&link.link), url, ask, CHECK_TIME).await {
                Ok(fetched) => {
                    let index = link.link.index;
                    let is_portal = !is_expected(url, &fetched);
                    self.director
                        .with(|director, _| director.set_portal(index, is_portal));
                    return;
                }
                // A server that can't be reached proves nothing about portals; the next may.
                Err(error) => tracing::debug!(%url, link = link.link.name, %error,
                    "can't check the link for a captive portal"),
            }
        }
    }

    /// Measures the link's rate if that is not known well, and the link is idle and costs nothing.
    async fn measure(&mut self, link: &LinkReport) {
        let is_free = link.is_free && link.load.connections == 0 && link.health == Health::Sound;
        let done = self.done.entry(link.link.index).or_default();
        let is_due = done.measured.is_none_or(|at| at.elapsed() >= MEASURE_PAUSE);
        if !is_free || !is_due {
            return;
        }
        done.measured = Some(Instant::now());
        self.turn = self.turn.wrapping_add(1);
        let [up, down] = link.confidence.map(|confidence| confidence < ENOUGH);
        let pick = |urls: &[HttpUrl]| urls.get(self.turn.checked_rem(urls.len())?).cloned();
        if let (true, Some(url)) = (down, pick(&self.downloads)) {
            let measured = self.move_some(link, &url, Ask::Get(PROBE)).await;
            self.enter(link, false, measured);
        }
        if let (true, Some(url)) = (up, pick(&self.uploads)) {
            let measured = self.move_some(link, &url, Ask::Post(PROBE)).await;
            self.enter(link, true, measured);
        }
    }

    async fn move_some(&self, link: &LinkReport, url: &HttpUrl, ask: Ask) -> Option<Fetched> {
        let (budget, name) = (Arc::clone(&self.budget), link.link.name.clone());
        let taking = tokio::task::spawn_blocking(move || budget.take(&name, PROBE));
        if !taking.await.unwrap_or(false) {
            return None;
        }
        let fetched = fetch(Some(&link.link), url, ask, PROBE_TIME).await;
        let logged = fetched.inspect_err(|error| {
            tracing::debug!(%url, link = link.link.name, %error, "can't measure the link's rate");
        });
        // An error page is no transfer.
        logged.ok().filter(|it| (200..300).contains(&it.status))
    }

    fn enter(&self, link: &LinkReport, up: bool, measured: Option<Fetched>) {
        if let Some(fetched) = measured {
            let (bytes, span) = fetched.measured;
            tracing::debug!(link = link.link.name, up, %bytes, ?span, "measured the link's rate");
            let index = link.link.index;
            self.director
                .with(|director, now| director.handle_probe(now, index, up, bytes, span));
        }
    }
}

/// Returns whether a page is the expected one.
fn is_expected(url: &HttpUrl, fetched: &Fetched) -> bool {
    match &url.expected {
        None => fetched.status == 204,
        Some(text) => {
            let text = text.as_bytes();
            fetched.status == 200 && fetched.body.windows(text.len()).any(|part| part == text)
        }
    }
}

const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A user who signs in at a portal wants to continue soon.
const PORTAL_PAUSE: Duration = Duration::from_secs(10);
const SOUND_PAUSE: Duration = Duration::from_secs(300);
const MAX_CHECK: ByteCount = ByteCount::from_kib(16);
const CHECK_TIME: Duration = Duration::from_secs(5);
const MEASURE_PAUSE: Duration = Duration::from_secs(600);
/// Rates that are known with less confidence are measured.
const ENOUGH: f64 = 0.3;
/// One measurement: half a second at 16 Mbit/s.
const PROBE: ByteCount = ByteCount::new(1_000_000);
const PROBE_TIME: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_as_expected_by_its_status_or_its_text() {
        let page = |status, body: &[u8]| Fetched {
            status,
            body: body.to_vec(),
            ..Fetched::default()
        };
        let by_status = "http://check.example/204".parse().unwrap();
        assert!(is_expected(&by_status, &page(204, b"")));
        assert!(!is_expected(&by_status, &page(302, b"")));
        assert!(!is_expected(&by_status, &page(200, b"<html>sign in")));
        let by_text = "http://check.example/ok.txt#success".parse().unwrap();
        assert!(is_expected(&by_text, &page(200, b"success\n")));
        assert!(!is_expected(&by_text, &page(200, b"sign in")));
        assert!(!is_expected(&by_text, &page(511, b"success")));
    }
}
