//! Cost of monitoring: a measurement, which prints and asserts no time.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use hawser_skip::namespace::in_namespace;

use super::choice::gateway;
use super::connections::{connect_many, links, run, serve_echo};
use super::program::{Daemon, Place, until};
use super::web::{exchange, token, web};

#[test]
#[ignore = "measures for minutes and asserts no time: cargo xtask cost"]
fn what_looking_costs() {
    in_namespace("cost::what_looking_costs", || {
        let names: Vec<String> = (0..LINKS).map(|number| format!("link{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let (place, neighbour) = (Place::new(), links(&names));
        serve_echo(&neighbour);
        let gateway = gateway(&place, &neighbour);
        let invite = place.invite();
        let listen = ["up", "--listen", "127.0.0.1:0", "--web", "127.0.0.1:0"];
        let arguments = [&listen[..], &["--gateway", &invite]].concat();
        let up = place.start("client", &arguments);
        let are_up = || {
            let status = place.status("client").unwrap();
            let paths = status["sessions"][0]["paths"].as_array();
            let paths = paths.into_iter().flatten();
            paths.filter(|path| path["state"] == "up").count() == LINKS
        };
        until("every link is in the session", are_up, || up.log());
        let proxy = up.listen(&place).unwrap().parse().unwrap();
        run(async {
            let streams = connect_many(proxy, STREAMS, Duration::from_millis(10)).await;
            assert_eq!(streams.len(), STREAMS, "{}", up.log());
            measure(&place, &[up, gateway]);
        });
    });
}

/// Prints the table.
fn measure(place: &Place, ends: &[Daemon; 2]) {
    let build = if cfg!(debug_assertions) {
        "not optimised"
    } else {
        "optimised"
    };
    let seconds = SPAN.as_secs();
    println!("{LINKS} links, {STREAMS} streams that move nothing, {seconds} s each, {build}");
    println!("part of a core:              client  gateway  answers");
    row("no client asks", ends, || {
        std::thread::sleep(SECOND);
        0
    });
    let mut socket = Socket::open(place);
    let before = processor_time(&ends[0]);
    socket.ask(STATUS);
    let first = processor_time(&ends[0]) - before;
    row("the status each second", ends, || socket.ask(STATUS));
    row("without sessions", ends, || socket.ask(WITHOUT_SESSIONS));
    let (web, token) = (web(place, "client").unwrap(), token(place, "client"));
    row("the metrics each second", ends, || {
        let (status, body) = exchange(&web, &token, "GET /metrics", "");
        assert_eq!(status, 200, "{body}");
        std::thread::sleep(SECOND);
        body.len()
    });
    let mut feed = follow(&web, &token);
    row("a dashboard", ends, || read_on(&mut feed));
    println!(
        "the first status, for which the programs of all streams are found: {:.0} ms",
        first * 1e3
    );
}

/// Prints the part of a processor that both ends use while `work` is repeated, and the bytes that
/// it returns.
fn row(what: &str, ends: &[Daemon; 2], mut work: impl FnMut() -> usize) {
    let (begun, before) = (Instant::now(), ends.each_ref().map(processor_time));
    let mut bytes = 0;
    while begun.elapsed() < SPAN {
        bytes += work();
    }
    let span = begun.elapsed().as_secs_f64();
    let after = ends.each_ref().map(processor_time);
    let share = |end: usize| (after[end] - before[end]) / span * 100.0;
    let (client, gateway) = (share(0), share(1));
    let rate = bytes as f64 / span / 1e3;
    println!("{what:<27} {client:>5.2} %  {gateway:>5.2} %  {rate:>5.1} kB/s");
}

/// A connection to the client's control socket.
struct Socket {
    stream: UnixStream,
    answers: BufReader<UnixStream>,
}

impl Socket {
    fn open(place: &Place) -> Self {
        let stream = UnixStream::connect(place.path("client/control.sock")).unwrap();
        let answers = BufReader::new(stream.try_clone().unwrap());
        Self { stream, answers }
    }

    /// Sends a request, and rests for a second; returns the length of the answer.
    fn ask(&mut self, request: &str) -> usize {
        let mut answer = String::new();
        writeln!(self.stream, "{request}").unwrap();
        self.answers.read_line(&mut answer).unwrap();
        std::thread::sleep(SECOND);
        answer.len()
    }
}

/// Opens the feed that a dashboard shows.
fn follow(web: &str, token: &str) -> TcpStream {
    let mut stream = TcpStream::connect(web).unwrap();
    write!(
        stream,
        "GET /api/v1/feed HTTP/1.1\r\nHost: {web}\r\nAuthorization: Bearer {token}\r\n\r\n"
    )
    .unwrap();
    stream.set_read_timeout(Some(SECOND)).unwrap();
    stream
}

/// Reads for a second; returns the number of bytes.
fn read_on(feed: &mut TcpStream) -> usize {
    let (begun, mut buffer, mut bytes) = (Instant::now(), vec![0; 64 * 1024], 0);
    while begun.elapsed() < SECOND {
        // Nothing comes within the second, or something does.
        if let Ok(read) = feed.read(&mut buffer) {
            assert!(read > 0, "the feed has ended");
            bytes += read;
        }
    }
    bytes
}

/// Returns the processor time of a daemon in seconds.
fn processor_time(daemon: &Daemon) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{}/stat", daemon.process())).unwrap();
    // Behind the name, which may hold blanks: utime and stime are the 14th and 15th of all.
    let rest = text.rsplit_once(')').unwrap().1;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks: f64 = fields[11..13]
        .iter()
        .map(|it| it.parse::<f64>().unwrap())
        .sum();
    ticks / rustix::param::clock_ticks_per_second() as f64
}

const STATUS: &str = r#"{"api":1,"request":"status"}"#;
const WITHOUT_SESSIONS: &str = r#"{"api":1,"request":"status","sessions":0,"streams":0}"#;
const LINKS: usize = 10;
const STREAMS: usize = 500;
const SPAN: Duration = Duration::from_secs(30);
const SECOND: Duration = Duration::from_secs(1);
