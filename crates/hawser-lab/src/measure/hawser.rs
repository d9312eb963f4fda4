//! The real Hawser binary: gateway in the server namespace, client in the other.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::bench::{Bench, StepError, own_program, wait_for_port};
use crate::process::Program;
use crate::topology::SERVER;

/// Where the binary under test is.
#[derive(Clone, Debug)]
pub struct Programs {
    hawser: PathBuf,
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
    /// The lab does not know its own place.
    #[error("cannot find the lab's own place: {0}")]
    Own(#[from] io::Error),
}

impl Programs {
    /// Takes the given binary, else the one beside the lab's own.
    ///
    /// When the lab was started by cargo, or there is none, cargo brings it up to date first.
    pub fn find(given: Option<&Path>) -> Result<Self, ProgramsError> {
        if let Some(given) = given {
            let hawser = given
                .canonicalize()
                .map_err(|_| ProgramsError::NotThere(given.to_owned()))?;
            return Ok(Self { hawser });
        }
        let own = own_program()?;
        let folder = own.parent().unwrap_or(Path::new("."));
        let hawser = folder.join("hawser");
        let cargo = std::env::var_os("CARGO");
        if cargo.is_some() || !hawser.is_file() {
            build(&cargo.unwrap_or("cargo".into()), folder)?;
        }
        if hawser.is_file() {
            return Ok(Self { hawser });
        }
        Err(ProgramsError::NotThere(hawser))
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

/// A gateway and a client enrolled with it; both end when dropped.
#[derive(Debug)]
pub struct Session {
    // The client first: its end is the orderly one.
    client: Program,
    gateway: Program,
}

impl Session {
    /// Starts both, with state of their own below the bench's folder.
    pub fn start(bench: &Bench, programs: &Programs, number: u32) -> Result<Self, StepError> {
        let folder = bench.folder().join(format!("session-{number}"));
        std::fs::create_dir_all(&folder)?;
        let invite = folder.join("invite");
        let mut serve = bench.lab().server().command(programs.hawser());
        serve
            .args(["serve", "--listen", &format!("{SERVER}:{GATEWAY_PORT}")])
            .args(["--allow-destination", "10.0.0.0/8"])
            .arg("--invite-file")
            .arg(&invite)
            .arg("--state")
            .arg(folder.join("gateway"));
        let mut gateway = Program::start("hawser serve", serve, &folder.join("gateway.log"))?;
        wait_for_file(&mut gateway, &invite)?;
        let mut up = bench.lab().client().command(programs.hawser());
        let mut reference = std::ffi::OsString::from("@");
        reference.push(&invite);
        up.args(["up", "--listen", &SOCKS.to_string()])
            .arg("--gateway")
            .arg(reference)
            .arg("--state")
            .arg(folder.join("client"));
        for link in bench.lab().links() {
            up.args(["--link", &link.interface]);
        }
        let mut client = Program::start("hawser up", up, &folder.join("client.log"))?;
        wait_for_port(&mut client, SOCKS, bench.lab().client())?;
        Ok(Self { client, gateway })
    }

    /// The client's SOCKS port, in the client namespace.
    pub fn socks(&self) -> SocketAddrV4 {
        SOCKS
    }

    /// An error when either program has ended.
    pub fn check_alive(&mut self) -> io::Result<()> {
        self.gateway.check_alive()?;
        self.client.check_alive()
    }

    /// Process ids of client and gateway.
    pub fn ids(&self) -> [u32; 2] {
        [self.client.id(), self.gateway.id()]
    }
}

fn wait_for_file(program: &mut Program, path: &Path) -> io::Result<()> {
    let deadline = Instant::now() + START_LIMIT;
    while !path.is_file() {
        program.check_alive()?;
        if Instant::now() >= deadline {
            let said = program.last_words();
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("no invite after {START_LIMIT:?}: {said}"),
            ));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

const SOCKS: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1080);
const GATEWAY_PORT: u16 = 7443;
const START_LIMIT: Duration = Duration::from_secs(20);
