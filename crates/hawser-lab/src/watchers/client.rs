//! Those who look at a daemon: a process of its own on the client host.

mod flood;
mod page;
mod stalled;

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::net::{SocketAddrV4, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use socket2::{Domain, Socket, Type};

use super::Crowd;
use crate::commands::print;
use crate::cpu;

/// What to do.
#[derive(Debug, clap::Args)]
pub(crate) struct WatchArguments {
    crowd: Crowd,
    server: SocketAddrV4,
    /// The file with the token
    token: PathBuf,
    /// Feeds that are asked for and not read
    #[arg(long)]
    feeds: u16,
    /// Requests of each kind in a flood, a second
    #[arg(long)]
    rate: u16,
}

/// What became of it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct WatcherOutcome {
    /// How many requests had each answer, such as `feed: 503`.
    pub(super) answers: BTreeMap<String, u64>,
    /// The most feeds that were open at once and not read.
    pub(super) most_feeds: usize,
    /// Bytes that were read.
    pub(super) bytes: u64,
    pub(super) seconds: f64,
    /// Processor time of those who looked.
    pub(super) cpu_seconds: f64,
}

impl WatcherOutcome {
    /// Takes note of an answer; nothing is one, too.
    fn note(&mut self, what: &str, status: Option<u16>) {
        let status = status.map_or("none".to_owned(), |status| status.to_string());
        *self.answers.entry(format!("{what}: {status}")).or_default() += 1;
    }

    /// How many requests had an answer that is for those who may ask.
    pub(super) fn let_in(&self) -> u64 {
        let granted = |(what, _): &(&String, &u64)| what.ends_with(": 200");
        self.answers
            .iter()
            .filter(granted)
            .map(|(_, count)| count)
            .sum()
    }

    /// What became of both.
    pub(super) fn and(mut self, other: Self) -> Self {
        for (answer, count) in other.answers {
            *self.answers.entry(answer).or_default() += count;
        }
        Self {
            answers: self.answers,
            most_feeds: self.most_feeds.max(other.most_feeds),
            bytes: self.bytes + other.bytes,
            seconds: self.seconds + other.seconds,
            cpu_seconds: self.cpu_seconds + other.cpu_seconds,
        }
    }
}

/// Looks until the input ends: says `ready` when everybody has come, and at the end what they saw.
pub(crate) fn watch(arguments: &WatchArguments) -> anyhow::Result<()> {
    let is_over = AtomicBool::new(false);
    let token = std::fs::read_to_string(&arguments.token)?;
    let site = Site {
        server: arguments.server,
        token: token.trim().to_owned(),
        is_over: &is_over,
    };
    let begun = Instant::now();
    let seen = std::thread::scope(|scope| {
        scope.spawn(|| {
            let _ = io::stdin().read_to_end(&mut Vec::new());
            is_over.store(true, Ordering::Relaxed);
        });
        let seen = match arguments.crowd {
            Crowd::Stalled => stalled::stall(&site, arguments.feeds),
            Crowd::Page => page::look(&site),
            Crowd::Flood => flood::knock(&site, arguments.rate),
        };
        // The thread above would wait for whoever has to hear of the error.
        seen.unwrap_or_else(|error| fail(&error))
    });
    print(&serde_json::to_string(&WatcherOutcome {
        seconds: begun.elapsed().as_secs_f64(),
        cpu_seconds: cpu::of_this_process(),
        ..seen
    })?)
}

fn fail(error: &anyhow::Error) -> ! {
    eprintln!("watch: {error:#}");
    std::process::exit(1)
}

/// The server that is looked at.
struct Site<'a> {
    server: SocketAddrV4,
    token: String,
    is_over: &'a AtomicBool,
}

impl Site<'_> {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    fn connect(&self) -> io::Result<TcpStream> {
        self.connect_with(None)
    }

    /// Connects, with so much room for what is not read yet if it says so.
    fn connect_with(&self, room: Option<usize>) -> io::Result<TcpStream> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        if let Some(room) = room {
            socket.set_recv_buffer_size(room)?;
        }
        socket.connect_timeout(&self.server.into(), PATIENCE)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        Ok(socket.into())
    }

    /// The head of a request, such as `GET /`, with the right token; `more` are whole lines.
    fn head(&self, what: &str, more: &str) -> String {
        let (server, token) = (self.server, &self.token);
        head(what, &server.to_string(), token, more)
    }
}

fn head(what: &str, host: &str, token: &str, more: &str) -> String {
    format!("{what} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n{more}\r\n")
}

/// The status in the first bytes of an answer.
fn status(answer: &[u8]) -> Option<u16> {
    let text = answer.strip_prefix(b"HTTP/1.1 ")?.get(..3)?;
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn say_ready() -> anyhow::Result<()> {
    print(READY)
}

const FEED: &str = "GET /api/v1/feed";
const ASK: &str = "POST /api/v1/ask";
/// For an answer to come.
const PATIENCE: Duration = Duration::from_secs(5);
/// Said when everybody has come.
pub(super) const READY: &str = "ready";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answers_status_is_in_its_first_bytes() {
        assert_eq!(status(b"HTTP/1.1 503 Service"), Some(503));
        assert_eq!(status(b"HTTP/1.1 503"), Some(503));
        for other in [&b""[..], b"HTTP/1.1 50", b"HTTP/1.1 abc", b"SSH-2.0-x"] {
            assert_eq!(status(other), None, "{other:?}");
        }
    }

    #[test]
    fn answers_are_counted_by_what_was_asked_and_answered() {
        let mut first = WatcherOutcome::default();
        first.note("feed", Some(200));
        first.note("feed", None);
        let mut second = first.clone();
        second.most_feeds = 3;
        second.note("feed", Some(503));
        let both = first.and(second);
        let counts: Vec<_> = both.answers.into_iter().collect();
        let counted = [("feed: 200", 2), ("feed: 503", 1), ("feed: none", 2)];
        assert_eq!(
            counts,
            counted.map(|(what, count)| (what.to_owned(), count))
        );
        assert_eq!(both.most_feeds, 3);
    }
}
