//! UDP ports without a gateway: each flow is sent straight out over the link that it was placed on.

mod flows;
mod sockets;
#[cfg(test)]
mod tests;
mod ways;

use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hawser_link::bind::DatagramSocket;
use hawser_types::{ByteCount, LinkIndex};
use tokio::io::ReadBuf;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

use flows::{Flow, Flows, link_of};
use sockets::Sockets;
use ways::Addresses;

use super::{DatagramPort, DatagramPorts, PlaceFlows, Placement, Target};
use crate::connection::Origin;
use crate::connection::{DatagramPlace, LinkResolver, SharedDirector};
use crate::destination::{Destination, Host, HostName};
use crate::resolve::Resolve;
use crate::this_machine::ThisMachine;
use crate::transport::DialError;

/// Opens UDP ports of applications: `P` places flows on links, `R` resolves their destinations.
#[derive(Debug)]
pub struct DirectPorts<P, R = LinkResolver> {
    place: Arc<P>,
    resolver: Arc<R>,
    limits: DirectLimits,
    machine: ThisMachine,
}

/// Limits of one UDP port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectLimits {
    /// Maximum number of flows. A further flow evicts the one that has been idle longest.
    pub flows: usize,
    /// A flow ends after it has been idle for this long.
    pub idle: Duration,
    /// A flow that has waited this long for its first answer moves to another link with its next
    /// datagram.
    pub patience: Duration,
}

impl Default for DirectLimits {
    fn default() -> Self {
        Self {
            flows: DEFAULT_FLOWS,
            idle: DEFAULT_IDLE,
            patience: DEFAULT_PATIENCE,
        }
    }
}

impl DirectPorts<DatagramPlace> {
    /// Creates a factory of ports over the links of `director`, with the default limits. Names are
    /// looked up over these links, too.
    pub fn new(director: SharedDirector) -> Self {
        let resolver = LinkResolver::new(director.clone());
        Self::with_resolver(
            DatagramPlace::new(director),
            resolver,
            DirectLimits::default(),
        )
    }
}

impl<P: PlaceFlows, R: Resolve> DirectPorts<P, R> {
    /// Creates a factory of ports with all its parts given.
    pub fn with_resolver(place: P, resolver: R, limits: DirectLimits) -> Self {
        Self {
            place: Arc::new(place),
            resolver: Arc::new(resolver),
            limits,
            machine: ThisMachine::default(),
        }
    }

    /// Protects `machine`: nothing is sent to it for an application that runs on another machine.
    #[must_use]
    pub fn with_guarded_machine(self, machine: ThisMachine) -> Self {
        Self { machine, ..self }
    }
}

impl<P: PlaceFlows, R: Resolve> DatagramPorts for DirectPorts<P, R> {
    fn open(&self, asker: Origin) -> Result<Box<dyn DatagramPort>, DialError> {
        let mut sweep = interval(self.limits.idle.max(MIN_SWEEP) / 4);
        sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Box::new(DirectPort {
            asker: Arc::new(asker),
            place: Arc::clone(&self.place),
            limits: self.limits,
            machine: self.machine.clone(),
            sockets: Sockets::default(),
            flows: Flows::default(),
            ways: Addresses::new(
                Arc::clone(&self.place),
                Arc::clone(&self.resolver),
                self.machine.clone(),
            ),
            sweep,
        }))
    }
}

struct DirectPort<P: PlaceFlows, R> {
    asker: Arc<Origin>,
    place: Arc<P>,
    limits: DirectLimits,
    machine: ThisMachine,
    sockets: Sockets,
    flows: Flows<P::Books>,
    ways: Addresses<P, R>,
    sweep: Interval,
}

impl<P: PlaceFlows, R: Resolve> DatagramPort for DirectPort<P, R> {
    fn send(&mut self, destination: &Destination, payload: &[u8]) -> bool {
        let Destination { host, port } = destination;
        if let Host::Ip(ip) = host
            && let remote = SocketAddr::new(ip.to_canonical(), *port)
            && self.flows.has(remote)
        {
            // An existing flow has its link, or uses the system's routes for good.
            return self.transmit((remote, false), None, payload).is_ok();
        }
        match self.ways.known(host) {
            Some(_) => self.transmit_to_host(host, *port, payload),
            None => self.ways.look_up(host, *port, payload),
        }
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<SocketAddr> {
        if self.sweep.poll_tick(cx).is_ready() {
            self.flows.expire(Instant::now(), self.limits.idle);
            self.sockets.retain(|key| self.flows.uses(key));
            // This tick has registered no waker for the next tick: poll again.
            let _ = self.sweep.poll_tick(cx);
        }
        while let Poll::Ready((host, waiting)) = self.ways.poll_found(cx) {
            for (port, payload) in waiting {
                self.transmit_to_host(&host, port, &payload);
            }
        }
        while let Poll::Ready((key, received)) = self.sockets.poll_receive(cx, buffer) {
            match received {
                Ok(from) => {
                    let length = ByteCount::from(buffer.filled().len());
                    if self.flows.on_received(&*self.place, from, length) {
                        return Poll::Ready(from);
                    }
                    buffer.clear();
                }
                // The socket's flows are placed anew when they have something to send.
                Err(error) => {
                    tracing::debug!(%error, "discarding a failed datagram socket");
                    self.sockets.remove(&key);
                }
            }
        }
        Poll::Pending
    }
}

impl<P: PlaceFlows, R: Resolve> DirectPort<P, R> {
    /// Sends to the first address of a host that a link leads to, and keeps using that address.
    fn transmit_to_host(&mut self, host: &Host, port: u16, payload: &[u8]) -> bool {
        let domain = match host {
            Host::Name(name) => Some(name),
            Host::Ip(_) => None,
        };
        let mut ways = self.ways.known(host).unwrap_or_default().to_vec();
        ways.sort_by_key(|way| !self.flows.has(SocketAddr::new(way.ip, port)));
        ways.into_iter().any(|way| {
            let flow = (SocketAddr::new(way.ip, port), way.by_routes);
            self.transmit(flow, domain, payload).is_ok()
        })
    }

    /// Sends by the flow's link; if the link is gone or fails, by another link.
    fn transmit(
        &mut self,
        (remote, by_routes): (SocketAddr, bool),
        domain: Option<&HostName>,
        payload: &[u8],
    ) -> Result<(), DialError> {
        let now = Instant::now();
        let asker = Arc::clone(&self.asker);
        // Checked for every datagram: this machine may get new addresses during a flow.
        if !self.machine.admits(&asker, remote.ip()) {
            return Err(DialError::RefusedByPolicy);
        }
        let target = Target {
            remote,
            domain,
            asker: &asker,
            by_routes,
        };
        let mut tried = Vec::new();
        let mut flow = match self.flows.take(remote) {
            Some(flow) => self.review(flow, target, now)?,
            None => self.begin(target, Vec::new(), now)?,
        };
        loop {
            match self.transmit_on(&flow, remote, payload) {
                Ok(()) => {
                    flow.on_sent(now, ByteCount::from(payload.len()));
                    self.flows.insert(remote, flow, self.limits.flows);
                    return Ok(());
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    self.flows.insert(remote, flow, self.limits.flows);
                    return Err(DialError::LimitReached);
                }
                Err(error) => {
                    let cause = DialError::from_io(&error);
                    tried.push(link_of(&flow).ok_or(cause)?);
                    flow = self.begin(target, tried.clone(), now)?;
                }
            }
        }
    }

    /// Keeps a flow on its link, unless the link is gone or the flow gets no answers there.
    fn review(
        &self,
        mut flow: Flow<P::Books>,
        target: Target<'_>,
        now: Instant,
    ) -> Result<Flow<P::Books>, DialError> {
        let Some(link) = flow.link.as_deref() else {
            return Ok(flow);
        };
        if !self.place.stays(link, target.remote.ip()) {
            return self.begin(target, Vec::new(), now);
        }
        let index = link.index;
        let is_lost = flow.is_unanswered(now, self.limits.patience)
            || flow.waits() && self.place.is_suspect(index);
        if !is_lost {
            return Ok(flow);
        }
        let mut tried = flow.tried.clone();
        tried.push(index);
        // Without another link the flow stays: not every datagram gets an answer.
        match self.begin(target, tried, now) {
            Ok(flow) => Ok(flow),
            Err(_) => {
                flow.settle();
                Ok(flow)
            }
        }
    }

    fn begin(
        &self,
        target: Target<'_>,
        tried: Vec<LinkIndex>,
        now: Instant,
    ) -> Result<Flow<P::Books>, DialError> {
        let Placement { link, books } = self.place.place(target, &tried)?;
        Ok(Flow::new(link, books, tried, now))
    }

    fn transmit_on(
        &mut self,
        flow: &Flow<P::Books>,
        remote: SocketAddr,
        payload: &[u8],
    ) -> std::io::Result<()> {
        let key = flow.socket_for(remote);
        let open = || DatagramSocket::open(flow.link.as_deref(), remote.ip());
        let sent = self
            .sockets
            .get_or_open(key, open)?
            .send_to(payload, remote);
        if let Err(error) = &sent
            && is_of_no_use(error)
        {
            self.sockets.remove(&key);
        }
        sent
    }
}

/// True if the socket itself has failed, rather than the destination or this one send.
fn is_of_no_use(error: &std::io::Error) -> bool {
    let lost = [
        libc::ENODEV,
        libc::ENXIO,
        libc::ENETDOWN,
        libc::EADDRNOTAVAIL,
        libc::EINVAL,
    ];
    error
        .raw_os_error()
        .is_some_and(|code| lost.contains(&code))
}

/// Enough for a peer-to-peer program.
const DEFAULT_FLOWS: usize = 1024;
/// Source: RFC 4787 §4.3 (REQ-5 recommends five minutes, and two at least).
const DEFAULT_IDLE: Duration = Duration::from_secs(300);
/// Name lookups are repeated after one to five seconds, QUIC's first packets after one.
const DEFAULT_PATIENCE: Duration = Duration::from_millis(900);
const MIN_SWEEP: Duration = Duration::from_millis(40);
