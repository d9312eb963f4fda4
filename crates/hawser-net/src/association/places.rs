//! Places to send from: local addresses on links, which come and go during an association.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use hawser_sctp::Local;
use parking_lot::Mutex;
use tokio::task::{AbortHandle, JoinSet};

use super::keyed_endpoint::{KeyedEndpoint, PlacesChange};
use super::keyed_endpoints::{KeyedEndpoints, drive_timers};
use super::outlet::Sockets;
use super::receiver;
use super::socket::{self, LinkSocket, Sharing};
use crate::clock;

/// The places that packets leave from, their sockets, and the tasks that serve them.
#[derive(Debug)]
pub(super) struct Places {
    endpoints: Arc<KeyedEndpoints>,
    locals: Vec<Local>,
    sockets: Vec<Arc<LinkSocket>>,
    /// The port of all sockets, once there is one.
    port: Option<u16>,
    /// Sockets share the port: it was given, not chosen by the system.
    shares: bool,
    /// The places that were set; the others of `locals` are detours in use.
    given: Vec<Local>,
    /// Places where packets may come in although their address belongs to another link. Each
    /// becomes a place as soon as a packet has come there.
    detours: Vec<Local>,
    /// The detours in use as places.
    taken: Vec<Local>,
    /// Sockets bound to all addresses, and their tasks. They receive the first packets of a detour.
    catchers: BTreeMap<Local, AbortHandle>,
    /// Ended when this is dropped.
    tasks: JoinSet<()>,
    /// The tasks of each place's socket.
    of_places: BTreeMap<Local, [AbortHandle; 2]>,
}

impl Places {
    /// No place yet; `port`: the port of future sockets; `None` lets the system choose. Must be
    /// called within a tokio runtime.
    pub(super) fn new(endpoints: Arc<KeyedEndpoints>, port: Option<u16>) -> Self {
        let mut tasks = JoinSet::new();
        tasks.spawn(drive_timers(Arc::clone(&endpoints)));
        Self {
            endpoints,
            locals: Vec::new(),
            sockets: Vec::new(),
            shares: port.is_some(),
            port,
            given: Vec::new(),
            detours: Vec::new(),
            taken: Vec::new(),
            catchers: BTreeMap::new(),
            tasks,
            of_places: BTreeMap::new(),
        }
    }

    pub(super) fn port(&self) -> Option<u16> {
        self.port
    }

    /// Sends an unsealed datagram from every place that may lead to `remote`.
    pub(super) fn send_unsealed(&self, remote: SocketAddr, bytes: &[u8]) {
        let may_lead = |local: Local| {
            local.address.is_ipv4() == remote.is_ipv4()
                && (remote.ip().is_loopback() || !local.address.is_loopback())
        };
        for socket in self.sockets.iter().filter(|it| may_lead(it.local())) {
            socket.send_unsealed(remote, bytes);
        }
    }

    /// Tells a new endpoint of all places.
    pub(super) fn tell(&self, endpoint: &KeyedEndpoint) {
        let sockets: Sockets = self.sockets.clone().into();
        let change = PlacesChange {
            before: &[],
            after: &self.locals,
            all: &sockets,
            left: &sockets,
        };
        endpoint.set_places(clock::now(), &change);
    }

    /// Sends packets from these places from now on, and from the detours in use. Returns the places
    /// that can't be used, each with its error.
    pub(super) fn set(&mut self, locals: &[Local]) -> Vec<(Local, io::Error)> {
        self.given = locals.to_vec();
        self.apply()
    }

    /// Also receives packets at these detours. `this`: the lock around `self`.
    pub(super) fn allow_detours(&mut self, this: &Arc<Mutex<Self>>, detours: &[Local]) {
        self.detours = detours.to_vec();
        self.taken.retain(|taken| detours.contains(taken));
        let catchers: BTreeSet<Local> = detours.iter().copied().map(all_addresses).collect();
        self.catchers.retain(|catcher, task| {
            let stays = catchers.contains(catcher);
            if !stays {
                task.abort();
            }
            stays
        });
        for catcher in catchers {
            if let Entry::Vacant(place) = self.catchers.entry(catcher)
                && let Some(port) = self.port.filter(|_| self.shares)
            {
                let sharing = if self.endpoints.has_predecessor() {
                    Sharing::After
                } else {
                    Sharing::Beside
                };
                match LinkSocket::bind(catcher, port, sharing) {
                    Ok(socket) => {
                        let this = Arc::downgrade(this);
                        // Returns whether `local` is in use as a place now.
                        let detour =
                            move |local| this.upgrade().is_some_and(|it| it.lock().take(local));
                        let endpoints = Arc::clone(&self.endpoints);
                        let read = receiver::read_strays(endpoints, Arc::new(socket), detour);
                        place.insert(self.tasks.spawn(read));
                    }
                    Err(error) => tracing::debug!(?catcher, %error,
                        "cannot bind socket for packets to another link's address"),
                }
            }
        }
        self.apply();
    }

    /// Handles a packet's arrival at `local`. Returns whether `local` is in use as a place now.
    fn take(&mut self, local: Local) -> bool {
        if !self.locals.contains(&local)
            && self.detours.contains(&local)
            && self.taken.len() < MAX_TAKEN
        {
            tracing::info!(address = %local.address, link = %local.link,
                "receiving packets for the address of another link");
            self.taken.push(local);
            self.apply();
        }
        self.locals.contains(&local)
    }

    fn apply(&mut self) -> Vec<(Local, io::Error)> {
        let detours = self.taken.iter().filter(|it| !self.given.contains(it));
        let locals: Vec<Local> = self.given.iter().chain(detours).copied().collect();
        let before = self.locals.clone();
        let mut failed = Vec::new();
        for local in locals.iter().filter(|it| !before.contains(it)) {
            if let Err(error) = self.bind(*local) {
                failed.push((*local, error));
            }
        }
        for local in before.iter().filter(|it| !locals.contains(it)) {
            self.locals.retain(|known| known != local);
            let handles = self.of_places.remove(local);
            handles.iter().flatten().for_each(AbortHandle::abort);
        }
        let all: Sockets = self.sockets.clone().into();
        let after = &self.locals;
        self.sockets.retain(|it| after.contains(&it.local()));
        if *after != before {
            let change = PlacesChange {
                before: &before,
                after,
                all: &all,
                left: &self.sockets.clone().into(),
            };
            let now = clock::now();
            for endpoint in self.endpoints.list() {
                endpoint.set_places(now, &change);
            }
        }
        while self.tasks.try_join_next().is_some() {}
        failed
    }

    fn bind(&mut self, local: Local) -> io::Result<()> {
        let sharing = match (
            self.shares,
            self.sockets.is_empty() && self.catchers.is_empty(),
        ) {
            (false, _) => Sharing::Alone,
            (true, _) if self.endpoints.has_predecessor() => Sharing::After,
            (true, true) => Sharing::First,
            (true, false) => Sharing::Beside,
        };
        let socket = Arc::new(LinkSocket::bind(local, self.port.unwrap_or(0), sharing)?);
        self.port = Some(socket.port()?);
        self.locals.push(local);
        self.sockets.push(Arc::clone(&socket));
        let read = receiver::read(Arc::clone(&self.endpoints), Arc::clone(&socket));
        let flush = socket::flush(socket);
        let handles = [self.tasks.spawn(read), self.tasks.spawn(flush)];
        self.of_places.insert(local, handles);
        Ok(())
    }
}

/// All addresses of the same family at the same link.
fn all_addresses(local: Local) -> Local {
    let address: IpAddr = match local.address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    Local { address, ..local }
}

/// Most detours in use: each is one more path for every association.
const MAX_TAKEN: usize = 4;
