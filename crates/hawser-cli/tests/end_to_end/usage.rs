//! Exit codes, help, and mistakes on the command line.

use super::program::{Ended, Place};

#[test]
fn exit_codes_are_those_of_the_manual() {
    let place = Place::new();
    assert_eq!(place.run("s", &["--version"]).code, 0);
    place
        .run("s", &["status"])
        .expect(1, "no hawser daemon runs");
    place
        .run("s", &["top"])
        .expect(1, "`hawser top` needs a terminal; `hawser status`");
    place.run("s", &["peers"]).expect(1, "no gateway has run");
    place.run("s", &["invite"]).expect(1, "no gateway has run");
    place
        .run("s", &["fly"])
        .expect(2, "unrecognized subcommand");
    place
        .run("s", &["up", "--listen", "x"])
        .expect(2, "expected an address");
    place
        .run("s", &["run", "--link", "nolink0", "--", "true"])
        .expect(2, "no link is called nolink0; there are ");
    place
        .run("s", &["up", "--connection-scheduler", "fastest"])
        .expect(2, "unknown scheduler for connections `fastest`");
    place
        .run("s", &["up", "--listen", "0.0.0.0:0"])
        .expect(2, "--allow-lan");
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
        "invite list",
        "peers",
        "status",
        "link",
        "policy",
        "policy set",
        "top",
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

#[test]
fn what_makes_no_sense_to_a_daemon_ends_in_one_line() {
    let place = Place::new();
    let without = place.run("client", &["policy"]);
    without.expect(1, "no hawser daemon runs");
    let up = place.up("client", &[]);
    let gateway = place.serve();
    for (state, line, code, problem) in NONSENSE {
        let words: Vec<&str> = line.split(' ').collect();
        let ended = place.run(state, &words);
        ended.expect(code, problem);
        assert_eq!(ended.out, "", "{line}");
        let is_grammar = ended.err.starts_with("error:");
        assert!(is_grammar || ended.err.lines().count() == 1, "{ended:?}");
    }
    let list = place.run("client", &["rule", "list"]).out;
    assert!(list.contains("no rule of your own"), "{list}");
    let shown = place.run("gateway", &["policy"]).out;
    assert!(shown.starts_with("sessions     auto, or: "), "{shown}");
    gateway.end();
    up.end();
}

/// State, command, exit code, and words of the message.
const NONSENSE: [(&str, &str, i32, &str); 14] = [
    ("client", "policy set", 2, "required"),
    (
        "client",
        "policy set --scheduler fast",
        2,
        "unknown scheduler `fast`: allowed are",
    ),
    (
        "client",
        "policy set --connection-scheduler ecf",
        2,
        "for connections `ecf`: allowed are",
    ),
    (
        "client",
        "policy set --profile home",
        2,
        "unknown profile `home`: allowed are speed calls",
    ),
    (
        "client",
        "policy set --transport udp",
        2,
        "unknown transport `udp`: allowed are tcp sctp auto",
    ),
    (
        "client",
        "policy set --via-gateway often",
        2,
        "allowed are always auto never",
    ),
    (
        "client",
        "policy set --via-gateway auto",
        1,
        "the daemon uses no gateway",
    ),
    ("client", "link nolink0", 2, "no link is called nolink0"),
    (
        "client",
        "link nolink0 --use never",
        2,
        "no link is called nolink0; there are lo",
    ),
    (
        "client",
        "link lo --price cheap",
        2,
        "`price` is \"cheap\"; allowed: a price from 0",
    ),
    (
        "client",
        "link lo --allowance much",
        2,
        "`allowance` is \"much\"; allowed: a size",
    ),
    ("client", "link lo --weight 0", 2, "1..=1000"),
    (
        "gateway",
        "policy set --scheduler ecf",
        1,
        "only `hawser up`",
    ),
    (
        "gateway",
        "rule add --now --class bulk",
        1,
        "only `hawser up`",
    ),
];
