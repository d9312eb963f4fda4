//! What others do to a TUN device while it is in use.

use std::time::Duration;

use futures_util::{FutureExt as _, Stream, StreamExt as _, TryStreamExt as _};
use rtnetlink::MulticastGroup;
use rtnetlink::packet_route::link::LinkFlags;
use tokio::time::sleep;

use super::TunError;
use crate::links::ask_kernel;

/// Waits until the device `name` is no more as [`set_up`](super::set_up) has left it, since it was
/// removed, renamed or set down. Its routes have gone then, and do not come back by themselves.
///
/// It looks when the kernel tells that an interface has changed, once a second at most.
pub async fn until_lost(name: &str) -> TunError {
    loop {
        match rtnetlink::new_multicast_connection(&[MulticastGroup::Link]) {
            Ok((connection, _handle, mut changes)) => tokio::select! {
                () = connection => {}
                lost = lost_by(name, &mut changes) => if let Some(problem) = lost {
                    return TunError::Lost {
                        name: name.to_owned(),
                        problem,
                    };
                },
            },
            Err(error) => tracing::debug!(%error, name, "a TUN device cannot be followed"),
        }
        sleep(BETWEEN_LOOKS).await;
    }
}

/// Waits until the device is lost, and gives what has become of it; none if the kernel tells of no
/// more changes.
async fn lost_by<T>(
    name: &str,
    changes: &mut (impl Stream<Item = T> + Unpin),
) -> Option<&'static str> {
    loop {
        // Once ahead of the first change: it may have come before this listened.
        match is_up(name).await {
            Ok(Some(true)) => {}
            Ok(Some(false)) => return Some("it was set down"),
            Ok(None) => return Some("it was removed or renamed"),
            Err(error) => {
                // The kernel has no time: the next look tells.
                tracing::debug!(%error, name, "a TUN device cannot be looked at");
                sleep(BETWEEN_LOOKS).await;
                continue;
            }
        }
        sleep(BETWEEN_LOOKS).await;
        changes.next().await?;
        // Others that wait are answered by the same look.
        while let Some(Some(_)) = changes.next().now_or_never() {}
    }
}

/// Whether a device is up; `None`: no device has this name.
async fn is_up(name: &str) -> Result<Option<bool>, crate::links::LinkError> {
    ask_kernel(|handle| async move {
        let mut found = handle.link().get().match_name(name.to_owned()).execute();
        // That there is none is an error of the kernel's.
        let link = found.try_next().await.ok().flatten();
        Ok(link.map(|link| link.header.flags.contains(LinkFlags::Up)))
    })
    .await
}

const BETWEEN_LOOKS: Duration = Duration::from_secs(1);
