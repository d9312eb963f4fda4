//! The dashboard that a daemon serves, and its token.

use std::net::SocketAddr;

use hawser_monitor::web::Token;
use hawser_net::store::{StateDir, StateFile};
use tokio::sync::watch;

/// A dashboard that is served.
pub(crate) struct Dashboard {
    address: SocketAddr,
    state: StateDir,
    token: watch::Sender<Token>,
}

impl Dashboard {
    /// A dashboard at `address`, with the token in `state`, which goes to the server by `token`.
    pub(crate) fn new(address: SocketAddr, state: &StateDir, token: watch::Sender<Token>) -> Self {
        Self {
            address,
            state: state.clone(),
            token,
        }
    }

    /// Address at which the dashboard is served.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on its token is the one in the state directory.
    pub(crate) fn read_token(&self) -> anyhow::Result<()> {
        self.token.send_replace(token(&self.state)?);
        Ok(())
    }
}

/// The same at each start, so that bookmarks and those who read the metrics keep theirs.
pub(crate) fn token(state: &StateDir) -> anyhow::Result<Token> {
    Ok(Token::new(state.secret(TOKEN)?.as_str()))
}

/// Makes a new token; the one before holds no more once the daemon has read it.
pub(crate) fn renew_token(state: &StateDir) -> anyhow::Result<()> {
    state.prepare()?;
    state.renew_secret(TOKEN)?;
    Ok(())
}

/// The file name of the token in the state directory.
const TOKEN: &str = StateFile::WebToken.name();
