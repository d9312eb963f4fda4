//! The dashboard of a daemon, and access to it.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use serde_json::Value;

use super::program::{Place, until};

/// Returns the address of the dashboard of `state`'s daemon.
pub(crate) fn web(place: &Place, state: &str) -> Option<String> {
    Some(place.status(state)?["web"].as_str()?.to_owned())
}

/// The token in the address that `hawser web` prints.
pub(crate) fn token(place: &Place, state: &str) -> String {
    let url = place.run(state, &["web"]).out;
    let (before, token) = url.trim_end().split_once("/#token=").unwrap();
    assert_eq!(before, format!("http://{}", web(place, state).unwrap()));
    token.to_owned()
}

/// Asks the control API for the daemon's status; returns the status and the body of the answer.
fn ask(web: &str, token: &str) -> (u16, String) {
    exchange(
        web,
        token,
        "POST /api/v1/ask",
        r#"{"api":1,"request":"status"}"#,
    )
}

/// The status and the body of the answer to a request.
pub(crate) fn exchange(web: &str, token: &str, request: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(web).unwrap();
    let length = body.len();
    write!(
        stream,
        "{request} HTTP/1.1\r\nHost: {web}\r\nAuthorization: Bearer {token}\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}

#[test]
fn the_dashboard_is_served_to_who_has_the_token() {
    let place = Place::new();
    let up = place.up("client", &["--web", "127.0.0.1:0"]);
    let (web, token) = (web(&place, "client").unwrap(), token(&place, "client"));
    let (status, body) = ask(&web, &token);
    assert_eq!(status, 200, "{body}");
    let snapshot: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        (&snapshot["role"], &snapshot["web"]),
        (&"client".into(), &web.as_str().into())
    );
    assert_eq!(ask(&web, "wrong").0, 401);
    // The log says where, not the secret.
    assert!(
        up.log().contains(&web) && !up.log().contains(&token),
        "{}",
        up.log()
    );
    let mode = std::fs::metadata(place.path("client/web-token"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    up.end();

    // Who has bookmarked it finds it again.
    let up = place.up("client", &["--web", &web]);
    assert_eq!(ask(&web, &token).0, 200);
    up.end();
    assert!(TcpStream::connect(&web).is_err());
}

#[test]
fn a_token_that_is_renewed_holds_at_once_and_the_old_one_no_more() {
    let place = Place::new();
    let before = place.run("client", &["web", "--renew"]);
    assert_eq!(before.code, 0, "{before:?}");
    assert!(
        before.out.contains("no dashboard is served now"),
        "{before:?}"
    );
    let up = place.up("client", &["--web", "127.0.0.1:0"]);
    let (web, old) = (web(&place, "client").unwrap(), token(&place, "client"));
    assert_eq!(ask(&web, &old).0, 200);
    let renewed = place.run("client", &["web", "--renew"]);
    assert_eq!(renewed.code, 0, "{renewed:?}");
    let new = token(&place, "client");
    assert!(
        renewed
            .out
            .contains(&format!("http://{web}/#token={new}\n")),
        "{renewed:?}"
    );
    assert_eq!((ask(&web, &old).0, ask(&web, &new).0), (401, 200));
    // A daemon that serves none has nothing to read.
    let without = place.up("other", &[]);
    let renewed = place.run("other", &["web", "--renew"]);
    assert_eq!((renewed.code, &renewed.out), (0, &before.out));
    without.end();
    up.end();
}

#[test]
fn the_metrics_of_a_daemon_are_ones_for_prometheus() {
    let place = Place::new();
    let gateway = place.serve();
    let arguments = ["--web", "127.0.0.1:0", "--gateway", &place.invite()];
    let up = place.up("client", &arguments);
    let (web, token) = (web(&place, "client").unwrap(), token(&place, "client"));
    let scrape = || exchange(&web, &token, "GET /metrics", "");
    for shown in [
        "\nhawser_gateway_up 1\n",
        "\nhawser_sessions{state=\"established\"} 1\n",
        "\nhawser_link_rtt_seconds{link=\"lo\"} 0.",
    ] {
        let is_shown = || scrape().1.contains(shown);
        until(shown, is_shown, || scrape().1 + &up.log());
    }
    let (status, text) = scrape();
    assert_eq!(status, 200, "{text}");
    let file = place.path("metrics");
    std::fs::write(&file, &text).unwrap();
    let mut promtool = Command::new("promtool");
    promtool.args(["check", "metrics"]);
    promtool.stdin(File::open(&file).unwrap());
    match promtool.output() {
        Ok(output) => assert!(output.status.success(), "{output:?}"),
        Err(_) => hawser_skip::skip(
            "end_to_end::the_metrics_of_a_daemon_are_ones_for_prometheus",
            "promtool is not installed",
        ),
    }
    up.end();
    gateway.end();
}

#[test]
fn a_gateway_has_one_as_well_and_an_open_feed_does_not_hold_it_up() {
    let place = Place::new();
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--web", "127.0.0.1:0"];
    let gateway = place.start("gateway", &arguments);
    let (web, token) = (web(&place, "gateway").unwrap(), token(&place, "gateway"));
    let mut feed = TcpStream::connect(&web).unwrap();
    write!(
        feed,
        "GET /api/v1/feed HTTP/1.1\r\nHost: {web}\r\nAuthorization: Bearer {token}\r\n\r\n"
    )
    .unwrap();
    let mut begun = String::new();
    until(
        "the feed shows the daemon",
        || {
            let mut buffer = [0; 65536];
            let read = feed.read(&mut buffer).unwrap();
            begun += &String::from_utf8_lossy(&buffer[..read]);
            begun.contains("event: status\ndata: {\"api\":1,\"response\":\"status\"")
        },
        || gateway.log(),
    );
    gateway.end();
    let mut rest = String::new();
    feed.read_to_string(&mut rest).unwrap();
    assert!(rest.ends_with("0\r\n\r\n"), "{rest}");
}

#[test]
fn nothing_is_served_unless_asked_for_and_never_to_other_machines() {
    let place = Place::new();
    let up = place.up("client", &[]);
    assert_eq!(web(&place, "client"), None);
    place
        .run("client", &["web"])
        .expect(1, "serves no dashboard; start it with --web");
    assert!(!place.path("client/web-token").exists());
    up.end();
    place
        .run("client", &["web"])
        .expect(1, "no hawser daemon runs");
    let exposed = ["up", "--web", "0.0.0.0:7480"];
    place
        .run("client", &exposed)
        .expect(2, "ssh -L 7480:127.0.0.1:7480");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    place
        .run("client", &["up", "--web", &taken])
        .expect(1, "can't serve the dashboard at");
}
