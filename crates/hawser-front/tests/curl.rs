//! The proxy port with the real curl. Without curl the tests print that and pass.

mod common;

use std::process::Output;

use common::{Proxy, in_time, read_exactly, read_head, serve};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::process::Command;

/// Answers GET with the path, and other methods with the body they sent.
async fn http_server(mut stream: TcpStream) {
    loop {
        let head = read_head(&mut stream).await;
        let Some(path) = head.split(' ').nth(1) else {
            return;
        };
        let field = |name: &str| {
            let of_line = |line: &str| {
                let (key, value) = line.split_once(": ")?;
                key.eq_ignore_ascii_case(name).then(|| value.to_owned())
            };
            head.lines().find_map(of_line)
        };
        if field("expect").is_some() {
            let _ = stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await;
        }
        let body = match field("content-length") {
            Some(length) => read_exactly(&mut stream, length.parse().unwrap()).await,
            None => path.as_bytes().to_vec(),
        };
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        let reply = [head.as_bytes(), &body].concat();
        if stream.write_all(&reply).await.is_err() {
            return;
        }
    }
}

/// Runs curl with a clean environment; `None` when there is no curl.
async fn curl(arguments: &[&str]) -> Option<Output> {
    let mut command = Command::new("curl");
    command
        .args([
            "--silent",
            "--show-error",
            "--max-time",
            "15",
            "--noproxy",
            "",
        ])
        .args(arguments)
        .env_remove("http_proxy")
        .env_remove("ALL_PROXY")
        .kill_on_drop(true);
    match in_time(command.output()).await {
        Ok(output) => Some(output),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("skipped: no curl on this machine");
            None
        }
        Err(error) => panic!("cannot run curl: {error}"),
    }
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[tokio::test]
async fn every_protocol_fetches() {
    let proxy = Proxy::start().await;
    let port = serve(http_server).await;
    let url = format!("http://server.test:{port}/some/path?query");
    for (scheme, more) in [
        ("socks5h", "--http1.1"),
        ("socks5h", "--http1.0"),
        ("socks4a", "--http1.1"),
        ("http", "--http1.1"),
        ("http", "--http1.0"),
        ("http", "--http2"),
        ("http", "--proxytunnel"),
    ] {
        let proxy_url = format!("{scheme}://{}", proxy.address);
        let Some(output) = curl(&["--proxy", &proxy_url, more, &url]).await else {
            return;
        };
        assert_eq!(text(&output), "/some/path?query", "{scheme} {more}");
    }
    let stats = proxy.stats();
    assert_eq!((stats.socks5, stats.socks4), (2, 1));
    assert_eq!((stats.http_requests, stats.http_tunnels), (3, 1));
    assert!(stats.malformed.is_empty(), "{stats:?}");
    let names = proxy.dialed();
    assert!(
        names
            .iter()
            .all(|name| name == &format!("server.test:{port}"))
    );
}

#[tokio::test]
async fn several_requests_and_uploads_share_a_client_connection() {
    let proxy = Proxy::start().await;
    let port = serve(http_server).await;
    let proxy_url = format!("http://{}", proxy.address);
    let url = |path: &str| format!("http://server.test:{port}/{path}");
    let urls = [url("a"), url("b"), url("c")];
    let Some(output) = curl(&["--proxy", &proxy_url, &urls[0], &urls[1], &urls[2]]).await else {
        return;
    };
    assert_eq!(text(&output), "/a/b/c");
    assert_eq!((proxy.stats().accepted, proxy.dialed().len()), (1, 1));
    // Above one megabyte curl waits for 100 Continue.
    let file = tempfile::NamedTempFile::new().unwrap();
    let body = "0123456789abcdef".repeat(100_000);
    std::fs::write(file.path(), &body).unwrap();
    let data = format!("@{}", file.path().display());
    let arguments = ["--proxy", &proxy_url, "--data-binary", &data, &urls[0]];
    let output = curl(&arguments).await.unwrap();
    assert!(text(&output) == body);
}

#[tokio::test]
async fn failures_reach_the_user() {
    let proxy = Proxy::start().await;
    let url = "http://error-4.test/";
    let proxy_url = format!("http://{}", proxy.address);
    let Some(output) = curl(&["--proxy", &proxy_url, url]).await else {
        return;
    };
    assert!(text(&output).contains("connection refused"));
    let arguments = ["--proxy", &proxy_url, "--proxytunnel", url];
    let output = curl(&arguments).await.unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("502"));
    for (scheme, message) in [("socks5h", "(5)"), ("socks4a", "91")] {
        let proxy_url = format!("{scheme}://{}", proxy.address);
        let output = curl(&["--proxy", &proxy_url, url]).await.unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(error.contains(message), "{error}");
        assert_eq!(output.status.code(), Some(97), "{error}");
    }
}
