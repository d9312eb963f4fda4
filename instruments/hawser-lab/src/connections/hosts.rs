//! The web server, and the daemon that applications connect through.

use std::fmt;
use std::net::SocketAddrV4;
use std::path::Path;
use std::str::FromStr;

use anyhow::ensure;
use hawser_sched::connection::ConnectionPolicy;

use crate::measure::{Bench, Programs, Session, start_direct};
use crate::netns::NetNs;
use crate::process::Program;
use crate::scenario::{Scenario, Workload};
use crate::topology::{Lab, SERVER};
use crate::web;

/// Route of the daemon's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// Each takes one link, as this policy says.
    Connections(ConnectionPolicy),
    /// All go over one session, to a gateway that stands where the web server does.
    Bonded,
}

/// Both hosts with what runs on them; all of it ends when dropped.
pub(super) struct Hosts {
    // Before the lab that they run in.
    direct: Option<Program>,
    session: Option<Session>,
    web: Program,
    bench: Bench,
}

impl Hosts {
    pub(super) fn start(
        scenario: &Scenario,
        workload: &Workload,
        method: Method,
        programs: &Programs,
        folder: &Path,
    ) -> anyhow::Result<Self> {
        let count = workload.applications.len();
        ensure!(
            count <= PORTS.len(),
            "{count} applications are too many: at most {}",
            PORTS.len()
        );
        let lab = Lab::shaped(scenario)?;
        let bench = Bench::new(lab, folder)?;
        let pages = folder.join("web");
        std::fs::create_dir_all(web::root(&pages))?;
        // One file, of which clients ask for as much as they want.
        let data = std::fs::File::create(web::root(&pages).join("data"))?;
        data.set_len(LARGEST)?;
        let addresses = PORTS.map(|port| SocketAddrV4::new(SERVER, port));
        let web = web::start(bench.lab().server(), &pages, &addresses, "")?;
        let (mut direct, mut session) = (None, None);
        match method {
            Method::Bonded => session = Some(Session::start(&bench, programs, 1)?),
            Method::Connections(policy) => {
                let rules = folder.join("rules.toml");
                std::fs::write(&rules, self::rules(workload))?;
                let named = [
                    "--connection-scheduler".into(),
                    policy.name().into(),
                    "--config".into(),
                    rules.into_os_string(),
                ];
                direct = Some(start_direct(&bench, programs, folder, &named)?);
            }
        }
        Ok(Self {
            direct,
            session,
            web,
            bench,
        })
    }

    pub(super) fn client(&self) -> &NetNs {
        self.bench.lab().client()
    }

    /// An error when something has ended, or the emulator could not follow.
    pub(super) fn check(&mut self) -> anyhow::Result<()> {
        self.web.check_alive()?;
        if let Some(direct) = &mut self.direct {
            direct.check_alive()?;
        }
        if let Some(session) = &mut self.session {
            session.check_alive()?;
        }
        let missed = self.bench.lab().counters().missed;
        ensure!(missed == 0, "the emulator missed {missed} frames");
        Ok(())
    }
}

/// Each application has a port of its own, and by that its class.
fn rules(workload: &Workload) -> String {
    let applications = workload.applications.iter().enumerate();
    let rule = |(number, application): (usize, &crate::scenario::Application)| {
        let (port, class) = (port_of(number), application.class.name());
        format!("[[rule]]\nname = \"application {number}\"\nport = {port}\nclass = \"{class}\"\n")
    };
    applications.map(rule).collect()
}

/// Returns the port of an application's server.
pub(super) fn port_of(application: usize) -> u16 {
    PORTS[application % PORTS.len()]
}

impl Method {
    /// Every method.
    pub(super) const ALL: [Self; 6] = [
        Self::Connections(ConnectionPolicy::OnlyOne),
        Self::Connections(ConnectionPolicy::RoundRobin),
        Self::Connections(ConnectionPolicy::WeightedRoundRobin),
        Self::Connections(ConnectionPolicy::MaxThroughput),
        Self::Connections(ConnectionPolicy::Auto),
        Self::Bonded,
    ];
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connections(policy) => policy.name(),
            Self::Bonded => "bonded",
        })
    }
}

impl FromStr for Method {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|m| m.to_string() == name);
        found.ok_or_else(|| {
            let all = Self::ALL.map(|method| method.to_string()).join(" ");
            format!("allowed are {all}")
        })
    }
}

/// Ports of different kinds, since demands are learned for each kind of port.
const PORTS: [u16; 3] = [80, 9000, 143];
/// Largest size that scenarios allow.
const LARGEST: u64 = 8_000_000_000;
