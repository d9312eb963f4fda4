//! The ways of the client's connections: over one link, in turns, or as Hawser places them.

use std::fmt;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context as _;
use hawser_capture::{Capture, CaptureError, RunGroup, Settings};
use serde::Serialize;

use super::site::{Load, Site};
use super::task::Task;
use crate::emulator::LinkBytes;
use crate::ip;
use crate::measure::{Programs, limit_for};
use crate::process::output_of;
use crate::scenario::{Direction, Scenario};
use crate::topology::Lab;

/// Kinds of ways, as they are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Kind {
    /// Each link alone, without Hawser.
    Links,
    /// Links take turns, as dispatch and its like have it.
    RoundRobin,
    /// `hawser run --via shim`.
    Shim,
    /// `hawser run --via kernel`.
    Kernel,
}

/// One way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    /// Over the default route, which is this link's, from 0; without Hawser.
    Link(usize),
    RoundRobin,
    Shim,
    Kernel,
}

/// One time that a task was done.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Sample {
    /// From 1; what ran before knew nothing of the links.
    pub(super) round: u8,
    /// From the command to its end, or as the browser has it.
    pub(super) seconds: f64,
    /// Until the program itself began: what Hawser needs before.
    pub(super) start_seconds: f64,
    /// IP bytes on each link.
    pub(super) carried: Vec<LinkBytes>,
}

/// Does tasks in one lab.
pub(super) struct Runner<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) site: Site<'a>,
    pub(super) programs: &'a Programs,
    /// True if connections can be placed in the kernel here.
    pub(super) by_kernel: bool,
}

impl Variant {
    /// All ways of the wanted kinds; of each, where none is named.
    pub(super) fn all(wanted: &[Kind], links: usize, by_kernel: bool) -> Vec<Self> {
        let is_wanted = |kind| wanted.is_empty() || wanted.contains(&kind);
        let mut ways = Vec::new();
        if is_wanted(Kind::Links) {
            ways.extend((0..links).map(Self::Link));
        }
        let others = [
            (Kind::RoundRobin, Self::RoundRobin),
            (Kind::Shim, Self::Shim),
            (Kind::Kernel, Self::Kernel),
        ];
        ways.extend(others.into_iter().filter_map(|(kind, way)| {
            let is_possible = way != Self::Kernel || by_kernel;
            (is_wanted(kind) && is_possible).then_some(way)
        }));
        ways
    }

    /// Returns whether Hawser decides as it does for its users.
    pub(super) fn is_hawser(self) -> bool {
        matches!(self, Self::Shim | Self::Kernel)
    }
}

impl Runner<'_> {
    /// Does the task once.
    pub(super) fn run(
        &mut self,
        (task, load): (Task, &dyn Load),
        way: Variant,
        round: u8,
    ) -> anyhow::Result<Sample> {
        let stamp = self.site.folder.join("began");
        let words = load.command(round)?;
        let mut command = self.command(task, way)?;
        command.args(["sh", "-c", STAMP]).arg(&stamp).args(words);
        for name in PROXIES {
            command.env_remove(name).env_remove(name.to_uppercase());
        }
        let lab = self.site.lab;
        let route = match way {
            Variant::Link(index) => Some(DefaultRoute::over(lab, index)?),
            _ => None,
        };
        let lines = self.scenario.links.iter();
        let slowest = lines.map(|link| link.line(Direction::Get).rate).min();
        let limit = limit_for(load.bytes(), slowest.unwrap_or_default(), &[], true);
        let missed = lab.counters().missed;
        let before = lab.carried();
        let (clock, begun) = (SystemTime::now(), Instant::now());
        let printed = output_of(task.name(), command, limit)?;
        let whole = begun.elapsed().as_secs_f64();
        drop(route);
        let links = lab.carried().into_iter().zip(before);
        let carried = links.map(|(now, before)| now.since(before)).collect();
        self.site.check_alive()?;
        let missed = lab.counters().missed - missed;
        anyhow::ensure!(missed == 0, "the emulator missed {missed} frames");
        let own = load.check(&printed)?;
        let began = std::fs::read_to_string(&stamp).context("the program did not begin")?;
        let began: u64 = began.trim().parse().context("date says nothing")?;
        let began = SystemTime::UNIX_EPOCH + Duration::from_nanos(began);
        Ok(Sample {
            round,
            seconds: own.unwrap_or(whole),
            start_seconds: began
                .duration_since(clock)
                .unwrap_or_default()
                .as_secs_f64(),
            carried,
        })
    }

    /// Returns the command that precedes the program.
    fn command(&self, task: Task, way: Variant) -> anyhow::Result<Command> {
        let client = self.site.client();
        let (via, scheduler) = match way {
            Variant::Link(_) => return Ok(client.command("env")),
            // A proxy would do it in its own process; in the kernel nothing moves a connection
            // to another link later.
            Variant::RoundRobin if self.by_kernel => ("kernel", "round-robin"),
            Variant::RoundRobin => ("shim", "round-robin"),
            Variant::Shim => ("shim", "auto"),
            Variant::Kernel => ("kernel", "auto"),
        };
        let mut command = self.programs.command(client)?;
        command.args(["run", "--via", via, "--connection-scheduler", scheduler]);
        command.arg("--state").arg(self.state(task, way)).arg("--");
        Ok(command)
    }

    /// Returns the folder with Hawser's knowledge of one task by one way.
    fn state(&self, task: Task, way: Variant) -> PathBuf {
        let name = format!("state-{}-{way}", task.name());
        self.site.folder.join(name)
    }
}

/// Returns the reason why connections can't be placed in the kernel here, if they can't.
pub(super) fn try_kernel() -> Result<(), CaptureError> {
    let group = RunGroup::create()?;
    Capture::start(group.path(), &Settings::default()).map(drop)
}

/// A default route ahead of the others, until dropped.
struct DefaultRoute<'a> {
    lab: &'a Lab,
    route: String,
}

impl<'a> DefaultRoute<'a> {
    fn over(lab: &'a Lab, index: usize) -> anyhow::Result<Self> {
        let link = lab.links().get(index).context("no such link")?;
        let (gateway, interface) = (link.gateway, &link.interface);
        let route = format!("default via {gateway} dev {interface} metric {AHEAD}");
        ip::batch(lab.client(), &[format!("route add {route}")])?;
        Ok(Self { lab, route })
    }
}

impl Drop for DefaultRoute<'_> {
    fn drop(&mut self) {
        if let Err(error) = ip::batch(self.lab.client(), &[format!("route del {}", self.route)]) {
            eprintln!("hawser-lab: a default route stays: {error}");
        }
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link(index) => f.pad(&format!("link {}", index + 1)),
            Self::RoundRobin => f.pad("round-robin"),
            Self::Shim => f.pad("shim"),
            Self::Kernel => f.pad("kernel"),
        }
    }
}

/// Writes down when it begins, and becomes the program.
const STAMP: &str = "date +%s%N >\"$0\"; exec \"$@\"";
/// Ahead of the lab's own default routes.
const AHEAD: u32 = 50;
/// Variables that would make programs use a proxy.
const PROXIES: [&str; 5] = [
    "http_proxy",
    "https_proxy",
    "ftp_proxy",
    "all_proxy",
    "no_proxy",
];
