//! Names that the gateway looks up for its clients, with a name server that stays silent.

use std::fs::write;
use std::net::{SocketAddr, TcpStream, UdpSocket};

use hawser_skip::namespace::{in_namespace, ip};

use super::origin::{self, status_of};
use super::program::{Daemon, Place, until};

/// A client that asks for names without an answer delays only itself.
#[test]
fn another_client_is_answered_while_one_waits_for_many_names_that_hang() {
    let name = "names::another_client_is_answered_while_one_waits_for_many_names_that_hang";
    in_namespace(name, || {
        if origin::is_without_curl(name) {
            return;
        }
        ip("link set lo up");
        let server = answer_quick_names();
        let place = Place::new();
        let Some(gateway) = gateway(&place) else {
            hawser_skip::skip(&format!("end_to_end::{name}"), "no mount namespace here");
            return;
        };
        let first = place.up("first", &["--gateway", &place.invite()]);
        let more = place.run("gateway", &["invite"]);
        assert_eq!(more.code, 0, "{more:?}");
        let second = place.up("second", &["--gateway", more.out.trim()]);
        let origin = origin::start();
        let url = |name: &str| format!("http://{name}:{}/5", origin.port());
        let proxy = format!("http://{}", second.listen(&place).unwrap());
        let get = |name: &str| status_of(&proxy, &url(name));
        assert_eq!(get("warm.quick.example"), 200, "{}", gateway.log());

        let hanging = first.listen(&place).unwrap().parse().unwrap();
        let streams: Vec<TcpStream> = (0..140).map(|it| begin(hanging, it)).collect();
        let asked = || server.lock().unwrap().len() >= 16;
        until("names that hang are asked for", asked, || gateway.log());
        // Before this, it waited until the others' lookups were given up, which is too long.
        for number in 0..20 {
            let name = format!("n{number}.quick.example");
            assert_eq!(get(&name), 200, "{name}: {}", gateway.log());
        }
        drop(streams);
        for daemon in [first, second, gateway] {
            daemon.kill();
        }
    });
}

/// Asks a proxy for a name that gets no answer.
fn begin(proxy: SocketAddr, number: u32) -> TcpStream {
    use std::io::Write as _;
    let mut stream = TcpStream::connect(proxy).unwrap();
    let head = format!("CONNECT hang-{number}.example:80 HTTP/1.1\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    stream
}

/// Starts a gateway whose system uses this test's name server; `None` if a folder can't be covered.
fn gateway(place: &Place) -> Option<Daemon> {
    let (config, invite) = (place.path("resolv.conf"), place.path("invite"));
    // Longer than a client waits.
    write(
        &config,
        "nameserver 127.0.0.1\noptions timeout:30 attempts:1\n",
    )
    .unwrap();
    let cover = format!("mount --bind {} /etc/resolv.conf", config.display());
    let run = |then: &str| {
        let mut command = std::process::Command::new("unshare");
        command.args([
            "--mount",
            "--",
            "sh",
            "-c",
            &format!("{cover} && {then}"),
            "sh",
        ]);
        command
    };
    if !run("true").status().is_ok_and(|status| status.success()) {
        return None;
    }
    let mut serve = run("exec \"$@\"");
    serve
        .arg(env!("CARGO_BIN_EXE_hawser"))
        .arg("--state")
        .arg(place.path("gateway"));
    serve.args([
        "serve",
        "--listen",
        "127.0.0.1:7443",
        "--advertise",
        "127.0.0.1",
    ]);
    serve
        .args(["--allow-destination", "127.0.0.0/8", "--invite-file"])
        .arg(&invite);
    let gateway = place.launch_command("gateway", serve);
    until("an invite is written", || invite.exists(), || gateway.log());
    Some(gateway)
}

type Asked = std::sync::Arc<std::sync::Mutex<std::collections::BTreeSet<Vec<u8>>>>;

/// Starts a name server for 127.0.0.1 that knows names below `quick.example` and ignores others.
/// Returns the unanswered queries.
fn answer_quick_names() -> Asked {
    let socket = UdpSocket::bind("127.0.0.1:53").unwrap();
    let open = Asked::default();
    let asked = open.clone();
    std::thread::spawn(move || {
        let mut bytes = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut bytes) {
            let question = &bytes[..length];
            if question.windows(7).any(|it| it == b"\x05quick\x07") {
                let _ = socket.send_to(&answer(question), from);
            } else if let Some(name) = question.get(12..) {
                open.lock().unwrap().insert(name.to_owned());
            }
        }
    });
    asked
}

/// Returns an answer to a query for one name: its only address is the IPv4 address 127.0.0.1.
fn answer(question: &[u8]) -> Vec<u8> {
    let end = 12 + question[12..].iter().position(|byte| *byte == 0).unwrap() + 5;
    let is_ipv4 = question[end - 3] == 1;
    let mut answer = question[..end].to_vec();
    let counts = [0x81, 0x80, 0, 1, 0, u8::from(is_ipv4), 0, 0, 0, 0];
    answer[2..12].copy_from_slice(&counts);
    if is_ipv4 {
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1]);
    }
    answer
}
