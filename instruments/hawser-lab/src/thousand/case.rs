//! The gateway, the process with the clients, and the steps of the experiment.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use hawser_keys::store::{GatewayStore, StateDir};
use hawser_keys::unix_time::UnixTime;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::network;
use super::report::{Idle, Loading, Report, Return};
use crate::cpu;
use crate::dialogue::Dialogue;
use crate::measure::{Bench, GATEWAY, Programs, own_program, start_gateway, wait_for_port};
use crate::meter::{Answers, Ask, Load, Loaded, identity};
use crate::process::Program;
use crate::topology::Lab;

pub(super) struct Case<'a> {
    bench: Bench,
    programs: &'a Programs,
    /// Number of honest clients.
    count: u32,
    gateway: Program,
    /// Resident memory of the first gateway before any client came, in bytes.
    alone: u64,
    clients: Dialogue,
    /// Number of gateways that were started, for the names of their logs.
    starts: u32,
}

impl<'a> Case<'a> {
    /// Enrols all clients, starts the gateway, measures it alone, and starts the clients.
    pub(super) fn start(
        clients: u32,
        links: u8,
        programs: &'a Programs,
        folder: &Path,
    ) -> anyhow::Result<Self> {
        let bench = Bench::new(Lab::unshaped(links.into())?, folder)?;
        network::add_addresses(bench.lab(), clients)?;
        eprintln!("enrolling {} clients", clients);
        let key = enrol(&folder.join("gateway"), clients)?;
        let gateway = launch(&bench, programs, 1)?;
        std::thread::sleep(PAUSE);
        let alone = cpu::resident(gateway.id())?;
        Ok(Self {
            clients: start_clients(&bench, &key, clients)?,
            bench,
            programs,
            count: clients,
            gateway,
            alone,
            starts: 1,
        })
    }

    /// Waits until each client had its first answer.
    pub(super) fn connect(&mut self, report: &mut Report) -> anyhow::Result<()> {
        report.alone = self.alone;
        report.connect = self.answers("first connection")?;
        Ok(())
    }

    /// Lets all be idle for so many seconds, once they have settled.
    pub(super) fn idle(&mut self, report: &mut Report, seconds: u32) -> anyhow::Result<()> {
        eprintln!("idle: settling, then {seconds} s");
        std::thread::sleep(SETTLE);
        let (begin, used) = (Instant::now(), cpu::of(self.gateway.id())?);
        std::thread::sleep(Duration::from_secs(seconds.into()));
        let used = cpu::of(self.gateway.id())? - used;
        let memory = cpu::resident(self.gateway.id())?;
        let grown = memory.saturating_sub(report.alone);
        report.idle = Idle {
            seconds: begin.elapsed().as_secs_f64(),
            core: used.as_secs_f64() / begin.elapsed().as_secs_f64(),
            memory,
            memory_each: grown / u64::from(self.count),
            descriptors: cpu::descriptors(self.gateway.id())?,
        };
        let idle = &report.idle;
        eprintln!(
            "  {:.1} % of a core, {} kB each",
            idle.core * 100.0,
            idle.memory_each / 1000
        );
        Ok(())
    }

    /// Lets a tenth be busy, without the hostile one and then with it.
    pub(super) fn load(&mut self, report: &mut Report, seconds: u32) -> anyhow::Result<()> {
        report.busy = self.loaded(seconds, false)?;
        std::thread::sleep(PAUSE);
        report.hostile = self.loaded(seconds, true)?;
        std::thread::sleep(PAUSE);
        Ok(())
    }

    fn loaded(&mut self, seconds: u32, hostile: bool) -> anyhow::Result<Loading> {
        let with = if hostile { " beside a hostile one" } else { "" };
        eprintln!("a tenth busy for {seconds} s{with}");
        let used = cpu::of(self.gateway.id())?;
        let begin = Instant::now();
        let loaded: Loaded = self.ask(&Ask::Load(Load {
            busy: self.count as usize / 10,
            seconds: seconds.into(),
            hostile,
        }))?;
        let used = cpu::of(self.gateway.id())? - used;
        let core = used.as_secs_f64() / begin.elapsed().as_secs_f64();
        let memory = cpu::resident(self.gateway.id())?;
        let loading = Loading::new(&loaded, core, memory);
        eprintln!("  {loading}");
        Ok(loading)
    }

    /// Kills the gateway and starts it again.
    pub(super) fn restart(&mut self, report: &mut Report) -> anyhow::Result<()> {
        self.gateway.kill_at_once();
        self.starts += 1;
        self.gateway = launch(&self.bench, self.programs, self.starts)?;
        report.restart = self.answers("restart of the gateway")?;
        std::thread::sleep(PAUSE);
        Ok(())
    }

    /// Silences every link for so many seconds.
    pub(super) fn cut(&mut self, report: &mut Report, seconds: u32) -> anyhow::Result<()> {
        eprintln!("every link is silent for {seconds} s");
        network::silence(self.bench.lab(), true)?;
        std::thread::sleep(Duration::from_secs(seconds.into()));
        network::silence(self.bench.lab(), false)?;
        report.cut = self.answers("cut")?;
        Ok(())
    }

    /// Measures the time until each client has an answer.
    fn answers(&mut self, what: &str) -> anyhow::Result<Return> {
        eprintln!("waiting for all clients: {what}");
        let within = RETURN_LIMIT.as_secs_f64();
        let answers: Answers = self.ask(&Ask::Answers { within })?;
        let back = Return::new(&answers);
        eprintln!("  {back}");
        Ok(back)
    }

    fn ask<T: DeserializeOwned>(&mut self, ask: &impl Serialize) -> anyhow::Result<T> {
        self.clients.say(&serde_json::to_string(ask)?)?;
        let heard = self.clients.hear().context("the clients have failed")?;
        self.gateway.check_alive()?;
        Ok(serde_json::from_str(&heard)?)
    }
}

/// Starts a gateway and waits until it listens; `start` is for the name of its log.
fn launch(bench: &Bench, programs: &Programs, start: u32) -> anyhow::Result<Program> {
    let log = bench.folder().join(format!("gateway-{start}.log"));
    let state = bench.folder().join("gateway");
    let mut gateway = start_gateway(bench, programs, &state, None, &[], &log)?;
    wait_for_port(&mut gateway, GATEWAY, bench.lab().server())?;
    Ok(gateway)
}

/// Enrols all clients in the state of a gateway that does not run yet; gives the gateway's key.
fn enrol(state: &Path, clients: u32) -> anyhow::Result<String> {
    let state = StateDir::resolve(Some(state.to_owned()))?;
    state.prepare()?;
    let store = GatewayStore::open(&state)?;
    let now = UnixTime::now();
    // The last one is hostile.
    for number in 0..=clients {
        let client = identity(number).public();
        // The invite is never shown to a client, so any key will do.
        store.add_invite(client, now + INVITE_TTL, now)?;
        store.admit_enrolment(client, client, now)?;
    }
    Ok(state.identity()?.public().to_string())
}

fn start_clients(bench: &Bench, key: &str, clients: u32) -> anyhow::Result<Dialogue> {
    let mut command = bench.lab().client().command(own_program()?);
    command.args(["meter", "many-clients", &GATEWAY.to_string(), key]);
    command.args([clients.to_string(), bench.server_address().to_string()]);
    for link in bench.lab().links() {
        command.args(["--link", &link.interface]);
    }
    let mut clients = Dialogue::start(command)?;
    let said = clients.hear().context("the clients cannot be started")?;
    anyhow::ensure!(said.trim() == "ready", "the clients say {said:?}");
    Ok(clients)
}

const INVITE_TTL: Duration = Duration::from_secs(3600);
/// Buffers that connecting took are given back by then, and measurements of paths have become rare.
const SETTLE: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_secs(5);
const RETURN_LIMIT: Duration = Duration::from_secs(90);
