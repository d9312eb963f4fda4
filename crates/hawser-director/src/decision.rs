use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hawser_sched::connection::Demand;
use hawser_types::Link;

use super::expected::Expected;
use super::request::ConnectionRequest;
use super::story::Story;

/// A connection to decide on, and what the caller knows of the way to it.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The connection.
    pub request: &'a ConnectionRequest,
    /// True if it leads to this machine, to a network on one of its links, or by a route that was
    /// made for it: no gateway leads there.
    pub is_near: bool,
    /// True if its addresses are known; a single one is in the request.
    pub is_resolved: bool,
}

/// The way of one connection.
#[derive(Clone, Debug)]
pub enum Decision {
    /// Over the gateway.
    Gateway(GatewayDecision),
    /// Over one of these links, or as the system's routes have it.
    Links(LinkDecision),
    /// Not over the gateway, as far as that can be said of a name. The caller is to look the name
    /// up and to ask again: rules may know its address, and no link was chosen yet.
    Unresolved,
}

/// A connection goes over the gateway.
#[derive(Clone, Debug)]
pub struct GatewayDecision {
    /// True if the caller is to wait for the gateway however long that takes: its failure is the
    /// connection's, and no link is tried.
    pub waits_for_gateway: bool,
    /// Head start of the gateway before a link is tried as well.
    pub patience: Duration,
    pub(crate) expected: Expected,
    /// The beginning of its story, which is told once the connection is made.
    pub(crate) story: Box<Story>,
}

/// The links that a connection may take, and what it is expected to need.
#[derive(Clone, Debug)]
pub struct LinkDecision {
    /// The links, in the order in which to try them. Suspect links come last.
    pub candidates: Vec<Candidate>,
    /// A suspect link that is due to be tried again, beside the others.
    pub trial: Option<Arc<Link>>,
    pub(crate) expected: Expected,
    pub(crate) system: SystemRoutes,
    /// The number of its story; [`NO_STORY`] where none is told.
    pub(crate) story: u64,
}

/// A link that a connection may take.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The link.
    pub link: Arc<Link>,
    /// How long to wait for an answer on it before another link is tried too.
    pub patience: Duration,
    /// Its place among the candidates.
    pub standing: Standing,
}

/// Groups of candidates, in the order in which they are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// As good as the first.
    Equal,
    /// Kept out while those before it have a chance: another is preferred, or it is kept in
    /// reserve.
    Reserve,
    /// It did not answer lately.
    Suspect,
}

/// What goes as the system's routes have it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SystemRoutes {
    /// True for IPv4 and for IPv6 if any link leads to such addresses, allowed or not.
    pub(crate) leads: [bool; 2],
    /// True if a connection that no candidate leads to may go as the system has it.
    pub(crate) is_open: bool,
    /// True for IPv4 and for IPv6 if connections are left to the system's routes, whatever links
    /// there are.
    pub(crate) is_left: [bool; 2],
}

/// What is left of the way of an attempt after links or rules have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outlook {
    /// It is as open as it was.
    Open,
    /// Its link is gone or leads there no more, or links lead where the system's routes did.
    Gone,
    /// Rules forbid it now.
    Forbidden,
}

/// The way to one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// By the candidates that lead there.
    Links,
    /// As the system's routes have it: no link is known that leads there, or it is left to the
    /// system.
    System,
    /// None: the links that lead there may not be used.
    Closed,
}

impl GatewayDecision {
    /// True for a call or the like, where people hear every delay.
    pub fn is_call(&self) -> bool {
        self.expected.is_call()
    }
}

impl LinkDecision {
    /// What the connection is expected to need.
    pub const fn demand(&self) -> Demand {
        self.expected.demand
    }

    /// Returns the way to `address`.
    pub fn route(&self, address: IpAddr) -> Route {
        let leads = self.candidates.iter().any(|it| it.leads_to(address));
        self.system.route(address.is_ipv6(), leads)
    }

    /// Returns the link called in question by a connection to `address`, and at most
    /// `MAX_COMPARED` other links to compare it with. `None` where there are no others, where the
    /// connection may not take them, or where the link is known to be suspect.
    pub fn compared(
        &self,
        link: hawser_types::LinkIndex,
        address: IpAddr,
    ) -> Option<(&Candidate, Vec<Arc<Link>>)> {
        if self.route(address) != Route::Links {
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
    /// Returns the way to addresses of a family to which candidates lead or not.
    pub(crate) fn route(&self, is_ipv6: bool, candidates_lead: bool) -> Route {
        let [v4, v6] = [0, 1].map(|family| (self.is_left[family], self.leads[family]));
        let (is_left, leads) = if is_ipv6 { v6 } else { v4 };
        if is_left {
            Route::System
        } else if candidates_lead {
            Route::Links
        } else if leads || !self.is_open {
            Route::Closed
        } else {
            Route::System
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

/// Numbers of stories begin with 1.
pub(crate) const NO_STORY: u64 = 0;
/// One that is answered is enough, but one that is asked may be dead as well.
const MAX_COMPARED: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{candidate, decision, index};

    /// The links that `a` is compared with.
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
