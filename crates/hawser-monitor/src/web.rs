//! The control API and the dashboard over HTTP, for browsers on the same machine.
//!
//! [`Server`] listens on loopback only. Its users present a [`Token`] or a pass made from it. It is
//! idle while no client is connected. [`Limits`] bound everything: slow, silent or numerous clients
//! take places from other clients, never from the daemon.

mod assets;
mod daemon;
mod feed;
mod guard;
mod guests;
mod head;
mod limits;
mod patient;
mod routes;
mod site;
mod token;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;

pub use daemon::Daemon;
pub use limits::Limits;
pub use token::Token;

use guests::Guests;
use head::OwnNames;
use site::Site;

/// An HTTP server that is bound to its address and accepts connections once it [runs](Self::run).
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    token: watch::Receiver<Token>,
    run: String,
    daemon: Arc<dyn Daemon>,
    limits: Limits,
}

impl Server {
    /// Listens at `address`, where port 0 lets the system choose. Call this within a runtime. A
    /// replaced token is valid at once, and ends the feeds of clients that presented the previous
    /// one.
    ///
    /// Fails if other machines could reach the address, if it is unavailable, or if the system has
    /// no randomness.
    pub fn bind(
        address: SocketAddr,
        token: watch::Receiver<Token>,
        daemon: Arc<dyn Daemon>,
    ) -> Result<Self, BindError> {
        Self::with(None, address, token, daemon)
    }

    /// Does the same as [`Self::bind`], with an existing listening socket if there is one. It must
    /// be non-blocking.
    ///
    /// # Errors
    /// As [`Self::bind`].
    pub fn with(
        there: Option<std::net::TcpListener>,
        address: SocketAddr,
        token: watch::Receiver<Token>,
        daemon: Arc<dyn Daemon>,
    ) -> Result<Self, BindError> {
        if !address.ip().is_loopback() {
            return Err(BindError::Exposed { address });
        }
        let mut run = [0; RUN];
        let drawn = SystemRandom::new().fill(&mut run);
        drawn.map_err(|_| BindError::NoRandomness)?;
        let listen = || -> io::Result<(TcpListener, SocketAddr)> {
            if let Some(there) = there {
                let bound = there.local_addr()?;
                return Ok((TcpListener::from_std(there)?, bound));
            }
            let socket = if address.is_ipv4() {
                TcpSocket::new_v4()?
            } else {
                TcpSocket::new_v6()?
            };
            socket.set_reuseaddr(true)?;
            // Connections inherit it. Data that a reader does not take waits here, in the kernel.
            socket.set_send_buffer_size(SEND_BUFFER)?;
            socket.bind(address)?;
            let listener = socket.listen(BACKLOG)?;
            let bound = listener.local_addr()?;
            Ok((listener, bound))
        };
        let (listener, bound) = listen().map_err(|source| BindError::Io { address, source })?;
        Ok(Self {
            listener,
            address: bound,
            token,
            run: URL_SAFE_NO_PAD.encode(run),
            daemon,
            limits: Limits::default(),
        })
    }

    /// Replaces the default limits.
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Returns the address that the server listens at, with the real port.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `shutdown` resolves. Then feeds end in order, and answers in progress get a
    /// short time.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let (closing, closed) = watch::channel(());
        let site = Site {
            address: self.address,
            names: OwnNames::of(self.address),
            token: self.token,
            run: self.run,
            feeds: feed::Hub::new(Arc::clone(&self.daemon), self.limits.feeds, closed.clone()),
            daemon: self.daemon,
            patience: self.limits.patience,
        };
        let mut guests = Guests::new(routes::router(site), self.limits, closed);
        tokio::pin!(shutdown);
        loop {
            tokio::select! {
                () = &mut shutdown => break,
                accepted = self.listener.accept(), if guests.has_room() => match accepted {
                    Ok((stream, _)) => guests.admit(stream),
                    Err(error) => {
                        tracing::warn!(%error, "accepting a browser connection failed");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
                Some(()) = guests.gone() => {}
            }
        }
        drop(closing);
        guests.finish().await;
    }
}

/// Reason why the server cannot listen at an address.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// Other machines could reach it.
    #[error(
        "the dashboard is served to this machine only, so not at {address}, but at 127.0.0.1:{} or the like; \
         from another machine it is reached by ssh -L {}:127.0.0.1:{} HOST",
        address.port(), address.port(), address.port()
    )]
    Exposed {
        /// The requested address.
        address: SocketAddr,
    },
    /// The system refuses.
    #[error("can't serve the dashboard at {address}: {source}")]
    Io {
        /// The requested address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The system has no random numbers.
    #[error("the system gives no random numbers to tell one run of the dashboard from another")]
    NoRandomness,
}

/// Limit of bytes that wait in the kernel for one reader; Linux doubles the value.
const SEND_BUFFER: u32 = 128 * 1024;
/// Bytes.
const RUN: usize = 32;
const BACKLOG: u32 = 1024;
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
