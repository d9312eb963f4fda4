//! What it costs to be looked at: a measurement, which prints and asserts no time.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use hawser_skip::namespace::in_namespace;

use super::choice::gateway;
use super::connections::{connect_many, links, run, serve_echo};
use super::program::{Daemon, Place, until};

#[test]
#[ignore = "measures for minutes and asserts no time: cargo xtask cost"]
fn what_looking_costs() {
    in_namespace("cost::what_looking_costs", || {
        let names: Vec<String> = (0..LINKS).map(|number| format!("link{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let (place, neighbour) = (Place::new(), links(&names));
        serve_echo(&neighbour);
        let gateway = gateway(&place, &neighbour);
        let arguments = [
            "up",
            "--listen",
            "127.0.0.1:0",
            "--gateway",
            &place.invite(),
        ];
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
            print("nobody asks", &up, &gateway, || std::thread::sleep(SECOND));
            let mut socket = UnixStream::connect(place.path("client/control.sock")).unwrap();
            let mut answers = BufReader::new(socket.try_clone().unwrap());
            let mut answer = String::new();
            print("asked for the status each second", &up, &gateway, || {
                answer.clear();
                writeln!(socket, r#"{{"api":1,"request":"status"}}"#).unwrap();
                answers.read_line(&mut answer).unwrap();
                std::thread::sleep(SECOND);
            });
            println!("an answer has {} bytes", answer.len());
            println!("{}", place.run("gateway", &["links"]).out);
            println!("{}", place.run("client", &["links"]).out);
        });
    });
}

/// Prints what part of a processor both ends take while `work` is done again and again.
fn print(what: &str, up: &Daemon, gateway: &Daemon, mut work: impl FnMut()) {
    let (begun, before) = (Instant::now(), [up, gateway].map(processor_time));
    while begun.elapsed() < SPAN {
        work();
    }
    let span = begun.elapsed().as_secs_f64();
    let after = [up, gateway].map(processor_time);
    let share = |end: usize| (after[end] - before[end]) / span * 100.0;
    println!(
        "{what}: client {:.2} %, gateway {:.2} % of a core",
        share(0),
        share(1)
    );
}

/// The processor time of a daemon in seconds.
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

const LINKS: usize = 10;
const STREAMS: usize = 500;
const SPAN: Duration = Duration::from_secs(30);
const SECOND: Duration = Duration::from_secs(1);
