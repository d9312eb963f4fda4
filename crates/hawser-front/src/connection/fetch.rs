//! Fetches one page over one link, for checks and measurements.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use hawser_config::HttpUrl;
use hawser_link::bind::{SocketOptions, connect_on_link};
use hawser_link::links::Link;
use hawser_types::ByteCount;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use crate::resolve::{Resolve as _, SystemResolver};

/// The request to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// Fetch the page; read at most this much.
    Get(ByteCount),
    /// Send this much to the server.
    Post(ByteCount),
}

/// The result of a fetch.
#[derive(Debug, Default)]
pub(super) struct Fetched {
    /// The status of the answer; 0 without an answer in time.
    pub(super) status: u16,
    /// The beginning of the page.
    pub(super) body: Vec<u8>,
    /// Bytes that were moved while measuring, and the time that they took. For a page, the
    /// measurement begins after its first 64 KiB, so that the slow start does not count.
    pub(super) measured: (ByteCount, Duration),
}

/// Sends a request to the server of `url` over `link`, or by the system's routes, for at most
/// `time` in all. A transfer that takes longer ends there.
///
/// Fails if the server can't be reached or its answer is not HTTP.
pub(super) async fn fetch(
    link: Option<&Link>,
    url: &HttpUrl,
    ask: Ask,
    time: Duration,
) -> io::Result<Fetched> {
    let end = Instant::now() + time;
    let opening = async {
        let mut stream = connect(link, url).await?;
        stream.write_all(head(url, ask).as_bytes()).await?;
        Ok::<_, io::Error>(stream)
    };
    let mut stream = timeout_at(end, opening).await??;
    match ask {
        Ask::Get(most) => read(&mut stream, most, end).await,
        Ask::Post(bytes) => post(&mut stream, bytes, end).await,
    }
}

async fn connect(link: Option<&Link>, url: &HttpUrl) -> io::Result<TcpStream> {
    let unknown = || io::Error::from(io::ErrorKind::AddrNotAvailable);
    let addresses = match url.host.parse::<IpAddr>() {
        Ok(address) => vec![address],
        Err(_) => {
            let name = url.host.parse().map_err(|_| unknown())?;
            let found = SystemResolver::new().resolve(&name).await;
            found.map_err(|_| unknown())?
        }
    };
    let leads = |address: &IpAddr| link.is_none_or(|link| link.has_default_route(*address));
    let address = addresses.into_iter().find(leads).ok_or_else(unknown)?;
    let remote = SocketAddr::new(address, url.port);
    Ok(connect_on_link(link, remote, &SocketOptions::default()).await?)
}

fn head(url: &HttpUrl, ask: Ask) -> String {
    let (method, length) = match ask {
        Ask::Get(_) => ("GET", String::new()),
        Ask::Post(bytes) => ("POST", format!("Content-Length: {}\r\n", bytes.as_u64())),
    };
    format!(
        "{method} {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: hawser\r\nAccept: */*\r\n\
         Accept-Encoding: identity\r\n{length}Connection: close\r\n\r\n",
        url.path,
        url.authority()
    )
}

async fn read(stream: &mut TcpStream, most: ByteCount, end: Instant) -> io::Result<Fetched> {
    let mut fetched = Fetched::default();
    let mut intake = Vec::new();
    let mut buffer = vec![0; READ_SIZE];
    let mut moved = ByteCount::ZERO;
    let mut begun = None;
    // Running out of time is no failure: the bytes so far count.
    while let Ok(read) = timeout_at(end, stream.read(&mut buffer)).await {
        let Some(bytes) = buffer.get(..read?).filter(|bytes| !bytes.is_empty()) else {
            break;
        };
        moved += ByteCount::from(bytes.len());
        if intake.len() < MAX_KEPT {
            intake.extend_from_slice(bytes);
        }
        let now = Instant::now();
        match begun {
            None if moved >= BEGINNING => begun = Some((moved, now)),
            Some((before, since)) => fetched.measured = (moved - before, now - since),
            None => {}
        }
        if moved >= most {
            break;
        }
    }
    (fetched.status, fetched.body) = parse(&intake)?;
    Ok(fetched)
}

async fn post(stream: &mut TcpStream, bytes: ByteCount, end: Instant) -> io::Result<Fetched> {
    let begun = Instant::now();
    let mut intake = vec![0; MAX_KEPT];
    let exchange = async {
        let chunk = vec![0; READ_SIZE];
        let mut left = bytes.as_usize();
        while left > 0 {
            let piece = chunk.get(..left.min(chunk.len())).unwrap_or(&chunk);
            left -= stream.write(piece).await?;
        }
        // The server answers after it has received everything.
        stream.read(&mut intake).await
    };
    let read = timeout_at(end, exchange).await??;
    let (status, body) = parse(intake.get(..read).unwrap_or_default())?;
    Ok(Fetched {
        status,
        body,
        measured: (bytes, begun.elapsed()),
    })
}

/// Parses the status of an answer, and as much of its body as has arrived.
fn parse(bytes: &[u8]) -> io::Result<(u16, Vec<u8>)> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    match response.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => {
            let body = bytes.get(length..).unwrap_or_default().to_vec();
            Ok((response.code.unwrap_or(0), body))
        }
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

const BEGINNING: ByteCount = ByteCount::from_kib(64);
const READ_SIZE: usize = 64 * 1024;
/// Bytes of the answer that are kept: its head, and the text that a check looks for.
const MAX_KEPT: usize = 64 * 1024;
const MAX_HEADERS: usize = 64;

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// A server that answers one connection with `answer`, after the request and `length` more
    /// bytes.
    async fn server(answer: Vec<u8>, length: usize) -> HttpUrl {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/page", listener.local_addr().unwrap());
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).await.unwrap();
            // A client that has read enough closes before the end.
            let _ = stream.write_all(&answer).await;
        });
        url.parse().unwrap()
    }

    const TIME: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn a_page_is_read_up_to_what_was_wanted_and_its_beginning_kept() {
        let mut answer = b"HTTP/1.1 200 OK\r\n\r\nsuccess".to_vec();
        answer.resize(1_000_000, b'.');
        let url = server(answer, 0).await;
        let fetched = fetch(None, &url, Ask::Get(ByteCount::new(400_000)), TIME).await;
        let fetched = fetched.unwrap();
        assert_eq!(fetched.status, 200);
        assert!(fetched.body.starts_with(b"success"));
        assert!(fetched.body.len() <= 2 * MAX_KEPT);
        let measured = fetched.measured.0.as_u64();
        assert!((200_000..=400_000).contains(&measured), "{measured}");
    }

    #[tokio::test]
    async fn what_is_posted_counts_when_it_was_taken() {
        let answer = b"HTTP/1.1 204 No Content\r\n\r\n".to_vec();
        let url = server(answer, 300_000).await;
        let ask = Ask::Post(ByteCount::new(300_000));
        let fetched = fetch(None, &url, ask, TIME).await.unwrap();
        assert_eq!(fetched.status, 204);
        assert_eq!(fetched.measured.0, ByteCount::new(300_000));
    }

    #[tokio::test]
    async fn what_is_not_http_is_a_failure() {
        for answer in [&b"SSH-2.0-x\r\n"[..], b"", b"HTTP/1.1 abc\r\n\r\n"] {
            let url = server(answer.to_vec(), 0).await;
            let fetched = fetch(None, &url, Ask::Get(ByteCount::new(1000)), TIME).await;
            assert!(fetched.is_err(), "{fetched:?}");
        }
    }
}
