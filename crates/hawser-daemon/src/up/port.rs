//! The proxy port of `hawser up`, from its opening to the end of the last connection.

use std::sync::Arc;

use hawser_front::dialer::ConnectionDialer;
use hawser_front::proxy::{ProxyConfig, ProxyCounters, ProxyError, ProxyServer};
use hawser_link::inherited::take_listener;
use hawser_net::client::JoinPort;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::greeting::Greeting;
use super::machine::Machine;
use super::rest::Rest;
use crate::proxy::by_name::ByName;
use crate::setup::not_listening;
use crate::subject::Subject;
use crate::takeover::Successor;
use crate::{Asked, Asking, Daemon};

/// Opens the proxy port, or inherits it from the old process.
pub(super) async fn open(
    config: ProxyConfig,
    dialer: Arc<ConnectionDialer>,
) -> anyhow::Result<ProxyServer<ConnectionDialer>> {
    let opened = match take_listener(config.listen) {
        Some(listener) => ProxyServer::new(TcpListener::from_std(listener)?, config, dialer),
        None => ProxyServer::bind(config, dialer).await,
    };
    opened.map_err(|error| match error {
        ProxyError::Listen { address, source } => not_listening(address, &source),
        error => error.into(),
    })
}

/// The parts that begin and end with the proxy port.
pub(super) struct Port<'a> {
    pub(super) daemon: &'a Daemon,
    /// Greeting for a user who has started the command at a terminal.
    pub(super) greeting: Option<Greeting>,
    /// The port at which the gateway may connect.
    pub(super) joins: Option<&'a JoinPort>,
    /// Sessions with hosts that are known by name.
    pub(super) by_name: Option<&'a ByName>,
}

impl Port<'_> {
    /// Shows the subject that is made from the port's counters, and serves the port until the
    /// daemon is asked to end, or until another process has taken over. Ends `machine`.
    pub(super) async fn serve<S: Subject>(
        self,
        server: ProxyServer<ConnectionDialer>,
        subject: impl FnOnce(Arc<ProxyCounters>) -> S,
        mut machine: Machine,
    ) -> anyhow::Result<Option<Successor>> {
        let (listen, counters) = (server.local_addr(), server.counters());
        let daemon = self.daemon;
        daemon.show(subject(Arc::clone(&counters)));
        if let Err(error) = daemon.set_listen(listen).await {
            machine.end().await;
            return Err(error);
        }
        let greeting = async {
            match self.greeting {
                Some(greeting) => Greeting { listen, ..greeting }.say().await,
                None => tracing::info!(%listen, "the proxy is ready: SOCKS5, SOCKS4a and HTTP"),
            }
            std::future::pending::<()>().await;
        };
        let mut asking = daemon.requests();
        let (close, closed) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let leading = async {
            let successor = tokio::select! {
                successor = replaced(daemon, &mut asking, &mut machine) => successor,
                () = greeting => None,
            };
            drop(close);
            if let Some(successor) = &successor {
                let rest = Rest {
                    proxy: &counters,
                    machine: &machine,
                    joins: self.joins,
                    by_name: self.by_name,
                };
                rest.serve(successor, daemon).await;
            }
            drop(end);
            successor
        };
        let is_over = |over: oneshot::Receiver<()>| async { drop(over.await) };
        let serving = server.run_down(is_over(closed), is_over(ended));
        let (successor, ()) = tokio::join!(leading, serving);
        machine.end().await;
        Ok(successor)
    }
}

/// Waits until another process has taken over; returns `None` if the daemon is asked to end.
async fn replaced(
    daemon: &Daemon,
    asking: &mut Asking<'_>,
    machine: &mut Machine,
) -> Option<Successor> {
    loop {
        match asking.next().await {
            Asked::ToEnd => return None,
            Asked::ToYield(takeover) => {
                machine.release().await;
                if let Some(successor) = daemon.hand_on(*takeover).await {
                    return Some(successor);
                }
                machine.take_back().await;
            }
        }
    }
}
