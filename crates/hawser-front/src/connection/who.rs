use std::fmt;
use std::future::ready;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use hawser_net::asker::{Askers, Process};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::Origin;

/// Finds out which programs ask for connections, on a thread of its own, which ends with the last of
/// these.
#[derive(Clone, Debug)]
pub struct Who {
    questions: SyncSender<Question>,
    wanted: Wanted,
    needed: Wanted,
}

/// Whether it matters who asks.
#[derive(Clone)]
struct Wanted(Arc<dyn Fn() -> bool + Send + Sync>);

/// Who asks, as soon as that is known; after a moment, as much as is known then.
pub type Asker = Shared<BoxFuture<'static, Origin>>;

#[derive(Debug)]
struct Question {
    peer: SocketAddr,
    local: SocketAddr,
    answer: oneshot::Sender<Process>,
}

impl Who {
    /// Begins.
    ///
    /// # Errors
    /// When the kernel can't be asked, or there can be no thread.
    pub fn start() -> io::Result<Self> {
        let askers = Askers::open()?;
        let (questions, asked) = sync_channel(MAX_WAITING);
        std::thread::Builder::new()
            .name("hawser-who".to_owned())
            .spawn(move || answer_all(askers, &asked))?;
        Ok(Self {
            questions,
            wanted: Wanted(Arc::new(|| true)),
            needed: Wanted(Arc::new(|| false)),
        })
    }

    /// The same for as long as `wanted` says so; in between nobody is asked.
    #[must_use]
    pub fn only_while(self, wanted: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        let wanted = Wanted(Arc::new(wanted));
        Self { wanted, ..self }
    }

    /// The same, and connections wait for the answer for as long as `needed` says that they have to:
    /// what rules promise does not depend on how busy the machine is.
    #[must_use]
    pub fn needed_while(self, needed: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        let needed = Wanted(Arc::new(needed));
        Self { needed, ..self }
    }

    /// Who is at the other end of a connection that was accepted from `peer` at `local`.
    pub fn ask(&self, peer: SocketAddr, local: SocketAddr) -> Asker {
        if !peer.ip().to_canonical().is_loopback() || !(self.wanted.0)() {
            return nobody();
        }
        // Too many at once: the connection matters more than whose it is.
        let Some(answered) = self.question(peer, local) else {
            return nobody();
        };
        let patience = match (self.needed.0)() {
            true => NEEDED_PATIENCE,
            false => PATIENCE,
        };
        async move {
            match timeout(patience, answered).await {
                Ok(Ok(process)) => Origin::from(process),
                _ => Origin::default(),
            }
        }
        .boxed()
        .shared()
    }

    /// Where the answer will come, if there is one; `None` while too many wait for theirs.
    fn question(&self, peer: SocketAddr, local: SocketAddr) -> Option<oneshot::Receiver<Process>> {
        let (answer, answered) = oneshot::channel();
        let question = Question {
            peer,
            local,
            answer,
        };
        self.questions.try_send(question).ok()?;
        Some(answered)
    }
}

impl fmt::Debug for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Wanted").field(&(self.0)()).finish()
    }
}

/// Somebody of whom nothing is known.
pub fn nobody() -> Asker {
    known(Origin::default())
}

/// Somebody who is known already.
pub fn known(origin: Origin) -> Asker {
    ready(origin).boxed().shared()
}

fn answer_all(mut askers: Askers, asked: &Receiver<Question>) {
    while let Ok(question) = asked.recv() {
        // Nobody waits any more.
        if question.answer.is_closed() {
            continue;
        }
        if let Some(process) = askers.find(question.peer, question.local) {
            // It may have been too late.
            let _ = question.answer.send(process);
        }
    }
}

impl From<Process> for Origin {
    fn from(process: Process) -> Self {
        Self {
            program: Some(process.program),
            executable: process.executable,
            user: Some(process.user),
            cgroup: process.cgroup,
            ..Self::default()
        }
    }
}

/// A connection waits no longer than that for the name of its program, counted from when its
/// destination is known.
const PATIENCE: Duration = Duration::from_millis(30);
/// Longer than a machine takes that is short of processor time. Where nobody can know who is at the
/// other end, that is said at once.
const NEEDED_PATIENCE: Duration = Duration::from_secs(2);
const MAX_WAITING: usize = 256;

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    #[tokio::test]
    async fn the_program_behind_a_connection_is_known() {
        let who = Who::start().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let local = listener.local_addr().unwrap();
        let _client = TcpStream::connect(local).await.unwrap();
        let (_server, peer) = listener.accept().await.unwrap();
        // Without the limit of a connection, since a busy machine may take longer.
        let answered = who.question(peer, local).unwrap();
        let origin = Origin::from(answered.await.unwrap());
        let name = std::fs::read_to_string("/proc/self/comm").unwrap();
        assert_eq!(origin.program.as_deref(), Some(name.trim_end()));
        assert!(origin.user.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn what_cannot_be_known_is_not_waited_for() {
        let who = Who::start().unwrap();
        let local: SocketAddr = "127.0.0.1:9".parse().unwrap();
        let elsewhere = "192.0.2.1:9".parse().unwrap();
        assert_eq!(who.ask(elsewhere, local).await, Origin::default());
        let nowhere = "127.0.0.1:1".parse().unwrap();
        assert_eq!(who.ask(nowhere, local).await, Origin::default());
        // Nor is anybody asked while it does not matter.
        let idle = Who::start().unwrap().only_while(|| false);
        assert_eq!(
            idle.ask(nowhere, local).now_or_never(),
            Some(Origin::default())
        );
        // However many ask at once.
        let all: Vec<Asker> = (0..2000).map(|_| who.ask(nowhere, local)).collect();
        for one in all {
            assert_eq!(one.await, Origin::default());
        }
    }
}
