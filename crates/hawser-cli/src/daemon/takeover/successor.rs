//! The new process, as the old one sees it.

use std::collections::VecDeque;
use std::env;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use hawser_net::takeover::{Datagrams, Join, Left, Message, Offer, Pipe, PortOf, listening, pair};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tokio::process::{Child, Command};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use super::{Places, Wanted};
use crate::args::TAKING_OVER;
use crate::daemon::service;

/// A new process that waits for what only one can have.
pub(crate) struct Takeover {
    successor: Successor,
    answer: oneshot::Sender<Result<u32, String>>,
}

/// A new process serves, and whoever asked does not know it yet.
pub(in crate::daemon) struct Served {
    successor: Successor,
    pub(in crate::daemon) process_id: u32,
    answer: oneshot::Sender<Result<u32, String>>,
}

/// There is no new process after all, and whoever asked does not know it yet.
pub(in crate::daemon) struct Failed {
    error: anyhow::Error,
    answer: oneshot::Sender<Result<u32, String>>,
}

/// A new process that serves.
pub(crate) struct Successor {
    pipe: Pipe,
    process: Child,
    deadline: Instant,
    /// What came before it served.
    early: Mutex<VecDeque<Passed>>,
}

/// What came to the new process and is this one's.
pub(crate) enum Passed {
    /// A connection that joins a session, and what it has said.
    Join(OwnedFd, Join),
    /// A connection that a gateway has begun for a session, and what it has said.
    Offer(OwnedFd, Offer),
    /// Datagrams.
    Datagrams(Datagrams),
}

impl Takeover {
    /// Starts the program anew, and waits until it is ready but for what only one process can have.
    /// None if that fails, which whoever asked is told.
    pub(in crate::daemon) async fn begin(
        wanted: Wanted,
        places: Places,
        lock: BorrowedFd<'_>,
    ) -> Option<Self> {
        let Wanted { limit, answer } = wanted;
        match Successor::start(places, lock, limit).await {
            Ok(successor) => Some(Self { successor, answer }),
            Err(error) => {
                tracing::warn!("no upgrade: {error:#}");
                let _ = answer.send(Err(format!("{error:#}")));
                None
            }
        }
    }

    /// What only one process can have is given up. Waits until the new process serves. Else it has
    /// ended when this returns, and whoever asked is yet to be told.
    pub(in crate::daemon) async fn complete(self) -> Result<Served, Failed> {
        let Self {
            mut successor,
            answer,
        } = self;
        match successor.serves().await {
            Ok(()) => {
                let process_id = successor.process.id().unwrap_or_default();
                Ok(Served {
                    successor,
                    process_id,
                    answer,
                })
            }
            Err(error) => {
                let _ = successor.process.start_kill();
                let _ = successor.process.wait().await;
                Err(Failed { error, answer })
            }
        }
    }
}

impl Served {
    /// Whoever asked is told.
    pub(in crate::daemon) fn tell(self) -> Successor {
        let process_id = self.process_id;
        tracing::info!(process_id, "another process has taken over");
        let _ = self.answer.send(Ok(process_id));
        self.successor
    }
}

impl Failed {
    /// Whoever asked is told.
    pub(in crate::daemon) fn tell(self) {
        let problem = format!("{:#}", self.error);
        tracing::error!("no upgrade: {problem}");
        let _ = self.answer.send(Err(problem));
    }
}

impl Successor {
    async fn start(places: Places, lock: BorrowedFd<'_>, limit: Duration) -> anyhow::Result<Self> {
        let (pipe, end) = pair().context("can't make a pair of sockets")?;
        let program = program()?;
        let process = Command::new(&program)
            .args(arguments(env::args_os().skip(1)))
            .stdin(Stdio::from(end))
            // It is for this process.
            .env_remove("WATCHDOG_PID")
            .spawn()
            .with_context(|| format!("can't run {}", program.display()))?;
        let deadline = Instant::now() + limit;
        let mut successor = Self {
            pipe,
            process,
            deadline,
            early: Mutex::default(),
        };
        let prepared = successor.prepare(places, lock).await;
        if prepared.is_err() {
            let _ = successor.process.start_kill();
        }
        prepared.map(|()| successor)
    }

    async fn prepare(&mut self, places: Places, lock: BorrowedFd<'_>) -> anyhow::Result<()> {
        let listeners = listening().context("can't list the listening sockets")?;
        let giving = async {
            for socket in &listeners {
                let socket = Some(socket.as_fd());
                self.pipe.send(&Message::Listener, socket).await?;
            }
            self.pipe.send(&Message::Lock, Some(lock)).await?;
            if let Some(door) = places.door {
                self.pipe.send(&Message::Door(door), None).await?;
            }
            self.pipe.send(&Message::Begin(places.listen), None).await
        };
        // Where it has ended, that tells more.
        let _ = timeout(PATIENCE, giving).await;
        self.hears(&Message::Yield, START_PATIENCE).await
    }

    async fn serves(&mut self) -> anyhow::Result<()> {
        let _ = self.pipe.send(&Message::Yielded, None).await;
        self.hears(&Message::Ready, PATIENCE).await
    }

    /// Waits for a message of the new process. Its port is open before it serves, so what is this
    /// one's may come first.
    async fn hears(&mut self, expected: &Message, patience: Duration) -> anyhow::Result<()> {
        let hearing = async {
            loop {
                let heard = self.pipe.receive().await;
                match heard.context("the new process can't be heard")? {
                    Some((message, _)) if message == *expected => return Ok(true),
                    Some((message, with)) => match Passed::read(message, with) {
                        Some(passed) => self.keep(passed),
                        None => bail!("the new process says something else than was expected"),
                    },
                    None => return Ok(false),
                }
            }
        };
        match timeout(patience, hearing).await {
            Ok(Ok(true)) => Ok(()),
            Ok(Ok(false)) => {
                let status = timeout(PATIENCE, self.process.wait()).await;
                let status = status.map_or_else(|_| "?".to_owned(), |it| shown(it.ok()));
                bail!("the new process has ended ({status}); its log says why")
            }
            Ok(Err(error)) => Err(error),
            Err(_) => bail!(
                "the new process is not ready after {} s",
                patience.as_secs()
            ),
        }
    }

    fn keep(&self, passed: Passed) {
        let mut early = self.early.lock().unwrap_or_else(PoisonError::into_inner);
        // As in any queue, what is too much is lost.
        let most = if passed.is_strangers() {
            MAX_EARLY_OF_STRANGERS
        } else {
            MAX_EARLY
        };
        let alike = early
            .iter()
            .filter(|it| it.is_strangers() == passed.is_strangers());
        if alike.count() < most {
            early.push_back(passed);
        }
    }

    /// Waits for what came to the new process and is this one's; for ever, once that has ended.
    pub(crate) async fn next(&self) -> Passed {
        let early = self
            .early
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front();
        if let Some(early) = early {
            return early;
        }
        loop {
            match self.pipe.receive().await {
                Ok(Some((message, with))) => {
                    if let Some(passed) = Passed::read(message, with) {
                        return passed;
                    }
                }
                Ok(None) | Err(_) => return std::future::pending().await,
            }
        }
    }

    /// Serves by `serving` until nothing is open any more, as `open` counts it, the limit has come,
    /// the new process has ended, or `asked` resolves, since this one is asked to end. The new
    /// process is told what is open.
    pub(crate) async fn serve_rest(
        &self,
        open: impl Fn() -> u64,
        serving: impl Future<Output = ()>,
        asked: impl Future<Output = ()>,
    ) {
        tokio::select! {
            () = self.drained(open) => {}
            () = serving => {}
            () = asked => {}
            // Whoever looks after this process starts both anew.
            () = self.has_ended() => {
                tracing::error!("the process that has taken over has ended: so does this one");
            }
        }
    }

    /// Waits until the new process has ended.
    async fn has_ended(&self) {
        let id = self
            .process
            .id()
            .and_then(|id| Pid::from_raw(id.cast_signed()));
        // It is this one's child, and nobody waits for it meanwhile: its number stays.
        while id.is_some_and(is_alive) {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Waits until nothing is open any more for a while, or the limit has come.
    async fn drained(&self, open: impl Fn() -> u64) {
        let mut quiet = 0;
        loop {
            let open = open();
            let left = self.deadline.saturating_duration_since(Instant::now());
            let seconds = left.as_secs();
            let _ = self
                .pipe
                .try_send(&Message::Left(Left { open, seconds }), None);
            quiet = if open == 0 { quiet + 1 } else { 0 };
            if quiet > LOOKS {
                return tracing::info!("all that was open here has ended");
            }
            if left.is_zero() {
                return tracing::warn!(open, "the limit has come: what is still open ends");
            }
            tokio::time::sleep(LOOK_EVERY.min(left)).await;
        }
    }

    /// Waits for the end of the new process where no service manager does: a shell or a container
    /// waits for this one. `asked` resolves when this process is asked to end; so is the new one.
    pub(crate) async fn outlive(self, asked: impl Future<Output = ()>) -> anyhow::Result<()> {
        let Self {
            pipe, mut process, ..
        } = self;
        // The new one sees that nothing is served here any more.
        drop(pipe);
        if service::is_managed() {
            return Ok(());
        }
        let status = tokio::select! {
            status = process.wait() => status,
            () = asked => {
                let id = process.id().and_then(|id| Pid::from_raw(id.cast_signed()));
                let _ = id.map(|id| kill_process(id, Signal::TERM));
                process.wait().await
            }
        };
        match status {
            Ok(status) if status.success() => Ok(()),
            status => Err(anyhow!(
                "the process that has taken over: {}",
                shown(status.ok())
            )),
        }
    }
}

impl Passed {
    fn read(message: Message, with: Option<OwnedFd>) -> Option<Self> {
        match (message, with) {
            (Message::Join(said), Some(connection)) => Some(Self::Join(connection, said)),
            (Message::Offer(said), Some(connection)) => Some(Self::Offer(connection, said)),
            (Message::Datagrams(datagrams), _) => Some(Self::Datagrams(datagrams)),
            _ => None,
        }
    }

    /// Whether it came to a port that is open to everybody.
    fn is_strangers(&self) -> bool {
        matches!(self, Self::Join(_, join) if join.port == PortOf::Strangers)
    }
}

/// Whether a child has not ended. It stays for whoever waits for it.
fn is_alive(process: Pid) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    matches!(waitid(WaitId::Pid(process), options), Ok(None))
}

fn shown(status: Option<ExitStatus>) -> String {
    status.map_or_else(|| "?".to_owned(), |status| status.to_string())
}

/// The program, as it is now in the place where this one came from.
fn program() -> anyhow::Result<PathBuf> {
    let path = env::current_exe().context("can't find this program")?;
    // So the kernel marks one that was replaced (proc_pid_exe(5)).
    let bytes = path.as_os_str().as_bytes();
    let bytes = bytes.strip_suffix(b" (deleted)").unwrap_or(bytes);
    Ok(PathBuf::from(OsString::from_vec(bytes.to_vec())))
}

/// This process's arguments, for one that takes over.
fn arguments(own: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let flag = format!("--{TAKING_OVER}");
    let others = own.filter(|it| it != OsStr::new(&flag));
    [OsString::from(&flag)].into_iter().chain(others).collect()
}

/// The new process connects to a gateway meanwhile.
const START_PATIENCE: Duration = Duration::from_secs(12);
/// For what takes no time but the system's.
const PATIENCE: Duration = Duration::from_secs(4);
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Looks that have to find nothing open, one after the other: a handshake takes up to 3 s.
const LOOKS: u32 = 12;
/// Connections and messages with datagrams that are kept before the new process serves, of clients.
const MAX_EARLY: usize = 256;
/// Connections of strangers that are kept beside.
const MAX_EARLY_OF_STRANGERS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_is_given_once() {
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let first = arguments(words(&["up", "--listen", "[::1]:0"]).into_iter());
        assert_eq!(
            first,
            words(&["--taking-over", "up", "--listen", "[::1]:0"])
        );
        assert_eq!(arguments(first.clone().into_iter()), first);
    }
}
