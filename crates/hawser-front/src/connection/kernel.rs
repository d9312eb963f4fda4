//! The director and the kernel's programs: each knows what the other does.

mod asking;
mod entries;
mod unanswered;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use hawser_capture::{Bytes, Capture, CaptureError, Connection, End, Event, Events, Progress};
use hawser_net::links::{Link, PrefixMonitor, particular_prefixes};
use hawser_path::PortClass;
use hawser_policy::{Protocol, RuleSet};
use hawser_sched::connection::Demand;
use hawser_types::{ByteCount, Instant, LinkIndex};
use ipnet::IpNet;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use super::dialer::TcpVia;
use super::trial::Comparison;
use super::{Director, Flow, Health, Origin, Report};
use crate::transport::DialError;
use entries::{entries, index};
use unanswered::{LOOK_EVERY, Question, Unanswered};

/// Connections that the kernel's programs place, on a director's books.
///
/// The programs decide by themselves, from tables. This keeps the tables as the director has links,
/// loads, rules and demands, and tells the director what becomes of the connections, so that both
/// count all of them and learn from all of them.
#[derive(Debug)]
pub struct KernelPlaces {
    capture: Capture,
    events: Events,
    director: Director,
    /// By the sockets' cookies.
    flows: BTreeMap<u64, Placed>,
    /// When it was last looked what these have moved.
    counted: Instant,
    unanswered: Unanswered,
    via: Arc<TcpVia>,
    /// What links are being asked.
    asking: JoinSet<(Question, Comparison)>,
    /// The links that were sound when it was last looked.
    sound: Vec<LinkIndex>,
    /// Whether the kernel ends sockets for others.
    can_abort: bool,
}

/// A connection on both books.
#[derive(Debug)]
struct Placed {
    flow: Flow,
    /// What the director knows that it has moved.
    known: Bytes,
    /// Until when that is known.
    told: Instant,
    /// Whether the director knows that it was answered.
    is_connected: bool,
}

impl KernelPlaces {
    /// Puts `director` behind `capture`, whose events nobody may have taken yet.
    pub fn new(mut capture: Capture, director: Director) -> Result<Self, CaptureError> {
        let events = capture.events()?.ok_or(CaptureError::EventsTaken)?;
        recall(&mut capture, &director)?;
        Ok(Self {
            capture,
            events,
            counted: director.now(),
            director,
            flows: BTreeMap::new(),
            unanswered: Unanswered::default(),
            via: Arc::new(TcpVia::new(false)),
            asking: JoinSet::new(),
            sound: Vec::new(),
            can_abort: true,
        })
    }

    /// Fills the tables: from now on connections are captured. [`Self::run`] does so too, in its own
    /// time.
    pub async fn fill(&mut self, rules: &RuleSet) -> Result<(), CaptureError> {
        self.obey(rules);
        self.surroundings().await;
        self.refresh()
    }

    /// Keeps both in step until the future is dropped. Then, the programs are gone, and connections
    /// that are open go on as they are.
    pub async fn run(
        mut self,
        mut rules: watch::Receiver<Arc<RuleSet>>,
        mut links: watch::Receiver<Arc<Vec<Link>>>,
    ) {
        self.obey(&Arc::clone(&rules.borrow_and_update()));
        let mut routes = follow_routes().await;
        self.surroundings().await;
        let mut changes = self.director.changes();
        let [mut ticks, mut looks] = [EVERY, LOOK_EVERY].map(interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let outcome = tokio::select! {
                event = self.events.next() => match event {
                    Ok(event) => self.handle(event),
                    Err(error) => return tracing::error!(%error, "the kernel tells nothing any more"),
                },
                _ = ticks.tick() => self.refresh(),
                _ = looks.tick(), if !self.unanswered.is_empty() => self.look(),
                Some(asked) = self.asking.join_next() => match asked {
                    Ok((question, found)) => self.conclude(&question, found),
                    Err(_) => Ok(()),
                },
                Ok(()) = rules.changed() => {
                    self.obey(&Arc::clone(&rules.borrow_and_update()));
                    Ok(())
                }
                Ok(()) = links.changed() => {
                    links.mark_unchanged();
                    self.surroundings().await;
                    self.refresh()
                }
                Ok(()) = changes.changed() => {
                    // What is on a link itself is known before the link is used.
                    if links.has_changed().unwrap_or_default() {
                        links.mark_unchanged();
                        self.surroundings().await;
                    }
                    self.refresh()
                }
                prefixes = changed(&mut routes) => {
                    self.leave_alone(&prefixes);
                    Ok(())
                }
            };
            if let Err(error) = outcome {
                tracing::warn!(%error, "the kernel's tables are not up to date");
            }
        }
    }

    fn obey(&mut self, rules: &RuleSet) {
        match self.capture.set_rules(rules) {
            Ok(in_force) if in_force.left_out > 0 => tracing::warn!(
                left_out = in_force.left_out,
                "more rules than the kernel's program has room for: the last ones are left out"
            ),
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "the kernel's program keeps to the rules before"),
        }
    }

    /// Destinations that are left alone, as routes are now.
    async fn surroundings(&mut self) {
        match particular_prefixes().await {
            Ok(prefixes) => self.leave_alone(&prefixes),
            Err(error) => tracing::warn!(%error, "routes can't be listed now"),
        }
    }

    fn leave_alone(&mut self, prefixes: &[IpNet]) {
        if let Err(error) = self.capture.set_local_prefixes(prefixes) {
            tracing::warn!(%error, "the kernel's program keeps to the routes before");
        }
    }

    /// Tells either side what the other knows by now.
    fn refresh(&mut self) -> Result<(), CaptureError> {
        self.catch_up()?;
        self.count()?;
        let report = self.director.report();
        self.capture.set_links(&entries(&report))?;
        let loads: Vec<_> = report
            .links
            .iter()
            .map(|link| (index(link), link.load))
            .collect();
        self.capture.set_loads(&loads)?;
        self.abort_on_lost(&report);
        Ok(())
    }

    /// Tells the director how far connections have come.
    fn count(&mut self) -> Result<(), CaptureError> {
        self.capture.recount()?;
        self.counted = self.director.now();
        for (cookie, placed) in &mut self.flows {
            if let Some(progress) = self.capture.progress(*cookie) {
                placed.advance(&progress, self.counted);
            }
        }
        Ok(())
    }

    /// Ends what waits for an answer on links that are lost: no new connection takes these any more.
    fn abort_on_lost(&mut self, report: &Report) {
        let sound = report.links.iter().filter(|it| it.health == Health::Sound);
        let sound: Vec<LinkIndex> = sound.map(index).collect();
        let before = std::mem::replace(&mut self.sound, sound);
        // A link that is passed over for a VPN is not lost.
        if !self.can_abort || report.tunnels.iter().any(Option::is_some) {
            return;
        }
        let used = before.into_iter().chain(self.unanswered.links());
        let lost: BTreeSet<_> = used.filter(|link| !self.sound.contains(link)).collect();
        for link in lost {
            match self.capture.abort_unanswered(link) {
                Ok(aborted) => tracing::debug!(link = link.value(), aborted, "a link is lost"),
                Err(error) => {
                    tracing::warn!(%error, "connections on links that are lost wait for their time-out");
                    self.can_abort = false;
                }
            }
        }
    }

    /// Takes in what the kernel has told already.
    fn catch_up(&mut self) -> Result<(), CaptureError> {
        for _ in 0..MAX_EVENTS {
            let Some(event) = self.events.try_next() else {
                break;
            };
            self.handle(event)?;
        }
        Ok(())
    }

    fn handle(&mut self, event: Event) -> Result<(), CaptureError> {
        match event {
            Event::Connected(connection) => self.note(&connection),
            Event::Ended(connection, end) => {
                self.end(&connection, &end);
                Ok(())
            }
            Event::Refused(connection) => {
                self.note_refused(&connection);
                Ok(())
            }
        }
    }

    /// A connection was placed: the director charges the same link, and the kernel hears what the
    /// director expects of such connections, if it did not know.
    fn note(&mut self, connection: &Connection) -> Result<(), CaptureError> {
        self.capture.learn(connection)?;
        let Some(link) = connection.link else {
            return Ok(());
        };
        let origin = origin(connection);
        let decision = self.director.decide(&origin);
        let demand = Demand {
            class: connection.class,
            up: connection.demand.up,
            down: connection.demand.down,
        };
        self.director
            .note_kernels(&decision, connection.reason, demand);
        self.try_again(&decision, connection.remote);
        let demand = Bytes::from(decision.demand);
        if demand != connection.demand {
            let port_class = PortClass::of(connection.remote.port());
            let known = (connection.program.as_str(), port_class, demand);
            self.capture.set_demands([known])?;
        }
        if self.flows.len() < MAX_FLOWS {
            let placed = Placed {
                flow: self.director.open(&decision, link),
                known: Bytes::default(),
                told: self.director.now(),
                is_connected: false,
            };
            self.flows.insert(connection.cookie, placed);
            if !connection.udp {
                let (cookie, now) = (connection.cookie, self.director.now());
                let to = (origin, connection.remote);
                self.unanswered.note(cookie, link, to, now);
            }
        }
        Ok(())
    }

    /// The rules left it no link.
    fn note_refused(&self, connection: &Connection) {
        let decision = self.director.decide(&origin(connection));
        let demand = decision.demand;
        self.director.note_kernels(&decision, None, demand);
        self.director
            .note_failure(&decision, DialError::RefusedByPolicy);
    }

    fn end(&mut self, connection: &Connection, end: &End) {
        self.unanswered.forget(connection.cookie);
        let Some(mut placed) = self.flows.remove(&connection.cookie) else {
            return;
        };
        // One that never came about teaches nothing; of datagrams nobody knows what they moved.
        let Some((moved, took)) = end.moved.zip(end.connect_time) else {
            return;
        };
        let now = self.director.now();
        placed.connected(now, took, end.lasted.saturating_sub(took));
        if let Some(latency) = end.latency {
            placed.flow.round_trip(latency);
        }
        // Nobody knows when its last bytes came: after the last time that it was looked.
        placed.flow.heard(self.counted);
        placed.moved(now, moved);
    }
}

impl Placed {
    /// It was answered after so long, and this long ago. The kernel tells of it later, or only at the
    /// end.
    fn connected(&mut self, now: Instant, after: Duration, ago: Duration) {
        if !std::mem::replace(&mut self.is_connected, true) {
            self.flow.connected_since(Some(after), ago);
            // Its beginning was heard of late, too.
            self.told = self.told.min(now - ago);
        }
    }

    fn advance(&mut self, progress: &Progress, now: Instant) {
        if let Some(segments) = progress.segments {
            self.flow.sent(segments);
        }
        if progress.moved != self.known
            && let Some(ago) = progress.heard
        {
            self.flow.heard(now - ago);
        }
        self.moved(now, progress.moved);
    }

    /// It has moved so much in all.
    fn moved(&mut self, now: Instant, moved: Bytes) {
        let since = std::mem::replace(&mut self.told, now);
        if moved == self.known {
            return;
        }
        let more = |now: ByteCount, then: ByteCount| {
            ByteCount::new(now.as_u64().saturating_sub(then.as_u64()))
        };
        let (up, down) = (
            more(moved.up, self.known.up),
            more(moved.down, self.known.down),
        );
        self.flow.moved_since(since, up, down);
        self.known = moved;
    }
}

/// What connections have needed in earlier runs: the first ones of this are placed by it, too.
fn recall(capture: &mut Capture, director: &Director) -> Result<(), CaptureError> {
    let known = director.demands();
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

/// Follows the routes; where that can't be done, only links are.
async fn follow_routes() -> Option<PrefixMonitor> {
    let started = PrefixMonitor::start().await;
    started
        .inspect_err(|error| tracing::warn!(%error, "changes of routes are not followed"))
        .ok()
}

async fn changed(routes: &mut Option<PrefixMonitor>) -> Arc<Vec<IpNet>> {
    match routes {
        Some(routes) => routes.changed().await,
        None => std::future::pending().await,
    }
}

fn origin(connection: &Connection) -> Origin {
    Origin {
        protocol: match connection.udp {
            true => Protocol::Udp,
            false => Protocol::Tcp,
        },
        remote: Some(connection.remote.ip()),
        port: connection.remote.port(),
        program: Some(connection.program.clone()),
        user: Some(connection.user),
        ..Origin::default()
    }
}

const EVERY: Duration = Duration::from_millis(500);
/// Of more events at once the rest is left for later.
const MAX_EVENTS: usize = 4096;
/// The kernel's table has no more.
const MAX_FLOWS: usize = 65_536;
