//! Which links a connection may take, in which order.

use std::collections::BTreeMap;
use std::sync::Arc;

use hawser_net::links::Link;
use hawser_path::DemandKey;
use hawser_policy::{Avoid, LinkChoice, Protocol, Verdict};
use hawser_sched::connection::{Demand, LinkView, Reason};
use hawser_sched::rules::Permission;
use hawser_types::{Instant, LinkIndex};

use super::decision::{Candidate, Decision, Standing, leads_to};
use super::demands::Demands;
use super::director::Inner;
use super::link_book::LinkBook;
use super::sites::Site;
use super::story::{LeftTo, MAX_PROMISES, Promise, Story, Subject};
use super::terms::rank;
use super::{Health, Origin};

/// One decision as it is made.
pub(super) struct Placing<'a> {
    pub(super) inner: &'a mut Inner,
    pub(super) origin: &'a Origin,
    pub(super) verdict: Verdict,
    pub(super) key: DemandKey,
    pub(super) demand: Demand,
    pub(super) is_left: [bool; 2],
    pub(super) now: Instant,
    /// The number of the story that this goes on with.
    told: Option<u64>,
}

/// What keeps a link behind others: its place in the user's order, what its terms say, and whether
/// it is to be avoided.
pub(super) type Tier = (usize, u8, bool);

impl<'a> Placing<'a> {
    pub(super) fn new(inner: &'a mut Inner, origin: &'a Origin, now: Instant) -> Self {
        let verdict = inner.rules.judge(&origin.facts());
        let key = Demands::key(origin);
        let demand = inner.demands.expect(&key, verdict.class);
        let is_left = is_left(inner, origin, &verdict);
        Self {
            told: None,
            inner,
            origin,
            verdict,
            key,
            demand,
            is_left,
            now,
        }
    }

    /// Without a story.
    pub(super) fn decide_untold(mut self) -> Decision {
        self.told = Some(NO_STORY);
        self.decide()
    }

    /// Goes on with a story that was begun by another decision.
    pub(super) fn decide_again(mut self, story: u64) -> Decision {
        if let Some(story) = self.inner.stories.find(story) {
            story.decided_again = story.decided_again.saturating_add(1);
        }
        self.told = Some(story);
        self.decide()
    }

    pub(super) fn decide(self) -> Decision {
        let mut sound: BTreeMap<Tier, Vec<LinkView>> = BTreeMap::new();
        let mut others: Vec<(Tier, LinkView)> = Vec::new();
        let counting = self.inner.counting(self.now);
        for book in self.inner.links.values().filter(|book| self.is_open(book)) {
            let tier = self.tier(book);
            let view = book.view(counting.of(book));
            match book.record.health() {
                Health::Sound => sound.entry(tier).or_default().push(view),
                Health::Suspect | Health::Portal => others.push((tier, view)),
            }
        }
        let mut ranked: Vec<(Standing, LinkView)> = Vec::new();
        let mut reason = None;
        let mut standing = Standing::Equal;
        for mut views in sound.into_values() {
            views.sort_by_key(|view| view.time_to_answer(&self.demand));
            if standing == Standing::Equal {
                let mut by_index = views.clone();
                by_index.sort_by_key(|view| view.link);
                let choice = self.inner.scheduler.select(&self.demand, &by_index);
                views.sort_by_key(|view| choice.is_none_or(|choice| view.link != choice.link));
                reason = choice.map(|choice| choice.reason);
            }
            ranked.extend(views.into_iter().map(|view| (standing, view)));
            standing = Standing::Reserve;
        }
        let has_sound = !ranked.is_empty();
        others.sort_by_key(|(tier, view)| (*tier, view.time_to_answer(&self.demand)));
        // One trial at a time, and only while another link answers. Of datagrams nobody can tell
        // whether they are answered.
        let can_try = has_sound && self.origin.protocol == Protocol::Tcp;
        let mut trial = None;
        for (_, view) in others {
            let book = self.inner.links.get_mut(&view.link.value());
            if let Some(book) = book.filter(|_| can_try && trial.is_none())
                && book.record.take_trial(self.now)
            {
                trial = Some(Arc::clone(&book.link));
            }
            ranked.push((Standing::Suspect, view));
        }
        Decision {
            trial,
            ..self.decision(&ranked, reason)
        }
    }

    fn decision(mut self, ranked: &[(Standing, LinkView)], reason: Option<Reason>) -> Decision {
        let story = match self.told {
            Some(story) => story,
            None => self.tell(ranked, reason),
        };
        let links = &self.inner.links;
        let candidate = |(standing, view): &(Standing, LinkView)| {
            let book = links.get(&view.link.value())?;
            Some(Candidate {
                link: Arc::clone(&book.link),
                patience: book.patience(),
                standing: *standing,
            })
        };
        let leads = |v6: bool| links.values().any(|book| leads_to(&book.link, v6));
        Decision {
            candidates: ranked.iter().filter_map(candidate).collect(),
            trial: None,
            demand: self.demand,
            mode: self.verdict.mode,
            reason,
            leads: [leads(false), leads(true)],
            is_open: self.inner.wanted.is_empty() && self.verdict.links == LinkChoice::Any,
            is_left: self.is_left,
            site: Site::of(self.origin).filter(|_| self.inner.gateway.is_some()),
            key: self.key,
            story,
        }
    }

    /// Begins the story of the connection, whose number is given.
    fn tell(&mut self, ranked: &[(Standing, LinkView)], reason: Option<Reason>) -> u64 {
        let promise = |(standing, view): &(Standing, LinkView)| {
            let book = self.inner.links.get(&view.link.value())?;
            Some(Promise::new(&book.link, *view, *standing))
        };
        let candidates = ranked.iter().filter_map(promise).take(MAX_PROMISES);
        let story = self.story(candidates.collect(), reason, self.left_to());
        self.inner.stories.begin(story)
    }

    /// The story of the connection as it begins.
    pub(super) fn story(
        &self,
        candidates: Vec<Promise>,
        reason: Option<Reason>,
        left_to: Option<LeftTo>,
    ) -> Story {
        Story {
            number: 0,
            begun: self.now,
            subject: Subject::of(self.origin),
            policy: self.inner.scheduler.policy(),
            reason,
            demand: self.demand,
            candidates,
            left_to,
            verdict: self.verdict.clone(),
            rules: Arc::clone(&self.inner.rules),
            is_kernels: false,
            decided_again: 0,
            tries: Vec::new(),
            failed: None,
        }
    }

    /// The families of addresses that the connection may go to, whether each is IPv6, and whether it
    /// is left to the system there.
    pub(super) fn families(&self) -> impl Iterator<Item = (bool, bool)> + use<> {
        let only = self.origin.remote.map(|remote| remote.is_ipv6());
        let all = [false, true].into_iter().zip(self.is_left);
        all.filter(move |(v6, _)| only.is_none_or(|only| only == *v6))
    }

    /// Who is to say where the connection goes, for any of the families that it may take.
    fn left_to(&self) -> Option<LeftTo> {
        let (v6, _) = self.families().find(|(_, is_left)| *is_left)?;
        let [tunnel4, tunnel6] = self.inner.tunnels();
        let tunnel = if v6 { tunnel6 } else { tunnel4 };
        Some(match tunnel {
            Some(tunnel) if self.origin.port != DNS_PORT => LeftTo::Tunnel(tunnel.name.clone()),
            _ => LeftTo::Resolver,
        })
    }

    /// Whether the connection may take the link at all, and the link leads there.
    pub(super) fn is_open(&self, book: &LinkBook) -> bool {
        let link = &book.link;
        let mut families = self.families();
        let leads = families.any(|(v6, is_left)| !is_left && leads_to(link, v6));
        let permission = self.inner.terms.permission(link);
        let index = LinkIndex::new(link.index);
        let among = self.origin.among.as_ref();
        leads
            && among.is_none_or(|among| among.contains(&index))
            && self.verdict.links.allows(&link.name)
            && !matches!(permission, Permission::Forbidden(_))
    }

    /// Whether the connection takes the link only if there is no other.
    pub(super) fn is_avoided(&self, book: &LinkBook) -> bool {
        self.verdict.avoid.iter().any(|avoid| match avoid {
            Avoid::Metered => self.inner.terms.is_metered(&book.link),
            Avoid::Calls => book.calls > 0,
        })
    }

    pub(super) fn tier(&self, book: &LinkBook) -> Tier {
        let name = &book.link.name;
        let place = match &self.verdict.links {
            LinkChoice::Order(names) => names.iter().position(|one| one == name).unwrap_or(0),
            _ => 0,
        };
        let permission = self.inner.terms.permission(&book.link);
        (place, rank(permission), self.is_avoided(book))
    }
}

/// Whether connections to IPv4 and to IPv6 addresses are left to the system's routes: where these
/// lead through a VPN for all traffic, and to resolvers, unless links were named for it.
fn is_left(inner: &Inner, origin: &Origin, verdict: &Verdict) -> [bool; 2] {
    // A provider's resolvers often answer over its own link only.
    if origin.port == DNS_PORT && verdict.links == LinkChoice::Any {
        return [true, true];
    }
    let held = |tunnel: Option<&Link>| {
        tunnel.is_some_and(|tunnel| match &verdict.links {
            LinkChoice::Only(_) | LinkChoice::Order(_) => false,
            others => others.allows(&tunnel.name),
        })
    };
    inner.tunnels().map(held)
}

const DNS_PORT: u16 = 53;
/// Their numbers begin with 1.
const NO_STORY: u64 = 0;
