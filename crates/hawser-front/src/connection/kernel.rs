//! Keeps the director and the kernel's programs informed of each other's actions.

mod asking;
mod entries;
mod placed;
mod surroundings;
mod turned;
mod unanswered;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use hawser_capture::{
    Bytes, Capture, CaptureError, CarriedFamilies, Connection, End, Event, Events, Unruled,
};
use hawser_director::{ConnectionRequest, DirectorReport, Health};
use hawser_link::links::PrefixMonitor;
use hawser_net::ticks::Ticks;
use hawser_policy::{Protocol, RuleSet};
use hawser_sched::PortClass;
use hawser_sched::connection::Demand;
use hawser_types::{Instant, LinkIndex};
use ipnet::IpNet;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use super::SharedDirector;
use super::trial::Comparison;
use super::via::TcpVia;
use crate::name_stub::{NameStub, StubPorts};
use crate::transport::DialError;
use entries::{entries, index};
use placed::KernelFlow;
use surroundings::NearNetworks;
use turned::Turned;
pub use turned::{BondedServers, HeldDestinations};
use unanswered::{LOOK_EVERY, Question, Unanswered};

/// Connections that the kernel's programs place on links, reported to a director.
///
/// The programs decide by themselves, from tables. This struct fills the tables with the director's
/// links, loads, rules and demands, and reports the connections to the director. So both count all
/// connections and learn from all of them.
#[derive(Debug)]
pub struct KernelPlaces {
    capture: Capture,
    events: Events,
    director: SharedDirector,
    /// Flows by their sockets' cookies.
    flows: BTreeMap<u64, KernelFlow>,
    /// When the bytes of the flows were last counted.
    counted: Instant,
    unanswered: Unanswered,
    via: Arc<TcpVia>,
    /// Links that are being tested.
    asking: JoinSet<(Question, Comparison)>,
    /// Links that were sound at the last refresh.
    sound: Vec<LinkIndex>,
    /// Whether the kernel lets this process end sockets of others.
    can_abort: bool,
    surroundings: NearNetworks,
    /// Answers applications' name lookups. Closed after the kernel's programs are gone.
    names: Option<NameStub>,
    /// Destinations whose connections come to this process: see [`BondedServers`] and
    /// [`HeldDestinations`].
    turned: Turned,
    /// Address families whose datagrams for the gateway a tunnel carries.
    packets: Option<watch::Receiver<CarriedFamilies>>,
    /// The last error of updating the tables; empty if there is none.
    complaint: String,
}

impl KernelPlaces {
    /// Connects `director` with `capture`, whose events must not have been taken yet.
    pub fn new(mut capture: Capture, director: SharedDirector) -> Result<Self, CaptureError> {
        let events = capture.events()?.ok_or(CaptureError::EventsTaken)?;
        recall(&mut capture, &director)?;
        Ok(Self {
            capture,
            events,
            counted: director.now(),
            director,
            flows: BTreeMap::new(),
            unanswered: Unanswered::default(),
            via: Arc::new(TcpVia::for_own()),
            asking: JoinSet::new(),
            sound: Vec::new(),
            can_abort: true,
            surroundings: NearNetworks::default(),
            names: None,
            turned: Turned::default(),
            packets: None,
            complaint: String::new(),
        })
    }

    /// Has `stub` answer what applications ask the machine's name servers.
    pub fn answer_names(&mut self, stub: NameStub) {
        self.turn_names(&mut stub.ports());
        self.names = Some(stub);
    }

    /// Leaves datagrams for the gateway, and traffic that a rule sends as packets, to the machine's
    /// routes whenever `are_carried` says that these lead to a tunnel.
    pub fn follow_packets(&mut self, are_carried: watch::Receiver<CarriedFamilies>) {
        self.packets = Some(are_carried);
    }

    /// Redirects to this process the connections to those of `servers` with which there is a
    /// session, if the capture has ports for that. Tells `servers` of other connections.
    pub fn turn_to(&mut self, servers: Arc<dyn BondedServers>) {
        self.turned.turn_to(servers);
    }

    /// Redirects to this process the connections to `destinations`, if the capture has ports for
    /// that, and refuses them otherwise.
    pub fn hold(&mut self, destinations: Arc<dyn HeldDestinations>) {
        self.turned.hold(destinations);
    }

    /// Fills the tables, so that connections are captured from now on. [`Self::run`] fills them
    /// too, in its own time.
    pub async fn fill(&mut self, rules: &RuleSet) -> Result<(), CaptureError> {
        self.obey(rules);
        self.look_around(None).await;
        self.refresh()
    }

    /// Keeps director and kernel in step until the future is dropped. Dropping it removes the
    /// kernel's programs; open connections continue as they are.
    pub async fn run(mut self, mut rules: watch::Receiver<Arc<RuleSet>>) {
        self.obey(&Arc::clone(&rules.borrow_and_update()));
        let routes = PrefixMonitor::start().await;
        let log = |error: &_| tracing::warn!(%error, "can't follow changes of routes");
        // Without the monitor, only changes of links are followed.
        let mut routes = routes.inspect_err(log).ok();
        self.look_around(routes.as_mut()).await;
        let mut changes = self.director.changes();
        let mut stub_ports = self.names.as_ref().map(NameStub::ports);
        let (mut ticks, mut looks) = (Ticks::every(EVERY), interval(LOOK_EVERY));
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let outcome = tokio::select! {
                event = self.events.next() => match event {
                    Ok(event) => {
                        self.handle(event);
                        ticks.hurry();
                        Ok(())
                    }
                    Err(error) => return tracing::error!(%error, "can't read the kernel's events \
                        of captured connections, capturing ends"),
                },
                _ = ticks.tick() => {
                    if self.flows.is_empty() && self.unanswered.is_empty() {
                        ticks.put_off(IDLE_EVERY);
                    }
                    self.refresh()
                }
                _ = looks.tick(), if !self.unanswered.is_empty() => self.look(),
                Some(asked) = self.asking.join_next() => match asked {
                    Ok((question, found)) => self.conclude(&question, found),
                    Err(_) => {
                        self.unanswered.release_all();
                        Ok(())
                    }
                },
                Ok(()) = rules.changed() => {
                    self.obey(&Arc::clone(&rules.borrow_and_update()));
                    Ok(())
                }
                Ok(()) = changes.changed() => self.refresh(),
                () = self.turned.changed() => self.turned.refresh(&mut self.capture),
                () = have_changed(&mut stub_ports) => {
                    stub_ports.iter_mut().for_each(|ports| self.turn_names(ports));
                    Ok(())
                }
                prefixes = changed(&mut routes) => {
                    self.leave_alone(&prefixes);
                    Ok(())
                }
                listed = self.surroundings.listed() => {
                    listed.iter().for_each(|prefixes| self.leave_alone(prefixes));
                    self.refresh()
                }
            };
            if let Err(error) = outcome {
                let complaint = error.to_string();
                // The same error is logged once.
                if self.complaint != complaint {
                    tracing::warn!(%error, "can't update the kernel's tables of captured \
                        connections, the kernel uses older entries");
                    self.complaint = complaint;
                }
            }
        }
    }

    fn obey(&mut self, rules: &RuleSet) {
        match self.capture.set_rules(rules) {
            Ok(in_force) if in_force.left_out > 0 => tracing::warn!(
                left_out = in_force.left_out,
                "left out the last rules: the kernel's program has no room for more"
            ),
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(%error, "can't put all rules into force in the kernel's program")
            }
        }
    }

    fn turn_names(&mut self, ports: &mut StubPorts) {
        let ports = Arc::clone(&ports.borrow_and_update());
        let servers: Vec<_> = ports
            .iter()
            .map(|(server, port)| (*server, *port))
            .collect();
        if let Err(error) = self.capture.set_name_servers(&servers) {
            tracing::warn!(%error, "can't intercept applications' queries to some name servers");
        }
    }

    /// Waits until the destinations are known that non-default routes lead to: connections to these
    /// are not captured. `routes` lists them, if changes of routes are followed.
    async fn look_around(&mut self, routes: Option<&mut PrefixMonitor>) {
        let links = surroundings::addresses(&self.director.report());
        let listed = match routes {
            Some(routes) => Some(routes.changed().await),
            None => surroundings::list().await.map(Arc::new),
        };
        listed
            .iter()
            .for_each(|prefixes| self.leave_alone(prefixes));
        self.surroundings.know(links);
    }

    fn leave_alone(&mut self, prefixes: &[IpNet]) {
        if let Err(error) = self.capture.set_local_prefixes(prefixes) {
            tracing::warn!(%error,
                "can't update the destinations whose connections are not captured");
        }
    }

    /// Tells the director what the kernel has counted, and the kernel what the director knows.
    fn refresh(&mut self) -> Result<(), CaptureError> {
        self.catch_up();
        self.count()?;
        let report = self.director.report();
        let usage = report.gateway.map(|gateway| gateway.usage);
        self.capture
            .set_choice(report.policy, usage.map(Unruled::from))?;
        if let Some(packets) = &self.packets {
            self.capture.set_packets(*packets.borrow())?;
        }
        let turned = self.turned.refresh(&mut self.capture);
        let mut links = entries(&report);
        self.surroundings.hold_back(&mut links, &report);
        let placed = self.capture.set_links(&links);
        // Existing links and connections stay up to date even if new links and rules fail.
        let loads: Vec<_> = report
            .links
            .iter()
            .map(|link| (index(link), link.load))
            .collect();
        self.capture.set_loads(&loads)?;
        self.abort_on_lost(&report);
        self.abort_stranded();
        turned?;
        placed?;
        self.complaint.clear();
        Ok(())
    }

    /// Reports the progress of connections to the director.
    fn count(&mut self) -> Result<(), CaptureError> {
        self.capture.recount()?;
        self.counted = self.director.now();
        let capture = &self.capture;
        self.flows
            .retain(|cookie, placed| placed.goes_on(capture.progress(*cookie), self.counted));
        Ok(())
    }

    /// Ends connections that wait for an answer on lost links, which new connections no longer use.
    fn abort_on_lost(&mut self, report: &DirectorReport) {
        let sound = report.links.iter().filter(|it| it.health == Health::Sound);
        let sound: Vec<LinkIndex> = sound.map(index).collect();
        let before = std::mem::replace(&mut self.sound, sound);
        // A link that is skipped because of a VPN is not lost.
        if !self.can_abort || report.tunnels.iter().any(Option::is_some) {
            return;
        }
        let used = before.into_iter().chain(self.unanswered.links());
        let lost: BTreeSet<_> = used.filter(|link| !self.sound.contains(link)).collect();
        for link in lost {
            match self.capture.abort_unanswered(link) {
                Ok(aborted) => tracing::debug!(
                    link = link.value(),
                    aborted,
                    "ended unanswered connections on a lost link"
                ),
                Err(error) => {
                    tracing::warn!(%error, "can't end unanswered connections on a lost link");
                    self.can_abort = !error.is_lasting();
                }
            }
        }
    }

    /// Ends the connections whose links are gone for good.
    fn abort_stranded(&mut self) {
        let flows = self.flows.iter();
        let stranded = flows.filter(|(_, placed)| placed.is_stranded());
        let cookies: BTreeSet<u64> = stranded.map(|(cookie, _)| *cookie).collect();
        if cookies.is_empty() || !self.can_abort {
            return;
        }
        match self.capture.abort_placed(&cookies) {
            Ok(aborted) => {
                tracing::info!(aborted, "ended connections over a link that is gone")
            }
            Err(error) => {
                tracing::warn!(%error, "can't end connections over a link that is gone");
                self.can_abort = !error.is_lasting();
            }
        }
    }

    /// Handles the events that the kernel has already reported.
    fn catch_up(&mut self) {
        for _ in 0..MAX_EVENTS {
            let Some(event) = self.events.try_next() else {
                break;
            };
            self.handle(event);
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Connected(connection) => {
                if let Some(link) = connection.link {
                    self.note(&connection, link);
                }
                self.turned.note_placed(&connection);
                if let Err(error) = self.capture.learn(&connection) {
                    let program = connection.program;
                    tracing::warn!(%error, program,
                        "can't apply rules that name the program's file yet");
                }
            }
            Event::Ended(connection, end) => self.end(&connection, &end),
            // The rules left the connection no link.
            Event::Refused(connection) => {
                let decision = self.director.decide_links(&self.request(&connection));
                self.director.with(|director, _| {
                    director.note_kernels(&decision, None, decision.demand());
                    director.note_failure(&decision, DialError::RefusedByPolicy);
                });
            }
        }
    }

    /// Handles a connection that was placed: the director charges the same link, and the kernel
    /// learns the demand that the director expects of such connections, if that is news.
    fn note(&mut self, connection: &Connection, link: LinkIndex) {
        let request = self.request(connection);
        let decision = self.director.decide_links(&request);
        let demand = Demand {
            class: connection.class,
            up: connection.demand.up,
            down: connection.demand.down,
        };
        self.director.with(|director, _| {
            director.note_kernels(&decision, connection.reason, demand);
        });
        self.try_again(&decision, connection.remote);
        self.teach(connection, Bytes::from(decision.demand()));
        if self.flows.len() < MAX_FLOWS {
            let flow = self.director.open(&decision, link);
            let placed = KernelFlow::new(flow, connection.udp, self.director.now());
            self.flows.insert(connection.cookie, placed);
            if !connection.udp {
                let (cookie, now) = (connection.cookie, self.director.now());
                let to = (request, connection.remote);
                self.unanswered.note(cookie, link, to, now);
            }
        }
    }

    /// Tells the kernel the demand that the director expects of such connections.
    fn teach(&mut self, connection: &Connection, demand: Bytes) {
        if demand == connection.demand {
            return;
        }
        let port_class = PortClass::of(connection.remote.port());
        let known = (connection.program.as_str(), port_class, demand);
        if let Err(error) = self.capture.set_demands([known]) {
            tracing::debug!(%error, "can't update the expected demands in the kernel");
        }
    }

    /// Returns the connection's facts for rules and estimates, and the links that rules allow it.
    fn request(&self, connection: &Connection) -> ConnectionRequest {
        ConnectionRequest {
            protocol: if connection.udp {
                Protocol::Udp
            } else {
                Protocol::Tcp
            },
            remote: Some(connection.remote.ip()),
            port: connection.remote.port(),
            program: Some(connection.program.clone()),
            user: Some(connection.user),
            dscp: Some(connection.dscp),
            among: self.capture.left_by_rules(connection),
            ..ConnectionRequest::default()
        }
    }

    fn end(&mut self, connection: &Connection, end: &End) {
        self.unanswered.forget(connection.cookie);
        let Some(mut placed) = self.flows.remove(&connection.cookie) else {
            return;
        };
        let now = self.director.now();
        if connection.udp {
            return placed.moved(now, end.moved);
        }
        // A connection that was never established teaches nothing.
        let Some(took) = end.connect_time else {
            return;
        };
        placed.connected(now, took, end.lasted.saturating_sub(took));
        if let Some(latency) = end.latency {
            placed.flow.round_trip(latency);
        }
        // The last bytes arrived at an unknown time after the last count.
        placed.flow.heard(self.counted);
        placed.moved(now, end.moved);
    }
}

/// Loads demands of earlier runs into the kernel, so that the first connections are placed by them.
fn recall(capture: &mut Capture, director: &SharedDirector) -> Result<(), CaptureError> {
    let known = director.with(|director, _| director.demands().clone());
    let seen = known.iter().filter(|(_, needs)| needs.connections > 0);
    let rows = seen.map(|((program, port_class), needs)| {
        let needs = Bytes {
            up: needs.up,
            down: needs.down,
        };
        (program.as_str(), *port_class, needs)
    });
    capture.set_demands(rows)
}

async fn changed(routes: &mut Option<PrefixMonitor>) -> Arc<Vec<IpNet>> {
    match routes {
        Some(routes) => routes.changed().await,
        None => std::future::pending().await,
    }
}

/// Completes when the ports have changed.
async fn have_changed(ports: &mut Option<StubPorts>) {
    if let Some(ports) = ports
        && ports.changed().await.is_ok()
    {
        return;
    }
    std::future::pending().await
}

const EVERY: Duration = Duration::from_millis(500);
/// Interval of refreshes while no connection is open.
const IDLE_EVERY: Duration = Duration::from_secs(2);
/// Most events handled at once; the rest waits.
const MAX_EVENTS: usize = 4096;
/// Most flows: the kernel's table has room for no more.
const MAX_FLOWS: usize = 65_536;
