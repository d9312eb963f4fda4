//! The program `hawser`: arguments, wiring and exit codes.

mod args;
mod serve;
mod setup;
mod up;

use std::process::ExitCode;

use clap::Parser as _;

use args::{Cli, Command};
use setup::Setup;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = Setup::new(cli.global).and_then(|setup| run(&setup, cli.command));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if setup::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hawser: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(setup: &Setup, command: Command) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let result = runtime.block_on(async {
        match command {
            Command::Serve(args) => serve::run(setup, &args).await,
            Command::Up(args) => up::run(setup, &args).await,
            _ => anyhow::bail!("this command is not there yet"),
        }
    });
    // A name look-up that hangs must not hold the program up.
    runtime.shutdown_timeout(std::time::Duration::from_millis(500));
    result
}
