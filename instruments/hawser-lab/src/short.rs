//! Many short connections through the port: none may fail, and memory must not grow with them.

use std::io::{self, Read, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::Serialize;

use crate::cpu;
use crate::experiment::{Findings, Head};
use crate::measure::{Bench, Programs, Session, StepError, wait_for_port};
use crate::meter::socks;
use crate::process::Program;
use crate::scenario::Scenario;
use crate::topology::{Lab, SERVER};

/// Options of the experiment.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The scenario file
    #[arg(default_value = "scenarios/eq-50.toml")]
    pub(crate) scenario: PathBuf,
    /// Number of connections
    #[arg(long, default_value_t = 10_000)]
    connections: u64,
    /// Number of connections at once
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u16).range(1..=2000))]
    parallel: u16,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct ShortReport {
    #[serde(flatten)]
    head: Head,
    server: &'static str,
    connections: u64,
    parallel: usize,
    failed: u64,
    first_failures: Vec<String>,
    seconds: f64,
    median_seconds: f64,
    p99_seconds: f64,
    /// Resident memory in bytes: client and gateway, before, halfway and after.
    client_memory: [u64; 3],
    gateway_memory: [u64; 3],
}

/// Fetches a small page many times over, with logs in `folder`.
pub(crate) fn run(
    scenario: &Scenario,
    options: &Options,
    programs: &Programs,
    folder: &Path,
) -> anyhow::Result<ShortReport> {
    let parallel = usize::from(options.parallel);
    let bench = Bench::new(Lab::shaped(scenario)?, folder)?;
    let (_web, server) = start_web(&bench, folder)?;
    let mut session = Session::start(&bench, programs, 1)?;
    let [client, gateway] = session.ids();
    // What is allocated once at first use is not growth.
    let warm = fetch_all(&bench, session.socks(), parallel as u64, parallel);
    let before = [memory(client), memory(gateway)];
    let half = options.connections / 2;
    let first = fetch_all(&bench, session.socks(), half, parallel);
    let middle = [memory(client), memory(gateway)];
    let rest = options.connections - half;
    let second = fetch_all(&bench, session.socks(), rest, parallel);
    let after = [memory(client), memory(gateway)];
    session.check_alive()?;
    let mut times = [first.times, second.times].concat();
    times.sort_by(f64::total_cmp);
    let quantile = |part: f64| {
        let index = (times.len() as f64 * part) as usize;
        times
            .get(index.min(times.len().saturating_sub(1)))
            .copied()
            .unwrap_or(0.0)
    };
    let failures = [warm.failures, first.failures, second.failures].concat();
    Ok(ShortReport {
        head: Head::new("short", &scenario.name),
        server,
        connections: options.connections,
        parallel,
        failed: failures.len() as u64,
        first_failures: failures.into_iter().take(5).collect(),
        seconds: first.seconds + second.seconds,
        median_seconds: quantile(0.5),
        p99_seconds: quantile(0.99),
        client_memory: [before[0], middle[0], after[0]],
        gateway_memory: [before[1], middle[1], after[1]],
    })
}

impl Findings for ShortReport {
    fn head(&self) -> &Head {
        &self.head
    }

    fn table(&self) -> String {
        render(self)
    }

    fn failures(&self) -> Vec<String> {
        self.first_failures.clone()
    }

    fn failure_count(&self) -> usize {
        usize::try_from(self.failed).unwrap_or(usize::MAX)
    }
}

/// nginx where there is one, else the meter's own small page.
fn start_web(bench: &Bench, folder: &Path) -> Result<(Option<Program>, &'static str), StepError> {
    let mut command = bench.lab().server().command("nginx");
    let config = folder.join("nginx.conf");
    let at = folder.display();
    std::fs::write(
        &config,
        format!(
            "daemon off; pid {at}/nginx.pid; error_log stderr; events {{ worker_connections 4096; }}\n\
             http {{ access_log off; client_body_temp_path {at}/b; proxy_temp_path {at}/p; \
             fastcgi_temp_path {at}/f; uwsgi_temp_path {at}/u; scgi_temp_path {at}/s;\n\
             server {{ listen {WEB}; location / {{ return 200 \"{PAGE}\"; }} }} }}\n"
        ),
    )?;
    command.arg("-p").arg(folder).arg("-c").arg(&config);
    match Program::start("nginx", command, &folder.join("nginx.log")) {
        Ok(mut nginx) => {
            wait_for_port(&mut nginx, WEB, bench.lab().server())?;
            Ok((Some(nginx), "nginx"))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            eprintln!("no nginx here: the lab's own small server takes its place");
            let listener = bench
                .lab()
                .server()
                .run(|| std::net::TcpListener::bind(WEB))?;
            std::thread::spawn(move || {
                for connection in listener.incoming().flatten() {
                    std::thread::spawn(move || answer(connection));
                }
            });
            Ok((None, "built-in"))
        }
        Err(error) => Err(error.into()),
    }
}

fn answer(mut connection: TcpStream) -> io::Result<()> {
    connection.set_read_timeout(Some(PATIENCE))?;
    let mut request = Vec::new();
    let mut block = [0; 1024];
    while !request.windows(4).any(|part| part == b"\r\n\r\n") && request.len() < 8192 {
        match connection.read(&mut block)? {
            0 => return Ok(()),
            count => request.extend_from_slice(&block[..count]),
        }
    }
    let length = PAGE.len();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    connection.write_all(format!("{head}{PAGE}").as_bytes())
}

#[derive(Debug, Default)]
struct Fetched {
    times: Vec<f64>,
    failures: Vec<String>,
    seconds: f64,
}

fn fetch_all(bench: &Bench, socks: SocketAddrV4, connections: u64, parallel: usize) -> Fetched {
    let next = AtomicU64::new(0);
    let fetched = Mutex::new(Fetched::default());
    let start = Instant::now();
    let work = || {
        while next.fetch_add(1, Ordering::Relaxed) < connections {
            let start = Instant::now();
            let result = fetch(socks);
            let mut all = fetched.lock();
            match result {
                Ok(()) => all.times.push(start.elapsed().as_secs_f64()),
                Err(error) => all.failures.push(error.to_string()),
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        for _ in 0..parallel {
            scope.spawn(|| bench.lab().client().run(work));
        }
    });
    let mut all = fetched.into_inner();
    all.seconds = start.elapsed().as_secs_f64();
    all
}

fn fetch(port: SocketAddrV4) -> io::Result<()> {
    let mut stream = socks::open(port, WEB, PATIENCE)?;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: lab\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER).read_to_end(&mut answer)?;
    if answer.starts_with(b"HTTP/1.1 200") && answer.ends_with(PAGE.as_bytes()) {
        return Ok(());
    }
    let seen = String::from_utf8_lossy(&answer[..answer.len().min(60)]).into_owned();
    Err(io::Error::other(format!(
        "a wrong answer of {} bytes: {seen:?}",
        answer.len()
    )))
}

fn memory(process: u32) -> u64 {
    cpu::resident(process).unwrap_or(0)
}

fn render(report: &ShortReport) -> String {
    let megabytes = |memory: [u64; 3]| {
        memory
            .map(|bytes| format!("{:.1}", bytes as f64 / 1e6))
            .join(" → ")
    };
    format!(
        "{} connections to {}, {} at once, in {}: {} failed, {:.1} s, {:.0} a second\n\
         time of one: median {:.0} ms, p99 {:.0} ms\n\
         memory in MB: client {}, gateway {}\n",
        report.connections,
        report.server,
        report.parallel,
        report.head.scenario,
        report.failed,
        report.seconds,
        report.connections as f64 / report.seconds.max(1e-9),
        report.median_seconds * 1e3,
        report.p99_seconds * 1e3,
        megabytes(report.client_memory),
        megabytes(report.gateway_memory),
    )
}

const WEB: SocketAddrV4 = SocketAddrV4::new(SERVER, 8080);
const PAGE: &str = "the page of the lab, small enough for one packet";
const PATIENCE: Duration = Duration::from_secs(30);
const MAX_ANSWER: u64 = 1 << 16;
