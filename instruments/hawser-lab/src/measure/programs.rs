//! The Hawser binary under test.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use hawser_session::TransportChoice;

use super::bench::own_program;
use crate::netns::NetNs;

/// The binary under test, and its options.
#[derive(Clone, Debug)]
pub struct Programs {
    hawser: PathBuf,
    /// Runs without the right to choose any congestion control.
    restricted: bool,
    /// Transport that clients are told to use.
    transport: Option<TransportChoice>,
}

/// No binary to test.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramsError {
    /// The one named on the command line.
    #[error("there is no program {}", .0.display())]
    NotThere(PathBuf),
    /// None beside the lab, and building it failed.
    #[error(
        "no hawser binary beside the lab, and `cargo build --release -p hawser-cli` failed: {0}"
    )]
    Build(String),
    /// Taking the right away would not take bbr away.
    #[error(
        "bbr is permitted to all programs here: first take it out of \
         net.ipv4.tcp_allowed_congestion_control, which is {0}"
    )]
    BbrForAll(String),
    /// The path of the lab's own binary is unknown.
    #[error("cannot find the lab's own place: {0}")]
    Own(#[from] io::Error),
}

impl Programs {
    /// Takes the given binary, else the one beside the lab's own.
    ///
    /// If cargo started the lab, or the binary is missing, cargo brings it up to date first.
    pub fn find(given: Option<&Path>) -> Result<Self, ProgramsError> {
        if let Some(given) = given {
            let hawser = given
                .canonicalize()
                .map_err(|_| ProgramsError::NotThere(given.to_owned()))?;
            return Ok(Self::unrestricted(hawser));
        }
        let own = own_program()?;
        let folder = own.parent().unwrap_or(Path::new("."));
        let hawser = folder.join("hawser");
        let cargo = std::env::var_os("CARGO");
        if cargo.is_some() || !hawser.is_file() {
            build(&cargo.unwrap_or("cargo".into()), folder)?;
        }
        if hawser.is_file() {
            return Ok(Self::unrestricted(hawser));
        }
        Err(ProgramsError::NotThere(hawser))
    }

    fn unrestricted(hawser: PathBuf) -> Self {
        Self {
            hawser,
            restricted: false,
            transport: None,
        }
    }

    /// The same with data of sessions travelling over this, where it is named.
    pub(crate) fn with_transport(self, transport: Option<TransportChoice>) -> Self {
        Self { transport, ..self }
    }

    /// The arguments of a client that say so.
    pub(crate) fn transport_arguments(&self) -> impl Iterator<Item = &'static str> {
        let named = self.transport.into_iter();
        named.flat_map(|it| ["--transport", it.name()])
    }

    /// The same without the right to choose bbr, as unprivileged programs are on many machines.
    pub(crate) fn without_bbr(self) -> Result<Self, ProgramsError> {
        let allowed = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_allowed_congestion_control")?;
        if allowed.split_whitespace().any(|name| name == "bbr") {
            return Err(ProgramsError::BbrForAll(allowed.trim().to_owned()));
        }
        Ok(Self {
            restricted: true,
            ..self
        })
    }

    /// Hawser on a host.
    pub(crate) fn command(&self, host: &NetNs) -> io::Result<Command> {
        let mut command = host.command(&self.hawser);
        if self.restricted {
            host.set_parameters(&[("net/ipv4/tcp_congestion_control", "cubic")])?;
            // SAFETY: between fork and exec only a system call is made.
            unsafe {
                command.pre_exec(|| match libc::prctl(libc::PR_CAPBSET_DROP, CAP_NET_ADMIN) {
                    0 => Ok(()),
                    _ => Err(io::Error::last_os_error()),
                });
            }
        }
        Ok(command)
    }

    /// The binary.
    pub fn hawser(&self) -> &Path {
        &self.hawser
    }
}

/// Builds the binary into the folder that the lab's own is in.
fn build(cargo: &std::ffi::OsStr, folder: &Path) -> Result<(), ProgramsError> {
    eprintln!("building the hawser binary with cargo");
    let mut command = Command::new(cargo);
    command.args(["build", "-p", "hawser-cli"]);
    if folder.ends_with("release") {
        command.arg("--release");
    }
    if let Some(target) = folder.parent() {
        command.arg("--target-dir").arg(target);
    }
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(ProgramsError::Build(status.to_string())),
        Err(error) => Err(ProgramsError::Build(error.to_string())),
    }
}

/// From linux/capability.h.
const CAP_NET_ADMIN: libc::c_ulong = 12;
