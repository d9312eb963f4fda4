use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use futures_util::stream::{Stream, unfold};
use hawser_control::{Event, Request, Response, encode_response};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, sleep, sleep_until};

use super::Token;
use super::daemon::Daemon;

/// Feeds: what changes, as server-sent events.
///
/// A feed has no task and no queue of its own: it asks what is new when its reader has taken what
/// was there before. So a slow reader skips snapshots, and gets events later but all of them. The
/// snapshot is made once for all readers, and not at all while there are none.
pub(super) struct Hub {
    daemon: Arc<dyn Daemon>,
    changes: watch::Receiver<u64>,
    closed: watch::Receiver<()>,
    places: Arc<Semaphore>,
    picture: Mutex<Picture>,
}

/// Frames that are the same for all readers.
#[derive(Clone, Default)]
struct Picture {
    /// The number of the change that it shows, and when it was made.
    of: Option<(u64, Instant)>,
    status: Option<Bytes>,
    policy: Option<Bytes>,
}

impl Hub {
    /// Has at most `feeds` readers at once, whose feeds end once the sender of `closed` is gone.
    pub(super) fn new(
        daemon: Arc<dyn Daemon>,
        feeds: usize,
        closed: watch::Receiver<()>,
    ) -> Arc<Self> {
        Arc::new(Self {
            changes: daemon.changes(),
            daemon,
            closed,
            places: Arc::new(Semaphore::new(feeds)),
            picture: Mutex::default(),
        })
    }

    /// One more feed, for a reader that knows the events up to `after` and has shown `token`, with
    /// which the feed ends; none when there are too many.
    pub(super) fn open(
        self: &Arc<Self>,
        after: u64,
        token: watch::Receiver<Token>,
    ) -> Option<impl Stream<Item = Result<Bytes, Infallible>> + use<>> {
        let place = Arc::clone(&self.places).try_acquire_owned().ok()?;
        let mut changes = self.changes.clone();
        changes.mark_changed();
        let feed = Feed {
            waiting: self
                .told("history", &Request::History { samples: None })
                .into_iter()
                .collect(),
            hub: Arc::clone(self),
            changes,
            closed: self.closed.clone(),
            token,
            after,
            shown: Picture::default(),
            _place: place,
        };
        let next = |mut feed: Feed| async move {
            let frame = feed.next().await?;
            Some((Ok(frame), feed))
        };
        Some(unfold(feed, next))
    }

    /// Returns the frames after the change with this number, or a later one.
    async fn picture(&self, change: u64) -> Picture {
        let mut picture = self.picture.lock().await;
        if let Some((shown, made)) = picture.of {
            if shown >= change {
                return picture.clone();
            }
            // Many events at once are one picture.
            sleep_until(made + MIN_PERIOD).await;
        }
        let latest = *self.changes.borrow();
        *picture = Picture {
            of: Some((latest, Instant::now())),
            status: self.told("status", &Request::STATUS),
            policy: self.told("policy", &Request::Policy),
        };
        picture.clone()
    }

    /// The answer to a request as a frame; none when the daemon has no such thing.
    fn told(&self, kind: &str, request: &Request) -> Option<Bytes> {
        let response = self.daemon.answer(request);
        if matches!(response, Response::Error { .. }) {
            return None;
        }
        match encode_response(&response) {
            Ok(line) => Some(frame(kind, line.trim_ascii_end())),
            Err(error) => {
                tracing::warn!(%error, "an answer can't be encoded");
                None
            }
        }
    }
}

/// The feed of one reader.
struct Feed {
    hub: Arc<Hub>,
    changes: watch::Receiver<u64>,
    closed: watch::Receiver<()>,
    token: watch::Receiver<Token>,
    /// The latest event that it knows.
    after: u64,
    shown: Picture,
    /// Frames that it has not taken yet, of one change.
    waiting: VecDeque<Bytes>,
    /// Given back when the feed is dropped. hyper drops a connection's socket before the body that
    /// it was sending, so a reader is cut off before its place is another's.
    _place: OwnedSemaphorePermit,
}

impl Feed {
    /// The next frame; none when the server ends, or the token that was shown is replaced.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frame) = self.waiting.pop_front() {
                return Some(frame);
            }
            tokio::select! {
                changed = self.changes.changed() => changed.ok()?,
                _ = self.closed.changed() => return None,
                Ok(()) = self.token.changed() => return None,
                () = sleep(SILENCE) => return Some(Bytes::from_static(STILL_THERE)),
            }
            let change = *self.changes.borrow_and_update();
            let picture = self.hub.picture(change).await;
            if picture.policy != self.shown.policy {
                self.waiting.extend(picture.policy.clone());
            }
            if picture.of != self.shown.of {
                self.waiting.extend(picture.status.clone());
            }
            self.shown = picture;
            let events = self.new_events();
            self.waiting.extend(events);
        }
    }

    /// Returns the events that the reader has not had, as one piece.
    fn new_events(&mut self) -> Option<Bytes> {
        let mut after = self.after;
        let events = loop {
            let request = Request::Events { after, wait: None };
            match self.hub.daemon.answer(&request) {
                // The reader knows those of an earlier daemon, which counted for itself.
                Response::Events { latest, .. } if latest < after => after = 0,
                Response::Events { events, latest } => {
                    self.after = latest;
                    break events;
                }
                _ => return None,
            }
        };
        let frames: Vec<u8> = events.iter().filter_map(event).flatten().collect();
        (!frames.is_empty()).then(|| Bytes::from(frames))
    }
}

fn event(event: &Event) -> Option<Vec<u8>> {
    let data = serde_json::to_vec(event).ok()?;
    let id = format!("id: {}\n", event.id).into_bytes();
    Some([id, frame("event", &data).into()].concat())
}

/// One server-sent event. `data` is JSON, which has no line ends in it.
fn frame(kind: &str, data: &[u8]) -> Bytes {
    [&b"event: "[..], kind.as_bytes(), b"\ndata: ", data, b"\n\n"]
        .concat()
        .into()
}

/// Between two snapshots.
const MIN_PERIOD: Duration = Duration::from_millis(250);
/// After that a reader is told that there is nothing to tell, by a comment: so both ends notice
/// when the other is gone.
const SILENCE: Duration = Duration::from_secs(4);
const STILL_THERE: &[u8] = b": nothing new\n\n";
