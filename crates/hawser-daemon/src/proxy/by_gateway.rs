//! The gateway as one route among others: dialing over it, and reporting its state to the director.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use hawser_control::GatewayStatus;
use hawser_director::{GatewayReport, SessionView};
use hawser_front::bonded::BondDialer;
use hawser_front::connection::{DatagramPlace, SharedDirector};
use hawser_front::datagram::{BondPorts, ChoicePorts, DatagramPorts, DirectPorts};
use hawser_net::client::Client;
use hawser_net::ticks::Ticks;
use hawser_sched::connection::GatewayUse;
use hawser_session::SessionSnapshot;
use hawser_types::{ByteCount, LinkIndex};
use tokio::task::JoinHandle;

/// A gateway as a route beside the links.
pub struct ByGateway {
    client: Arc<Client>,
    task: JoinHandle<()>,
}

impl ByGateway {
    /// Adds the gateway to `director`: `usage` decides which connections use it, unless rules do.
    /// From then on reports the state of `client`'s session to `director`.
    pub fn start(client: Arc<Client>, director: SharedDirector, usage: GatewayUse) -> Self {
        director.set_gateway(usage);
        let task = tokio::spawn(follow(Arc::downgrade(&client), director));
        Self { client, task }
    }

    /// Returns a dialer over the gateway.
    pub fn dialer(&self) -> BondDialer {
        BondDialer::new(Arc::clone(&self.client))
    }

    /// Returns ports that carry datagrams over the gateway or over `direct`, as `director` decides.
    pub(crate) fn datagrams(
        &self,
        direct: DirectPorts<DatagramPlace>,
        director: SharedDirector,
    ) -> Arc<dyn DatagramPorts> {
        let gateway = BondPorts::new(Arc::clone(&self.client));
        Arc::new(ChoicePorts::new(direct, gateway, director))
    }
}

impl Drop for ByGateway {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns the director's record of the gateway, in the form of the control API.
pub(crate) fn status(report: &GatewayReport) -> GatewayStatus {
    GatewayStatus {
        usage: report.usage.name().to_owned(),
        is_up: report.is_up,
        unreachable_since_unix_ms: None,
        reason: None,
        links: report.links as u64,
        placed: report.opened,
        open: report.open,
        up: report.up,
        down: report.down,
        latency: (!report.latency.is_zero()).then_some(report.latency),
    }
}

async fn follow(client: Weak<Client>, director: SharedDirector) {
    let mut ticks = Ticks::every(EVERY);
    let mut moved = None;
    loop {
        ticks.tick().await;
        let Some(client) = client.upgrade() else {
            return;
        };
        let view = session(&client);
        let before = std::mem::replace(&mut moved, view.as_ref().map(|view| view.moved));
        director.set_session(view);
        if moved.is_some() && before == moved {
            ticks.put_off(IDLE_EVERY);
        }
    }
}

/// Returns the current state of the session; `None` while the client is not admitted.
fn session(client: &Client) -> Option<SessionView> {
    let admitted = client.is_admitted().then(|| client.snapshot(0));
    view(&admitted?.session?)
}

/// Returns the session's links that are not silent; `None` if all are silent.
fn view(session: &SessionSnapshot) -> Option<SessionView> {
    let mut links: BTreeMap<LinkIndex, Duration> = BTreeMap::new();
    for channel in session.channels.iter().filter(|it| !it.suspect) {
        let rtt = links.entry(channel.link).or_insert(channel.rtt);
        *rtt = (*rtt).min(channel.rtt);
    }
    let sum = |one: [ByteCount; 2], more: [ByteCount; 2]| [one[0] + more[0], one[1] + more[1]];
    // Count delivered bytes: bytes that were sent twice arrive once.
    let moved = session
        .links
        .iter()
        .map(|link| [link.delivered, link.received]);
    let view = SessionView {
        links: links.into_iter().collect(),
        moved: moved.fold([ByteCount::ZERO; 2], sum),
    };
    (!view.links.is_empty()).then_some(view)
}

/// Period of reports, equal to that of reading the links' counters.
const EVERY: Duration = Duration::from_millis(500);
/// Period of reports while no data moves.
const IDLE_EVERY: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests;
