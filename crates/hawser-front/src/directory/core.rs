//! The turns of a directory: it takes inputs, saves changes and sends outputs.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hawser_link::bind::DatagramSocket;
use hawser_net::clock;
use hawser_net::ticks::Ticks;
use hawser_sip::directory::{Directory, DirectoryConfig, DirectoryCounts, Output};
use hawser_sip::fields::Transport;
use hawser_sip::registrar::Moment;
use hawser_sip::transaction::Flow;
use parking_lot::Mutex;
use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;

use super::error::DirectoryError;
use super::input::Input;
use super::pump::Pump;
use super::reach::Hosts;
use super::sockets::Sockets;
use super::table::{BindingTable, Change};
use super::tls::DirectoryTls;
use super::users::UserFile;
use super::view::{BindingView, DirectoryView};

/// The directory, shared by its thread and its observers.
pub(super) struct Core {
    inner: Mutex<Inner>,
    users: UserFile,
}

struct Inner {
    directory: Directory,
    table: BindingTable,
    /// Addresses whose latest bindings are not in the file yet.
    unkept: BTreeSet<String>,
    /// Whether the last write of the file succeeded.
    is_keeping: bool,
}

impl Core {
    pub(super) fn new(
        config: DirectoryConfig,
        (users, hosts): (UserFile, Hosts),
        mut table: BindingTable,
        seed: &[u8; 32],
    ) -> Result<Self, DirectoryError> {
        let mut fresh = [0; 32];
        SystemRandom::new()
            .fill(&mut fresh)
            .map_err(|_| io::Error::other("the system has no randomness"))?;
        let owner = (Box::new(users.clone()) as _, Box::new(hosts) as _);
        let mut directory = Directory::new(config, owner, seed, &fresh);
        restore(&mut directory, &mut table, &users)?;
        let inner = Inner {
            directory,
            table,
            unkept: BTreeSet::new(),
            is_keeping: true,
        };
        Ok(Self {
            inner: Mutex::new(inner),
            users,
        })
    }

    pub(super) fn view(&self, most: usize) -> DirectoryView {
        let now = clock::now();
        let inner = self.inner.lock();
        let location = inner.directory.location();
        let all = location.iter();
        let all = all.flat_map(|(address, bindings)| bindings.iter().map(move |it| (address, it)));
        let listed = all.take(most).map(|(address, binding)| BindingView {
            address: address.to_owned(),
            contact: binding.contact.uri.to_string(),
            q: binding.q.thousandths(),
            left: binding.expires.since(now),
            age: now.since(binding.updated),
        });
        DirectoryView {
            users: self.users.count(),
            addresses: location.len(),
            bindings: location.binding_count(),
            connections: inner.directory.stream_count(),
            listed: listed.collect(),
        }
    }

    pub(super) fn counts(&self) -> DirectoryCounts {
        self.inner.lock().directory.counts()
    }

    /// Reads the file of users again if it has changed, and removes bindings of removed users.
    fn reload_users(&self) {
        match self.users.reload_if_changed() {
            Ok(false) => {}
            Ok(true) => {
                tracing::info!(users = self.users.count(), "reloaded the directory's users");
                let mut inner = self.inner.lock();
                let location = inner.directory.location_mut();
                let all = location.iter().map(|(address, _)| address);
                let gone: Vec<_> = all
                    .filter(|address| !self.users.is_known(address))
                    .collect();
                let gone: Vec<_> = gone.into_iter().map(str::to_owned).collect();
                for address in gone {
                    location.remove(&address);
                }
                inner.directory.retain_watchers(|user| self.users.has(user));
                inner.keep();
            }
            Err(error) => tracing::warn!(%error, "can't reload the directory's users"),
        }
    }
}

impl Inner {
    /// Saves changed bindings. After a failure, saves them with the next change.
    fn keep(&mut self) {
        while let Some(address) = self.directory.poll_change() {
            self.unkept.insert(address);
        }
        if self.unkept.is_empty() {
            return;
        }
        let (now, location) = (moment(), self.directory.location());
        let unkept = self.unkept.iter();
        let changes: Vec<Change> = unkept
            .map(|address| {
                let bindings = location.bindings(now.now, address);
                let kept = bindings.iter().map(|binding| binding.to_kept(now));
                (address.clone(), kept.collect())
            })
            .collect();
        match self.table.keep(&changes) {
            Ok(()) => {
                self.unkept.clear();
                self.is_keeping = true;
            }
            Err(error) => {
                if std::mem::replace(&mut self.is_keeping, false) {
                    tracing::warn!(%error,
                        "can't save the directory's bindings: a restart would lose them");
                }
            }
        }
    }
}

fn restore(
    directory: &mut Directory,
    table: &mut BindingTable,
    users: &UserFile,
) -> Result<(), DirectoryError> {
    let moment = moment();
    let location = directory.location_mut();
    let longest = location.limits().max_expires;
    for (address, kept) in table.load()? {
        let bindings = kept.iter().filter_map(|it| it.to_binding(moment, longest));
        let bindings = bindings.collect();
        if users.is_known(&address)
            && let Err(refusal) = location.restore(moment.now, &address, bindings)
        {
            tracing::warn!(%address, reason = refusal.reason,
                "can't restore the bindings of an address of record");
        }
    }
    // Remove bindings that have expired, and those of removed users.
    let location = &*location;
    let swept = table.retain(|address| !location.bindings(moment.now, address).is_empty());
    if let Err(error) = swept {
        tracing::warn!(%error, "can't remove expired bindings from the directory's file");
    }
    tracing::info!(
        bindings = location.binding_count(),
        "restored the directory's bindings"
    );
    Ok(())
}

/// Serves until `stopped` completes or its sender is dropped.
pub(super) async fn serve(
    core: Arc<Core>,
    sockets: Sockets,
    tls: Option<DirectoryTls>,
    mut stopped: oneshot::Receiver<()>,
) {
    let (sender, mut inputs) = mpsc::channel(MAX_INPUTS);
    let mut ways = Ways {
        datagrams: sockets.hear(&sender),
        streams: BTreeMap::new(),
        inputs: sender,
        tls,
    };
    let mut waiting = Vec::new();
    let mut look = Ticks::every(USERS_PERIOD);
    loop {
        let due = core.inner.lock().directory.poll_timeout();
        let due = due.map(|at| at.since(clock::now()));
        tokio::select! {
            _ = &mut stopped => return,
            _ = look.tick() => core.reload_users(),
            _ = inputs.recv_many(&mut waiting, MAX_AT_ONCE) => {}
            () = sleep(due.unwrap_or(USERS_PERIOD)) => {}
        }
        ways.turn(&core, &mut waiting);
    }
}

/// The sockets and streams by which messages leave.
struct Ways {
    datagrams: Vec<Arc<DatagramSocket>>,
    streams: BTreeMap<u64, mpsc::Sender<Bytes>>,
    inputs: mpsc::Sender<Input>,
    tls: Option<DirectoryTls>,
}

impl Ways {
    fn turn(&mut self, core: &Core, waiting: &mut Vec<Input>) {
        let now = clock::now();
        let mut inner = core.inner.lock();
        let mut outputs = Vec::new();
        for input in waiting.drain(..) {
            self.take(&mut inner.directory, input);
        }
        if inner.directory.poll_timeout().is_some_and(|at| at <= now) {
            inner.directory.handle_timeout(now);
        }
        // Save before sending any answer.
        inner.keep();
        while let Some(output) = inner.directory.poll_output() {
            outputs.push(output);
        }
        drop(inner);
        for output in outputs {
            self.execute(output);
        }
    }

    fn take(&mut self, directory: &mut Directory, input: Input) {
        let now = clock::now();
        match input {
            Input::Datagram {
                socket,
                source,
                bytes,
            } => directory.handle_datagram(now, socket, source, &bytes),
            Input::Bytes { flow, bytes } => directory.handle_bytes(now, flow, &bytes),
            Input::Closed { flow } => {
                self.streams.remove(&flow.number);
                directory.handle_closed(now, flow);
            }
            Input::Connection {
                stream,
                transport,
                source,
            } => {
                let tls = match transport {
                    Transport::Tls => self.tls.clone(),
                    _ => None,
                };
                if let Some(flow) = directory.handle_connection(now, transport, source) {
                    let pump = self.pump(flow);
                    tokio::spawn(pump.serve(stream, tls));
                }
            }
        }
    }

    fn execute(&mut self, output: Output) {
        match output {
            Output::Datagram { socket, to, bytes } => {
                let socket = usize::try_from(socket).ok();
                let socket = socket.and_then(|number| self.datagrams.get(number));
                if let Some(Err(error)) = socket.map(|socket| socket.send_to(&bytes, to)) {
                    tracing::debug!(%to, %error, "can't send a datagram of the directory");
                }
            }
            Output::Connect { flow, to } => {
                let pump = self.pump(flow);
                tokio::spawn(pump.connect(to));
            }
            Output::Stream { flow, bytes } => {
                let stream = self.streams.get(&flow.number);
                let is_full = stream.is_some_and(|stream| stream.try_send(bytes).is_err());
                if is_full {
                    // The far end does not read. Its pump reports the end of the connection.
                    self.streams.remove(&flow.number);
                }
            }
            Output::Close { flow } => drop(self.streams.remove(&flow.number)),
        }
    }

    fn pump(&mut self, flow: Flow) -> Pump {
        let (sender, writes) = mpsc::channel(MAX_WRITES);
        self.streams.insert(flow.number, sender);
        Pump {
            flow,
            writes,
            inputs: self.inputs.clone(),
        }
    }
}

fn moment() -> Moment {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let unix_ms = since.unwrap_or_default().as_millis();
    Moment {
        now: clock::now(),
        unix_ms: u64::try_from(unix_ms).unwrap_or(u64::MAX),
    }
}

/// Messages that wait for a turn; each is at most a datagram.
const MAX_INPUTS: usize = 256;
/// Messages of one turn, whose changes are saved together.
const MAX_AT_ONCE: usize = 128;
/// Messages that wait for one stream.
const MAX_WRITES: usize = 64;
const USERS_PERIOD: Duration = Duration::from_secs(1);
