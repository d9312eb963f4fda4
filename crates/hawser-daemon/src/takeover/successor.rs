//! The new process, as the old one sees it.

use std::collections::VecDeque;
use std::env;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use hawser_link::inherited::listening;
use hawser_net::takeover::{Datagrams, Join, Left, Message, Offer, Pipe, PortOf, pair};
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tokio::process::{Child, Command};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use super::{Places, Wanted};
use crate::service;
use crate::setup::TAKING_OVER;

/// A new process that waits for the resources that only one process can have.
pub(crate) struct Takeover {
    successor: Successor,
    answer: oneshot::Sender<Result<u32, String>>,
}

/// A successful upgrade that was not reported yet.
pub(crate) struct Served {
    successor: Successor,
    pub(crate) process_id: u32,
    answer: oneshot::Sender<Result<u32, String>>,
}

/// A failed upgrade that was not reported yet.
pub(crate) struct Failed {
    error: anyhow::Error,
    answer: oneshot::Sender<Result<u32, String>>,
}

/// A new process that serves.
pub(crate) struct Successor {
    pipe: Pipe,
    process: Child,
    deadline: Instant,
    /// Connections and datagrams for this process from before the new process served.
    early: Mutex<VecDeque<Passed>>,
}

/// A connection or datagrams that the new process received for this one.
pub(crate) enum Passed {
    /// A connection that joins a session, and its first message.
    Join(OwnedFd, Join),
    /// A connection that a gateway has begun for a session, and its first message.
    Offer(OwnedFd, Offer),
    /// Datagrams.
    Datagrams(Datagrams),
}

impl Takeover {
    /// Starts a new process, and waits until it lacks only the resources that this process has.
    /// On failure, answers the request with the error and returns `None`.
    pub(crate) async fn begin(
        wanted: Wanted,
        places: Places,
        lock: BorrowedFd<'_>,
    ) -> Option<Self> {
        let Wanted { limit, answer } = wanted;
        match Successor::start(places, lock, limit).await {
            Ok(successor) => Some(Self { successor, answer }),
            Err(error) => {
                tracing::warn!("upgrade failed: {error:#}");
                let _ = answer.send(Err(format!("{error:#}")));
                None
            }
        }
    }

    /// Waits until the new process serves. Call after this process has yielded its resources. On
    /// failure, the new process has ended when this returns, and the request is not answered yet.
    pub(crate) async fn complete(self) -> Result<Served, Failed> {
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
    /// Answers the request with the result.
    pub(crate) fn tell(self) -> Successor {
        let process_id = self.process_id;
        tracing::info!(process_id, "another process has taken over");
        let _ = self.answer.send(Ok(process_id));
        self.successor
    }
}

impl Failed {
    /// Answers the request with the result.
    pub(crate) fn tell(self) {
        let problem = format!("{:#}", self.error);
        tracing::error!("upgrade failed: {problem}");
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
            // The variable names this process.
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
        // If the new process has ended, the error below tells more.
        let _ = timeout(PATIENCE, giving).await;
        self.hears(&Message::Yield, START_PATIENCE).await
    }

    async fn serves(&mut self) -> anyhow::Result<()> {
        let _ = self.pipe.send(&Message::Yielded, None).await;
        self.hears(&Message::Ready, PATIENCE).await
    }

    /// Waits for a message of the new process. Its port is open before it serves, so connections
    /// for this process may arrive first.
    async fn hears(&mut self, expected: &Message, patience: Duration) -> anyhow::Result<()> {
        let hearing = async {
            loop {
                let heard = self.pipe.receive().await;
                match heard.context("can't receive from the new process")? {
                    Some((message, _)) if message == *expected => return Ok(true),
                    Some((message, with)) => match Passed::read(message, with) {
                        Some(passed) => self.keep(passed),
                        None => bail!("the new process has sent an unexpected message"),
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
        let mut early = self.early.lock();
        // A full queue drops further entries.
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

    /// Waits for the next connection or datagrams that the new process received for this one; for
    /// ever once the new process has ended.
    pub(crate) async fn next(&self) -> Passed {
        let early = self.early.lock().pop_front();
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

    /// Polls `serving` until no connection is open (`open` counts them), the time limit is reached,
    /// the new process has ended, or `asked` resolves because this process is asked to end. Reports
    /// the number of open connections to the new process.
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
            // The supervisor of this process restarts the daemon.
            () = self.has_ended() => {
                tracing::error!("new process has ended, ending the old one as well");
            }
        }
    }

    /// Waits until the new process has ended.
    async fn has_ended(&self) {
        let id = self
            .process
            .id()
            .and_then(|id| Pid::from_raw(id.cast_signed()));
        // The new process is a child that no other code waits for, so its id stays valid.
        while id.is_some_and(is_alive) {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Waits until no connection has been open for a while, or the time limit is reached.
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
                return tracing::info!("all connections of the old process have ended");
            }
            if left.is_zero() {
                return tracing::warn!(open, "grace period over, closing open connections");
            }
            tokio::time::sleep(LOOK_EVERY.min(left)).await;
        }
    }

    /// Keeps this process alive until the new process ends, because a shell or a container may
    /// wait for this process. Returns at once under a service manager, which follows the new
    /// process itself. When `asked` resolves, asks the new process to end, too.
    pub(crate) async fn outlive(self, asked: impl Future<Output = ()>) -> anyhow::Result<()> {
        let Self {
            pipe, mut process, ..
        } = self;
        // Closing the pipe tells the new process that this one serves nothing any more.
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
                "the process that has taken over has failed: {}",
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

    /// Returns whether the connection arrived at a port that is open to all hosts.
    fn is_strangers(&self) -> bool {
        matches!(self, Self::Join(_, join) if join.port == PortOf::Strangers)
    }
}

/// Returns whether a child process has not ended. Does not reap the child.
fn is_alive(process: Pid) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    matches!(waitid(WaitId::Pid(process), options), Ok(None))
}

fn shown(status: Option<ExitStatus>) -> String {
    status.map_or_else(|| "?".to_owned(), |status| status.to_string())
}

/// Returns the program's file, which may have been replaced since this process started.
fn program() -> anyhow::Result<PathBuf> {
    let path = env::current_exe().context("can't find this program")?;
    // The kernel adds this suffix if the file was replaced (proc_pid_exe(5)).
    let bytes = path.as_os_str().as_bytes();
    let bytes = bytes.strip_suffix(b" (deleted)").unwrap_or(bytes);
    Ok(PathBuf::from(OsString::from_vec(bytes.to_vec())))
}

/// Returns this process's arguments, with the flag for a process that takes over.
fn arguments(own: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let flag = format!("--{TAKING_OVER}");
    let others = own.filter(|it| it != OsStr::new(&flag));
    [OsString::from(&flag)].into_iter().chain(others).collect()
}

/// Time limit for the start of the new process, which connects to a gateway meanwhile.
const START_PATIENCE: Duration = Duration::from_secs(12);
/// Time limit for steps that involve only the two processes.
const PATIENCE: Duration = Duration::from_secs(4);
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Consecutive looks that must find no open connection: a handshake takes up to 3 s.
const LOOKS: u32 = 12;
/// Limit of clients' connections and datagrams that are kept before the new process serves.
const MAX_EARLY: usize = 256;
/// Limit of strangers' connections that are kept in addition.
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
