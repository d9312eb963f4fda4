//! The endpoint of one key: its associations, under a lock of their own.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::{Bytes, BytesMut};
use hawser_sctp::{
    Association, AssociationConfig, AssociationId, ConnectError, Endpoint, EndpointConfig, Event,
    Handled, Local, Route,
};
use hawser_session::Side;
use hawser_session::seal::datagram::{DatagramOpener, KeyId};
use hawser_types::{ByteCount, Instant};
use parking_lot::{Mutex, MutexGuard};
use ring::rand::{SecureRandom, SystemRandom};
use smallvec::SmallVec;
use tokio::sync::Notify;
use tracing::Span;
use tracing::span::Entered;

use super::arrivals::Arrivals;
use super::entry::Entry;
use super::outlet::{Outlet, Sockets};
use super::seal::Seal;
use super::timers::Timers;
use crate::{clock, lock_order, spans};

/// The name of an endpoint: the key id of received datagrams, or `None` for unsealed packets.
pub(super) type KeyedEndpointId = Option<KeyId>;

/// The association of one datagram channel, or all unsealed associations.
///
/// Each has an SCTP endpoint of its own, so that packets of one peer cannot affect another's
/// association; and a lock of its own, so that it never waits for another's. The lock of the
/// session is never held together with this lock. Under this lock, only the locks of sockets'
/// outboxes and of the timers are taken, never that of another endpoint.
#[derive(Debug)]
pub(super) struct KeyedEndpoint {
    id: KeyedEndpointId,
    /// Decrypts sealed datagrams, before the lock of the state is taken.
    opener: Option<Mutex<DatagramOpener>>,
    state: Mutex<State>,
    /// The span of the session that the association belongs to.
    span: Span,
    timers: Arc<Timers>,
    /// The peer has begun an association.
    arrived: Notify,
    /// A datagram of the peer was decrypted, or this end has sent a datagram.
    is_used: AtomicBool,
    /// The session is over: stragglers need no answer.
    is_disowned: AtomicBool,
    /// Time since which no association needs this endpoint.
    ended: OnceLock<Instant>,
}

#[derive(Debug)]
struct State {
    endpoint: Endpoint,
    /// The peer may begin one more association.
    is_open: bool,
    locals: Vec<Local>,
    outlet: Outlet,
    associations: BTreeMap<AssociationId, Entry>,
    /// Associations that the peer began and the application has not taken yet.
    incoming: VecDeque<AssociationId>,
    /// Makes the positions of flows in tunnels' tables unpredictable.
    tunnel_seed: u64,
}

/// A change of the places that packets leave from.
pub(super) struct PlacesChange<'a> {
    pub(super) before: &'a [Local],
    pub(super) after: &'a [Local],
    /// The sockets of all places, before and after.
    pub(super) all: &'a Sockets,
    /// The sockets of the places after.
    pub(super) left: &'a Sockets,
}

/// The locked state. Packets gathered under the lock are sent once it is released.
struct Locked<'a> {
    /// `None` while it is dropped.
    state: Option<MutexGuard<'a, State>>,
    _span: Option<Entered<'a>>,
}

impl KeyedEndpoint {
    /// An endpoint for any number of associations that are not sealed.
    pub(super) fn plain(config: AssociationConfig, timers: Arc<Timers>) -> io::Result<Self> {
        Self::new(EndpointConfig::new(config, &[]), None, timers)
    }

    /// An endpoint for one association; `accepts`: the peer begins it. `config` is as
    /// [`below_seal`](hawser_channels::association::below_seal) makes it.
    pub(super) fn sealed(
        config: AssociationConfig,
        seal: Seal,
        accepts: bool,
        timers: Arc<Timers>,
    ) -> io::Result<Self> {
        let config = EndpointConfig {
            accepts,
            max_associations: 1,
            max_associations_per_host: 1,
            ..EndpointConfig::new(config, &[])
        };
        Self::new(config, Some(seal), timers)
    }

    fn new(config: EndpointConfig, seal: Option<Seal>, timers: Arc<Timers>) -> io::Result<Self> {
        let random = SystemRandom::new();
        let (mut secret, mut seeds) = ([0; 32], [0; 16]);
        let drawn = random
            .fill(&mut secret)
            .and_then(|()| random.fill(&mut seeds));
        drawn.map_err(|_| io::Error::other("the system gives no random numbers"))?;
        let seeds = u128::from_ne_bytes(seeds);
        let id = seal.as_ref().map(Seal::key_id);
        let span = seal.as_ref().map_or_else(Span::none, |it| it.span.clone());
        let (sealer, opener) = seal.map(|seal| (seal.sealer, seal.opener)).unzip();
        let state = State {
            is_open: config.accepts,
            endpoint: Endpoint::new(config, secret, seeds as u64),
            locals: Vec::new(),
            outlet: Outlet {
                sealer,
                sockets: Arc::new([]),
                gathered: SmallVec::new(),
            },
            associations: BTreeMap::new(),
            incoming: VecDeque::new(),
            tunnel_seed: (seeds >> 64) as u64,
        };
        Ok(Self {
            id,
            opener: opener.map(Mutex::new),
            state: Mutex::new(state),
            span,
            timers,
            arrived: Notify::new(),
            is_used: AtomicBool::new(false),
            is_disowned: AtomicBool::new(false),
            ended: OnceLock::new(),
        })
    }

    pub(super) fn id(&self) -> KeyedEndpointId {
        self.id
    }

    /// Time since which no association needs this endpoint.
    pub(super) fn ended(&self) -> Option<Instant> {
        self.ended.get().copied()
    }

    /// True if late packets of the peer may need an answer after the association's end: datagrams
    /// passed in either direction, and the session goes on.
    pub(super) fn has_stragglers(&self) -> bool {
        self.is_used.load(Ordering::Relaxed) && !self.is_disowned.load(Ordering::Relaxed)
    }

    /// Marks the session of the keys as over.
    pub(super) fn disown(&self) {
        self.is_disowned.store(true, Ordering::Relaxed);
    }

    /// The approximate memory of this endpoint.
    pub(super) fn held(&self) -> ByteCount {
        let state = self.lock();
        let associations = state.associations.values();
        let held = |entry: &Entry| STANDING + entry.held();
        associations.map(held).fold(EXPECTED, |all, one| all + one)
    }

    /// Ends all associations at once, and notifies their handles.
    pub(super) fn abort_all(&self) {
        let now = clock::now();
        let mut state = self.lock();
        let ids: Vec<AssociationId> = state.associations.keys().copied().collect();
        for id in ids {
            if let Some(entry) = state.associations.get_mut(&id) {
                entry.association.abort(Bytes::new());
            }
            self.pump(&mut state, now, id);
        }
    }

    /// Sends packets from other places from now on, and tells established associations.
    pub(super) fn set_places(&self, now: Instant, change: &PlacesChange<'_>) {
        let PlacesChange { before, after, .. } = change;
        let mut state = self.lock();
        state.locals = after.to_vec();
        state.outlet.sockets = Arc::clone(change.all);
        state.endpoint.set_locals(after);
        let ids: Vec<AssociationId> = state.associations.keys().copied().collect();
        for id in ids {
            let Some(entry) = state.associations.get_mut(&id) else {
                continue;
            };
            for new in after.iter().filter(|it| !before.contains(it)) {
                entry.association.add_local(now, *new);
            }
            for gone in before.iter().filter(|it| !after.contains(it)) {
                entry.association.remove_local(now, *gone);
            }
            self.pump(&mut state, now, id);
        }
        // Packets that tell the peer of a removed place leave from the other places.
        state.outlet.sockets = Arc::clone(change.left);
    }

    /// Begins an association with a host at these addresses.
    pub(super) fn connect(
        &self,
        now: Instant,
        config: AssociationConfig,
        remotes: &[SocketAddr],
    ) -> Result<(AssociationId, Arc<Notify>), ConnectError> {
        let mut state = self.lock();
        let State {
            endpoint, locals, ..
        } = &mut *state;
        let (id, association) = endpoint.connect(now, config, locals, remotes)?;
        self.is_used.store(true, Ordering::Relaxed);
        let changed = state.insert(id, Side::Client, association);
        self.pump(&mut state, now, id);
        Ok((id, changed))
    }

    /// Waits for the next association that the peer begins.
    ///
    /// No wake-up is lost: the waiter registers before it looks, and arriving associations are
    /// queued under the lock that the look takes.
    pub(super) async fn accept(&self) -> (AssociationId, Arc<Notify>) {
        loop {
            let arrived = self.arrived.notified();
            tokio::pin!(arrived);
            arrived.as_mut().enable();
            let taken = {
                let mut state = self.lock();
                let id = state.incoming.pop_front();
                id.and_then(|id| Some((id, state.associations.get(&id)?.changed.clone())))
            };
            if let Some(taken) = taken {
                return taken;
            }
            arrived.await;
        }
    }

    /// Takes datagrams in the order in which a socket received them. Drops sealed datagrams that
    /// can't be decrypted.
    pub(super) fn handle_datagrams(
        &self,
        now: Instant,
        local: Local,
        datagrams: &mut Vec<(SocketAddr, BytesMut)>,
    ) {
        // Decrypted in place, before the lock is taken: associations keep slices of the datagrams.
        let mut packets: SmallVec<[(SocketAddr, Bytes); 16]> = SmallVec::new();
        match &self.opener {
            None => packets.extend(datagrams.drain(..).map(|(from, it)| (from, it.freeze()))),
            Some(opener) => {
                let mut opener = opener.lock();
                let open = |(from, datagram)| Some((from, opener.open(now, datagram).ok()?));
                packets.extend(datagrams.drain(..).filter_map(open));
            }
        }
        if packets.is_empty() {
            return;
        }
        self.is_used.store(true, Ordering::Relaxed);
        let mut state = self.lock();
        let mut touched: SmallVec<[AssociationId; 4]> = SmallVec::new();
        for (remote, packet) in packets {
            let route = Route { local, remote };
            let id = self.handle_packet(&mut state, now, route, packet);
            if let Some(id) = id.filter(|id| !touched.contains(id)) {
                touched.push(id);
            }
        }
        let settle = |id| Some((id, self.settle(&mut state, now, id)?));
        let few: SmallVec<[_; 1]> = touched.into_iter().filter_map(settle).collect();
        drop(state);
        for (id, arrivals) in few {
            self.hand_on(id, &arrivals);
        }
    }

    /// Hands on the packets of an association. The taker runs under no lock of this endpoint.
    pub(super) fn hand_on(&self, id: AssociationId, arrivals: &Arrivals) {
        arrivals.hand_on(|packets| {
            let mut state = self.lock();
            if let Some(entry) = state.associations.get_mut(&id) {
                entry.take_packets(packets);
            }
        });
    }

    /// Returns the association that a packet has changed.
    fn handle_packet(
        &self,
        state: &mut State,
        now: Instant,
        route: Route,
        packet: Bytes,
    ) -> Option<AssociationId> {
        match state.endpoint.handle_datagram(now, route, packet) {
            Handled::Ignored(_) => None,
            Handled::Reply(transmit) => {
                state.outlet.send(now, &transmit);
                None
            }
            Handled::Accepted(id, association) => {
                let is_sealed = state.outlet.sealer.is_some();
                if is_sealed && !std::mem::take(&mut state.is_open) {
                    state.endpoint.forget(id);
                    return None;
                }
                state.insert(id, Side::Gateway, *association);
                // Sealed associations are expected, so no more arrive than are waited for.
                if !is_sealed && state.incoming.len() >= MAX_INCOMING {
                    self.drop_association(state, now, id);
                    return None;
                }
                state.incoming.push_back(id);
                self.arrived.notify_waiters();
                Some(id)
            }
            Handled::For(id, packet) => {
                let entry = state.associations.get_mut(&id)?;
                entry.association.handle_packet(now, route, &packet);
                Some(id)
            }
        }
    }

    /// Handles the timeout of an association, unless its timer has moved or it is over.
    pub(super) fn handle_timeout(&self, now: Instant, id: AssociationId) {
        let mut state = self.lock();
        let Some(entry) = state.associations.get_mut(&id) else {
            return;
        };
        if entry.timer.is_some_and(|at| at <= now) {
            entry.handle_timeout(now);
            self.pump(&mut state, now, id);
        }
    }

    /// Looks at an association, if it is still there.
    pub(super) fn look<R>(&self, id: AssociationId, look: impl FnOnce(&Entry) -> R) -> Option<R> {
        self.lock().associations.get(&id).map(look)
    }

    /// Changes an association and sends the packets that result; `None` if it does not exist.
    pub(super) fn change<R>(
        &self,
        id: AssociationId,
        change: impl FnOnce(&mut Entry, Instant) -> R,
    ) -> Option<R> {
        let now = clock::now();
        let mut state = self.lock();
        let answer = change(state.associations.get_mut(&id)?, now);
        self.pump(&mut state, now, id);
        Some(answer)
    }

    /// Ends an association at once, if it is not over yet, and forgets it.
    pub(super) fn release(&self, id: AssociationId) {
        self.drop_association(&mut self.lock(), clock::now(), id);
    }

    /// Stops waiting for an association under this seal. Returns true, once, if no association
    /// exists under it: then the keys are not needed any more.
    pub(super) fn give_up(&self) -> bool {
        if self.id.is_none() {
            return false;
        }
        let now = clock::now();
        let mut state = self.lock();
        if let Some(id) = state.incoming.pop_front() {
            self.drop_association(&mut state, now, id);
        }
        let is_over = state.associations.is_empty();
        if is_over {
            state.is_open = false;
        }
        is_over && self.ended.set(now).is_ok()
    }

    fn drop_association(&self, state: &mut State, now: Instant, id: AssociationId) {
        if let Some(entry) = state.associations.get_mut(&id) {
            entry.association.abort(Bytes::new());
        }
        self.pump(state, now, id);
        if let Some(entry) = state.associations.remove(&id) {
            self.timers.set((self.id, id), entry.timer, None);
        }
        state.endpoint.forget(id);
    }

    /// As [`Self::settle`], but leaves all arrived packets to the task that hands them on.
    fn pump(&self, state: &mut State, now: Instant, id: AssociationId) {
        if let Some(arrivals) = self.settle(state, now, id) {
            arrivals.changed.notify_one();
        }
    }

    /// Sends an association's packets, takes its events and sets its timer. Must be called after
    /// every change of the association. Returns the arrived packets' [`Arrivals`] if the packets
    /// are few; a task hands on larger numbers.
    fn settle(&self, state: &mut State, now: Instant, id: AssociationId) -> Option<Arc<Arrivals>> {
        let arrivals = state.take_from(now, id);
        if let Some(entry) = state.associations.get_mut(&id) {
            let timer = entry.poll_timeout();
            let before = std::mem::replace(&mut entry.timer, timer);
            self.timers.set((self.id, id), before, timer);
        }
        arrivals
    }

    fn lock(&self) -> Locked<'_> {
        lock_order::before_association();
        // A panic under the lock leaves the state as a lost packet does.
        Locked {
            state: Some(self.state.lock()),
            _span: spans::for_steps(&self.span),
        }
    }
}

impl State {
    fn insert(&mut self, id: AssociationId, side: Side, association: Association) -> Arc<Notify> {
        let entry = Entry::new(side, association, self.tunnel_seed);
        let changed = entry.changed.clone();
        self.associations.insert(id, entry);
        changed
    }

    /// Takes an association's packets and events; see [`KeyedEndpoint::settle`].
    fn take_from(&mut self, now: Instant, id: AssociationId) -> Option<Arc<Arrivals>> {
        let entry = self.associations.get_mut(&id)?;
        let arrived = entry.receive_packets(now);
        while let Some(transmit) = entry.poll_transmit(now) {
            self.outlet.send(now, &transmit);
        }
        let mut has_changed = false;
        while let Some(event) = entry.association.poll_event() {
            has_changed = true;
            match event {
                Event::Established => entry.is_established = true,
                Event::Restarted => entry.was_restarted = true,
                Event::Writable => entry.is_full = false,
                Event::PeerAddresses(known) => self.endpoint.addresses_changed(id, &known),
                Event::Closed(why) => {
                    entry.closed = Some(why);
                    self.endpoint.forget(id);
                }
                _ => {}
            }
        }
        // Waiters register before they look, under this lock, so that every waiter is woken.
        if entry.take_room() || has_changed {
            entry.changed.notify_waiters();
        }
        // The task also sees whether the association is over. It hands on larger numbers of
        // packets, since the socket would overflow meanwhile.
        let arrivals = &entry.arrivals;
        if has_changed || arrived > FEW {
            arrivals.changed.notify_one();
        }
        (1..=FEW).contains(&arrived).then(|| arrivals.clone())
    }
}

impl Deref for Locked<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        self.state.as_ref().expect("held until dropped")
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut State {
        self.state.as_mut().expect("held until dropped")
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let Some(mut state) = self.state.take() else {
            return;
        };
        let gathered = std::mem::take(&mut state.outlet.gathered);
        drop(state);
        gathered.iter().for_each(|socket| socket.flush());
    }
}

/// Memory of an endpoint without an association: keys, and the packet numbers received under them.
const EXPECTED: ByteCount = ByteCount::from_kib(16);
/// Memory of an association without data: its paths, streams and tables.
const STANDING: ByteCount = ByteCount::from_kib(32);

/// Most packets of a tunnel that the receiving thread hands on by itself.
const FEW: usize = 4;

/// Unsealed associations that the application has not taken yet; further ones are ended at once.
pub(super) const MAX_INCOMING: usize = if cfg!(test) { 2 } else { 1024 };

#[cfg(test)]
impl KeyedEndpoint {
    /// Pretends that a datagram of the peer was decrypted.
    pub(super) fn note_use(&self) {
        self.is_used.store(true, Ordering::Relaxed);
    }

    /// The timers of its associations, as the common order should list them.
    pub(super) fn timers(&self) -> Vec<(Instant, super::timers::TimerId)> {
        let state = self.lock();
        let timer =
            |(id, entry): (&AssociationId, &Entry)| Some((entry.poll_timeout()?, (self.id, *id)));
        state.associations.iter().filter_map(timer).collect()
    }

    /// Number of associations here, and of those that the SCTP endpoint knows.
    pub(super) fn counts(&self) -> [usize; 2] {
        let state = self.lock();
        [state.associations.len(), state.endpoint.len()]
    }
}
