//! Connections that want a bond, on the ports of services.
//!
//! Each came with a SYN whose answer promised a bond, so most begin a session. Whatever else comes,
//! as where the answer was lost, is carried to the service.

use std::io;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::{Arc, Weak};

use hawser_front::gateway::{Fronted, Leads};
use hawser_net::gateway::{Gateway, accept_each};
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
    let takes = |stream, remote| match gateway.upgrade() {
        Some(gateway) => {
            tokio::spawn(lead(stream, remote, gateway, Arc::clone(&fronted)));
            ControlFlow::Continue(())
        }
        None => ControlFlow::Break(()),
    };
    accept_each(listener, takes).await;
}

async fn lead(stream: TcpStream, remote: SocketAddr, gateway: Arc<Gateway>, fronted: Arc<Fronted>) {
    match fronted.leads(&stream) {
        Leads::ToFronted => {
            let shared = gateway.share(stream, remote).await;
            drop(gateway);
            if let Some(stream) = shared {
                fronted.pass_on(stream).await;
            }
        }
        // Its handshake has promised nothing.
        Leads::Elsewhere(meant) => fronted.pass_on_elsewhere(stream, meant).await,
        Leads::Nowhere => {}
    }
}
