//! Connecting to the best of several addresses without waiting for unreachable ones.
//!
//! Families take turns, beginning with the resolver's first choice. A new attempt starts when the
//! last one has failed or 250 ms have passed. The first success ends the other attempts.
//!
//! Source: RFC 8305 §§4, 5.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hawser_link::bind::mark;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, sleep_until, timeout};

use crate::transport::{ByteStream, DialError};

/// Makes one connection to one address. Implemented by every suitable closure.
pub trait Connect: Send + Sync + 'static {
    /// A connection.
    type Stream: ByteStream;

    /// Connects to `address`.
    fn connect(&self, address: SocketAddr)
    -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

impl<C, F, S> Connect for C
where
    C: Fn(SocketAddr) -> F + Send + Sync + 'static,
    F: Future<Output = io::Result<S>> + Send,
    S: ByteStream,
{
    type Stream = S;

    fn connect(&self, address: SocketAddr) -> impl Future<Output = io::Result<S>> + Send {
        self(address)
    }
}

/// Connects by the system's routes, and switches Nagle's algorithm off.
///
/// # Errors
/// The system's error.
pub async fn connect_tcp(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    mark(&socket)?;
    let stream = socket.connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Timeouts for connecting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectOptions {
    /// How long to wait for one address before trying the next one too.
    pub attempt_delay: Duration,
    /// Timeout for all attempts together.
    pub timeout: Duration,
    /// Timeout for resolving the name beforehand.
    pub resolve_timeout: Duration,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        Self {
            attempt_delay: DEFAULT_ATTEMPT_DELAY,
            timeout: DEFAULT_CONNECT_TIMEOUT,
            resolve_timeout: DEFAULT_RESOLVE_TIMEOUT,
        }
    }
}

/// Connects to the first of `addresses` that answers.
///
/// # Errors
/// When all attempts fail, the error that is most specific about the destination; on a timeout,
/// [`DialError::TimedOut`].
pub async fn connect_any<C: Connect>(
    connect: &C,
    addresses: &[IpAddr],
    port: u16,
    options: &ConnectOptions,
) -> Result<C::Stream, DialError> {
    let attempts = race(connect, interleave(addresses), port, options.attempt_delay);
    timeout(options.timeout, attempts)
        .await
        .unwrap_or(Err(DialError::TimedOut))
}

async fn race<C: Connect>(
    connect: &C,
    addresses: Vec<IpAddr>,
    port: u16,
    attempt_delay: Duration,
) -> Result<C::Stream, DialError> {
    let mut waiting = addresses.into_iter();
    let mut running = FuturesUnordered::new();
    let mut most_telling = None;
    loop {
        match waiting.next() {
            Some(address) => running.push(connect.connect(SocketAddr::new(address, port))),
            None if running.is_empty() => {
                return Err(most_telling.unwrap_or(DialError::HostUnreachable));
            }
            None => {}
        }
        let next_attempt = Instant::now() + attempt_delay;
        // Wait until an attempt has ended, or until the next one is due if an address is left.
        tokio::select! {
            biased;
            Some(ended) = running.next() => match ended {
                Ok(stream) => return Ok(stream),
                Err(error) => most_telling = tell_more(most_telling, DialError::from_io(&error)),
            },
            () = sleep_until(next_attempt), if waiting.len() > 0 => {}
        }
    }
}

/// Returns the more informative of two errors: a missing IPv6 route says little if the host refused
/// over IPv4.
pub(crate) fn tell_more(before: Option<DialError>, error: DialError) -> Option<DialError> {
    match before {
        Some(before) if rank(before) >= rank(error) => Some(before),
        _ => Some(error),
    }
}

fn rank(error: DialError) -> u8 {
    match error {
        DialError::ConnectionRefused => 5,
        DialError::TimedOut => 4,
        DialError::HostUnreachable => 3,
        DialError::NetworkUnreachable => 1,
        DialError::Internal | DialError::Aborted => 0,
        _ => 2,
    }
}

/// Alternates the families, beginning with that of the first address; each keeps its order.
pub(crate) fn interleave(addresses: &[IpAddr]) -> Vec<IpAddr> {
    let first_is_v6 = addresses.first().is_some_and(IpAddr::is_ipv6);
    let (preferred, other): (Vec<IpAddr>, Vec<IpAddr>) = addresses
        .iter()
        .partition(|address| address.is_ipv6() == first_is_v6);
    let mut other = other.into_iter();
    let mut turns = Vec::with_capacity(addresses.len());
    for address in preferred {
        turns.push(address);
        turns.extend(other.next());
    }
    turns.extend(other);
    turns
}

/// RFC 8305 §8 recommends 250 ms.
pub const DEFAULT_ATTEMPT_DELAY: Duration = Duration::from_millis(250);
/// Three SYNs and some patience: retransmissions go out after 1, 3 and 7 s.
pub const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// One try of the system's resolver at each of two servers.
pub const DEFAULT_RESOLVE_TIMEOUT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {

    use parking_lot::Mutex;

    use super::*;

    fn addresses(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn families_take_turns_and_keep_their_order() {
        let sorted = addresses(&["2001:db8::1", "2001:db8::2", "2001:db8::3", "192.0.2.1"]);
        let turns = addresses(&["2001:db8::1", "192.0.2.1", "2001:db8::2", "2001:db8::3"]);
        assert_eq!(interleave(&sorted), turns);
        assert_eq!(interleave(&[]), Vec::<IpAddr>::new());
    }

    /// Acts out the script of an address: an error, silence, or a real connection.
    async fn scripted(address: SocketAddr) -> io::Result<TcpStream> {
        match address.ip().to_string().as_str() {
            "192.0.2.1" => std::future::pending().await,
            "192.0.2.2" => Err(io::ErrorKind::ConnectionRefused.into()),
            "2001:db8::1" => Err(io::ErrorKind::NetworkUnreachable.into()),
            _ => connect_tcp(address).await,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_most_telling_error_is_reported() {
        let options = ConnectOptions::default();
        let targets = addresses(&["192.0.2.2", "2001:db8::1"]);
        let result = connect_any(&scripted, &targets, 80, &options).await;
        assert_eq!(result.err(), Some(DialError::ConnectionRefused));
        let targets = addresses(&["2001:db8::1"]);
        let result = connect_any(&scripted, &targets, 80, &options).await;
        assert_eq!(result.err(), Some(DialError::NetworkUnreachable));
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_address_ends_in_a_timeout() {
        let targets = addresses(&["192.0.2.1", "192.0.2.2"]);
        let begin = Instant::now();
        let result = connect_any(&scripted, &targets, 80, &ConnectOptions::default()).await;
        assert_eq!(result.err(), Some(DialError::TimedOut));
        assert_eq!(begin.elapsed(), DEFAULT_CONNECT_TIMEOUT);
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_are_staggered_and_a_failure_starts_the_next_at_once() {
        let log = std::sync::Arc::new(Mutex::new(Vec::new()));
        let begin = Instant::now();
        let shared = std::sync::Arc::clone(&log);
        let connect = move |address: SocketAddr| {
            shared
                .lock()
                .push((address.ip().to_string(), begin.elapsed().as_millis()));
            scripted(address)
        };
        let targets = addresses(&["192.0.2.1", "192.0.2.2", "2001:db8::1"]);
        let result = connect_any(&connect, &targets, 80, &ConnectOptions::default()).await;
        assert_eq!(result.err(), Some(DialError::TimedOut));
        let expected = [("192.0.2.1", 0), ("2001:db8::1", 250), ("192.0.2.2", 250)];
        assert_eq!(
            *log.lock(),
            expected.map(|(address, time)| (address.to_owned(), time))
        );
    }

    #[tokio::test]
    async fn the_first_success_wins() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let targets = addresses(&["192.0.2.1", "2001:db8::1", "127.0.0.1"]);
        let stream = connect_any(&scripted, &targets, port, &ConnectOptions::default())
            .await
            .unwrap();
        assert_eq!(stream.peer_addr().unwrap().port(), port);
    }
}
