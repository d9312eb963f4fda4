use std::sync::atomic::{AtomicUsize, Ordering};

use hawser_keys::store::{NameStore, StateDir};
use hawser_skip::ClosedPort;
use hawser_wire::dns::{AddressRecord, DnsQuestion};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};

use super::*;

/// A name server that answers with so many bytes behind the question, over UDP and TCP. Over TCP it
/// answers messages other than queries twice. It counts the datagrams.
async fn server(length: usize) -> (SocketAddr, Arc<AtomicUsize>) {
    let (listener, socket) = ports().await;
    let address = listener.local_addr().unwrap();
    let heard = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&heard);
    tokio::spawn(async move {
        let mut bytes = [0; 8192];
        while let Ok((size, from)) = socket.recv_from(&mut bytes).await {
            count.fetch_add(1, Ordering::Relaxed);
            let mut answer = answer(&bytes[..size], length);
            if answer.len() > 512 {
                answer[2] |= 2;
                answer.truncate(512);
            }
            socket.send_to(&answer, from).await.unwrap();
        }
    });
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            while let Some(query) = read(&mut stream).await {
                let answers = if query[2] & 0x78 == 0 { 1 } else { 2 };
                for _ in 0..answers {
                    write(&mut stream, &answer(&query, length)).await;
                }
            }
        }
    });
    (address, heard)
}

/// Binds both protocols to the same port number.
async fn ports() -> (TcpListener, UdpSocket) {
    loop {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        if let Ok(socket) = UdpSocket::bind(listener.local_addr().unwrap()).await {
            return (listener, socket);
        }
    }
}

/// Returns an answer to `query` with one record of so many bytes.
fn answer(query: &[u8], length: usize) -> Vec<u8> {
    let mut answer = query.to_vec();
    answer[2] |= 0x80;
    answer[7] = 1;
    answer.extend_from_slice(&[0xc0, 12, 0, 16, 0, 1, 0, 0, 0, 60]);
    answer.extend_from_slice(&(length as u16).to_be_bytes());
    answer.resize(answer.len() + length, b'x');
    answer
}

async fn write(stream: &mut TcpStream, message: &[u8]) {
    stream.write_u16(message.len() as u16).await.unwrap();
    stream.write_all(message).await.unwrap();
}

async fn read(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let length = stream.read_u16().await.ok()?;
    let mut message = vec![0; length.into()];
    stream.read_exact(&mut message).await.ok()?;
    Some(message)
}

fn question(number: u16) -> Vec<u8> {
    let name = "www.example.org".parse().unwrap();
    DnsQuestion::encode(number, &name, AddressRecord::A)
}

/// Opens a port that answers for `server` without the help of links.
async fn port_for(server: SocketAddr) -> (Port, SocketAddr) {
    port_noting(server, KnownNames::default(), reserved()).await
}

/// Returns the names of an empty book.
fn reserved() -> ReservedNames {
    let folder = tempfile::tempdir().unwrap();
    let dir = StateDir::resolve(Some(folder.path().to_path_buf())).unwrap();
    ReservedNames::new(Arc::new(NameStore::open(&dir).unwrap()))
}

async fn port_noting(
    server: SocketAddr,
    known: KnownNames,
    reserved: ReservedNames,
) -> (Port, SocketAddr) {
    let answering = Answering {
        names: Names::with_root("/nonexistent".into()),
        reserved,
        told: ToldNames::default(),
        machine: ThisMachine::default(),
        known,
        held: None,
        links: Box::new(Vec::new),
        limits: Limits::default(),
    };
    let port = Port::open(server, Arc::new(answering)).await.unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], port.number));
    (port, address)
}

async fn ask(socket: &UdpSocket, query: &[u8]) -> Vec<u8> {
    socket.send(query).await.unwrap();
    let mut bytes = [0; 8192];
    let length = socket.recv(&mut bytes).await.unwrap();
    bytes[..length].to_vec()
}

async fn asker(port: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.connect(port).await.unwrap();
    socket
}

#[tokio::test]
async fn an_answer_comes_as_the_server_gave_it() {
    let (server, _) = server(40).await;
    let (_port, address) = port_for(server).await;
    let socket = asker(address).await;
    for number in [7, 8] {
        let query = question(number);
        assert_eq!(ask(&socket, &query).await, answer(&query, 40));
    }
}

#[tokio::test]
async fn what_does_not_fit_a_datagram_comes_over_tcp() {
    let (server, _) = server(2000).await;
    let (_port, address) = port_for(server).await;
    let query = question(7);
    let cut = ask(&asker(address).await, &query).await;
    assert_eq!((cut.len(), cut[2] & 2), (query.len(), 2));
    // A query that accepts longer datagrams gets the answer at once.
    let mut able = question(8);
    able[11] = 1;
    able.extend_from_slice(b"\0\0\x29\x10\0\0\0\0\0\0\0");
    let whole = ask(&asker(address).await, &able).await;
    assert_eq!(whole, answer(&able, 2000));
    let mut stream = TcpStream::connect(address).await.unwrap();
    for number in [9, 10] {
        let query = question(number);
        write(&mut stream, &query).await;
        assert_eq!(read(&mut stream).await.unwrap(), answer(&query, 2000));
    }
}

#[tokio::test]
async fn what_is_no_question_goes_to_the_server_as_it_is() {
    let (server, _) = server(40).await;
    let (_port, address) = port_for(server).await;
    let mut update = question(7);
    update[2] = 0x28;
    assert_eq!(
        ask(&asker(address).await, &update).await,
        answer(&update, 40)
    );
    let mut stream = TcpStream::connect(address).await.unwrap();
    write(&mut stream, &question(1)).await;
    read(&mut stream).await.unwrap();
    // A message that gets more than one answer.
    write(&mut stream, &update).await;
    for _ in 0..2 {
        assert_eq!(read(&mut stream).await.unwrap(), answer(&update, 40));
    }
}

/// A name server whose answers are its queries, changed by `add`.
async fn answering(add: impl Fn(&mut Vec<u8>) + Send + 'static) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let server = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let mut bytes = [0; 512];
        while let Ok((size, from)) = socket.recv_from(&mut bytes).await {
            let mut answer = bytes[..size].to_vec();
            answer[2] |= 0x80;
            add(&mut answer);
            socket.send_to(&answer, from).await.unwrap();
        }
    });
    server
}

/// A name server that answers each question with these addresses.
async fn server_of(addresses: &'static [[u8; 4]]) -> SocketAddr {
    let add = move |answer: &mut Vec<u8>| {
        answer[7] = addresses.len() as u8;
        for address in addresses {
            answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
            answer.extend(address);
        }
    };
    answering(add).await
}

/// Returns the code and number of records of the answer to a query, from a server of `addresses`.
async fn told(addresses: &'static [[u8; 4]], query: &[u8]) -> (u8, u8) {
    let (_port, address) = port_for(server_of(addresses).await).await;
    let answer = ask(&asker(address).await, query).await;
    (answer[3] & 0xf, answer[7])
}

#[tokio::test]
async fn an_answer_that_leads_a_name_of_the_internet_here_is_not_passed_on() {
    const SEVENTEEN: [[u8; 4]; 17] = {
        let mut all = [[127, 0, 0, 1]; 17];
        let mut n = 0;
        while n < 16 {
            all[n] = [192, 0, 2, n as u8];
            n += 1;
        }
        all
    };
    for (addresses, is_refused) in [
        (&[[127, 0, 0, 1]][..], true),
        (&[[192, 0, 2, 7], [0, 0, 0, 0]], true),
        (&[[169, 254, 169, 254]], true),
        (&SEVENTEEN, true),
        (&[[192, 0, 2, 7], [10, 0, 0, 1]], false),
        (SEVENTEEN.split_last().unwrap().1, false),
    ] {
        let expected = if is_refused { 0 } else { addresses.len() as u8 };
        let (code, records) = told(addresses, &question(7)).await;
        assert_eq!((code, records), (0, expected), "{addresses:?}");
        let own = "app.localhost".parse().unwrap();
        let own = DnsQuestion::encode(8, &own, AddressRecord::A);
        let all = addresses.len() as u8;
        assert_eq!(told(addresses, &own).await, (0, all), "{addresses:?}");
    }
    // A hostile network decides where names of links lead.
    let on_links = "x.local".parse().unwrap();
    let on_links = DnsQuestion::encode(8, &on_links, AddressRecord::A);
    assert_eq!(told(&[[127, 0, 0, 1]], &on_links).await, (0, 0));
    assert_eq!(told(&[[169, 254, 0, 9]], &on_links).await, (0, 1));
}

#[tokio::test]
async fn a_name_that_is_blocked_by_an_unspecified_address_has_no_records() {
    assert_eq!(told(&[[0, 0, 0, 0]], &question(7)).await, (0, 0));
}

/// A name server that answers each query with this code and flags, and an HTTPS record with these
/// addresses as hints.
async fn server_of_hints(flags: [u8; 2], hints: &'static [u8]) -> SocketAddr {
    let add = move |answer: &mut Vec<u8>| {
        answer[2] |= flags[0];
        answer[3] |= flags[1];
        if flags == [0, 0] {
            answer[7] = 1;
            let length = 7 + hints.len() as u8;
            answer.extend([0xc0, 12, 0, 65, 0, 1, 0, 0, 0, 60, 0, length]);
            answer.extend([0, 1, 0, 0, 4, 0, hints.len() as u8]);
            answer.extend(hints);
        }
    };
    answering(add).await
}

#[tokio::test]
async fn hints_are_judged_as_addresses_and_failures_are_passed_on() {
    for (flags, hints, expected) in [
        ([0, 0], &[192, 0, 2, 7][..], (0, 1)),
        ([0, 0], &[192, 0, 2, 7, 127, 0, 0, 1], (0, 0)),
        ([0, 0], &[127, 0, 0], (0, 0)),
        ([0, 2], &[], (2, 0)),
        ([0, 3], &[], (3, 0)),
    ] {
        let (_port, address) = port_for(server_of_hints(flags, hints).await).await;
        let mut query = question(7);
        let kind = query.len() - 3;
        assert_eq!(query[kind], 1);
        query[kind] = 65;
        let answer = ask(&asker(address).await, &query).await;
        assert_eq!(
            (answer[3] & 0xf, answer[7]),
            expected,
            "{flags:?} {hints:?}"
        );
    }
}

#[tokio::test]
async fn the_addresses_in_answers_are_known_by_name_from_then_on() {
    let server = server_of(&[[192, 0, 2, 7]]).await;
    let known = KnownNames::default();
    let (_port, address) = port_noting(server, known.clone(), reserved()).await;
    ask(&asker(address).await, &question(7)).await;
    let name = known.name([192, 0, 2, 7].into());
    assert_eq!(name.as_deref(), Some("www.example.org"));
}

#[tokio::test]
async fn other_hosts_get_answers_to_questions_and_nothing_else() {
    // A machine without name servers.
    let names = Names::with_root("/nonexistent".into());
    let stub = NameStub::start_with(
        names,
        (reserved(), ThisMachine::default()),
        Default::default(),
        Vec::new,
    )
    .await;
    let (listener, socket) = ports().await;
    let address = listener.local_addr().unwrap();
    let _port = stub.answer_at(listener, socket).unwrap();
    let (query, mut update) = (question(7), question(8));
    update[2] = 0x28;
    let failure = hawser_wire::dns::failure(&query).unwrap();
    let socket = asker(address).await;
    socket.send(&update).await.unwrap();
    assert_eq!(ask(&socket, &query).await, failure);
    let mut stream = TcpStream::connect(address).await.unwrap();
    write(&mut stream, &query).await;
    assert_eq!(read(&mut stream).await, Some(failure));
    write(&mut stream, &update).await;
    assert_eq!(read(&mut stream).await, None);
}

#[tokio::test]
async fn no_server_is_asked_for_the_name_of_a_host_in_the_book() {
    let (server, heard) = server(40).await;
    let folder = tempfile::tempdir().unwrap();
    let dir = StateDir::resolve(Some(folder.path().to_path_buf())).unwrap();
    let store = NameStore::open(&dir).unwrap();
    store
        .add(&"www@example.org".parse().unwrap(), None)
        .unwrap();
    let book = ReservedNames::new(Arc::new(store));
    let (_port, address) = port_noting(server, KnownNames::default(), book).await;
    let socket = asker(address).await;
    // After a failure a resolver continues with its search domains.
    for name in ["www.example.org", "www.example.org.evil.example"] {
        let query = DnsQuestion::encode(7, &name.parse().unwrap(), AddressRecord::A);
        let failure = hawser_wire::dns::failure(&query).unwrap();
        assert_eq!(ask(&socket, &query).await, failure, "{name}");
        assert_eq!(heard.load(Ordering::Relaxed), 0, "{name}");
    }
    let other = "ftp.example.org".parse().unwrap();
    let query = DnsQuestion::encode(8, &other, AddressRecord::A);
    assert_eq!(ask(&socket, &query).await, answer(&query, 40));
}

#[tokio::test]
async fn nonsense_is_dropped_and_does_no_harm() {
    let (server, heard) = server(40).await;
    let (_port, address) = port_for(server).await;
    let socket = asker(address).await;
    for nonsense in [&[][..], &[0], &[0; 5000]] {
        socket.send(nonsense).await.unwrap();
    }
    let query = question(7);
    assert_eq!(ask(&socket, &query).await, answer(&query, 40));
    assert_eq!(heard.load(Ordering::Relaxed), 1);
    let mut stream = TcpStream::connect(address).await.unwrap();
    write(&mut stream, &[]).await;
    assert_eq!(read(&mut stream).await, None);
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_told_at_once() {
    let closed = ClosedPort::new();
    let (_port, address) = port_for(closed.address()).await;
    let query = question(7);
    let failure = hawser_wire::dns::failure(&query).unwrap();
    assert_eq!(ask(&asker(address).await, &query).await, failure);
    let mut stream = TcpStream::connect(address).await.unwrap();
    write(&mut stream, &query).await;
    assert_eq!(read(&mut stream).await, Some(failure));
}

#[tokio::test]
async fn servers_of_the_machine_have_ports_as_they_come() {
    let root = tempfile::tempdir().unwrap();
    let config = root.path().join("etc/resolv.conf");
    std::fs::create_dir_all(config.parent().unwrap()).unwrap();
    std::fs::write(&config, "nameserver 127.0.0.53\nnameserver fe80::1%2\n").unwrap();
    let names = Names::with_root(root.path().to_path_buf());
    let stub = NameStub::start_with(
        names,
        (reserved(), ThisMachine::default()),
        Default::default(),
        Vec::new,
    )
    .await;
    let mut ports = stub.ports();
    let known = |ports: &StubPorts| -> Vec<IpAddr> { ports.borrow().keys().copied().collect() };
    let first: IpAddr = "127.0.0.53".parse().unwrap();
    assert_eq!(known(&ports), [first]);
    let port = ports.borrow()[&first];
    let (server, own) = ((first, 53).into(), SocketAddr::from(([127, 0, 0, 1], port)));
    assert_eq!(
        (stub.stub_of(server), stub.server_at(own)),
        (Some(own), Some(server))
    );
    assert_eq!(stub.stub_of((first, 54).into()), None);
    assert_eq!(stub.server_at((first, port).into()), None);
    ports.mark_unchanged();
    std::fs::write(&config, "nameserver 192.0.2.1\n").unwrap();
    ports.changed().await.unwrap();
    assert_eq!(known(&ports), [first, "192.0.2.1".parse().unwrap()]);
}
