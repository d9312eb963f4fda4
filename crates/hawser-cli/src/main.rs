//! The program `hawser`: arguments, commands and exit codes.
//!
//! - A command: `args.rs` and `args/` parse it without side effects → `setup.rs` (configuration,
//!   state directory, log) → `commands/` where it does its own work, or `client/` where it asks a
//!   running daemon by the control socket.
//! - A daemon: `commands/up.rs` and `commands/serve.rs` give the flags to `hawser-daemon`.
//! - Packets of one program: `commands/run/enclosed.rs`; of the machine and of a gateway's clients:
//!   `hawser-daemon`.
//!
//! Where to begin:
//!
//! - a command: `args.rs`, its arm in `run` (this file), its file in `commands/` or `client/`, a
//!   line in `docs/guide/commands.md` (`args/tests/documents.rs` asks for it);
//! - a flag: `args.rs` (`up`, `serve`, `invite`, `why`, `top`, `bench`) or the command's file in
//!   `args/`, merged by `apply_to` (for `[session]` by `setup.rs` of `hawser-daemon`, from
//!   `commands/up.rs`), with a line in `args/tests.rs`;
//! - a check of `hawser doctor`: `commands/doctor/links.rs`, `commands/doctor/system.rs`,
//!   `commands/doctor/state.rs` or `commands/doctor/agent.rs`, called from `commands/doctor.rs`;
//!   unit tests in the file; tests of the program in `end_to_end/`: `bench.rs`; for the state
//!   `registration.rs`; for agents `modems.rs`, `standby.rs`; for devices `kill_switch.rs`,
//!   `router.rs`;
//! - a log line or field: the `tracing` call at the place where it happens; spans are in `spans.rs`
//!   of `hawser-net`, the format in `setup.rs`, levels in `log_filter.rs`; `end_to_end/service.rs`
//!   reads the log as JSON and looks for secrets in it;
//! - a message of a first error: `docs/errors.md`, with `end_to_end/first_errors.rs`;
//! - an option of `run --tun`: `args/run.rs`, `args/enclosed.rs`, `commands/run/enclosed.rs`,
//!   `commands/enclosed.rs`; `end_to_end/packets.rs`.
//!
//! Tests with the real program in network namespaces: `tests/end_to_end/`; with curl, git, nginx
//! and browsers: `tests/real_clients/`.
#![forbid(unsafe_code)]

mod args;
mod client;
mod commands;
mod log_filter;
mod setup;

use std::io;
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser as _;

use args::{Cli, Command};
use client::{events, kill_switch, link, links, policy, status, streams, top, upgrade, web, why};
use commands::{
    bench, doctor, enclosed, first_run, given_invites, invite, manual, peers, receive, rule, run,
    send, serve, up, voucher,
};
use hawser_daemon::setup::{Setup, is_usage};

fn main() -> ExitCode {
    let Cli {
        global,
        mut command,
    } = Cli::parse();
    match &command {
        // These commands run while this process has only one thread.
        Command::Enclosed(args) => return enclosed::run(args),
        Command::Keeper(args) => return enclosed::keep(args),
        Command::Guard => {
            hawser_host::guard::keep_watch(io::stdin().lock());
            return ExitCode::SUCCESS;
        }
        _ => {}
    }
    let format = global.log_format.unwrap_or_default();
    let outcome = setup::begin(global, &command).and_then(|setup| {
        given_invites::take(&setup, &mut command)?;
        run(&setup, command)
    });
    match outcome {
        Ok(code) => code,
        Err(error) if setup::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            setup::complain(&error, format);
            if is_usage(&error) {
                ExitCode::from(2)
            } else {
                ExitCode::FAILURE
            }
        }
    }
}

/// Threads that tasks run on; `None` lets the runtime choose one for each processor.
///
/// Where there are two processors, `run --tun` takes one thread. The other processor is for the
/// program whose packets it carries, and a second thread would do little but wait for the first.
fn threads_for(command: &Command) -> Option<usize> {
    let Command::Run(run) = command else {
        return None;
    };
    let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    (run.tun && processors <= 2).then_some(1)
}

fn run(setup: &Setup, command: Command) -> anyhow::Result<ExitCode> {
    setup::raise_open_files();
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if let Some(threads) = threads_for(&command) {
        builder.worker_threads(threads);
    }
    let runtime = builder.enable_all().build()?;
    let result = runtime.block_on(async {
        kill_switch::join(&command).await;
        let done = match command {
            Command::Serve(args) => serve::run(setup, &args).await,
            Command::Up(args) => up::run(setup, args).await,
            Command::Run(args) => return run::run(setup, &args).await,
            Command::Send(args) => send::run(setup, &args).await,
            Command::Receive(args) => receive::run(setup, &args).await,
            Command::Setup(args) => first_run::run(setup, &args).await,
            Command::Invite(args) => invite::invite(setup, &args).await,
            Command::Voucher(args) => voucher::run(setup, &args),
            Command::Peers(args) => peers::peers(setup, &args).await,
            Command::Status(args) => status::run(setup, args).await,
            Command::Links(args) => links::run(setup, args).await,
            Command::Streams(args) => streams::run(setup, args).await,
            Command::Events(args) => events::run(setup, args).await,
            Command::Web(args) => web::run(setup, args).await,
            Command::Top(args) => top::run(setup, args).await,
            Command::Upgrade(args) => upgrade::run(setup, &args).await,
            Command::Link(args) => link::run(setup, &args).await,
            Command::Rule(args) => rule::run(setup, args).await,
            Command::Policy(args) => policy::run(setup, &args).await,
            Command::Why(args) => why::run(setup, &args).await,
            Command::Bench(args) => bench::run(setup, &args).await,
            Command::KillSwitch(args) => kill_switch::run(setup, args).await,
            Command::Doctor(args) => doctor::run(setup, args).await,
            Command::Completions(args) => manual::completions(&args),
            Command::Man(args) => manual::pages(&args),
            Command::Enclosed(_) | Command::Keeper(_) | Command::Guard => Ok(()),
        };
        done.map(|()| ExitCode::SUCCESS)
    });
    // A name look-up that hangs must not delay the end of the program.
    runtime.shutdown_timeout(Duration::from_millis(500));
    result
}
