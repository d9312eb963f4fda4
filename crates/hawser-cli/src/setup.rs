//! How every command begins and ends: the configuration, the state directory, the log.

use std::io::{self, IsTerminal as _};
use std::sync::OnceLock;

use anyhow::Context as _;
use hawser_daemon::config_file::ConfigFile;
use hawser_daemon::setup::{Setup, explained};
use hawser_keys::store::StateDir;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::args::{Command, Global, LogFormat};
use crate::log_filter::LogFilter;

/// Reads the configuration, finds the state directory and starts the log.
pub(crate) fn begin(global: Global, command: &Command) -> anyhow::Result<Setup> {
    let default = if command.is_daemon() { "info" } else { "warn" };
    let level = global.log.map_or(default, |level| level.as_str());
    let wanted = match (global.log, std::env::var("HAWSER_LOG")) {
        (None, Ok(text)) => format!("{QUIET},{text}"),
        _ => format!("{level},{QUIET}"),
    };
    let filter: LogFilter = wanted.parse().context("HAWSER_LOG")?;
    let is_asked_for = global.log.is_some() || std::env::var_os("HAWSER_LOG").is_some();
    let is_at_terminal = io::stderr().is_terminal() && !is_asked_for && global.log_format.is_none();
    let log = tracing_subscriber::fmt()
        // Not more, so that what is only for lines of `debug` costs nothing without them.
        .with_max_level(filter.greatest())
        .with_writer(io::stderr);
    match global.log_format.unwrap_or_default() {
        // The time and the module of a message do not help a user at the terminal.
        LogFormat::Text if is_at_terminal => {
            let log = log.without_time().with_target(false);
            log.finish().with(filter).init();
        }
        LogFormat::Text => {
            let log = log.with_ansi(io::stderr().is_terminal());
            log.finish().with(filter).init();
        }
        LogFormat::Json => log.json().finish().with(filter).init(),
    }
    let is_state_named = global.state.is_some();
    let state = StateDir::resolve(global.state)?;
    let config_file = ConfigFile::resolve(global.config, &state, is_state_named);
    let config = config_file.load()?;
    if config_file.is_there() {
        tracing::info!(file = %config_file.path().display(), "read the configuration");
    }
    Ok(Setup {
        config,
        state,
        config_file,
        is_at_terminal,
        is_taking_over: global.taking_over,
    })
}

/// Raises the limit of open files to the hard limit: every stream and channel needs one.
pub(crate) fn raise_open_files() {
    let mut limit = getrlimit(Resource::Nofile);
    let _ = OPEN_FILES_BEFORE.set(limit);
    if limit.current == limit.maximum {
        return;
    }
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::debug!(%error, "can't change the limit of open files");
    }
}

/// Returns the limit of open files that this process was started with, for programs that it
/// starts: some programs iterate over all descriptors up to the limit.
pub(crate) fn open_files_before() -> Option<Rlimit> {
    OPEN_FILES_BEFORE.get().copied()
}

/// Prints on standard error why the program ends, in the format of the log.
pub(crate) fn complain(error: &anyhow::Error, format: LogFormat) {
    let message = explained(error);
    match format {
        LogFormat::Text => eprintln!("hawser: {message}"),
        LogFormat::Json => {
            let fields = serde_json::json!({ "message": message });
            let line =
                serde_json::json!({ "level": "ERROR", "fields": fields, "target": "hawser" });
            eprintln!("{line}");
        }
    }
}

/// Returns whether the reader of the output has closed it, which is no failure.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Levels of crates of others. The crate netlink_packet_route warns about every field that only
/// newer kernels have.
const QUIET: &str = "netlink_packet_route=error,aya=warn,aya_obj=warn";

static OPEN_FILES_BEFORE: OnceLock<Rlimit> = OnceLock::new();
