//! The directory of a gateway: the SIP registrar and proxy, on its sockets.
//!
//! `hawser_sip::directory` decides; this module executes it, on a thread of its own, so that
//! requests to the directory do not slow down the gateway's sessions.

mod core;
mod error;
mod input;
mod pump;
mod reach;
mod sockets;
mod table;
mod tls;
mod users;
mod view;

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use hawser_sip::digest::Algorithm;
use hawser_sip::directory::DirectoryConfig;
use hawser_sip::uri::SipUri;
use hawser_types::Host;
use tokio::sync::oneshot;

use self::core::Core;
use crate::gateway::DestinationPolicy;
pub use error::DirectoryError;
use reach::Hosts;
use sockets::Sockets;
pub use table::{BindingTable, TableError};
pub use tls::{DirectoryTls, TlsFileError};
pub use users::{UserFile, UserFileError};
pub use view::{BindingView, Bound, DirectoryView};

/// Settings of a directory.
pub struct DirectorySettings {
    /// The domains that the directory serves; the first domain is the realm of passwords.
    pub domains: Vec<Host>,
    /// Addresses for datagrams and streams.
    pub listen: Vec<SocketAddr>,
    /// Addresses for TLS streams, and the certificate.
    pub tls: Option<(Vec<SocketAddr>, DirectoryTls)>,
    /// The users.
    pub users: UserFile,
    /// The file that keeps bindings.
    pub table: BindingTable,
    /// Secret, random, and the same after a restart, so that calls survive the restart.
    pub seed: [u8; 32],
    /// Digest algorithms of passwords, in the order in which they are offered.
    pub digests: Vec<Algorithm>,
    /// Bounds that the administrator may change.
    pub limits: DirectoryLimits,
    /// Which addresses the directory may reach for users and callers.
    pub policy: DestinationPolicy,
}

/// Bounds that an administrator sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryLimits {
    /// Largest number of addresses of record.
    pub addresses: usize,
    /// Requests that one sender may make in a second.
    pub requests_per_second: u32,
    /// Largest number of simultaneous connections.
    pub connections: usize,
}

/// A running directory.
pub struct DirectoryServer {
    core: Arc<Core>,
    bound: Bound,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl DirectoryServer {
    /// Opens the ports and serves.
    ///
    /// # Errors
    /// See [`DirectoryError`].
    pub fn start(settings: DirectorySettings) -> Result<Self, DirectoryError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let tls = settings.tls.as_ref().map(|(addresses, _)| &addresses[..]);
        let sockets = {
            let _guard = runtime.enter();
            Sockets::open(&settings.listen, tls.unwrap_or_default())?
        };
        let bound = sockets.bound();
        let tls = settings.tls.map(|(_, tls)| tls);
        let mut config = config(&settings.domains, &bound, settings.limits);
        config.algorithms = settings.digests;
        let mut listening = bound.listen.iter().chain(&bound.tls);
        let is_local = listening.all(|address| address.ip().is_loopback());
        let hosts = Hosts::new(settings.policy, is_local);
        let owner = (settings.users, hosts);
        let core = Core::new(config, owner, settings.table, &settings.seed)?;
        let core = Arc::new(core);
        let (stop, stopped) = oneshot::channel();
        let serving = core::serve(Arc::clone(&core), sockets, tls, stopped);
        let thread = std::thread::Builder::new()
            .name("directory".to_owned())
            .spawn(move || {
                runtime.block_on(serving);
                runtime.shutdown_background();
            })?;
        Ok(Self {
            core,
            bound,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Returns the addresses at which the directory listens.
    #[must_use]
    pub fn bound(&self) -> &Bound {
        &self.bound
    }

    /// Returns the state of the directory, with at most `most` bindings.
    #[must_use]
    pub fn view(&self, most: usize) -> DirectoryView {
        self.core.view(most)
    }

    /// Returns counts of events since the start.
    #[must_use]
    pub fn counts(&self) -> hawser_sip::directory::DirectoryCounts {
        self.core.counts()
    }
}

impl Drop for DirectoryServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The thread ends after its current turn.
            let _ = thread.join();
        }
    }
}

fn config(domains: &[Host], bound: &Bound, limits: DirectoryLimits) -> DirectoryConfig {
    let mut config = DirectoryConfig::new(
        domains.to_vec(),
        own(domains, &bound.listen),
        bound.listen.clone(),
    );
    config.locations.max_addresses = limits.addresses;
    config.admission.pause = Duration::from_secs(1) / limits.requests_per_second.max(1);
    config.admission.burst = limits.requests_per_second.saturating_mul(BURST);
    config.max_streams = limits.connections;
    config
}

/// Returns the URI by which others reach the directory: with the first address that is not a
/// wildcard, or else with the first domain.
fn own(domains: &[Host], listen: &[SocketAddr]) -> SipUri {
    let named = listen.iter().find(|address| !address.ip().is_unspecified());
    let host = named.map(|address| Host::Ip(address.ip()));
    let host = host.or_else(|| domains.first().cloned());
    let host = host.unwrap_or(Host::Ip(std::net::Ipv4Addr::LOCALHOST.into()));
    let port = named.or(listen.first()).map(SocketAddr::port);
    let port = port.filter(|port| *port != DEFAULT_PORT);
    let uri = SipUri::new(None, host.clone(), port);
    // A URI without a user is always valid.
    uri.unwrap_or_else(|_| unreachable!("{host} is a host"))
}

/// Seconds' worth of requests that a sender may make at once.
const BURST: u32 = 4;
const DEFAULT_PORT: u16 = 5060;

#[cfg(test)]
mod tests;
