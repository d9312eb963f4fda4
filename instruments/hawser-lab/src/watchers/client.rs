//! The clients that monitor a daemon: a process of its own on the client host.

mod flood;
mod outcome;
mod page;
mod site;
mod stalled;

use std::io::{self, Read};
use std::net::SocketAddrV4;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use self::site::Site;
use super::options::Crowd;
use crate::cpu;
use crate::output::print;

pub(super) use outcome::WatcherOutcome;
pub(super) use site::READY;

/// Arguments of the process.
#[derive(Debug, clap::Args)]
pub(crate) struct WatchArguments {
    crowd: Crowd,
    server: SocketAddrV4,
    /// The file with the token
    token: PathBuf,
    /// Feeds that are asked for and not read
    #[arg(long)]
    feeds: u16,
    /// Requests of each kind in a flood, a second
    #[arg(long)]
    rate: u16,
}

/// Monitors the daemon until the input ends. Prints `ready` when all clients are connected, and at
/// the end their results.
pub(crate) fn watch(arguments: &WatchArguments) -> anyhow::Result<()> {
    let is_over = AtomicBool::new(false);
    let token = std::fs::read_to_string(&arguments.token)?;
    let site = Site {
        server: arguments.server,
        token: token.trim().to_owned(),
        is_over: &is_over,
    };
    let begun = Instant::now();
    let seen = std::thread::scope(|scope| {
        scope.spawn(|| {
            let _ = io::stdin().read_to_end(&mut Vec::new());
            is_over.store(true, Ordering::Relaxed);
        });
        let seen = match arguments.crowd {
            Crowd::Stalled => stalled::stall(&site, arguments.feeds),
            Crowd::Page => page::look(&site),
            Crowd::Flood => flood::knock(&site, arguments.rate),
        };
        // The thread above would wait, so that the parent process would not hear of the error.
        seen.unwrap_or_else(|error| {
            eprintln!("watch: {error:#}");
            std::process::exit(1)
        })
    });
    print(&serde_json::to_string(&WatcherOutcome {
        seconds: begun.elapsed().as_secs_f64(),
        cpu_seconds: cpu::of_this_process(),
        ..seen
    })?)
}
