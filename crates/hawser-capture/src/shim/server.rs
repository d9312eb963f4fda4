//! Server that answers the shims.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::SocketAddr as UnixAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::message::{Answer, Operation, REQUEST_LENGTH, Request, TOKEN_LENGTH};
use super::registry::Registry;
use crate::process::Process;

/// Decides whether to take a connection, and which address answers for a name server.
pub trait Admit: Send + Sync + 'static {
    /// Tells whether the daemon takes the connection of `process` to `destination`. The program
    /// waits meanwhile.
    fn admits(
        &self,
        destination: SocketAddr,
        process: &Process,
    ) -> impl Future<Output = bool> + Send;

    /// Tells whether `process` may send datagrams to `destination`.
    fn admits_datagrams(&self, destination: SocketAddr, process: &Process) -> bool;

    /// Returns the loopback address that answers for the name server `server`, if there is one.
    fn stub_of(&self, server: SocketAddr) -> Option<SocketAddr>;

    /// Returns the name server for which the loopback address `stub` answers.
    fn server_at(&self, stub: SocketAddr) -> Option<SocketAddr>;
}

/// The socket for requests of shims; it is closed when this is dropped.
#[derive(Debug)]
pub struct ShimServer {
    name: String,
    token: [u8; TOKEN_LENGTH],
    registry: Registry,
    task: JoinHandle<()>,
}

impl ShimServer {
    /// Opens a socket with a random name, in this network namespace only: programs in others could
    /// not reach the redirect port either.
    ///
    /// # Errors
    /// Fails with the system's error.
    pub fn start(admit: impl Admit) -> io::Result<Self> {
        let name = hexadecimal(&rand::random::<[u8; 16]>());
        let token = rand::random();
        let address = UnixAddr::from_abstract_name(&name)?;
        let listener = std::os::unix::net::UnixListener::bind_addr(&address)?;
        listener.set_nonblocking(true)?;
        let registry = Registry::default();
        let context = Context {
            token,
            registry: registry.clone(),
            admit,
        };
        let task = tokio::spawn(serve(UnixListener::from_std(listener)?, Arc::new(context)));
        Ok(Self {
            name,
            token,
            registry,
            task,
        })
    }

    /// Returns the registry.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Returns the settings for the shim, as its environment variable. `v4` and `v6` are the
    /// redirect ports on the loopback address of each family. Without `holds`, datagrams may go
    /// anywhere, and no shim asks about them.
    pub fn settings(&self, v4: u16, v6: Option<u16>, holds: bool) -> String {
        let (token, v6, holds) = (hexadecimal(&self.token), v6.unwrap_or(0), u8::from(holds));
        format!("{}/{token}/{v4}/{v6}/{holds}", self.name)
    }
}

impl Drop for ShimServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Context<A> {
    token: [u8; TOKEN_LENGTH],
    registry: Registry,
    admit: A,
}

async fn serve<A: Admit>(listener: UnixListener, context: Arc<Context<A>>) {
    let places = Arc::new(Semaphore::new(MAX_QUESTIONS));
    loop {
        // Further requests wait in the kernel; their programs connect directly after a second.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, _)) => {
                let context = Arc::clone(&context);
                tokio::spawn(async move {
                    // A shim gives up before a late answer.
                    let _ = timeout(PATIENCE, context.converse(stream)).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept requests of preloaded libraries");
                tokio::time::sleep(EXHAUSTED_PAUSE).await;
            }
        }
    }
}

impl<A: Admit> Context<A> {
    async fn converse(&self, mut stream: UnixStream) -> io::Result<()> {
        let mut bytes = [0; REQUEST_LENGTH];
        stream.read_exact(&mut bytes).await?;
        let answer = match Request::read(&bytes) {
            Ok(request) if request.token == self.token => {
                let who = stream.peer_cred()?;
                let id = who.pid().and_then(|id| u32::try_from(id).ok());
                self.answer(&request, id, who.uid()).await
            }
            Ok(_) => return Err(io::ErrorKind::PermissionDenied.into()),
            Err(fault) => {
                tracing::debug!(%fault, "refusing a malformed request of a preloaded library");
                return Err(io::ErrorKind::InvalidData.into());
            }
        };
        stream.write_all(&answer.to_bytes()).await
    }

    async fn answer(&self, request: &Request, id: Option<u32>, user: u32) -> Answer {
        let cookie = request.cookie;
        let address = |found: Option<_>| found.map_or(Answer::Leave, Answer::Address);
        match request.operation {
            Operation::Peer => address(self.registry.peer(cookie)),
            Operation::StubOf(server) => address(self.admit.stub_of(server)),
            Operation::ServerAt(stub) => address(self.admit.server_at(stub)),
            Operation::Datagram(destination) => {
                let process = Process::read(id, user);
                if self.admit.admits_datagrams(destination, &process) {
                    Answer::Leave
                } else {
                    Answer::Refuse
                }
            }
            Operation::Connect(destination) if is_local(destination.ip()) => Answer::Leave,
            Operation::Connect(destination) => {
                let process = Process::read(id, user);
                let wanted = self.admit.admits(destination, &process).await
                    && self
                        .registry
                        .announce(cookie, destination, process, Instant::now());
                if wanted {
                    Answer::Redirect
                } else {
                    Answer::Leave
                }
            }
        }
    }
}

/// Tells whether an address is not reached through an uplink.
fn is_local(ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    ip.is_loopback() || ip.is_unspecified() || ip.is_multicast()
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

const MAX_QUESTIONS: usize = 256;
const PATIENCE: Duration = Duration::from_secs(2);
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);
