//! `hawser-lab`: see `hawser-lab --help`.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match hawser_lab::cli::Cli::parse().execute() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("hawser-lab: {error:#}");
            ExitCode::FAILURE
        }
    }
}
