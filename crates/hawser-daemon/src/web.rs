//! The web server of a daemon.

use std::io::{self, IsTerminal as _};
use std::net::SocketAddr;

use hawser_keys::store::StateDir;
use hawser_link::inherited::take_listener;
use hawser_monitor::web::Server;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use super::Daemon;
use super::dashboard::{Dashboard, token};
use crate::setup::show;

/// A web server that ends with the daemon; `None` if it is not configured.
pub(crate) struct Web(Option<Serving>);

struct Serving {
    end: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Web {
    /// Serves the dashboard at `address`, if given, to holders of the token in `state`.
    pub(crate) fn start(
        address: Option<SocketAddr>,
        state: &StateDir,
        daemon: &Daemon,
    ) -> anyhow::Result<Self> {
        let Some(address) = address else {
            return Ok(Self(None));
        };
        let token = token(state)?;
        let (tokens, shown) = watch::channel(token.clone());
        let there = take_listener(address);
        let server = Server::with(there, address, shown, daemon.for_web())?;
        let web = server.local_addr();
        daemon.set_web(Dashboard::new(web, state, tokens));
        tracing::info!(%web, "the dashboard is served; `hawser web` prints its address with the token");
        // The token must not get into logs and files; a user at the terminal may see it.
        if io::stdout().is_terminal() {
            show(&format!("{}\n", token.url(web)))?;
        }
        let (end, ended) = oneshot::channel();
        let retired = daemon.retired();
        let task = tokio::spawn(server.run(async {
            tokio::select! {
                _ = ended => {}
                () = retired => {}
            }
        }));
        Ok(Self(Some(Serving { end, task })))
    }

    /// Ends the server in order.
    pub(crate) async fn end(self) {
        if let Some(Serving { end, task }) = self.0 {
            let _ = end.send(());
            let _ = task.await;
        }
    }
}
