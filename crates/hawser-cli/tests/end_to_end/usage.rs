//! Exit codes, help, and mistakes on the command line.

use super::program::{Ended, Place};

#[test]
fn exit_codes_are_those_of_the_manual() {
    let place = Place::new();
    assert_eq!(place.run("s", &["--version"]).code, 0);
    place
        .run("s", &["status"])
        .expect(1, "no hawser daemon runs");
    place.run("s", &["peers"]).expect(1, "no gateway has run");
    place.run("s", &["invite"]).expect(1, "no gateway has run");
    place
        .run("s", &["fly"])
        .expect(2, "unrecognized subcommand");
    place
        .run("s", &["up", "--listen", "x"])
        .expect(2, "expected an address");
    place
        .run("s", &["up", "--link", "nolink0"])
        .expect(2, "no link is called nolink0; there are ");
    place
        .run("s", &["up", "--connection-scheduler", "fastest"])
        .expect(2, "unknown scheduler for connections `fastest`");
    place
        .run("s", &["up", "--listen", "0.0.0.0:0"])
        .expect(1, "");
    place
        .run("s", &["--config", "/nowhere", "status"])
        .expect(1, "/nowhere");
}

#[test]
fn help_fits_the_terminal() {
    let place = Place::new();
    let commands = [
        "serve",
        "up",
        "run",
        "send",
        "receive",
        "invite",
        "peers",
        "status",
        "rule",
        "rule add",
        "rule test",
        "why",
        "bench",
        "doctor",
        "completions",
        "man",
    ];
    for command in commands {
        let words: Vec<&str> = command.split(' ').chain(["-h"]).collect();
        let help = place.run("s", &words);
        assert_eq!(help.code, 0, "{command}");
        let widest = help.out.lines().map(|line| line.chars().count()).max();
        assert!(
            widest.is_some_and(|width| width <= 79),
            "{command}: {}",
            help.out
        );
    }
}

#[test]
fn a_gateway_that_can_not_start_says_why_and_leaves_no_invite() {
    let place = Place::new();
    let invite = place.path("invite");
    let invite = invite.to_str().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let serve = |listen: &str, more: &[&str]| {
        let always = ["serve", "--listen", listen, "--invite-file", invite];
        place.run("gateway", &[&always[..], more].concat())
    };
    serve(&taken, &[]).expect(1, &format!("can't listen on {taken}"));
    let many: Vec<String> = (1..=17)
        .flat_map(|n| ["--advertise".to_owned(), format!("gw{n}")])
        .collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    serve("127.0.0.1:0", &many).expect(1, "at most 16 addresses");
    assert!(!std::path::Path::new(invite).exists());
    let unwritable = place.run(
        "gateway",
        &[
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--invite-file",
            "/nowhere/invite",
        ],
    );
    unwritable.expect(1, "/nowhere");
}

#[test]
fn a_reader_that_has_gone_is_no_failure() {
    let place = Place::new();
    let gateway = place.serve();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = place.hawser("gateway", &["status"]).stdout(writer).output();
    let ended = Ended::of(output.unwrap());
    assert_eq!((ended.code, ended.err.as_str()), (0, ""));
    gateway.end();
}
