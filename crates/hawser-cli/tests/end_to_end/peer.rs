//! A destination that runs Hawser itself, found while connections to it are opened.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use hawser_skip::namespace::{Neighbour, in_namespace};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::connections::{serve_echo, two_links};
use super::program::{Daemon, Place, until};

#[test]
fn later_connections_to_a_peer_are_bonded_and_refused_when_it_is_silent() {
    in_namespace(
        "peer::later_connections_to_a_peer_are_bonded_and_refused_when_it_is_silent",
        || {
            let scene = Scene::new("60s");
            scene.enrol();
            let (peer, up) = (scene.serve(), scene.up());
            let mut first = scene.connection(&up);
            assert_eq!(scene.streams(), 0, "{}", up.log());
            until("one is bonded", || scene.is_bonded(&up), || up.log());
            echo(&mut first).unwrap();

            // As if a firewall on the path had dropped the peer's port. The service still answers.
            drop(peer);
            assert_ne!(scene.connect(&up).1, 0, "{}", up.log());
            assert!(
                up.log().contains("refusing connections to it"),
                "{}",
                up.log()
            );
            let is_told = || scene.not_bonded().contains("10.99.0.1:7443");
            until("the status has it", is_told, || up.log());
            echo(&mut first).unwrap();

            let _peer = scene.serve();
            let is_bonded = || scene.connect(&up).1 == 0;
            until("the peer carries connections again", is_bonded, || up.log());
            assert!(!scene.not_bonded().contains("10.99.0.1:7443"));
            up.end();
        },
    );
}

#[test]
fn plain_tcp_in_place_of_a_silent_peer_is_for_who_allows_it() {
    in_namespace(
        "peer::plain_tcp_in_place_of_a_silent_peer_is_for_who_allows_it",
        || {
            let scene = Scene::with("peer-fallback = true");
            scene.enrol();
            let (peer, up) = (scene.serve(), scene.up());
            let _first = scene.connection(&up);
            until("one is bonded", || scene.is_bonded(&up), || up.log());
            drop(peer);
            let mut next = scene.connection(&up);
            echo(&mut next).unwrap();
            assert!(up.log().contains("go over plain TCP"), "{}", up.log());
            up.end();
        },
    );
}

#[test]
fn a_peer_that_runs_later_is_found_and_a_portal_is_not_taken_for_one() {
    in_namespace(
        "peer::a_peer_that_runs_later_is_found_and_a_portal_is_not_taken_for_one",
        || {
            let scene = Scene::new("1s");
            scene.enrol();
            let (portal, up) = (Portal::start(&scene.neighbour), scene.up());
            let mut old = scene.connection(&up);
            until("the portal was asked", || portal.asked() > 0, || up.log());
            // What it said is known when it is asked again.
            let again = || !scene.is_bonded(&up) && portal.asked() > 1;
            until("the portal was asked again", again, || up.log());
            assert_eq!(scene.sessions(), 0, "{}", up.log());

            portal.stop();
            let _peer = scene.serve();
            until("one is bonded", || scene.is_bonded(&up), || up.log());
            echo(&mut old).unwrap();
            up.end();
        },
    );
}

#[test]
fn a_program_that_is_run_is_bonded_to_a_peer_as_well() {
    in_namespace(
        "peer::a_program_that_is_run_is_bonded_to_a_peer_as_well",
        || {
            let scene = Scene::new("1s");
            scene.enrol();
            let _peer = scene.serve();
            let log = scene.place.path("run.log");
            let mut command = Command::new(env!("CARGO_BIN_EXE_hawser"));
            command.arg("--state").arg(scene.place.path("client"));
            command.arg("--config").arg(scene.place.path("client.toml"));
            command.args(["run", "--via", "shim", "--", "bash", "-c", ASK_AGAIN]);
            command.stdin(Stdio::piped()).stdout(Stdio::null());
            let mut run = command.stderr(File::create(&log).unwrap()).spawn().unwrap();
            let said = || std::fs::read_to_string(&log).unwrap_or_default();
            until("one is bonded", || scene.streams_of("peer") > 0, said);
            // It ends with its input, and with success if all it asked was answered.
            drop(run.stdin.take());
            assert!(run.wait().unwrap().success(), "{}", said());
        },
    );
}

/// Reconnects as long as there is input, and gets its own data back each time.
const ASK_AGAIN: &str = "while read -t 0.1; [ $? -gt 128 ]; do \
    exec 3<>/dev/tcp/10.99.0.1/7000 && printf x >&3 && read -N 1 answer <&3 && [ $answer = x ] || exit 1; done";

/// A client with two links, and a server in the neighbourhood where a peer may run.
struct Scene {
    place: Place,
    neighbour: Neighbour,
}

impl Scene {
    fn new(retry: &str) -> Self {
        Self::with(&format!("peer-retry = \"{retry}\""))
    }

    /// Creates a client with these settings of connections.
    fn with(settings: &str) -> Self {
        let (place, neighbour) = (Place::new(), two_links());
        serve_echo(&neighbour);
        let config = format!("[connection]\n{settings}\n");
        std::fs::write(place.path("client.toml"), config).unwrap();
        Self { place, neighbour }
    }

    /// Starts the peer, and waits until it listens.
    fn serve(&self) -> Killed {
        let invite = self.place.path("invite");
        let _ = std::fs::remove_file(&invite);
        let mut command = self.neighbour.command(env!("CARGO_BIN_EXE_hawser"));
        command.arg("--state").arg(self.place.path("peer"));
        command.args([
            "serve",
            "--listen",
            "0.0.0.0:7443",
            "--advertise",
            "10.99.0.1",
        ]);
        command.args(["--allow-destination", "10.99.0.1/32", "--invite-file"]);
        let log = File::create(self.place.path("peer.log")).unwrap();
        let child = command.arg(&invite).stdout(Stdio::null()).stderr(log);
        let peer = Killed(child.spawn().unwrap());
        until("the peer has started", || invite.exists(), String::new);
        peer
    }

    /// Makes the peer and the client know each other; then both end.
    fn enrol(&self) {
        let _peer = self.serve();
        let invite = self.place.invite();
        let arguments = ["up", "--listen", "127.0.0.1:0", "--peer", &invite];
        let up = self.place.start("client", &arguments);
        let is_enrolled = || up.log().contains("enrolled with the peer");
        until("they know each other", is_enrolled, || up.log());
        up.end();
    }

    fn up(&self) -> Daemon {
        let config = self.place.path("client.toml");
        let arguments = ["up", "--listen", "127.0.0.1:0", "--config"];
        let config = [config.to_str().unwrap()];
        self.place
            .start("client", &[&arguments[..], &config].concat())
    }

    /// A new connection through the proxy, by SOCKS5, that carries data.
    fn connection(&self, up: &Daemon) -> TcpStream {
        let (mut stream, code) = self.connect(up);
        assert_eq!(code, 0, "{}", up.log());
        echo(&mut stream).unwrap();
        stream
    }

    /// Does the same, successfully or not, and returns the proxy's answer.
    fn connect(&self, up: &Daemon) -> (TcpStream, u8) {
        let mut stream = TcpStream::connect(up.listen(&self.place).unwrap()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(&[5, 1, 0]).unwrap();
        stream.read_exact(&mut [0; 2]).unwrap();
        let port = 7000_u16.to_be_bytes();
        let request = [5, 1, 0, 1, 10, 99, 0, 1, port[0], port[1]];
        stream.write_all(&request).unwrap();
        let mut reply = [0; 10];
        stream.read_exact(&mut reply).unwrap();
        (stream, reply[1])
    }

    /// Returns the destinations without a session although they were seen to run Hawser.
    fn not_bonded(&self) -> String {
        let status = self.place.status("client").unwrap();
        status["connections"]["not_bonded"].to_string()
    }

    /// Whether a new connection is bonded.
    fn is_bonded(&self, up: &Daemon) -> bool {
        let _stream = self.connection(up);
        self.streams() == 1
    }

    fn sessions(&self) -> usize {
        let status = self.place.status("client").unwrap();
        status["sessions"].as_array().unwrap().len()
    }

    /// Streams that are open in sessions.
    fn streams(&self) -> usize {
        self.streams_of("client")
    }

    fn streams_of(&self, state: &str) -> usize {
        let status = self.place.status(state);
        let sessions = status.iter().flat_map(|it| it["sessions"].as_array());
        let streams = sessions.flatten().map(|it| it["streams"].as_array());
        streams.flatten().map(Vec::len).sum()
    }
}

fn echo(stream: &mut TcpStream) -> io::Result<()> {
    stream.write_all(b"x")?;
    stream.read_exact(&mut [0])
}

/// A process that is killed when dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server on the reserved port that accepts every client and answers as portals do.
struct Portal {
    /// Number of requests.
    asked: Arc<AtomicUsize>,
    thread: JoinHandle<()>,
}

impl Portal {
    fn start(neighbour: &Neighbour) -> Self {
        let namespace = File::open(format!("/proc/{}/ns/net", neighbour.process())).unwrap();
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let (ready, is_ready) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            let listener = TcpListener::bind("10.99.0.1:7443").unwrap();
            listener.set_nonblocking(true).unwrap();
            ready.send(()).unwrap();
            while count.load(Ordering::Relaxed) < STOP {
                match listener.accept() {
                    Ok((mut stream, _)) => {
                        count.fetch_add(1, Ordering::Relaxed);
                        let _ = stream.write_all(b"HTTP/1.1 302 Found\r\nLocation: /\r\n\r\n");
                    }
                    Err(_) => std::thread::sleep(Duration::from_millis(5)),
                }
            }
        });
        is_ready.recv().unwrap();
        Self { asked, thread }
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    fn stop(self) {
        self.asked.fetch_add(STOP, Ordering::Relaxed);
        self.thread.join().unwrap();
    }
}

const STOP: usize = 1 << 32;
const PATIENCE: Duration = Duration::from_secs(30);
