//! Traffic of hosts, and the server's end of it: threads of the lab, each in its host's network.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::hosts::host;
use crate::netns::NetNs;
use crate::topology::{Lab, LabLink, SERVER};

/// What a host asks of others, one after another, and how often it was answered.
#[derive(Clone, Debug, Default)]
pub(super) struct Asked {
    pub(super) asked: usize,
    /// Seconds until each answer.
    pub(super) answers: Vec<f64>,
}

/// The server host's ends, until they are told to stop.
pub(super) struct Servers {
    sink: TcpListener,
    echo: UdpSocket,
    /// At the address of the server host and at those of the links' routers.
    names: Vec<UdpSocket>,
}

impl Servers {
    pub(super) fn new(lab: &Lab) -> io::Result<Self> {
        lab.server().run(|| {
            let sink = TcpListener::bind((SERVER, BULK))?;
            sink.set_nonblocking(true)?;
            let at = |address: Ipv4Addr, port: u16| {
                let socket = UdpSocket::bind((address, port))?;
                socket.set_read_timeout(Some(LOOK))?;
                io::Result::Ok(socket)
            };
            let routers = lab.links().iter().map(LabLink::gateway);
            let servers = routers.chain([SERVER]);
            Ok(Self {
                sink,
                echo: at(SERVER, ECHO)?,
                names: servers.map(|it| at(it, NAMES)).collect::<Result<_, _>>()?,
            })
        })
    }

    /// Answers until `stop`.
    pub(super) fn serve(&self, stop: &AtomicBool) {
        std::thread::scope(|scope| {
            scope.spawn(|| answer(&self.echo, stop, |question| question.to_vec()));
            for names in &self.names {
                scope.spawn(|| answer(names, stop, named));
            }
            while !stop.load(Ordering::Relaxed) {
                match self.sink.accept() {
                    Ok((stream, _)) => drop(scope.spawn(|| fill(stream, stop))),
                    Err(_) => std::thread::sleep(LOOK / 10),
                }
            }
        });
    }
}

/// Sends as fast as it may.
fn fill(mut stream: TcpStream, stop: &AtomicBool) {
    let block = vec![0; 64 << 10];
    let _ = stream.set_nonblocking(false);
    let _ = stream.set_write_timeout(Some(LOOK));
    while !stop.load(Ordering::Relaxed) {
        match stream.write(&block) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return,
            _ => {}
        }
    }
}

fn answer(socket: &UdpSocket, stop: &AtomicBool, answer: impl Fn(&[u8]) -> Vec<u8>) {
    let mut question = vec![0; 2048];
    while !stop.load(Ordering::Relaxed) {
        if let Ok((length, from)) = socket.recv_from(&mut question) {
            let _ = socket.send_to(&answer(&question[..length]), from);
        }
    }
}

/// The answer that every name has one and the same address.
fn named(question: &[u8]) -> Vec<u8> {
    let mut answer = question.to_vec();
    if answer.len() > HEADER {
        let mut end = HEADER;
        while let Some(length @ 1..) = question.get(end).copied() {
            end += 1 + usize::from(length);
        }
        answer[2] |= 0x80;
        answer[7] = 1;
        // What is appended after the question would not be understood.
        answer[10..HEADER].fill(0);
        answer.truncate(end + 5);
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
        answer.extend(ADDRESS);
    }
    answer
}

/// Reads from the server over so many connections, and returns the bytes that came within `counted`
/// of `begun`.
pub(super) fn download(
    namespace: &NetNs,
    connections: usize,
    begun: Instant,
    counted: [Duration; 2],
) -> io::Result<u64> {
    let connect = || {
        (0..connections)
            .map(|_| TcpStream::connect((SERVER, BULK)))
            .collect()
    };
    let streams: Vec<TcpStream> = namespace.run(|| {
        let streams: io::Result<Vec<_>> = connect();
        streams
    })?;
    let read = |mut stream: TcpStream| {
        stream.set_read_timeout(Some(LOOK))?;
        let (mut bytes, mut block) = (0, vec![0; 64 << 10]);
        while begun.elapsed() < counted[1] {
            let length = match stream.read(&mut block) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                read => read?,
            };
            if length == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
            }
            if begun.elapsed() >= counted[0] {
                bytes += length as u64;
            }
        }
        Ok(bytes)
    };
    std::thread::scope(|scope| {
        let readers: Vec<_> = streams
            .into_iter()
            .map(|stream| scope.spawn(move || read(stream)))
            .collect();
        let died = |_| io::Error::other("a thread of a host died");
        readers
            .into_iter()
            .map(|reader| reader.join().map_err(died)?)
            .sum()
    })
}

/// A call for so long: 50 packets a second each way.
pub(super) fn call(namespace: &NetNs, span: Duration) -> io::Result<Asked> {
    let socket = open(namespace)?;
    let begun = Instant::now();
    let mut asked = Asked::default();
    let mut sent: Vec<Instant> = Vec::new();
    let mut answered: Vec<bool> = Vec::new();
    let mut packet = [0; 200];
    while begun.elapsed() < span + DRAINS {
        let due = begun + INTERVAL * asked.asked as u32;
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() && begun.elapsed() < span {
            packet[..8].copy_from_slice(&(asked.asked as u64).to_be_bytes());
            sent.push(Instant::now());
            answered.push(false);
            let _ = socket.send_to(&packet, (SERVER, ECHO));
            asked.asked += 1;
            continue;
        }
        socket.set_read_timeout(Some(left.clamp(SHORTEST, LOOK)))?;
        let mut answer = [0; 256];
        let Ok(length) = socket.recv(&mut answer) else {
            continue;
        };
        let number = answer[..length]
            .first_chunk()
            .map(|it| u64::from_be_bytes(*it));
        let number = number.map_or(usize::MAX, |number| number as usize);
        if answered.get(number) == Some(&false) {
            answered[number] = true;
            asked.answers.push(sent[number].elapsed().as_secs_f64());
        }
    }
    Ok(asked)
}

/// Asks the router and a server elsewhere for names in turns, for so long, ten times a second at
/// most.
pub(super) fn ask_names(namespace: &NetNs, span: Duration) -> io::Result<Asked> {
    let socket = open(namespace)?;
    let begun = Instant::now();
    let mut asked = Asked::default();
    while begun.elapsed() < span {
        let server = [host(0), SERVER][asked.asked % 2];
        let question = question(asked.asked);
        asked.asked += 1;
        if let Some(took) = ask(&socket, (server, NAMES).into(), &question)? {
            asked.answers.push(took.as_secs_f64());
        }
        std::thread::sleep(PAUSE);
    }
    Ok(asked)
}

/// The time until the right answer; it is asked again as resolvers do.
fn ask(socket: &UdpSocket, server: SocketAddr, question: &[u8]) -> io::Result<Option<Duration>> {
    let begun = Instant::now();
    socket.set_read_timeout(Some(RETRY))?;
    for _ in 0..RETRIES {
        socket.send_to(question, server)?;
        let mut answer = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut answer) {
            let answer = &answer[..length];
            let is_it = from == server && answer.starts_with(&question[..2]);
            if is_it && answer.ends_with(&ADDRESS) {
                return Ok(Some(begun.elapsed()));
            }
        }
    }
    Ok(None)
}

/// A query for the address of a name that was not queried before.
fn question(number: usize) -> Vec<u8> {
    let [.., high, low] = number.to_be_bytes();
    let mut question = vec![high, low, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    let process = std::process::id();
    for label in [
        format!("n{number}-{process}"),
        "example".to_owned(),
        "org".to_owned(),
    ] {
        question.push(label.len() as u8);
        question.extend(label.as_bytes());
    }
    question.extend([0, 0, 1, 0, 1]);
    question
}

fn open(namespace: &NetNs) -> io::Result<UdpSocket> {
    namespace.run(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)))
}

const BULK: u16 = 9200;
const ECHO: u16 = 9201;
const NAMES: u16 = 53;
const HEADER: usize = 12;
const ADDRESS: [u8; 4] = [192, 0, 2, 7];
const LOOK: Duration = Duration::from_millis(200);
/// Zero would be no limit.
const SHORTEST: Duration = Duration::from_micros(100);
const INTERVAL: Duration = Duration::from_millis(20);
const DRAINS: Duration = Duration::from_secs(1);
const RETRY: Duration = Duration::from_secs(2);
const RETRIES: u32 = 3;
const PAUSE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_answered_and_what_follows_the_question_is_not_repeated() {
        let plain = question(300);
        let mut extended = plain.clone();
        extended[11] = 1;
        extended.extend([0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0]);
        let answer = named(&extended);
        assert_eq!(answer, named(&plain));
        assert_eq!(answer[..2], plain[..2]);
        assert_eq!(answer[6..12], [0, 1, 0, 0, 0, 0]);
        assert_eq!(answer[12..plain.len()], plain[12..]);
        assert!(answer.ends_with(&ADDRESS));
        for length in 0..plain.len() {
            named(&plain[..length]);
        }
    }
}
