//! Places to send from that come and go while associations stand.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, PoisonError};

use hawser_sctp::Local;
use hawser_types::Instant;
use tokio::task::{AbortHandle, JoinSet};

use super::socket::{self, LinkSocket};
use super::{AssociationEndpoint, Id, State};
use crate::clock;

/// What runs for an endpoint.
#[derive(Debug)]
pub(super) struct Tasks {
    all: JoinSet<()>,
    /// Of each place's socket.
    of_places: BTreeMap<Local, [AbortHandle; 2]>,
}

impl Tasks {
    pub(super) fn new(timers: impl Future<Output = ()> + Send + 'static) -> Self {
        let mut all = JoinSet::new();
        all.spawn(timers);
        Self {
            all,
            of_places: BTreeMap::new(),
        }
    }
}

impl AssociationEndpoint {
    /// Packets leave from these places from now on: sockets are bound for those that are new, and
    /// associations that stand are told, as their peers are. A place of link 0 is bound to no link. Gives
    /// the places that can't be used, and why; others are not affected. Must be called within a tokio
    /// runtime.
    pub fn set_locals(&self, locals: &[Local]) -> Vec<(Local, io::Error)> {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        let tasks = &mut *tasks;
        let now = clock::now();
        let mut state = self.shared.lock();
        let before = state.locals.clone();
        let mut failed = Vec::new();
        for local in locals.iter().filter(|it| !before.contains(it)) {
            match state.bind(*local) {
                Ok(socket) => {
                    let read = socket::read(self.shared.clone(), socket.clone());
                    let flush = socket::flush(socket);
                    let handles = [tasks.all.spawn(read), tasks.all.spawn(flush)];
                    tasks.of_places.insert(*local, handles);
                }
                Err(error) => failed.push((*local, error)),
            }
        }
        for local in before.iter().filter(|it| !locals.contains(it)) {
            state.locals.retain(|known| known != local);
            let handles = tasks.of_places.remove(local);
            handles.iter().flatten().for_each(AbortHandle::abort);
        }
        let after = state.locals.clone();
        if after != before {
            state.move_associations(now, &before, &after);
        }
        // What is told of a place that has gone leaves by others.
        state.sockets.retain(|it| after.contains(&it.local()));
        self.shared.look_at_timers(&mut state);
        drop(state);
        while tasks.all.try_join_next().is_some() {}
        failed
    }
}

impl State {
    fn bind(&mut self, local: Local) -> io::Result<Arc<LinkSocket>> {
        let socket = Arc::new(LinkSocket::bind(local, self.port.unwrap_or(0))?);
        self.port = Some(socket.port()?);
        self.locals.push(local);
        self.sockets.push(socket.clone());
        Ok(socket)
    }

    fn move_associations(&mut self, now: Instant, before: &[Local], after: &[Local]) {
        self.carriers.set_locals(after);
        let ids: Vec<Id> = self.associations.keys().copied().collect();
        for id in ids {
            let Some(entry) = self.associations.get_mut(&id) else {
                continue;
            };
            for new in after.iter().filter(|it| !before.contains(it)) {
                entry.association.add_local(now, *new);
            }
            for gone in before.iter().filter(|it| !after.contains(it)) {
                entry.association.remove_local(now, *gone);
            }
            self.pump(now, id);
        }
    }
}
