use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use hawser_types::LinkIndex;

use hawser_link::inherited;

use super::*;

fn datagrams(sizes: &[usize]) -> Vec<(SocketAddr, BytesMut)> {
    let remotes = ["192.0.2.7:7443", "[2001:db8::7]:9", "[fe80::1%3]:1"];
    let of = |(number, size): (usize, &usize)| {
        let remote = remotes[number % remotes.len()].parse().unwrap();
        (remote, BytesMut::from(&vec![number as u8; *size][..]))
    };
    sizes.iter().enumerate().map(of).collect()
}

fn local() -> Local {
    Local {
        link: LinkIndex::new(7),
        address: Ipv4Addr::new(10, 0, 0, 1).into(),
    }
}

fn all() -> Vec<Message> {
    let mut all = vec![
        Message::Listener,
        Message::Lock,
        Message::Door("[::]:40000".parse().unwrap()),
        Message::Begin(None),
        Message::Begin(Some("[::]:7443".parse().unwrap())),
        Message::Begin(Some("127.0.0.1:1080".parse().unwrap())),
        Message::Yield,
        Message::Yielded,
        Message::Ready,
        join(PortOf::Clients),
        join(PortOf::Strangers),
        Message::Offer(Offer([8; hawser_wire::JOIN_OFFER_LENGTH])),
        Message::Left(Left {
            open: 7,
            seconds: 3600,
        }),
    ];
    all.extend(Message::carrying(local(), datagrams(&[0, 1, 1500])));
    all
}

fn join(port: PortOf) -> Message {
    let said = [9; hawser_wire::JOIN_PRELUDE_LENGTH];
    Message::Join(Join { port, said })
}

#[test]
fn messages_are_read_as_they_were_written_and_nothing_else_is() {
    for message in all() {
        let bytes = message.encode();
        assert_eq!(Message::decode(&bytes), Some(message.clone()));
        let longer = [&bytes[..], &[0]].concat();
        assert_ne!(Message::decode(&longer), Some(message.clone()));
        for end in 0..bytes.len() {
            let part = Message::decode(&bytes[..end]);
            assert_ne!(part, Some(message.clone()), "{end}");
        }
        for place in 0..bytes.len() {
            let mut other = bytes.clone();
            other[place] ^= 0xff;
            // Any result is fine without a panic.
            let _ = Message::decode(&other);
        }
    }
}

#[test]
fn datagrams_fill_messages_in_their_order_and_none_is_too_large() {
    let sizes = [1400; 100];
    let messages = Message::carrying(local(), datagrams(&sizes));
    assert_eq!(messages.len(), 3);
    let mut carried = Vec::new();
    for message in messages {
        assert!(message.encode().len() <= message::MAX_SIZE);
        let Message::Datagrams(Datagrams {
            local: at,
            datagrams,
        }) = message
        else {
            panic!("{message:?}");
        };
        assert_eq!(at, local());
        carried.extend(datagrams);
    }
    assert_eq!(carried, datagrams(&sizes));
    // The largest UDP datagram fits, and a larger one is dropped.
    assert_eq!(Message::carrying(local(), datagrams(&[65_507])).len(), 1);
    assert_eq!(Message::carrying(local(), datagrams(&[65_530])).len(), 0);
}

#[tokio::test]
async fn a_listener_goes_over_with_what_waits_at_it() {
    let before = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = before.local_addr().unwrap();
    let mut client = TcpStream::connect(address).unwrap();
    let (pipe, end) = pair().unwrap();
    let other = Pipe::new(end).unwrap();
    let found = inherited::listening().unwrap();
    for socket in &found {
        let socket = Some(socket.as_fd());
        pipe.send(&Message::Listener, socket).await.unwrap();
    }
    drop((before, pipe));
    let mut count = 0;
    while let Some((message, socket)) = other.receive().await.unwrap() {
        assert_eq!(message, Message::Listener);
        inherited::keep(socket.unwrap());
        count += 1;
    }
    assert_eq!(count, found.len());
    let elsewhere = (Ipv4Addr::new(127, 0, 0, 2), address.port()).into();
    assert!(inherited::take_listener(elsewhere).is_none());
    assert!(
        inherited::take_on_link(address, LinkIndex::new(1)).is_none(),
        "it is bound to no link"
    );
    let after = inherited::take_listener(address).unwrap();
    assert!(inherited::take_listener(address).is_none(), "once only");
    let (mut stream, _) = after.accept().unwrap();
    client.write_all(b"here").unwrap();
    let mut heard = [0; 4];
    stream.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"here");
}

#[tokio::test]
async fn only_an_end_of_a_pair_is_one() {
    let file = std::fs::File::open("/dev/null").unwrap();
    assert!(Pipe::new(file.into()).is_err());
    let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
    assert!(Pipe::new(one.into()).is_err());
}

#[tokio::test]
async fn an_invalid_message_ends_the_pair_and_a_full_pair_drops() {
    let (pipe, end) = pair().unwrap();
    let to = ToPredecessor::new(Arc::new(pipe));
    // No process reads: messages that do not fit are dropped, and the sender does not wait.
    for _ in 0..100 {
        to.pass_datagrams(local(), datagrams(&[60_000]));
    }
    let other = Pipe::new(end).unwrap();
    let first = other.receive().await.unwrap();
    assert!(matches!(first, Some((Message::Datagrams(_), None))));
    to.note_gone();
    assert!(!to.is_there());
    drop(to);
    while other.receive().await.unwrap().is_some() {}
    let (raw, end) = rustix::net::socketpair(
        rustix::net::AddressFamily::UNIX,
        rustix::net::SocketType::SEQPACKET,
        rustix::net::SocketFlags::CLOEXEC,
        None,
    )
    .unwrap();
    rustix::io::write(&raw, &[255]).unwrap();
    assert!(Pipe::new(end).unwrap().receive().await.is_err());
}
