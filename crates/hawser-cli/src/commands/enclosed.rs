//! `hawser enclosed`: enters a network of its own and then becomes the program of `hawser run
//! --tun`. `hawser keeper`: keeps that network for a moment after the program's end.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use hawser_host::tun::{self, TunAddresses, enter};

use crate::args::{EnclosedArgs, KeeperArgs};
use crate::commands::run::cannot_run;

/// Enters a network of its own and executes the program there.
pub(crate) fn run(args: &EnclosedArgs) -> ExitCode {
    let wanted = TunAddresses {
        addresses: args.address.clone(),
        mtu: args.mtu,
        is_default: true,
    };
    if let Err(error) = enter(&args.enclosure, &wanted, &args.resolv_conf) {
        eprintln!("hawser: --tun: {error}");
        return ExitCode::FAILURE;
    }
    let Some((program, arguments)) = args.command.split_first() else {
        return ExitCode::FAILURE;
    };
    let error = Command::new(program).args(arguments).exec();
    cannot_run(&program.to_string_lossy(), &error)
}

/// Keeps the network of a program for a moment after its end.
pub(crate) fn keep(args: &KeeperArgs) -> ExitCode {
    match tun::keep(args.process, io::stdout(), io::stdin().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
