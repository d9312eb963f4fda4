//! A client that sends exact bytes.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Interest};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::daemon::TOKEN;

/// One connection.
#[derive(Debug)]
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
    address: SocketAddr,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{self:?}"))
    }
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        let stream = BufReader::new(stream);
        Self { stream, address }
    }

    /// Sends `METHOD PATH` with these header lines, which include Host.
    pub(crate) async fn raw(&mut self, request: &str, headers: &[&str], body: &str) -> Answer {
        let head = format!("{request} HTTP/1.1\r\n{}\r\n\r\n", headers.join("\r\n"));
        self.write(&(head + body)).await;
        let mut answer = self.head().await.expect("an answer");
        if let Some(length) = answer.headers.get("content-length")
            && !request.starts_with("HEAD ")
        {
            let mut body = vec![0; length.parse().unwrap()];
            self.stream.read_exact(&mut body).await.unwrap();
            answer.body = String::from_utf8(body).unwrap();
        }
        answer
    }

    /// Does the same with the right Host, the token, and the length of the body.
    pub(crate) async fn ask(&mut self, request: &str, body: &str) -> Answer {
        let host = format!("Host: {}", self.address);
        let length = format!("Content-Length: {}", body.len());
        self.raw(request, &[&host, &with_token(), &length], body)
            .await
    }

    /// Opens a feed; `header` is one more line. After a refusal the connection stays usable.
    pub(crate) async fn feed(mut self, header: &str) -> Result<Feed, (Answer, Self)> {
        let host = format!("Host: {}", self.address);
        let answer = self
            .raw("GET /api/v1/feed", &[&host, &with_token(), header], "")
            .await;
        match answer.status {
            200 => Ok(Feed(self.stream)),
            _ => Err((answer, self)),
        }
    }

    pub(crate) async fn write(&mut self, text: &str) {
        self.stream
            .get_mut()
            .write_all(text.as_bytes())
            .await
            .unwrap();
    }

    /// Returns the head of an answer; `None` if the connection has ended.
    pub(crate) async fn head(&mut self) -> Option<Answer> {
        let mut line = String::new();
        if self.stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        let status = line.split(' ').nth(1)?.parse().ok()?;
        let mut headers = BTreeMap::new();
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line).await.ok()?;
            match line.trim_end().split_once(": ") {
                Some((name, value)) => headers.insert(name.to_lowercase(), value.to_owned()),
                None => break,
            };
        }
        let body = String::new();
        Some(Answer {
            status,
            headers,
            body,
        })
    }

    /// Waits until the server has ended the connection.
    pub(crate) async fn ended(&mut self) {
        let mut rest = Vec::new();
        // A reset is an end as well.
        let _ = self.stream.read_to_end(&mut rest).await;
    }
}

/// An open feed.
#[derive(Debug)]
pub(crate) struct Feed(BufReader<TcpStream>);

impl Feed {
    /// Returns the kind, the number and the content of the next message; `None` if the feed has
    /// ended in order.
    pub(crate) async fn next(&mut self) -> Option<(String, Option<u64>, Value)> {
        let (mut kind, mut id) = (String::new(), None);
        loop {
            let line = self.line().await?;
            match line.split_once(": ") {
                Some(("event", value)) => value.clone_into(&mut kind),
                Some(("id", value)) => id = value.parse().ok(),
                Some(("data", value)) => {
                    return Some((kind, id, serde_json::from_str(value).unwrap()));
                }
                _ => {}
            }
        }
    }

    /// Returns the next message of this kind; others are skipped.
    pub(crate) async fn next_of(&mut self, wanted: &str) -> (Option<u64>, Value) {
        loop {
            let (kind, id, data) = self.next().await.expect("the feed goes on");
            if kind == wanted {
                return (id, data);
            }
        }
    }

    /// Waits until the connection has ended, without reading. Returns whether it was reset.
    pub(crate) async fn is_reset(&self) -> bool {
        let stream = self.0.get_ref();
        let ended = stream.ready(Interest::ERROR);
        let ended = timeout(PATIENCE, ended).await;
        ended.expect("the connection ends").unwrap();
        let error = stream.take_error().unwrap();
        error.is_some_and(|error| error.kind() == ErrorKind::ConnectionReset)
    }

    /// Returns a line of the messages or of their chunks; `None` after the last chunk.
    async fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.0.read_line(&mut line).await.unwrap();
        assert!(read > 0, "the feed is cut off");
        (line != "0\r\n").then(|| line.trim_end().to_owned())
    }
}

fn with_token() -> String {
    format!("Authorization: Bearer {TOKEN}")
}

/// Returns the body of a request to the control API.
pub(crate) fn request(text: &str) -> String {
    format!(r#"{{"api":1,"request":{text}}}"#)
}

/// Time limit for the end of a connection that the server gives up.
const PATIENCE: Duration = Duration::from_secs(60);
