use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::Shared;
use hawser_link::asker::{Askers, Process};
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

/// Finds out which programs ask for connections, on a thread of its own. The thread ends with the
/// last clone.
#[derive(Clone, Debug)]
pub struct Who {
    questions: SyncSender<Asking>,
    /// Number of questions without an answer yet.
    open: Arc<watch::Sender<usize>>,
    wanted: Wanted,
    needed: Wanted,
}

/// Tells whether it matters now which program asks.
#[derive(Clone)]
struct Wanted(Arc<dyn Fn() -> bool + Send + Sync>);

/// The program at the other end of a connection, to be found. The kernel is asked once, when the
/// program first matters.
#[derive(Clone, Debug)]
pub struct Sought(Arc<Search>);

#[derive(Debug)]
struct Search {
    who: Who,
    question: Question,
    answer: OnceLock<Asked>,
}

/// The pending answer: `None` if the asker can't be known. The sender is dropped if there was no
/// room to ask.
pub(super) type Asked = Shared<oneshot::Receiver<Option<Process>>>;

/// The result of a search so far.
#[derive(Debug)]
pub(super) enum Found {
    Program(Process),
    /// The asker can't be known.
    NoProcess,
    NotYet,
}

/// The asker was not known in time, although rules depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("can't find the connection's program in time, and rules for programs need it")]
pub struct UnknownAsker;

/// The two ends of a connection that was accepted from `peer` at `local`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question {
    peer: SocketAddr,
    local: SocketAddr,
}

/// A question, and the channel for its answer.
pub(super) type Asking = (Question, oneshot::Sender<Option<Process>>);

impl Who {
    /// Starts the thread, with room for so many questions at a time.
    ///
    /// # Errors
    /// If the kernel can't be asked, or the thread can't be started.
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

    /// Has connections wait for the answer only while `wanted` returns true. Otherwise the kernel
    /// is asked only about programs that a user wants to see, and no connection waits for that.
    #[must_use]
    pub fn with_wait_while(self, wanted: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        let wanted = Wanted(Arc::new(wanted));
        Self { wanted, ..self }
    }

    /// Has connections wait longer for the answer while `needed` returns true, and refuses them
    /// without it: the promise of rules must not depend on how busy the machine is.
    #[must_use]
    pub fn with_refusal_while(self, needed: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        let needed = Wanted(Arc::new(needed));
        Self { needed, ..self }
    }

    /// Returns how many programs are being looked for at this moment.
    pub fn open(&self) -> watch::Receiver<usize> {
        self.open.subscribe()
    }
}

impl Sought {
    /// Creates a search for the program at the other end of a connection that was accepted from
    /// `peer` at `local`. It begins at once if connections wait for it.
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

    /// Returns what is found after a short wait, or a longer one if rules need the program.
    ///
    /// # Errors
    /// If rules need the program and it is not found by then.
    pub(super) async fn find(&self) -> Result<Found, UnknownAsker> {
        let who = &self.0.who;
        if !(who.wanted.0)() {
            return Ok(Found::NotYet);
        }
        let is_needed = (who.needed.0)();
        let patience = if is_needed { NEEDED_PATIENCE } else { PATIENCE };
        match timeout(patience, self.0.begin().clone()).await {
            Ok(Ok(process)) => Ok(process.map_or(Found::NoProcess, Found::Program)),
            Ok(Err(_)) | Err(_) if is_needed => Err(UnknownAsker),
            Ok(Err(_)) | Err(_) => Ok(Found::NotYet),
        }
    }

    /// Returns the program's name, if it is known by now. Never waits; asks the kernel if that was
    /// not done yet.
    pub fn program(&self) -> Option<Arc<str>> {
        let process = self.0.begin().clone().now_or_never()?.ok()??;
        Some(process.program.into())
    }
}

/// A search equals only itself.
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
            // Without room, the sender is dropped.
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
        // Skip the search if its asker no longer waits.
        if !answer.is_closed() {
            let found = askers.find(question.peer, question.local);
            // The asker may have stopped waiting.
            let _ = answer.send(found);
        }
        open.send_modify(|count| *count -= 1);
    }
}

/// Time that a connection waits for the name of its program, from when its destination is known.
const PATIENCE: Duration = Duration::from_millis(30);
/// Time that a connection waits if rules need its program: longer than a busy machine takes. If
/// the program can't be known, the answer comes at once.
const NEEDED_PATIENCE: Duration = Duration::from_secs(2);

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns a `Who` with room for so many questions that answers none while the second value
    /// lives.
    pub(crate) fn silent(room: usize) -> (Who, impl Sized) {
        let (who, asked) = asked(room);
        (who, asked)
    }

    /// As [`silent`], but returns the questions, each with the channel for its answer.
    pub(crate) fn asked(room: usize) -> (Who, Receiver<Asking>) {
        let (questions, asked) = sync_channel(room);
        (Who::with(questions), asked)
    }

    impl Sought {
        /// Returns the pending answer; its sender is dropped where there was no room.
        pub(crate) fn asked(&self) -> Asked {
            self.0.begin().clone()
        }
    }
}
