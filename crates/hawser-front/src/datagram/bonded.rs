//! UDP ports whose flows go over a gateway, where each flow has a stream of its own.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hawser_net::client::Client;
use hawser_net::stream::{BondStream, Label};
use tokio::io::{AsyncWriteExt as _, ReadBuf};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::AbortHandle;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

use super::{DatagramPort, DatagramPorts, opening};
use crate::connection::Origin;
use crate::destination::{Destination, Host};
use crate::transport::DialError;

/// Opens UDP ports of applications, over the sessions of a client.
#[derive(Debug)]
pub struct BondPorts {
    client: Arc<Client>,
    limits: BondLimits,
}

/// Limits of one UDP port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BondLimits {
    /// Maximum number of flows. A further flow evicts the one that has been idle longest.
    pub flows: usize,
    /// A flow ends after the application has sent nothing to it for this long.
    pub idle: Duration,
}

impl Default for BondLimits {
    fn default() -> Self {
        Self {
            flows: DEFAULT_FLOWS,
            idle: DEFAULT_IDLE,
        }
    }
}

impl BondPorts {
    /// Creates a factory of ports over `client`, with the default limits.
    pub fn new(client: Arc<Client>) -> Self {
        let limits = BondLimits::default();
        Self { client, limits }
    }

    /// Sets the limits of each port.
    #[must_use]
    pub fn with_limits(self, limits: BondLimits) -> Self {
        Self { limits, ..self }
    }
}

impl DatagramPorts for BondPorts {
    fn open(&self, asker: Origin) -> Result<Box<dyn DatagramPort>, DialError> {
        if self.client.takes_datagrams() == Some(false) {
            tracing::warn!(
                "refusing an application's datagrams: the gateway's version does not support them"
            );
            return Err(DialError::GatewayUnavailable);
        }
        let (arrives, arrived) = mpsc::channel(MAX_ARRIVED);
        let mut sweep = interval(self.limits.idle.max(MIN_SWEEP) / 4);
        sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Box::new(BondPort {
            client: Arc::clone(&self.client),
            label: asker.label(),
            limits: self.limits,
            flows: BTreeMap::new(),
            arrives,
            arrived,
            sweep,
        }))
    }
}

struct BondPort {
    client: Arc<Client>,
    /// The application that owns the port.
    label: Option<Label>,
    limits: BondLimits,
    flows: BTreeMap<Destination, Flow>,
    arrives: Sender<(SocketAddr, Bytes)>,
    arrived: Receiver<(SocketAddr, Bytes)>,
    sweep: Interval,
}

/// A flow. A task of its own transports its datagrams.
struct Flow {
    outgoing: Sender<Bytes>,
    task: AbortHandle,
    begun: Instant,
    used: Instant,
}

impl DatagramPort for BondPort {
    fn send(&mut self, destination: &Destination, payload: &[u8]) -> bool {
        let now = Instant::now();
        // A flow that has ended was refused, or its session is over. Asking again at once would not
        // help.
        let is_over = |flow: &Flow| flow.outgoing.is_closed() && now - flow.begun >= REFUSAL_HOLDS;
        if self.flows.get(destination).is_some_and(is_over) {
            self.flows.remove(destination);
        }
        if !self.flows.contains_key(destination) {
            self.begin(destination, now, false);
        }
        let Some(flow) = self.flows.get_mut(destination) else {
            return false;
        };
        flow.used = now;
        flow.outgoing
            .try_send(Bytes::copy_from_slice(payload))
            .is_ok()
    }

    fn set_call(&mut self, destination: &Destination, is_call: bool) {
        if is_call && !self.flows.contains_key(destination) {
            self.begin(destination, Instant::now(), true);
        }
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<SocketAddr> {
        if self.sweep.poll_tick(cx).is_ready() {
            let now = Instant::now();
            let idle = self.limits.idle;
            self.flows.retain(|_, flow| now - flow.used < idle);
            // This tick has registered no waker for the next tick: poll again.
            let _ = self.sweep.poll_tick(cx);
        }
        // The channel never closes: `self` holds a sender.
        match ready!(self.arrived.poll_recv(cx)) {
            Some((from, payload)) => {
                let length = payload.len().min(buffer.remaining());
                buffer.put_slice(payload.get(..length).unwrap_or_default());
                Poll::Ready(from)
            }
            None => Poll::Pending,
        }
    }
}

impl BondPort {
    fn begin(&mut self, destination: &Destination, now: Instant, is_call: bool) {
        if self.flows.len() >= self.limits.flows.max(1) {
            let stillest = self.flows.iter().min_by_key(|(_, flow)| flow.used);
            if let Some(stillest) = stillest.map(|(destination, _)| destination.clone()) {
                self.flows.remove(&stillest);
            }
        }
        let (outgoing, to_send) = mpsc::channel(MAX_OUTGOING);
        let (client, arrives) = (Arc::clone(&self.client), self.arrives.clone());
        let what = What {
            label: self.label.clone(),
            destination: destination.clone(),
            is_call,
        };
        let carried = carry(client, what, to_send, arrives);
        let flow = Flow {
            outgoing,
            task: tokio::spawn(carried).abort_handle(),
            begun: now,
            used: now,
        };
        self.flows.insert(destination.clone(), flow);
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Description of a flow.
struct What {
    label: Option<Label>,
    destination: Destination,
    is_call: bool,
}

/// Forwards the datagrams of one flow until either side ends it.
async fn carry(
    client: Arc<Client>,
    what: What,
    mut outgoing: Receiver<Bytes>,
    arrives: Sender<(SocketAddr, Bytes)>,
) {
    let What {
        label,
        destination,
        is_call,
    } = what;
    // A gateway that knows no calls would refuse the opening of a call.
    let is_told = is_call && client.knows_calls();
    let opening = opening::of(&destination, is_told);
    let Ok(mut stream) = client.open(opening).await else {
        return;
    };
    drop(client);
    let span = stream.span();
    if let Some(label) = label {
        stream.set_label(label);
    }
    if is_call {
        stream.set_call();
    }
    let Some(source) = begin(&mut stream, &destination, &mut outgoing).await else {
        let _span = span.enter();
        tracing::debug!(%destination, code = ?stream.reset_code(),
            "gateway refused a flow of datagrams");
        return;
    };
    loop {
        tokio::select! {
            payload = outgoing.recv() => match payload {
                // A datagram that can't be sent is lost, as it might be in the network.
                Some(payload) => drop(stream.send_datagram(payload)),
                None => return,
            },
            arrived = poll_fn(|cx| stream.poll_datagram(cx)) => match arrived {
                // A datagram is lost, too, if the application's queue is full.
                Ok(payload) => drop(arrives.try_send((source, payload))),
                Err(error) => {
                    let _span = span.enter();
                    tracing::debug!(%destination, %error, "flow of datagrams ended");
                    return;
                }
            },
        }
    }
}

/// Sends datagrams in the stream until the stream is accepted. Returns the address that the far
/// end sends to.
async fn begin(
    stream: &mut BondStream,
    destination: &Destination,
    outgoing: &mut Receiver<Bytes>,
) -> Option<SocketAddr> {
    let mut room = opening::MAX_EARLY;
    loop {
        tokio::select! {
            accepted = stream.accepted() => {
                let said = Destination::decode(&accepted.ok()?).ok();
                return said.as_ref().and_then(address).or_else(|| address(destination));
            }
            payload = outgoing.recv() => {
                let mut early = Vec::new();
                if opening::put_early(&payload?, &mut early) && early.len() <= room {
                    room -= early.len();
                    stream.write_all(&early).await.ok()?;
                }
            }
        }
    }
}

fn address(destination: &Destination) -> Option<SocketAddr> {
    match destination.host {
        Host::Ip(ip) => Some(SocketAddr::new(IpAddr::to_canonical(&ip), destination.port)),
        Host::Name(_) => None,
    }
}

/// Each flow takes a stream and, at the gateway, a socket.
const DEFAULT_FLOWS: usize = 256;
/// Source: RFC 4787 §4.3 (REQ-5: not less than two minutes).
pub(super) const DEFAULT_IDLE: Duration = Duration::from_secs(120);
const MIN_SWEEP: Duration = Duration::from_millis(40);
const REFUSAL_HOLDS: Duration = Duration::from_secs(1);
/// Most datagrams that wait between a flow's task and its port.
const MAX_OUTGOING: usize = 64;
const MAX_ARRIVED: usize = 64;
