use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tracing::{debug, warn};

use super::config::ProxyConfig;
use super::context::{Context, Ends};
use super::dispatch::serve;
use super::stats::{ProxyCounters, ProxyStats};
use crate::connection::{Who, unknown};
use crate::datagram::DatagramPorts;
use crate::tally::Present;
use crate::transport::Dialer;

/// The proxy port.
pub struct ProxyServer<D> {
    listener: TcpListener,
    address: SocketAddr,
    context: Context<D>,
    who: Option<Who>,
}

impl<D: Dialer> ProxyServer<D> {
    /// Listens on `config.listen`.
    ///
    /// # Errors
    /// When the address is not loopback and `config.allow_lan` is off, or when the system refuses
    /// to listen there.
    pub async fn bind(config: ProxyConfig, dialer: Arc<D>) -> Result<Self, ProxyError> {
        let address = config.listen;
        check_address(address, config.allow_lan)?;
        let listener = TcpListener::bind(address)
            .await
            .map_err(|source| ProxyError::Listen { address, source })?;
        Self::new(listener, config, dialer)
    }

    /// Serves a listener that exists already; `config.listen` is not used.
    ///
    /// # Errors
    /// As for [`ProxyServer::bind`].
    pub fn new(
        listener: TcpListener,
        config: ProxyConfig,
        dialer: Arc<D>,
    ) -> Result<Self, ProxyError> {
        let address = listener.local_addr().map_err(|source| ProxyError::Listen {
            address: config.listen,
            source,
        })?;
        check_address(address, config.allow_lan)?;
        Ok(Self {
            listener,
            address,
            context: Context::new(dialer, config),
            who: None,
        })
    }

    /// Tells the dialer which program asks for each connection, as `who` finds out.
    #[must_use]
    pub fn with_programs_from(self, who: Who) -> Self {
        let who = Some(who);
        Self { who, ..self }
    }

    /// Also supports datagrams, for clients that ask by SOCKS5.
    #[must_use]
    pub fn with_datagrams(mut self, ports: Arc<dyn DatagramPorts>) -> Self {
        self.context.datagrams = Some(ports);
        self
    }

    /// The listening address, with the real port if port 0 was asked for.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// The counters, which stay readable while and after the port is served.
    pub fn counters(&self) -> Arc<ProxyCounters> {
        self.context.counters()
    }

    /// The counts of this moment.
    pub fn stats(&self) -> ProxyStats {
        self.context.counters.snapshot()
    }

    /// Serves until `shutdown` is ready; then resets open connections.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        self.run_down(shutdown, std::future::ready(())).await;
    }

    /// Accepts connections until `closing` is ready, and serves them until `shutdown` is ready;
    /// then resets open connections.
    pub async fn run_down(
        self,
        closing: impl Future<Output = ()>,
        shutdown: impl Future<Output = ()>,
    ) {
        debug!(address = %self.address, "proxy port open");
        let serve = |client: TcpStream, peer| {
            // The port may be open on all addresses; the kernel knows a connection by both its
            // ends.
            let own = client.local_addr();
            let asker = match (&self.who, &own) {
                (Some(who), Ok(own)) => who.ask(peer, *own),
                _ => unknown(),
            };
            let context = self.context.of(asker);
            async move {
                if let Ok(own) = own {
                    let ends = Ends { own, peer };
                    let context = context.between(ends);
                    serve(client, ends, &context).await;
                }
            }
        };
        let mut connections = accept_until(&self.listener, &self.context, serve, closing).await;
        // Dropped now, else another process with this port would miss connections.
        drop(self.listener);
        debug!(address = %self.address, "proxy port closed");
        let ended = async { while connections.join_next().await.is_some() {} };
        tokio::select! {
            () = ended => {}
            () = shutdown => {}
        }
        connections.shutdown().await;
    }
}

/// Serves connections of `listener` until `shutdown` is ready; then ends all of them.
pub(crate) async fn accept_all<D, F: Future<Output = ()> + Send + 'static>(
    listener: &TcpListener,
    context: &Context<D>,
    serve: impl Fn(TcpStream, SocketAddr) -> F,
    shutdown: impl Future<Output = ()>,
) {
    let mut connections = accept_until(listener, context, serve, shutdown).await;
    connections.shutdown().await;
}

/// Serves connections of `listener` until `closing` is ready; returns those that are open then.
async fn accept_until<D, F: Future<Output = ()> + Send + 'static>(
    listener: &TcpListener,
    context: &Context<D>,
    serve: impl Fn(TcpStream, SocketAddr) -> F,
    closing: impl Future<Output = ()>,
) -> JoinSet<()> {
    let counters = &context.counters;
    let mut connections = JoinSet::new();
    tokio::pin!(closing);
    loop {
        tokio::select! {
            () = &mut closing => return connections,
            Some(ended) = connections.join_next() => {
                if let Err(error) = ended {
                    warn!(%error, "connection task failed");
                }
            }
            accepted = listener.accept() => match accepted {
                Ok((client, peer)) if connections.len() < context.config.max_connections => {
                    counters.accepted.fetch_add(1, Ordering::Relaxed);
                    if let Err(error) = client.set_nodelay(true) {
                        debug!(%peer, %error, "cannot switch off nagle's delay");
                    }
                    let (served, counters) = (serve(client, peer), Arc::clone(counters));
                    connections.spawn(async move {
                        let _present = Present::new(&counters.current);
                        served.await;
                    });
                }
                Ok(_) => {
                    counters.over_limit.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => pause_after(&error, counters).await,
            },
        }
    }
}

async fn pause_after(error: &io::Error, counters: &ProxyCounters) {
    counters.accept_errors.fetch_add(1, Ordering::Relaxed);
    let exhausted = matches!(
        error.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
    );
    if exhausted {
        // The connection stays in the queue, so accepting again at once would spin.
        warn!(%error, "cannot accept connections");
        sleep(EXHAUSTED_PAUSE).await;
    }
}

/// The reason why a proxy port cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProxyError {
    /// The address is reachable from outside this machine.
    #[error(
        "refusing to listen on {address}: every machine that reaches this address could use the \
         proxy; listen on 127.0.0.1 or [::1], or allow the local network explicitly"
    )]
    NotLoopback {
        /// The address that was asked for.
        address: SocketAddr,
    },
    /// The system refused.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address that was asked for.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
}

fn check_address(address: SocketAddr, allow_lan: bool) -> Result<(), ProxyError> {
    if allow_lan || address.ip().to_canonical().is_loopback() {
        Ok(())
    } else {
        Err(ProxyError::NotLoopback { address })
    }
}

const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);
