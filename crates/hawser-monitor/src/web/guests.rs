use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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

/// Who is connected.
pub(super) struct Guests {
    router: Router,
    limits: Limits,
    closed: watch::Receiver<()>,
    tasks: JoinSet<()>,
    /// The oldest first.
    list: VecDeque<Guest>,
}

struct Guest {
    task: AbortHandle,
    badge: Badge,
}

/// Goes with every request of a connection: whether one of them has shown the token.
#[derive(Clone, Default)]
pub(super) struct Badge(Arc<AtomicBool>);

impl Badge {
    pub(super) fn mark_known(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_known(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Guests {
    /// Nobody yet. Connections end in order once the sender of `closed` is gone.
    pub(super) fn new(router: Router, limits: Limits, closed: watch::Receiver<()>) -> Self {
        Self {
            router,
            limits,
            closed,
            tasks: JoinSet::new(),
            list: VecDeque::new(),
        }
    }

    /// Whether there is memory for one more, those included that were told to leave and have not
    /// yet.
    pub(super) fn has_room(&self) -> bool {
        self.tasks.len() < 2 * self.limits.connections
    }

    /// Serves one more, in place of the oldest unknown one where there are too many: so who says
    /// nothing, or has no token, keeps nobody out.
    pub(super) fn admit(&mut self, stream: TcpStream) {
        self.list.retain(|guest| !guest.task.is_finished());
        if self.list.len() >= self.limits.connections {
            let unknown = self.list.iter().position(|guest| !guest.badge.is_known());
            let Some(guest) = unknown.and_then(|at| self.list.remove(at)) else {
                tracing::debug!("too many browsers are connected: one more is refused");
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

    /// Resolves when somebody has left; none when nobody is there.
    pub(super) async fn gone(&mut self) -> Option<()> {
        self.tasks.join_next().await.map(drop)
    }

    /// Waits a short time until all have left, then sends them away.
    pub(super) async fn finish(mut self) {
        let all_gone = async { while self.gone().await.is_some() {} };
        if tokio::time::timeout(END_PATIENCE, all_gone).await.is_err() {
            tracing::debug!("browsers did not take their answers in time");
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
        tracing::debug!(%error, "a connection of a browser has ended");
    }
}

const MAX_HEADERS: usize = 64;
/// Of a request; all of its lines together.
const MAX_HEAD: usize = 16 * 1024;
const END_PATIENCE: Duration = Duration::from_secs(1);
