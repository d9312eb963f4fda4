//! A gateway that carries packets, an enrolled client, and programs whose packets it carries.

use std::ffi::OsStr;
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::tools::{self, Echoes, Udp};
use crate::measure::{
    Bench, GATEWAY, Programs, SOCKS, StepError, start_gateway, wait_for_file, wait_for_port,
};
use crate::meter::Congestion;
use crate::process::{Program, output_of};
use crate::scenario::{Action, Direction};
use crate::topology::SERVER;

/// Where packets are carried.
#[derive(Debug)]
pub(super) struct Stage<'a> {
    bench: &'a Bench,
    programs: &'a Programs,
    state: PathBuf,
    gateway: Program,
    _servers: [Program; 2],
}

/// The way that a program's packets take.
#[derive(Clone, Copy, Debug)]
pub(super) enum Way {
    /// One link alone, without Hawser.
    Link(Ipv4Addr),
    /// All links, by `hawser run --tun`.
    Tunnel,
}

impl<'a> Stage<'a> {
    pub(super) fn new(bench: &'a Bench, programs: &'a Programs) -> Result<Self, StepError> {
        let (folder, lab) = (bench.folder(), bench.lab());
        let invite = folder.join("invite");
        let serving = ["--packet-exit", "nat"];
        let log = folder.join("gateway.log");
        let state = folder.join("gateway");
        let invited = Some(invite.as_path());
        let mut gateway = start_gateway(bench, programs, &state, invited, &serving, &log)?;
        wait_for_file(&mut gateway, &invite)?;
        wait_for_port(&mut gateway, GATEWAY, lab.server())?;
        let stage = Self {
            bench,
            programs,
            state: folder.join("client"),
            gateway,
            _servers: [server(bench, SERVER, BULK)?, server(bench, SERVER, OTHER)?],
        };
        stage.enrol(&invite)?;
        Ok(stage)
    }

    fn enrol(&self, invite: &Path) -> Result<(), StepError> {
        let client = self.bench.lab().client();
        let mut up = self.programs.command(client)?;
        let mut reference = std::ffi::OsString::from("@");
        reference.push(invite);
        up.args(["up", "--listen", &SOCKS.to_string(), "--state"]);
        up.arg(&self.state).arg("--gateway").arg(reference);
        let log = self.bench.folder().join("enrolment.log");
        let mut program = Program::start("hawser up", up, &log)?;
        wait_for_port(&mut program, SOCKS, client)?;
        Ok(())
    }

    /// The process that carries packets at the server.
    pub(super) fn gateway(&self) -> u32 {
        self.gateway.id()
    }

    /// `program` with all its packets in the tunnel; arguments may follow.
    pub(super) fn tunnelled(&self, program: impl AsRef<OsStr>) -> Result<Command, StepError> {
        let mut run = self.programs.command(self.bench.lab().client())?;
        run.arg("--state").arg(&self.state);
        run.args(["run", "--tun", "--"]).arg(program);
        Ok(run)
    }

    /// Goodput of one TCP connection in Mbit/s.
    pub(super) fn tcp(
        &self,
        way: Way,
        direction: Direction,
        control: Congestion,
        seconds: u64,
    ) -> Result<f64, StepError> {
        let mut arguments = flow(way, direction, seconds, BULK);
        arguments.extend(["-C", control.name()].map(str::to_owned));
        let text = self.iperf3(way, &arguments, seconds)?;
        tools::tcp(&text).ok_or_else(|| unreadable("iperf3", &text))
    }

    /// One flow of UDP at a rate of payload in bits per second.
    pub(super) fn udp(
        &self,
        direction: Direction,
        rate: u64,
        seconds: u64,
    ) -> Result<Udp, StepError> {
        let mut arguments = flow(Way::Tunnel, direction, seconds, BULK);
        let (rate, length) = (rate.to_string(), PAYLOAD.to_string());
        let more = ["-u", "-b", &rate, "-l", &length];
        arguments.extend(more.map(str::to_owned));
        let text = self.iperf3(Way::Tunnel, &arguments, seconds)?;
        tools::udp(&text).ok_or_else(|| unreadable("iperf3", &text))
    }

    /// Echoes over an otherwise unused link.
    pub(super) fn idle(&self, address: Ipv4Addr, seconds: u64) -> Result<Echoes, StepError> {
        let way = Way::Link(address);
        let mut arguments = ping(seconds);
        arguments.extend(["-I".to_owned(), address.to_string()]);
        Ok(tools::echoes(
            &self.output(way, "ping", &arguments, seconds)?,
        ))
    }

    /// Echoes over all links, as many and as large as the packets of a call.
    pub(super) fn echoes(&self, seconds: u64) -> Result<Echoes, StepError> {
        let text = self.output(Way::Tunnel, "ping", &ping(seconds), seconds)?;
        Ok(tools::echoes(&text))
    }

    /// The same beside TCP connections both ways, which have begun before.
    pub(super) fn echoes_beside_bulk(&self, seconds: u64) -> Result<Echoes, StepError> {
        let flows = [(Direction::Put, BULK), (Direction::Get, OTHER)].map(|(direction, port)| {
            let flow = flow(Way::Tunnel, direction, seconds + LEAD, port);
            format!("iperf3 {} >/dev/null 2>&1 &", flow.join(" "))
        });
        let script = format!(
            "{} sleep {LEAD}; ping {}; wait",
            flows.join(" "),
            ping(seconds).join(" ")
        );
        let text = self.output(Way::Tunnel, "sh", &["-c".to_owned(), script], seconds)?;
        Ok(tools::echoes(&text))
    }

    /// Echoes while a link falls silent in their midst.
    pub(super) fn echoes_over_cut(&self, link: usize, seconds: u64) -> Result<Echoes, StepError> {
        let lab = self.bench.lab();
        let echoes = std::thread::scope(|scope| {
            let echoes = scope.spawn(|| self.echoes(seconds));
            std::thread::sleep(Duration::from_secs(STARTS + seconds / 2));
            lab.apply(link, Action::BlackHole)?;
            let died = |_| io::Error::other("the thread of the echoes died");
            echoes.join().map_err(died)?
        });
        lab.apply(link, Action::Pass)?;
        echoes
    }

    fn iperf3(&self, way: Way, arguments: &[String], seconds: u64) -> Result<String, StepError> {
        ask_iperf3(|| self.output(way, "iperf3", arguments, seconds))
    }

    /// What a program at the client prints, which lasts about so many seconds.
    pub(super) fn output(
        &self,
        way: Way,
        program: &str,
        arguments: &[String],
        seconds: u64,
    ) -> Result<String, StepError> {
        let client = self.bench.lab().client();
        let mut command = match way {
            Way::Link(_) => client.command(program),
            Way::Tunnel => self.tunnelled(program)?,
        };
        command.args(arguments);
        let limit = Duration::from_secs(seconds + LEAD) + PATIENCE;
        Ok(output_of(program, command, limit)?)
    }
}

pub(super) fn server(bench: &Bench, address: Ipv4Addr, port: u16) -> Result<Program, StepError> {
    let mut command = bench.lab().server().command("iperf3");
    let port = port.to_string();
    command.args(["-s", "-B", &address.to_string(), "-p", &port]);
    let log = bench.folder().join(format!("iperf3-{address}-{port}.log"));
    Ok(Program::start("iperf3", command, &log)?)
}

fn flow(way: Way, direction: Direction, seconds: u64, port: u16) -> Vec<String> {
    let (server, port, seconds) = (SERVER.to_string(), port.to_string(), seconds.to_string());
    let mut flow: Vec<String> = ["-c", &server, "-p", &port, "-t", &seconds, "-O", "2", "-J"]
        .map(str::to_owned)
        .into();
    if let Way::Link(address) = way {
        flow.extend(["-B".to_owned(), address.to_string()]);
    }
    if direction == Direction::Get {
        flow.push("-R".to_owned());
    }
    flow
}

fn ping(seconds: u64) -> Vec<String> {
    let count = Duration::from_secs(seconds).as_millis() / INTERVAL.as_millis();
    let interval = INTERVAL.as_secs_f64().to_string();
    let server = SERVER.to_string();
    [
        "-n",
        "-i",
        &interval,
        "-s",
        "172",
        "-c",
        &count.to_string(),
        "-W",
        "2",
        &server,
    ]
    .map(str::to_owned)
    .into()
}

/// What iperf3 reports. Its server takes one client at a time, and refuses the next one while it
/// still waits for the end of the last, so that one asks again.
pub(super) fn ask_iperf3(ask: impl Fn() -> Result<String, StepError>) -> Result<String, StepError> {
    let mut text = ask()?;
    for _ in 1..ATTEMPTS {
        if !tools::is_refused(&text) {
            break;
        }
        std::thread::sleep(BETWEEN);
        text = ask()?;
    }
    Ok(text)
}

pub(super) fn unreadable(program: &str, text: &str) -> StepError {
    let start: String = text.chars().take(200).collect();
    io::Error::other(format!("{program} gave no figures: {start}")).into()
}

/// Payload of a packet of UDP that fills the inner MTU.
pub(super) const PAYLOAD: usize = 1392;
/// As many packets as a call has.
pub(super) const INTERVAL: Duration = Duration::from_millis(20);
pub(super) const BULK: u16 = 5201;
const OTHER: u16 = 5202;
/// Seconds until TCP has found its rate.
const LEAD: u64 = 4;
/// Seconds until a tunnel stands.
const STARTS: u64 = 2;
const PATIENCE: Duration = Duration::from_secs(30);
/// How often a busy server is asked.
const ATTEMPTS: usize = 4;
const BETWEEN: Duration = Duration::from_secs(2);
