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
pub(super) type Asked = Shared<oneshot::Receiver<Option<Process>>>;

/// What a search has found so far.
#[derive(Debug)]
pub(super) enum Found {
    Program(Process),
    /// Nobody can know.
    Nobody,
    NotYet,
}

/// It was not known in time who asks, and rules depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("which program asks was not found out in time, and rules keep programs to their links")]
pub struct UnknownAsker;

/// Who is at the other end of a connection that was accepted from `peer` at `local`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question {
    peer: SocketAddr,
    local: SocketAddr,
}

/// A question, and where the answer goes.
pub(super) type Asking = (Question, oneshot::Sender<Option<Process>>);

impl Who {
    /// Begins, for so many questions at a time.
    ///
    /// # Errors
    /// When the kernel can't be asked, or there can be no thread.
    pub fn start(room: usize) -> io::Result<Self> {
        let askers = Askers::open()?;
        let (questions, asked) = sync_channel(room);
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

    /// How many programs are being looked for at this moment.
    pub fn open(&self) -> watch::Receiver<usize> {
        self.open.subscribe()
    }
}

impl Sought {
    /// A search for the program at the other end of a connection that was accepted from `peer` at
    /// `local`. It begins at once where connections wait for such.
    pub(super) fn new(who: &Who, peer: SocketAddr, local: SocketAddr) -> Self {
        let search = Search {
            who: who.clone(),
            question: Question { peer, local },
            answer: OnceLock::new(),
        };
        if (who.wanted.0)() {
            search.begin();
        }
        Self(Arc::new(search))
    }

    /// What is found in a moment; longer where more has to be known.
    ///
    /// # Errors
    /// When that is not found by then.
    pub(super) async fn find(&self) -> Result<Found, UnknownAsker> {
        let who = &self.0.who;
        if !(who.wanted.0)() {
            return Ok(Found::NotYet);
        }
        let is_needed = (who.needed.0)();
        let patience = if is_needed { NEEDED_PATIENCE } else { PATIENCE };
        match timeout(patience, self.0.begin().clone()).await {
            Ok(Ok(process)) => Ok(process.map_or(Found::Nobody, Found::Program)),
            Ok(Err(_)) | Err(_) if is_needed => Err(UnknownAsker),
            Ok(Err(_)) | Err(_) => Ok(Found::NotYet),
        }
    }

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

/// A connection waits no longer than that for the name of its program, counted from when its
/// destination is known.
const PATIENCE: Duration = Duration::from_millis(30);
/// Longer than a machine takes that is short of processor time. Where nobody can know who is at the
/// other end, that is said at once.
const NEEDED_PATIENCE: Duration = Duration::from_secs(2);

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// One that has room for so many questions, and never answers any: for as long as what comes
    /// with it lives.
    pub(crate) fn silent(room: usize) -> (Who, impl Sized) {
        let (who, asked) = asked(room);
        (who, asked)
    }

    /// The same with the questions, each with where the answer goes.
    pub(crate) fn asked(room: usize) -> (Who, Receiver<Asking>) {
        let (questions, asked) = sync_channel(room);
        (Who::with(questions), asked)
    }

    impl Sought {
        /// The question that was asked; the sender is gone where there was no room.
        pub(crate) fn asked(&self) -> Asked {
            self.0.begin().clone()
        }
    }
}
