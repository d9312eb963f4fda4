//! Following this machine's own addresses.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use futures_util::{FutureExt as _, StreamExt as _};
use rtnetlink::packet_core::{NetlinkMessage, NetlinkPayload};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::address::{AddressAttribute, AddressMessage};
use tokio::sync::watch;
use tokio::time::sleep;

use super::LinkError;
use super::monitor::{Events, Follow, Following, RESTART_PAUSE, subscribe};
use super::netlink::{dump, each};

/// The addresses of this machine, kept current for as long as this or a clone of it lives.
///
/// It has every address of every interface, whatever its scope or state, since the kernel delivers
/// packets to all of them here, and the subnet-router anycast address of every IPv6 network
/// (RFC 4291 §2.6.1). The default value knows no address and follows nothing.
#[derive(Clone, Debug, Default)]
pub struct OwnAddresses {
    followed: Option<Followed>,
}

#[derive(Clone, Debug)]
struct Followed {
    known: watch::Receiver<Arc<BTreeSet<IpAddr>>>,
    _following: Arc<Following>,
}

type Sender = watch::Sender<Arc<BTreeSet<IpAddr>>>;

impl OwnAddresses {
    /// Lists the addresses and follows them from then on.
    ///
    /// # Errors
    /// Fails if the kernel does not list them.
    pub async fn follow() -> Result<Self, LinkError> {
        // Here already, so that what cannot work is an error and not a line in the log.
        drop(subscribe()?);
        let (sender, known) = watch::channel(Arc::new(list_own().await?));
        let followed = Followed {
            known,
            _following: Arc::new(Following::start(OwnList(sender))),
        };
        Ok(Self {
            followed: Some(followed),
        })
    }

    /// Tells whether `address`, or the IPv4 address that it maps, is one of them now.
    pub fn contains(&self, address: IpAddr) -> bool {
        let followed = self.followed.as_ref();
        followed.is_some_and(|it| it.known.borrow().contains(&address.to_canonical()))
    }

    /// All of them, as they change; `None` for the default value. They are followed for as long as
    /// this or a clone of it lives.
    pub fn all(&self) -> Option<watch::Receiver<Arc<BTreeSet<IpAddr>>>> {
        Some(self.followed.as_ref()?.known.clone())
    }
}

struct OwnList(Sender);

impl Follow for OwnList {
    const WHAT: &'static str = "this machine's addresses";

    async fn follow(&self, events: Events<'_>) {
        loop {
            // Events that have come by now are covered by the list that is read next.
            while let Some(Some(_)) = events.next().now_or_never() {}
            // Once ahead of the first event: something may have changed while nobody listened.
            self.publish().await;
            loop {
                match events.next().await {
                    None => return,
                    Some((message, _)) if matters(&message) => break,
                    Some(_) => {}
                }
            }
        }
    }
}

impl OwnList {
    async fn publish(&self) {
        let listed = loop {
            match list_own().await {
                Ok(listed) => break listed,
                Err(error) => tracing::warn!(%error, "will try again"),
            }
            sleep(RESTART_PAUSE).await;
        };
        self.0.send_if_modified(|known| {
            let changed = **known != listed;
            if changed {
                tracing::debug!(addresses = ?listed, "this machine's addresses have changed");
                *known = Arc::new(listed);
            }
            changed
        });
    }
}

/// Whether the list may be another one after `message`.
fn matters(message: &NetlinkMessage<RouteNetlinkMessage>) -> bool {
    match &message.payload {
        NetlinkPayload::InnerMessage(inner) => matches!(
            inner,
            RouteNetlinkMessage::NewAddress(_)
                | RouteNetlinkMessage::DelAddress(_)
                | RouteNetlinkMessage::DelLink(_)
        ),
        // An overrun: the kernel had more events than the socket could hold.
        _ => true,
    }
}

async fn list_own() -> Result<BTreeSet<IpAddr>, LinkError> {
    dump(|handle| async move {
        let mut own = BTreeSet::new();
        let found = handle.address().get().execute();
        each("addresses", found, |message| {
            own.extend(delivered(&message))
        })
        .await?;
        Ok(own)
    })
    .await
}

/// The addresses of which the kernel takes packets to be for this machine because of `message`.
fn delivered(message: &AddressMessage) -> Vec<IpAddr> {
    let (mut own, mut shown) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            // On a point-to-point link the other attribute is the peer's.
            AddressAttribute::Local(address) => own = Some(*address),
            AddressAttribute::Address(address) => shown = Some(*address),
            _ => {}
        }
    }
    let Some(address) = own.or(shown) else {
        return Vec::new();
    };
    let anycast = match address {
        IpAddr::V6(address) => routers_anycast(address, message.header.prefix_len),
        IpAddr::V4(_) => None,
    };
    [Some(address), anycast].into_iter().flatten().collect()
}

/// The first address of a network, which stands for its routers; none in a network of two.
///
/// Source: RFC 4291 §2.6.1, RFC 6164 §5.1.
fn routers_anycast(address: Ipv6Addr, prefix_length: u8) -> Option<IpAddr> {
    if !(1..127).contains(&prefix_length) {
        return None;
    }
    let mask = u128::MAX << (128 - u32::from(prefix_length));
    Some(Ipv6Addr::from_bits(address.to_bits() & mask).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routers_of_a_network_answer_at_its_first_address() {
        let anycast = |address: &str, length| {
            let found = routers_anycast(address.parse().unwrap(), length);
            found.map(|it| it.to_string())
        };
        assert_eq!(anycast("2001:db8::7", 64).as_deref(), Some("2001:db8::"));
        assert_eq!(anycast("2001:db8:1::7", 127), None);
        assert_eq!(anycast("2001:db8::7", 128), None);
        assert_eq!(anycast("2001:db8::7", 0), None);
    }

    #[test]
    fn who_follows_nothing_has_no_address() {
        assert!(!OwnAddresses::default().contains("127.0.0.1".parse().unwrap()));
    }
}
