use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::Shared;
use hawser_net::asker::{Askers, Process};
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

use super::Origin;
use crate::proxy::DEFAULT_MAX_CONNECTIONS;

/// Finds out which programs ask for connections, on a thread of its own, which ends with the last
/// of these.
#[derive(Clone, Debug)]
pub struct Who {
    questions: SyncSender<Asking>,
    /// Questions without an answer yet.
    open: Arc<watch::Sender<usize>>,
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
    Sought(Sought),
}

/// A program that can be found out: the kernel is asked when that first matters, and once.
#[derive(Clone, Debug)]
pub struct Sought(Arc<Search>);

#[derive(Debug)]
struct Search {
    who: Who,
    question: Question,
    answer: OnceLock<Asked>,
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
        let who = Self::with(questions);
        let open = Arc::clone(&who.open);
        std::thread::Builder::new()
            .name("hawser-who".to_owned())
            .spawn(move || answer_all(askers, &asked, &open))?;
        Ok(who)
    }

    fn with(questions: SyncSender<Asking>) -> Self {
        Self {
            questions,
            open: Arc::default(),
            wanted: Wanted(Arc::new(|| true)),
            needed: Wanted(Arc::new(|| false)),
        }
    }

    /// The same, where connections only wait for the answer while `wanted` says so. In between the
    /// kernel is asked for those whose programs somebody wants to see, and nothing waits for that.
    #[must_use]
    pub fn only_while(self, wanted: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        let wanted = Wanted(Arc::new(wanted));
        Self { wanted, ..self }
    }

    /// The same, and connections wait longer for the answer while `needed` says that they have to,
    /// and are refused without it: what rules promise does not depend on how busy the machine is.
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
        let search = Search {
            who: self.clone(),
            question: Question { peer, local },
            answer: OnceLock::new(),
        };
        if (self.wanted.0)() {
            search.begin();
        }
        Asker(Answer::Sought(Sought(Arc::new(search))))
    }

    /// How many programs are being looked for at this moment.
    pub fn open(&self) -> watch::Receiver<usize> {
        self.open.subscribe()
    }
}

impl Asker {
    /// What is known of it, as soon as that is; after a moment, as much as is known then.
    ///
    /// # Errors
    /// When more has to be known.
    pub async fn origin(&self) -> Result<Origin, UnknownAsker> {
        let sought = match &self.0 {
            Answer::Known(origin) => return Ok(origin.clone()),
            Answer::Sought(sought) => sought,
        };
        let unknown = || Origin {
            sought: Some(sought.clone()),
            ..Origin::default()
        };
        let who = &sought.0.who;
        if !(who.wanted.0)() {
            return Ok(unknown());
        }
        let is_needed = (who.needed.0)();
        let patience = if is_needed { NEEDED_PATIENCE } else { PATIENCE };
        match timeout(patience, sought.0.begin().clone()).await {
            Ok(Ok(process)) => Ok(process.map(Origin::from).unwrap_or_default()),
            Ok(Err(_)) | Err(_) if is_needed => Err(UnknownAsker),
            Ok(Err(_)) | Err(_) => Ok(unknown()),
        }
    }
}

impl Sought {
    /// The program's name, where it is known by now. Never waits; asks the kernel where nobody has
    /// yet.
    pub fn program(&self) -> Option<Arc<str>> {
        let process = self.0.begin().clone().now_or_never()?.ok()??;
        Some(process.program.into())
    }
}

/// One is only ever the same as itself.
impl PartialEq for Sought {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Sought {}

impl Search {
    fn begin(&self) -> &Asked {
        self.answer.get_or_init(|| {
            let (answer, answered) = oneshot::channel();
            let open = &self.who.open;
            open.send_modify(|count| *count += 1);
            let asking = (self.question, answer);
            // Without room, the sender is gone.
            if self.who.questions.try_send(asking).is_err() {
                open.send_modify(|count| *count -= 1);
            }
            answered.shared()
        })
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

fn answer_all(mut askers: Askers, asked: &Receiver<Asking>, open: &watch::Sender<usize>) {
    while let Ok((question, answer)) = asked.recv() {
        // Otherwise nobody waits any more.
        if !answer.is_closed() {
            let found = askers.find(question.peer, question.local);
            // It may have been too late.
            let _ = answer.send(found);
        }
        open.send_modify(|count| *count -= 1);
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

    /// One that has room for so many questions, and never answers any: for as long as what comes
    /// with it lives.
    pub(crate) fn silent(room: usize) -> (Who, impl Sized) {
        let (questions, asked) = sync_channel(room);
        (Who::with(questions), asked)
    }

    /// Without the limit of a connection, since a busy machine may take longer.
    async fn answered(asker: &Asker) {
        if let Answer::Sought(sought) = &asker.0 {
            sought.0.begin().clone().await.unwrap();
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
        let who = who.needed_while(|| true);
        let asker = who.ask(nowhere(), local());
        assert_eq!(asker.origin().await.unwrap().program, None);
        assert_eq!(*who.open().borrow(), 0);
        // A rule was added while the connection is open.
        matters.store(true, Ordering::Relaxed);
        assert_eq!(asker.origin().await, Err(UnknownAsker));
        assert_eq!(*who.open().borrow(), 1);
    }

    #[tokio::test]
    async fn a_program_that_nobody_waited_for_is_known_once_somebody_looks() {
        let who = Who::start().unwrap().only_while(|| false);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let local = listener.local_addr().unwrap();
        let _client = TcpStream::connect(local).await.unwrap();
        let (_server, peer) = listener.accept().await.unwrap();
        let origin = who.ask(peer, local).origin().await.unwrap();
        assert_eq!(*who.open().borrow(), 0, "nobody was asked");
        let label = origin.label().unwrap();
        label();
        who.open().wait_for(|count| *count == 0).await.unwrap();
        let name = std::fs::read_to_string("/proc/self/comm").unwrap();
        assert_eq!(label().as_deref(), Some(name.trim_end()));
    }

    #[tokio::test]
    async fn one_that_is_found_too_late_for_its_connection_is_known_to_those_who_look() {
        let (questions, asked) = sync_channel(1);
        let who = Who::with(questions);
        let origin = who.ask(nowhere(), local()).origin().await.unwrap();
        let label = origin.label().unwrap();
        assert_eq!((origin.program, label()), (None, None));
        let (_, answer) = asked.recv().unwrap();
        let curl = Process {
            program: "curl".to_owned(),
            executable: None,
            user: 0,
            cgroup: None,
        };
        answer.send(Some(curl)).unwrap();
        assert_eq!(label().as_deref(), Some("curl"));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_known_in_time_is_waited_for_no_longer() {
        let (who, _asked) = silent(1);
        // The second one finds no room.
        for _ in 0..2 {
            let asker = who.ask(nowhere(), local());
            assert_eq!(asker.origin().await.unwrap().program, None);
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
            Answer::Sought(sought) => {
                !matches!(sought.0.begin().clone().now_or_never(), Some(Err(_)))
            }
            Answer::Known(_) => false,
        };
        assert!(all.iter().all(is_asked));
    }
}
