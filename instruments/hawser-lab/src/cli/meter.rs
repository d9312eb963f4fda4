//! The hidden commands: programs that the lab starts inside its namespaces.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use clap::{Subcommand, ValueEnum};
use hawser::{Encryption, TransportChoice};

use crate::cut::{self, VisitArguments};
use crate::meter::{
    self, AssociationOrder, Congestion, CrowdOrder, DatagramOrder, Embedding, LibraryOrder,
    ManyClients, Order, QuicOrder,
};
use crate::output::print;
use crate::relay;
use crate::scenario::Direction;
use crate::watchers::{self, WatchArguments};

#[derive(Debug, Subcommand)]
pub(super) enum MeterCommand {
    /// Serve transfers, over TCP and over MPTCP where there is any
    Serve,
    /// Send bytes to the server
    Put(TransferArguments),
    /// Fetch bytes from the server
    Get(TransferArguments),
    /// Carry connections on to another address
    Relay {
        listen: SocketAddrV4,
        target: SocketAddrV4,
    },
    /// Time calls of connect, as the input asks
    Connects { server: SocketAddrV4 },
    /// Keep connections open and make new ones, and write down their outcomes
    Visits(VisitArguments),
    /// Monitor a daemon over HTTP until the input ends, and print its answers
    Watch(WatchArguments),
    /// Serve transfers as a program that embeds the library
    LibraryServe {
        listen: SocketAddr,
        invites: PathBuf,
        /// Number of invites
        #[arg(long, default_value_t = 1)]
        count: u32,
        #[command(flatten)]
        how: LibraryOptions,
    },
    /// Send bytes from many clients at once, each a program's endpoint
    CrowdPut(CrowdArguments),
    /// Fetch bytes for many clients at once
    CrowdGet(CrowdArguments),
    /// Hold many clients of one gateway, and do what the input asks for
    ManyClients(ManyClients),
    /// Be one end of an association
    Association(AssociationOrder),
    /// Be one end of QUIC connections, one from each address
    Quic(QuicOrder),
    /// Count datagrams of clients, and send them what they ask for
    DatagramsServe { listen: SocketAddr },
    /// Send datagrams to such a server, or fetch them
    Datagrams(DatagramOrder),
    /// Send bytes as a program that embeds the library
    LibraryPut(LibraryArguments),
    /// Fetch bytes as a program that embeds the library
    LibraryGet(LibraryArguments),
}

#[derive(Debug, clap::Args)]
pub(super) struct LibraryArguments {
    bytes: u64,
    invite: PathBuf,
    state: PathBuf,
    #[command(flatten)]
    how: LibraryOptions,
    #[arg(long = "link")]
    links: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(super) struct CrowdArguments {
    bytes: u64,
    invites: PathBuf,
    #[command(flatten)]
    how: LibraryOptions,
    #[arg(long = "link")]
    links: Vec<String>,
}

#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct LibraryOptions {
    #[arg(long)]
    plain: bool,
    #[arg(long, default_value = "tcp")]
    transport: TransportChoice,
}

#[derive(Debug, clap::Args)]
pub(super) struct TransferArguments {
    server: SocketAddrV4,
    bytes: u64,
    #[arg(long)]
    src: Option<Ipv4Addr>,
    #[arg(long)]
    device: Option<String>,
    #[arg(long, default_value = "tcp")]
    proto: Protocol,
    #[arg(long)]
    cc: Option<Congestion>,
    #[arg(long)]
    socks: Option<SocketAddrV4>,
    /// Seconds without a byte
    #[arg(long, default_value_t = 60)]
    patience: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Protocol {
    Tcp,
    Mptcp,
}

impl MeterCommand {
    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Serve => meter::serve_all()?,
            Self::Put(arguments) => arguments.execute(Direction::Put)?,
            Self::Get(arguments) => arguments.execute(Direction::Get)?,
            Self::Relay { listen, target } => relay::serve(listen, target)?,
            Self::Connects { server } => meter::connects(server)?,
            Self::Visits(arguments) => cut::visit(&arguments)?,
            Self::Watch(arguments) => watchers::watch(&arguments)?,
            Self::LibraryServe {
                listen,
                invites,
                count,
                how,
            } => meter::serve_library(listen, &invites, count, how.embedding())?,
            Self::CrowdPut(arguments) => arguments.execute(Direction::Put)?,
            Self::CrowdGet(arguments) => arguments.execute(Direction::Get)?,
            Self::ManyClients(order) => meter::run_many_clients(&order)?,
            Self::Association(order) => {
                let outcome = meter::run_association(&order)?;
                print(&serde_json::to_string(&outcome)?)?;
            }
            Self::Quic(order) => {
                let outcome = meter::run_quic(&order)?;
                print(&serde_json::to_string(&outcome)?)?;
            }
            Self::DatagramsServe { listen } => meter::serve_datagrams(listen)?,
            Self::Datagrams(order) => {
                let outcome = meter::run_datagrams(&order)?;
                print(&serde_json::to_string(&outcome)?)?;
            }
            Self::LibraryPut(arguments) => arguments.execute(Direction::Put)?,
            Self::LibraryGet(arguments) => arguments.execute(Direction::Get)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl TransferArguments {
    fn execute(self, direction: Direction) -> anyhow::Result<()> {
        let order = Order {
            direction,
            server: self.server,
            bytes: self.bytes,
            source: self.src,
            device: self.device,
            mptcp: self.proto == Protocol::Mptcp,
            congestion: self.cc,
            socks: self.socks,
            patience: Duration::from_secs(self.patience.max(1)),
        };
        let outcome = meter::transfer(&order, &AtomicU64::new(0))?;
        print(&serde_json::to_string(&outcome)?)
    }
}

impl LibraryArguments {
    fn execute(self, direction: Direction) -> anyhow::Result<()> {
        let outcome = meter::library_transfer(&LibraryOrder {
            direction,
            bytes: self.bytes,
            invite: self.invite,
            state: self.state,
            links: self.links,
            how: self.how.embedding(),
        })?;
        print(&serde_json::to_string(&outcome)?)
    }
}

impl CrowdArguments {
    fn execute(self, direction: Direction) -> anyhow::Result<()> {
        let outcome = meter::run_crowd(&CrowdOrder {
            direction,
            bytes: self.bytes,
            invites: self.invites,
            links: self.links,
            how: self.how.embedding(),
        })?;
        print(&serde_json::to_string(&outcome)?)
    }
}

impl LibraryOptions {
    fn embedding(self) -> Embedding {
        Embedding {
            encryption: if self.plain {
                Encryption::None
            } else {
                Encryption::Default
            },
            transport: self.transport,
        }
    }
}
