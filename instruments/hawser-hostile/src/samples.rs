//! One example each of an opening, a command, a frame, a chunk of an association and a first
//! message, for scripts of floods. Each match is over one of the wire's enums, so that a new
//! variant needs a flood here, or the code does not compile.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use bytes::{BufMut as _, BytesMut};
use hawser_types::{ChannelId, LimitedBy, Permission, SessionId, StreamGroup, StreamId};
use hawser_wire::sctp::ChunkKind;
use hawser_wire::{
    ChannelRole, Command, CommandKind, Enrolment, FirstWord, FrameKind, Grant, Hello, JoinPrelude,
    LinkRulesEntry, MAX_LINK_RULES, PathReport, StateFrame, StreamKind, TransportChoice,
};

use crate::frames;
use crate::place::Place;
use crate::step::Turn;

/// Appends a record's body that opens a stream of this kind.
pub(crate) fn open(kind: StreamKind, turn: Turn<'_>, out: &mut BytesMut) {
    let metadata = turn.scene.opening(kind, turn.number);
    // The first datagram of a flow: its length, and one byte.
    let data = [0, 1, 0x77];
    frames::chunk((turn.stream(), 0), frames::OPEN, &metadata, &data, out);
}

/// A command of this kind. Each turn's is another one, where that is possible.
pub(crate) fn command(kind: CommandKind, turn: Turn<'_>) -> Command {
    let stream = StreamId::new(turn.stream());
    let number = u32::try_from(turn.number).unwrap_or(u32::MAX / 2);
    let channel = ChannelId::new(1 + number);
    // From 1024 on.
    let port = 1024 + (turn.number % 60_000) as u16;
    match kind {
        CommandKind::Hello => Command::Hello(Hello {
            max_streams: 64,
            accepts_plain: true,
            takes_datagrams: false,
            ends_halves: false,
            follows_scheduler: false,
            knows_signals: false,
            link: number,
        }),
        CommandKind::Grant => Command::Grant(Grant {
            first: ChannelId::new(1000 + 100 * number),
            count: 100,
            addresses: vec![SocketAddr::from((Ipv4Addr::new(192, 168, 1, 1), 80)); 16],
        }),
        CommandKind::Reset => Command::Reset { stream, code: 257 },
        CommandKind::ChannelClosed => Command::ChannelClosed { channel },
        CommandKind::Close => Command::Close { code: 0 },
        CommandKind::Enrol => Command::Enrol(Enrolment {
            key: [number as u8; 32],
            signature: [2; 64],
            name: "x".repeat(64),
        }),
        CommandKind::Enrolled => Command::Enrolled,
        CommandKind::LinkRules => {
            let first = number % 1_000_000 * 64;
            Command::LinkRules((first..).take(MAX_LINK_RULES).map(rules).collect())
        }
        CommandKind::DatagramPort => Command::DatagramPort { port },
        CommandKind::Associate => Command::Associate {
            channel,
            transport: TransportChoice::ALL[turn.number as usize % 3],
        },
        CommandKind::Stop => Command::Stop { stream, code: 1 },
        CommandKind::ResetSending => Command::ResetSending { stream, code: 1 },
        CommandKind::CloseReason => Command::CloseReason {
            code: number,
            text: "x".repeat(512),
        },
        CommandKind::Scheduler => Command::Scheduler { policy: number },
        CommandKind::AcceptsJoins => Command::AcceptsJoins { port },
        CommandKind::GoingAway => Command::GoingAway,
    }
}

fn rules(link: u32) -> LinkRulesEntry {
    LinkRulesEntry {
        link,
        permission: Permission::Reserve(LimitedBy::Allowance),
        weight: 1 + link % 1000,
        price: u64::from(link),
        price_weight: link % 1000,
    }
}

/// Appends a record's body with a frame of this kind.
pub(crate) fn frame(kind: FrameKind, turn: Turn<'_>, out: &mut BytesMut) {
    let stream = StreamId::new(turn.stream());
    let number = u32::try_from(turn.number).unwrap_or(u32::MAX / 2);
    match kind {
        FrameKind::Ack => frames::ack(77 + number, turn.number, out),
        FrameKind::Credit => frames::credit(turn.stream(), turn.number, out),
        FrameKind::Join => {
            let role = [ChannelRole::Bulk, ChannelRole::Express][turn.number as usize % 2];
            StateFrame::Join { role, link: number }.encode(out);
        }
        FrameKind::Heartbeat => StateFrame::Heartbeat.encode(out),
        FrameKind::Path => StateFrame::Path(PathReport {
            channel: ChannelId::new(number % 2),
            stamp: turn.number,
            silent: turn.number.is_multiple_of(2),
            queue: Some(u64::MAX >> 3),
            rate: u64::MAX >> 2,
        })
        .encode(out),
        FrameKind::Datagram => hawser_wire::put_datagram(stream, &[0; 1200], out),
        FrameKind::Group => {
            // Groups are kept for streams, so that each opens one.
            let group = StreamGroup::new(1 + number);
            StateFrame::Group { stream, group }.encode(out);
            let metadata = turn.scene.metadata(Place::Closed);
            frames::chunk((stream.value(), 0), frames::OPEN, &metadata, &[], out);
        }
        FrameKind::SegmentsLost => {
            let size = 1 + number % 1460;
            let link = [0, number][turn.number as usize % 2];
            StateFrame::SegmentsLost { link, size }.encode(out);
        }
        FrameKind::Chunk => frames::data(stream.value(), turn.number % 3, &[0; 900], out),
    }
}

/// Appends a packet of an association with a chunk of this kind, whose value says nothing sensible.
pub(crate) fn association_chunk(kind: ChunkKind, turn: Turn<'_>, out: &mut BytesMut) {
    let value = [turn.number as u8; 16];
    out.put_slice(&[kind.number(), turn.number as u8 % 8, 0, 20]);
    out.put_slice(&value);
}

/// The same in a whole packet, whose tag is that of no association.
pub(crate) fn whole_packet(kind: ChunkKind, turn: Turn<'_>, out: &mut BytesMut) {
    out.put_slice(&[0xff, 0, 0, 0, 0, 9, 0, 9]);
    out.put_u32(1 + turn.number as u32);
    out.put_u32(0);
    association_chunk(kind, turn, out);
}

/// Appends a packet of IPv4 with a datagram of one byte.
pub(crate) fn datagram(from: (Ipv4Addr, u16), to: SocketAddr, out: &mut BytesMut) {
    const UDP: u8 = 17;
    // Length, no checksum, which UDP over IPv4 may leave out, and the byte.
    packet(UDP, from, to, &[0, 9, 0, 0, 0x77], out);
}

/// Appends a packet of IPv4 that begins a connection.
pub(crate) fn syn(from: (Ipv4Addr, u16), to: SocketAddr, out: &mut BytesMut) {
    const TCP: u8 = 6;
    let mut rest = BytesMut::new();
    rest.put_u32(1);
    rest.put_u32(0);
    // Five words of header, SYN, a window.
    rest.put_slice(&[0x50, 0x02, 0xff, 0xff]);
    rest.put_u32(0);
    let start = out.len();
    packet(TCP, from, to, &rest, out);
    let segment = &out[start + IP_HEADER..];
    let length = segment.len() as u16;
    let addresses = &out[start + 12..start + IP_HEADER];
    let pseudo = [addresses, &[0, TCP], &length.to_be_bytes(), segment].concat();
    let sum = checksum(&pseudo);
    out[start + IP_HEADER + 16..start + IP_HEADER + 18].copy_from_slice(&sum);
}

/// Appends a packet of IPv4 whose payload begins with both ports.
fn packet(protocol: u8, from: (Ipv4Addr, u16), to: SocketAddr, rest: &[u8], out: &mut BytesMut) {
    let IpAddr::V4(target) = to.ip() else {
        return;
    };
    let start = out.len();
    out.put_slice(&[0x45, 0]);
    out.put_u16((IP_HEADER + 4 + rest.len()) as u16);
    out.put_slice(&[0, 0, 0x40, 0, 64, protocol, 0, 0]);
    out.put_slice(&from.0.octets());
    out.put_slice(&target.octets());
    let sum = checksum(&out[start..]);
    out[start + 10..start + 12].copy_from_slice(&sum);
    out.put_u16(from.1);
    out.put_u16(to.port());
    out.put_slice(rest);
}

/// The checksum of RFC 1071.
fn checksum(bytes: &[u8]) -> [u8; 2] {
    let words = bytes.chunks(2).map(|word| {
        let low = word.get(1).copied().unwrap_or(0);
        u32::from(u16::from_be_bytes([word[0], low]))
    });
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}

const IP_HEADER: usize = 20;

/// What a connection says that begins like this, and then says no more.
pub(crate) fn first_word(word: FirstWord, number: u64) -> Vec<u8> {
    match word {
        // A record of 512 bytes, of which half comes.
        FirstWord::Handshake => {
            let mut hello = vec![0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
            hello.resize(256, number as u8);
            hello
        }
        FirstWord::Join => {
            let prelude = JoinPrelude {
                session: SessionId::new([number as u8; 16]),
                channel: ChannelId::new(number as u32),
            };
            [&prelude.encode()[..], &[0, 0, 0, 20], &[9; 20]].concat()
        }
        FirstWord::Other => b"GET / HTTP/1.1\r\n\r\n".to_vec(),
    }
}
