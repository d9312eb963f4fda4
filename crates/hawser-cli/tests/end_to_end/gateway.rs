//! `serve` and `up`: enrolment, traffic, status, revocation and restarts.

use std::os::unix::fs::PermissionsExt as _;

use rustix::process::Signal;

use super::origin::{self, fetch, page};
use super::program::{Place, read, until};

#[test]
fn every_kind_of_proxy_carries_a_page_and_status_shows_it() {
    if origin::is_without_curl("every_kind_of_proxy_carries_a_page_and_status_shows_it") {
        return;
    }
    let place = Place::new();
    let gateway = place.serve();
    let up = place.up("client", &["--gateway", &place.invite()]);
    let (proxy, origin) = (up.listen(&place).unwrap(), origin::start());
    let expected = page(3_000_000);
    for scheme in ["socks5h", "socks5", "socks4a", "http"] {
        let got = fetch(&format!("{scheme}://{proxy}"), origin, expected.len());
        assert!(got.unwrap() == expected, "{scheme}");
    }

    let status = place.status("client").unwrap();
    assert_eq!(status["role"], "client");
    assert_eq!(status["session_count"], 1);
    let session = &status["sessions"][0];
    assert_eq!(session["state"], "established");
    assert!(session["bytes_received"].as_u64().unwrap() >= 4 * 3_000_000);
    assert_eq!(session["paths"][0]["link"], "lo");
    assert_eq!(session["paths"][0]["state"], "up");
    assert!(
        session["paths"][0]["channels"][0]["rtt_ms"]
            .as_f64()
            .unwrap()
            > 0.0
    );
    assert!(session["counters"]["chunks-again"].is_u64());
    assert!(status["memory"]["resident_bytes"].as_u64().unwrap() > 100_000);
    assert_eq!(status["counters"]["proxy-accepted"], 4);

    let status = place.status("gateway").unwrap();
    assert_eq!(status["role"], "gateway");
    assert_eq!(status["counters"]["gateway-connected"], 4);
    assert_eq!(status["counters"]["door-enrolments"], 1);
    let text = place.run("gateway", &["status"]);
    assert!(
        text.out.contains("SESSION") && text.out.contains("established"),
        "{text:?}"
    );
    up.end();
    gateway.end();
}

#[test]
fn the_log_says_what_a_client_waits_for_and_when_the_gateway_is_reached() {
    let place = Place::new();
    let gateway = place.serve();
    let listen = gateway.listen(&place).unwrap();
    place.up("client", &["--gateway", &place.invite()]).end();
    gateway.end();
    let up = place.up("client", &[]);
    let says = |what: &'static str| move |log: String| log.contains(what);
    let is_said = says("the gateway can't be reached problem=");
    until("it says so", || is_said(up.log()), || up.log());
    let serve = ["serve", "--listen", &listen];
    let gateway = place.start("gateway", &serve);
    let is_said = says("connected to the gateway waited=");
    until("it says so", || is_said(up.log()), || up.log());
    up.end();
    gateway.end();
}

#[test]
fn a_daemon_that_cannot_serve_ends_its_session_in_order() {
    let place = Place::new();
    let gateway = place.serve();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap().to_string();
    let up = [
        "up",
        "--link",
        "lo",
        "--gateway",
        &place.invite(),
        "--listen",
        &listen,
    ];
    let ended = place.run("client", &up);
    ended.expect(1, "can't listen on");
    let sessions = || {
        let status = place.status("gateway").unwrap();
        status["sessions"].as_array().cloned().unwrap_or_default()
    };
    let is_over = || {
        let sessions = sessions();
        // It does not wait for a client that has lost its links.
        let mut states = sessions.iter().map(|it| &it["state"]);
        assert!(states.all(|it| it != "interrupted"), "{sessions:?}");
        sessions.is_empty()
    };
    until("the gateway has heard of its end", is_over, || {
        gateway.log()
    });
    gateway.end();
}

#[test]
fn a_link_that_its_user_forbids_loses_its_connections_until_it_is_allowed_again() {
    let place = Place::new();
    let gateway = place.serve();
    let up = place.up("client", &["--gateway", &place.invite()]);
    let state = || place.status("client").unwrap()["sessions"][0]["state"].clone();
    until("a session", || state() == "established", || up.log());
    let set = |arguments: &[&str]| {
        let arguments = [&["link", "lo"], arguments].concat();
        let ended = place.run("client", &arguments);
        assert_eq!(ended.code, 0, "{ended:?}");
    };
    set(&["--up", "backup", "--down", "prefer"]);
    let paths = || place.status("client").unwrap()["sessions"][0]["paths"].clone();
    // The only link is used whatever it is kept for.
    assert_eq!(paths()[0]["standing"], "full");
    set(&["--use", "never"]);
    until("no connection", || state() == "interrupted", || up.log());
    set(&["--use", "prefer"]);
    let preferred = || paths()[0]["standing"] == "preferred";
    until("it is back", preferred, || up.log());
    until("a session again", || state() == "established", || up.log());
    let refused = place.run("client", &["link", "lo", "--use", "always"]);
    refused.expect(2, "expected normal, prefer, backup or never");
    let refused = place.run("gateway", &["link", "lo", "--use", "never"]);
    refused.expect(1, "only `hawser up`");
    up.end();
    gateway.end();
}

#[test]
fn what_a_link_has_used_is_shown_at_once_and_kept_over_a_restart() {
    if origin::is_without_curl("what_a_link_has_used_is_shown_at_once_and_kept_over_a_restart") {
        return;
    }
    let place = Place::new();
    let gateway = place.serve();
    let config = place.path("config.toml");
    let link = "[[link]]\nname = \"lo\"\nallowance = \"2MB\"\nat-limit = \"backup\"\n";
    std::fs::write(&config, format!("{link}price = \"100EUR/GB\"\n")).unwrap();
    let config = config.to_str().unwrap();
    // Over TCP: what an association sends twice on a busy machine would count as well.
    let transport = ["--transport", "tcp"];
    let enrols = ["--config", config, "--gateway", &place.invite()];
    let up = place.up("client", &[&enrols[..], &transport].concat());
    let allowed = || {
        let status = place.status("client").unwrap();
        let links = status["links"].as_array().unwrap().clone();
        let lo = links.into_iter().find(|link| link["name"] == "lo");
        lo.unwrap()["allowed"].clone()
    };
    assert_eq!(allowed()["limit"], serde_json::Value::Null);
    let (proxy, origin) = (up.listen(&place).unwrap(), origin::start());
    let expected = page(3_000_000);
    let got = fetch(&format!("socks5h://{proxy}"), origin, expected.len());
    assert!(got.unwrap() == expected);
    let is_used_up = || allowed()["limit"] == "backup";
    until("the allowance is used up", is_used_up, || up.log());
    up.end();
    let up = place.up("client", &["--config", config]);
    let allowed = allowed();
    let received = allowed["received_bytes"].as_u64().unwrap();
    assert!((3_000_000..3_500_000).contains(&received), "{allowed}");
    assert_eq!(allowed["limit"], "backup");
    let cost = allowed["cost"].as_str().unwrap();
    assert!(cost.starts_with("0.3") && cost.ends_with(" EUR"), "{cost}");
    let text = place.run("client", &["status"]).out;
    assert!(text.contains("of 2.00 MB, 0.3"), "{text}");
    up.end();
    gateway.end();
}

#[test]
fn a_stream_in_progress_is_listed_with_its_destination() {
    if origin::is_without_curl("a_stream_in_progress_is_listed_with_its_destination") {
        return;
    }
    let place = Place::new();
    let _gateway = place.serve();
    let up = place.up("client", &["--gateway", &place.invite()]);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = listener.local_addr().unwrap();
    let mut curl = std::process::Command::new("curl")
        .args(["--silent", "--noproxy", "", "--proxy"])
        .arg(format!("socks5h://{}", up.listen(&place).unwrap()))
        .arg(format!("http://{silent}/"))
        .spawn()
        .unwrap();
    let listed = |state| {
        let status = place.status(state).unwrap();
        status["sessions"][0]["streams"][0]["destination"] == silent.to_string()
    };
    until(
        "both ends show the stream",
        || listed("client") && listed("gateway"),
        || up.log(),
    );
    curl.kill().unwrap();
    curl.wait().unwrap();
}

#[test]
fn enrolling_is_for_once_and_survives_restarts_of_both_ends() {
    if origin::is_without_curl("enrolling_is_for_once_and_survives_restarts_of_both_ends") {
        return;
    }
    let place = Place::new();
    let gateway = place.serve();
    let listen = gateway.listen(&place).unwrap();
    place.up("client", &["--gateway", &place.invite()]).end();

    let origin = origin::start();
    let up = place.up("client", &[]);
    let works = |up: &super::program::Daemon| {
        let proxy = format!("socks5h://{}", up.listen(&place).unwrap());
        fetch(&proxy, origin, 1000).is_ok_and(|got| got == page(1000))
    };
    assert!(works(&up), "{}", up.log());
    gateway.end();
    let arguments = [
        "serve",
        "--listen",
        &listen,
        "--allow-destination",
        "127.0.0.1/32",
    ];
    let gateway = place.start("gateway", &arguments);
    until(
        "the client is back",
        || works(&up),
        || up.log() + &gateway.log(),
    );
}

#[test]
fn an_invite_is_for_one_client() {
    let place = Place::new();
    let _gateway = place.serve();
    let invite = place.path("invite");
    let mode = std::fs::metadata(&invite).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    place.up("first", &["--gateway", &place.invite()]).end();
    let arguments = [
        "up",
        "--listen",
        "127.0.0.1:0",
        "--gateway",
        &place.invite(),
    ];
    let mut second = place.launch("second", &arguments);
    assert_eq!(second.wait(), Some(1), "{}", second.log());
    let log = second.log();
    assert!(
        log.contains("enrolment failed: the gateway refuses the invite: one client has used it")
            && log.contains("`hawser invite` at the gateway makes a new one"),
        "{log}"
    );

    // A further invite lets it in, made while the gateway runs.
    let made = place.run("gateway", &["invite", "--ttl", "10min"]);
    assert_eq!(made.code, 0, "{made:?}");
    place.up("second", &["--gateway", made.out.trim()]).end();
    let peers = place.run("gateway", &["peers", "--json"]);
    let peers: serde_json::Value = serde_json::from_str(&peers.out).unwrap();
    assert_eq!(peers["peers"].as_array().unwrap().len(), 2);
}

/// The ids of a gateway's invites in a state.
fn invites(place: &Place, state: &str) -> Vec<String> {
    let listed = place.run("gateway", &["invite", "list", "--json"]);
    let listed: serde_json::Value = serde_json::from_str(&listed.out).unwrap();
    let invites = listed["invites"].as_array().unwrap().iter();
    let wanted = invites.filter(|invite| invite["state"] == state);
    wanted
        .map(|invite| invite["id"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn invites_are_listed_and_a_revoked_one_admits_no_client() {
    let place = Place::new();
    let _gateway = place.serve();
    let first = invites(&place, "open");
    let made = place.run("gateway", &["invite", "--ttl", "10min"]);
    let open = invites(&place, "open");
    assert_eq!((first.len(), open.len()), (1, 2));
    let id = open.iter().find(|id| !first.contains(id)).unwrap();
    let list = place.run("gateway", &["invite", "list"]);
    let row = list.out.lines().find(|row| row.starts_with(id.as_str()));
    assert!(row.is_some_and(|row| row.ends_with("open")), "{list:?}");
    assert!(!list.out.contains("hawser://"));
    assert_eq!(place.run("gateway", &["invite", "revoke", id]).code, 0);
    assert_eq!(invites(&place, "open"), first);
    place
        .run("gateway", &["invite", "revoke", id])
        .expect(1, "no invite has the id");

    // The gateway runs on and refuses it; the other one still holds, once.
    let arguments = [
        "up",
        "--listen",
        "127.0.0.1:0",
        "--gateway",
        made.out.trim(),
    ];
    let mut client = place.launch("client", &arguments);
    assert_eq!(client.wait(), Some(1), "{}", client.log());
    place.up("client", &["--gateway", &place.invite()]).end();
    assert_eq!(invites(&place, "used"), first);
    place
        .run("gateway", &["invite", "revoke", &first[0]])
        .expect(1, "hawser peers revoke");
}

#[test]
fn a_gateway_that_starts_again_makes_no_invite_while_one_is_open() {
    let place = Place::new();
    let bare = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--advertise",
        "gw.example:7443",
    ];
    place.start("gateway", &bare).end();
    let first = invites(&place, "open");
    place.start("gateway", &bare).end();
    assert_eq!((invites(&place, "open"), first.len()), (first, 1));

    // A file that is asked for gets one, and keeps it.
    let file = place.path("invite");
    let with_file = [&bare[..], &["--invite-file", file.to_str().unwrap()]].concat();
    place.start("gateway", &with_file).end();
    let (open, text) = (invites(&place, "open"), read(&file));
    assert_eq!(open.len(), 2);
    place.start("gateway", &with_file).end();
    assert_eq!(
        (invites(&place, "open"), read(&file)),
        (open.clone(), text.clone())
    );

    // Of no more use, it is replaced.
    for id in &open {
        assert_eq!(place.run("gateway", &["invite", "revoke", id]).code, 0);
    }
    place.start("gateway", &with_file).end();
    assert_eq!(invites(&place, "open").len(), 1);
    assert_ne!(read(&file), text);
}

#[test]
fn a_revoked_client_is_cut_off_at_once_and_may_enrol_again() {
    if origin::is_without_curl("a_revoked_client_is_cut_off_at_once_and_may_enrol_again") {
        return;
    }
    let place = Place::new();
    let _gateway = place.serve();
    let up = place.up("client", &["--gateway", &place.invite()]);
    let (proxy, origin) = (
        format!("socks5h://{}", up.listen(&place).unwrap()),
        origin::start(),
    );
    assert!(fetch(&proxy, origin, 10).is_ok());

    let peers = place.run("gateway", &["peers", "--json"]);
    let peers: serde_json::Value = serde_json::from_str(&peers.out).unwrap();
    assert_eq!(peers["peers"][0]["session_count"], 1);
    let key = peers["peers"][0]["key"].as_str().unwrap();
    assert_eq!(place.run("gateway", &["peers", "revoke", key]).code, 0);
    let sessions = || place.status("gateway").unwrap()["session_count"].clone();
    until("the session ends", || sessions() == 0, || up.log());
    let refused = || up.log().contains("refused this client's key");
    until("the client is refused", refused, || up.log());
    up.end();
    place
        .run("gateway", &["peers", "revoke", key])
        .expect(1, "no peer has the key");

    // The same machine comes back with a new invite.
    let made = place.run("gateway", &["invite"]);
    let up = place.up("client", &["--gateway", made.out.trim()]);
    let proxy = format!("socks5h://{}", up.listen(&place).unwrap());
    until(
        "it works again",
        || fetch(&proxy, origin, 10).is_ok(),
        || up.log(),
    );
}

#[test]
fn one_daemon_runs_in_a_state_directory_and_a_dead_one_leaves_nothing_behind() {
    if origin::is_without_curl(
        "one_daemon_runs_in_a_state_directory_and_a_dead_one_leaves_nothing_behind",
    ) {
        return;
    }
    let place = Place::new();
    let first = place.up("client", &[]);
    let second = place.run("client", &["up", "--listen", "127.0.0.1:0"]);
    second.expect(1, "already running");
    assert!(
        first.log().contains("no gateway is enrolled"),
        "{}",
        first.log()
    );
    first.kill();
    assert!(place.path("client").join("control.sock").exists());
    place
        .run("client", &["status"])
        .expect(1, "no hawser daemon runs");
    let third = place.up("client", &[]);
    let origin = origin::start();
    let proxy = format!("http://{}", third.listen(&place).unwrap());
    assert!(fetch(&proxy, origin, 1000).unwrap() == page(1000));
    third.signal(Signal::INT);
    let mut third = third;
    assert_eq!(third.wait(), Some(0));
    assert!(!place.path("client").join("control.sock").exists());
}

#[test]
fn the_gateway_refuses_what_it_was_not_told_to_allow() {
    if origin::is_without_curl("the_gateway_refuses_what_it_was_not_told_to_allow") {
        return;
    }
    let place = Place::new();
    let invite = place.path("invite");
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--invite-file"];
    let _gateway = place.start(
        "gateway",
        &[&arguments[..], &[invite.to_str().unwrap()]].concat(),
    );
    let up = place.up("client", &["--gateway", &place.invite()]);
    let proxy = format!("socks5h://{}", up.listen(&place).unwrap());
    assert!(fetch(&proxy, origin::start(), 10).is_err());
    let counters = &place.status("gateway").unwrap()["counters"];
    assert_eq!(counters["gateway-connected"], 0);
}
