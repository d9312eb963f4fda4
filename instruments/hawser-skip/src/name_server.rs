//! A small name server for tests, which runs in a [`Neighbour`]. All functions panic on errors, as
//! tests do.

use std::env;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, Ipv6Addr, TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Stdio};
use std::thread;

use crate::namespace::Neighbour;

/// A process that answers on port 53, until this is dropped.
///
/// The process is the test's own program, run for the same test, which therefore calls
/// [`serve_names_if_asked`] first.
pub struct NameServer(Child);

impl NameServer {
    /// Starts one in `neighbour` for the test `test`, which is one in a namespace.
    ///
    /// `zone` has entries `NAME=WHAT`, separated by commas: `WHAT` is an address; `cut:` and an
    /// address, for an answer that does not fit a datagram; `broken`, for a server that fails; or
    /// `silent`. A name may have several. Other names do not exist.
    pub fn start(neighbour: &Neighbour, test: &str, zone: &str) -> Self {
        let program = env::current_exe().unwrap();
        let mut child = neighbour
            .command(program.to_str().unwrap())
            .args(["--exact", test, "--include-ignored", "--nocapture"])
            .env(ZONE, zone)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut said = said.map_while(Result::ok);
        assert!(said.any(|line| line.contains(READY)), "no name server");
        // The test program continues to print its state, and would end if that were not read.
        thread::spawn(move || said.for_each(drop));
        Self(child)
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Serves names and never returns, in the process that [`NameServer::start`] makes.
pub fn serve_names_if_asked() {
    let Ok(zone) = env::var(ZONE) else {
        return;
    };
    let everywhere = (Ipv6Addr::UNSPECIFIED, 53);
    let socket = UdpSocket::bind(everywhere).unwrap();
    let listener = TcpListener::bind(everywhere).unwrap();
    println!("{READY}");
    let copy = zone.clone();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let _ = serve_stream(&copy, stream.unwrap());
        }
    });
    let mut buffer = [0; 2048];
    loop {
        let (length, from) = socket.recv_from(&mut buffer).unwrap();
        if let Some(answer) = answer(&zone, &buffer[..length], false) {
            let _ = socket.send_to(&answer, from);
        }
    }
}

fn serve_stream(zone: &str, mut stream: TcpStream) -> std::io::Result<()> {
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut query = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut query)?;
    let answer = answer(zone, &query, true).unwrap_or_default();
    stream.write_all(&(answer.len() as u16).to_be_bytes())?;
    stream.write_all(&answer)
}

/// The answer to `query`, a message with one question.
fn answer(zone: &str, query: &[u8], is_stream: bool) -> Option<Vec<u8>> {
    let (mut labels, mut at) = (Vec::new(), 12);
    while query[at] > 0 {
        let end = at + 1 + usize::from(query[at]);
        labels.push(std::str::from_utf8(&query[at + 1..end]).unwrap());
        at = end;
    }
    let name = labels.join(".").to_lowercase();
    let (kind, end) = (query[at + 2], at + 5);
    let entries = zone.split(',').filter_map(|entry| entry.split_once('='));
    let entries: Vec<&str> = entries
        .filter_map(|(own, what)| (own == name).then_some(what))
        .collect();
    if entries.contains(&"silent") {
        return None;
    }
    let is_cut = !is_stream && entries.iter().any(|what| what.starts_with("cut:"));
    let code = match (entries.is_empty(), entries.contains(&"broken")) {
        (true, _) => 3,
        (_, true) => 2,
        _ => 0,
    };
    let mut out = query[..end].to_vec();
    out[2..4].copy_from_slice(&[0x81 | (u8::from(is_cut) << 1), 0x80 | code]);
    // One question, and whatever follows it is left out.
    out[4..12].copy_from_slice(&[0, 1, 0, 0, 0, 0, 0, 0]);
    for what in entries.iter().filter(|_| !is_cut && code == 0) {
        let address: IpAddr = what.strip_prefix("cut:").unwrap_or(what).parse().unwrap();
        let (own, data) = match address {
            IpAddr::V4(address) => (1, address.octets().to_vec()),
            IpAddr::V6(address) => (28, address.octets().to_vec()),
        };
        if own == kind {
            out[7] += 1;
            // The name of the question, class IN, a minute.
            out.extend_from_slice(&[0xc0, 12, 0, own, 0, 1, 0, 0, 0, 60, 0, data.len() as u8]);
            out.extend_from_slice(&data);
        }
    }
    Some(out)
}

const ZONE: &str = "HAWSER_TEST_NAME_SERVER";
const READY: &str = "names are served";
