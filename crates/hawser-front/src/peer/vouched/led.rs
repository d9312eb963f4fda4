//! Addresses that held names lead to, for applications that connect to addresses.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::watched::Watched;
use crate::this_machine::ThisMachine;

/// Addresses of names, as applications or this host were told. An address counts as the name's for
/// as long as an application may remember it.
///
/// Answers of name servers prove nothing, so an attacker can enter any address here:
///
/// - Addresses of this machine, its links and its name servers are refused: otherwise a forged
///   answer could cut this machine off from them.
/// - Each name has its own share of the table, so that it can't evict the addresses of another
///   name.
/// - An address at which no server has proved a key of the name may be evicted after an hour, the
///   oldest first, and any other one after a day. So forged addresses do not evict true ones that
///   applications know, and do not fill the table for long.
#[derive(Debug)]
pub(super) struct Led {
    known: Mutex<Known>,
    machine: ThisMachine,
    name_servers: Mutex<BTreeSet<IpAddr>>,
    /// Most addresses of one name.
    share: usize,
    /// Grows with each new address, and starts at 0.
    version: watch::Sender<u64>,
    /// The version up to which the kernel's program redirects connections to this process; `None`
    /// without a program in the kernel.
    turned: watch::Sender<Option<u64>>,
}

type Known = BTreeMap<IpAddr, Vec<Told>>;

/// A name that was resolved to an address.
#[derive(Debug)]
struct Told {
    of: Arc<Watched>,
    at: Instant,
    /// A server at the address has proved a key of the name.
    is_proved: bool,
}

/// Why connections to an address are not held to the voucher of a name that leads there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotHeld {
    #[error("the name leads to more addresses than the table has room for")]
    NoRoom,
    #[error("{0} is an address of this machine, of its links or of its name servers")]
    Never(IpAddr),
}

impl Led {
    /// Creates an empty table for this number of names. Addresses of `machine` are never held.
    pub(super) fn new(names: usize, machine: ThisMachine) -> Self {
        Self {
            known: Mutex::default(),
            machine,
            name_servers: Mutex::default(),
            share: (MAX_ADDRESSES / names.max(1)).max(1),
            version: watch::Sender::default(),
            turned: watch::Sender::default(),
        }
    }

    /// Sets the addresses of this machine's name servers.
    pub(super) fn set_name_servers(&self, servers: BTreeSet<IpAddr>) {
        *self.name_servers.lock() = servers;
    }

    /// Records that a name leads to these addresses. Returns the version that contains all of them;
    /// an error if some are not held.
    pub(super) fn note(
        &self,
        watched: &Arc<Watched>,
        addresses: &[IpAddr],
    ) -> Result<u64, NotHeld> {
        let (mut known, at) = (self.known.lock(), Instant::now());
        let mut outcome = Ok(());
        for address in addresses.iter().map(IpAddr::to_canonical) {
            if self.is_never(address) {
                outcome = Err(NotHeld::Never(address));
                continue;
            }
            let told = || known.get(&address).into_iter().flatten();
            let before = told().find(|it| it.is_of(watched) && !it.is_over(at));
            let is_proved = before.is_some_and(|it| it.is_proved);
            if before.is_none() {
                if !self.make_room(&mut known, address, watched, at) {
                    outcome = Err(NotHeld::NoRoom);
                    continue;
                }
                self.version.send_modify(|version| *version += 1);
            }
            let names = known.entry(address).or_default();
            names.retain(|it| !it.is_of(watched));
            let of = Arc::clone(watched);
            names.insert(0, Told { of, at, is_proved });
        }
        outcome.map(|()| *self.version.borrow())
    }

    /// Records that a server at this address has proved a key of the name.
    pub(super) fn note_proved(&self, watched: &Arc<Watched>, address: IpAddr) {
        let mut known = self.known.lock();
        let told = known.get_mut(&address.to_canonical()).into_iter().flatten();
        for told in told.filter(|it| it.is_of(watched)) {
            told.is_proved = true;
        }
    }

    /// Returns the names that lead to an address, the most recently told first.
    pub(super) fn names_of(&self, address: IpAddr) -> Vec<Arc<Watched>> {
        let (known, now) = (self.known.lock(), Instant::now());
        let address = address.to_canonical();
        let names = known.get(&address).filter(|_| !self.is_never(address));
        let names = names.into_iter().flatten().filter(|it| !it.is_over(now));
        names.map(|it| Arc::clone(&it.of)).collect()
    }

    /// Returns the version, and all addresses with their names.
    pub(super) fn list(&self) -> (u64, Vec<(IpAddr, Arc<Watched>)>) {
        let (known, now) = (self.known.lock(), Instant::now());
        // An address may have become one of this machine's since.
        let held = known
            .iter()
            .filter(|(address, _)| !self.is_never(**address));
        let all = held.flat_map(|(address, names)| {
            let names = names.iter().filter(|it| !it.is_over(now));
            names.map(|it| (*address, Arc::clone(&it.of)))
        });
        let all = all.collect();
        (*self.version.borrow(), all)
    }

    fn is_never(&self, address: IpAddr) -> bool {
        self.machine.has(address) || self.name_servers.lock().contains(&address)
    }

    /// Makes room for one more address of a name; returns whether there is room.
    fn make_room(
        &self,
        known: &mut Known,
        address: IpAddr,
        watched: &Arc<Watched>,
        now: Instant,
    ) -> bool {
        known.retain(|_, names| {
            names.retain(|it| !it.is_over(now));
            !names.is_empty()
        });
        let has_room = |known: &Known| {
            let all = known.values().flatten();
            let is_there = known.contains_key(&address);
            all.filter(|it| it.is_of(watched)).count() < self.share
                && (is_there || known.len() < MAX_ADDRESSES)
        };
        if has_room(known) {
            return true;
        }
        let told = known.iter().flat_map(|(at, names)| {
            let own = names.iter().filter(|it| it.is_of(watched));
            own.map(|it| (it.at, *at, it.may_give_way(now)))
        });
        let oldest = told.filter(|(.., may_give_way)| *may_give_way).min();
        let Some((_, oldest, _)) = oldest else {
            return false;
        };
        if let Some(names) = known.get_mut(&oldest) {
            names.retain(|it| !it.is_of(watched));
        }
        known.retain(|_, names| !names.is_empty());
        has_room(known)
    }

    /// Returns the version, as it grows.
    pub(super) fn versions(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// Records that connections to all addresses of a version are redirected to this process now.
    pub(super) fn note_turned(&self, version: u64) {
        self.turned.send_replace(Some(version));
    }

    /// Waits until connections to all addresses of a version are redirected, at most for
    /// `PATIENCE`; returns whether they are. Returns at once where no program in the kernel
    /// redirects any.
    pub(super) async fn is_turned(&self, version: u64) -> bool {
        let mut turned = self.turned.subscribe();
        let is_turned = turned.wait_for(|turned| turned.is_none_or(|it| it >= version));
        timeout(PATIENCE, is_turned)
            .await
            .is_ok_and(|it| it.is_ok())
    }
}

impl Told {
    fn is_of(&self, watched: &Arc<Watched>) -> bool {
        Arc::ptr_eq(&self.of, watched)
    }

    fn is_over(&self, now: Instant) -> bool {
        now.duration_since(self.at) > REMEMBERED_FOR
    }

    fn may_give_way(&self, now: Instant) -> bool {
        !self.is_proved && now.duration_since(self.at) > UNPROVED_FOR
    }
}

/// Lifetime of an entry: few answers may be kept for longer, and few applications keep answers.
const REMEMBERED_FOR: Duration = Duration::from_secs(86_400);
/// Time for which an address keeps its place although no server at it has proved a key.
const UNPROVED_FOR: Duration = Duration::from_secs(3600);
/// Most addresses of all names; the kernel's table has several ports for each of them.
pub(super) const MAX_ADDRESSES: usize = 512;
/// Time to wait for the kernel's table, which is updated at once on a machine that is not too busy.
/// Applications wait for five seconds.
const PATIENCE: Duration = Duration::from_secs(4);

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn led(names: usize) -> Led {
        Led::new(names, ThisMachine::default())
    }

    fn watched(name: &str) -> Arc<Watched> {
        Arc::new(Watched::new(name.parse().unwrap()))
    }

    fn ip(n: u32) -> IpAddr {
        Ipv4Addr::from(0x0b00_0000 + n).into()
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_is_the_names_for_a_day_and_is_turned_before_it_is_told() {
        let (led, name) = (led(1), watched("example.org"));
        let first = led.note(&name, &[ip(1)]).unwrap();
        assert!(
            led.is_turned(first).await,
            "no program redirects connections"
        );
        led.note_turned(first);
        let again = led.note(&name, &[ip(1)]);
        assert_eq!(again, Ok(first), "it is known already");
        let next = led.note(&name, &["::ffff:11.0.0.2".parse().unwrap()]);
        let next = next.unwrap();
        assert!(
            !led.is_turned(next).await,
            "that address is not redirected yet"
        );
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
        let led = led(2);
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
        let (led, names) = (led(2), ["one.example", "two.example"].map(watched));
        let share = MAX_ADDRESSES as u32 / 2;
        for n in 0..share {
            led.note(&names[0], &[ip(n)]).unwrap();
        }
        led.note_proved(&names[0], ip(3));
        let both = led.note(&names[0], &[ip(0), ip(share)]);
        assert_eq!(both, Err(NotHeld::NoRoom));
        assert!(led.names_of(ip(share)).is_empty());
        assert_eq!(led.names_of(ip(0)).len(), 1);
        // The other name has its own share.
        for n in 0..share {
            led.note(&names[1], &[ip(1000 + n)]).unwrap();
        }
        assert_eq!(led.note(&names[1], &[ip(2000)]), Err(NotHeld::NoRoom));
        // Addresses without a proved key are evicted, the most recently told last.
        tokio::time::advance(UNPROVED_FOR + Duration::from_secs(1)).await;
        led.note(&names[0], &[ip(0)]).unwrap();
        for n in share..2 * share - 2 {
            led.note(&names[0], &[ip(n)]).unwrap();
        }
        assert_eq!(led.note(&names[0], &[ip(5000)]), Err(NotHeld::NoRoom));
        assert_eq!([0, 3].map(|n| led.names_of(ip(n)).len()), [1, 1]);
        assert!([1, 2].iter().all(|n| led.names_of(ip(*n)).is_empty()));
        assert_eq!(led.list().1.len(), MAX_ADDRESSES);
        tokio::time::advance(REMEMBERED_FOR + Duration::from_secs(1)).await;
        led.note(&names[0], &[ip(share)]).unwrap();
        assert_eq!(led.list().1.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn what_this_machine_needs_itself_is_never_held() {
        let (led, name) = (led(1), watched("example.org"));
        for never in [
            "127.0.0.1",
            "0.0.0.0",
            "169.254.169.254",
            "224.0.0.251",
            "255.255.255.255",
            "::1",
            "::",
            "::ffff:127.0.0.1",
            "fe80::1",
            "ff02::fb",
        ] {
            let never: IpAddr = never.parse().unwrap();
            let refused = Err(NotHeld::Never(never.to_canonical()));
            assert_eq!(led.note(&name, &[never, ip(1)]), refused);
        }
        assert_eq!(led.list().1.len(), 1, "the other one is held");
        // Name servers may become known later.
        led.set_name_servers([ip(1)].into());
        assert_eq!(led.note(&name, &[ip(1)]), Err(NotHeld::Never(ip(1))));
        assert!(led.list().1.is_empty() && led.names_of(ip(1)).is_empty());
        led.set_name_servers(BTreeSet::new());
        assert_eq!(led.names_of(ip(1)).len(), 1);
    }
}
