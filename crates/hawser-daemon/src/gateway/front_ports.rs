//! Connections that ask for a bond, on the ports of services.
//!
//! Each began with a SYN whose answer promised a bond, so most of them begin a session. All others,
//! for example those whose answer was lost, are carried to the service.

use std::io;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::{Arc, Weak};

use hawser_front::gateway::{Fronted, Leads};
use hawser_net::gateway::{Gateway, accept_each};
use parking_lot::{Mutex, MutexGuard};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

/// Accepts connections that ask for a bond, until dropped.
pub(super) struct FrontPorts {
    leading: Arc<Leading>,
    accepting: Mutex<Vec<AbortHandle>>,
}

/// Destinations of the connections. Each open connection holds a reference, so the references
/// count the open connections.
struct Leading {
    gateway: Weak<Gateway>,
    fronted: Arc<Fronted>,
}

impl FrontPorts {
    /// Creates an acceptor for sessions of `gateway` and services of `fronted`.
    pub(super) fn new(gateway: &Arc<Gateway>, fronted: &Arc<Fronted>) -> Self {
        let leading = Leading {
            gateway: Arc::downgrade(gateway),
            fronted: Arc::clone(fronted),
        };
        Self {
            leading: Arc::new(leading),
            accepting: Mutex::default(),
        }
    }

    /// Accepts at these listeners from now on, and stops accepting at the earlier ones.
    pub(super) fn accept_at(&self, listeners: Vec<std::net::TcpListener>) -> io::Result<()> {
        let listeners = listeners.into_iter().map(TcpListener::from_std);
        let listeners: Vec<TcpListener> = listeners.collect::<io::Result<_>>()?;
        let accepting = listeners.into_iter().map(|listener| {
            let accepting = accept(listener, Arc::downgrade(&self.leading));
            tokio::spawn(accepting).abort_handle()
        });
        let before = std::mem::replace(&mut *self.accepting(), accepting.collect());
        before.iter().for_each(AbortHandle::abort);
        Ok(())
    }

    /// Returns the number of open connections.
    pub(super) fn open(&self) -> u64 {
        Arc::strong_count(&self.leading) as u64 - 1
    }

    fn accepting(&self) -> MutexGuard<'_, Vec<AbortHandle>> {
        self.accepting.lock()
    }
}

impl Drop for FrontPorts {
    fn drop(&mut self) {
        self.accepting().iter().for_each(AbortHandle::abort);
    }
}

async fn accept(listener: TcpListener, leading: Weak<Leading>) {
    let takes = |stream, remote| match leading.upgrade() {
        Some(leading) => {
            tokio::spawn(lead(stream, remote, leading));
            ControlFlow::Continue(())
        }
        None => ControlFlow::Break(()),
    };
    accept_each(listener, takes).await;
}

async fn lead(stream: TcpStream, remote: SocketAddr, leading: Arc<Leading>) {
    let fronted = &leading.fronted;
    let Some(gateway) = leading.gateway.upgrade() else {
        return;
    };
    let accounts = gateway.accounts().clone();
    match fronted.leads(&stream) {
        Leads::ToFronted => {
            let shared = gateway.share(stream, remote).await;
            drop(gateway);
            if let Some(stream) = shared {
                fronted.pass_on(stream, &accounts).await;
            }
        }
        // The handshake of this connection has promised no bond.
        Leads::Elsewhere(meant) => {
            drop(gateway);
            fronted.pass_on_elsewhere(stream, meant, &accounts).await;
        }
        Leads::Nowhere => {}
    }
}
