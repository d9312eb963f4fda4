//! Changes of a TUN device by others while it is in use.

use std::time::Duration;

use futures_util::{FutureExt as _, Stream, StreamExt as _, TryStreamExt as _};
use rtnetlink::MulticastGroup;
use rtnetlink::packet_route::link::LinkFlags;
use tokio::time::sleep;

use super::TunError;
use hawser_link::links::ask_kernel;

/// Waits until the device `name` no longer is as [`set_up`](super::set_up) has left it, because it
/// was removed, renamed or set down. Its routes are gone then, and do not return by themselves.
///
/// Checks the device when the kernel reports a change of an interface, at most once a second.
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
            Err(error) => tracing::debug!(%error, name, "cannot follow changes of a TUN device"),
        }
        sleep(BETWEEN_LOOKS).await;
    }
}

/// Waits until the device is lost, and returns what happened to it; `None` if the kernel's reports
/// end.
async fn lost_by<T>(
    name: &str,
    changes: &mut (impl Stream<Item = T> + Unpin),
) -> Option<&'static str> {
    loop {
        // Checked before the first report: a change may have come before the subscription.
        match is_up(name).await {
            Ok(Some(true)) => {}
            Ok(Some(false)) => return Some("it was set down"),
            Ok(None) => return Some("it was removed or renamed"),
            Err(error) => {
                // The kernel did not answer in time; the next check decides.
                tracing::debug!(%error, name, "cannot read the state of a TUN device");
                sleep(BETWEEN_LOOKS).await;
                continue;
            }
        }
        sleep(BETWEEN_LOOKS).await;
        changes.next().await?;
        // This check covers other pending reports as well.
        while let Some(Some(_)) = changes.next().now_or_never() {}
    }
}

/// Returns whether a device is up; `None` if no device has this name.
async fn is_up(name: &str) -> Result<Option<bool>, hawser_link::links::LinkError> {
    ask_kernel(|handle| async move {
        let mut found = handle.link().get().match_name(name.to_owned()).execute();
        // The kernel reports a missing device as an error.
        let link = found.try_next().await.ok().flatten();
        Ok(link.map(|link| link.header.flags.contains(LinkFlags::Up)))
    })
    .await
}

const BETWEEN_LOOKS: Duration = Duration::from_secs(1);
