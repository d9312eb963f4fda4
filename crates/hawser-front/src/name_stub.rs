//! Answers the queries of captured applications, and of hosts behind this machine, to name servers.
//!
//! Each name server of this machine has a loopback port here, to which applications' queries are
//! redirected. So the port identifies the server that the application asked, and that must appear
//! to answer. The answers are those of [`Names::answer`]: the server that was asked comes first,
//! and those of links if it is silent.

mod answering;
mod known;
mod limits;
mod port;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hawser_link::links::Link;
use hawser_link::names::Names;
use hawser_net::ticks::Ticks;
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::connection::SharedDirector;
use crate::peer::{ReservedNames, VouchedServers};
use crate::this_machine::ThisMachine;
use crate::told_names::ToldNames;
use answering::{Answering, Meant};
pub use known::KnownNames;
use limits::Limits;
use port::{Port, loopback};

/// The ports on the loopback address of each server's family, by server.
pub type StubPorts = watch::Receiver<Arc<BTreeMap<IpAddr, u16>>>;

/// The ports that answer applications, open until this is dropped.
pub struct NameStub {
    ports: StubPorts,
    task: JoinHandle<()>,
    answering: Arc<Answering>,
}

impl NameStub {
    /// Answers for the name servers of this machine, with the help of the links that `director`
    /// allows for names. Sends no query for `reserved` names. Follows changes of the servers. Notes
    /// the addresses in answers in `known`; tells addresses of `held` names only after connections
    /// to these addresses are held, too. Admits addresses of `machine` only for names that mean
    /// this machine.
    pub async fn start(
        director: SharedDirector,
        (reserved, machine): (ReservedNames, ThisMachine),
        known: KnownNames,
        held: Option<VouchedServers>,
    ) -> Self {
        let links = move || director.with(|director, _| director.links_for_names());
        let noting = (known, held);
        Self::start_with(Names::new(), (reserved, machine), noting, links).await
    }

    async fn start_with(
        names: Names,
        (reserved, machine): (ReservedNames, ThisMachine),
        (known, held): (KnownNames, Option<VouchedServers>),
        links: impl Fn() -> Vec<Link> + Send + Sync + 'static,
    ) -> Self {
        let (sender, ports) = watch::channel(Arc::default());
        let mut open = OpenPorts {
            answering: Arc::new(Answering {
                names,
                reserved,
                machine,
                told: ToldNames::default(),
                known,
                held,
                links: Box::new(links),
                limits: Limits::default(),
            }),
            ports: BTreeMap::new(),
            sender,
        };
        open.follow().await;
        let answering = Arc::clone(&open.answering);
        let task = tokio::spawn(async move {
            let mut ticks = Ticks::every(LOOK_EVERY);
            loop {
                ticks.tick().await;
                open.follow().await;
            }
        });
        Self {
            ports,
            task,
            answering,
        }
    }

    /// Returns the address that answers for `server`, which an application is about to ask.
    pub fn stub_of(&self, server: SocketAddr) -> Option<SocketAddr> {
        let ports = self.ports.borrow();
        let number = ports.get(&server.ip()).filter(|_| server.port() == PORT)?;
        Some(SocketAddr::new(loopback(server.ip()), *number))
    }

    /// Returns the server for which the address `stub` answers.
    pub fn server_at(&self, stub: SocketAddr) -> Option<SocketAddr> {
        let ports = self.ports.borrow();
        let mut ports = ports.iter();
        let is_there = |server: IpAddr| loopback(server) == stub.ip();
        let (server, _) =
            ports.find(|(server, number)| **number == stub.port() && is_there(**server))?;
        Some(SocketAddr::new(*server, PORT))
    }

    /// Returns the answer to a datagram of an application at `from` that is meant for no particular
    /// server of this machine: the first server answers. `None` for anything but a query, and where
    /// the application has to ask again.
    pub async fn datagram(&self, from: SocketAddr, query: &[u8]) -> Option<Vec<u8>> {
        let number = u16::from_be_bytes(*query.first_chunk()?);
        let place = self.answering.limits.question(from, number)?;
        let answering = async {
            let links = (self.answering.links)();
            let servers = self.answering.names.servers(&links).await;
            let meant = Meant::For(*servers.first()?);
            self.answering.datagram(query, meant).await
        };
        place.keep(answering).await.flatten()
    }

    /// Answers as the first server at another port, too: for queries of other hosts to this
    /// machine. `listener` and `socket` have the same address.
    ///
    /// # Errors
    /// If the system does not report that address.
    pub fn answer_at(&self, listener: TcpListener, socket: UdpSocket) -> io::Result<StubPort> {
        let answering = Arc::clone(&self.answering);
        let port = Port::serve(listener, socket, Meant::ForAny, answering)?;
        Ok(StubPort { _port: port })
    }

    /// Returns the ports, as they change.
    pub fn ports(&self) -> StubPorts {
        self.ports.clone()
    }
}

/// A port for other hosts, open until this is dropped.
#[derive(Debug)]
pub struct StubPort {
    _port: Port,
}

impl fmt::Debug for NameStub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NameStub").finish_non_exhaustive()
    }
}

impl Drop for NameStub {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct OpenPorts {
    answering: Arc<Answering>,
    ports: BTreeMap<IpAddr, Port>,
    sender: watch::Sender<Arc<BTreeMap<IpAddr, u16>>>,
}

impl OpenPorts {
    /// Opens ports for new servers. Ports of servers that are no longer configured stay while there
    /// is room: applications may still ask them.
    async fn follow(&mut self) {
        let links = (self.answering.links)();
        let servers = self.answering.names.servers(&links).await;
        let is_named = |server: &IpAddr| servers.iter().any(|named| named.ip() == *server);
        for server in servers.iter().take(MAX_SERVERS) {
            if self.ports.contains_key(&server.ip()) {
                continue;
            }
            if self.ports.len() >= MAX_SERVERS {
                self.ports.retain(|server, _| is_named(server));
            }
            match self.open(*server).await {
                Ok(port) => drop(self.ports.insert(server.ip(), port)),
                Err(error) => tracing::debug!(%server, %error,
                    "can't open a loopback port for applications' queries to this name server"),
            }
        }
        if let Some(held) = &self.answering.held {
            let named = servers.iter().map(SocketAddr::ip);
            held.set_name_servers(named.chain(self.ports.keys().copied()).collect());
        }
        let numbers = self
            .ports
            .iter()
            .map(|(server, port)| (*server, port.number));
        let numbers: BTreeMap<IpAddr, u16> = numbers.collect();
        self.sender.send_if_modified(|known| {
            let has_changed = **known != numbers;
            *known = Arc::new(numbers);
            has_changed
        });
    }

    async fn open(&self, server: SocketAddr) -> io::Result<Port> {
        Port::open(server, Arc::clone(&self.answering)).await
    }
}

/// The port of name servers.
const PORT: u16 = 53;
/// Interval at which the name servers are looked up, which reads files.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// More than there can be in practice: sixteen links with four servers each, and the machine's.
const MAX_SERVERS: usize = 48;
