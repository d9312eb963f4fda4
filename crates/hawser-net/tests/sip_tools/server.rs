//! A registrar on a socket.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant as Clock};

use bytes::Bytes;
use hawser_sip::digest::{Algorithm, Secret, Verifier};
use hawser_sip::message::{Datagram, Limits, read_datagram};
use hawser_sip::registrar::{LocationLimits, Registrar, Users};
use hawser_sip::transaction::{Config, Event, Flow, Transactions};
use hawser_types::Instant;

pub(crate) struct Server {
    address: SocketAddr,
    started: Clock,
    registrar: Arc<Mutex<Registrar>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Alice, whose password is `a`.
struct Alice;

impl Users for Alice {
    fn secret(&self, username: &str, algorithm: Algorithm) -> Option<Secret> {
        let is_known = username == "alice";
        is_known.then(|| Secret::new(algorithm, "alice", "127.0.0.1", "a"))
    }

    fn may_register(&self, username: &str, address_of_record: &str) -> bool {
        username == "alice" && address_of_record == "sip:alice@127.0.0.1"
    }
}

impl Server {
    pub(crate) fn start() -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = socket.local_addr().unwrap();
        // Old programs know MD5 only.
        let lifetime = Duration::from_secs(300);
        let verifier = Verifier::new("127.0.0.1", &[9; 32], lifetime, &[Algorithm::Md5]);
        let domains = vec!["127.0.0.1".parse().unwrap()];
        let limits = LocationLimits::default();
        let registrar = Registrar::new(domains, verifier, limits, "registrar");
        let registrar = Arc::new(Mutex::new(registrar));
        let is_over = Arc::new(AtomicBool::new(false));
        let started = Clock::now();
        let (own, ends) = (Arc::clone(&registrar), Arc::clone(&is_over));
        let thread = std::thread::spawn(move || serve(&socket, started, &own, &ends));
        Self {
            address,
            started,
            registrar,
            is_over,
            thread: Some(thread),
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where somebody is.
    pub(crate) fn contacts(&self, user: &str) -> Vec<String> {
        let registrar = self.registrar.lock().unwrap();
        let name = format!("sip:{user}@127.0.0.1");
        let found = registrar.location().lookup(now(self.started), &name);
        let uris = found.iter().map(|binding| binding.contact.uri.to_string());
        uris.collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let thread = self.thread.take().unwrap().join();
        if !std::thread::panicking() {
            thread.unwrap();
        }
    }
}

fn serve(socket: &UdpSocket, started: Clock, registrar: &Mutex<Registrar>, is_over: &AtomicBool) {
    let mut transactions = Transactions::new(Config::new("server"));
    let mut flows: Vec<SocketAddr> = Vec::new();
    let mut buffer = [0; 65536];
    socket
        .set_read_timeout(Some(Duration::from_millis(20)))
        .unwrap();
    while !is_over.load(Ordering::Relaxed) {
        let received = socket.recv_from(&mut buffer);
        let now = now(started);
        if let Ok((length, source)) = received {
            let number = flows.iter().position(|flow| *flow == source);
            let number = number.unwrap_or_else(|| {
                flows.push(source);
                flows.len() - 1
            });
            let flow = Flow {
                number: number as u64,
                is_reliable: false,
            };
            let bytes = Bytes::copy_from_slice(&buffer[..length]);
            match read_datagram(&bytes, &Limits::default()) {
                Ok(Datagram::Message { message, .. }) => {
                    transactions.handle_message(now, flow, message);
                }
                Ok(Datagram::KeepAlive) => {}
                Err(malformed) => {
                    if let Some(answer) = malformed.answer("server") {
                        socket.send_to(&answer.to_bytes(), source).unwrap();
                    }
                }
            }
        }
        transactions.handle_timeout(now);
        while let Some(event) = transactions.poll_event() {
            if let Event::Request {
                id, flow, request, ..
            } = event
            {
                let source = flows[flow.number as usize].ip();
                let mut registrar = registrar.lock().unwrap();
                let answer = registrar.handle_register(now, source, &request, &Alice);
                transactions.respond(now, id, &answer).unwrap();
            }
        }
        while let Some(transmit) = transactions.poll_transmit() {
            let to = flows[transmit.flow.number as usize];
            socket.send_to(&transmit.bytes, to).unwrap();
        }
    }
}

fn now(started: Clock) -> Instant {
    let nanos = started.elapsed().as_nanos();
    Instant::from_nanos(1_000_000_000 + u64::try_from(nanos).unwrap())
}
