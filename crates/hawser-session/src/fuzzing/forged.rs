//! Records that a hostile peer makes, as a script has them.

use bytes::{Bytes, BytesMut};
use hawser_types::{
    ChannelId, MIN_JOIN_PORT, Permission, RecordNumber, SegmentNumber, StreamId, StreamOffset,
};
use hawser_wire::{
    ChannelRole, ChunkFlags, ChunkHeader, Command, Enrolment, Frame, FrameIterator, Grant, Hello,
    LinkRulesEntry, PathReport, StateFrame, TransportChoice, put_datagram, put_record_number,
};

use super::contents::MAX_PATTERN;
use hawser_wire::script::Script;

/// Makes the commands of a hostile peer follow those that it has sent already.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CommandPosition(u64);

impl CommandPosition {
    /// Takes note of a record that the peer sends.
    pub(super) fn on_record(&mut self, body: &Bytes) {
        for frame in FrameIterator::new(body.clone()).flatten() {
            if let Frame::Chunk(header, payload) = frame
                && header.stream == StreamId::COMMANDS
            {
                self.0 = self.0.max(header.offset.value() + payload.len() as u64);
            }
        }
    }
}

/// Makes a record: bytes as they are, or frames.
pub(super) fn record(
    script: &mut Script<'_>,
    is_association: bool,
    commands: &mut CommandPosition,
) -> Bytes {
    let mut body = BytesMut::new();
    let how = script.byte();
    if how == 0 {
        return Bytes::copy_from_slice(script.bytes());
    }
    if is_association {
        let number = (how & 64 == 0).then(|| RecordNumber::new(script.number()));
        put_record_number(number, &mut body);
    }
    for _ in 0..how % 8 {
        put_frame(script, &mut body);
    }
    match how >> 3 & 3 {
        0 => {}
        1 => put_commands(script, commands, &mut body),
        _ => put_chunk(script, &mut body),
    }
    body.freeze()
}

fn put_frame(script: &mut Script<'_>, body: &mut BytesMut) {
    let frame = match script.byte() % 8 {
        0 | 1 => StateFrame::Ack {
            channel: channel(script),
            records: script.number(),
        },
        2 => StateFrame::Credit {
            stream: StreamId::new(script.number()),
            limit: script.number(),
        },
        3 => StateFrame::Join {
            role: ChannelRole::Bulk,
            link: script.number() as u32,
        },
        4 => StateFrame::Heartbeat,
        5 => StateFrame::Path(PathReport {
            channel: channel(script),
            stamp: script.number(),
            silent: script.byte() & 1 == 1,
            queue: (script.byte() & 1 == 1).then(|| script.number() >> 1),
            rate: script.number(),
        }),
        6 => {
            let stream = StreamId::new(script.number());
            let length = usize::from(script.short());
            let payload = &ZEROS[..length.min(hawser_wire::MAX_DATAGRAM)];
            return put_datagram(stream, payload, body);
        }
        _ => return body.extend_from_slice(script.bytes()),
    };
    frame.encode(body);
}

fn put_chunk(script: &mut Script<'_>, body: &mut BytesMut) {
    let flags = script.byte();
    let open = flags & 1 == 1;
    let header = ChunkHeader {
        stream: StreamId::new(script.number()),
        segment: SegmentNumber::new(script.number()),
        offset: StreamOffset::new(if open { 0 } else { script.number() }),
        flags: ChunkFlags {
            open,
            fin: flags & 2 != 0,
        },
        metadata: if open {
            Bytes::copy_from_slice(script.bytes())
        } else {
            Bytes::new()
        },
    };
    header.encode(body);
    body.extend_from_slice(&ZEROS[..usize::from(script.short())]);
}

fn put_commands(script: &mut Script<'_>, at: &mut CommandPosition, body: &mut BytesMut) {
    let mut bytes = BytesMut::new();
    for _ in 0..script.below(4) + 1 {
        match script.byte() {
            255 => bytes.extend_from_slice(script.bytes()),
            kind => command(kind, script).encode(&mut bytes),
        }
    }
    let header = ChunkHeader {
        stream: StreamId::COMMANDS,
        segment: SegmentNumber::new(script.number()),
        offset: StreamOffset::new(at.0),
        flags: ChunkFlags::default(),
        metadata: Bytes::new(),
    };
    at.0 += bytes.len() as u64;
    header.encode(body);
    body.extend_from_slice(&bytes);
}

fn command(kind: u8, script: &mut Script<'_>) -> Command {
    let (stream, code) = (StreamId::new(script.number()), u32::from(script.byte()));
    if kind == ACCEPTS_JOINS {
        let port = script.short().max(MIN_JOIN_PORT);
        return Command::AcceptsJoins { port };
    }
    if kind == GOING_AWAY {
        return Command::GoingAway;
    }
    if kind >= SCHEDULERS {
        return Command::Scheduler { policy: code % 12 };
    }
    match kind % 13 {
        0 => Command::Hello(Hello {
            max_streams: script.number(),
            accepts_plain: code & 1 == 1,
            takes_datagrams: code & 2 != 0,
            ends_halves: code & 4 != 0,
            follows_scheduler: code & 8 != 0,
            knows_signals: code & 16 != 0,
            link: u32::from(script.byte()),
        }),
        1 => Command::Grant(Grant {
            first: channel(script),
            count: script.number() as u32,
            addresses: Vec::new(),
        }),
        2 => Command::Reset { stream, code },
        3 => Command::Stop { stream, code },
        4 => Command::ResetSending { stream, code },
        5 => {
            let text = String::from_utf8_lossy(script.bytes()).into_owned();
            Command::CloseReason { code, text }
        }
        6 => Command::ChannelClosed {
            channel: channel(script),
        },
        7 => Command::Close { code },
        8 => Command::Enrol(Enrolment {
            key: [1; 32],
            signature: [2; 64],
            name: String::new(),
        }),
        9 => Command::Enrolled,
        10 => Command::LinkRules(vec![LinkRulesEntry {
            link: u32::from(script.byte() % 4),
            permission: Permission::Preferred,
            weight: script.number() as u32 % LinkRulesEntry::MAX_WEIGHT + 1,
            price: script.number() % LinkRulesEntry::MAX_PRICE,
            price_weight: code % LinkRulesEntry::MAX_PRICE_WEIGHT,
        }]),
        11 => Command::DatagramPort {
            port: script.short().max(1),
        },
        _ => Command::Associate {
            channel: channel(script),
            transport: TransportChoice::ALL[code as usize % TransportChoice::ALL.len()],
        },
    }
}

/// The kinds from here on were others once: inputs that were found then go on meaning the same.
const SCHEDULERS: u8 = 250;
const ACCEPTS_JOINS: u8 = 249;
const GOING_AWAY: u8 = 248;

fn channel(script: &mut Script<'_>) -> ChannelId {
    ChannelId::new(script.number() as u32)
}

static ZEROS: [u8; MAX_PATTERN] = [0; MAX_PATTERN];
