//! `hawser voucher`: prints the file with which this machine's owner publishes its key.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::bail;
use hawser_keys::voucher::{DEFAULT_SPAN, VouchedKeys, Voucher};

use crate::args::VoucherArgs;
use hawser_daemon::setup::{Setup, show};

/// Prints the file for `https://NAME/.well-known/hawser`.
pub(crate) fn run(setup: &Setup, args: &VoucherArgs) -> anyhow::Result<()> {
    let bonded = if args.none {
        None
    } else {
        Some(vouched(setup, args)?)
    };
    let days = args.days.map(|days| Duration::from_secs(days * 86_400));
    let voucher = Voucher {
        bonded,
        span: days.unwrap_or(DEFAULT_SPAN),
    };
    let text = voucher.to_string();
    // A file that clients could not parse is an error here, not at the client.
    text.parse::<Voucher>()?;
    show(&text)
}

fn vouched(setup: &Setup, args: &VoucherArgs) -> anyhow::Result<VouchedKeys> {
    let own = setup.state.identity()?.public();
    let configured = setup.config.serve.front.ports.iter().map(|it| it.port);
    let ports: BTreeSet<u16> = if args.ports.is_empty() {
        configured.collect()
    } else {
        args.ports.iter().copied().collect()
    };
    if ports.is_empty() {
        bail!(
            "no port is fronted by the configuration: name those of `hawser serve --front` with \
             --ports"
        );
    }
    let keys = args.keys.iter().copied().chain([own]).collect();
    Ok(VouchedKeys { keys, ports })
}
