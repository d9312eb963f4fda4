//! A client that reads everything, and sends the requests of the page.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::outcome::WatcherOutcome;
use super::site::{ASK, FEED, Site, say_ready, status};

/// Loads the page, follows the feed, and asks from time to time why connections go where they go.
pub(super) fn look(site: &Site<'_>) -> anyhow::Result<WatcherOutcome> {
    let mut seen = WatcherOutcome::default();
    for file in FILES {
        exchange(
            site,
            "file",
            &site.head(&format!("GET {file}"), CLOSE),
            &mut seen,
        );
    }
    let question = format!(
        "{}{QUESTION}",
        site.head(
            ASK,
            &format!("{CLOSE}Content-Length: {}\r\n", QUESTION.len())
        )
    );
    let mut have_come = false;
    while !site.is_over() {
        match open(site) {
            Ok(feed) => have_come |= follow(site, feed, &question, &mut seen)?,
            Err(_) => seen.note("feed", None),
        }
        anyhow::ensure!(have_come || site.is_over(), "the page gets no feed");
    }
    Ok(seen)
}

/// Reads a feed to its end, and says that it has come; says whether it has.
fn follow(
    site: &Site<'_>,
    mut feed: TcpStream,
    question: &str,
    seen: &mut WatcherOutcome,
) -> anyhow::Result<bool> {
    let mut block = vec![0; 64 << 10];
    let mut told = None;
    let mut asked = Instant::now();
    while !site.is_over() {
        match feed.read(&mut block) {
            Ok(0) => break,
            Ok(count) => {
                seen.bytes += count as u64;
                if told.is_none() {
                    told = status(&block[..count]);
                    say_ready()?;
                }
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {}
                _ => break,
            },
        }
        if asked.elapsed() >= EVERY {
            asked = Instant::now();
            exchange(site, "question", question, seen);
        }
    }
    seen.note("feed", told);
    Ok(told == Some(200))
}

fn open(site: &Site<'_>) -> io::Result<TcpStream> {
    let mut stream = site.connect()?;
    stream.set_read_timeout(Some(PAUSE))?;
    stream.write_all(site.head(FEED, "").as_bytes())?;
    Ok(stream)
}

/// Sends a request over a connection of its own, and reads the answer to its end.
fn exchange(site: &Site<'_>, what: &str, request: &str, seen: &mut WatcherOutcome) {
    let exchange = || {
        let mut stream = site.connect()?;
        stream.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        stream.take(MAX_ANSWER).read_to_end(&mut answer)?;
        Ok::<_, io::Error>(answer)
    };
    let answer = exchange().unwrap_or_default();
    seen.bytes += answer.len() as u64;
    seen.note(what, status(&answer));
}

const FILES: [&str; 3] = ["/", "/style.css", "/app.js"];
const CLOSE: &str = "Connection: close\r\n";
const QUESTION: &str = r#"{"api":1,"request":"why","connections":40}"#;
/// As the page has it.
const EVERY: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(200);
const MAX_ANSWER: u64 = 2 << 20;
