//! Flows of datagrams that clients have opened.

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hawser_link::bind::DatagramSocket;
use hawser_net::stream::BondStream;
use hawser_types::{Budget, ByteCount, Charge};
use tokio::io::ReadBuf;
use tokio::time::{Instant, timeout_at};
use tracing::debug;

use super::client::{ClientId, Permit};
use super::serve::Gateway;
use crate::bonded::Bonded;
use crate::connect::Connect;
use crate::datagram::{opening, with_buffer};
use crate::destination::Destination;
use crate::incoming::IncomingStream as _;
use crate::relay::RelayCounters;
use crate::resolve::Resolve;
use crate::tally::Present;
use crate::transport::{ByteStream as _, DialError, ResetCode};

impl<C: Connect, R: Resolve> Gateway<C, R> {
    /// Serves one flow to its end. It counts as a stream of its client: it has the same limits and
    /// charge, and reaches the same addresses.
    ///
    /// # Errors
    /// The cause that was sent to the client when the flow was refused.
    pub async fn handle_datagrams(
        &self,
        client: ClientId,
        account: &Budget,
        stream: Bonded,
    ) -> Result<(), DialError> {
        let (permit, stream) = self.admit(client, account, stream)?;
        self.carry(permit, stream).await
    }

    /// Serves an admitted flow to its end.
    pub(super) async fn carry(&self, permit: Permit, mut stream: Bonded) -> Result<(), DialError> {
        let _present = Present::new(&self.counters.current);
        let opened = async {
            let (destination, is_call) =
                opening::read(stream.open_metadata()).map_err(|error| {
                    debug!(%error, "refused a flow: malformed destination");
                    DialError::MalformedDestination
                })?;
            let addresses = self.addresses(&permit, &destination).await?;
            let (socket, remote) = open(&addresses, destination.port)?;
            Ok((socket, remote, is_call))
        };
        let (socket, remote, is_call) = match opened.await {
            Ok(opened) => opened,
            Err(error) => {
                self.counters.refused.add(error);
                stream.refuse(error);
                return Err(error);
            }
        };
        self.counters.connected.fetch_add(1, Ordering::Relaxed);
        let bonded = stream.get_mut();
        if is_call {
            bonded.set_call();
        }
        // Fails only when the stream is over, and then the next read fails, too.
        let _ = bonded.accept(Destination::from(remote).to_bytes().into());
        let flow = Flow {
            stream: bonded,
            socket,
            early: BytesMut::new(),
            charge: permit.account().empty_charge(),
            down_first: false,
        };
        if let Err(code) = flow
            .run(self.config.datagrams.idle, &self.counters.bytes)
            .await
        {
            stream.reset(code);
        }
        Ok(())
    }
}

/// Opens a socket to the first of `addresses` that there is a route to.
fn open(addresses: &[IpAddr], port: u16) -> Result<(DatagramSocket, SocketAddr), DialError> {
    let mut failed = DialError::HostUnreachable;
    for ip in addresses {
        let remote = SocketAddr::new(*ip, port);
        let opened = DatagramSocket::open(None, *ip)
            .map_err(io::Error::from)
            .and_then(|socket| socket.connect(remote).map(|()| socket));
        match opened {
            Ok(socket) => return Ok((socket, remote)),
            Err(error) => failed = DialError::from_io(&error),
        }
    }
    Err(failed)
}

/// A stream with its datagrams, and the socket that sends them.
struct Flow<'a> {
    stream: &'a mut BondStream,
    socket: DatagramSocket,
    /// Bytes from the stream that are not a complete datagram yet.
    early: BytesMut,
    /// The charge for `early`.
    charge: Charge,
    /// Poll the socket first. It alternates, so that neither direction delays the other.
    down_first: bool,
}

enum Step {
    /// Bytes of the stream; `None` at its end.
    Early(Option<Bytes>),
    /// A datagram of the client.
    Up(Bytes),
    /// A datagram for the client.
    Down(Bytes),
}

impl Flow<'_> {
    /// Forwards datagrams until the client ends the flow. Errors are codes for the client.
    async fn run(mut self, idle: Duration, counters: &RelayCounters) -> Result<(), ResetCode> {
        loop {
            let step = timeout_at(Instant::now() + idle, self.step())
                .await
                .map_err(|_| ResetCode::IdleTimeout)?;
            match step.map_err(|error| ResetCode::from_io(&error))? {
                Step::Early(None) => return Ok(()),
                Step::Early(Some(bytes)) => {
                    self.take_early(&bytes, counters)?;
                }
                Step::Up(payload) => self.send(&payload, counters),
                Step::Down(payload) => {
                    counters.add_down(payload.len());
                    // A datagram that can't be sent is lost, as it might be in the network.
                    let _ = self.stream.send_datagram(payload);
                }
            }
        }
    }

    /// Sends the datagrams that these bytes of the stream complete. An incomplete rest is charged
    /// to the client.
    fn take_early(&mut self, bytes: &[u8], counters: &RelayCounters) -> Result<(), ResetCode> {
        let wanted = ByteCount::from(self.early.len() + bytes.len());
        let has_memory = self.charge.grow_to(wanted).is_ok();
        self.early.extend_from_slice(bytes);
        while let Some(payload) = opening::take_early(&mut self.early) {
            self.send(&payload, counters);
        }
        if !self.early.is_empty() && !has_memory {
            return Err(ResetCode::Aborted);
        }
        // Copied, so that the rest keeps no more memory than it needs.
        self.early = BytesMut::from(&self.early[..]);
        self.charge.note(ByteCount::from(self.early.len()));
        Ok(())
    }

    /// Sends a datagram to the destination. Ignores errors: the application can't be told of them.
    fn send(&self, payload: &[u8], counters: &RelayCounters) {
        if self.socket.send(payload).is_ok() {
            counters.add_up(payload.len());
        }
    }

    fn poll_receive(&self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        with_buffer(|memory| {
            let mut buffer = ReadBuf::new(memory);
            ready!(self.socket.poll_receive(cx, &mut buffer))?;
            Poll::Ready(Ok(Bytes::copy_from_slice(buffer.filled())))
        })
    }

    async fn step(&mut self) -> io::Result<Step> {
        self.down_first = !self.down_first;
        poll_fn(|cx| {
            for down in [self.down_first, !self.down_first] {
                if down {
                    match self.poll_receive(cx) {
                        Poll::Ready(Ok(payload)) => return Poll::Ready(Ok(Step::Down(payload))),
                        // Ignored, as errors of sending are; poll again.
                        Poll::Ready(Err(_)) => cx.waker().wake_by_ref(),
                        Poll::Pending => {}
                    }
                } else {
                    if let Poll::Ready(bytes) = self.stream.poll_read_bytes(cx, MAX_READ) {
                        return Poll::Ready(bytes.map(Step::Early));
                    }
                    if let Poll::Ready(payload) = self.stream.poll_datagram(cx) {
                        return Poll::Ready(payload.map(Step::Up));
                    }
                }
            }
            Poll::Pending
        })
        .await
    }
}

const MAX_READ: usize = 64 * 1024;
