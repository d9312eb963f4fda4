//! `hawser enclosed`: what the program of `hawser run --tun` is until it begins.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use hawser_net::tun::{TunAddresses, enter};

use crate::args::EnclosedArgs;
use crate::commands::run::cannot_run;

/// Enters a network of its own and becomes the program there.
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
