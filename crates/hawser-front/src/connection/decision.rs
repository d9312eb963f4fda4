use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hawser_net::links::Link;
use hawser_path::DemandKey;
use hawser_policy::Mode;
use hawser_sched::connection::{Demand, Reason};

use super::sites::Site;

/// Where a connection may go, and what it is expected to need.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The links, in the order in which to try them. Links that are suspect come last.
    pub candidates: Vec<Candidate>,
    /// A suspect link that is due to be tried again, beside the others.
    pub trial: Option<Arc<Link>>,
    /// What the connection is expected to need.
    pub demand: Demand,
    /// Whether the rules want it bonded.
    pub mode: Mode,
    /// Why the first candidate is the first; `None` when there was nothing to choose.
    pub reason: Option<Reason>,
    /// Whether there are links that lead to IPv4 and to IPv6 addresses at all, allowed or not.
    pub(super) leads: [bool; 2],
    /// Whether a connection that none of the candidates leads to may go as the system has it.
    pub(super) is_open: bool,
    /// Whether connections to IPv4 and to IPv6 addresses are left as the system's routes have them,
    /// whatever links there are.
    pub(super) is_left: [bool; 2],
    pub(super) key: DemandKey,
    /// Where it leads; `None` where that does not matter.
    pub(super) site: Option<Site>,
    /// The number of its story.
    pub(super) story: u64,
}

/// A link that a connection may take.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The link.
    pub link: Arc<Link>,
    /// How long to wait for an answer on it before another link is tried too.
    pub patience: Duration,
    /// How long it waits for those before it.
    pub(super) standing: Standing,
}

/// In which order links are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    /// As good as the first.
    Equal,
    /// To be kept out while those before it have a chance: another is preferred, or it is kept in
    /// reserve.
    Reserve,
    /// It did not answer lately.
    Suspect,
}

/// How to reach an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// By links.
    Links,
    /// As the system's routes have it: no link is known that leads there, or it is left to the
    /// system.
    System,
    /// Not at all: the links that lead there may not be used.
    Closed,
}

impl Decision {
    /// How to reach `address`.
    pub(super) fn way(&self, address: IpAddr) -> Way {
        let family = usize::from(address.is_ipv6());
        let is = |families: &[bool; 2]| families.get(family).is_some_and(|is| *is);
        let leads = is(&self.leads);
        if is(&self.is_left) {
            Way::System
        } else if self.candidates.iter().any(|it| it.leads_to(address)) {
            Way::Links
        } else if leads || !self.is_open {
            Way::Closed
        } else {
            Way::System
        }
    }
}

impl Candidate {
    /// Whether the link leads to addresses of this family.
    pub fn leads_to(&self, address: IpAddr) -> bool {
        leads_to(&self.link, address.is_ipv6())
    }
}

/// Whether a link leads to IPv6 or else IPv4 addresses out there.
pub(super) fn leads_to(link: &Link, is_ipv6: bool) -> bool {
    let has_route = match is_ipv6 {
        true => link.has_default_route_v6,
        false => link.has_default_route_v4,
    };
    has_route && link.addresses.iter().any(|own| own.is_ipv6() == is_ipv6)
}

#[cfg(test)]
pub(super) mod tests {
    use hawser_net::links::LinkKind;
    use hawser_path::PortClass;

    use super::*;

    /// A link that leads everywhere; its index is the sum of its name's bytes.
    pub(in super::super) fn link(name: &str) -> Arc<Link> {
        Arc::new(Link {
            index: name.bytes().map(u32::from).sum(),
            name: name.to_owned(),
            kind: LinkKind::Hardware,
            addresses: vec!["192.0.2.1".parse().unwrap(), "2001:db8::2".parse().unwrap()],
            enabled: true,
            up: true,
            has_default_route_v4: true,
            has_default_route_v6: true,
            takes_ordinary_v4: false,
            takes_ordinary_v6: false,
            loopback: false,
        })
    }

    pub(in super::super) fn candidate(name: &str, standing: Standing) -> Candidate {
        Candidate {
            link: link(name),
            patience: Duration::from_millis(100),
            standing,
        }
    }

    pub(in super::super) fn decision(candidates: Vec<Candidate>) -> Decision {
        Decision {
            candidates,
            trial: None,
            demand: Demand::default(),
            mode: Mode::Auto,
            reason: None,
            leads: [false, false],
            is_open: true,
            is_left: [false, false],
            key: (String::new(), PortClass::Web),
            site: None,
            story: 0,
        }
    }
}
