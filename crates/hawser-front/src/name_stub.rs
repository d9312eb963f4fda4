//! Answers what captured programs, and hosts behind this machine, ask name servers.
//!
//! Each name server of this machine has a port on loopback here, to which the programs' questions
//! are turned. So it is known which server a program meant, and which one it is to hear the answer
//! from. The answers are those of [`Names::answer`]: the server that was asked comes first, and
//! those of links where it is silent.

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

use hawser_net::links::Link;
use hawser_net::names::Names;
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

/// The ports that answer programs, open until this is dropped.
pub struct NameStub {
    ports: StubPorts,
    task: JoinHandle<()>,
    answering: Arc<Answering>,
}

impl NameStub {
    /// Answers for the name servers of this machine, with the help of the links that `director`
    /// allows for names. Nobody is asked for `reserved` ones. Follows servers as they come. The
    /// addresses in answers are noted in `known`; those of names that are `held` are told once
    /// connections to them are held, too. Names lead to `machine` only where they mean it.
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

    /// The address that answers for `server`, which a program is about to ask.
    pub fn stub_of(&self, server: SocketAddr) -> Option<SocketAddr> {
        let ports = self.ports.borrow();
        let number = ports.get(&server.ip()).filter(|_| server.port() == PORT)?;
        Some(SocketAddr::new(loopback(server.ip()), *number))
    }

    /// The server for which the address `stub` answers.
    pub fn server_at(&self, stub: SocketAddr) -> Option<SocketAddr> {
        let ports = self.ports.borrow();
        let mut ports = ports.iter();
        let is_there = |server: IpAddr| loopback(server) == stub.ip();
        let (server, _) =
            ports.find(|(server, number)| **number == stub.port() && is_there(**server))?;
        Some(SocketAddr::new(*server, PORT))
    }

    /// The answer to a datagram of a program at `from` that is meant for no server of this machine
    /// in particular: as the first one answers. None for what is no question, and where the program
    /// has to ask again.
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

    /// Answers at another port, too, as the first server does: what other hosts ask this machine.
    /// `listener` and `socket` have the same address.
    ///
    /// # Errors
    /// When the system does not say which.
    pub fn answer_at(&self, listener: TcpListener, socket: UdpSocket) -> io::Result<StubPort> {
        let answering = Arc::clone(&self.answering);
        let port = Port::serve(listener, socket, Meant::ForAny, answering)?;
        Ok(StubPort { _port: port })
    }

    /// The ports, as they come.
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
    /// Opens ports for servers that have come. Those of servers that are named no more stay while
    /// there is room: programs may still ask them.
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
                Err(error) => tracing::debug!(%server, %error, "it is asked as without Hawser"),
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

/// Where name servers listen.
const PORT: u16 = 53;
/// Files are read for it.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Sixteen links with four servers each, and those of the machine, are never all there.
const MAX_SERVERS: usize = 48;
