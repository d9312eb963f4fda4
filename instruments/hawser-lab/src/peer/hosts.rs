//! The programs: peers on the server host, and clients in connection mode that have enrolled with
//! it.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::measure::{Bench, Programs, StepError, wait_for_file, wait_for_port};
use crate::process::{Program, output_of};
use crate::topology::{LabLink, SERVER};

/// Starts the programs on the hosts.
pub(super) struct Hosts<'a> {
    pub(super) bench: &'a Bench,
    pub(super) programs: &'a Programs,
}

/// A client that looks for peers among destinations, or not.
#[derive(Clone, Copy, Debug)]
pub(super) struct Client {
    name: &'static str,
    pub(super) socks: SocketAddrV4,
    probes: bool,
}

impl Client {
    pub(super) const PROBING: Self = Self::new("auto", 1080, true);
    pub(super) const PLAIN: Self = Self::new("off", 1081, false);

    const fn new(name: &'static str, port: u16, probes: bool) -> Self {
        Self {
            name,
            socks: SocketAddrV4::new(Ipv4Addr::LOCALHOST, port),
            probes,
        }
    }
}

impl Hosts<'_> {
    /// Makes both clients and the peer know each other; then all of them end.
    pub(super) fn enrol(&self) -> Result<(), StepError> {
        let (invite, links) = (self.place("invite"), self.bench.lab().links());
        // A folder that is kept may hold those of another run.
        for name in ["peer", Client::PROBING.name, Client::PLAIN.name] {
            let _ = std::fs::remove_dir_all(self.place(name));
        }
        for client in [Client::PROBING, Client::PLAIN] {
            let _ = std::fs::remove_file(&invite);
            let mut peer = self.start_peer(Some(&invite))?;
            wait_for_file(&mut peer, &invite)?;
            let log = self.log(client);
            let mut up = self.start(client, links, Duration::from_secs(60), Some(&invite))?;
            let deadline = Instant::now() + PATIENCE;
            while !std::fs::read_to_string(&log)?.contains("enrolled with the peer") {
                up.check_alive()?;
                if Instant::now() >= deadline {
                    let said = format!("not enrolled: {}", up.last_words());
                    return Err(io::Error::new(io::ErrorKind::TimedOut, said).into());
                }
                std::thread::sleep(POLL);
            }
        }
        Ok(())
    }

    /// The peer, once it listens.
    pub(super) fn serve(&self) -> Result<Program, StepError> {
        let mut peer = self.start_peer(None)?;
        wait_for_port(&mut peer, PEER, self.bench.lab().server())?;
        Ok(peer)
    }

    /// A client, once it listens, that may use `links`.
    pub(super) fn up(
        &self,
        client: Client,
        links: &[LabLink],
        retry: Duration,
    ) -> Result<Program, StepError> {
        let mut up = self.start(client, links, retry, None)?;
        wait_for_port(&mut up, client.socks, self.bench.lab().client())?;
        Ok(up)
    }

    /// Connections of a client that are bonded at this moment.
    pub(super) fn bonded(&self, client: Client) -> Result<usize, StepError> {
        let mut command = Command::new(self.programs.hawser());
        command.args(["status", "--json", "--state"]);
        command.arg(self.place(client.name));
        let text = output_of("hawser status", command, PATIENCE)?;
        let status: Value = serde_json::from_str(&text)?;
        let sessions = status["sessions"].as_array().into_iter().flatten();
        let streams = sessions.map(|session| session["streams"].as_array().map_or(0, Vec::len));
        Ok(streams.sum())
    }

    fn start_peer(&self, invite: Option<&Path>) -> Result<Program, StepError> {
        let mut serve = self.programs.command(self.bench.lab().server())?;
        serve.args(["serve", "--listen", &PEER.to_string()]);
        serve.args(["--allow-destination", &format!("{SERVER}/32"), "--state"]);
        serve.arg(self.place("peer"));
        if let Some(invite) = invite {
            serve.arg("--invite-file").arg(invite);
        }
        Ok(Program::start(
            "hawser serve",
            serve,
            &self.place("peer.log"),
        )?)
    }

    fn start(
        &self,
        client: Client,
        links: &[LabLink],
        retry: Duration,
        invite: Option<&Path>,
    ) -> Result<Program, StepError> {
        let peers = if client.probes { "auto" } else { "off" };
        let config = self.place(&format!("{}.toml", client.name));
        let retry = retry.as_secs();
        let text = format!("[connection]\npeers = \"{peers}\"\npeer-retry = \"{retry}s\"\n");
        std::fs::write(&config, text)?;
        let mut up = self.programs.command(self.bench.lab().client())?;
        up.args(["up", "--listen", &client.socks.to_string(), "--config"]);
        up.arg(config).arg("--state").arg(self.place(client.name));
        up.args(self.programs.transport_arguments());
        if let Some(invite) = invite {
            let mut reference = std::ffi::OsString::from("@");
            reference.push(invite);
            up.arg("--peer").arg(reference);
        }
        for link in links {
            up.args(["--link", &link.interface]);
        }
        Ok(Program::start("hawser up", up, &self.log(client))?)
    }

    fn log(&self, client: Client) -> PathBuf {
        self.place(&format!("{}.log", client.name))
    }

    fn place(&self, name: &str) -> PathBuf {
        self.bench.folder().join(name)
    }
}

/// Address of peers.
pub(super) const PEER: SocketAddrV4 = SocketAddrV4::new(SERVER, 7443);
const PATIENCE: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(50);
