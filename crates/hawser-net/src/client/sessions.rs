//! Runs one session after the other, for as long as the client lives.
//!
//! A gateway that goes away asks for another session. The new session begins while the old one is
//! still the current one, so that no stream waits. Open streams stay in the old session, which
//! lives on, with connections over every link, until its last stream ends.

use std::hash::{BuildHasher as _, RandomState};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use hawser_channels::BackOff;
use hawser_session::CloseReason;
use hawser_types::ByteCount;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tracing::Instrument as _;

use super::first::{self, First, FirstConnection};
use super::keeper;
use super::shared::{ClientState, State};
use super::unreachable;
use crate::driver::Driver;

/// Keeps a session running for as long as the client lives.
pub(super) async fn run(shared: Arc<ClientState>, begun: Option<FirstConnection>) {
    let begun = begun.and_then(|it| first::on(&shared, it));
    let mut sessions = Sessions {
        shared,
        back_off: BackOff::new(FIRST_PAUSE, MAX_PAUSE, RandomState::new().hash_one(0)),
        left: JoinSet::new(),
    };
    let mut current = sessions.begin(begun).await;
    while let Some(first) = current {
        let driver = first.driver.clone();
        current = match sessions.keep(first).await {
            Some(next) => Some(next),
            None if sessions.is_last(&driver) => None,
            None => {
                sleep(sessions.pause_after(&driver)).await;
                sessions.begin(None).await
            }
        };
    }
    // Superseded sessions may still have data to deliver while the client closes.
    while sessions.left.join_next().await.is_some() {}
}

/// True if data of the gateway has arrived in this session.
pub(super) fn has_answered(driver: &Driver) -> bool {
    let channels = driver.snapshot(0).channels;
    driver.is_enrolled() || channels.iter().any(|c| c.received > ByteCount::ZERO)
}

/// Waits until a session is over, and its last acknowledgements are out; ends it at once after
/// `patience`.
pub(super) async fn end_in_order(driver: &Driver, patience: Duration) {
    driver.close(0);
    let mut changes = driver.changes();
    let _ = timeout(patience, async {
        while driver.closed().is_none() && changes.changed().await.is_ok() {}
        // The last acknowledgements go out.
        sleep(LAST_WORDS).await;
    })
    .await;
    // Streams that the far end still keeps open end here.
    driver.abort();
}

struct Sessions {
    shared: Arc<ClientState>,
    back_off: BackOff,
    /// The tasks that look after superseded sessions.
    left: JoinSet<()>,
}

impl Sessions {
    /// Makes a session the current one: `begun`, or else a new session. Returns `None` once the
    /// client is closed.
    async fn begin(&self, begun: Option<First>) -> Option<First> {
        let first = match begun {
            Some(first) => first,
            None => unreachable::connect(&self.shared).await,
        };
        self.publish(first)
    }

    fn publish(&self, first: First) -> Option<First> {
        let is_open = self.shared.publish(&first.driver);
        if !is_open {
            first.driver.abort();
        }
        is_open.then_some(first)
    }

    /// Keeps the current session until it is over or superseded. Returns the session that
    /// supersedes it, in which the gateway has admitted the client.
    async fn keep(&mut self, first: First) -> Option<First> {
        let (driver, began) = (first.driver.clone(), Instant::now());
        let shared = Arc::clone(&self.shared);
        let keeping = keeper::keep(Arc::clone(&shared), first);
        let mut keeping: Keeping = Box::pin(keeping.instrument(driver.span().clone()));
        if shared.once {
            // The application uses this session only.
            keeping.await;
            return None;
        }
        let next = tokio::select! {
            () = &mut keeping => return None,
            next = self.next_beside(&driver, began) => next,
        };
        let Some(next) = self.publish(next) else {
            keeping.await;
            return None;
        };
        let span = driver.span().clone();
        let next_id = next.driver.id();
        span.in_scope(|| {
            tracing::info!(
                next = %next_id,
                "gateway goes away, new connections use another session"
            );
        });
        self.left
            .spawn(leave(shared, driver, keeping).instrument(span));
        Some(next)
    }

    /// Waits until the gateway goes away, and begins another session beside the current one.
    async fn next_beside(&mut self, current: &Driver, began: Instant) -> First {
        let mut changes = current.changes();
        while !current.is_going_away() {
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
        while self.left.try_join_next().is_some() {}
        while self.left.len() >= MAX_LEFT {
            self.left.join_next().await;
        }
        if began.elapsed() < QUICK {
            // The session lived so briefly that the gateway may have no successor yet.
            sleep(self.back_off.next_pause()).await;
        } else {
            self.back_off.reset();
        }
        loop {
            let first = unreachable::connect(&self.shared).await;
            if is_admitted(&first.driver).await {
                return first;
            }
            end_in_order(&first.driver, END_PATIENCE).await;
            sleep(self.back_off.next_pause()).await;
        }
    }

    /// Handles the end of the current session. Returns true if no other will follow.
    fn is_last(&self, driver: &Driver) -> bool {
        let shared = &self.shared;
        shared.note_enrolment(driver);
        if matches!(*shared.current.borrow(), State::Closed) {
            // The client was closed on request.
            return true;
        }
        if shared.once && (driver.was_refused() || shared.was_admitted(driver)) {
            shared.current.send_replace(State::Closed);
            return true;
        }
        if driver.was_refused() {
            shared.refusals.send_modify(|count| *count += 1);
        }
        let reason = driver.closed();
        let problem: Arc<str> = match reason {
            _ if driver.was_refused() => REFUSED.into(),
            Some(CloseReason::Peer(_)) => "the gateway ended the session".into(),
            Some(CloseReason::LimitExceeded(_)) => "the session exceeded a limit".into(),
            _ if shared.was_forgotten(driver) => FORGOTTEN.into(),
            _ => "every link to the gateway was lost".into(),
        };
        let session = driver.id();
        let _span = driver.span().enter();
        tracing::warn!(%session, ?reason, %problem,
            "the session with the gateway is over, its open connections are closed");
        !shared.current.send_if_modified(|state| {
            let is_open = !matches!(state, State::Closed);
            if is_open {
                *state = State::Connecting(Some(problem));
            }
            is_open
        })
    }

    /// The pause between the end of a session and the next attempt to begin one.
    fn pause_after(&mut self, driver: &Driver) -> Duration {
        if has_answered(driver) {
            self.back_off.reset();
        }
        // A gateway without room ends sessions before it answers in them.
        if driver.was_refused() {
            self.back_off.with_jitter(REFUSED_PAUSE)
        } else {
            self.back_off.next_pause()
        }
    }
}

/// Looks after a superseded session until no stream is open in it; then ends it in order.
async fn leave(shared: Arc<ClientState>, driver: Driver, mut keeping: Keeping) {
    let ending = async {
        loop {
            // After this pause, streams that were opened during the change of sessions are seen.
            sleep(LOOK_EVERY).await;
            if !driver.has_streams() {
                break;
            }
        }
        end_in_order(&driver, END_PATIENCE).await;
    };
    let mut ending = pin!(ending);
    tokio::select! {
        () = &mut keeping => sleep(LAST_WORDS).await,
        () = &mut ending => {}
    }
    tracing::info!(reason = ?driver.closed(), "the session is over");
    driver.abort();
    shared.note_enrolment(&driver);
    shared.forget_left(&driver);
}

/// Waits until the gateway admits this client. Returns false if the gateway does not in time, or
/// asks the client to leave this session, too.
async fn is_admitted(driver: &Driver) -> bool {
    let mut changes = driver.changes();
    let answers = async {
        while !has_answered(driver) && driver.closed().is_none() {
            if changes.changed().await.is_err() {
                return;
            }
        }
    };
    timeout(ANSWER_PATIENCE, answers).await.is_ok()
        && driver.closed().is_none()
        && !driver.is_going_away()
}

/// Looks after a session's links; ends with the session.
type Keeping = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The problem of a client whose session the gateway has lost.
const FORGOTTEN: &str = "the gateway does not know the session any more, as after a restart";
const REFUSED: &str = "the gateway refused this client's key: not enrolled, or revoked";
const LAST_WORDS: Duration = Duration::from_millis(20);
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const MAX_PAUSE: Duration = Duration::from_secs(5);
const REFUSED_PAUSE: Duration = Duration::from_secs(5);
/// Most superseded sessions: each has connections over every link. A gateway may be replaced
/// again while long downloads in an earlier session go on; at one more replacement, the client
/// stays until the oldest session is over.
const MAX_LEFT: usize = 2;
/// A session that its gateway asks to leave so early shows that there is no other gateway yet.
const QUICK: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(250);
const END_PATIENCE: Duration = Duration::from_secs(3);
/// Several round trips of the slowest links.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);
