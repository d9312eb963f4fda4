//! The dashboard: served by a daemon, and `hawser web`, which says where.

use std::io::{self, IsTerminal as _};
use std::net::SocketAddr;

use anyhow::{Context as _, bail};
use hawser_monitor::web::{Server, Token};
use hawser_net::store::StateDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::daemon::Daemon;
use crate::setup::{Setup, show};
use crate::status;

/// Prints the address of the dashboard with the token in it.
pub(crate) async fn run(setup: &Setup) -> anyhow::Result<()> {
    let Some(snapshot) = status::ask(&setup.state).await? else {
        bail!("no hawser daemon runs in {}", setup.state.path().display());
    };
    let web = snapshot.web.context(
        "the daemon serves no dashboard; start it with --web 127.0.0.1:7480, or say so in the \
         configuration",
    )?;
    show(&format!("{}\n", token(&setup.state)?.url(web)))
}

/// A web server that ends with the daemon; none where none is wanted.
pub(crate) struct Web(Option<Serving>);

struct Serving {
    end: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Web {
    /// Serves the dashboard at `address`, if there is one, to holders of the token in `state`.
    pub(crate) fn start(
        address: Option<SocketAddr>,
        state: &StateDir,
        daemon: &Daemon,
    ) -> anyhow::Result<Self> {
        let Some(address) = address else {
            return Ok(Self(None));
        };
        let token = token(state)?;
        let server = Server::bind(address, token.clone(), daemon.for_web())?;
        let web = server.local_addr();
        daemon.set_web(web);
        tracing::info!(%web, "the dashboard is served; `hawser web` prints its address with the token");
        // What a log or a file would keep is not for the token; who sits at the terminal may see it.
        if io::stdout().is_terminal() {
            show(&format!("{}\n", token.url(web)))?;
        }
        let (end, ended) = oneshot::channel();
        let task = tokio::spawn(server.run(async {
            let _ = ended.await;
        }));
        Ok(Self(Some(Serving { end, task })))
    }

    /// Ends it in order.
    pub(crate) async fn end(self) {
        if let Some(Serving { end, task }) = self.0 {
            let _ = end.send(());
            let _ = task.await;
        }
    }
}

/// The same at each start, so that bookmarks and those who read the metrics keep theirs.
fn token(state: &StateDir) -> anyhow::Result<Token> {
    Ok(Token::new(state.secret(TOKEN)?.as_str()))
}

/// The file name of the token in the state directory.
const TOKEN: &str = "web-token";
