//! Places to send from, which come and go while associations stand.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use hawser_sctp::Local;
use tokio::task::{AbortHandle, JoinSet};

use super::keyed_endpoint::{KeyedEndpoint, PlacesChange, Sockets};
use super::keyed_endpoints::{KeyedEndpoints, drive_timers};
use super::receiver;
use super::socket::{self, LinkSocket};
use crate::clock;

/// The places that packets leave from, their sockets, and the tasks that serve them.
#[derive(Debug)]
pub(super) struct Places {
    endpoints: Arc<KeyedEndpoints>,
    locals: Vec<Local>,
    sockets: Vec<Arc<LinkSocket>>,
    /// The port of all sockets, once there is one.
    port: Option<u16>,
    /// Ended when this is dropped.
    tasks: JoinSet<()>,
    /// The tasks of each place's socket.
    of_places: BTreeMap<Local, [AbortHandle; 2]>,
}

impl Places {
    /// No place yet; `port`: the port of sockets to come, or as the system chooses. Must be called
    /// within a tokio runtime.
    pub(super) fn new(endpoints: Arc<KeyedEndpoints>, port: Option<u16>) -> Self {
        let mut tasks = JoinSet::new();
        tasks.spawn(drive_timers(Arc::clone(&endpoints)));
        Self {
            endpoints,
            locals: Vec::new(),
            sockets: Vec::new(),
            port,
            tasks,
            of_places: BTreeMap::new(),
        }
    }

    pub(super) fn port(&self) -> Option<u16> {
        self.port
    }

    /// Tells an endpoint that is new of all places.
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

    /// Packets leave from these places from now on. Returns the places that can't be used, and why.
    pub(super) fn set(&mut self, locals: &[Local]) -> Vec<(Local, io::Error)> {
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
        let socket = Arc::new(LinkSocket::bind(local, self.port.unwrap_or(0))?);
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
