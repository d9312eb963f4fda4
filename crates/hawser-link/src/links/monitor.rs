//! Following changes of links.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt as _, Stream, StreamExt as _};
use rtnetlink::MulticastGroup;
use rtnetlink::packet_core::{NetlinkMessage, NetlinkPayload};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::sys::SocketAddr;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::netlink::{is_default_route, is_up};
use super::{Link, LinkError, list_links};

/// The list of links, kept current for as long as this lives.
///
/// Events only say *that* something changed; the whole list is then read again, so that an event
/// that was lost or misread never leaves a wrong list behind.
#[derive(Debug)]
pub struct LinkMonitor {
    _following: Following,
}

/// A list that is read again when the kernel reports that it may have changed.
pub(super) trait Follow: Send + Sync + 'static {
    /// Name of the list, for the log.
    const WHAT: &'static str;

    /// Keeps the list current; ends when the stream of events ends.
    fn follow(&self, events: Events<'_>) -> impl Future<Output = ()> + Send;
}

pub(super) type Events<'a> =
    &'a mut (dyn Stream<Item = (NetlinkMessage<RouteNetlinkMessage>, SocketAddr)> + Send + Unpin);
type Sender = watch::Sender<Arc<Vec<Link>>>;

impl LinkMonitor {
    /// Lists the links and follows them. The receiver has the first list at once, and changes only
    /// when a link, an address, a default route or the preferred default route does.
    pub async fn start() -> Result<(Self, watch::Receiver<Arc<Vec<Link>>>), LinkError> {
        Self::start_without(Vec::new()).await
    }

    /// As [`Self::start`], but leaves out the interfaces of these names.
    pub async fn start_without(
        names: Vec<String>,
    ) -> Result<(Self, watch::Receiver<Arc<Vec<Link>>>), LinkError> {
        let (sender, receiver) = watch::channel(Arc::new(Vec::new()));
        let list = LinkList {
            sender,
            without: names,
        };
        // Subscribes once here, so that a permanent failure is an error and not a line in the log.
        drop(subscribe()?);
        list.sender.send_replace(Arc::new(list.read().await?));
        let following = Following::start(list);
        let monitor = Self {
            _following: following,
        };
        Ok((monitor, receiver))
    }
}

/// The task that follows changes, for as long as this lives.
#[derive(Debug)]
pub(super) struct Following {
    task: JoinHandle<()>,
}

impl Following {
    pub(super) fn start<F: Follow>(follower: F) -> Self {
        let task = tokio::spawn(keep_following(follower));
        Self { task }
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn keep_following<F: Follow>(follower: F) {
    loop {
        match subscribe() {
            Ok((connection, _handle, mut events)) => tokio::select! {
                () = connection => tracing::warn!("netlink socket closed, reopening it"),
                () = follower.follow(&mut events) => {}
            },
            Err(error) => tracing::warn!(%error, "cannot follow changes of {}", F::WHAT),
        }
        sleep(RESTART_PAUSE).await;
    }
}

struct LinkList {
    sender: Sender,
    /// Names of interfaces that are left out.
    without: Vec<String>,
}

impl Follow for LinkList {
    const WHAT: &'static str = "links";

    async fn follow(&self, events: Events<'_>) {
        loop {
            // Read before the first event: links may have changed before the subscription.
            self.publish().await;
            let down = loop {
                match events.next().await {
                    None => return,
                    Some((message, _)) if matters(&message) => break is_down(&message),
                    Some(_) => {}
                }
            };
            // At once: data in flight on a link without a carrier needs another link now.
            if down {
                self.publish().await;
            }
            // A link that comes up causes a dozen events within a moment.
            sleep(DEBOUNCE).await;
            while let Some(Some(_)) = events.next().now_or_never() {}
        }
    }
}

impl LinkList {
    async fn publish(&self) {
        let listed = loop {
            match self.read().await {
                Ok(listed) => break listed,
                Err(error) => tracing::warn!(%error, "cannot list links, retrying"),
            }
            sleep(RESTART_PAUSE).await;
        };
        self.sender.send_if_modified(|known| {
            let changed = **known != listed;
            if changed {
                tracing::debug!(links = ?listed, "list of links changed");
                *known = Arc::new(listed);
            }
            changed
        });
    }

    async fn read(&self) -> Result<Vec<Link>, LinkError> {
        let mut links = list_links().await?;
        links.retain(|link| !self.without.contains(&link.name));
        Ok(links)
    }
}

/// Returns whether the list may differ after `message`. Non-default routes do not count: on a
/// router they change all the time.
fn matters(message: &NetlinkMessage<RouteNetlinkMessage>) -> bool {
    match &message.payload {
        NetlinkPayload::InnerMessage(
            RouteNetlinkMessage::NewRoute(route) | RouteNetlinkMessage::DelRoute(route),
        ) => is_default_route(route),
        // Includes an overrun: the kernel had more events than the socket could hold.
        _ => true,
    }
}

/// Returns whether a link is gone or no longer carries packets.
fn is_down(message: &NetlinkMessage<RouteNetlinkMessage>) -> bool {
    match &message.payload {
        NetlinkPayload::InnerMessage(RouteNetlinkMessage::DelLink(_)) => true,
        NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => {
            !is_up(link.header.flags)
        }
        _ => false,
    }
}

#[allow(clippy::type_complexity, reason = "it is rtnetlink's own")]
pub(super) fn subscribe() -> Result<
    (
        impl Future<Output = ()> + Send,
        rtnetlink::Handle,
        impl Stream<Item = (NetlinkMessage<RouteNetlinkMessage>, SocketAddr)> + Send + Unpin,
    ),
    LinkError,
> {
    Ok(rtnetlink::new_multicast_connection(&[
        MulticastGroup::Link,
        MulticastGroup::Ipv4Ifaddr,
        MulticastGroup::Ipv6Ifaddr,
        MulticastGroup::Ipv4Route,
        MulticastGroup::Ipv6Route,
        MulticastGroup::Ipv4Rule,
        MulticastGroup::Ipv6Rule,
    ])?)
}

/// Time to collect events before the list is read again.
pub(super) const DEBOUNCE: Duration = Duration::from_millis(20);
/// Delay before retrying after an unexpected failure.
pub(super) const RESTART_PAUSE: Duration = Duration::from_secs(1);
