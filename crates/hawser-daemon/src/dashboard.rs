//! The dashboard that a daemon serves, and its token.

use std::net::SocketAddr;

use hawser_keys::store::{StateDir, StateFile};
use hawser_monitor::web::Token;
use tokio::sync::watch;

/// A dashboard with its server.
pub(crate) struct Dashboard {
    address: SocketAddr,
    state: StateDir,
    token: watch::Sender<Token>,
}

impl Dashboard {
    /// Creates a dashboard at `address` with the token in `state`; `token` sends a new token to the
    /// server.
    pub(crate) fn new(address: SocketAddr, state: &StateDir, token: watch::Sender<Token>) -> Self {
        Self {
            address,
            state: state.clone(),
            token,
        }
    }

    /// Returns the address at which the dashboard is served.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Reads the token in the state directory again and uses it from now on.
    pub(crate) fn read_token(&self) -> anyhow::Result<()> {
        self.token.send_replace(token(&self.state)?);
        Ok(())
    }
}

/// Returns the token. It is the same at each start, so that bookmarks and readers of the metrics
/// stay valid.
pub fn token(state: &StateDir) -> anyhow::Result<Token> {
    Ok(Token::new(state.secret(TOKEN)?.as_str()))
}

/// Creates a new token; the old one becomes invalid once the daemon has read the new one.
pub fn renew_token(state: &StateDir) -> anyhow::Result<()> {
    state.prepare()?;
    state.renew_secret(TOKEN)?;
    Ok(())
}

/// The file name of the token in the state directory.
const TOKEN: &str = StateFile::WebToken.name();
