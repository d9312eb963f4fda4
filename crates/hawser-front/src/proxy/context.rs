use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout, timeout_at};
use tracing::{debug, warn};

use super::config::ProxyConfig;
use super::guesses::Guesses;
use super::intake::Fault;
use super::stats::ProxyCounters;
use crate::connection::{Asker, Origin, unknown};
use crate::datagram::DatagramPorts;
use crate::destination::Destination;
use crate::relay::{Side, relay};
use crate::transport::{ByteStream, DialError, Dialer, ResetCode};

/// State that all connections of a port share, and the program that made this connection.
pub(crate) struct Context<D> {
    pub(super) dialer: Arc<D>,
    /// Opens ports for datagrams; `None` if datagrams are not supported.
    pub(super) datagrams: Option<Arc<dyn DatagramPorts>>,
    pub(super) counters: Arc<ProxyCounters>,
    pub(super) config: ProxyConfig,
    pub(super) asker: Asker,
    /// The program's address, where it runs on another machine.
    elsewhere: Option<IpAddr>,
    guesses: Arc<Mutex<Guesses>>,
}

impl<D> Context<D> {
    pub(crate) fn new(dialer: Arc<D>, config: ProxyConfig) -> Self {
        Self {
            dialer,
            datagrams: None,
            counters: Arc::default(),
            config,
            asker: unknown(),
            elsewhere: None,
            guesses: Arc::default(),
        }
    }

    pub(crate) fn counters(&self) -> Arc<ProxyCounters> {
        Arc::clone(&self.counters)
    }

    /// Returns the context of a connection made by `asker`.
    pub(crate) fn of(&self, asker: Asker) -> Self {
        Self {
            dialer: Arc::clone(&self.dialer),
            datagrams: self.datagrams.clone(),
            counters: Arc::clone(&self.counters),
            config: self.config.clone(),
            asker,
            elsewhere: None,
            guesses: Arc::clone(&self.guesses),
        }
    }

    /// Sets the ends of the connection.
    pub(super) fn between(self, ends: Ends) -> Self {
        Self {
            elsewhere: ends.is_from_elsewhere().then(|| ends.peer.ip()),
            ..self
        }
    }

    /// Tells whether the program's password is right, by calling `check`. After too many wrong
    /// passwords from another machine, every password from there is refused for a time.
    ///
    /// Programs on this machine may guess without limit: the password protects nothing from them,
    /// and a program with an outdated password would lock out the others.
    pub(super) fn admits(&self, check: impl FnOnce() -> bool) -> bool {
        let Some(asker) = self.elsewhere else {
            return check();
        };
        let mut guesses = self.guesses.lock();
        let now = Instant::now();
        if !guesses.admits(now, asker) {
            debug!(%asker, "refusing all passwords from this address: too many were wrong");
            return false;
        }
        let is_right = check();
        if !is_right {
            guesses.on_wrong(now, asker);
        }
        is_right
    }

    /// Returns the program that made the connection, as far as it is known.
    pub(super) async fn origin(&self) -> Result<Origin, DialError> {
        let origin = self.asker.origin().await.map_err(|error| {
            let counters = &self.counters;
            let before = counters.unknown_askers.fetch_add(1, Ordering::Relaxed);
            if counters.refusals.is_due() {
                warn!(%error, so_far = before + 1, "refusing a connection: its program is unknown");
            }
            DialError::TimedOut
        })?;
        Ok(Origin {
            is_elsewhere: origin.is_elsewhere || self.elsewhere.is_some(),
            ..origin
        })
    }
}

impl<D: Dialer> Context<D> {
    pub(crate) async fn dial(&self, destination: &Destination) -> Result<D::Stream, DialError> {
        let dial = async {
            let origin = self.origin().await?;
            self.dialer.dial_for(destination, &origin).await
        };
        let result = timeout(self.config.dial_timeout, dial)
            .await
            .unwrap_or(Err(DialError::TimedOut));
        if let Err(error) = result {
            debug!(%destination, %error, "dial failed");
            self.counters.dial_errors.add(error);
        }
        result
    }

    pub(crate) async fn relay<C: ByteStream>(&self, client: Side<C>, server: Side<D::Stream>) {
        let span = server.stream.span();
        let report = relay(client, server, &self.config.relay, &self.counters.bytes).await;
        let _span = span.enter();
        debug!(up = %report.up, down = %report.down, end = ?report.end, "relay ended");
    }
}

/// The two ends of a client's connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    /// The address that the client has connected to.
    pub(super) own: SocketAddr,
    /// The client's address.
    pub(super) peer: SocketAddr,
}

impl Ends {
    /// Tells whether the client runs on another machine. A client on this machine that connects to
    /// one of its addresses comes from loopback or from that address. No other machine completes a
    /// handshake from either.
    pub(super) fn is_from_elsewhere(self) -> bool {
        let (own, peer) = (self.own.ip().to_canonical(), self.peer.ip().to_canonical());
        !peer.is_loopback() && peer != own
    }
}

/// Closes a connection so that the client gets the last bytes written: closing a socket with unread
/// bytes would make the kernel send RST, which overtakes them.
pub(super) async fn close_gently<C: ByteStream>(client: &mut C) {
    let drain = async {
        client.shutdown().await?;
        let mut waste = [0; 2048];
        let mut left = MAX_DRAINED;
        while left > 0 {
            match client.read(&mut waste).await? {
                0 => break,
                read => left = left.saturating_sub(read),
            }
        }
        std::io::Result::Ok(())
    };
    // Errors do not matter: the connection is over.
    let _ = timeout(DRAIN_TIMEOUT, drain).await;
}

/// Bounds a future by the deadline of the handshake.
pub(super) async fn in_time<T>(
    deadline: Instant,
    future: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    timeout_at(deadline, future)
        .await
        .unwrap_or(Err(Fault::TooSlow))
}

/// A client's stream. It is reset if its task is dropped at a moment when a plain end would look
/// like the end of a message.
pub(crate) struct Guarded<C: ByteStream> {
    stream: Option<C>,
    pub(crate) is_busy: bool,
}

impl<C: ByteStream> Guarded<C> {
    pub(crate) fn new(stream: C) -> Self {
        Self {
            stream: Some(stream),
            is_busy: false,
        }
    }

    pub(crate) fn stream(&mut self) -> &mut C {
        self.stream
            .as_mut()
            .expect("only into_stream takes the stream, and self with it")
    }

    pub(crate) fn into_stream(mut self) -> C {
        self.stream
            .take()
            .expect("only this takes the stream, and self with it")
    }
}

impl<C: ByteStream> Drop for Guarded<C> {
    fn drop(&mut self) {
        if let (Some(stream), true) = (&mut self.stream, self.is_busy) {
            stream.reset(ResetCode::ShuttingDown);
        }
    }
}

const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);
const MAX_DRAINED: usize = 1024 * 1024;

#[cfg(test)]
mod tests {
    use tokio::net::TcpStream;

    use super::*;
    use crate::connection::silent;

    /// A dialer that must not be asked.
    struct Unused;

    impl Dialer for Unused {
        type Stream = TcpStream;

        async fn dial(&self, destination: &Destination) -> Result<TcpStream, DialError> {
            panic!("{destination} is dialed")
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_refused_while_its_program_is_unknown_and_rules_need_it() {
        let context = Context::new(Arc::new(Unused), ProxyConfig::default());
        let (who, _asked) = silent(1);
        let who = who.with_refusal_while(|| true);
        let local = "127.0.0.1:9".parse().unwrap();
        let context = context.of(who.ask(local, local));
        let destination = "example.org:443".parse().unwrap();
        for refused in 1..3 {
            let dialed = context.dial(&destination).await;
            assert_eq!(dialed.err(), Some(DialError::TimedOut));
            assert_eq!(context.counters.snapshot().unknown_askers, refused);
        }
    }
}
