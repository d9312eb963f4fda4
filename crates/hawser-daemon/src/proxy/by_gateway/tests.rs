use hawser_front::connection::SharedDirector;
use hawser_keys::identity::Identity;
use hawser_net::client::ClientConfig;
use hawser_sched::connection::ConnectionPolicy;
use hawser_sched::governor::Standing;
use hawser_session::{ChannelSnapshot, LinkSnapshot};
use hawser_types::{ChannelId, Rate};
use hawser_wire::ChannelRole;
use tokio::sync::watch;

use super::*;

fn channel(number: u32, link: u32, milliseconds: u64, suspect: bool) -> ChannelSnapshot {
    ChannelSnapshot {
        id: ChannelId::new(number),
        role: ChannelRole::Bulk,
        transport: Default::default(),
        link: LinkIndex::new(link),
        suspect,
        silent_for: None,
        unheard_for: None,
        rtt: Duration::from_millis(milliseconds),
        rate: Rate::ZERO,
        congestion_window: ByteCount::ZERO,
        in_flight: ByteCount::ZERO,
        sent: ByteCount::ZERO,
        received: ByteCount::ZERO,
        retransmissions: 0,
        segments_delivered: None,
        incoming_queue: None,
        peer: None,
    }
}

fn link(number: u32, sent: u64, delivered: u64, received: u64) -> LinkSnapshot {
    LinkSnapshot {
        link: LinkIndex::new(number),
        standing: Standing::Full,
        preferred: false,
        bottleneck: None,
        sent: ByteCount::new(sent),
        received: ByteCount::new(received),
        delivered: ByteCount::new(delivered),
        late: ByteCount::ZERO,
        blocked: Duration::ZERO,
        silent_for: None,
    }
}

fn snapshot(channels: Vec<ChannelSnapshot>, links: Vec<LinkSnapshot>) -> SessionSnapshot {
    SessionSnapshot {
        channels,
        transport: Default::default(),
        links,
        streams: Vec::new(),
        scheduler: Default::default(),
        peer_follows_scheduler: None,
        stream_count: 0,
        counters: Default::default(),
        unsent: ByteCount::ZERO,
        unacknowledged: ByteCount::ZERO,
        credit_lent: ByteCount::ZERO,
        held: ByteCount::ZERO,
        packet_scheduler: Default::default(),
        tunnel: Default::default(),
        flows: Vec::new(),
        flow_count: 0,
    }
}

#[test]
fn a_session_is_its_links_that_answer_each_with_its_shortest_round_trip() {
    let channels = vec![
        channel(1, 2, 30, false),
        channel(2, 2, 20, false),
        channel(3, 3, 40, false),
        channel(4, 3, 10, true),
        channel(5, 4, 10, true),
    ];
    let links = vec![link(2, 900, 500, 70), link(3, 90, 80, 7)];
    let seen = view(&snapshot(channels, links)).unwrap();
    let ms = Duration::from_millis;
    let expected = [(LinkIndex::new(2), ms(20)), (LinkIndex::new(3), ms(40))];
    assert_eq!(seen.links, expected);
    // Bytes that were sent and have arrived, each counted once.
    assert_eq!(seen.moved, [ByteCount::new(580), ByteCount::new(77)]);
}

#[test]
fn of_a_session_that_is_silent_nothing_is_to_be_hoped() {
    let links = || vec![link(2, 900, 500, 70)];
    assert_eq!(
        view(&snapshot(vec![channel(1, 2, 30, true)], links())),
        None
    );
    assert_eq!(view(&snapshot(Vec::new(), links())), None);
}

#[tokio::test]
async fn the_director_knows_of_the_gateway_before_anything_is_said_of_its_session() {
    let config = ClientConfig {
        name: "test".to_owned(),
        ..ClientConfig::new(
            Identity::from_seed([1; 32]),
            Identity::from_seed([2; 32]).public(),
            vec!["127.0.0.1:9".parse().unwrap()],
        )
    };
    let (_sender, links) = watch::channel(Arc::default());
    let client = Arc::new(Client::start(config, links));
    let director = SharedDirector::new(ConnectionPolicy::Auto, Vec::new());
    let _by_gateway = ByGateway::start(client, director.clone(), GatewayUse::Never);
    // The gateway's task has not run yet.
    let gateway = director.report().gateway.unwrap();
    assert_eq!((gateway.usage, gateway.is_up), (GatewayUse::Never, false));
}
