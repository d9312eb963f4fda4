//! Connections that ask for a bond in their handshake, on the service's own port.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::process::Stdio;

use super::super::clients::{is_without, noise, run};
use super::super::network::{Namespace, SERVER};
use super::super::program::{Daemon, kernel_captures, until};
use super::handshakes::Ended;
use super::{FILE, OTHER, PLAIN, SPEAKS_FIRST, Stage};

#[test]
fn the_first_connection_to_a_server_never_met_goes_over_both_links() {
    let test = "the_first_connection_to_a_server_never_met_goes_over_both_links";
    let Some(stage) = bonding(test) else {
        return;
    };
    let (server, up) = (stage.serve(), stage.up(&[]));
    // Both links carry 8 MB in less than a second, in which the second one may not have joined.
    let content = noise(1, 4 * FILE);
    stage.nginx.put("file", &content);
    // The session has its beginning in this one.
    let shares = stage.shares(|| {
        assert!(stage.download(&up, PLAIN, "file").out() == content);
    });
    println!("{shares:?} bytes by each link");
    assert!(
        shares.iter().all(|share| *share > FILE as u64 / 8),
        "{shares:?}: {}",
        up.log()
    );
    assert_eq!(stage.counts(), (1, 0), "{}\n{}", up.log(), server.log());
    let line = stage.nginx.logged(&["GET /file "]);
    let is_clients = |address| line.contains(&format!(" {address} "));
    assert!(is_clients("10.7.1.2") || is_clients("10.7.2.2"), "{line}");
    // The next one is in the same session, and asks for nothing.
    assert!(stage.download(&up, PLAIN, "file").out() == content);
    assert_eq!(stage.counts(), (2, 0), "{}\n{}", up.log(), server.log());
    assert_eq!(stage.paths().len(), 1);
    assert_eq!(stage.server_count("front-handshakes-diverted"), 1);
    up.end();
    server.end();
}

#[test]
fn where_only_the_services_port_is_open_each_link_joins_there() {
    let test = "where_only_the_services_port_is_open_each_link_joins_there";
    let Some(stage) = bonding(test) else {
        return;
    };
    if !stage.filters(&stage.network.client, CLOSES_DOOR, test) {
        return;
    }
    let (server, up) = (stage.serve(), stage.up(&[]));
    let content = noise(1, FILE);
    stage.nginx.put("file", &content);
    stage.until_bonded(&up, PLAIN);
    stage.until_over_both_links(&up, || {
        assert!(stage.download(&up, PLAIN, "file").out() == content);
    });
    let (_, passed_on) = stage.counts();
    assert_eq!(passed_on, 0, "{}\n{}", up.log(), server.log());
    up.end();
    server.end();
}

#[test]
fn a_service_that_speaks_first_is_heard_in_a_session_and_without() {
    let test = "a_service_that_speaks_first_is_heard_in_a_session_and_without";
    let Some(stage) = bonding(test) else {
        return;
    };
    let _service = stage.speaker();
    let (server, up) = (stage.serve(), stage.up(&[]));
    let said = stage.converse(&up);
    assert!(
        said.starts_with("220 ready\nheard hello from 10.7."),
        "{said}"
    );
    assert_eq!(stage.counts(), (1, 0), "{}\n{}", up.log(), server.log());
    up.end();

    // Whose answer is lost is carried to the service, once the client was silent for a while.
    if !stage.filters(&stage.network.client, STRIPS_ANSWERS, test) {
        return;
    }
    std::fs::remove_file(stage.place.path("client/servers.json")).unwrap();
    let up = stage.up(&[]);
    let said = stage.converse(&up);
    assert!(
        said.starts_with("220 ready\nheard hello from 10.7."),
        "{said}"
    );
    assert_eq!(stage.counts(), (1, 1), "{}\n{}", up.log(), server.log());
    up.end();
    server.end();
}

#[test]
fn an_option_that_is_lost_in_one_direction_leaves_a_plain_connection() {
    let test = "an_option_that_is_lost_in_one_direction_leaves_a_plain_connection";
    let Some(stage) = bonding(test) else {
        return;
    };
    let server = stage.serve();
    let content = noise(1, FILE / 8);
    stage.nginx.put("file", &content);
    for (rules, passed_on) in [(STRIPS_ANSWERS, 1), (STRIPS_QUESTIONS, 1)] {
        if !stage.filters(&stage.network.client, rules, test) {
            return;
        }
        let up = stage.up(&[]);
        assert!(stage.download(&up, PLAIN, "file").out() == content);
        let counts = stage.counts();
        assert_eq!(counts, (0, passed_on), "{}\n{}", up.log(), server.log());
        // The service sees the client in any case.
        let line = stage.nginx.logged(&["GET /file "]);
        assert!(line.contains(" 10.7."), "{line}");
        up.end();
    }
    server.end();
}

#[test]
fn where_syn_cookies_are_always_sent_a_session_goes_by_the_port_for_strangers() {
    let test = "where_syn_cookies_are_always_sent_a_session_goes_by_the_port_for_strangers";
    let Some(stage) = bonding(test) else {
        return;
    };
    stage.always_send_cookies();
    let (server, up) = (stage.serve(), stage.up(&[]));
    stage.nginx.put("file", b"x");
    let done = stage.download(&up, PLAIN, "file");
    assert_eq!(done.out(), b"x", "{}", up.log());
    stage.until_bonded(&up, PLAIN);
    assert_eq!(stage.server_count("front-passed-on"), 0);
    assert_eq!(stage.server_count("front-handshakes-diverted"), 0);
    up.end();
    server.end();
}

#[test]
fn where_syn_cookies_begin_later_who_asks_has_the_service_all_the_same() {
    let test = "where_syn_cookies_begin_later_who_asks_has_the_service_all_the_same";
    let Some(stage) = bonding(test) else {
        return;
    };
    let server = stage.serve();
    // As where the queue of Hawser's listener is full, and that of the service is not.
    stage.always_send_cookies();
    let up = stage.up(&[]);
    stage.nginx.put("file", b"x");
    for _ in 0..3 {
        let done = stage.download(&up, PLAIN, "file");
        assert_eq!(done.out(), b"x", "{}", up.log());
    }
    assert!(stage.server_count("front-handshakes-diverted") > 0);
    assert_eq!(stage.counts().1, 0, "{}", server.log());
    up.end();
    server.end();
}

#[test]
fn what_asks_at_a_port_that_a_rule_leads_elsewhere_has_the_service_there() {
    let test = "what_asks_at_a_port_that_a_rule_leads_elsewhere_has_the_service_there";
    let Some(stage) = bonding(test) else {
        return;
    };
    let rule = format!(
        "table ip elsewhere {{ chain to {{ type nat hook prerouting priority dstnat; \
         tcp dport {PLAIN} redirect to :{OTHER}; }}; }}"
    );
    let nft = stage.network.server.command("nft").arg(rule).output();
    if !nft.is_ok_and(|output| output.status.success()) {
        let reason = "no nftables that translate addresses";
        return hawser_skip::skip(&format!("real_clients::{test}"), reason);
    }
    let (server, up) = (stage.serve(), stage.up(&[]));
    let content = noise(1, FILE / 8);
    stage.nginx.put("first", &content);
    stage.nginx.put("later", b"x");
    assert!(stage.download(&up, PLAIN, "first").out() == content);
    assert_eq!(stage.counts(), (0, 1), "{}\n{}", up.log(), server.log());
    let line = stage.nginx.logged(&["GET /first "]);
    let is_clients = |address| line.contains(&format!(" {address} "));
    assert!(is_clients("10.7.1.2") || is_clients("10.7.2.2"), "{line}");
    let told = format!("leads port {PLAIN} to port {OTHER}");
    assert!(server.log().contains(&told), "{}", server.log());
    let config = stage.place.path("serve.toml");
    std::fs::write(&config, format!("[serve]\nfront = [\"{PLAIN}\"]\n")).unwrap();
    let mut doctor = stage.network.server.command(env!("CARGO_BIN_EXE_hawser"));
    doctor.arg("--state").arg(stage.place.path("doctor"));
    doctor.arg("--config").arg(config).arg("doctor");
    let found = String::from_utf8(doctor.output().unwrap().stdout).unwrap();
    assert!(found.contains(&told), "{found}");
    // Once that is known the kernel leads them by itself.
    let is_left_alone = || {
        let before = stage.counts();
        assert_eq!(stage.download(&up, PLAIN, "later").out(), b"x");
        stage.counts() == before
    };
    until("it is left alone", is_left_alone, || server.log());
    up.end();
    server.end();
    let rules = stage.network.server.command("ip").arg("rule").output();
    let rules = String::from_utf8(rules.unwrap().stdout).unwrap();
    assert!(!rules.contains("sport"), "{rules}");
}

/// Not a test: a service that speaks first, if it is asked to be one.
#[test]
fn speaker() {
    if std::env::var_os(SPEAKER).is_none() {
        return;
    }
    let listener = TcpListener::bind(("0.0.0.0", SPEAKS_FIRST)).unwrap();
    println!("it listens");
    for stream in listener.incoming() {
        let mut stream = stream.unwrap();
        let from = stream.peer_addr().unwrap().ip();
        let mut line = String::new();
        let mut talk = || {
            writeln!(stream, "220 ready")?;
            BufReader::new(&stream).read_line(&mut line)?;
            writeln!(stream, "heard {} from {from}", line.trim_end())
        };
        if let Err(error) = talk() {
            println!("{error}");
        }
    }
}

/// Creates a stage for handshakes that ask; `None`, with a report, if something is missing here.
pub(super) fn bonding(test: &str) -> Option<Stage> {
    if is_without(&["bash", "sh"], test) || !kernel_captures(test) {
        return None;
    }
    Stage::new(test)
}

impl Stage {
    /// Returns the connections over sessions with the server, and those that it passed on.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.front("connected"), self.front("passed-on"))
    }

    pub(super) fn server_count(&self, name: &str) -> u64 {
        let status = self.place.status("server").unwrap();
        status["counters"][name].as_u64().unwrap_or_default()
    }

    /// Starts the service that speaks first.
    fn speaker(&self) -> Ended {
        let mut command = self
            .network
            .server
            .command(std::env::current_exe().unwrap());
        let name = "fronted::bonds::speaker";
        command.args(["--exact", name, "--nocapture"]);
        let mut child = command
            .env(SPEAKER, "1")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = child.stdout.take().unwrap();
        let service = Ended(child);
        let mut lines = BufReader::new(out).lines();
        assert!(lines.any(|line| line.unwrap().ends_with("it listens")));
        // Whatever it says later has a reader.
        std::thread::spawn(move || lines.for_each(drop));
        service
    }

    /// Waits for that service's first message through the client's proxy port, and answers.
    fn converse(&self, up: &Daemon) -> String {
        let proxy = up.listen(&self.place).unwrap();
        let (_, port) = proxy.rsplit_once(':').unwrap();
        let script = format!(
            "exec 3<>/dev/tcp/127.0.0.1/{port}
             printf 'CONNECT {SERVER}:{SPEAKS_FIRST} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n' >&3
             while read -r -u 3 line && [ \"$line\" != $'\\r' ]; do :; done
             read -r -u 3 line; echo \"$line\"; echo hello >&3; cat <&3"
        );
        let mut bash = self.network.client.command("bash");
        run(&self.place, bash.args(["-c", &script])).text()
    }

    /// Sets the packet filter, in place of the previous one; reports if that is impossible.
    pub(super) fn filters(&self, at: &Namespace, rules: &str, test: &str) -> bool {
        let rules = format!("flush ruleset; table inet middlebox {{ {rules}; }}");
        let nft = at.command("nft").arg(&rules).output();
        let filters = nft.is_ok_and(|output| output.status.success());
        if !filters {
            let reason = format!("no nftables for this: {rules}");
            hawser_skip::skip(&format!("real_clients::{test}"), &reason);
        }
        filters
    }
}

const SPEAKER: &str = "HAWSER_TEST_SPEAKER";
/// Filters SYN-ACKs that arrive, and SYNs that leave.
const STRIPS_ANSWERS: &str = "chain from { type filter hook prerouting priority -300; \
                              tcp flags & (syn | ack) == (syn | ack) reset tcp option 254; }";
const STRIPS_QUESTIONS: &str = "chain to { type filter hook postrouting priority 0; \
                                tcp flags & (syn | ack) == syn reset tcp option 254; }";
/// A firewall that drops silently.
const CLOSES_DOOR: &str = "chain to { type filter hook output priority 0; \
                           tcp dport 745 drop; udp dport 745 drop; }";
