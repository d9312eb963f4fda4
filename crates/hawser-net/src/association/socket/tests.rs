use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hawser_sctp::Route;
use hawser_session::seal::{Aead, Direction, SessionKeys};
use hawser_skip::namespace::{in_namespace, ip};
use hawser_types::{ChannelId, LinkIndex};
use zeroize::Zeroizing;

use super::*;

const NOW: Instant = Instant::ZERO;
const SEGMENTS: usize = 4;

fn keys() -> SessionKeys {
    SessionKeys::new(Zeroizing::new([7; 32]), Aead::Aes128Gcm)
}

fn sealer(channel: u32) -> DatagramSealer {
    keys().datagram_sealer(ChannelId::new(channel), Direction::ClientToGateway)
}

fn remote(port: u16) -> SocketAddr {
    ([127, 0, 0, 1], port).into()
}

fn gather(outbox: &mut Outbox, port: u16, size: usize) {
    outbox.gather(NOW, remote(port), &vec![1; size], None, SEGMENTS);
}

/// How many datagrams each train has.
fn lengths(outbox: &Outbox) -> Vec<usize> {
    let trains = outbox.trains.iter();
    let count = |train: &Train| train.datagrams.len().div_ceil(train.segment);
    trains.map(count).collect()
}

#[test]
fn trains_are_of_one_address_and_of_one_size_but_for_the_last() {
    let mut outbox = Outbox::default();
    for size in [1000, 1000, 600] {
        gather(&mut outbox, 1, size);
    }
    gather(&mut outbox, 1, 600);
    gather(&mut outbox, 1, 700);
    gather(&mut outbox, 2, 700);
    assert_eq!(lengths(&outbox), [3, 1, 1, 1]);
    (0..9).for_each(|_| gather(&mut outbox, 2, 700));
    assert_eq!(lengths(&outbox), [3, 1, 1, 4, 4, 2]);
}

#[test]
fn what_is_too_much_is_dropped_sooner_while_the_socket_is_full() {
    let mut outbox = Outbox {
        is_full: true,
        ..Outbox::default()
    };
    (0..MAX_WAITING * SEGMENTS + 3).for_each(|_| gather(&mut outbox, 1, 10));
    assert_eq!((outbox.trains.len(), outbox.dropped), (MAX_WAITING, 3));
    outbox.is_full = false;
    (0..MAX_TRAINS * SEGMENTS).for_each(|_| gather(&mut outbox, 1, 10));
    assert_eq!(outbox.trains.len(), MAX_TRAINS);
    assert_eq!(outbox.dropped, 3 + (MAX_WAITING * SEGMENTS) as u64);
}

#[test]
fn trains_are_of_one_key_and_sealed_once_and_then_take_no_more() {
    let mut outbox = Outbox::default();
    let (mut ours, mut theirs) = (sealer(1), sealer(2));
    for _ in 0..2 {
        outbox.gather(NOW, remote(1), b"ours", Some(&mut ours), SEGMENTS);
    }
    outbox.gather(NOW, remote(1), b"theirs", Some(&mut theirs), SEGMENTS);
    assert_eq!(lengths(&outbox), [2, 1]);
    let mut train = outbox.trains.pop_front().unwrap();
    train.seal();
    let sealed = train.datagrams.clone();
    train.seal();
    assert_eq!(train.datagrams, sealed);
    assert!(!train.takes(remote(1), 4 + OVERHEAD, SEGMENTS, Some(ours.key(NOW))));
    let mut opener = keys().datagram_opener(ChannelId::new(1), Direction::ClientToGateway);
    for datagram in sealed.chunks(train.segment) {
        assert_eq!(opener.open(NOW, datagram.into()).unwrap(), "ours");
    }
}

#[test]
fn what_came_at_once_is_cut_into_datagrams_that_share_little_memory() {
    for (length, stride) in [(60_000, 1400), (1400, 1400), (3, 0), (40_000, 40_000)] {
        let received: Vec<u8> = (0..length).map(|n| (n * 31 / 7) as u8).collect();
        let mut datagrams = Vec::new();
        let mut memory = PacketMemory::default();
        cut(&mut memory, &received, stride, |datagram| {
            datagrams.push(datagram)
        });
        let most = stride.max(1);
        assert!(datagrams.iter().rev().skip(1).all(|it| it.len() == most));
        assert_eq!(datagrams.concat(), received);
    }
}

/// Of two packets that are too large for the interface, the one that may be fragmented arrives;
/// after that, the first packet that fits arrives.
async fn send_over_narrow_interface(address: IpAddr) {
    let local = Local {
        link: LinkIndex::new(0),
        address,
    };
    let [from, to] = [0; 2].map(|port| LinkSocket::bind(local, port, Sharing::Alone).unwrap());
    let remote = SocketAddr::new(address, to.port().unwrap());
    // The runtime has to know that the socket is writable: nothing here waits for it later.
    from.socket.writable().await.unwrap();
    let packets = [
        (1, 1450, false),
        (2, 1450, true),
        (3, 1450, false),
        (4, 1200, false),
    ];
    for (name, size, may_fragment) in packets {
        let packet = hawser_sctp::Transmit {
            route: Route { local, remote },
            datagram: vec![name; size].into(),
            may_fragment,
        };
        from.gather(NOW, &packet, None);
        if name != 1 {
            from.flush();
        }
    }
    let mut buffers = vec![0; MAX_BATCH * BATCH_SIZE];
    let mut memory = PacketMemory::default();
    let mut arrived = Vec::new();
    while arrived.last() != Some(&(4, 1200)) {
        let take = |_, _, datagram: BytesMut| arrived.push((datagram[0], datagram.len()));
        match to.receive(&mut buffers, &mut memory, take).await {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => panic!("{error}"),
            _ => {}
        }
    }
    assert_eq!(arrived, [(2, 1450), (4, 1200)]);
}

#[test]
fn what_is_too_large_for_an_interface_leaves_only_where_it_may_be_cut() {
    let test = "association::socket::tests::what_is_too_large_for_an_interface_leaves_only_where_it_may_be_cut";
    in_namespace(test, || {
        ip("link set lo mtu 1300 up");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(async {
            send_over_narrow_interface(Ipv4Addr::LOCALHOST.into()).await;
            send_over_narrow_interface(Ipv6Addr::LOCALHOST.into()).await;
        });
    });
}
