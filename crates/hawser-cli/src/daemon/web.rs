//! The dashboard: served by a daemon, and `hawser web`, which says where.

use std::io::{self, IsTerminal as _};
use std::net::SocketAddr;

use anyhow::{Context as _, bail};
use hawser_control::Request;
use hawser_monitor::web::{Server, Token};
use hawser_net::store::StateDir;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use crate::args::WebArgs;
use crate::client::ask::Conversation;
use crate::client::status;
use crate::daemon::Daemon;
use crate::setup::{Setup, show};

/// Prints the address of the dashboard with the token in it, with a new one if that is asked for.
pub(crate) async fn run(setup: &Setup, args: WebArgs) -> anyhow::Result<()> {
    if args.renew {
        renew(&setup.state).await?;
    }
    let snapshot = status::ask(&setup.state, &Request::STATUS_WITHOUT_SESSIONS).await?;
    match snapshot.as_ref().map(|snapshot| snapshot.web) {
        Some(Some(web)) => show(&format!("{}\n", token(&setup.state)?.url(web))),
        _ if args.renew => show("no dashboard is served now; the new token holds when one is\n"),
        Some(None) => bail!(
            "the daemon serves no dashboard; start it with --web 127.0.0.1:7480, or say so in the \
             configuration"
        ),
        None => bail!("no hawser daemon runs in {}", setup.state.path().display()),
    }
}

/// From now on nobody is let in by the token that was.
async fn renew(state: &StateDir) -> anyhow::Result<()> {
    state.prepare()?;
    state.renew_secret(TOKEN)?;
    if let Some(mut daemon) = Conversation::begin(state).await? {
        let told = daemon.change(&Request::ReadToken).await;
        told.context("the daemon may still take the old token, until it is started again")?;
    }
    Ok(())
}

/// A dashboard that is served.
pub(crate) struct Served {
    address: SocketAddr,
    state: StateDir,
    token: watch::Sender<Token>,
}

impl Served {
    /// Where.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on its token is the one in the state directory.
    pub(crate) fn read_token(&self) -> anyhow::Result<()> {
        self.token.send_replace(token(&self.state)?);
        Ok(())
    }
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
        let (tokens, shown) = watch::channel(token.clone());
        let server = Server::bind(address, shown, daemon.for_web())?;
        let web = server.local_addr();
        daemon.set_web(Served {
            address: web,
            state: state.clone(),
            token: tokens,
        });
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
