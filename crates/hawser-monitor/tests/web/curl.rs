//! The same checks with an independent client.

use std::process::Stdio;

use tokio::process::Command;

use super::client::request;
use super::daemon::{Running, TOKEN};

/// Runs curl on `path`, and returns the status and the body; `None` without curl.
async fn curl(server: &Running, path: &str, arguments: &[&str]) -> Option<(u16, String)> {
    let command = Command::new("curl")
        .args(["--silent", "--show-error", "--write-out", "\n%{http_code}"])
        .args(arguments)
        .arg(format!("http://{}{path}", server.address))
        .stdin(Stdio::null())
        .output();
    let output = match command.await {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            hawser_skip::skip("hawser-monitor::web::curl", "there is no curl");
            return None;
        }
        output => output.unwrap(),
    };
    let text = String::from_utf8(output.stdout).unwrap();
    let (body, status) = text.rsplit_once('\n').unwrap();
    Some((status.parse().unwrap(), body.to_owned()))
}

#[tokio::test]
async fn curl_asks_with_the_token_and_is_refused_without() {
    let server = Running::start();
    let token = format!("Authorization: Bearer {TOKEN}");
    let body = request("\"status\"");
    let arguments = ["--data", &body, "--header", &token];
    let Some((status, body)) = curl(&server, "/api/v1/ask", &arguments).await else {
        return;
    };
    assert_eq!(status, 200);
    assert!(body.contains("\"response\":\"status\""), "{body}");
    for (wrong, expected) in [
        ("Authorization: Bearer wrong", 401),
        ("Origin: http://evil.example", 403),
        ("Host: evil.example", 403),
    ] {
        let arguments = ["--data", "{}", "--header", &token, "--header", wrong];
        let (status, _) = curl(&server, "/api/v1/ask", &arguments).await.unwrap();
        assert!(status == expected, "{wrong}: {status}");
    }
    let traversal = ["--path-as-is"];
    let (status, _) = curl(&server, "/../../etc/passwd", &traversal)
        .await
        .unwrap();
    assert_eq!(status, 404);
}

#[tokio::test]
async fn curl_is_refused_ten_megabytes() {
    let server = Running::start();
    let folder = tempfile::tempdir().unwrap();
    let large = folder.path().join("large");
    std::fs::write(&large, vec![b'x'; 10_000_000]).unwrap();
    let token = format!("Authorization: Bearer {TOKEN}");
    let data = format!("@{}", large.display());
    let arguments = ["--data-binary", &data, "--header", &token];
    if let Some((status, _)) = curl(&server, "/api/v1/ask", &arguments).await {
        assert_eq!(status, 413);
    }
}
