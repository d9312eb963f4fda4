//! A gateway that carries packets, and a machine whose own or forwarded packets it carries.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use hawser_types::SignalStrength;

use crate::measure::{
    Bench, GATEWAY, Programs, SOCKS, StepError, start_gateway, wait_for_file, wait_for_paths,
    wait_for_port,
};
use crate::process::{Program, output_of};
use crate::topology::SERVER;

/// Both daemons; they end when this is dropped.
#[derive(Debug)]
pub(crate) struct Captured<'a> {
    bench: &'a Bench,
    programs: &'a Programs,
    state: PathBuf,
    // The client first: its end is the orderly one.
    client: Program,
    gateway: Program,
}

/// How the daemons are set up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup<'a> {
    pub(crate) capture: Capture,
    /// The policy for packets, at both ends.
    pub(crate) policy: &'a str,
    /// The lab's TCP goes from end to end, in place of streams.
    pub(crate) tcp_as_packets: bool,
}

/// Whose packets are carried.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Capture {
    /// The client host's own.
    System,
    /// Those of hosts behind its interface `lan`, of which one has this address.
    Lan(std::net::Ipv4Addr),
}

impl<'a> Captured<'a> {
    /// Starts both, with state and logs in `folder`, and waits until packets are carried.
    pub(crate) fn start(
        bench: &'a Bench,
        programs: &'a Programs,
        folder: &Path,
        setup: Setup<'_>,
    ) -> Result<Self, StepError> {
        std::fs::create_dir_all(folder)?;
        let session = format!("[session]\npacket-scheduler = \"{}\"\n", setup.policy);
        let invite = folder.join("invite");
        let gateway = gateway(bench, programs, folder, &invite, &session)?;
        let rules = if setup.tcp_as_packets {
            TCP_AS_PACKETS
        } else {
            ""
        };
        let config = folder.join("client.toml");
        std::fs::write(&config, session + rules)?;
        let client = bench.lab().client();
        let state = folder.join("client");
        let mut up = programs.command(client)?;
        let mut reference = std::ffi::OsString::from("@");
        reference.push(&invite);
        up.args(["up", "--listen", &SOCKS.to_string(), "--capture"]);
        up.arg(match setup.capture {
            Capture::System => "system",
            Capture::Lan(_) => "lan:lan",
        });
        up.arg("--state").arg(&state).arg("--config").arg(&config);
        up.arg("--gateway").arg(reference);
        let mut up = Program::start("hawser up", up, &folder.join("client.log"))?;
        wait_for_port(&mut up, SOCKS, client)?;
        let mut captured = Self {
            bench,
            programs,
            state,
            client: up,
            gateway,
        };
        captured.wait_until_carried(setup.capture)?;
        Ok(captured)
    }

    fn wait_until_carried(&mut self, capture: Capture) -> Result<(), StepError> {
        let deadline = Instant::now() + STARTS;
        loop {
            self.client.check_alive()?;
            let mut way = self.bench.lab().client().command("ip");
            way.args(["route", "get", &SERVER.to_string()]);
            if let Capture::Lan(host) = capture {
                way.args(["from", &host.to_string(), "iif", "lan"]);
            }
            // Before it is a router, it has no way for a host.
            let way = output_of("ip", way, STARTS).unwrap_or_default();
            if way.contains("dev hawser") {
                return Ok(());
            }
            if Instant::now() > deadline {
                let words = self.client.last_words();
                let problem = format!("packets are not carried after {STARTS:?}: {words}");
                return Err(io::Error::new(io::ErrorKind::TimedOut, problem).into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Process ids of client and gateway.
    pub(crate) fn ids(&self) -> [u32; 2] {
        [&self.client, &self.gateway].map(Program::id)
    }

    /// Waits until the client has a session over all links with the gateway.
    pub(crate) fn until_met(&mut self) -> Result<(), StepError> {
        let (state, links) = (self.state.clone(), self.bench.lab().links().len());
        wait_for_paths(self.programs, &state, links, || self.check_alive())
    }

    /// An error when either program has ended.
    pub(crate) fn check_alive(&mut self) -> io::Result<()> {
        let programs = [&mut self.client, &mut self.gateway];
        programs.into_iter().try_for_each(Program::check_alive)
    }

    /// `program` of the client host with its connections taken by the hook of connect(2); arguments
    /// may follow. It has a session of its own.
    pub(crate) fn hooked(&self, program: impl AsRef<OsStr>) -> Result<Command, StepError> {
        let mut run = self.programs.command(self.bench.lab().client())?;
        run.arg("--state").arg(&self.state);
        run.args(["run", "--via", "kernel", "--"]).arg(program);
        Ok(run)
    }

    /// Tells Hawser the strength of a link's signal, in place of a radio.
    pub(crate) fn tell_signal(
        &self,
        link: usize,
        strength: SignalStrength,
    ) -> Result<(), StepError> {
        let lab = self.bench.lab();
        let mut command = self.programs.command(lab.client())?;
        let name = lab.links()[link].interface.as_str();
        let strength = strength.to_string();
        command.args(["link", name, "--signal", &strength, "--state"]);
        command.arg(&self.state);
        output_of("hawser link", command, STARTS)?;
        Ok(())
    }
}

fn gateway(
    bench: &Bench,
    programs: &Programs,
    folder: &Path,
    invite: &Path,
    config: &str,
) -> Result<Program, StepError> {
    let path = folder.join("gateway.toml");
    std::fs::write(&path, config)?;
    let path = path.to_string_lossy();
    let serving = ["--packet-exit", "nat", "--config", &path];
    let (state, log) = (folder.join("gateway"), folder.join("gateway.log"));
    let mut gateway = start_gateway(bench, programs, &state, Some(invite), &serving, &log)?;
    wait_for_file(&mut gateway, invite)?;
    wait_for_port(&mut gateway, GATEWAY, bench.lab().server())?;
    Ok(gateway)
}

/// All addresses that the server host has beside the links.
const TCP_AS_PACKETS: &str = "[[rule]]\naddress = \"10.99.0.0/24\"\nprotocol = \"tcp\"\n\
                              mode = \"packet\"\n";
const STARTS: Duration = Duration::from_secs(20);
