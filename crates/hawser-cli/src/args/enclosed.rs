use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use hawser_config::IpNet;

/// `hawser enclosed`, which `hawser run --tun` calls.
#[derive(Args, Debug)]
pub(crate) struct EnclosedArgs {
    /// Name of the enclosure
    #[arg(long)]
    pub(crate) enclosure: String,
    /// Address of the program's network device
    #[arg(long)]
    pub(crate) address: Vec<IpNet>,
    /// Largest packet of the network device, in bytes
    #[arg(long)]
    pub(crate) mtu: u16,
    /// File with the name servers
    #[arg(long)]
    pub(crate) resolv_conf: PathBuf,
    /// The program and its arguments
    #[arg(required = true, last = true)]
    pub(crate) command: Vec<OsString>,
}

/// `hawser keeper`, which `hawser run --tun` starts beside the program.
#[derive(Args, Debug)]
pub(crate) struct KeeperArgs {
    /// Process whose network is kept
    #[arg(long)]
    pub(crate) process: i32,
}
