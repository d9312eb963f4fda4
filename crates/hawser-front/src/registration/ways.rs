//! The sockets by which this host reaches a directory, one for each link.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hawser_link::bind::{DatagramSocket, SocketOptions, connect_on_link};
use hawser_link::links::Link;
use hawser_sip::agent::OwnAddress;
use hawser_sip::framer::{Framed, Framer};
use hawser_sip::message::{Datagram, Limits, read_datagram};
use hawser_sip::transaction::Flow;
use hawser_types::{LinkIndex, Rate};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::far::FarEnd;
use super::heard::{Heard, Lookup};
use super::task::Task;

/// The ways to the directory, one over each link that leads there.
pub(super) struct Ways {
    far: FarEnd,
    ways: BTreeMap<u64, DirectoryPath>,
    next: u64,
    heard: mpsc::Sender<Heard>,
}

/// A socket or a stream to the directory, over one link.
struct DirectoryPath {
    link: Link,
    to: SocketAddr,
    own: SocketAddr,
    kind: Kind,
}

enum Kind {
    Datagrams {
        socket: Arc<DatagramSocket>,
        _hearing: Task,
    },
    /// A stream, opened when there is something to send.
    Stream(Option<(mpsc::Sender<Bytes>, Task)>),
}

impl Ways {
    pub(super) fn new(far: FarEnd, heard: mpsc::Sender<Heard>) -> Self {
        Self {
            far,
            ways: BTreeMap::new(),
            next: 0,
            heard,
        }
    }

    /// Returns why no link leads to the directory, if that is known.
    pub(super) fn problem(&self) -> Option<String> {
        self.far.problem()
    }

    pub(super) fn look_up_again(&mut self) {
        self.far.look_up_again();
    }

    /// Stores the addresses of the directory's name, which [`Ways::follow`] uses.
    pub(super) fn handle_lookup(&mut self, lookup: Lookup) {
        self.far.handle_lookup(lookup);
    }

    /// Opens a way over each of `links` that leads to the directory, and closes other ways. Returns
    /// this host's addresses, without rates.
    pub(super) fn follow(&mut self, links: &[Link]) -> Vec<(LinkIndex, OwnAddress)> {
        self.far.find(links, &self.heard);
        let wanted: Vec<_> = links
            .iter()
            .filter_map(|link| Some((link, self.far.by(link)?)))
            .collect();
        self.ways.retain(|_, way| {
            let is_same = |(link, to): &(&Link, SocketAddr)| {
                let source = link.source_address(to.ip());
                link.index == way.link.index && *to == way.to && source == Some(way.own.ip())
            };
            wanted.iter().any(is_same)
        });
        for (link, to) in wanted {
            if self.ways.values().all(|way| way.link.index != link.index) {
                match self.open(link, to) {
                    Ok(()) => {}
                    Err(error) => {
                        tracing::debug!(link = link.name, %error, "can't reach the SIP directory");
                    }
                }
            }
        }
        let is_reliable = self.far.transport().is_reliable();
        let addresses = self.ways.iter().map(|(number, way)| {
            let address = OwnAddress {
                flow: Flow {
                    number: *number,
                    is_reliable,
                },
                address: way.own.ip(),
                port: way.own.port(),
                rate: Rate::ZERO,
            };
            (way.link.index, address)
        });
        addresses.collect()
    }

    /// Sends a message over a flow; returns false, and does not wait, if that fails.
    pub(super) fn send(&mut self, flow: Flow, bytes: &Bytes) -> bool {
        let tls = self.far.tls();
        let Some(way) = self.ways.get_mut(&flow.number) else {
            return false;
        };
        match &mut way.kind {
            Kind::Datagrams { socket, .. } => match socket.send(bytes) {
                Ok(()) => true,
                // The message is retransmitted anyway.
                Err(error) => error.kind() == io::ErrorKind::WouldBlock,
            },
            Kind::Stream(stream) => {
                let (writes, _) = stream.get_or_insert_with(|| {
                    let (sender, writes) = mpsc::channel(MAX_WRITES);
                    let pump = Pump {
                        flow,
                        writes,
                        heard: self.heard.clone(),
                    };
                    let run = pump.run(way.link.clone(), way.to, tls);
                    (sender, Task::spawn(run))
                });
                writes.try_send(bytes.clone()).is_ok()
            }
        }
    }

    /// Closes the stream of a way; the next message opens it again.
    pub(super) fn close(&mut self, flow: Flow) {
        if let Some(way) = self.ways.get_mut(&flow.number)
            && let Kind::Stream(stream) = &mut way.kind
        {
            *stream = None;
        }
    }

    /// Closes all streams, since the directory does not answer. The next message opens them again.
    pub(super) fn close_streams(&mut self) {
        for way in self.ways.values_mut() {
            if let Kind::Stream(stream) = &mut way.kind {
                *stream = None;
            }
        }
    }

    fn open(&mut self, link: &Link, to: SocketAddr) -> io::Result<()> {
        self.next += 1;
        let flow = Flow {
            number: self.next,
            is_reliable: self.far.transport().is_reliable(),
        };
        let (own, kind) = if flow.is_reliable {
            let source = link.source_address(to.ip());
            let source = source.ok_or(io::ErrorKind::AddrNotAvailable)?;
            // Connections have other ports here, but the directory sends calls over them.
            (
                SocketAddr::new(source, self.far.transport().default_port()),
                Kind::Stream(None),
            )
        } else {
            let socket = DatagramSocket::open(Some(link), to.ip()).map_err(io::Error::other)?;
            socket.connect(to)?;
            let (own, socket) = (socket.local_addr()?, Arc::new(socket));
            let hearing = hear(Arc::clone(&socket), flow, self.heard.clone());
            let _hearing = Task::spawn(hearing);
            (own, Kind::Datagrams { socket, _hearing })
        };
        let link = link.clone();
        self.ways.insert(
            flow.number,
            DirectoryPath {
                link,
                to,
                own,
                kind,
            },
        );
        Ok(())
    }
}

/// Forwards messages of the directory and of no other host: the socket is connected to it.
async fn hear(socket: Arc<DatagramSocket>, flow: Flow, heard: mpsc::Sender<Heard>) {
    let mut buffer = vec![0; MAX_DATAGRAM];
    loop {
        let mut read = ReadBuf::new(&mut buffer);
        let news = match poll_fn(|cx| socket.poll_receive(cx, &mut read)).await {
            Err(_) => Heard::Failed(flow),
            Ok(_) => {
                let bytes = Bytes::copy_from_slice(read.filled());
                match read_datagram(&bytes, &Limits::default()) {
                    Ok(Datagram::Message { message, .. }) => Heard::Message(flow, message.into()),
                    _ => continue,
                }
            }
        };
        if heard.send(news).await.is_err() {
            return;
        }
    }
}

struct Pump {
    flow: Flow,
    writes: mpsc::Receiver<Bytes>,
    heard: mpsc::Sender<Heard>,
}

impl Pump {
    async fn run(
        mut self,
        link: Link,
        to: SocketAddr,
        tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    ) {
        if let Err(error) = self.connect(&link, to, tls).await {
            tracing::debug!(link = link.name, %to, %error, "connection to the directory failed");
        }
        // The receiver is gone if the registration has ended.
        let _ = self.heard.send(Heard::Failed(self.flow)).await;
    }

    async fn connect(
        &mut self,
        link: &Link,
        to: SocketAddr,
        tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    ) -> io::Result<()> {
        let options = SocketOptions {
            connect_timeout: PATIENCE,
            ..SocketOptions::default()
        };
        let stream = connect_on_link(Some(link), to, &options).await;
        let stream = stream.map_err(io::Error::other)?;
        match tls {
            None => self.exchange(stream).await,
            Some((config, name)) => {
                let handshake = tokio_rustls::TlsConnector::from(config).connect(name, stream);
                self.exchange(timeout(PATIENCE, handshake).await??).await
            }
        }
    }

    /// Exchanges bytes until the directory closes or violates the protocol.
    async fn exchange(&mut self, stream: impl AsyncRead + AsyncWrite) -> io::Result<()> {
        let (mut reading, mut writing) = tokio::io::split(stream);
        let mut framer = Framer::new(Limits::default());
        let mut buffer = vec![0; READ_SIZE];
        loop {
            tokio::select! {
                read = reading.read(&mut buffer) => {
                    match read? {
                        0 => return Ok(()),
                        length => framer.push(&buffer[..length]),
                    }
                    while let Some(framed) = framer.poll() {
                        let news = match framed {
                            Framed::Message(message) => Heard::Message(self.flow, message.into()),
                            Framed::Malformed(_) => return Err(io::ErrorKind::InvalidData.into()),
                            Framed::LineEnd | Framed::Ping => continue,
                        };
                        if self.heard.send(news).await.is_err() {
                            return Ok(());
                        }
                    }
                }
                Some(bytes) = self.writes.recv() => timeout(PATIENCE, async {
                    writing.write_all(&bytes).await?;
                    writing.flush().await
                }).await??,
            }
        }
    }
}

const MAX_DATAGRAM: usize = 65_536;
const READ_SIZE: usize = 4096;
const MAX_WRITES: usize = 16;
/// Time for connecting, and for the directory to read what was sent.
const PATIENCE: Duration = Duration::from_secs(10);
