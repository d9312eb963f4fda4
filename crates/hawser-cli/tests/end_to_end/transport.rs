//! Sessions over an association on UDP, and their behaviour where UDP is blocked.

use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;

use super::origin::{self, fetch, page};
use super::program::{Daemon, Place, until};

#[test]
fn a_download_goes_over_udp_and_arrives() {
    if origin::is_without_curl("a_download_goes_over_udp_and_arrives") {
        return;
    }
    let place = Place::new();
    let gateway = place.serve();
    let up = client(&place);
    let rides = || carried(&place, "client", "association").is_some();
    until("an association", rides, || up.log() + &gateway.log());
    let over_tcp = || carried(&place, "client", "tcp").unwrap();
    let mut before = over_tcp();
    let download = || {
        before = over_tcp();
        download(&place, &up, 5_000_000);
    };
    until_over_udp(&place, 5_000_000, download, &up);
    let over_tcp = over_tcp().saturating_sub(before);
    assert!(over_tcp < 1_000_000, "{over_tcp}");
    for end in ["client", "gateway"] {
        let transport = || place.status(end).unwrap()["sessions"][0]["transport"].clone();
        assert_eq!(transport()["wanted"], "sctp");
        let is_in_use = || transport()["in_use"] == "association";
        until("it is in use", is_in_use, || transport().to_string());
        assert_eq!(transport()["problem"], Value::Null);
    }
    // It counts for the link that it went over, at the client as if it were TCP.
    let status = place.status("client").unwrap();
    let path = &status["sessions"][0]["paths"][0];
    assert_eq!(path["link"], "lo");
    assert!(path["bytes_received"].as_u64().unwrap() >= 5_000_000);
    let text = place.run("client", &["status"]).out;
    assert!(
        text.contains("transport sctp: sends over an association"),
        "{text}"
    );
    up.end();
    gateway.end();
}

#[test]
fn without_a_udp_port_everything_goes_over_tcp() {
    if origin::is_without_curl("without_a_udp_port_everything_goes_over_tcp") {
        return;
    }
    let place = Place::new();
    let gateway = serve(&place, "127.0.0.1:0", &["--no-udp"]);
    let up = client(&place);
    download(&place, &up, 1_000_000);
    let session = place.status("client").unwrap()["sessions"][0].clone();
    assert_eq!(session["transport"]["in_use"], "tcp");
    let problem = session["transport"]["problem"].as_str().unwrap();
    assert!(problem.contains("not said that it takes UDP"), "{problem}");
    assert_eq!(carried(&place, "client", "association"), None);
    up.end();
    gateway.end();
}

#[test]
fn a_gateway_whose_udp_port_is_taken_serves_over_tcp() {
    if origin::is_without_curl("a_gateway_whose_udp_port_is_taken_serves_over_tcp") {
        return;
    }
    let place = Place::new();
    // The numbers of UDP ports are given out by themselves: another program may have the TCP port.
    let (taken, gateway) = (0..20)
        .find_map(|_| {
            let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
            let listen = taken.local_addr().unwrap();
            let is_free = TcpListener::bind(listen).is_ok();
            is_free.then(|| (taken, serve(&place, &listen.to_string(), &[])))
        })
        .unwrap();
    assert!(gateway.log().contains("no UDP port"), "{}", gateway.log());
    let up = client(&place);
    download(&place, &up, 1_000_000);
    drop(taken);
    up.end();
    gateway.end();
}

#[test]
fn where_udp_is_blocked_everything_goes_over_tcp_and_status_says_why() {
    if origin::is_without_curl("where_udp_is_blocked_everything_goes_over_tcp_and_status_says_why")
    {
        return;
    }
    let place = Place::new();
    let relay = Relay::start(0);
    let gateway = relay.serve(&place);
    let up = client(&place);
    download(&place, &up, 1_000_000);
    let problem = || {
        let status = place.status("client").unwrap();
        let problem = status["sessions"][0]["transport"]["problem"].as_str();
        problem.is_some_and(|it| it.contains("no answer over UDP from 127.0.0.2"))
    };
    until("status says why", problem, || up.log());
    download(&place, &up, 1_000_000);
    up.end();
    gateway.end();
}

#[test]
fn a_download_goes_on_over_tcp_when_udp_passes_no_more() {
    if origin::is_without_curl("a_download_goes_on_over_tcp_when_udp_passes_no_more") {
        return;
    }
    let place = Place::new();
    let relay = Relay::start(3_000_000);
    let gateway = relay.serve(&place);
    let up = client(&place);
    let rides = || carried(&place, "client", "association").is_some();
    until("an association", rides, || up.log() + &gateway.log());
    let is_used_up = || {
        download(&place, &up, 10_000_000);
        relay.left.load(Ordering::Relaxed) == 0
    };
    until("UDP passes no more", is_used_up, || up.log());
    let over_tcp = carried(&place, "client", "tcp").unwrap();
    assert!(over_tcp >= 6_000_000, "{over_tcp}");
    up.end();
    gateway.end();
}

#[test]
fn a_daemon_is_told_to_travel_over_udp_and_back() {
    if origin::is_without_curl("a_daemon_is_told_to_travel_over_udp_and_back") {
        return;
    }
    let place = Place::new();
    let gateway = place.serve();
    let arguments = ["--gateway", &place.invite(), "--transport", "tcp"];
    let up = place.up("client", &arguments);
    download(&place, &up, 1_000_000);
    assert_eq!(carried(&place, "client", "association"), None);
    for _ in 0..2 {
        set(
            &place,
            &["--transport", "sctp", "--scheduler", "round-robin"],
        );
        let rides = || carried(&place, "client", "association").is_some();
        until("an association", rides, || up.log() + &gateway.log());
        let download_now = || download(&place, &up, 2_000_000);
        until_over_udp(&place, 2_000_000, download_now, &up);

        set(&place, &["--transport", "tcp"]);
        let is_over = || carried(&place, "client", "association").is_none();
        until("no association", is_over, || up.log() + &gateway.log());
        download(&place, &up, 2_000_000);
    }
    let session = &place.status("client").unwrap()["sessions"][0];
    assert_eq!(session["transport"]["wanted"], "tcp", "{session}");
    up.end();
    gateway.end();
}

fn set(place: &Place, what: &[&str]) {
    let ended = place.run("client", &[&["policy", "set"], what].concat());
    assert_eq!(ended.code, 0, "{ended:?}");
}

fn client(place: &Place) -> Daemon {
    let arguments = ["--gateway", &place.invite(), "--transport", "sctp"];
    place.up("client", &arguments)
}

fn serve(place: &Place, listen: &str, more: &[&str]) -> Daemon {
    let invite = place.path("invite");
    let invite = invite.to_str().unwrap();
    let always = ["serve", "--listen", listen, "--invite-file", invite];
    let allowed = ["--allow-destination", "127.0.0.0/8"];
    place.start("gateway", &[&always[..], &allowed, more].concat())
}

fn download(place: &Place, up: &Daemon, size: usize) {
    let proxy = format!("socks5h://{}", up.listen(place).unwrap());
    let got = fetch(&proxy, origin::start(), size);
    assert!(got.unwrap() == page(size), "{}", up.log());
}

/// Downloads this many bytes until all of them arrive over the association: on a busy machine, it
/// answers late, and some bytes may go over TCP.
pub(crate) fn until_over_udp(place: &Place, size: u64, mut download: impl FnMut(), up: &Daemon) {
    let over_udp = || carried(place, "client", "association").unwrap_or(0);
    let is_carried = || {
        let before = over_udp();
        download();
        over_udp() >= before + size
    };
    until("all of it goes over UDP", is_carried, || up.log());
}

/// Returns the bytes received at one end over channels of `transport`; `None` without such a
/// channel.
pub(crate) fn carried(place: &Place, end: &str, transport: &str) -> Option<u64> {
    let status = place.status(end)?;
    let paths = status["sessions"][0]["paths"].as_array()?.iter();
    let channels = paths.filter_map(|path| path["channels"].as_array());
    let of_transport = channels.flatten().filter(|it| match transport {
        "tcp" => it["transport"] == Value::Null,
        other => it["transport"] == other,
    });
    let received = of_transport.filter_map(|it| it["bytes_received"].as_u64());
    received.fold(None, |sum, bytes| Some(sum.unwrap_or(0) + bytes))
}

/// A relay between client and gateway, at another address: forwards TCP, and limited UDP.
struct Relay {
    tcp: TcpListener,
    /// Bytes of UDP to the client that may still pass.
    left: Arc<AtomicUsize>,
}

impl Relay {
    fn start(udp: usize) -> Self {
        Self {
            tcp: TcpListener::bind((RELAY, 0)).unwrap(),
            left: Arc::new(AtomicUsize::new(udp)),
        }
    }

    /// A gateway behind it.
    fn serve(&self, place: &Place) -> Daemon {
        let advertised = self.tcp.local_addr().unwrap().to_string();
        let gateway = serve(place, "127.0.0.1:0", &["--advertise", &advertised]);
        let behind: SocketAddr = gateway.listen(place).unwrap().parse().unwrap();
        let tcp = self.tcp.try_clone().unwrap();
        std::thread::spawn(move || {
            for stream in tcp.incoming() {
                pass_stream(stream.unwrap(), behind).unwrap();
            }
        });
        if self.left.load(Ordering::Relaxed) > 0 {
            let outside = UdpSocket::bind((RELAY, behind.port())).unwrap();
            pass_datagrams(outside, behind, &self.left).unwrap();
        }
        gateway
    }
}

fn pass_stream(client: TcpStream, behind: SocketAddr) -> io::Result<()> {
    let gateway = TcpStream::connect(behind)?;
    for (from, to) in [(&client, &gateway), (&gateway, &client)] {
        let (mut from, mut to) = (from.try_clone()?, to.try_clone()?);
        std::thread::spawn(move || {
            let _ = io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Both);
        });
    }
    Ok(())
}

fn pass_datagrams(
    outside: UdpSocket,
    behind: SocketAddr,
    left: &Arc<AtomicUsize>,
) -> io::Result<()> {
    let inside = UdpSocket::bind("127.0.0.1:0")?;
    inside.connect(behind)?;
    let client: Arc<Mutex<Option<SocketAddr>>> = Arc::default();
    let (from, to, known, open) = (
        outside.try_clone()?,
        inside.try_clone()?,
        Arc::clone(&client),
        Arc::clone(left),
    );
    std::thread::spawn(move || {
        let mut bytes = vec![0; 65_536];
        while let Ok((length, source)) = from.recv_from(&mut bytes) {
            *known.lock().unwrap() = Some(source);
            if open.load(Ordering::Relaxed) > 0 {
                let _ = to.send(&bytes[..length]);
            }
        }
    });
    let left = Arc::clone(left);
    std::thread::spawn(move || {
        let mut bytes = vec![0; 65_536];
        while let Ok(length) = inside.recv(&mut bytes) {
            let client = *client.lock().unwrap();
            let before = left.load(Ordering::Relaxed);
            left.store(before.saturating_sub(length), Ordering::Relaxed);
            if before > length {
                let _ = outside.send_to(&bytes[..length], client.unwrap());
            }
        }
    });
    Ok(())
}

const RELAY: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
