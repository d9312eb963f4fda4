//! `hawser serve`: runs the gateway.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use hawser_config::{IpNet, PacketExit, ServeConfig};
use hawser_control::Role;
use hawser_front::connect::{Connect, connect_tcp};
use hawser_front::gateway::{
    Cidr, ClientLimits, ClientStreams, DestinationPolicy, Gateway as Relay, GatewayConfig,
    MeetingPlace,
};
use hawser_host::packet_exit::ConnectLimits;
use rustix::process::{Resource, getrlimit};

use crate::Daemon;
use crate::gateway::directory::PlannedDirectory;
use crate::gateway::far_end::FarEnd;
use crate::gateway::front_door::Services;
use crate::gateway::own::GatewayAddresses;
use crate::gateway::packets::Packets;
use crate::gateway::reasons::ReasonsTold;
use crate::setup::{Setup, Usage};

/// Runs the gateway until the daemon is asked to end. `setup` holds the configuration as the flags
/// have changed it; the first invite is also written to `invite_file`.
///
/// # Errors
/// If the configuration contradicts itself, another daemon runs in the state directory, or the
/// gateway can't listen.
pub async fn run(setup: &Setup, invite_file: Option<&Path>) -> anyhow::Result<()> {
    let config = setup.config.serve.clone();
    let directory = setup.config.directory.clone();
    if let Some(problem) = directory.problem() {
        return Err(Usage(problem.to_owned()).into());
    }
    if let Some(problem) = config.front.problem(config.listen) {
        return Err(Usage(format!("--front: {problem}")).into());
    }
    let daemon = Daemon::of(setup, &setup.state, Role::Gateway).await?;
    // Files are read early: in an upgrade, the old process still serves if they have mistakes.
    let contacts = policy(&config, &directory.allow_contact).await?;
    let directory = PlannedDirectory::read(directory, contacts)?;
    let policy = policy(&config, &config.allow_destination).await?;
    let services = Services::prepare(&config.front.ports, daemon.predecessor().is_some()).await;
    daemon.take_over().await?;
    let packets = Packets::start(&config, &setup.state, policy.clone()).await;
    // Streams work without packets.
    let packets = packets.unwrap_or_else(|error| {
        tracing::warn!("clients' packets are not carried: {error:#}");
        None
    });
    let meeting = config.meet.then(|| Arc::new(MeetingPlace::default()));
    let told = ReasonsTold::default();
    let streams = Arc::new(ClientStreams {
        relay: relay(&config, policy),
        exchange: packets.as_ref().map(|it| Arc::clone(&it.exchange)),
        meeting: meeting.clone(),
        reasons: Box::new(move |client, stream, of| told.tell(client, stream, of)),
    });
    let far_end = FarEnd {
        setup,
        state: &setup.state,
        config: &config,
        role: Role::Gateway,
        invite_file,
        command: "hawser up --gateway INVITE",
        relay: Some(streams.relay.counters()),
        packets,
        meeting,
        directory,
        services,
    };
    far_end
        .run(&daemon, |incoming| {
            let streams = Arc::clone(&streams);
            tokio::spawn(async move { streams.serve(incoming).await });
        })
        .await
}

/// Returns the policy for destinations: hosts on the internet, and the networks in `allowed`.
async fn policy(config: &ServeConfig, allowed: &[IpNet]) -> anyhow::Result<DestinationPolicy> {
    let own = GatewayAddresses::follow(&config.advertise).await?;
    let allowed = allowed
        .iter()
        .map(|net| Cidr::new(net.addr(), net.prefix_len()));
    Ok(DestinationPolicy::new(
        allowed.collect::<Result<_, _>>()?,
        move |address: IpAddr| own.contains(address),
    ))
}

/// Returns the relay that connects to destinations.
fn relay(config: &ServeConfig, policy: DestinationPolicy) -> Relay<impl Connect> {
    let mut limits = ClientLimits {
        connects_per_second: config.limits.connects_per_second,
        all_streams: streams_within(getrlimit(Resource::Nofile).current),
        ..ClientLimits::default()
    };
    // For address translation the kernel tracks connections, including those of this machine.
    let is_tracked = config.packet_exit != PacketExit::Off;
    if let Some(most) = ConnectLimits::of_kernel().filter(|_| is_tracked) {
        limits.connect_burst = limits.connect_burst.min(most.at_once);
        if most.per_second < limits.connects_per_second {
            limits.connects_per_second = most.per_second;
            tracing::info!(
                per_second = most.per_second,
                "lowered the limit of connects per client to fit net.netfilter.nf_conntrack_max"
            );
        }
    }
    let config = GatewayConfig {
        limits,
        ..GatewayConfig::default()
    };
    Relay::new(connect_tcp, policy, config)
}

/// Returns the limit of open streams of all clients: half of the file descriptors. The other half
/// is for clients' sessions, so that clients can join when destinations need many descriptors, and
/// for streams that try several addresses at a time.
fn streams_within(descriptors: Option<u64>) -> usize {
    descriptors.map_or(usize::MAX, |most| {
        usize::try_from(most / 2).unwrap_or(usize::MAX)
    })
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
