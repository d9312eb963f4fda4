//! Two hosts that find out in the handshake whether they can bond.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Duration;

use hawser_capture::{
    Announcement, Bonds, CaptureError, Discoveries, Discovery, FrontedPort, Learnt, Outcome,
    own_group,
};
use hawser_skip::wire::{Flag, Segment, Wire};
use hawser_wire::KeyHint;
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::ground::*;

pub(crate) const PORT: u16 = 443;
pub(crate) const HINT: KeyHint = KeyHint(*b"key-hint");

/// Two hosts, the programs of this one, and the packets on its interfaces.
pub(crate) struct Meeting {
    pub(crate) ground: Ground,
    pub(crate) client: Discovery,
    pub(crate) runtime: tokio::runtime::Runtime,
    pub(crate) learnt: Discoveries,
    pub(crate) wire: Wire,
}

impl Meeting {
    /// `None`, with a report, where the machine forbids the test.
    pub(crate) fn new(test: &str) -> Option<Self> {
        let test = format!("capture::{test}");
        let ground = Ground::new(&test)?;
        let mut client = match started() {
            Ok(client) => client,
            Err(
                error @ (CaptureError::NotPermitted(_)
                | CaptureError::NoControlGroups
                | CaptureError::KernelTooOld { .. }),
            ) => {
                hawser_skip::skip(&test, &error.to_string());
                return None;
            }
            Err(error) => panic!("{error}"),
        };
        client.set_interfaces(2).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let learnt = {
            let _inside = runtime.enter();
            client.discoveries().unwrap().unwrap()
        };
        Some(Self {
            ground,
            client,
            runtime,
            learnt,
            wire: Wire::new().unwrap(),
        })
    }

    /// Starts the programs at the server, which front the port, and then its service.
    pub(crate) fn fronted(&self, bonds: Bonds) -> (Discovery, TcpListener) {
        self.fronted_with(bonds, None)
    }

    /// Likewise with a service that speaks this protocol in place of TCP.
    pub(crate) fn fronted_with(
        &self,
        bonds: Bonds,
        protocol: Option<Protocol>,
    ) -> (Discovery, TcpListener) {
        self.ground.at_server(move || {
            let mut server = started().unwrap();
            server.set_fronted(&[fronted_port(bonds)]).unwrap();
            let listener = Socket::new(Domain::IPV6, Type::STREAM, protocol).unwrap();
            listener.set_reuse_address(true).unwrap();
            let all = SocketAddr::from((Ipv6Addr::UNSPECIFIED, PORT));
            // A test may have fronted the port before.
            when_free(|| {
                listener.bind(&all.into())?;
                listener.listen(128)
            });
            (server, listener.into())
        })
    }

    /// Starts the programs at the server, its service, and Hawser's listeners of each family, which
    /// receive connections over the link `west` that want a bond.
    pub(crate) fn diverted(&self) -> (Discovery, TcpListener, Vec<TcpListener>) {
        let (mut server, service) = self.fronted(Bonds::Diverted);
        self.ground.at_server(move || {
            let own = servers().map(|it| it.ip());
            server.set_own_addresses(own).unwrap();
            let hawser = server.listen(&LOOPBACK).unwrap();
            assert_eq!(hawser.len(), 2);
            server.divert_on("west").unwrap();
            (server, service, hawser)
        })
    }

    /// Starts a service at a server without Hawser.
    pub(crate) fn legacy(&self) -> TcpListener {
        self.ground
            .at_server(|| when_free(|| TcpListener::bind(("::", PORT))))
    }

    /// Connects, ends the connection by a reset, and returns the segments.
    pub(crate) fn connect(&self, to: SocketAddr) -> Vec<Segment> {
        self.wire.segments(PORT);
        let stream = TcpStream::connect(to).unwrap();
        SockRef::from(&stream)
            .set_linger(Some(Duration::ZERO))
            .unwrap();
        drop(stream);
        // The reset waits for programs that other tests start: until they run they hold the
        // connection, too.
        let mut segments = Vec::new();
        eventually("the connection is reset", || {
            segments.extend(self.wire.segments(PORT));
            segments.iter().any(|it| it.has(Flag::Reset))
        });
        segments
    }

    pub(crate) fn next(&mut self) -> Learnt {
        let next = async { tokio::time::timeout(PATIENCE, self.learnt.next()).await };
        self.runtime.block_on(next).unwrap().unwrap()
    }

    /// Connects over a link with this announcement; returns the connection and the outcome.
    pub(crate) fn connect_saying(
        &mut self,
        says: Announcement,
        link: &str,
        to: SocketAddr,
    ) -> (TcpStream, Outcome) {
        let (socket, connected) = self.try_to_connect(says, link, to);
        connected.unwrap();
        (socket.into(), self.next().outcome)
    }

    /// Likewise, for a connection that may fail.
    pub(crate) fn try_to_connect(
        &mut self,
        says: Announcement,
        link: &str,
        to: SocketAddr,
    ) -> (Socket, io::Result<()>) {
        let socket = Socket::new(Domain::for_address(to), Type::STREAM, None).unwrap();
        socket.bind_device(Some(link.as_bytes())).unwrap();
        self.client.announce_on(&socket, Some(says)).unwrap();
        let connected = socket.connect(&to.into());
        (socket, connected)
    }
}

/// The port as the server fronts it.
pub(crate) fn fronted_port(bonds: Bonds) -> FrontedPort {
    FrontedPort {
        port: PORT,
        interfaces: 3,
        key_hint: HINT,
        bonds,
    }
}

pub(crate) fn started() -> Result<Discovery, CaptureError> {
    Discovery::start(&own_group()?)
}

pub(crate) fn servers() -> [SocketAddr; 2] {
    [SERVER4, SERVER6].map(|server| SocketAddr::new(server.parse::<IpAddr>().unwrap(), PORT))
}

/// Kinds of the segments of a connection that is ended by a reset.
pub(crate) fn assert_usual(segments: &[Segment]) {
    let flags: Vec<_> = (segments.iter())
        .map(|it| (it.has(Flag::Syn), it.has(Flag::Ack)))
        .collect();
    let usual = [(true, false), (true, true), (false, true), (false, true)];
    assert_eq!(flags, usual, "SYN, SYN-ACK, ACK, RST and ACK");
}

const LOOPBACK: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::LOCALHOST),
    IpAddr::V6(Ipv6Addr::LOCALHOST),
];

/// Sets an option of TCP.
pub(crate) fn tcp_option(socket: &impl AsRawFd, option: libc::c_int, value: libc::c_int) {
    // SAFETY: the kernel reads the four bytes of the value.
    let code = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            option,
            (&raw const value).cast(),
            4,
        )
    };
    assert_eq!(code, 0, "{}", std::io::Error::last_os_error());
}
