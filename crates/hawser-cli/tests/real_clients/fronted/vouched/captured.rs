//! Programs that connect to the addresses which name servers have told them for a vouched name.

use std::net::UdpSocket;
use std::process::Command;

use hawser_skip::namespace::within;

use super::super::super::clients::{Done, noise, run};
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
            let done = stage.run_curl(way, port, "never");
            assert!(!done.status.success(), "{way}");
        }
    };
    // As long as nobody has vouched for it.
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

    // Another host answers there, and then nobody does.
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
    let server = stage.serve();
    stage.vouch(&[]);
    let group = Group::new(test);
    let up = stage.up_capturing(&group);
    let get = |port, file| stage.curl_in(&group, port, file);
    for _ in 0..2 {
        assert_eq!(get(PLAIN, "little").out(), b"x", "{}", up.log());
    }
    assert_eq!(stage.front("connected"), 2, "{}", up.log());
    // What nobody vouches for is placed in the kernel, as ever.
    assert_eq!(get(OTHER, "little").out(), b"x", "{}", up.log());
    assert_eq!(stage.front("connected"), 2, "{}", up.log());
    server.end();
    assert!(!get(PLAIN, "never").status.success(), "{}", up.log());
    let told = || stage.shown()["refused"].to_string();
    until("it is told", || told().contains("port 8000"), told);
    // Nor by datagrams.
    let send = format!("echo x > /dev/udp/{SERVER}/{PLAIN}");
    let sent = run(
        &stage.place,
        &mut stage.in_group(&group, &["bash", "-c", &send]),
    );
    assert!(!sent.status.success(), "{}", up.log());
    up.end();
    let log = std::fs::read_to_string(stage.place.path("nginx/access.log")).unwrap();
    assert!(!log.contains("/never"), "{log}");
}

impl Stage {
    /// Has a name server at the server know [`NAME`], and the system of the client ask it.
    fn answer_names(&self) {
        let servers = format!("nameserver {SERVER}\n");
        std::fs::write(self.place.path("resolv.conf"), servers).unwrap();
        let bind = || UdpSocket::bind((SERVER, 53)).unwrap();
        let socket = within(self.network.server.process(), bind);
        std::thread::spawn(move || {
            let mut bytes = [0; 512];
            while let Ok((length, from)) = socket.recv_from(&mut bytes) {
                let _ = socket.send_to(&answer(&bytes[..length]), from);
            }
        });
    }

    /// A program of the client, where the system asks that name server.
    fn asking_names(&self) -> Command {
        let servers = self.place.path("resolv.conf");
        let cover = format!("mount --bind {} /etc/resolv.conf", servers.display());
        let mut command = self.network.client.command("unshare");
        let script = format!("{cover} && exec \"$@\"");
        command.args(["--mount", "--", "sh", "-c", &script, "sh"]);
        command
    }

    fn run_curl(&self, way: &str, port: u16, file: &str) -> Done {
        let mut hawser = self.asking_names();
        hawser.arg(env!("CARGO_BIN_EXE_hawser"));
        hawser.arg("--config").arg(self.place.path("up.toml"));
        hawser.arg("--state").arg(self.place.path("client"));
        hawser.args(["run", "--vouched", NAME, "--via", way, "--"]);
        hawser.args(CURL).arg(url(port, file));
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
        let curl = [&CURL[..], &[url.as_str()]].concat();
        run(&self.place, &mut self.in_group(group, &curl))
    }

    fn in_group(&self, group: &Group, program: &[&str]) -> Command {
        let enter = format!("echo $$ > {}/cgroup.procs; exec \"$@\"", group.0.display());
        let mut command = self.asking_names();
        command.args(["sh", "-c", &enter, "sh"]).args(program);
        command
    }
}

fn url(port: u16, file: &str) -> String {
    format!("http://{NAME}:{port}/{file}")
}

/// An answer to any question: [`NAME`] has the address [`SERVER`], and nobody has another one.
fn answer(question: &[u8]) -> Vec<u8> {
    let end = 12 + question[12..].iter().position(|byte| *byte == 0).unwrap() + 5;
    let is_it = question
        .windows(15)
        .any(|it| it == b"\x07vouched\x04test\x00\x00");
    let has_address = is_it && question[end - 3] == 1;
    let mut answer = question[..end].to_vec();
    let counts = [0x81, 0x80, 0, 1, 0, u8::from(has_address), 0, 0, 0, 0];
    answer[2..12].copy_from_slice(&counts);
    if has_address {
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
        let address: std::net::Ipv4Addr = SERVER.parse().unwrap();
        answer.extend(address.octets());
    }
    answer
}

const CURL: [&str; 4] = ["curl", "--silent", "--show-error", "--fail"];
