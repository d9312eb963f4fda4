//! What others do to a TUN device while it is in use.

use std::time::Duration;

use futures_util::TryStreamExt as _;
use rtnetlink::packet_route::link::LinkFlags;
use tokio::time::sleep;

use super::TunError;
use crate::links::ask_kernel;

/// Waits until the device `name` is no more as [`set_up`](super::set_up) has left it, since it was
/// removed, renamed or set down. Its routes have gone then, and do not come back by themselves.
pub async fn until_lost(name: &str) -> TunError {
    loop {
        sleep(BETWEEN_LOOKS).await;
        let problem = match is_up(name).await {
            Ok(Some(true)) => continue,
            Ok(Some(false)) => "it was set down",
            Ok(None) => "it was removed or renamed",
            // The kernel has no time: the next look tells.
            Err(error) => {
                tracing::debug!(%error, name, "a TUN device cannot be looked at");
                continue;
            }
        };
        return TunError::Lost {
            name: name.to_owned(),
            problem,
        };
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
