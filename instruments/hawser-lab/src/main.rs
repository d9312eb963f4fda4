//! `hawser-lab`: see `hawser-lab --help`.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = hawser_lab::cli::Cli::parse();
    hawser_lab::interrupt::adopt_orphans();
    let result = cli.execute();
    hawser_lab::interrupt::kill_descendants();
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("hawser-lab: {error:#}");
            ExitCode::FAILURE
        }
    }
}
