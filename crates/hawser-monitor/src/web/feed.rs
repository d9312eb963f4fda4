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

/// Feeds: changes as server-sent events.
///
/// A feed has no task and no queue of its own: it asks for news when its reader has taken the
/// previous ones. A slow reader therefore skips snapshots, and gets all events later. The snapshot
/// is made once for all readers, and not at all without readers.
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
    /// Number of the change that it shows, and when it was made.
    of: Option<(u64, Instant)>,
    status: Option<Bytes>,
    policy: Option<Bytes>,
}

impl Hub {
    /// Creates a hub for at most `feeds` readers. Feeds end once the sender of `closed` is dropped.
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

    /// Opens a feed for a reader that knows the events up to `after`; `None` if there are too many.
    /// The feed ends when the presented `token` is replaced.
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
            // Many events in a row share one picture.
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

    /// Returns the answer to a request as a frame; `None` if the daemon has no such data.
    fn told(&self, kind: &str, request: &Request) -> Option<Bytes> {
        let response = self.daemon.answer(request);
        if matches!(response, Response::Error { .. }) {
            return None;
        }
        match encode_response(&response) {
            Ok(line) => Some(frame(kind, line.trim_ascii_end())),
            Err(error) => {
                tracing::warn!(%error, "encoding an answer failed");
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
    /// Latest event that the reader knows.
    after: u64,
    shown: Picture,
    /// Frames of one change that the reader has not taken yet.
    waiting: VecDeque<Bytes>,
    /// Place that is released when the feed is dropped. hyper drops a connection's socket before
    /// the body that it was sending, so a reader is cut off before its place is reused.
    _place: OwnedSemaphorePermit,
}

impl Feed {
    /// Returns the next frame; `None` when the server ends, or the presented token is replaced.
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

    /// Returns the events that are new to the reader, as one piece.
    fn new_events(&mut self) -> Option<Bytes> {
        let mut after = self.after;
        let events = loop {
            let request = Request::Events { after, wait: None };
            match self.hub.daemon.answer(&request) {
                // The reader knows events of an earlier daemon, which had its own numbers.
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

/// Returns one server-sent event. `data` is JSON without line ends.
fn frame(kind: &str, data: &[u8]) -> Bytes {
    [&b"event: "[..], kind.as_bytes(), b"\ndata: ", data, b"\n\n"]
        .concat()
        .into()
}

/// Minimum time between two snapshots.
const MIN_PERIOD: Duration = Duration::from_millis(250);
/// Time without news after which a reader gets a comment, so that both ends notice when the other
/// is gone.
const SILENCE: Duration = Duration::from_secs(4);
const STILL_THERE: &[u8] = b": nothing new\n\n";
