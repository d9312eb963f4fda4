use hawser_policy::{Avoid, LinkChoice, RuleSet, Verdict};
use hawser_sched::connection::Demand;
use hawser_types::{Link, LinkIndex};

use super::decision::leads_to;
use super::demands::Demands;
use super::expected::Expected;
use super::link_record::LinkRecord;
use super::link_rules::AllLinkRules;
use super::links::Links;
use super::request::ConnectionRequest;
use super::sites::Site;
use super::story::LeftTo;

/// Judgement of one connection by rules and estimates.
#[derive(Debug)]
pub(crate) struct Judgement<'a> {
    request: &'a ConnectionRequest,
    verdict: Verdict,
    expected: Expected,
    /// Whether IPv4 and IPv6 connections are left to the system's routes.
    is_left: [bool; 2],
}

/// Criteria that put a link behind others, the strongest first: its place in the user's order, its
/// rules, and whether it is to be avoided.
pub(crate) type Tier = (usize, u8, bool);

impl<'a> Judgement<'a> {
    pub(crate) fn new(
        request: &'a ConnectionRequest,
        rules: &RuleSet,
        demands: &Demands,
        tunnels: [Option<&Link>; 2],
    ) -> Self {
        let verdict = rules.judge(&request.facts());
        let key = Demands::key(request);
        let expected = Expected {
            protocol: request.protocol,
            demand: demands.expect(&key, verdict.class),
            key,
            site: Site::of(request),
        };
        let is_left = is_left(request, &verdict, tunnels);
        Self {
            request,
            verdict,
            expected,
            is_left,
        }
    }

    pub(crate) const fn request(&self) -> &ConnectionRequest {
        self.request
    }

    pub(crate) const fn verdict(&self) -> &Verdict {
        &self.verdict
    }

    pub(crate) const fn expected(&self) -> &Expected {
        &self.expected
    }

    pub(crate) const fn demand(&self) -> &Demand {
        &self.expected.demand
    }

    pub(crate) const fn is_left(&self) -> [bool; 2] {
        self.is_left
    }

    pub(crate) const fn site(&self) -> Option<&Site> {
        self.expected.site.as_ref()
    }

    /// True if any family of the connection is left to the system.
    pub(crate) fn is_left_anywhere(&self) -> bool {
        self.families().any(|(_, is_left)| is_left)
    }

    /// Returns the party that routes the connection instead, for any of its families.
    pub(crate) fn left_to(&self, [tunnel4, tunnel6]: [Option<&Link>; 2]) -> Option<LeftTo> {
        let (v6, _) = self.families().find(|(_, is_left)| *is_left)?;
        let tunnel = if v6 { tunnel6 } else { tunnel4 };
        Some(match tunnel {
            Some(tunnel) if self.request.port != DNS_PORT => LeftTo::Tunnel(tunnel.name.clone()),
            _ => LeftTo::Resolver,
        })
    }

    /// True if the connection may take the link, and the link leads there.
    pub(crate) fn is_open(&self, record: &LinkRecord, rules: &AllLinkRules) -> bool {
        let link = record.link();
        let mut families = self.families();
        let leads = families.any(|(v6, is_left)| !is_left && leads_to(link, v6));
        leads && self.is_allowed(link, rules)
    }

    /// True if rules allow the link to the connection, wherever it leads.
    pub(crate) fn is_allowed(&self, link: &Link, rules: &AllLinkRules) -> bool {
        let among = self.request.among.as_ref();
        let is_among = |among: &Vec<LinkIndex>| among.contains(&link.index);
        among.is_none_or(is_among)
            && self.verdict.links.allows(&link.name)
            && !rules.permission(link).is_forbidden()
    }

    /// True if the connection must keep off a link that a session may take. Sessions outlive the
    /// current links, so a metered link counts as soon as rules name it.
    pub(crate) fn keeps_off_some(&self, links: &Links, rules: &AllLinkRules) -> bool {
        let has_metered = rules.metered.iter().any(|name| links.is_wanted(name));
        let keeps_off_metered = has_metered && self.verdict.avoid.contains(&Avoid::Metered);
        keeps_off_metered || links.iter().any(|record| self.is_avoided(record, rules))
    }

    pub(crate) fn tier(&self, record: &LinkRecord, rules: &AllLinkRules) -> Tier {
        let name = &record.link().name;
        let place = match &self.verdict.links {
            LinkChoice::Order(names) => names.iter().position(|one| one == name).unwrap_or(0),
            _ => 0,
        };
        let permission = rules.permission(record.link());
        (place, permission.rank(), self.is_avoided(record, rules))
    }

    /// True if the connection takes the link only if there is no other.
    fn is_avoided(&self, record: &LinkRecord, rules: &AllLinkRules) -> bool {
        self.verdict.avoid.iter().any(|avoid| match avoid {
            Avoid::Metered => rules.is_metered(record.link()),
            Avoid::Calls => record.charges().has_calls(),
        })
    }

    /// True if the system's routes apply to the connection in this family of addresses.
    pub(crate) fn leaves_to_system(&self, v6: bool) -> bool {
        self.families().any(|family| family == (v6, true))
    }

    /// Returns the families of addresses of the connection: true for IPv6, and true if it is left
    /// to the system there.
    fn families(&self) -> impl Iterator<Item = (bool, bool)> + use<> {
        let only = self.request.remote.map(|remote| remote.is_ipv6());
        let all = [false, true].into_iter().zip(self.is_left);
        all.filter(move |(v6, _)| only.is_none_or(|only| only == *v6))
    }
}

/// Whether IPv4 and IPv6 connections are left to the system's routes: if these lead through a VPN
/// for all traffic, and for resolvers, unless links were named for the connection.
fn is_left(
    request: &ConnectionRequest,
    verdict: &Verdict,
    tunnels: [Option<&Link>; 2],
) -> [bool; 2] {
    // A provider's resolvers often answer only over its own link.
    if request.port == DNS_PORT && verdict.links == LinkChoice::Any {
        return [true, true];
    }
    let held = |tunnel: Option<&Link>| {
        tunnel.is_some_and(|tunnel| match &verdict.links {
            LinkChoice::Only(_) | LinkChoice::Order(_) => false,
            others => others.allows(&tunnel.name),
        })
    };
    tunnels.map(held)
}

const DNS_PORT: u16 = 53;
