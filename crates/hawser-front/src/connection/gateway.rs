//! Whether a connection goes over one link or over a gateway, where there is one.

use std::sync::Arc;
use std::time::Duration;

use hawser_net::links::{Link, LinkKind};
use hawser_path::DemandKey;
use hawser_policy::{Avoid, LinkChoice, Mode, Verdict};
use hawser_sched::connection::{
    By, Class, Demand, GatewayUse, GatewayView, LinkView, Load, Reached, choose_way,
};
use hawser_types::{ByteCount, Instant, LinkIndex, Rate};

use super::director::{Director, Inner};
use super::link_book::LinkBook;
use super::place::Placing;
use super::rates::Counting;
use super::sites::{Site, Sites};
use super::story::{LeftTo, Story};
use super::terms::rank;
use super::{Flow, Health, Origin};

/// How a connection goes, where there is a gateway.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// Its way.
    pub by: By,
    /// Whether the gateway is waited for, however long that takes, and its failure is the
    /// connection's; no link is tried then.
    pub waits_for_gateway: bool,
    /// How long the gateway has before a link is tried as well.
    pub patience: Duration,
    demand: Demand,
    key: DemandKey,
    site: Option<Site>,
    /// What is to be told of it, where it goes by the gateway.
    story: Option<Box<Story>>,
}

impl Chosen {
    /// Whether it is of those that somebody talks by.
    pub(crate) fn is_call(&self) -> bool {
        self.demand.class == Class::RealTime
    }
}

/// A session with a gateway at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct SessionView {
    /// Its links, each with the round-trip time to the gateway.
    pub links: Vec<(LinkIndex, Duration)>,
    /// What went over all of them in it: what was sent and has arrived, and what was received.
    pub moved: [ByteCount; 2],
}

/// A session as it was at a moment.
#[derive(Debug)]
struct Seen {
    at: Instant,
    session: SessionView,
}

/// What is known of the gateway, and of who went over it.
#[derive(Debug)]
pub(super) struct GatewayBook {
    usage: GatewayUse,
    /// What is open on it, and what it can do. It is seen as if it were one more link.
    pub(super) book: LinkBook,
    /// `None` while there is no session.
    seen: Option<Seen>,
    /// When what was last counted of it was so.
    counted: Option<Instant>,
    /// Whether something was open on it all the time since then, sent and received.
    busy: [bool; 2],
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
    /// From now on there is a gateway, too, used as `usage` says; of one that is known already, what is
    /// known stays.
    pub fn set_gateway(&self, usage: GatewayUse) {
        match &mut self.lock().gateway {
            Some(gateway) => gateway.usage = usage,
            none => *none = Some(Box::new(GatewayBook::new(usage))),
        }
        self.change();
    }

    /// What the gateway is used for; none where there is none.
    pub fn gateway_use(&self) -> Option<GatewayUse> {
        self.lock().gateway.as_ref().map(|it| it.usage)
    }

    /// The session with the gateway as it is now. To be told every half second.
    pub fn set_session(&self, session: Option<SessionView>) {
        let at = self.now();
        let mut inner = self.lock();
        let Some(gateway) = &mut inner.gateway else {
            return;
        };
        self.note_session(session.is_some());
        gateway.seen = session.map(|session| Seen { at, session });
    }

    /// The gateway had `waited` to answer, when a link was in its place.
    pub(crate) fn handle_slow_gateway(&self, waited: Duration) {
        if let Some(gateway) = &mut self.lock().gateway {
            gateway.book.latency.on_lower_bound(waited);
        }
    }

    /// Whether the gateway is for everything.
    pub fn is_all_by_gateway(&self) -> bool {
        self.gateway_use() == Some(GatewayUse::Always)
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
        let told = self.tell_by_gateway(chosen);
        let (key, site) = (chosen.key.clone(), chosen.site.clone());
        self.open_on(GATEWAY, (key, chosen.demand, site), told)
    }

    /// Tells of something that goes by the gateway; the number of its story.
    pub(crate) fn tell_by_gateway(&self, chosen: &Chosen) -> Option<u64> {
        let story = chosen.story.as_deref()?.clone();
        Some(self.lock().stories.begin(story))
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
            seen: None,
            counted: None,
            busy: [false; 2],
            sites: Sites::default(),
        }
    }

    fn session(&self) -> Option<&SessionView> {
        Some(&self.seen.as_ref()?.session)
    }

    /// Whether the session runs over the link.
    pub(super) fn is_on(&self, link: u32) -> bool {
        let mut links = self.session().into_iter().flat_map(|it| &it.links);
        links.any(|(index, _)| index.value() == link)
    }

    /// Takes in what went over the session up to the moment at which it was last seen; `busy`:
    /// something was open on it all the time since this was last called. Others call this than look
    /// at the session, so it may have been seen once since then, not at all, or twice.
    fn count(&mut self, busy: [bool; 2]) {
        self.busy = [self.busy[0] && busy[0], self.busy[1] && busy[1]];
        let Some(seen) = self.seen.as_ref().filter(|it| Some(it.at) != self.counted) else {
            return;
        };
        let [up, down] = seen.session.moved;
        self.book.up.on_counter(seen.at, up, self.busy[0]);
        self.book.down.on_counter(seen.at, down, self.busy[1]);
        (self.counted, self.busy) = (Some(seen.at), [true; 2]);
    }

    pub(super) fn report(&self, open: u64) -> GatewayReport {
        let book = &self.book;
        GatewayReport {
            usage: self.usage,
            is_up: self.seen.is_some(),
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
    fn choose(mut self, is_near: bool) -> Chosen {
        let site = Site::of(self.origin).filter(|_| self.inner.gateway.is_some());
        let why = self.why_by_gateway(is_near, site.as_ref());
        let story = |why| Box::new(self.story(Vec::new(), None, Some(LeftTo::Gateway(why))));
        let gateway = self.inner.gateway.as_ref();
        let is_for_all = gateway.is_some_and(|it| it.usage == GatewayUse::Always);
        let patience = gateway.map(|it| it.book.patience());
        Chosen {
            by: match why {
                Some(_) => By::Gateway,
                None => By::Link,
            },
            waits_for_gateway: why.is_some() && is_for_all,
            patience: patience.unwrap_or_default().max(MIN_HEAD_START),
            story: why.map(story),
            site,
            demand: self.demand,
            key: self.key,
        }
    }

    /// Why the connection goes by the gateway, if it does.
    fn why_by_gateway(&mut self, is_near: bool, site: Option<&Site>) -> Option<&'static str> {
        let gateway = self.inner.gateway.as_ref()?;
        let (said, why) = ruled(gateway.usage, &self.verdict, self.keeps_off(), is_near);
        // One that is not for everything is not waited for.
        let is_there = gateway.seen.is_some() || gateway.usage == GatewayUse::Always;
        match said {
            Some(By::Link) => None,
            Some(By::Gateway) => is_there.then_some(why),
            None => self.why_weighed(site),
        }
    }

    /// Whether the connection is to keep off a link that a session may take: sessions outlive what
    /// links there are, so of those that cost it is enough that they are known.
    fn keeps_off(&self) -> bool {
        let Inner { terms, wanted, .. } = &*self.inner;
        let is_wanted = |name: &String| wanted.is_empty() || wanted.contains(name);
        let has_metered = terms.metered.iter().any(is_wanted);
        let keeps_off_metered = has_metered && self.verdict.avoid.contains(&Avoid::Metered);
        keeps_off_metered || self.inner.links.values().any(|book| self.is_avoided(book))
    }

    /// Why it goes by the gateway, if that is the better way, or the one that others have just taken
    /// to its site.
    fn why_weighed(&mut self, site: Option<&Site>) -> Option<&'static str> {
        // A VPN for all traffic, or a resolver: as the system has it.
        if self.families().any(|(_, is_left)| is_left) {
            return None;
        }
        let (now, gateway) = (self.now, self.inner.gateway.as_ref()?);
        let session = gateway.session()?;
        if let Some(kept) = site.and_then(|it| gateway.sites.kept(it, now)) {
            return (kept == By::Gateway).then_some("others went to its site that way lately");
        }
        let by = self.weigh(gateway, session, site);
        // What is begun at the same moment goes the same way.
        if let (Some(gateway), Some(site)) = (&mut self.inner.gateway, site) {
            gateway.sites.note(site, by, now);
        }
        (by == By::Gateway).then_some("it gains by it")
    }

    fn weigh(&self, gateway: &GatewayBook, session: &SessionView, site: Option<&Site>) -> By {
        let reached = site.map_or(Reached::default(), |it| gateway.sites.reached(it, self.now));
        let counting = self.inner.counting(self.now);
        let shared = self.session_links(session, &counting);
        let [up, down] = self.most(gateway, &shared);
        let nearest = session.links.iter().map(|(_, rtt)| *rtt).min();
        let view = GatewayView {
            links: &shared,
            up,
            down,
            latency: gateway.latency(nearest.unwrap_or_default()),
            load: gateway.book.load,
        };
        let links = self.best_links(session, &counting);
        choose_way(&self.demand, &links, &view, &reached)
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

    /// Takes in what was moved over the gateway.
    pub(super) fn count_gateway(&mut self, busy: [bool; 2]) {
        if let Some(gateway) = &mut self.gateway {
            gateway.count(busy);
        }
    }
}

/// No interface has this number: the kernel's are positive as signed ones.
pub(super) const GATEWAY: u32 = u32::MAX;
/// The rank of links that are kept in reserve.
const RESERVE: u8 = 2;
/// As between two addresses: RFC 8305 §8.
const MIN_HEAD_START: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests;
