//! `hawser serve`: the gateway.

use std::net::IpAddr;
use std::sync::Arc;

use hawser_config::ServeConfig;
use hawser_control::Role;
use hawser_front::bonded::{Bonded, Purpose};
use hawser_front::connect::{Connect, connect_tcp};
use hawser_front::gateway::{
    Cidr, ClientId, ClientLimits, DestinationPolicy, Gateway as Relay, GatewayConfig,
    IncomingStream as _, MeetingPlace,
};
use hawser_front::packets::Exchange;
use hawser_front::transport::DialError;
use hawser_net::gateway::Incoming;
use rustix::process::{Resource, getrlimit};

use crate::args::ServeArgs;
use crate::daemon::Daemon;
use crate::daemon::gateway::directory::PlannedDirectory;
use crate::daemon::gateway::far_end::FarEnd;
use crate::daemon::gateway::front_door::Services;
use crate::daemon::gateway::measure;
use crate::daemon::gateway::own::GatewayAddresses;
use crate::daemon::gateway::packets::Packets;
use crate::daemon::gateway::reasons::{self, ReasonsTold};
use crate::setup::{Setup, Usage};

/// Runs the gateway until it is asked to end.
pub(crate) async fn run(setup: &Setup, args: &ServeArgs) -> anyhow::Result<()> {
    let mut config = setup.config.serve.clone();
    args.apply_to(&mut config);
    let mut directory = setup.config.directory.clone();
    args.directory.apply_to(&mut directory);
    if let Some(problem) = directory.problem() {
        return Err(Usage(problem.to_owned()).into());
    }
    if let Some(problem) = config.front.problem(config.listen) {
        return Err(Usage(format!("--front: {problem}")).into());
    }
    let daemon = Daemon::of(setup, &setup.state, Role::Gateway).await?;
    // A mistake in a file is found while a process of before still serves.
    let directory = PlannedDirectory::read(directory)?;
    let policy = policy(&config).await?;
    let services = Services::prepare(&config.front.ports, daemon.predecessor().is_some()).await;
    daemon.take_over().await?;
    let packets = Packets::start(&config, &setup.state, policy.clone()).await;
    // Streams go on without them.
    let packets = packets.unwrap_or_else(|error| {
        tracing::warn!("clients' packets are not carried: {error:#}");
        None
    });
    let relay = Arc::new(relay(&config, policy));
    let meeting = config.meet.then(|| Arc::new(MeetingPlace::default()));
    let carried = packets.as_ref().map(|it| Arc::clone(&it.exchange));
    let far_end = FarEnd {
        setup,
        state: &setup.state,
        config: &config,
        role: Role::Gateway,
        invite_file: args.door.invite_file.as_deref(),
        command: "hawser up --gateway INVITE",
        relay: Some(relay.counters()),
        packets,
        meeting: meeting.clone(),
        directory,
        services,
    };
    let reasons = Arc::new(ReasonsTold::default());
    far_end
        .run(&daemon, |incoming| {
            let (relay, reasons) = (Arc::clone(&relay), Arc::clone(&reasons));
            let beside = Beside {
                exchange: carried.clone(),
                meeting: meeting.clone(),
                reasons,
            };
            tokio::spawn(serve_stream(relay, beside, incoming));
        })
        .await
}

/// Returns the destinations that clients may reach.
async fn policy(config: &ServeConfig) -> anyhow::Result<DestinationPolicy> {
    let own = GatewayAddresses::follow(&config.advertise).await?;
    let allowed = config
        .allow_destination
        .iter()
        .map(|net| Cidr::new(net.addr(), net.prefix_len()));
    Ok(DestinationPolicy::new(
        allowed.collect::<Result<_, _>>()?,
        move |address: IpAddr| own.contains(address),
    ))
}

/// Returns the relay that connects to destinations.
fn relay(config: &ServeConfig, policy: DestinationPolicy) -> Relay<impl Connect> {
    let limits = ClientLimits {
        connects_per_second: config.limits.connects_per_second,
        all_streams: streams_within(getrlimit(Resource::Nofile).current),
        ..ClientLimits::default()
    };
    let config = GatewayConfig {
        limits,
        ..GatewayConfig::default()
    };
    Relay::new(connect_tcp, policy, config)
}

/// Returns how many streams may be open, of all clients: half of the file descriptors. The other
/// half is for what clients' sessions need, so that they can join when destinations take many; and
/// a stream that tries several addresses takes more than one for a moment.
fn streams_within(descriptors: Option<u64>) -> usize {
    descriptors.map_or(usize::MAX, |most| {
        usize::try_from(most / 2).unwrap_or(usize::MAX)
    })
}

/// What serves streams that lead to no destination.
struct Beside {
    exchange: Option<Arc<Exchange>>,
    meeting: Option<Arc<MeetingPlace>>,
    reasons: Arc<ReasonsTold>,
}

/// Serves one stream to its end.
async fn serve_stream<C: Connect>(relay: Arc<Relay<C>>, beside: Beside, incoming: Incoming) {
    let client = ClientId::new(*incoming.peer.as_bytes());
    let stream = Bonded::new(incoming.stream);
    match Purpose::of(stream.open_metadata()) {
        Some(Purpose::Connect) => {
            if let Err(error) = relay.handle(client, stream).await {
                tracing::debug!(?client, %error, "a stream is refused");
            }
        }
        Some(Purpose::Datagrams) => {
            if let Err(error) = relay.handle_datagrams(client, stream).await {
                tracing::debug!(?client, %error, "a flow is refused");
            }
        }
        Some(Purpose::Packets) => match beside.exchange {
            Some(exchange) => {
                if let Err(error) = exchange.serve(client, stream).await {
                    tracing::debug!(?client, %error, "a tunnel is refused");
                }
            }
            None => stream.refuse(DialError::RefusedByPolicy),
        },
        Some(Purpose::Sink) => measure::swallow(stream).await,
        Some(Purpose::Source(size)) => measure::pour(stream, size).await,
        Some(Purpose::Reasons(of)) if beside.reasons.may_tell(client) => {
            reasons::tell(stream, of).await;
        }
        Some(Purpose::Reasons(_)) => stream.refuse(DialError::LimitReached),
        Some(Purpose::BeMet) => match beside.meeting {
            Some(meeting) => meeting.be_met(client, stream).await,
            None => stream.refuse(DialError::RefusedByPolicy),
        },
        Some(Purpose::Observe(token)) => match beside.meeting {
            Some(meeting) => meeting.observe(client, token, stream).await,
            None => stream.refuse(DialError::RefusedByPolicy),
        },
        Some(Purpose::Meet(key)) => match beside.meeting {
            Some(meeting) => {
                if let Err(error) = meeting.meet(client, ClientId::new(key), stream).await {
                    tracing::debug!(?client, %error, "a client does not meet another");
                }
            }
            None => stream.refuse(DialError::RefusedByPolicy),
        },
        _ => stream.refuse(DialError::MalformedDestination),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_leave_half_of_the_descriptors_to_sessions() {
        assert_eq!(streams_within(Some(1024)), 512);
        assert_eq!(streams_within(None), usize::MAX);
    }
}
