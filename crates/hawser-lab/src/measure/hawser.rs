//! The real Hawser binary: gateway in the server namespace, client in the other.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use hawser_session::TransportChoice;
use serde_json::Value;

use super::bench::{Bench, StepError, own_program, wait_for_port};
use crate::netns::NetNs;
use crate::process::{self, Program};
use crate::topology::SERVER;

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
    /// When the lab was started by cargo, or there is none, cargo brings it up to date first.
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

/// A gateway and a client enrolled with it; both end when dropped.
#[derive(Debug)]
pub struct Session {
    // The client first: its end is the orderly one.
    client: Option<Program>,
    gateway: Option<Program>,
    folder: PathBuf,
    /// Arguments of the client beyond those that every client has.
    more: Vec<String>,
    /// Number of programs that were started, for the names of their logs.
    starts: u32,
}

impl Session {
    /// Starts both, with state of their own below the bench's folder.
    pub fn start(bench: &Bench, programs: &Programs, number: u32) -> Result<Self, StepError> {
        Self::start_with(bench, programs, number, &[])
    }

    /// Starts a session with `more` arguments for the client.
    pub(crate) fn start_with(
        bench: &Bench,
        programs: &Programs,
        number: u32,
        more: &[String],
    ) -> Result<Self, StepError> {
        let folder = bench.folder().join(format!("session-{number}"));
        std::fs::create_dir_all(&folder)?;
        let invite = folder.join("invite");
        let mut session = Self {
            client: None,
            gateway: None,
            folder,
            more: more.to_vec(),
            starts: 0,
        };
        let mut gateway = session.start_gateway(bench, programs, Some(&invite))?;
        wait_for_file(&mut gateway, &invite)?;
        session.gateway = Some(gateway);
        let mut client = session.start_client(bench, programs, Some(&invite))?;
        wait_for_port(&mut client, SOCKS, bench.lab().client())?;
        session.client = Some(client);
        Ok(session)
    }

    /// Ends the client in order and starts it again, enrolled as it is; its port opens later.
    pub(crate) fn restart_client(
        &mut self,
        bench: &Bench,
        programs: &Programs,
    ) -> Result<(), StepError> {
        self.client = None;
        self.client = Some(self.start_client(bench, programs, None)?);
        Ok(())
    }

    /// Kills the gateway, starts it again and waits until it listens.
    pub(crate) fn restart_gateway(
        &mut self,
        bench: &Bench,
        programs: &Programs,
    ) -> Result<(), StepError> {
        if let Some(gateway) = self.gateway.take() {
            gateway.kill();
        }
        let mut gateway = self.start_gateway(bench, programs, None)?;
        wait_for_port(&mut gateway, GATEWAY, bench.lab().server())?;
        self.gateway = Some(gateway);
        Ok(())
    }

    fn start_gateway(
        &mut self,
        bench: &Bench,
        programs: &Programs,
        invite: Option<&Path>,
    ) -> Result<Program, StepError> {
        let log = self.next_log("gateway");
        let state = self.folder.join("gateway");
        start_gateway(bench, programs, &state, invite, &[], &log)
    }

    fn start_client(
        &mut self,
        bench: &Bench,
        programs: &Programs,
        invite: Option<&Path>,
    ) -> Result<Program, StepError> {
        let mut up = programs.command(bench.lab().client())?;
        up.args(["up", "--listen", &SOCKS.to_string()])
            .args(&self.more)
            .args(programs.transport_arguments())
            .arg("--state")
            .arg(self.client_state());
        if let Some(invite) = invite {
            let mut reference = std::ffi::OsString::from("@");
            reference.push(invite);
            up.arg("--gateway").arg(reference);
        }
        for link in bench.lab().links() {
            up.args(["--link", &link.interface]);
        }
        let log = self.next_log("client");
        Ok(Program::start("hawser up", up, &log)?)
    }

    /// `NAME.log` for the first two, then with a number.
    fn next_log(&mut self, name: &str) -> PathBuf {
        self.starts += 1;
        self.folder.join(match self.starts {
            1 | 2 => format!("{name}.log"),
            later => format!("{name}-{later}.log"),
        })
    }

    /// The client's SOCKS port, in the client namespace.
    pub fn socks(&self) -> SocketAddrV4 {
        SOCKS
    }

    /// Returns the folder that the client keeps between runs.
    pub(crate) fn client_state(&self) -> PathBuf {
        self.folder.join("client")
    }

    /// An error when either program has ended.
    pub fn check_alive(&mut self) -> io::Result<()> {
        let programs = [&mut self.gateway, &mut self.client];
        programs
            .into_iter()
            .flatten()
            .try_for_each(Program::check_alive)
    }

    /// Process ids of client and gateway.
    pub fn ids(&self) -> [u32; 2] {
        [&self.client, &self.gateway].map(|program| program.as_ref().map_or(0, Program::id))
    }

    /// Returns the counters of client and gateway for the session, such as `client bytes-again`;
    /// empty when they give none.
    pub(crate) fn counters(&self, programs: &Programs) -> BTreeMap<String, u64> {
        let mut all = BTreeMap::new();
        for end in ["client", "gateway"] {
            let mut command = Command::new(programs.hawser());
            command.args(["status", "--json", "--state"]);
            command.arg(self.folder.join(end));
            let text = process::output_of("hawser status", command, STATUS_LIMIT);
            let status = text.ok().and_then(|text| serde_json::from_str(&text).ok());
            if let Some(status) = status {
                add_counters(&mut all, end, &status);
            }
        }
        all
    }
}

/// Starts a gateway on the server host that keeps its state in `state` and writes an invite into
/// the file `invite`, where that is wanted. `more`: further arguments.
pub(crate) fn start_gateway(
    bench: &Bench,
    programs: &Programs,
    state: &Path,
    invite: Option<&Path>,
    more: &[&str],
    log: &Path,
) -> Result<Program, StepError> {
    let mut serve = programs.command(bench.lab().server())?;
    serve
        .args(["serve", "--listen", &GATEWAY.to_string()])
        .args(["--allow-destination", "10.0.0.0/8"])
        .args(more)
        .arg("--state")
        .arg(state);
    if let Some(invite) = invite {
        serve.arg("--invite-file").arg(invite);
    }
    Ok(Program::start("hawser serve", serve, log)?)
}

/// Sums up over the sessions and channels of one end.
fn add_counters(all: &mut BTreeMap<String, u64>, end: &str, status: &Value) {
    let list = |of: &Value, key: &str| of[key].as_array().cloned().unwrap_or_default();
    for session in list(status, "sessions") {
        let counters = session["counters"].as_object().into_iter().flatten();
        for (name, count) in counters {
            *all.entry(format!("{end} {name}")).or_default() += count.as_u64().unwrap_or(0);
        }
        let paths = list(&session, "paths");
        for channel in paths.iter().flat_map(|path| list(path, "channels")) {
            let count = channel["retransmissions"].as_u64().unwrap_or(0);
            *all.entry(format!("{end} tcp-retransmissions")).or_default() += count;
        }
    }
}

pub(crate) fn wait_for_file(program: &mut Program, path: &Path) -> io::Result<()> {
    let deadline = Instant::now() + START_LIMIT;
    while !path.is_file() {
        program.check_alive()?;
        if Instant::now() >= deadline {
            let said = program.last_words();
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("no {} after {START_LIMIT:?}: {said}", path.display()),
            ));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// From linux/capability.h.
const CAP_NET_ADMIN: libc::c_ulong = 12;
pub(crate) const SOCKS: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1080);
pub(crate) const GATEWAY: SocketAddrV4 = SocketAddrV4::new(SERVER, 7443);
const STATUS_LIMIT: Duration = Duration::from_secs(10);
const START_LIMIT: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_summed_over_sessions_and_channels() {
        let status = serde_json::json!({"sessions": [
            {"counters": {"bytes-again": 3}, "paths": [
                {"channels": [{"retransmissions": 1}, {"retransmissions": 2}]},
                {"channels": [{"retransmissions": 4}]},
            ]},
            {"counters": {"bytes-again": 4}},
        ]});
        let mut all = BTreeMap::new();
        add_counters(&mut all, "client", &status);
        assert_eq!(all["client bytes-again"], 7);
        assert_eq!(all["client tcp-retransmissions"], 7);
        add_counters(&mut all, "gateway", &Value::Null);
        assert_eq!(all.len(), 2);
    }
}
