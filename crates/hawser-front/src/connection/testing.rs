//! Helpers for the tests of several files.

use std::sync::Arc;

use hawser_types::{Link, LinkIndex};

/// Returns a link that leads everywhere; its index is the sum of its name's bytes.
pub(crate) fn link(name: &str) -> Arc<Link> {
    Arc::new(Link {
        addresses: vec!["192.0.2.1".parse().unwrap(), "2001:db8::2".parse().unwrap()],
        has_default_route_v4: true,
        has_default_route_v6: true,
        ..Link::new(LinkIndex::new(name.bytes().map(u32::from).sum()), name)
    })
}
