//! `hawser why`: the recorded reasons of a running daemon.

use std::os::unix::fs::PermissionsExt as _;

use hawser_session::recorder::{Entry, Recording};
use serde_json::Value;

use super::origin::{self, fetch, page};
use super::program::{Place, until};

fn why(place: &Place, state: &str, more: &[&str]) -> Value {
    let ended = place.run(state, &[&["why", "--json"][..], more].concat());
    assert_eq!(ended.code, 0, "{ended:?}");
    serde_json::from_str(&ended.out).unwrap()
}

/// Returns the number of the stream with the most sent bytes.
fn largest_stream(report: &Value) -> String {
    let streams = report["sessions"][0]["streams"].as_array().unwrap();
    let largest = streams.iter().max_by_key(|it| it["bytes_sent"].as_u64());
    largest.unwrap()["id"].to_string()
}

#[test]
fn both_ends_say_what_they_sent_over_which_link_and_why() {
    if origin::is_without_curl("both_ends_say_what_they_sent_over_which_link_and_why") {
        return;
    }
    let place = Place::new();
    let _gateway = place.serve();
    let arguments = ["--gateway", &place.invite(), "--transport", "tcp"];
    let up = place.up("client", &arguments);
    let proxy = format!("socks5h://{}", up.listen(&place).unwrap());
    let expected = page(3_000_000);
    let got = fetch(&proxy, origin::start(), expected.len());
    assert!(got.unwrap() == expected);

    // Who sent the page knows why it went where it went.
    let report = why(&place, "gateway", &[]);
    let stream = largest_stream(&report);
    let report = why(&place, "gateway", &[&stream]);
    let session = &report["sessions"][0];
    assert_eq!(session["stream"].to_string(), stream);
    let link = &session["links"][0];
    assert!(link["bytes_sent"].as_u64().unwrap() >= 3_000_000, "{link}");
    assert_eq!(link["share"], 1.0);
    let chosen = link["chosen"].as_array().unwrap().iter();
    let chunks: u64 = chosen.map(|it| it["chunks"].as_u64().unwrap()).sum();
    assert!(chunks > 0 && chunks <= link["chunks"].as_u64().unwrap());
    assert_eq!(session["events"][0]["what"], "added");

    let text = place.run("gateway", &["why", &stream]).out;
    assert!(text.contains("carried 100 %, 3.0"), "{text}");

    // What it rests on is a file that only its owner reads.
    let dump = place.path("recording");
    let ended = place.run("gateway", &["why", "--dump", dump.to_str().unwrap()]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let mode = std::fs::metadata(&dump).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let recording = Recording::parse(&std::fs::read(&dump).unwrap()).unwrap();
    assert!(recording.head.is_whole && recording.head.destinations.is_empty());
    let decisions = recording.entries().filter(|entry| match entry {
        Entry::Decision(it) => it.stream.value().to_string() == stream,
        Entry::Note(..) => false,
    });
    assert!(decisions.count() as u64 >= chunks);

    // Who asked for it sent little, and is told of the rest, with its own names for the links.
    let text = place.run("client", &["why"]).out;
    assert!(text.contains("lo: carried 100 %"), "{text}");
    assert!(
        text.contains("The gateway chose the links by auto and says:"),
        "{text}"
    );
    for more in [&[][..], &[stream.as_str()]] {
        let received = &why(&place, "client", more)["sessions"][0]["received"];
        let link = &received["links"][0];
        assert_eq!(link["link"], "lo", "{received}");
        assert!(link["bytes_sent"].as_u64().unwrap() >= 3_000_000, "{link}");
        assert!(!link["chosen"].as_array().unwrap().is_empty(), "{link}");
        assert!(received["received"].is_null());
    }

    let session = why(&place, "client", &[])["sessions"][0]["id"].clone();
    let session = session.as_str().unwrap();
    assert_eq!(
        why(&place, "client", &["--session", session])["session_count"],
        1
    );
    let unknown = place.run("client", &["why", "--session", "stranger"]);
    unknown.expect(1, "no session is named stranger");
    place
        .run("client", &["why", "987654"])
        .expect(1, "nothing was sent on stream 987654");
    place
        .run("client", &["why", "x"])
        .expect(2, "expected a stream's number");
}

/// Returns the report on the only link with traffic, which an association carried.
fn association_link(session: &Value) -> &Value {
    let links = session["links"].as_array().unwrap().iter();
    let used: Vec<&Value> = links.filter(|it| it["bytes_sent"] != 0).collect();
    assert_eq!(used.len(), 1, "{session}");
    assert!(
        used[0]["bytes_associated"].as_u64().unwrap() > 0,
        "{session}"
    );
    used[0]
}

#[test]
fn what_went_over_an_association_is_told_with_its_link_and_the_reason() {
    if origin::is_without_curl("what_went_over_an_association_is_told_with_its_link_and_the_reason")
    {
        return;
    }
    let place = Place::new();
    let _gateway = place.serve();
    let arguments = ["--gateway", &place.invite(), "--transport", "sctp"];
    let up = place.up("client", &arguments);
    let uses = |end: &str| {
        let status = place.status(end)?;
        let in_use = &status["sessions"][0]["transport"]["in_use"];
        (in_use == "association").then_some(())
    };
    let both = || uses("client").and(uses("gateway")).is_some();
    until("an association", both, || up.log());
    let proxy = format!("socks5h://{}", up.listen(&place).unwrap());
    let expected = page(3_000_000);
    let got = fetch(&proxy, origin::start(), expected.len());
    assert!(got.unwrap() == expected);

    // The sender of the page names the link of the association's packets.
    let stream = largest_stream(&why(&place, "gateway", &[]));
    let report = why(&place, "gateway", &[&stream]);
    let session = &report["sessions"][0];
    let link = association_link(session);
    assert!(link["bytes_sent"].as_u64().unwrap() >= 3_000_000, "{link}");
    assert_eq!(link["share"], 1.0);
    assert_ne!(link["index"], u32::MAX, "{link}");
    let chosen = link["chosen"].as_array().unwrap().iter();
    let chunks: u64 = chosen.map(|it| it["chunks"].as_u64().unwrap()).sum();
    assert!(chunks > 0 && chunks <= link["chunks"].as_u64().unwrap());
    let text = place.run("gateway", &["why", &stream]).out;
    assert!(text.contains("carried 100 %, 3.0"), "{text}");
    assert!(text.contains(" over an association. It got "), "{text}");

    // So does the receiver, by what the sender says.
    for more in [&[][..], &[stream.as_str()]] {
        let received = &why(&place, "client", more)["sessions"][0]["received"];
        let link = association_link(received);
        assert_eq!(link["link"], "lo", "{received}");
        assert!(!link["chosen"].as_array().unwrap().is_empty(), "{link}");
    }
    let text = place.run("client", &["why"]).out;
    assert!(text.contains("(association)."), "{text}");
    assert!(!text.contains("4294967295"), "{text}");
}

#[test]
fn a_recorder_without_memory_says_so() {
    let place = Place::new();
    let config = place.path("hawser.toml");
    std::fs::write(&config, "[session]\nrecorder = \"0B\"\n").unwrap();
    let config = config.to_str().unwrap();
    let _gateway = place.serve();
    let up = place.up(
        "client",
        &["--gateway", &place.invite(), "--config", config],
    );
    until(
        "the session runs",
        || {
            place
                .run("client", &["why"])
                .err
                .contains("nothing is recorded")
        },
        || up.log(),
    );
}
