//! The old process, as the new one sees it.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use hawser_link::inherited;
use hawser_net::takeover::{Left, Message, Pipe, ToPredecessor};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::timeout;

/// The process that this one takes over from.
pub(crate) struct Predecessor {
    pipe: Arc<Pipe>,
    to: ToPredecessor,
    /// The address at which the old process listens.
    listen: Option<SocketAddr>,
    /// The address for hosts that are known by name.
    door: Option<SocketAddr>,
    lock: Mutex<Option<File>>,
    heard: watch::Receiver<Heard>,
}

/// State of the old process, from its messages.
#[derive(Clone, Copy, Default)]
struct Heard {
    has_yielded: bool,
    is_gone: bool,
    left: Left,
}

impl Predecessor {
    /// Receives sockets, lock and addresses from the process that started this one, over standard
    /// input.
    pub(crate) async fn meet() -> anyhow::Result<Self> {
        let end = io::stdin().as_fd().try_clone_to_owned()?;
        let pipe = Pipe::new(end).map_err(|_| anyhow!("only hawser itself uses this flag"))?;
        // Standard input must end with the pipe, and no other code may read from it.
        rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
        let (mut lock, mut door) = (None, None);
        let listen = loop {
            let message = timeout(PATIENCE, pipe.receive()).await;
            let message = message.context("the old process does not answer")??;
            match message.context("the old process has ended")? {
                (Message::Listener, Some(socket)) => inherited::keep(socket),
                (Message::Lock, Some(file)) => lock = Some(File::from(file)),
                (Message::Door(address), _) => door = Some(address),
                (Message::Begin(address), _) => break address,
                _ => bail!("the old process has sent an unexpected message"),
            }
        };
        let pipe = Arc::new(pipe);
        let to = ToPredecessor::new(Arc::clone(&pipe));
        let (hear, heard) = watch::channel(Heard::default());
        tokio::spawn(listen_to(Arc::clone(&pipe), to.clone(), hear));
        Ok(Self {
            pipe,
            to,
            listen,
            door,
            lock: Mutex::new(lock),
            heard,
        })
    }

    /// Returns the address to listen at: the old process's if `wanted` lets the system choose the
    /// port, else `wanted`.
    pub(crate) fn listen(&self, wanted: SocketAddr) -> SocketAddr {
        let before = self.listen.filter(|it| it.ip() == wanted.ip());
        before.filter(|_| wanted.port() == 0).unwrap_or(wanted)
    }

    /// Returns the old process's address for hosts that are known by name, if it has one.
    pub(crate) fn door(&self) -> Option<SocketAddr> {
        self.door
    }

    /// Returns the channel for connections and datagrams that belong to the old process.
    pub(crate) fn to(&self) -> ToPredecessor {
        self.to.clone()
    }

    /// Returns the locked file of the state directory, at the first call.
    pub(crate) fn take_lock(&self) -> Option<File> {
        let mut lock = self.lock.lock();
        lock.take()
    }

    /// Makes the old process yield the resources that only one process can have, and waits for
    /// that.
    pub(crate) async fn yields(&self) -> anyhow::Result<()> {
        self.pipe.send(&Message::Yield, None).await?;
        let mut heard = self.heard.clone();
        let said = heard.wait_for(|heard| heard.has_yielded || heard.is_gone);
        let said = timeout(PATIENCE, said)
            .await
            .map(|it| it.is_ok_and(|it| it.has_yielded));
        if said.context("the old process does not give up its resources")? {
            Ok(())
        } else {
            bail!("the old process has ended")
        }
    }

    /// Tells the old process that this one serves from now on.
    pub(crate) async fn is_succeeded(&self) -> anyhow::Result<()> {
        let told = timeout(PATIENCE, self.pipe.send(&Message::Ready, None)).await;
        told.context("the old process does not receive messages")??;
        tokio::spawn(async {
            // Tasks that follow the links take their sockets first.
            tokio::time::sleep(TAKEN_BY_THEN).await;
            inherited::let_go();
        });
        Ok(())
    }

    /// Returns what the old process still serves; `None` once it has ended.
    pub(crate) fn left(&self) -> Option<Left> {
        let heard = *self.heard.borrow();
        (!heard.is_gone).then_some(heard.left)
    }
}

/// Handles messages of the old process until it ends.
async fn listen_to(pipe: Arc<Pipe>, to: ToPredecessor, hear: watch::Sender<Heard>) {
    while let Ok(Some((message, _))) = pipe.receive().await {
        hear.send_modify(|heard| match message {
            Message::Yielded => heard.has_yielded = true,
            Message::Left(left) => heard.left = left,
            _ => {}
        });
    }
    to.note_gone();
    tracing::info!("old process has ended");
    hear.send_modify(|heard| heard.is_gone = true);
}

/// Time limit for steps that involve only the two processes.
const PATIENCE: Duration = Duration::from_secs(4);
/// Inherited sockets that are not used by then are closed.
const TAKEN_BY_THEN: Duration = Duration::from_secs(5);
