use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::Shared;
use hawser_net::asker::{Askers, Process};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::Origin;
use crate::proxy::DEFAULT_MAX_CONNECTIONS;

/// Finds out which programs ask for connections, on a thread of its own, which ends with the last of
/// these.
#[derive(Clone, Debug)]
pub struct Who {
    questions: SyncSender<Asking>,
    wanted: Wanted,
    needed: Wanted,
}

/// Whether it matters who asks.
#[derive(Clone)]
struct Wanted(Arc<dyn Fn() -> bool + Send + Sync>);

/// Who asks for a connection.
#[derive(Clone, Debug)]
pub struct Asker(Answer);

#[derive(Clone, Debug)]
enum Answer {
    Known(Origin),
    /// It did not matter when the connection was accepted.
    Unasked(Who, Question),
    Asked(Asked, Wanted),
}

/// `None` where nobody can know; the sender is gone where there was no room to ask.
type Asked = Shared<oneshot::Receiver<Option<Process>>>;

/// It was not known in time who asks, and rules depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("which program asks was not found out in time, and rules keep programs to their links")]
pub struct UnknownAsker;

/// Who is at the other end of a connection that was accepted from `peer` at `local`.
#[derive(Clone, Copy, Debug)]
struct Question {
    peer: SocketAddr,
    local: SocketAddr,
}

/// A question, and where the answer goes.
type Asking = (Question, oneshot::Sender<Option<Process>>);

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
        Ok(Self::with(questions))
    }

    fn with(questions: SyncSender<Asking>) -> Self {
        Self {
            questions,
            wanted: Wanted(Arc::new(|| true)),
            needed: Wanted(Arc::new(|| false)),
        }
    }

    /// The same for as long as `wanted` says so; in between nobody is asked.
    #[must_use]
    pub fn only_while(self, wanted: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        let wanted = Wanted(Arc::new(wanted));
        Self { wanted, ..self }
    }

    /// The same, and connections wait longer for the answer while `needed` says that they have to, and
    /// are refused without it: what rules promise does not depend on how busy the machine is.
    #[must_use]
    pub fn needed_while(self, needed: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        let needed = Wanted(Arc::new(needed));
        Self { needed, ..self }
    }

    /// Who is at the other end of a connection that was accepted from `peer` at `local`.
    pub fn ask(&self, peer: SocketAddr, local: SocketAddr) -> Asker {
        if !peer.ip().to_canonical().is_loopback() {
            return nobody();
        }
        let question = Question { peer, local };
        Asker(match (self.wanted.0)() {
            true => Answer::Asked(self.question(question), self.needed.clone()),
            false => Answer::Unasked(self.clone(), question),
        })
    }

    fn question(&self, question: Question) -> Asked {
        let (answer, answered) = oneshot::channel();
        // Without room, the sender is gone.
        let _ = self.questions.try_send((question, answer));
        answered.shared()
    }
}

impl Asker {
    /// What is known of it, as soon as that is; after a moment, as much as is known then.
    ///
    /// # Errors
    /// When more has to be known.
    pub async fn origin(&self) -> Result<Origin, UnknownAsker> {
        let (answer, needed) = match &self.0 {
            Answer::Known(origin) => return Ok(origin.clone()),
            Answer::Unasked(who, _) if !(who.wanted.0)() => return Ok(Origin::default()),
            Answer::Unasked(who, question) => (who.question(*question), &who.needed),
            Answer::Asked(answer, needed) => (answer.clone(), needed),
        };
        let is_needed = (needed.0)();
        let patience = if is_needed { NEEDED_PATIENCE } else { PATIENCE };
        match timeout(patience, answer).await {
            Ok(Ok(process)) => Ok(process.map(Origin::from).unwrap_or_default()),
            Ok(Err(_)) | Err(_) if is_needed => Err(UnknownAsker),
            Ok(Err(_)) | Err(_) => Ok(Origin::default()),
        }
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
pub const fn known(origin: Origin) -> Asker {
    Asker(Answer::Known(origin))
}

fn answer_all(mut askers: Askers, asked: &Receiver<Asking>) {
    while let Ok((question, answer)) = asked.recv() {
        // Nobody waits any more.
        if answer.is_closed() {
            continue;
        }
        let found = askers.find(question.peer, question.local);
        // It may have been too late.
        let _ = answer.send(found);
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
/// As many as a port accepts.
const MAX_WAITING: usize = DEFAULT_MAX_CONNECTIONS;

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    /// One that has room for so many questions, and never answers any: for as long as what comes with
    /// it lives.
    pub(crate) fn silent(room: usize) -> (Who, impl Sized) {
        let (questions, asked) = sync_channel(room);
        (Who::with(questions), asked)
    }

    /// Without the limit of a connection, since a busy machine may take longer.
    async fn answered(asker: &Asker) {
        if let Answer::Asked(answer, _) = &asker.0 {
            answer.clone().await.unwrap();
        }
    }

    fn local() -> SocketAddr {
        "127.0.0.1:9".parse().unwrap()
    }

    fn nowhere() -> SocketAddr {
        "127.0.0.1:1".parse().unwrap()
    }

    #[tokio::test]
    async fn the_program_behind_a_connection_is_known() {
        let who = Who::start().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let local = listener.local_addr().unwrap();
        let _client = TcpStream::connect(local).await.unwrap();
        let (_server, peer) = listener.accept().await.unwrap();
        let asker = who.ask(peer, local);
        answered(&asker).await;
        let origin = asker.origin().await.unwrap();
        let name = std::fs::read_to_string("/proc/self/comm").unwrap();
        assert_eq!(origin.program.as_deref(), Some(name.trim_end()));
        assert!(origin.user.is_some());
        assert_eq!(asker.origin().await, Ok(origin), "it is remembered");
    }

    #[tokio::test]
    async fn where_nobody_can_know_who_asks_nothing_is_refused() {
        let who = Who::start().unwrap().needed_while(|| true);
        let elsewhere = "192.0.2.1:9".parse().unwrap();
        for peer in [elsewhere, nowhere()] {
            let asker = who.ask(peer, local());
            answered(&asker).await;
            assert_eq!(asker.origin().await, Ok(Origin::default()));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_is_asked_before_it_matters() {
        let matters = Arc::new(AtomicBool::new(false));
        let (who, _asked) = silent(1);
        let wanted = Arc::clone(&matters);
        let who = who.only_while(move || wanted.load(Ordering::Relaxed));
        let asker = who.needed_while(|| true).ask(nowhere(), local());
        assert_eq!(asker.origin().await, Ok(Origin::default()));
        // A rule was added while the connection is open.
        matters.store(true, Ordering::Relaxed);
        assert_eq!(asker.origin().await, Err(UnknownAsker));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_known_in_time_is_waited_for_no_longer() {
        let (who, _asked) = silent(1);
        // The second one finds no room.
        for _ in 0..2 {
            let asker = who.ask(nowhere(), local());
            assert_eq!(asker.origin().await, Ok(Origin::default()));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn while_rules_depend_on_it_who_is_not_known_in_time_is_refused() {
        for room in [0, 1] {
            let (who, _asked) = silent(room);
            let who = who.needed_while(|| true);
            let asker = who.ask(nowhere(), local());
            assert_eq!(asker.origin().await, Err(UnknownAsker), "{room}");
        }
        // As many may ask at once as there can be connections.
        let who = Who::start().unwrap().needed_while(|| true);
        let ask = |_| who.ask(nowhere(), local());
        let all: Vec<Asker> = (0..DEFAULT_MAX_CONNECTIONS).map(ask).collect();
        let is_asked = |it: &Asker| match &it.0 {
            Answer::Asked(answer, _) => !matches!(answer.clone().now_or_never(), Some(Err(_))),
            Answer::Known(_) | Answer::Unasked(..) => false,
        };
        assert!(all.iter().all(is_asked));
    }
}
