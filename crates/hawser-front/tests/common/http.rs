//! An HTTP server with one behaviour for each path, and helpers for its clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use super::{read_exactly, read_head, serve};

/// An HTTP server that answers each request by its path and reports the headers it saw.
pub(crate) async fn server() -> (u16, Arc<AtomicUsize>, mpsc::UnboundedReceiver<String>) {
    let connections = Arc::new(AtomicUsize::new(0));
    let (seen, seen_here) = mpsc::unbounded_channel();
    let count = Arc::clone(&connections);
    let port = serve(move |mut stream| {
        count.fetch_add(1, Ordering::Relaxed);
        let seen = seen.clone();
        async move {
            loop {
                let head = read_head(&mut stream).await;
                let Some(path) = head.split(' ').nth(1).map(str::to_owned) else {
                    return;
                };
                let _ = seen.send(head.clone());
                if !answer(&mut stream, &path, &head).await {
                    return;
                }
            }
        }
    })
    .await;
    (port, connections, seen_here)
}

/// Answers one request; `false` when the connection has ended.
async fn answer(stream: &mut TcpStream, path: &str, head: &str) -> bool {
    let reply: &[u8] = match path {
        "/close" => b"HTTP/1.1 200 OK\r\n\r\nuntil the end",
        "/chunked" => {
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4;x\r\ndefg\r\n0\r\nT: 1\r\n\r\n"
        }
        "/204" => b"HTTP/1.1 204 No Content\r\n\r\n",
        "/304" => b"HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n",
        "/head" => b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n",
        "/last" | "/cut" => b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n",
        "/interim" => {
            b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
        }
        "/too-large" => b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nno!",
        "/nonsense" => b"NONSENSE\r\n\r\n",
        "/nothing" => b"",
        "/expect" => b"HTTP/1.1 100 Continue\r\n\r\n",
        "/upgrade" => {
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nhi "
        }
        _ => b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\nhello",
    };
    stream.write_all(reply).await.unwrap();
    match path {
        "/close" | "/nonsense" | "/nothing" => return false,
        "/cut" => {
            stream.write_all(b"half").await.unwrap();
            return false;
        }
        "/last" => {
            stream.write_all(b"0123456789").await.unwrap();
            return false;
        }
        "/upgrade" => {
            let (mut read, mut write) = stream.split();
            let _ = tokio::io::copy(&mut read, &mut write).await;
            return false;
        }
        "/expect" | "/echo-length" => {
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("Content-Length: "))
                .map_or(0, |length| length.parse().unwrap());
            let body = read_exactly(stream, length).await;
            if path == "/expect" {
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
                stream.write_all(head.as_bytes()).await.unwrap();
                stream.write_all(&body).await.unwrap();
            }
        }
        _ => {}
    }
    true
}

pub(crate) fn get(port: u16, path: &str) -> Vec<u8> {
    format!("GET http://server.test:{port}{path} HTTP/1.1\r\nHost: wrong\r\n\r\n").into_bytes()
}

pub(crate) async fn read_response(client: &mut TcpStream) -> (String, String) {
    let head = read_head(client).await;
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("Content-Length: "))
        .map_or(0, |length| length.parse().unwrap());
    let body = read_exactly(client, length).await;
    (head, String::from_utf8(body).unwrap())
}
