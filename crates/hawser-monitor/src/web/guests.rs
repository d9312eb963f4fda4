use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use axum::Router;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use super::limits::Limits;
use super::patient::Patient;

/// The connected clients.
pub(super) struct Guests {
    router: Router,
    limits: Limits,
    closed: watch::Receiver<()>,
    tasks: JoinSet<()>,
    /// Clients, the oldest first.
    list: VecDeque<Guest>,
}

struct Guest {
    task: AbortHandle,
    badge: Badge,
}

/// State of a connection, shared with all of its requests: unknown, known (a request presented the
/// token) or dismissed (the connection ends for another). Known and dismissed are final: a known
/// connection is never ended for another, and a dismissed one opens no feed.
#[derive(Clone, Default)]
pub(super) struct Badge(Arc<AtomicU8>);

impl Badge {
    /// Marks the connection as known. Returns `false` if it was dismissed before.
    pub(super) fn mark_known(&self) -> bool {
        self.leave_unknown(KNOWN) != DISMISSED
    }

    /// Dismisses the connection if it is unknown. Returns whether it was.
    fn dismiss(&self) -> bool {
        self.leave_unknown(DISMISSED) == UNKNOWN
    }

    /// Sets the state if the connection is unknown. Returns the state before.
    fn leave_unknown(&self, state: u8) -> u8 {
        let (set, read) = (Ordering::Relaxed, Ordering::Relaxed);
        match self.0.compare_exchange(UNKNOWN, state, set, read) {
            Ok(before) | Err(before) => before,
        }
    }
}

impl Guests {
    /// Creates an empty list. Connections end in order once the sender of `closed` is dropped.
    pub(super) fn new(router: Router, limits: Limits, closed: watch::Receiver<()>) -> Self {
        Self {
            router,
            limits,
            closed,
            tasks: JoinSet::new(),
            list: VecDeque::new(),
        }
    }

    /// Returns whether there is memory for one more client, including those that were told to leave
    /// but have not left yet.
    pub(super) fn has_room(&self) -> bool {
        self.tasks.len() < 2 * self.limits.connections
    }

    /// Serves one more connection. If there are too many, it ends the oldest one without the token,
    /// so that silent clients and clients without a token keep no others out.
    pub(super) fn admit(&mut self, stream: TcpStream) {
        self.list.retain(|guest| !guest.task.is_finished());
        if self.list.len() >= self.limits.connections {
            let unknown = self.list.iter().position(|guest| guest.badge.dismiss());
            let Some(guest) = unknown.and_then(|at| self.list.remove(at)) else {
                tracing::debug!("refusing a browser connection: limit reached");
                return;
            };
            guest.task.abort();
        }
        let badge = Badge::default();
        let task = self.tasks.spawn(converse(
            Patient::new(stream, self.limits.patience),
            self.router.clone(),
            badge.clone(),
            self.limits.patience,
            self.closed.clone(),
        ));
        self.list.push_back(Guest { task, badge });
    }

    /// Resolves when a client has left; `None` if no client is connected.
    pub(super) async fn gone(&mut self) -> Option<()> {
        self.tasks.join_next().await.map(drop)
    }

    /// Waits a short time until all clients have left, then disconnects the rest.
    pub(super) async fn finish(mut self) {
        let all_gone = async { while self.gone().await.is_some() {} };
        if tokio::time::timeout(END_PATIENCE, all_gone).await.is_err() {
            tracing::debug!("disconnecting browsers that did not read their answers in time");
        }
    }
}

/// Serves one connection to its end.
async fn converse(
    stream: Patient,
    router: Router,
    badge: Badge,
    patience: Duration,
    mut closed: watch::Receiver<()>,
) {
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(badge.clone());
        router.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(patience)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        _ = closed.changed() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "browser connection ended");
    }
}

const MAX_HEADERS: usize = 64;
/// Limit of bytes of a request's head.
const MAX_HEAD: usize = 16 * 1024;
const END_PATIENCE: Duration = Duration::from_secs(1);
const UNKNOWN: u8 = 0;
const KNOWN: u8 = 1;
const DISMISSED: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_has_shown_the_token_is_not_dismissed() {
        let badge = Badge::default();
        assert!(badge.mark_known() && badge.mark_known());
        assert!(!badge.dismiss());
        assert!(badge.mark_known());
    }

    #[test]
    fn a_dismissed_connection_is_not_known_any_more() {
        let badge = Badge::default();
        assert!(badge.dismiss());
        assert!(!badge.mark_known());
        assert!(!badge.dismiss());
    }
}
