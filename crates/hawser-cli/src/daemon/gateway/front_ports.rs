//! Connections that want a bond, on the ports of services.
//!
//! Each came with a SYN whose answer promised a bond, so most begin a session. Whatever else comes,
//! as where the answer was lost, is carried to the service.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use hawser_front::gateway::Fronted;
use hawser_net::gateway::Gateway;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

/// Accepts such connections, for as long as this lives.
pub(super) struct FrontPorts(Vec<AbortHandle>);

impl FrontPorts {
    /// Begins to accept at these listeners, for sessions of `gateway` and services of `fronted`.
    pub(super) fn open(
        listeners: Vec<std::net::TcpListener>,
        gateway: &Arc<Gateway>,
        fronted: &Arc<Fronted>,
    ) -> io::Result<Self> {
        let mut tasks = Self(Vec::new());
        for listener in listeners {
            let listener = TcpListener::from_std(listener)?;
            let accepting = accept(listener, Arc::downgrade(gateway), Arc::clone(fronted));
            tasks.0.push(tokio::spawn(accepting).abort_handle());
        }
        Ok(tasks)
    }
}

impl Drop for FrontPorts {
    fn drop(&mut self) {
        self.0.iter().for_each(AbortHandle::abort);
    }
}

async fn accept(listener: TcpListener, gateway: Weak<Gateway>, fronted: Arc<Fronted>) {
    loop {
        match listener.accept().await {
            Ok((stream, remote)) => {
                let Some(gateway) = gateway.upgrade() else {
                    return;
                };
                tokio::spawn(lead(stream, remote, gateway, Arc::clone(&fronted)));
            }
            Err(error) => {
                // Out of descriptors, mostly: others need time to free some.
                tracing::warn!(%error, "can't accept connections that want a bond");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn lead(stream: TcpStream, remote: SocketAddr, gateway: Arc<Gateway>, fronted: Arc<Fronted>) {
    // What connects on this machine to the listener's own port.
    if !fronted.leads_to(&stream) {
        return;
    }
    let shared = gateway.share(stream, remote).await;
    drop(gateway);
    if let Some(stream) = shared {
        fronted.pass_on(stream).await;
    }
}

const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
