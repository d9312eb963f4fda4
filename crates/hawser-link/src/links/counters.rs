//! Traffic counters of links.

use std::collections::BTreeMap;

use hawser_types::{ByteCount, LinkIndex};
use rtnetlink::packet_route::link::{LinkAttribute, LinkMessage};

use super::LinkError;
use super::netlink::{dump, each};

/// Returns the bytes sent and received by every link since the link exists, by its index. They
/// include link-layer headers and the traffic of other programs.
///
/// Source: `IFLA_STATS64`, as drivers count.
pub async fn read_counters() -> Result<BTreeMap<LinkIndex, [ByteCount; 2]>, LinkError> {
    dump(|handle| async move {
        let mut counters = BTreeMap::new();
        let found = handle.link().get().execute();
        each("counters of links", found, |message| {
            counters.extend(counts(&message));
        })
        .await?;
        Ok(counters)
    })
    .await
}

fn counts(message: &LinkMessage) -> Option<(LinkIndex, [ByteCount; 2])> {
    message.attributes.iter().find_map(|attribute| {
        let LinkAttribute::Stats64(stats) = attribute else {
            return None;
        };
        let counts = [stats.tx_bytes, stats.rx_bytes].map(ByteCount::new);
        Some((LinkIndex::new(message.header.index), counts))
    })
}
