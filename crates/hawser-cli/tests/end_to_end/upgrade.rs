//! A new process takes over from a daemon, and what is open goes on.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use hawser_skip::namespace::in_namespace_of_root;

use super::internet::Internet;
use super::program::{Daemon, Place, until};

/// A machine whose connections and packets are captured, and its gateway, are both replaced while a
/// connection, new connections and datagrams go over them. In between a link is lost and comes
/// back, so that its channels join a session of the old process by the new one's port.
#[test]
fn streams_and_packets_go_on_while_both_ends_are_replaced() {
    let test = "upgrade::streams_and_packets_go_on_while_both_ends_are_replaced";
    in_namespace_of_root(test, || {
        let Some(net) = Internet::captured(test) else {
            return;
        };
        for transport in ["sctp", "tcp"] {
            let gateway = net.serve();
            let invite = net.place.invite();
            let client = net.up(&["--gateway", &invite, "--transport", transport]);
            let log = || format!("{}\n{}", client.log(), gateway.log());
            let _ = std::fs::remove_file(net.done());
            let running = net.begin(TRAFFIC);
            until_moved(&net, 20, log);

            upgrade(&net.place, "gateway", &gateway);
            net.gateway.ip("link set lte down");
            until("the link is lost", || by_second_link(&net) == 0, log);
            net.gateway.ip("link set lte up");
            until("the link is back", || by_second_link(&net) > 0, log);
            until_moved(&net, 20, log);
            upgrade(&net.place, "client", &client);
            until_moved(&net, 20, log);

            std::fs::write(net.done(), "").unwrap();
            let ended = running.wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&ended.stdout);
            println!("{transport}: {said}");
            assert!(said.starts_with("all came back"), "{said}{}", log());
            until(
                "the old process has nothing",
                || is_alone(&net, "gateway"),
                log,
            );
            until(
                "the old process has nothing",
                || is_alone(&net, "client"),
                log,
            );
            client.end();
            gateway.end();
        }
    });
}

#[test]
fn a_new_process_that_fails_disturbs_nothing() {
    let (place, config) = (Place::new(), "client.toml");
    let gateway = place.serve();
    let file = place.path(config);
    std::fs::write(&file, "").unwrap();
    let with = ["--config", file.to_str().unwrap()];
    let invite = place.invite();
    let up = [
        "up",
        "--listen",
        "127.0.0.1:0",
        "--link",
        "lo",
        "--gateway",
        &invite,
    ];
    let client = place.start("client", &[&with[..], &up].concat());
    let listen = client.listen(&place);
    std::fs::write(&file, "no = \"setting\"\n").unwrap();
    let refused = place.run("client", &["upgrade"]);
    refused.expect(1, "the new process has ended (exit status: 2)");
    assert_eq!(
        place.status("client").unwrap()["process_id"],
        client.process()
    );
    assert_eq!(client.listen(&place), listen);
    // Once it is right again, it works.
    std::fs::write(&file, "").unwrap();
    upgrade(&place, "client", &client);
    assert_eq!(client.listen(&place), listen, "the port is the same");
    client.end();
    gateway.end();
}

/// Who has started a daemon asks it to end, and both processes do, though something is open.
#[test]
fn an_old_process_that_is_asked_to_end_ends_the_new_one_as_well() {
    let place = Place::new();
    let gateway = place.serve();
    let client = place.up("client", &["--gateway", &place.invite()]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut open = TcpStream::connect(client.listen(&place).unwrap()).unwrap();
    let request = format!(
        "CONNECT {} HTTP/1.1\r\n\r\n",
        listener.local_addr().unwrap()
    );
    open.write_all(request.as_bytes()).unwrap();
    let (mut far, _) = listener.accept().unwrap();
    far.write_all(b"here").unwrap();
    let mut heard = Vec::new();
    while !heard.ends_with(b"here") {
        let mut some = [0; 100];
        let count = open.read(&mut some).unwrap();
        assert!(count > 0, "{heard:?}");
        heard.extend_from_slice(&some[..count]);
    }
    for (state, daemon) in [("gateway", &gateway), ("client", &client)] {
        upgrade(&place, state, daemon);
        let is_told = || place.status(state).unwrap()["predecessor"]["open"] == 1;
        until("the old process tells what is open", is_told, || {
            daemon.log()
        });
        let again = place.run(state, &["upgrade"]);
        again.expect(
            1,
            "the process of before the last upgrade still serves what was open then (1)",
        );
    }
    client.end();
    assert!(place.status("client").is_none(), "the new one has ended");
    gateway.end();
    assert!(place.status("gateway").is_none(), "the new one has ended");
}

#[test]
fn what_can_not_be_handed_over_is_told() {
    let place = Place::new();
    let gateway = place.serve();
    let invite = place.invite();
    let more = ["--gateway", &invite, "--accept-joins", "7444"];
    let client = place.up("client", &more);
    let refused = place.run("client", &["upgrade"]);
    refused.expect(1, "with --accept-joins no other process can take over");
    let by_hand = place.run("third", &["--taking-over", "up"]);
    by_hand.expect(1, "--taking-over: only hawser itself takes over");
    let none = place.run("nowhere", &["upgrade"]);
    none.expect(1, "no hawser daemon runs");
    client.end();
    gateway.end();
}

/// Has a daemon replaced.
fn upgrade(place: &Place, state: &str, daemon: &Daemon) {
    let begun = Instant::now();
    let ended = place.run(state, &["upgrade"]);
    assert_eq!(ended.code, 0, "{ended:?} {}", daemon.log());
    println!("{state} was replaced in {:?}", begun.elapsed());
    let status = place.status(state).unwrap();
    assert_ne!(status["process_id"], daemon.process(), "{status}");
}

/// Whether no process of before serves any more.
fn is_alone(net: &Internet, state: &str) -> bool {
    let status = net.place.status(state);
    status.is_some_and(|status| status["predecessor"].is_null())
}

/// How many connections the gateway has by the client's second link, in whichever process.
fn by_second_link(net: &Internet) -> usize {
    let arguments = ["-Htn", "state", "established", "dst", "10.2.0.2"];
    let output = net.gateway.command("ss").args(arguments).output().unwrap();
    String::from_utf8_lossy(&output.stdout).lines().count()
}

/// Waits until so many more connections have been made and datagrams have come back.
fn until_moved(net: &Internet, count: usize, log: impl Fn() -> String) {
    let moved = net.place.path("done.moved");
    let lines = || {
        std::fs::read_to_string(&moved)
            .unwrap_or_default()
            .lines()
            .count()
    };
    let before = lines();
    let deadline = Instant::now() + Duration::from_secs(60);
    while lines() < before + count {
        assert!(Instant::now() < deadline, "nothing moves: {}", log());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// One connection on which bytes go there and back all the time, a new one every now and then, and
/// datagrams. Says what was lost, and how long anything took at most.
const TRAFFIC: &str = "
import threading
server, done = ('11.0.0.2', 7), 'DONE'
moved = open(done + '.moved', 'w')
is_over = lambda: os.path.exists(done)
problems, longest = [], {}
def took(what, since):
    longest[what] = max(longest.get(what, 0), time.monotonic() - since)
def stream():
    s = socket.create_connection(server)
    f = s.makefile('rb')
    f.readline()
    block = os.urandom(60000)
    while not is_over():
        begun = time.monotonic()
        s.sendall(block)
        if f.read(len(block)) != block:
            problems.append('the connection broke')
            return
        took('block', begun)
def new():
    while not is_over():
        begun = time.monotonic()
        s = socket.create_connection(server)
        s.sendall(b'x')
        f = s.makefile('rb')
        f.readline()
        if f.read(1) != b'x':
            problems.append('a new connection broke')
        s.close()
        took('connection', begun)
        moved.write('connection\\n')
        moved.flush()
        time.sleep(0.05)
def datagrams():
    s = udp()
    s.settimeout(0.02)
    heard, number = time.monotonic(), 0
    while not is_over():
        number += 1
        s.sendto(b'%d' % number, server)
        try:
            while True:
                s.recv(100)
                took('silence', heard)
                heard = time.monotonic()
        except OSError:
            pass
def guard(run):
    try:
        run()
    except Exception as error:
        problems.append(repr(error))
threads = [threading.Thread(target=guard, args=(run,)) for run in (stream, new, datagrams)]
[it.start() for it in threads]
[it.join() for it in threads]
print('; '.join(problems) or 'all came back', {k: round(v, 3) for k, v in longest.items()})
";
