//! A host that registers: `hawser-sip` with a socket and a clock.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant as Clock};

use bytes::Bytes;
use hawser_sip::Message;
use hawser_sip::agent::{CareOf, Registration, RegistrationConfig, RegistrationEvent};
use hawser_sip::digest::{Algorithm, Answerer};
use hawser_sip::fields::{CallId, Q, Transport, Via};
use hawser_sip::framer::{Framed, Framer};
use hawser_sip::message::{Datagram, Limits, read_datagram};
use hawser_sip::transaction::{Config, Event, Flow, Transactions};
use hawser_sip::uri::{SipUri, Uri};
use hawser_types::Instant;

use super::server::Kamailio;

#[derive(Clone, Copy)]
pub(crate) enum Over {
    Udp,
    Tcp,
}

enum Socket {
    Udp(UdpSocket),
    Tcp(TcpStream, Framer),
}

/// One host, or one link of it.
pub(crate) struct Host {
    socket: Socket,
    registration: Registration,
    transactions: Transactions,
    started: Clock,
    branches: u32,
    name: String,
}

impl Host {
    /// Makes a host of `alice`.
    pub(crate) fn new(kamailio: &Kamailio, over: Over, password: &str, weakest: Algorithm) -> Self {
        Self::build(
            kamailio,
            over,
            Answerer::new("alice", password, weakest),
            None,
        )
    }

    /// Makes a link of a host of `alice`.
    pub(crate) fn link(kamailio: &Kamailio, instance: &str, number: u32) -> Self {
        let answerer = Answerer::new("alice", "a", Algorithm::Sha256);
        let outbound = Some((instance.to_owned(), number));
        Self::build(kamailio, Over::Udp, answerer, outbound)
    }

    fn build(
        kamailio: &Kamailio,
        over: Over,
        answerer: Answerer,
        outbound: Option<(String, u32)>,
    ) -> Self {
        static HOSTS: AtomicU32 = AtomicU32::new(0);
        let number = HOSTS.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}-{number}", std::process::id());
        let socket = match over {
            Over::Udp => {
                let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
                socket.connect(kamailio.address).unwrap();
                Socket::Udp(socket)
            }
            Over::Tcp => {
                let stream = TcpStream::connect(kamailio.address).unwrap();
                Socket::Tcp(stream, Framer::new(Limits::default()))
            }
        };
        let config = RegistrationConfig {
            registrar: uri("sip:example.org"),
            address: uri("sip:alice@example.org"),
            call_id: CallId::new(&format!("call-{name}")).unwrap(),
            tag: format!("tag-{name}"),
            lifetime: Duration::from_secs(600),
            outbound,
        };
        Self {
            socket,
            registration: Registration::new(config, Some(answerer)),
            transactions: Transactions::new(Config::new("host")),
            started: Clock::now(),
            branches: 0,
            name,
        }
    }

    /// Sets the care-of addresses with their shares in thousandths.
    pub(crate) fn set_contacts(&mut self, contacts: &[(&str, u16)]) {
        let contacts = contacts.iter().map(|(text, thousandths)| CareOf {
            uri: uri(text),
            q: Q::from_thousandths(*thousandths).unwrap(),
        });
        let now = self.now();
        self.registration.set_contacts(now, contacts.collect());
    }

    /// Returns the next event of the registration.
    pub(crate) fn settle(&mut self) -> RegistrationEvent {
        loop {
            if let Some(event) = self.registration.poll_event() {
                return event;
            }
            let now = self.now();
            let flow = self.flow();
            let via = self.via();
            if let Some(request) = self.registration.poll_request(now, &via, &self.name) {
                self.transactions.send(now, flow, request).unwrap();
            }
            self.transactions.handle_timeout(now);
            while let Some(transmit) = self.transactions.poll_transmit() {
                self.write(&transmit.bytes);
            }
            while let Some(event) = self.transactions.poll_event() {
                match event {
                    Event::Response { response, .. } => {
                        self.registration.handle_response(now, &response);
                    }
                    Event::Failed { .. } => self.registration.handle_failure(now),
                    other => panic!("{other:?}"),
                }
            }
            self.wait();
        }
    }

    fn now(&self) -> Instant {
        let nanos = self.started.elapsed().as_nanos();
        Instant::from_nanos(1_000_000_000 + u64::try_from(nanos).unwrap())
    }

    fn flow(&self) -> Flow {
        Flow {
            number: 1,
            is_reliable: matches!(self.socket, Socket::Tcp(..)),
        }
    }

    fn via(&mut self) -> Via {
        self.branches += 1;
        let (transport, own) = match &self.socket {
            Socket::Udp(socket) => (Transport::Udp, socket.local_addr()),
            Socket::Tcp(stream, _) => (Transport::Tcp, stream.local_addr()),
        };
        let own = own.unwrap();
        let mut via = Via::new(transport, own.ip().into(), Some(own.port()));
        let branch = format!("z9hG4bK-{}-{}", self.name, self.branches);
        via.params.set("branch", &branch);
        via.params.set_flag("rport");
        via
    }

    fn write(&mut self, bytes: &Bytes) {
        match &mut self.socket {
            Socket::Udp(socket) => assert_eq!(socket.send(bytes).unwrap(), bytes.len()),
            Socket::Tcp(stream, _) => stream.write_all(bytes).unwrap(),
        }
    }

    /// Waits for a message until a timer is due.
    fn wait(&mut self) {
        let due = [
            self.registration.poll_timeout(),
            self.transactions.poll_timeout(),
        ];
        let Some(due) = due.into_iter().flatten().min() else {
            return;
        };
        let (now, flow) = (self.now(), self.flow());
        let pause = due.since(now);
        // Pending events of the registration are handled first.
        if pause.is_zero() {
            return;
        }
        for message in self.read(pause.min(Duration::from_millis(100))) {
            self.transactions.handle_message(self.now(), flow, message);
        }
    }

    fn read(&mut self, pause: Duration) -> Vec<Message> {
        let mut buffer = [0; 65536];
        let read = match &mut self.socket {
            Socket::Udp(socket) => {
                socket.set_read_timeout(Some(pause)).unwrap();
                socket.recv(&mut buffer)
            }
            Socket::Tcp(stream, _) => {
                stream.set_read_timeout(Some(pause)).unwrap();
                stream.read(&mut buffer)
            }
        };
        let length = match read {
            Ok(length) => length,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Vec::new();
            }
            Err(error) => panic!("{error}"),
        };
        let bytes = Bytes::copy_from_slice(&buffer[..length]);
        match &mut self.socket {
            Socket::Udp(_) => match read_datagram(&bytes, &Limits::default()).unwrap() {
                Datagram::Message { message, .. } => vec![message],
                Datagram::KeepAlive => Vec::new(),
            },
            Socket::Tcp(_, framer) => {
                assert!(length > 0, "kamailio has closed the connection");
                framer.push(&bytes);
                let framed = std::iter::from_fn(|| framer.poll());
                let messages = framed.filter_map(|framed| match framed {
                    Framed::Message(message) => Some(message),
                    Framed::LineEnd | Framed::Ping => None,
                    Framed::Malformed(malformed) => panic!("{malformed}"),
                });
                messages.collect()
            }
        }
    }
}

fn uri(text: &str) -> SipUri {
    let uri: Uri = text.parse().unwrap();
    uri.as_sip().unwrap().clone()
}
