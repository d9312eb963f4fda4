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
    /// Takes the given binary, else the one beside the lab's own, else builds it.
    pub fn find(given: Option<&Path>) -> Result<Self, ProgramsError> {
        if let Some(given) = given {
            let hawser = given
                .canonicalize()
                .map_err(|_| ProgramsError::NotThere(given.to_owned()))?;
            return Ok(Self { hawser });
        }
        let own = own_program()?;
        let folder = own.parent().unwrap_or(Path::new("."));
        let beside = folder.join("hawser");
        if beside.is_file() {
            return Ok(Self { hawser: beside });
        }
        eprintln!("no hawser binary beside the lab: building it with cargo");
        let status = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()))
            .args(["build", "--release", "-p", "hawser-cli"])
            .status()
            .map_err(|e| ProgramsError::Build(e.to_string()))?;
        // cargo puts it into its own target folder, which is the lab's when it was run by cargo.
        let built = folder.with_file_name("release").join("hawser");
        if status.success() && built.is_file() {
            return Ok(Self { hawser: built });
        }
        Err(ProgramsError::Build(format!(
            "{status}, {} not there",
            built.display()
        )))
    }

    /// The binary.
    pub fn hawser(&self) -> &Path {
        &self.hawser
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
