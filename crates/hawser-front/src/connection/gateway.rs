//! Whether a connection goes over one link or over a gateway, where there is one.

use std::sync::Arc;
use std::time::Duration;

use hawser_net::links::{Link, LinkKind};
use hawser_path::DemandKey;
use hawser_policy::{Avoid, LinkChoice, Mode, Verdict};
use hawser_sched::connection::{By, Demand, GatewayUse, GatewayView, LinkView, Load, choose_way};
use hawser_types::{ByteCount, Instant, LinkIndex, Rate};

use super::director::{Director, Inner};
use super::link_book::LinkBook;
use super::place::Placing;
use super::rates::Counting;
use super::sites::{Site, Sites};
use super::terms::rank;
use super::{Flow, Health, Origin};

/// How a connection goes, where there is a gateway.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// Its way.
    pub by: By,
    /// Whether there is no other for it: if that fails, or has to be waited for, so be it.
    pub is_only: bool,
    /// How long the gateway has before a link is tried as well.
    pub patience: Duration,
    demand: Demand,
    key: DemandKey,
    site: Option<Site>,
}

/// A session with a gateway at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct SessionView {
    /// Its links, each with the round-trip time to the gateway.
    pub links: Vec<(LinkIndex, Duration)>,
    /// What went over all of them in it, sent and received.
    pub moved: [ByteCount; 2],
}

/// What is known of the gateway, and of who went over it.
#[derive(Debug)]
pub(super) struct GatewayBook {
    usage: GatewayUse,
    /// What is open on it, and what it can do. It is seen as if it were one more link.
    pub(super) book: LinkBook,
    /// `None` while there is no session.
    session: Option<SessionView>,
    pub(super) sites: Sites,
}

/// What the director has done with the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatewayReport {
    /// What it is used for.
    pub usage: GatewayUse,
    /// Whether a session with it runs.
    pub is_up: bool,
    /// What it was seen to send on; zero while unknown.
    pub up: Rate,
    /// What it was seen to bring back; zero while unknown.
    pub down: Rate,
    /// How long connecting by it takes; zero while unknown.
    pub latency: Duration,
    /// What the connections over it have still to carry.
    pub load: Load,
    /// Connections that came about over it.
    pub opened: u64,
    /// Those of them that are open.
    pub open: u64,
}

/// What is said of a connection's way before anything is weighed, and why; `None` where nothing is.
///
/// A session goes over every link, so whatever keeps a connection off some of them keeps it off
/// the gateway: `keeps_off`. The gateway does not lead to networks of this machine: `is_near`.
pub fn ruled(
    usage: GatewayUse,
    verdict: &Verdict,
    keeps_off: bool,
    is_near: bool,
) -> (Option<By>, &'static str) {
    match (verdict.mode, usage) {
        _ if verdict.links != LinkChoice::Any => (Some(By::Link), "not every link is open to it"),
        _ if keeps_off => (Some(By::Link), "it is to keep off some links"),
        (Mode::Direct, _) => (Some(By::Link), "its mode is direct"),
        (Mode::Bonded, _) => (Some(By::Gateway), "its mode is bonded"),
        _ if is_near => (
            Some(By::Link),
            "it does not leave the networks of this machine",
        ),
        (Mode::Auto, GatewayUse::Always) => (Some(By::Gateway), "the gateway is for everything"),
        (Mode::Auto, GatewayUse::Never) => (Some(By::Link), "the gateway is for nothing else"),
        (Mode::Auto, GatewayUse::Auto) => (None, "it goes the way that gains more"),
    }
}

impl Director {
    /// From now on there is a gateway, too, used as `usage` says.
    pub fn set_gateway(&self, usage: GatewayUse) {
        self.lock().gateway = Some(Box::new(GatewayBook::new(usage)));
    }

    /// The session with the gateway as it is now. To be told every half second.
    pub fn set_session(&self, session: Option<SessionView>) {
        if let Some(gateway) = &mut self.lock().gateway {
            gateway.session = session;
        }
    }

    /// Whether a session with the gateway runs.
    pub fn has_session(&self) -> bool {
        let inner = self.lock();
        inner
            .gateway
            .as_ref()
            .is_some_and(|it| it.session.is_some())
    }

    /// Whether the gateway is for everything.
    pub fn is_all_by_gateway(&self) -> bool {
        let inner = self.lock();
        let usage = inner.gateway.as_ref().map(|it| it.usage);
        usage == Some(GatewayUse::Always)
    }

    /// Which way a connection takes; over a link, where there is no gateway. `is_near`: it leads to
    /// this machine, a network on one of its links, or by a route that was made for it.
    pub fn choose(&self, origin: &Origin, is_near: bool) -> Chosen {
        let now = self.now();
        let mut inner = self.lock();
        inner.sweep(now);
        Placing::new(&mut inner, origin, now).choose(is_near)
    }

    /// Charges the gateway with a connection that is about to be made over it.
    pub fn open_by_gateway(&self, chosen: &Chosen) -> Flow {
        let (key, site) = (chosen.key.clone(), chosen.site.clone());
        self.open_on(GATEWAY, (key, chosen.demand, site), None)
    }
}

impl GatewayBook {
    fn new(usage: GatewayUse) -> Self {
        let link = Link {
            index: GATEWAY,
            name: "gateway".to_owned(),
            kind: LinkKind::Tunnel,
            addresses: Vec::new(),
            enabled: true,
            up: true,
            has_default_route_v4: true,
            has_default_route_v6: true,
            takes_ordinary_v4: false,
            takes_ordinary_v6: false,
            loopback: false,
        };
        Self {
            usage,
            book: LinkBook::new(Arc::new(link)),
            session: None,
            sites: Sites::default(),
        }
    }

    /// Whether the session runs over the link.
    pub(super) fn is_on(&self, link: u32) -> bool {
        let links = self.session.iter().flat_map(|it| &it.links);
        links.into_iter().any(|(index, _)| index.value() == link)
    }

    /// What went over it up to now, if there is a session.
    pub(super) fn moved(&self) -> Option<[ByteCount; 2]> {
        Some(self.session.as_ref()?.moved)
    }

    pub(super) fn report(&self, open: u64) -> GatewayReport {
        let book = &self.book;
        GatewayReport {
            usage: self.usage,
            is_up: self.session.is_some(),
            up: book.up.rate().unwrap_or_default(),
            down: book.down.rate().unwrap_or_default(),
            latency: book.latency.smoothed(),
            load: book.load,
            opened: book.opened,
            open,
        }
    }

    /// A round trip by it: as long as connecting takes, but no less than to the gateway itself.
    fn latency(&self, nearest: Duration) -> Duration {
        match self.book.latency.smoothed() {
            // From the gateway on it goes over a good line, mostly.
            Duration::ZERO => nearest.saturating_add(nearest / 2),
            known => known.max(nearest),
        }
    }
}

impl Placing<'_> {
    fn choose(self, is_near: bool) -> Chosen {
        let by = self.way(is_near);
        let patience = self.inner.gateway.as_ref().map(|it| it.book.patience());
        let (by, is_only) = by;
        Chosen {
            by,
            is_only,
            patience: patience.unwrap_or_default().max(MIN_HEAD_START),
            site: Site::of(self.origin).filter(|_| self.inner.gateway.is_some()),
            demand: self.demand,
            key: self.key,
        }
    }

    /// The way, and whether there is no other.
    fn way(&self, is_near: bool) -> (By, bool) {
        let Some(gateway) = &self.inner.gateway else {
            return (By::Link, true);
        };
        let keeps_off = self.keeps_off();
        let said = ruled(gateway.usage, &self.verdict, keeps_off, is_near).0;
        let is_only = gateway.usage == GatewayUse::Always;
        match (said, &gateway.session) {
            (Some(By::Link), _) => (By::Link, true),
            (Some(By::Gateway), None) if !is_only => (By::Link, true),
            (Some(By::Gateway), _) => (By::Gateway, is_only),
            (None, None) => (By::Link, true),
            (None, Some(session)) => (self.weigh(gateway, session), false),
        }
    }

    /// Whether the connection is to keep off a link that is there.
    fn keeps_off(&self) -> bool {
        let terms = &self.inner.terms;
        let mut links = self.inner.links.values();
        links.any(|book| {
            self.verdict.avoid.iter().any(|avoid| match avoid {
                Avoid::Metered => terms.is_metered(&book.link),
                Avoid::Calls => book.calls > 0,
            })
        })
    }

    fn weigh(&self, gateway: &GatewayBook, session: &SessionView) -> By {
        // A VPN for all traffic, or a resolver: as the system has it.
        let [left4, left6] = self.is_left;
        let is_left = match self.origin.remote {
            Some(remote) if remote.is_ipv6() => left6,
            Some(_) => left4,
            None => left4 || left6,
        };
        if is_left {
            return By::Link;
        }
        let site = Site::of(self.origin);
        if let Some(kept) = site
            .as_ref()
            .and_then(|it| gateway.sites.kept(it, self.now))
        {
            return kept;
        }
        let reached = |by| {
            let site = site.as_ref();
            site.map_or([None; 2], |it| gateway.sites.reached(it, by, self.now))
        };
        let counting = self.inner.counting(self.now);
        let mut links = self.best_links(session, &counting);
        for view in &mut links {
            [view.up, view.down] = capped([view.up, view.down], reached(By::Link));
        }
        let shared = self.session_links(session, &counting);
        let most = self.most(gateway, &shared);
        let [up, down] = capped(most, reached(By::Gateway));
        let nearest = session.links.iter().map(|(_, rtt)| *rtt).min();
        let view = GatewayView {
            links: &shared,
            up,
            down,
            latency: gateway.latency(nearest.unwrap_or_default()),
            load: gateway.book.load,
        };
        choose_way(&self.demand, &links, &view)
    }

    /// The links that the connection would take, of the first tier that has any.
    fn best_links(&self, session: &SessionView, counting: &Counting) -> Vec<LinkView> {
        let books = self.inner.links.values();
        let open = books.filter(|book| self.is_open(book) && book.record.health() == Health::Sound);
        let tiers = open.map(|book| (self.tier(book), self.view(book, session, counting)));
        let mut best = Vec::new();
        let mut first = None;
        for (tier, view) in tiers {
            if first.is_some_and(|first| first < tier) {
                continue;
            }
            if first != Some(tier) {
                best.clear();
            }
            first = Some(tier);
            best.push(view);
        }
        best
    }

    /// The links that carry the session's data, which are not those kept in reserve, unless there
    /// are no others.
    fn session_links(&self, session: &SessionView, counting: &Counting) -> Vec<LinkView> {
        let books = || {
            let books = session.links.iter();
            books.filter_map(|(index, _)| self.inner.links.get(&index.value()))
        };
        let is_first = |book: &&LinkBook| rank(self.inner.terms.permission(&book.link)) < RESERVE;
        let view = |book: &LinkBook| self.view(book, session, counting);
        let first: Vec<LinkView> = books().filter(is_first).map(view).collect();
        match first.is_empty() {
            true => books().map(view).collect(),
            false => first,
        }
    }

    /// A link as policies see it. Of one that nobody was answered on yet the session knows the
    /// round-trip time to the gateway.
    fn view(&self, book: &LinkBook, session: &SessionView, counting: &Counting) -> LinkView {
        let mut view = book.view(counting.of(book));
        if view.latency.is_zero() {
            let mut links = session.links.iter();
            let known = links.find(|(index, _)| *index == view.link);
            view.latency = known.map_or(Duration::ZERO, |(_, rtt)| *rtt);
        }
        view
    }

    /// What the gateway passes on, at most: what its links carry together, as long as nothing
    /// speaks against it.
    fn most(&self, gateway: &GatewayBook, links: &[LinkView]) -> [Rate; 2] {
        let sum = |rate: fn(&LinkView) -> Rate| {
            let rates = links.iter().map(|link| rate(link).bytes_per_second());
            Rate::from_bytes_per_second(rates.fold(0, u64::saturating_add))
        };
        let book = &gateway.book;
        [
            book.up.counts_for(self.now, sum(|link| link.up)),
            book.down.counts_for(self.now, sum(|link| link.down)),
        ]
    }
}

impl Inner {
    /// The book of a link, or of the gateway.
    pub(super) fn book_mut(&mut self, index: u32) -> Option<&mut LinkBook> {
        match index {
            GATEWAY => self.gateway.as_mut().map(|gateway| &mut gateway.book),
            _ => self.links.get_mut(&index),
        }
    }

    /// Takes in what was moved over the gateway. Links that only a session keeps busy may wait for
    /// the gateway, so that they show what they can do at least.
    pub(super) fn count_gateway(&mut self, now: Instant, busy: [bool; 2]) {
        let Some(gateway) = &mut self.gateway else {
            return;
        };
        if let Some([up, down]) = gateway.moved() {
            gateway.book.up.on_counter(now, up, busy[0]);
            gateway.book.down.on_counter(now, down, busy[1]);
        }
    }
}

/// No more than what was reached, where that is known.
fn capped(rates: [Rate; 2], reached: [Option<Rate>; 2]) -> [Rate; 2] {
    let [up, down] = rates;
    let cap = |rate: Rate, reached: Option<Rate>| reached.map_or(rate, |reached| rate.min(reached));
    [cap(up, reached[0]), cap(down, reached[1])]
}

/// No interface has this number: the kernel's are positive as signed ones.
pub(super) const GATEWAY: u32 = u32::MAX;
/// The rank of links that are kept in reserve.
const RESERVE: u8 = 2;
/// As between two addresses: RFC 8305 §8.
const MIN_HEAD_START: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests;
