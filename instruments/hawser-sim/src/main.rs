//! The program `hawser-sim`.

mod commands;
mod trace;

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Sessions over simulated links, in virtual time.
#[derive(Debug, Parser)]
#[command(name = "hawser-sim", version, max_term_width = 79)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Simulate scenarios: TCP on each link alone, then Hawser on all
    Run(commands::RunArguments),
    /// Transfer small objects on a warm session, and over TCP on each link
    Objects(commands::ObjectArguments),
    /// Let links fail and return, under load and at rest
    Failover(commands::FailoverArguments),
    /// Let connections come and go, placed on links one by one or bonded
    Connections(commands::ConnectionArguments),
    /// Compare `auto` with the better of both transports
    Transports(commands::TransportArguments),
    /// Put links that are as good as dead beside a healthy one
    Dying(commands::DyingArguments),
    /// Compare with a model of the kernel's MPTCP: goodput and queues
    Mptcp(commands::MptcpArguments),
    /// Share a link with plain TCP
    Fairness(commands::FairnessArguments),
    /// Draw link sets and report the worst breaches of the promise
    Hunt(commands::HuntArguments),
    /// Associations: SCTP that uses every path at once
    Association(commands::AssociationArguments),
    /// Packet mode: a tunnel over every path, with the same code as the product
    Packets(commands::PacketArguments),
    /// Ask a policy again what a recording says that one was asked
    Replay(commands::ReplayArguments),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Run(arguments) => arguments.execute(),
        Command::Objects(arguments) => arguments.execute(),
        Command::Failover(arguments) => arguments.execute(),
        Command::Connections(arguments) => arguments.execute(),
        Command::Transports(arguments) => arguments.execute(),
        Command::Dying(arguments) => arguments.execute(),
        Command::Mptcp(arguments) => arguments.execute(),
        Command::Fairness(arguments) => arguments.execute(),
        Command::Hunt(arguments) => arguments.execute(),
        Command::Association(arguments) => arguments.execute(),
        Command::Packets(arguments) => arguments.execute(),
        Command::Replay(arguments) => arguments.execute(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "hawser-sim: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let cause = error.downcast_ref::<std::io::Error>();
    cause.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}
