//! Addresses that names held to their vouchers lead to, for programs that connect to addresses.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::watched::Watched;

/// Where names lead to, as programs or this host were told. Such an address is the name's for as
/// long as a program may remember it.
///
/// An address that nobody need remember any more makes room, and no other one: whoever makes up
/// answers could otherwise have the true addresses forgotten, which programs know.
#[derive(Debug, Default)]
pub(super) struct Led {
    known: Mutex<BTreeMap<IpAddr, Vec<Told>>>,
    /// Grows with each address that is new, and starts at 0.
    version: watch::Sender<u64>,
    /// The version of which the kernel's program turns connections to this process; `None` where
    /// there is no such program.
    turned: watch::Sender<Option<u64>>,
}

/// An address was told of a name.
#[derive(Debug)]
struct Told {
    of: Arc<Watched>,
    at: Instant,
}

/// Addresses more than there is room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoRoom;

impl Led {
    /// A name leads to these addresses. Returns the version that has them.
    pub(super) fn note(&self, watched: &Arc<Watched>, addresses: &[IpAddr]) -> Result<u64, NoRoom> {
        let (mut known, at) = (self.lock(), Instant::now());
        let mut has_room = true;
        for address in addresses.iter().map(IpAddr::to_canonical) {
            if known.len() >= MAX_ADDRESSES && !known.contains_key(&address) {
                known.retain(|_, names| names.iter().any(|it| !it.is_over(at)));
                if known.len() >= MAX_ADDRESSES {
                    has_room = false;
                    continue;
                }
            }
            let names = known.entry(address).or_default();
            names.retain(|it| !it.is_over(at));
            let before = names.len();
            names.retain(|it| !Arc::ptr_eq(&it.of, watched));
            if names.len() == before {
                self.version.send_modify(|version| *version += 1);
            }
            let of = Arc::clone(watched);
            names.insert(0, Told { of, at });
        }
        has_room.then(|| *self.version.borrow()).ok_or(NoRoom)
    }

    /// The names that lead to an address, the one that was told last first.
    pub(super) fn names_of(&self, address: IpAddr) -> Vec<Arc<Watched>> {
        let (known, now) = (self.lock(), Instant::now());
        let names = known.get(&address.to_canonical()).into_iter().flatten();
        let names = names.filter(|it| !it.is_over(now));
        names.map(|it| Arc::clone(&it.of)).collect()
    }

    /// The version, and all addresses with their names.
    pub(super) fn list(&self) -> (u64, Vec<(IpAddr, Arc<Watched>)>) {
        let (known, now) = (self.lock(), Instant::now());
        let all = known.iter().flat_map(|(address, names)| {
            let names = names.iter().filter(|it| !it.is_over(now));
            names.map(|it| (*address, Arc::clone(&it.of)))
        });
        let all = all.collect();
        (*self.version.borrow(), all)
    }

    /// The version, as it grows.
    pub(super) fn versions(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// From now on connections to all addresses of a version come to this process.
    pub(super) fn note_turned(&self, version: u64) {
        self.turned.send_replace(Some(version));
    }

    /// Waits until that is so for a version, at most for a while; says whether it is. Where no
    /// program in the kernel turns connections, there is nothing to wait for.
    pub(super) async fn is_turned(&self, version: u64) -> bool {
        let mut turned = self.turned.subscribe();
        let is_turned = turned.wait_for(|turned| turned.is_none_or(|it| it >= version));
        timeout(PATIENCE, is_turned)
            .await
            .is_ok_and(|it| it.is_ok())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<IpAddr, Vec<Told>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Told {
    fn is_over(&self, now: Instant) -> bool {
        now.duration_since(self.at) > REMEMBERED_FOR
    }
}

/// Few answers may be remembered for longer, and few programs do.
const REMEMBERED_FOR: Duration = Duration::from_secs(86_400);
/// Of all names; the kernel's table has several ports for each of them.
pub(super) const MAX_ADDRESSES: usize = 256;
/// The kernel's table is brought up to date at once, on a machine that is not too busy. Programs
/// wait for five seconds.
const PATIENCE: Duration = Duration::from_secs(4);

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn watched(name: &str) -> Arc<Watched> {
        Arc::new(Watched::new(name.parse().unwrap()))
    }

    fn ip(n: u32) -> IpAddr {
        Ipv4Addr::from(n).into()
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_is_the_names_for_a_day_and_is_turned_before_it_is_told() {
        let (led, name) = (Led::default(), watched("example.org"));
        let first = led.note(&name, &[ip(1)]).unwrap();
        assert!(led.is_turned(first).await, "nobody turns any");
        led.note_turned(first);
        let again = led.note(&name, &[ip(1)]);
        assert_eq!(again, Ok(first), "it is known already");
        let next = led.note(&name, &["::ffff:0.0.0.2".parse().unwrap()]);
        let next = next.unwrap();
        assert!(!led.is_turned(next).await, "nobody has turned that one");
        let (version, list) = led.list();
        assert_eq!((version, list.len()), (next, 2));
        led.note_turned(version);
        assert!(led.is_turned(next).await);
        assert_eq!(led.names_of(ip(2)).len(), 1);
        tokio::time::advance(REMEMBERED_FOR + Duration::from_secs(1)).await;
        assert!(led.names_of(ip(1)).is_empty() && led.list().1.is_empty());
        assert!(led.note(&name, &[ip(1)]).unwrap() > next);
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_may_have_several_names() {
        let led = Led::default();
        let names = ["one.example", "two.example"].map(watched);
        for name in &names {
            led.note(name, &[ip(1)]).unwrap();
        }
        let found = led.names_of(ip(1));
        assert!(Arc::ptr_eq(&found[0], &names[1]) && Arc::ptr_eq(&found[1], &names[0]));
        assert_eq!(led.list().1.len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn addresses_without_end_take_no_more_room_and_have_no_other_forgotten() {
        let (led, name) = (Led::default(), watched("example.org"));
        let most = MAX_ADDRESSES as u32;
        for n in 0..most {
            led.note(&name, &[ip(n)]).unwrap();
        }
        assert_eq!(led.note(&name, &[ip(0), ip(most)]), Err(NoRoom));
        assert!(led.names_of(ip(most)).is_empty());
        assert_eq!(led.names_of(ip(0)).len(), 1);
        tokio::time::advance(REMEMBERED_FOR + Duration::from_secs(1)).await;
        led.note(&name, &[ip(most)]).unwrap();
        assert_eq!(led.list().1.len(), 1);
    }
}
