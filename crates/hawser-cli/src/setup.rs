//! What every command needs first: the configuration, the state directory, the log.

use std::io;

use anyhow::Context as _;
use hawser_config::Config;
use hawser_net::store::StateDir;
use tracing_subscriber::EnvFilter;

use crate::args::Global;

/// The configuration and the state directory.
pub(crate) struct Setup {
    pub(crate) config: Config,
    pub(crate) state: StateDir,
}

impl Setup {
    /// Reads the configuration, finds the state directory and starts the log.
    pub(crate) fn new(global: Global) -> anyhow::Result<Self> {
        let level = global.log.map_or("info", |level| level.as_str());
        let filter = match (global.log, std::env::var("HAWSER_LOG")) {
            (None, Ok(text)) => EnvFilter::try_new(text).context("HAWSER_LOG")?,
            _ => EnvFilter::new(level),
        };
        tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(io::stderr)
            .init();
        let config = match &global.config {
            Some(path) => Config::load(path)?,
            None => Config::default(),
        };
        Ok(Self {
            config,
            state: StateDir::resolve(global.state)?,
        })
    }
}

/// Resolves when the program is asked to end.
pub(crate) async fn asked_to_end() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut terminate), Ok(mut interrupt)) = (
        signal(SignalKind::terminate()),
        signal(SignalKind::interrupt()),
    ) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

/// Whether the output's reader has gone, which is no failure.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
