//! Programs that connect to addresses from name servers' answers for a vouched name.

use std::net::UdpSocket;
use std::process::Command;

use hawser_skip::namespace::within;

use super::super::super::clients::{Done, is_without, noise, run};
use super::super::super::network::SERVER;
use super::super::super::program::{Daemon, until};
use super::super::super::run::{Group, ways};
use super::super::{FILE, OTHER, PLAIN, Stage};
use super::{CLOSES_AND_STRIPS, NAME, vouched};

#[test]
fn a_programs_connections_to_a_vouched_name_go_over_a_session_or_nowhere() {
    let test = "a_programs_connections_to_a_vouched_name_go_over_a_session_or_nowhere";
    let Some(stage) = vouched(test) else {
        return;
    };
    stage.answer_names();
    let content = noise(1, FILE);
    stage.nginx.put("file", &content);
    stage.nginx.put("never", b"x");
    let ways = ways(&stage.place, test);
    let refused = |port| {
        for way in ways {
            assert_is_reset(&stage.run_curl(way, port, "never"));
        }
    };
    // Before the voucher is published.
    let server = stage.serve();
    refused(PLAIN);
    refused(OTHER);

    stage.vouch(&[]);
    for way in ways {
        let before = stage.front("connected");
        assert!(stage.run_curl(way, PLAIN, "file").out() == content, "{way}");
        assert_eq!(stage.front("connected"), before + 1, "{way}");
        assert!(stage.run_curl(way, OTHER, "file").out() == content, "{way}");
        assert_eq!(stage.front("connected"), before + 1, "{way}");
    }
    if stage.attacks(CLOSES_AND_STRIPS, test) {
        refused(PLAIN);
        stage.attacks("", test);
    }
    server.end();

    // Another host answers there, and then none.
    std::fs::remove_file(stage.place.path("server/key")).unwrap();
    let other = stage.serve();
    refused(PLAIN);
    assert_eq!(stage.front("connected"), 0, "{}", other.log());
    other.end();
    refused(PLAIN);
    let log = std::fs::read_to_string(stage.place.path("nginx/access.log")).unwrap();
    assert!(!log.contains("/never"), "{log}");
}

#[test]
fn datagrams_to_a_vouched_name_are_refused_however_a_program_sends_them() {
    let test = "datagrams_to_a_vouched_name_are_refused_however_a_program_sends_them";
    if is_without(&["python3"], test) {
        return;
    }
    let Some(stage) = vouched(test) else {
        return;
    };
    stage.answer_names();
    let server = stage.serve();
    stage.vouch(&[]);
    // While there is no voucher, all ports are held.
    let script = format!(
        r#"
import socket, time
socket.getaddrinfo("{NAME}", None)
def tried(port, send):
    try: send(socket.socket(socket.AF_INET, socket.SOCK_DGRAM), ("{SERVER}", port))
    except PermissionError: return "refused"
    return "sent"
connect = lambda s, to: s.connect(to)
sendto = lambda s, to: s.sendto(b"x", to)
sendmsg = lambda s, to: s.sendmsg([b"x"], [], 0, to)
while tried({OTHER}, sendto) == "refused": time.sleep(0.05)
for port in ({OTHER}, {PLAIN}):
    print(*[tried(port, send) for send in (connect, sendto, sendmsg)])
"#
    );
    for way in ways(&stage.place, test) {
        let done = stage.run_by(way, &["python3", "-c", &script]);
        let expected = "sent sent sent\nrefused refused refused\n";
        assert_eq!(done.text(), expected, "{way}");
    }
    server.end();
}

#[test]
fn a_daemon_holds_the_programs_that_it_captures_to_vouchers() {
    let test = "a_daemon_holds_the_programs_that_it_captures_to_vouchers";
    let Some(stage) = vouched(test) else {
        return;
    };
    if !ways(&stage.place, test).contains(&"kernel") {
        return;
    }
    stage.answer_names();
    stage.nginx.put("little", b"x");
    stage.nginx.put("never", b"x");
    let door = format!("{SERVER}:745");
    let server = stage.serve_with(&["--front-listen", &door]);
    stage.vouch(&[]);
    let group = Group::new(test);
    let up = stage.up_capturing(&group);
    let get = |port, file| stage.curl_in(&group, port, file);
    for _ in 0..2 {
        assert_eq!(get(PLAIN, "little").out(), b"x", "{}", up.log());
    }
    assert_eq!(stage.front("connected"), 2, "{}", up.log());
    // A connection without a voucher is placed in the kernel, as ever.
    assert_eq!(get(OTHER, "little").out(), b"x", "{}", up.log());
    assert_eq!(stage.front("connected"), 2, "{}", up.log());
    // Answers prove nothing: an address that its name led to is not its server's.
    let elsewhere = |port, file| {
        let url = format!("http://{ELSEWHERE}:{port}/{file}");
        stage.program_in(&group, &[&CURL[..], &[url.as_str()]].concat())
    };
    assert_eq!(elsewhere(OTHER, "little").out(), b"x", "{}", up.log());
    assert_is_reset(&elsewhere(PLAIN, "never"));
    let told = || stage.shown()["refused"].to_string();
    until("it is told", || told().contains("can't reach port"), told);
    assert_eq!(get(PLAIN, "little").out(), b"x", "{}", up.log());
    assert_eq!(stage.front("connected"), 3, "{}", up.log());
    server.end();
    assert_is_reset(&get(PLAIN, "never"));
    until("it is told", || told().contains("port 8000"), told);
    // Nor by datagrams.
    let send = |port: u16| {
        let send = format!("echo x > /dev/udp/{SERVER}/{port}");
        stage.program_in(&group, &["bash", "-c", &send])
    };
    send(OTHER).out();
    let sent = send(PLAIN);
    assert!(sent.err.contains("not permitted"), "{}", sent.err);
    up.end();
    let log = std::fs::read_to_string(stage.place.path("nginx/access.log")).unwrap();
    assert!(!log.contains("/never"), "{log}");
}

impl Stage {
    /// Lets a name server near the server know [`NAME`], and the client's system use it.
    fn answer_names(&self) {
        for address in [NAME_SERVER, ELSEWHERE] {
            let server = &self.network.server;
            server.ip(&format!("address add {address}/32 dev lo"));
        }
        let servers = format!("nameserver {NAME_SERVER}\n");
        std::fs::write(self.place.path("resolv.conf"), servers).unwrap();
        let bind = || UdpSocket::bind((NAME_SERVER, 53)).unwrap();
        let socket = within(self.network.server.process(), bind);
        std::thread::spawn(move || {
            let mut bytes = [0; 512];
            while let Ok((length, from)) = socket.recv_from(&mut bytes) {
                let _ = socket.send_to(&answer(&bytes[..length]), from);
            }
        });
    }

    /// Returns a program of the client, whose system uses that name server.
    fn asking_names(&self) -> Command {
        let servers = self.place.path("resolv.conf");
        let cover = format!("mount --bind {} /etc/resolv.conf", servers.display());
        let mut command = self.network.client.command("unshare");
        let script = format!("{cover} && exec \"$@\"");
        command.args(["--mount", "--", "sh", "-c", &script, "sh"]);
        command
    }

    fn run_curl(&self, way: &str, port: u16, file: &str) -> Done {
        let url = url(port, file);
        self.run_by(way, &[&CURL[..], &[url.as_str()]].concat())
    }

    fn run_by(&self, way: &str, program: &[&str]) -> Done {
        let mut hawser = self.asking_names();
        hawser.arg(env!("CARGO_BIN_EXE_hawser"));
        hawser.arg("--config").arg(self.place.path("up.toml"));
        hawser.arg("--state").arg(self.place.path("client"));
        hawser.args(["run", "--vouched", NAME, "--via", way, "--"]);
        hawser.args(program);
        run(&self.place, &mut hawser)
    }

    fn up_capturing(&self, group: &Group) -> Daemon {
        let mut hawser = self.asking_names();
        hawser.arg(env!("CARGO_BIN_EXE_hawser"));
        hawser.arg("--config").arg(self.place.path("up.toml"));
        let scope = format!("cgroup:{}", group.0.display());
        let always = ["up", "--listen", "127.0.0.1:0", "--vouched", NAME];
        let capture = ["--capture", scope.as_str()];
        self.start("client", hawser, &[&always[..], &capture].concat())
    }

    fn curl_in(&self, group: &Group, port: u16, file: &str) -> Done {
        let url = url(port, file);
        self.program_in(group, &[&CURL[..], &[url.as_str()]].concat())
    }

    fn program_in(&self, group: &Group, program: &[&str]) -> Done {
        let enter = format!("echo $$ > {}/cgroup.procs; exec \"$@\"", group.0.display());
        let mut command = self.asking_names();
        command.args(["sh", "-c", &enter, "sh"]).args(program);
        run(&self.place, &mut command)
    }
}

fn url(port: u16, file: &str) -> String {
    format!("http://{NAME}:{port}/{file}")
}

/// Checks that the connection was reset, and did not fail otherwise: Hawser accepts it before it
/// knows the outcome. Curl may notice that before it has seen the connection.
fn assert_is_reset(done: &Done) {
    let code = done.status.code();
    assert!(RESET.map(Some).contains(&code), "{code:?}: {}", done.err);
}

/// Returns an answer to any query: [`NAME`] has the addresses [`SERVER`] and [`ELSEWHERE`], and no
/// other name has an address.
fn answer(question: &[u8]) -> Vec<u8> {
    let end = 12 + question[12..].iter().position(|byte| *byte == 0).unwrap() + 5;
    let is_it = question
        .windows(15)
        .any(|it| it == b"\x07vouched\x04test\x00\x00");
    let has_address = is_it && question[end - 3] == 1;
    let mut answer = question[..end].to_vec();
    let counts = [0x81, 0x80, 0, 1, 0, 2 * u8::from(has_address), 0, 0, 0, 0];
    answer[2..12].copy_from_slice(&counts);
    for address in [SERVER, ELSEWHERE].iter().filter(|_| has_address) {
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
        let address: std::net::Ipv4Addr = address.parse().unwrap();
        answer.extend(address.octets());
    }
    answer
}

/// A host in the server's network without Hawser, with the same web server.
const ELSEWHERE: &str = "203.0.113.9";
const NAME_SERVER: &str = "203.0.113.53";
/// Curl's exit codes for connections that fail while connecting, sending or reading.
const RESET: [i32; 3] = [7, 55, 56];
const CURL: [&str; 4] = ["curl", "--silent", "--show-error", "--fail"];
