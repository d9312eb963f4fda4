//! How much went over each link.

use std::collections::BTreeMap;

use futures_util::TryStreamExt as _;
use hawser_types::ByteCount;
use rtnetlink::packet_route::link::{LinkAttribute, LinkMessage};
use tokio::time::timeout;

use super::LinkError;
use super::dump::PATIENCE;

/// Bytes sent and received by every link since it is there, by its index: link-layer headers, and
/// what others than this program move, included.
///
/// Source: `IFLA_STATS64`, as drivers count.
pub async fn read_counters() -> Result<BTreeMap<u32, [ByteCount; 2]>, LinkError> {
    let (connection, handle, _no_events) = rtnetlink::new_connection()?;
    let mut found = std::pin::pin!(handle.link().get().execute());
    let reading = async {
        let mut counters = BTreeMap::new();
        loop {
            match found.try_next().await {
                Ok(Some(message)) => counters.extend(counts(&message)),
                Ok(None) => return Ok(counters),
                Err(error) => {
                    return Err(LinkError::Dump {
                        what: "counters of links",
                        reason: error.to_string(),
                    });
                }
            }
        }
    };
    let reading = async {
        tokio::select! {
            read = reading => read,
            () = connection => Err(LinkError::Closed),
        }
    };
    match timeout(PATIENCE, reading).await {
        Ok(read) => read,
        Err(_) => Err(LinkError::TimedOut { after: PATIENCE }),
    }
}

fn counts(message: &LinkMessage) -> Option<(u32, [ByteCount; 2])> {
    message.attributes.iter().find_map(|attribute| {
        let LinkAttribute::Stats64(stats) = attribute else {
            return None;
        };
        let counts = [stats.tx_bytes, stats.rx_bytes].map(ByteCount::new);
        Some((message.header.index, counts))
    })
}
