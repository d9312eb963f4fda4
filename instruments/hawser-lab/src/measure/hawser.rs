//! Hawser's two ends: gateway in the server namespace, client in the other.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::bench::{Bench, StepError, wait_for_port};
use super::programs::Programs;
use crate::process::{self, Program};
use crate::topology::SERVER;

/// How a client comes to know its server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Meeting {
    /// It enrols with a gateway.
    #[default]
    Enrolled,
    /// It discovers a server that fronts the meter, which it never met, and carries connections
    /// that come to its port.
    Discovered,
    /// The same, and takes connections where programs make them: the kernel places them on links
    /// until there is a session.
    DiscoveredByCapture,
}

impl Meeting {
    /// The experiment that measures it.
    pub(crate) fn experiment(self) -> &'static str {
        match self {
            Self::Enrolled => "run",
            Self::Discovered => "fronted",
            Self::DiscoveredByCapture => "fronted-captured",
        }
    }

    /// Whether the two never met.
    pub(crate) fn is_by_discovery(self) -> bool {
        self != Self::Enrolled
    }
}

/// A server and a client that uses it; both end when dropped.
#[derive(Debug)]
pub struct Session {
    // The client first: its end is the orderly one.
    client: Option<Program>,
    gateway: Option<Program>,
    folder: PathBuf,
    meeting: Meeting,
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
        let mut session = Self::new(bench, Meeting::Enrolled, number, more)?;
        let invite = session.folder.join("invite");
        let mut gateway = session.start_gateway(bench, programs, Some(&invite))?;
        wait_for_file(&mut gateway, &invite)?;
        session.gateway = Some(gateway);
        let mut client = session.start_client(bench, programs, Some(&invite))?;
        wait_for_port(&mut client, SOCKS, bench.lab().client())?;
        session.client = Some(client);
        Ok(session)
    }

    /// Starts a server that fronts the meter, and a client that has never met it.
    pub(crate) fn start_unmet(
        bench: &Bench,
        programs: &Programs,
        number: u32,
        meeting: Meeting,
    ) -> Result<Self, StepError> {
        let more: &[&str] = match meeting {
            Meeting::DiscoveredByCapture => &["--discover", "--capture", "system"],
            Meeting::Enrolled | Meeting::Discovered => &["--discover"],
        };
        let more: Vec<_> = more.iter().map(|&it| it.to_owned()).collect();
        let mut session = Self::new(bench, meeting, number, &more)?;
        let mut gateway = session.start_gateway(bench, programs, None)?;
        wait_for_port(&mut gateway, FRONT_DOOR, bench.lab().server())?;
        session.gateway = Some(gateway);
        session.until_fronting(programs)?;
        let mut client = session.start_client(bench, programs, None)?;
        wait_for_port(&mut client, SOCKS, bench.lab().client())?;
        session.client = Some(client);
        Ok(session)
    }

    fn new(
        bench: &Bench,
        meeting: Meeting,
        number: u32,
        more: &[String],
    ) -> Result<Self, StepError> {
        let folder = bench.folder().join(format!("session-{number}"));
        std::fs::create_dir_all(&folder)?;
        Ok(Self {
            client: None,
            gateway: None,
            folder,
            meeting,
            more: more.to_vec(),
            starts: 0,
        })
    }

    /// Waits until the server fronts the meter. Its port for strangers is open before handshakes
    /// answer, and a client that comes in between learns nothing.
    fn until_fronting(&mut self, programs: &Programs) -> Result<(), StepError> {
        let deadline = Instant::now() + START_LIMIT;
        while self.status(programs, "gateway")["counters"]["front-connected"].is_null() {
            self.check_alive()?;
            if Instant::now() >= deadline {
                let text = "the server does not front the meter";
                return Err(io::Error::new(io::ErrorKind::TimedOut, text).into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Waits until the client has a session over all links with its server.
    pub(crate) fn until_met(
        &mut self,
        bench: &Bench,
        programs: &Programs,
    ) -> Result<(), StepError> {
        self.until_paths(programs, bench.lab().links().len())
    }

    /// Waits until the client has a session over so many links at least.
    pub(crate) fn until_paths(
        &mut self,
        programs: &Programs,
        links: usize,
    ) -> Result<(), StepError> {
        let state = self.client_state();
        wait_for_paths(programs, &state, links, || self.check_alive())
    }

    /// Number of connections that the server has connected for strangers.
    pub(crate) fn fronted(&self, programs: &Programs) -> u64 {
        let status = self.status(programs, "gateway");
        status["counters"]["front-connected"].as_u64().unwrap_or(0)
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
        let front = bench.server_address().port().to_string();
        let more: &[&str] = match self.meeting {
            Meeting::Enrolled => &[],
            Meeting::Discovered | Meeting::DiscoveredByCapture => &["--front", &front],
        };
        start_gateway(bench, programs, &state, invite, more, &log)
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
            add_counters(&mut all, end, &self.status(programs, end));
        }
        all
    }

    /// Status of one end; nothing when it gives none.
    fn status(&self, programs: &Programs, end: &str) -> Value {
        status(programs, &self.folder.join(end))
    }
}

/// Waits until the daemon of a state directory has a session with so many paths, or more, that are
/// up.
pub(crate) fn wait_for_paths(
    programs: &Programs,
    state: &Path,
    links: usize,
    mut check_alive: impl FnMut() -> io::Result<()>,
) -> Result<(), StepError> {
    let deadline = Instant::now() + START_LIMIT;
    while !has_paths(&status(programs, state), links) {
        check_alive()?;
        if Instant::now() >= deadline {
            let text = format!("the client has no session over {links} links with the server");
            return Err(io::Error::new(io::ErrorKind::TimedOut, text).into());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// Status of the daemon of a state directory; nothing when it gives none.
fn status(programs: &Programs, state: &Path) -> Value {
    let mut command = Command::new(programs.hawser());
    command.args(["status", "--json", "--state"]).arg(state);
    let text = process::output_of("hawser status", command, STATUS_LIMIT);
    let status = text.ok().and_then(|text| serde_json::from_str(&text).ok());
    status.unwrap_or_default()
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

/// Starts a client without a gateway, with state and log in `folder`, and waits for its port.
/// `more`: further arguments.
pub(crate) fn start_direct(
    bench: &Bench,
    programs: &Programs,
    folder: &Path,
    more: &[OsString],
) -> Result<Program, StepError> {
    let lab = bench.lab();
    let mut up = programs.command(lab.client())?;
    up.args(["up", "--direct", "--listen", &SOCKS.to_string()])
        .args(more)
        .arg("--state")
        .arg(folder.join("state"));
    for link in lab.links() {
        up.args(["--link", &link.interface]);
    }
    let mut direct = Program::start("hawser up", up, &folder.join("client.log"))?;
    wait_for_port(&mut direct, SOCKS, lab.client())?;
    Ok(direct)
}

/// Tells whether a client has a session with so many paths, or more, that are up.
fn has_paths(status: &Value, links: usize) -> bool {
    let paths = |session: &Value| {
        let paths = session["paths"].as_array().into_iter().flatten();
        paths.filter(|path| path["state"] == "up").count()
    };
    let mut sessions = status["sessions"].as_array().into_iter().flatten();
    sessions.any(|session| paths(session) >= links)
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

pub(crate) const SOCKS: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1080);
pub(crate) const GATEWAY: SocketAddrV4 = SocketAddrV4::new(SERVER, 7443);
/// The port for clients that have not enrolled.
const FRONT_DOOR: SocketAddrV4 = SocketAddrV4::new(SERVER, 745);
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

    #[test]
    fn a_session_counts_once_so_many_of_its_paths_are_up() {
        let status = |states: [&str; 2]| {
            let paths = states.map(|state| serde_json::json!({ "state": state }));
            serde_json::json!({ "sessions": [{ "paths": paths }] })
        };
        assert!(has_paths(&status(["up", "up"]), 2));
        assert!(has_paths(&status(["up", "up"]), 1));
        assert!(!has_paths(&status(["up", "joining"]), 2));
        assert!(!has_paths(&Value::Null, 2));
    }
}
