//! Requests that must all be refused.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::outcome::WatcherOutcome;
use super::site::{ASK, FEED, Site, head, say_ready, status};

/// Sends so many requests of each kind a second, each over a connection of its own; one after the
/// other where they take longer.
pub(super) fn knock(site: &Site<'_>, rate: u16) -> anyhow::Result<WatcherOutcome> {
    say_ready()?;
    let every = Duration::from_secs(1) / u32::from(rate.max(1));
    let kinds = [Kind::WrongToken, Kind::OtherHost, Kind::LongBody];
    Ok(std::thread::scope(|scope| {
        let threads = kinds.map(|kind| scope.spawn(move || keep_on(site, kind, every)));
        let seen = threads.into_iter().filter_map(|thread| thread.join().ok());
        seen.reduce(WatcherOutcome::and).unwrap_or_default()
    }))
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    WrongToken,
    /// The token is right, but the page is another server's.
    OtherHost,
    /// The token is right, but what is asked is long.
    LongBody,
}

fn keep_on(site: &Site<'_>, kind: Kind, every: Duration) -> WatcherOutcome {
    let mut seen = WatcherOutcome::default();
    let mut due = Instant::now();
    while !site.is_over() {
        let told = once(site, kind).ok().flatten();
        seen.note(kind.name(), told);
        let now = Instant::now();
        due = (due + every).max(now);
        std::thread::sleep(due - now);
    }
    seen
}

/// Sends one and gives the status of the answer.
fn once(site: &Site<'_>, kind: Kind) -> io::Result<Option<u16>> {
    let mut stream = site.connect()?;
    match kind {
        Kind::WrongToken => {
            let wrong = site.token.chars().rev().collect::<String>();
            let host = site.server.to_string();
            stream.write_all(head(FEED, &host, &wrong, "").as_bytes())?;
        }
        Kind::OtherHost => {
            let request = head(FEED, "rebound.example:7480", &site.token, "");
            stream.write_all(request.as_bytes())?;
        }
        Kind::LongBody => {
            let length = format!("Content-Length: {BODY}\r\n");
            stream.write_all(site.head(ASK, &length).as_bytes())?;
            send_body(&mut stream);
        }
    }
    let mut answer = [0; 64];
    let count = stream.read(&mut answer)?;
    Ok(status(&answer[..count]))
}

/// Sends the body as far as it is taken: a server that refuses it does not read it to its end.
fn send_body(stream: &mut TcpStream) {
    let block = vec![b'x'; 64 << 10];
    let mut left = BODY;
    while left > 0 {
        let part = left.min(block.len());
        if stream.write_all(&block[..part]).is_err() {
            return;
        }
        left -= part;
    }
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::WrongToken => "wrong token",
            Self::OtherHost => "other host",
            Self::LongBody => "long body",
        }
    }
}

/// Bytes.
const BODY: usize = 10_000_000;
