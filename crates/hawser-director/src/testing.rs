//! Helpers for the tests of several files.

mod rig;

use std::sync::Arc;
use std::time::Duration;

use hawser_policy::Protocol;
use hawser_sched::PortClass;
use hawser_sched::connection::Demand;
use hawser_types::{Link, LinkIndex};

pub(crate) use rig::{Rig, RigFlow};

use super::decision::{Candidate, LinkDecision, NO_STORY, Standing, SystemRoutes};
use super::expected::Expected;

/// Creates a link that leads everywhere; its index is the sum of its name's bytes.
pub(crate) fn link(name: &str) -> Arc<Link> {
    Arc::new(Link {
        addresses: vec!["192.0.2.1".parse().unwrap(), "2001:db8::2".parse().unwrap()],
        has_default_route_v4: true,
        has_default_route_v6: true,
        ..Link::new(index(name), name)
    })
}

pub(crate) fn index(name: &str) -> LinkIndex {
    LinkIndex::new(name.bytes().map(u32::from).sum())
}

pub(crate) fn candidate(name: &str, standing: Standing) -> Candidate {
    Candidate {
        link: link(name),
        patience: Duration::from_millis(100),
        standing,
    }
}

pub(crate) fn decision(candidates: Vec<Candidate>) -> LinkDecision {
    LinkDecision {
        candidates,
        trial: None,
        expected: Expected {
            protocol: Protocol::Tcp,
            key: (String::new(), PortClass::Web),
            demand: Demand::default(),
            site: None,
        },
        system: SystemRoutes {
            leads: [false; 2],
            is_open: true,
            is_left: [false; 2],
        },
        story: NO_STORY,
    }
}
