//! Answers and their headers.

use super::client::{Client, request};
use super::daemon::Running;

/// Returns the path and the kind of each file in the dashboard's folder.
fn files() -> Vec<(String, &'static str)> {
    let folder = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/assets")).unwrap();
    let names = folder.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let file = |name: String| {
        let kind = match name.rsplit_once('.').unwrap().1 {
            "html" => "text/html; charset=utf-8",
            "js" => "text/javascript; charset=utf-8",
            "css" => "text/css; charset=utf-8",
            "svg" => "image/svg+xml",
            other => panic!("{other}"),
        };
        match name.as_str() {
            "index.html" => ("/".to_owned(), kind),
            name => (format!("/{name}"), kind),
        }
    };
    names.map(file).collect()
}

#[tokio::test]
async fn the_page_comes_without_a_token_and_forbids_itself_everything_else() {
    let server = Running::start();
    let host = format!("Host: {}", server.address);
    let mut client = Client::connect(server.address).await;
    for (path, kind) in files() {
        let answer = client.raw(&format!("GET {path}"), &[&host], "").await;
        assert_eq!(answer.status, 200, "{path}");
        assert_eq!(answer.headers["content-type"], kind);
        let policy = &answer.headers["content-security-policy"];
        for part in [
            "default-src 'none'",
            "frame-ancestors 'none'",
            "base-uri 'none'",
        ] {
            assert!(policy.contains(part), "{policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.headers["x-content-type-options"], "nosniff");
        assert_eq!(answer.headers["referrer-policy"], "no-referrer");
        assert_eq!(
            answer.headers["cross-origin-resource-policy"],
            "same-origin"
        );
        assert!(!answer.headers.contains_key("set-cookie"));
        // On the second request, the file is not sent again.
        let tag = format!("If-None-Match: \"other\", {}", answer.headers["etag"]);
        let again = client.raw(&format!("GET {path}"), &[&host, &tag], "").await;
        assert_eq!((again.status, again.body.as_str()), (304, ""));
        let head = client.raw(&format!("HEAD {path}"), &[&host], "").await;
        assert_eq!(
            (head.status, &head.headers["etag"]),
            (200, &answer.headers["etag"])
        );
    }
}

#[tokio::test]
async fn the_whole_dashboard_is_small() {
    let server = Running::start();
    let host = format!("Host: {}", server.address);
    let mut client = Client::connect(server.address).await;
    let mut size = 0;
    for (path, _) in files() {
        size += client
            .raw(&format!("GET {path}"), &[&host], "")
            .await
            .body
            .len();
    }
    assert!((1..=200_000).contains(&size), "{size} bytes");
}

#[tokio::test]
async fn other_paths_and_methods_are_refused() {
    let server = Running::start();
    let mut client = Client::connect(server.address).await;
    for (line, expected) in [
        ("GET /nothing", 404),
        ("GET /index.html", 404),
        ("GET /../../etc/passwd", 404),
        ("GET /%2e%2e/%2e%2e/etc/passwd", 404),
        ("GET /app.js/..", 404),
        ("GET //app.js", 404),
        ("GET /api/v1/ask", 405),
        ("HEAD /api/v1/ask", 405),
        ("DELETE /", 405),
        ("POST /api/v1/feed", 405),
        ("GET /api/v2/ask", 404),
    ] {
        let answer = client.ask(line, "").await;
        assert_eq!(answer.status, expected, "{line}");
        assert_eq!(answer.headers["cache-control"], "no-store", "{line}");
    }
}

#[tokio::test]
async fn the_control_api_is_spoken() {
    let server = Running::start();
    let mut client = Client::connect(server.address).await;
    let ask = "POST /api/v1/ask";
    let status = client.ask(ask, &request("\"status\"")).await;
    assert_eq!(
        (status.status, status.headers["content-type"].as_str()),
        (200, "application/json")
    );
    let status = status.json();
    assert_eq!(
        (&status["api"], &status["response"]),
        (&1.into(), &"status".into())
    );
    assert_eq!(status["links"][0]["name"], "eth0");

    let never = request("\"set-link\",\n\"name\":\"eth0\",\"up\":\"never\"");
    assert_eq!(client.ask(ask, &never).await.json()["response"], "done");
    let steered = server.daemon.steered.lock().clone();
    assert!(
        matches!(&steered[..], [hawser_control::Request::SetLink(change)] if change.name == "eth0")
    );

    // A refusal by the daemon is a normal answer.
    let gateway = client
        .ask(ask, &request("\"set-gateway\",\"usage\":\"never\""))
        .await;
    assert_eq!(
        (gateway.status, &gateway.json()["reason"]),
        (200, &"unsupported".into())
    );
    let malformed = [
        "",
        "{}",
        "nonsense",
        "{\"request\":\"status\"}",
        "{\"api\":2,\"request\":\"status\"}",
        "{\"api\":1,\"request\":\"fly\"}",
        "{\"api\":1,\"request\":\"status\"} {}",
    ];
    for body in malformed {
        let answer = client.ask(ask, body).await;
        assert_eq!(
            (answer.status, &answer.json()["reason"]),
            (400, &"malformed".into()),
            "{body}"
        );
    }
}
