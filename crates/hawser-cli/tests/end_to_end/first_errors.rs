//! Mistakes of new users: each message names the cause or the remedy, and docs/errors.md has both.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::thread;

use hawser_skip::ClosedPort;

use super::program::{Ended, Place, until};

/// A command, its exit code, and words of its message.
type Case<'a> = (&'a str, i32, &'a str);

#[test]
// long: a table.
fn mistakes_on_the_command_line_are_explained() {
    let place = Place::new();
    let stage = Stage::new(&place);
    fs::write(place.path("form.toml"), "[up\n").unwrap();
    fs::write(place.path("value.toml"), "[up]\nlisten = \"x\"\n").unwrap();
    fs::write(place.path("key.toml"), "[up]\ngatway = \"x\"\n").unwrap();
    let cases: [Case<'_>; 27] = [
        ("statsu", 2, "unrecognized subcommand"),
        (
            "up --listen 127.0.0.1:99999",
            2,
            "expected an address and a port",
        ),
        (
            "up --listen 0.0.0.0:0",
            2,
            "other machines could use the proxy",
        ),
        (
            "up --listen 0.0.0.0:0 --allow-lan",
            2,
            "name a --password-file",
        ),
        (
            "up --listen 0.0.0.0:0 --allow-lan --password-file FOLDER/none",
            2,
            "the password file",
        ),
        ("up --config FOLDER/none.toml", 1, "cannot read"),
        ("up --config FOLDER/form.toml", 2, "not TOML"),
        (
            "up --config FOLDER/value.toml",
            2,
            "allowed: an address and a port",
        ),
        ("up --config FOLDER/key.toml", 2, "unknown key"),
        ("up --capture lan:nosuch", 1, "no interface is called"),
        (
            "up --capture everything",
            2,
            "expected `system`, `cgroup:/PATH` or `lan:INTERFACE`",
        ),
        (
            "up --kill-switch",
            2,
            "--kill-switch needs --capture system",
        ),
        (
            "up --kill-switch --capture system",
            2,
            "--kill-switch needs a gateway",
        ),
        ("up --accept-joins 80", 2, "is not in 1024..=65535"),
        (
            "up --name alice",
            2,
            "expected a name such as alice@example.org",
        ),
        (
            "serve --listen 192.0.2.77:7443",
            1,
            "no interface of this machine has this address",
        ),
        (
            "serve --packet-pool 10.0.0.0/33",
            2,
            "expected a network such as",
        ),
        ("serve --advertise a_b:c:d", 2, "is no HOST[:PORT]"),
        (
            "serve --further-link a/b",
            2,
            "expected the name of an interface",
        ),
        ("serve --front 70000", 2, "expected a port such as 443"),
        ("serve --directory example.org", 2, "needs a users-file"),
        (
            "link eth0 --use sometimes",
            2,
            "expected normal, prefer, backup or never",
        ),
        ("policy set --scheduler fastest", 2, "unknown scheduler"),
        ("invite --ttl 5", 2, "has no known unit"),
        ("setup --undo", 0, "there is nothing to take back"),
        ("setup --no-gateway", 2, "there is no terminal to ask at"),
        ("run -- nosuchprogram", 127, "can't run"),
    ];
    stage.check(&cases);
}

#[test]
fn mistakes_with_invites_and_gateways_are_explained() {
    let place = Place::new();
    let stage = Stage::new(&place);
    let gateway = place.serve();
    let invite = fs::read_to_string(place.path("invite")).unwrap();
    let invite = invite.trim();
    let short = &invite[..invite.len() - 9];
    fs::write(place.path("hello"), "hello\n").unwrap();
    // One that takes the invite, and asks for what a gateway does not reach.
    let up = place.up("client", &["--gateway", &place.invite()]);
    let proxy = up.listen(&place).unwrap();
    for (url, message) in [
        ("http://10.254.254.1/", "destination refused by policy"),
        ("http://nosuch.invalid/", "name not found"),
    ] {
        let mut curl = Command::new("curl");
        curl.args([
            "-sS",
            "--max-time",
            "60",
            "-x",
            &format!("http://{proxy}"),
            url,
        ]);
        let answer = Ended::of(curl.output().unwrap());
        assert!(answer.out.contains(message), "{url}: {answer:?}");
        stage.is_documented(message);
    }
    let closed_port = ClosedPort::new();
    let closed = closed_port.address();
    let web = web_server();
    let listen = gateway.listen(&place).unwrap();
    let elsewhere = |address: SocketAddr| invite.replacen(&listen, &address.to_string(), 1);
    let expired = place.run("gateway", &["invite", "--ttl", "1s"]).out;
    let listed = || place.run("gateway", &["invite", "list"]).out;
    until("one has expired", || listed().contains("expired"), listed);
    let (closed, web) = (elsewhere(closed), elsewhere(web));
    let up = |gateway: &str| format!("up --link lo --listen 127.0.0.1:0 --gateway {gateway}");
    let commands = [
        (
            up("https://gw.example/"),
            2,
            "expected `@FILE` with an invite in the file",
        ),
        (
            up("hawser://gw.example:7443/"),
            1,
            "was it cut, or not quoted?",
        ),
        (up(short), 1, "was all of it copied?"),
        (up("@FOLDER/hello"), 1, "an invite begins with hawser://"),
        (up("@FOLDER/none"), 1, "cannot open"),
        (up(invite), 1, "the gateway refuses the invite"),
        (up(expired.trim()), 1, "the invite has expired"),
        (
            up(&closed),
            1,
            "is the gateway running, and is this its port?",
        ),
        (up(&web), 1, "something else than a gateway answers there"),
        ("invite".to_owned(), 1, "no gateway has run in"),
        ("invite revoke xyz".to_owned(), 2, "expected an id as"),
        ("peers revoke xyz".to_owned(), 2, "expected a key as"),
        ("voucher".to_owned(), 1, "no port is fronted"),
        (
            "send FOLDER/none --to @FOLDER/invite".to_owned(),
            1,
            "No such file or directory",
        ),
        (
            "send - --to @FOLDER/invite".to_owned(),
            2,
            "standard input has no name",
        ),
        ("receive FOLDER/none".to_owned(), 1, "is not a directory"),
    ];
    let cases = commands
        .iter()
        .map(|(line, code, says)| (line.as_str(), *code, *says));
    stage.check_at_once(&cases.collect::<Vec<_>>());
}

#[test]
fn mistakes_beside_a_daemon_are_explained() {
    let place = Place::new();
    let stage = Stage::new(&place);
    stage.check(&[("status", 1, "no hawser daemon runs in")]);
    let up = place.up("user", &["--direct"]);
    let taken = format!(
        "--state FOLDER/other up --listen {}",
        up.listen(&place).unwrap()
    );
    stage.check(&[
        ("up", 1, "is already running in"),
        (&taken, 1, "another program has it"),
        ("link nosuch", 2, "no link is called"),
        ("why 999", 1, "nothing was sent on stream"),
        ("web", 1, "the daemon serves no dashboard"),
    ]);
}

#[test]
fn at_least_forty_messages_have_a_cause_and_a_remedy() {
    let documented = rows();
    assert!(documented.len() >= 40);
    for row in documented {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").collect();
        assert!(
            cells.len() == 3 && cells.iter().all(|it| it.trim().len() > 3),
            "{row}"
        );
    }
}

/// A user, and the document.
struct Stage<'a> {
    place: &'a Place,
    rows: Vec<String>,
}

impl<'a> Stage<'a> {
    fn new(place: &'a Place) -> Self {
        Self {
            place,
            rows: rows(),
        }
    }

    /// Runs them one after the other.
    fn check(&self, cases: &[Case<'_>]) {
        for case in cases {
            self.check_one(case, "user");
        }
    }

    /// Runs them at the same time, since some try for long, as users of their own.
    fn check_at_once(&self, cases: &[Case<'_>]) {
        thread::scope(|scope| {
            for (case, number) in cases.iter().zip(1..) {
                scope.spawn(move || self.check_one(case, &format!("user-{number}")));
            }
        });
    }

    fn check_one(&self, (line, code, says): &Case<'_>, state: &str) {
        let folder = self.place.path("").display().to_string();
        let line = line.replace("FOLDER", folder.trim_end_matches('/'));
        // Those that would run for ever are told to end.
        let mut command = Command::new("timeout");
        command.arg("120").arg(env!("CARGO_BIN_EXE_hawser"));
        if !line.contains("--state") {
            command.arg("--state").arg(self.place.path(state));
        }
        let ended = Ended::of(command.args(line.split(' ')).output().unwrap());
        assert_eq!(ended.code, *code, "{line}: {ended:?}");
        let text = format!("{}{}", ended.out, ended.err);
        assert!(text.contains(says), "{line}: {text}");
        self.is_documented(says);
    }

    fn is_documented(&self, says: &str) {
        let is_there = |row: &String| row.split(" | ").next().unwrap().contains(says);
        assert!(
            self.rows.iter().any(is_there),
            "docs/errors.md has no {says:?}"
        );
    }
}

/// Rows of the tables.
fn rows() -> Vec<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors.md");
    let text = fs::read_to_string(file).unwrap();
    let rows = text.lines().filter(|line| line.starts_with("| `"));
    rows.map(str::to_owned).collect()
}

/// Answers every connection like a web server that is addressed in TLS.
fn web_server() -> SocketAddr {
    use std::io::{Read as _, Write as _};
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 64]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    address
}
