//! The addresses at which the gateway may be: earlier ones, configured ones, and those that its
//! names resolve to, as they are found.

use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use hawser_types::{Host, HostName};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tracing::Instrument as _;

use hawser_keys::host_port::HostPort;
use hawser_link::links::Link;
use hawser_link::names::{Finding, Names};

/// Finds the gateway's addresses for all of a client's tasks, one search at a time.
#[derive(Debug, Default)]
pub(super) struct Locator {
    names: Names,
    latest: Mutex<Option<Search>>,
}

#[derive(Debug)]
struct Search {
    begun: Instant,
    links: Vec<Link>,
    addresses: Vec<HostPort>,
    found: watch::Receiver<Found>,
}

/// The results of a search so far.
#[derive(Clone, Debug, Default)]
struct Found {
    /// Only grows.
    addresses: Vec<SocketAddr>,
    /// At least one name was resolved, or there is no name to resolve.
    is_answered: bool,
    /// Errors of the name lookups that failed.
    problems: Vec<String>,
}

/// The addresses of a search, each returned once, as soon as it is known.
#[derive(Debug)]
pub(super) struct Candidates {
    found: watch::Receiver<Found>,
    given: usize,
}

impl Locator {
    /// Searches for the gateway over `links`. `reached`: where it was reached before; `addresses`:
    /// as configured. Looks up the names in `addresses`, unless that was done a moment ago.
    pub(super) fn search(
        &self,
        reached: &[SocketAddr],
        addresses: &[HostPort],
        links: &[Link],
    ) -> Candidates {
        let mut latest = self.latest.lock();
        if let Some(latest) = &*latest
            && latest.holds(links, addresses)
        {
            return Candidates::new(latest.found.clone());
        }
        let (sender, found) = watch::channel(Found::known(reached, addresses));
        *latest = Some(Search {
            begun: Instant::now(),
            links: links.to_vec(),
            addresses: addresses.to_vec(),
            found: found.clone(),
        });
        if addresses.iter().any(|it| it.socket_addr().is_none()) {
            let (names, addresses) = (self.names.clone(), addresses.to_vec());
            let looking = look_up(names, addresses, links.to_vec(), sender);
            tokio::spawn(looking.in_current_span());
        }
        Candidates::new(found)
    }
}

impl Search {
    /// True if the search goes on, or a new search would find the same.
    fn holds(&self, links: &[Link], addresses: &[HostPort]) -> bool {
        let goes_on = self.found.has_changed().is_ok();
        let is_fresh = self.found.borrow().is_answered && self.begun.elapsed() < MAX_AGE;
        let is_same = self.links == links && self.addresses == addresses;
        is_same && (goes_on || is_fresh)
    }
}

impl Found {
    fn known(reached: &[SocketAddr], addresses: &[HostPort]) -> Self {
        let mut known = Self::default();
        let literal = addresses.iter().filter_map(HostPort::socket_addr);
        known.add(reached.iter().copied().chain(literal));
        known.is_answered = addresses.iter().all(|it| it.socket_addr().is_some());
        known
    }

    fn add(&mut self, addresses: impl Iterator<Item = SocketAddr>) {
        for address in addresses {
            let is_new = !self.addresses.contains(&address);
            if is_new && self.addresses.len() < MAX_ADDRESSES {
                self.addresses.push(address);
            }
        }
    }
}

impl Candidates {
    fn new(found: watch::Receiver<Found>) -> Self {
        Self { found, given: 0 }
    }

    /// Returns the next address; `None` when no more will come. May be cancelled.
    pub(super) async fn next(&mut self) -> Option<SocketAddr> {
        loop {
            let next = self
                .found
                .borrow_and_update()
                .addresses
                .get(self.given)
                .copied();
            if next.is_some() {
                self.given += 1;
                return next;
            }
            self.found.changed().await.ok()?;
        }
    }

    /// All addresses that are found within a moment.
    pub(super) async fn all(mut self) -> Vec<SocketAddr> {
        let mut all = Vec::new();
        let collecting = async {
            while let Some(address) = self.next().await {
                all.push(address);
            }
        };
        let _ = timeout(MOMENT, collecting).await;
        all
    }

    /// Errors of the name lookups that failed.
    pub(super) fn problems(&self) -> Vec<String> {
        self.found.borrow().problems.clone()
    }
}

/// Looks up all names at once, and publishes each answer as it arrives.
async fn look_up(
    names: Names,
    addresses: Vec<HostPort>,
    links: Vec<Link>,
    found: watch::Sender<Found>,
) {
    let search = async |name: &HostName, port: u16| {
        let mut findings = pin!(names.search(name, &links));
        while let Some(finding) = findings.next().await {
            note(&found, &links, name, port, finding);
        }
    };
    let searches: FuturesUnordered<_> = addresses
        .iter()
        .filter_map(|address| match address.host() {
            Host::Name(name) => Some(search(name, address.port())),
            Host::Ip(_) => None,
        })
        .collect();
    let all = searches.for_each(|()| std::future::ready(()));
    tokio::select! {
        () = all => {}
        // No task waits for the search any more.
        () = found.closed() => {}
    }
}

fn note(
    found: &watch::Sender<Found>,
    links: &[Link],
    name: &HostName,
    port: u16,
    finding: Finding,
) {
    let link = links.iter().find(|link| Some(link.index) == finding.link);
    let asked = link.map_or("the system's resolver", |link| &link.name);
    match finding.result {
        Ok(addresses) => {
            tracing::debug!(%name, asked, ?addresses, "resolved the gateway's name");
            let at = |ip: IpAddr| SocketAddr::new(ip.to_canonical(), port);
            found.send_modify(|found| {
                found.is_answered = true;
                found.add(addresses.into_iter().map(at));
            });
        }
        Err(error) => {
            tracing::debug!(%name, asked, %error, "cannot resolve the gateway's name");
            let problem = format!("{name}, asked over {asked}: {error}");
            found.send_modify(|found| found.problems.push(problem));
        }
    }
}

const MAX_ADDRESSES: usize = 16;
/// Time for which names are not looked up again.
const MAX_AGE: Duration = Duration::from_secs(10);
/// Time to wait for further addresses when one is enough to go on.
const MOMENT: Duration = Duration::from_secs(1);
