//! The old process, as the new one sees it.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use hawser_net::takeover::{Left, Message, Pipe, ToPredecessor, inherit, let_go};
use tokio::sync::watch;
use tokio::time::timeout;

/// A process whose place this one takes.
pub(crate) struct Predecessor {
    pipe: Arc<Pipe>,
    to: ToPredecessor,
    /// The address that it listens at.
    listen: Option<SocketAddr>,
    /// The one that hosts come to which are known by name.
    door: Option<SocketAddr>,
    lock: Mutex<Option<File>>,
    heard: watch::Receiver<Heard>,
}

/// What the old process has said.
#[derive(Clone, Copy, Default)]
struct Heard {
    has_yielded: bool,
    is_gone: bool,
    left: Left,
}

impl Predecessor {
    /// Takes what the process that has started this one gives, by standard input.
    pub(crate) async fn meet() -> anyhow::Result<Self> {
        let end = io::stdin().as_fd().try_clone_to_owned()?;
        let pipe = Pipe::new(end).map_err(|_| anyhow!("only hawser itself takes over"))?;
        // It ends with the pipe, and nothing else may read there.
        rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
        let (mut lock, mut door) = (None, None);
        let listen = loop {
            let message = timeout(PATIENCE, pipe.receive()).await;
            let message = message.context("the process before says nothing")??;
            match message.context("the process before has ended")? {
                (Message::Listener, Some(socket)) => inherit(socket),
                (Message::Lock, Some(file)) => lock = Some(File::from(file)),
                (Message::Door(address), _) => door = Some(address),
                (Message::Begin(address), _) => break address,
                _ => bail!("the process before says something else than was expected"),
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

    /// The address to listen at where `wanted` leaves the port to the system: the one of before.
    pub(crate) fn listen(&self, wanted: SocketAddr) -> SocketAddr {
        let before = self.listen.filter(|it| it.ip() == wanted.ip());
        before.filter(|_| wanted.port() == 0).unwrap_or(wanted)
    }

    /// The address at which hosts that are known by name come to it, if any do.
    pub(crate) fn door(&self) -> Option<SocketAddr> {
        self.door
    }

    /// Where what is its goes.
    pub(crate) fn to(&self) -> ToPredecessor {
        self.to.clone()
    }

    /// The locked file of the state directory. Once only.
    pub(in crate::daemon) fn take_lock(&self) -> Option<File> {
        let mut lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        lock.take()
    }

    /// Has it give up what only one process can have, and waits until that is done.
    pub(in crate::daemon) async fn yields(&self) -> anyhow::Result<()> {
        self.pipe.send(&Message::Yield, None).await?;
        let mut heard = self.heard.clone();
        let said = heard.wait_for(|heard| heard.has_yielded || heard.is_gone);
        let said = timeout(PATIENCE, said)
            .await
            .map(|it| it.is_ok_and(|it| it.has_yielded));
        if said.context("the process before does not yield")? {
            Ok(())
        } else {
            bail!("the process before has ended")
        }
    }

    /// From now on this process serves.
    pub(in crate::daemon) async fn is_succeeded(&self) -> anyhow::Result<()> {
        let told = timeout(PATIENCE, self.pipe.send(&Message::Ready, None)).await;
        told.context("the process before does not hear")??;
        tokio::spawn(async {
            // Tasks that have begun to follow the links take theirs first.
            tokio::time::sleep(TAKEN_BY_THEN).await;
            let_go();
        });
        Ok(())
    }

    /// What it still serves; none once it has ended.
    pub(crate) fn left(&self) -> Option<Left> {
        let heard = *self.heard.borrow();
        (!heard.is_gone).then_some(heard.left)
    }
}

/// Notes what the old process says until it ends.
async fn listen_to(pipe: Arc<Pipe>, to: ToPredecessor, hear: watch::Sender<Heard>) {
    while let Ok(Some((message, _))) = pipe.receive().await {
        hear.send_modify(|heard| match message {
            Message::Yielded => heard.has_yielded = true,
            Message::Left(left) => heard.left = left,
            _ => {}
        });
    }
    to.note_gone();
    tracing::info!("the process before has ended");
    hear.send_modify(|heard| heard.is_gone = true);
}

/// For what takes no time but the system's.
const PATIENCE: Duration = Duration::from_secs(4);
/// Sockets that are not listened on by then are not wanted any more.
const TAKEN_BY_THEN: Duration = Duration::from_secs(5);
