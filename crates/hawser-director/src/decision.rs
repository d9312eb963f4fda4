use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hawser_sched::connection::Demand;
use hawser_types::Link;

use super::expected::Expected;
use super::request::ConnectionRequest;
use super::story::Story;

/// A connection to decide on, and the caller's knowledge of its destination.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The connection.
    pub request: &'a ConnectionRequest,
    /// True if it leads to this machine, to a network on one of its links, or by a route of its
    /// own: no gateway leads there. `None` while the caller has not found out.
    pub is_near: Option<bool>,
    /// True if its addresses are known; a single one is in the request.
    pub is_resolved: bool,
    /// Sessions with the destination itself.
    pub ends: FarEnds,
}

/// What is known of sessions with a destination itself, in the order in which they are preferred.
///
/// Looking for one may begin a session or send a packet, so the caller looks only for what
/// [`Route::Unresolved`] names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FarEnds {
    /// Whether the host is in the book of names: its connections go over a session with it or fail.
    pub named: Known,
    /// Whether a voucher holds the destination: its connections go over a session with a vouched
    /// server or fail.
    pub vouched: Known,
    /// Whether a peer holds one of the destination's addresses: its connections go over a session
    /// with that peer, unless the peer itself or the user allows otherwise.
    pub held: Known,
    /// Whether a peer was found there, and a session with it runs or begins.
    pub peer: Known,
    /// Whether a server was discovered there.
    pub server: Known,
}

/// Whether there is something, as far as the caller has looked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// No.
    No,
    /// The caller has not looked.
    NotYet,
    /// Yes.
    Yes,
}

/// The decision on one connection.
#[derive(Clone, Debug)]
pub enum Route {
    /// Over the session with a host that is known by name.
    Named,
    /// Over a session with a server that the name's voucher lists.
    Vouched,
    /// Over the session with the destination's peer, which holds the address or was found there.
    Peer,
    /// Over the session with a server that was discovered at the destination.
    Discovered,
    /// Over the gateway.
    Gateway(GatewayDecision),
    /// Over one of these links, or by the system's routes.
    Links(LinkDecision),
    /// The decision needs more. The caller finds out what is missing, and asks again.
    Unresolved(Missing),
}

/// What the caller must find out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// [`FarEnds::named`].
    Named,
    /// [`FarEnds::vouched`].
    Vouched,
    /// [`FarEnds::held`].
    Held,
    /// [`FarEnds::peer`].
    Peer,
    /// [`FarEnds::server`].
    Server,
    /// [`Question::is_near`], since there is a gateway.
    Surroundings,
    /// The addresses of the name. The route is not over the gateway as far as the name alone tells,
    /// but rules may apply to its address, and no link was chosen yet.
    Addresses,
}

impl Known {
    fn route(self, missing: Missing, route: Route) -> Option<Route> {
        match self {
            Self::No => None,
            Self::NotYet => Some(Route::Unresolved(missing)),
            Self::Yes => Some(route),
        }
    }

    /// Returns the state before a look: there is nothing to look for, or no look was taken.
    pub const fn to_look_for(is_possible: bool) -> Self {
        if is_possible { Self::NotYet } else { Self::No }
    }
}

impl FarEnds {
    /// Nothing was found, or there is nothing to look for.
    pub const NONE: Self = Self {
        named: Known::No,
        vouched: Known::No,
        held: Known::No,
        peer: Known::No,
        server: Known::No,
    };

    /// Takes in what a look for `missing` has found.
    pub fn note(&mut self, missing: Missing, is_there: bool) {
        let known = match missing {
            Missing::Named => &mut self.named,
            Missing::Vouched => &mut self.vouched,
            Missing::Held => &mut self.held,
            Missing::Peer => &mut self.peer,
            Missing::Server => &mut self.server,
            Missing::Surroundings | Missing::Addresses => return,
        };
        *known = if is_there { Known::Yes } else { Known::No };
    }

    /// Returns the first session that there is or may be.
    ///
    /// `may_be_other`: whether sessions with others than named hosts are allowed.
    pub(crate) fn route(&self, may_be_other: impl FnOnce() -> bool) -> Option<Route> {
        if let Some(route) = self.named.route(Missing::Named, Route::Named) {
            return Some(route);
        }
        let others = [
            (self.vouched, Missing::Vouched, Route::Vouched),
            (self.held, Missing::Held, Route::Peer),
            (self.peer, Missing::Peer, Route::Peer),
            (self.server, Missing::Server, Route::Discovered),
        ];
        let mut others = others.into_iter();
        let other = others.find_map(|(known, missing, route)| known.route(missing, route))?;
        may_be_other().then_some(other)
    }
}

/// Decision for the gateway.
#[derive(Clone, Debug)]
pub struct GatewayDecision {
    /// True if the caller must wait for the gateway without a limit: if the gateway fails, the
    /// connection fails, and no link is tried.
    pub waits_for_gateway: bool,
    /// Head start of the gateway before a link is tried as well.
    pub patience: Duration,
    pub(crate) expected: Expected,
    /// Start of its story, which is recorded once the connection is opened.
    pub(crate) story: Box<Story>,
}

/// Links that a connection may take, and its expected needs.
#[derive(Clone, Debug)]
pub struct LinkDecision {
    /// The links, in the order in which to try them. Suspect links come last.
    pub candidates: Vec<Candidate>,
    /// A suspect link that is due for a trial, in parallel to the others.
    pub trial: Option<Arc<Link>>,
    pub(crate) expected: Expected,
    pub(crate) system: SystemRoutes,
    /// Number of its story; [`NO_STORY`] if none is recorded.
    pub(crate) story: u64,
}

/// A link that a connection may take.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The link.
    pub link: Arc<Link>,
    /// Time to wait for an answer on it before another link is tried too.
    pub patience: Duration,
    /// Its group among the candidates.
    pub standing: Standing,
}

/// Groups of candidates, in the order in which they are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// As good as the first candidate.
    Equal,
    /// Not used while earlier candidates have a chance: another is preferred, or this one is kept
    /// in reserve.
    Reserve,
    /// It did not answer lately.
    Suspect,
}

/// Connections that the system's routes decide.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SystemRoutes {
    /// Whether any link leads to IPv4 and to IPv6 addresses, allowed or not.
    pub(crate) leads: [bool; 2],
    /// True if a connection without a suitable candidate may use the system's routes.
    pub(crate) is_open: bool,
    /// Whether IPv4 and IPv6 connections are left to the system's routes, whatever links exist.
    pub(crate) is_left: [bool; 2],
}

/// Validity of an attempt's route after links or rules have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outlook {
    /// The route is as valid as before.
    Open,
    /// Its link is gone or no longer leads there, or links replaced the system's routes.
    Gone,
    /// Rules forbid it now.
    Forbidden,
}

/// Route to one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressRoute {
    /// Over the candidates that lead there.
    Links,
    /// By the system's routes: no known link leads there, or the address is left to the system.
    System,
    /// No route: the links that lead there are forbidden.
    Closed,
}

impl GatewayDecision {
    /// True for a real-time connection such as a call, in which people notice every delay.
    pub fn is_call(&self) -> bool {
        self.expected.is_call()
    }
}

impl LinkDecision {
    /// Returns the expected needs of the connection.
    pub const fn demand(&self) -> Demand {
        self.expected.demand
    }

    /// Returns the route to `address`.
    pub fn route(&self, address: IpAddr) -> AddressRoute {
        let leads = self.candidates.iter().any(|it| it.leads_to(address));
        self.system.route(address.is_ipv6(), leads)
    }

    /// Returns the link to test after a connection to `address`, and at most `MAX_COMPARED` other
    /// links to compare it with. `None` if there are no others, if the connection may not take
    /// them, or if the link is already suspect.
    pub fn compared(
        &self,
        link: hawser_types::LinkIndex,
        address: IpAddr,
    ) -> Option<(&Candidate, Vec<Arc<Link>>)> {
        if self.route(address) != AddressRoute::Links {
            return None;
        }
        let is_it = |candidate: &&Candidate| candidate.link.index == link;
        let it = self.candidates.iter().find(is_it)?;
        let others = self.candidates.iter();
        let others = others.filter(|other| !is_it(other) && other.leads_to(address));
        let others = others.take(MAX_COMPARED).map(|it| Arc::clone(&it.link));
        let others: Vec<Arc<Link>> = others.collect();
        (it.standing != Standing::Suspect && !others.is_empty()).then_some((it, others))
    }
}

impl SystemRoutes {
    /// Returns the route to addresses of a family.
    pub(crate) fn route(&self, is_ipv6: bool, candidates_lead: bool) -> AddressRoute {
        let [v4, v6] = [0, 1].map(|family| (self.is_left[family], self.leads[family]));
        let (is_left, leads) = if is_ipv6 { v6 } else { v4 };
        if is_left {
            AddressRoute::System
        } else if candidates_lead {
            AddressRoute::Links
        } else if leads || !self.is_open {
            AddressRoute::Closed
        } else {
            AddressRoute::System
        }
    }
}

impl Candidate {
    /// True if the link leads to addresses of this family.
    pub fn leads_to(&self, address: IpAddr) -> bool {
        leads_to(&self.link, address.is_ipv6())
    }
}

/// True if a link leads to IPv6 or else IPv4 addresses outside its own networks.
pub fn leads_to(link: &Link, is_ipv6: bool) -> bool {
    let has_route = if is_ipv6 {
        link.has_default_route_v6
    } else {
        link.has_default_route_v4
    };
    has_route && link.addresses.iter().any(|own| own.is_ipv6() == is_ipv6)
}

/// Story number for "none"; numbers start with 1.
pub(crate) const NO_STORY: u64 = 0;
/// One answer is enough, but a single link could be dead as well.
const MAX_COMPARED: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{candidate, decision, index};

    /// Returns the links that `a` is compared with.
    fn compared(candidates: &[(&str, Standing)]) -> Option<Vec<String>> {
        let candidates = candidates.iter().map(|(name, it)| candidate(name, *it));
        let decision = decision(candidates.collect());
        let address = "198.51.100.1".parse().unwrap();
        let (it, others) = decision.compared(index("a"), address)?;
        assert_eq!(it.link.name, "a");
        Some(others.iter().map(|link| link.name.clone()).collect())
    }

    #[test]
    fn a_link_is_compared_with_two_others_that_the_connection_may_take() {
        let all = ["b", "a", "c", "d"].map(|name| (name, Standing::Equal));
        assert_eq!(compared(&all).unwrap(), ["b", "c"]);
        assert_eq!(compared(&[("a", Standing::Equal)]), None);
        assert_eq!(compared(&[("b", Standing::Equal)]), None);
        assert_eq!(compared(&[]), None);
        let suspect = [("b", Standing::Equal), ("a", Standing::Suspect)];
        assert_eq!(compared(&suspect), None, "that is known already");
    }
}
