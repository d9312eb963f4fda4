//! What several files' tests need.

use std::sync::Arc;

use hawser_types::{Link, LinkIndex, LinkKind};

/// A link that leads everywhere; its index is the sum of its name's bytes.
pub(crate) fn link(name: &str) -> Arc<Link> {
    Arc::new(Link {
        index: LinkIndex::new(name.bytes().map(u32::from).sum()),
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
