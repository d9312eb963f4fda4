//! The director and the kernel's programs: each knows what the other does.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hawser_capture::{Bytes, Capture, CaptureError, Connection, End, Event, Events, LinkEntry};
use hawser_net::links::{Link, particular_prefixes};
use hawser_path::PortClass;
use hawser_policy::{Protocol, RuleSet};
use hawser_types::{ByteCount, LinkIndex};
use tokio::sync::watch;

use super::terms::rank;
use super::{Director, Flow, Health, LinkReport, Origin, Report};

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
    /// By the sockets' cookies, with what the director knows that they have moved.
    flows: BTreeMap<u64, (Flow, Bytes)>,
    /// The links that could be used when it was last looked.
    usable: Vec<LinkIndex>,
}

impl KernelPlaces {
    /// Puts `director` behind `capture`, whose events nobody may have taken yet.
    pub fn new(mut capture: Capture, director: Director) -> Result<Self, CaptureError> {
        let events = capture.events()?.ok_or(CaptureError::EventsTaken)?;
        Ok(Self {
            capture,
            events,
            director,
            flows: BTreeMap::new(),
            usable: Vec::new(),
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
        self.surroundings().await;
        let mut ticks = tokio::time::interval(EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let outcome = tokio::select! {
                event = self.events.next() => match event {
                    Ok(event) => self.handle(event),
                    Err(error) => return tracing::error!(%error, "the kernel tells nothing any more"),
                },
                _ = ticks.tick() => self.refresh(),
                Ok(()) = rules.changed() => {
                    self.obey(&Arc::clone(&rules.borrow_and_update()));
                    Ok(())
                }
                Ok(()) = links.changed() => {
                    links.mark_unchanged();
                    self.surroundings().await;
                    self.refresh()
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
        let set = match particular_prefixes().await {
            Ok(prefixes) => self.capture.set_local_prefixes(&prefixes),
            Err(error) => return tracing::warn!(%error, "routes can't be listed now"),
        };
        if let Err(error) = set {
            tracing::warn!(%error, "the kernel's program keeps to the routes before");
        }
    }

    /// Tells either side what the other knows by now.
    fn refresh(&mut self) -> Result<(), CaptureError> {
        self.capture.recount()?;
        for (cookie, (flow, known)) in &mut self.flows {
            if let Some(moved) = self.capture.progress(*cookie) {
                advance(flow, known, moved);
            }
        }
        let report = self.director.report();
        let entries = entries(&report);
        self.capture.set_links(&entries)?;
        let loads: Vec<_> = report
            .links
            .iter()
            .map(|link| (index(link), link.load))
            .collect();
        self.capture.set_loads(&loads)?;
        let usable = entries
            .iter()
            .filter(|entry| entry.usable)
            .map(|entry| entry.index);
        let usable: Vec<LinkIndex> = usable.collect();
        // A link that is passed over for a VPN is not lost.
        let is_lost = |link: &&LinkIndex| {
            !usable.contains(link) && report.tunnels.iter().all(Option::is_none)
        };
        for lost in self.usable.iter().filter(is_lost) {
            let aborted = self.capture.abort_unanswered(*lost)?;
            tracing::debug!(link = lost.value(), aborted, "a link is lost");
        }
        self.usable = usable;
        Ok(())
    }

    fn handle(&mut self, event: Event) -> Result<(), CaptureError> {
        match event {
            Event::Connected(connection) => self.note(&connection),
            Event::Ended(connection, end) => {
                self.end(&connection, &end);
                Ok(())
            }
            Event::Refused(_) => Ok(()),
        }
    }

    /// A connection was placed: the director charges the same link, and the kernel hears what the
    /// director expects of such connections, if it did not know.
    fn note(&mut self, connection: &Connection) -> Result<(), CaptureError> {
        self.capture.learn(connection)?;
        let Some(link) = connection.link else {
            return Ok(());
        };
        let decision = self.director.decide(&origin(connection));
        let demand = Bytes::from(decision.demand);
        if demand != connection.demand {
            let port_class = PortClass::of(connection.remote.port());
            let known = (connection.program.as_str(), port_class, demand);
            self.capture.set_demands([known])?;
        }
        if self.flows.len() < MAX_FLOWS {
            let flow = self.director.open(&decision, link);
            self.flows
                .insert(connection.cookie, (flow, Bytes::default()));
        }
        Ok(())
    }

    fn end(&mut self, connection: &Connection, end: &End) {
        let Some((flow, mut known)) = self.flows.remove(&connection.cookie) else {
            return;
        };
        // One that never came about teaches nothing; of datagrams nobody knows what they moved.
        let Some((moved, took)) = end.moved.zip(end.connect_time) else {
            return;
        };
        // The kernel tells when it is over.
        flow.connected_since(Some(took), end.lasted.saturating_sub(took));
        if let Some(latency) = end.latency {
            flow.round_trip(latency);
        }
        advance(&flow, &mut known, moved);
    }
}

fn advance(flow: &Flow, known: &mut Bytes, moved: Bytes) {
    let more = |now: ByteCount, then: ByteCount| {
        ByteCount::new(now.as_u64().saturating_sub(then.as_u64()))
    };
    flow.moved(more(moved.up, known.up), more(moved.down, known.down));
    *known = moved;
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

fn index(link: &LinkReport) -> LinkIndex {
    LinkIndex::new(link.link.index)
}

/// The links as the kernel's program is to see them: of those that lead to a family only the ones
/// that are to be used before the others.
/// None leads to a family that a VPN takes.
fn entries(report: &Report) -> Vec<LinkEntry> {
    let links = &report.links;
    let [vpn4, vpn6] = report.tunnels.each_ref().map(Option::is_some);
    let leads = |link: &LinkReport, remote: IpAddr| {
        let is_left = if remote.is_ipv6() { vpn6 } else { vpn4 };
        !is_left
            && link.health == Health::Sound
            && rank(link.permission) < FORBIDDEN
            && link.link.has_default_route(remote)
            && link.link.source_address(remote).is_some()
    };
    let best = |remote: IpAddr| {
        let leading = links.iter().filter(|link| leads(link, remote));
        leading.map(|link| rank(link.permission)).min()
    };
    let [best4, best6] = ANYWHERE.map(best);
    let entry = |link: &LinkReport| {
        let [to4, to6] = ANYWHERE;
        let rank = Some(rank(link.permission));
        let (ipv4, ipv6) = (
            leads(link, to4) && rank == best4,
            leads(link, to6) && rank == best6,
        );
        LinkEntry {
            index: index(link),
            name: link.link.name.clone(),
            up: link.counts_for[0],
            down: link.counts_for[1],
            latency: link.latency,
            usable: ipv4 || ipv6,
            ipv4,
            ipv6,
            metered: !link.is_free,
        }
    };
    links.iter().map(entry).collect()
}

const EVERY: Duration = Duration::from_millis(500);
/// The kernel's table has no more.
const MAX_FLOWS: usize = 65_536;
/// The rank of links that are not to be used.
const FORBIDDEN: u8 = 3;
/// Addresses for documentation, which no network has.
const ANYWHERE: [IpAddr; 2] = [
    IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)),
    IpAddr::V6(std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
];

#[cfg(test)]
mod tests {
    use hawser_net::links::LinkKind;
    use hawser_sched::connection::ConnectionPolicy;

    use super::super::decision::tests::link;
    use super::*;

    #[tokio::test]
    async fn the_kernel_gets_no_links_of_a_family_that_a_vpn_takes() {
        let vpn = Link {
            kind: LinkKind::Tunnel,
            takes_ordinary_v4: true,
            ..Link::clone(&link("vpn"))
        };
        for (wanted, expected) in [
            (vec![], (false, true)),
            (vec!["a".to_owned()], (true, true)),
        ] {
            let director = Director::new(ConnectionPolicy::default(), wanted);
            director.set_links(&[Link::clone(&link("a")), vpn.clone()]);
            let entries = entries(&director.report());
            let entry = entries.iter().find(|entry| entry.name == "a").unwrap();
            assert_eq!((entry.ipv4, entry.ipv6), expected);
        }
    }
}
