//! A simulated daemon, and a server that shows it.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hawser_control::{
    Change, ErrorReason, Event, HistoryReport, LinkStatus, PolicyStatus, Request, Response,
    StatusSnapshot,
};
use hawser_monitor::web::{self, Limits, Server, Token};
use hawser_types::{LinkIndex, Rate};
use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

/// Token of every server in these tests.
pub(crate) const TOKEN: &str = "a-token-of-43-characters-in-base64url-1234567";

/// A daemon that counts its requests.
pub(crate) struct Numbers {
    changes: watch::Sender<u64>,
    events: Mutex<Vec<Event>>,
    policy: Mutex<PolicyStatus>,
    padding: usize,
    /// Number of status requests.
    pub(crate) statuses: AtomicU64,
    /// All requests that the feed did not send.
    pub(crate) steered: Mutex<Vec<Request>>,
}

impl Numbers {
    /// Creates a daemon whose snapshots are longer than `padding` bytes.
    pub(crate) fn new(padding: usize) -> Arc<Self> {
        Arc::new(Self {
            changes: watch::Sender::new(0),
            events: Mutex::default(),
            policy: Mutex::default(),
            padding,
            statuses: AtomicU64::new(0),
            steered: Mutex::default(),
        })
    }

    /// Lets a second pass.
    pub(crate) fn tick(&self) {
        self.changes.send_modify(|number| *number += 1);
    }

    /// Removes a link; returns the event's number.
    pub(crate) fn lose_link(&self, name: &str) -> u64 {
        let mut events = self.events.lock();
        let id = events.len() as u64 + 1;
        let link = name.to_owned();
        events.push(Event {
            id,
            at_unix_ms: 1_700_000_000_000 + id,
            what: Change::LinkGone { link },
        });
        drop(events);
        self.tick();
        id
    }

    /// Changes the policy.
    pub(crate) fn choose(&self, policy: &str) {
        policy.clone_into(&mut self.policy.lock().sessions);
        self.tick();
    }

    fn status(&self) -> StatusSnapshot {
        let number = self.statuses.fetch_add(1, Ordering::Relaxed) + 1;
        StatusSnapshot {
            version: "x".repeat(self.padding),
            session_count: number,
            links: vec![LinkStatus {
                name: "eth0".to_owned(),
                ..LinkStatus::default()
            }],
            ..StatusSnapshot::default()
        }
    }
}

impl web::Daemon for Numbers {
    fn answer(&self, request: &Request) -> Response {
        match request {
            Request::Status { .. } => Response::Status(Box::new(self.status())),
            Request::History { .. } => Response::History(Box::new(HistoryReport {
                at_unix_ms: 1_700_000_000_000,
                links: vec![hawser_control::LinkHistory {
                    name: "eth0".to_owned(),
                    index: LinkIndex::new(2),
                    up: vec![Rate::from_bits_per_second(8000)],
                    down: vec![Rate::from_bits_per_second(9000)],
                    rtt: vec![None],
                    state: vec![Some(hawser_control::LinkState::Up)],
                }],
                ..HistoryReport::default()
            })),
            Request::Policy => Response::Policy(Box::new(self.policy.lock().clone())),
            Request::Events { after, .. } => {
                let events = self.events.lock();
                let new = events.iter().filter(|event| event.id > *after);
                Response::Events {
                    events: new.cloned().collect(),
                    latest: events.len() as u64,
                }
            }
            Request::SetGateway { .. } => Response::Error {
                reason: ErrorReason::Unsupported,
                message: "no gateway here".to_owned(),
            },
            request => {
                self.steered.lock().push(request.clone());
                Response::Done { saved: None }
            }
        }
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}

/// A server that runs until it is told to end.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) daemon: Arc<Numbers>,
    /// Token that users must present.
    pub(crate) token: watch::Sender<Token>,
    end: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

impl Running {
    pub(crate) fn start() -> Self {
        Self::with(Limits::default(), Numbers::new(0))
    }

    pub(crate) fn with(limits: Limits, daemon: Arc<Numbers>) -> Self {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let (token, shown) = watch::channel(Token::new(TOKEN));
        let server = Server::bind(any, shown, daemon.clone());
        let server = server.unwrap().with_limits(limits);
        let (end, ended) = oneshot::channel();
        Self {
            address: server.local_addr(),
            daemon,
            token,
            end,
            serving: tokio::spawn(server.run(async {
                let _ = ended.await;
            })),
        }
    }

    /// Ends the server in order.
    pub(crate) async fn end(self) {
        self.end.send(()).unwrap();
        self.serving.await.unwrap();
    }
}
