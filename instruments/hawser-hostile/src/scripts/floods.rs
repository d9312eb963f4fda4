//! Floods: many streams of each kind, many commands and frames of each type, and connections that
//! start in each way. The lists follow the wire's enums, so each new variant gets a flood.

use hawser_session::{Misbehaviour, Side};
use hawser_wire::{CommandKind, FirstWord, FrameKind, StreamKind};

use crate::script::{Reason, Script};
use crate::step::Step;

pub(crate) fn floods() -> Vec<Script> {
    let streams = StreamKind::ALL.iter().copied().map(streams);
    let commands = CommandKind::ALL.iter().copied();
    let by_client = commands.clone().map(|kind| commands_of(Side::Client, kind));
    let by_gateway = commands.map(|kind| commands_of(Side::Gateway, kind));
    let frames = FrameKind::ALL.iter().copied();
    let by_clients = frames.clone().map(|kind| frames_of(Side::Client, kind));
    let by_gateways = frames.map(|kind| frames_of(Side::Gateway, kind));
    let words = FirstWord::ALL.into_iter().map(words);
    let by_client = streams.chain(by_client).chain(by_clients).chain(words);
    by_client.chain(by_gateway).chain(by_gateways).collect()
}

/// More streams than a session may have, as far as they are not refused.
fn streams(kind: StreamKind) -> Script {
    let name = match kind {
        StreamKind::ConnectV4 => "connections-to-ipv4",
        StreamKind::ConnectV6 => "connections-to-ipv6",
        StreamKind::ConnectName => "connections-to-names",
        StreamKind::DatagramsV4 => "flows-to-ipv4",
        StreamKind::DatagramsV6 => "flows-to-ipv6",
        StreamKind::DatagramsName => "flows-to-names",
        StreamKind::CallV4 => "calls-to-ipv4",
        StreamKind::CallV6 => "calls-to-ipv6",
        StreamKind::CallName => "calls-to-names",
        StreamKind::File => "files",
        StreamKind::Sink => "measurements-of-what-comes",
        StreamKind::Source => "measurements-of-what-is-sent",
        StreamKind::Reasons => "questions-for-reasons",
        StreamKind::Packets => "tunnels",
        StreamKind::BeMet => "wishes-to-be-met",
        StreamKind::Meet => "wishes-to-meet",
        StreamKind::Observe => "tokens-to-observe",
        StreamKind::Punch => "lists-of-addresses",
    };
    Script::client(name, vec![Step::StreamsOf(STREAMS, kind)])
        .may_overflow()
        .descriptors(MOST_DESCRIPTORS)
}

fn commands_of(side: Side, kind: CommandKind) -> Script {
    let [client, gateway] = match kind {
        CommandKind::Hello => ["hello-twice", "gateway-says-hello-twice"],
        CommandKind::Grant => ["grant-from-a-client", "grants-to-private-networks"],
        CommandKind::Reset => ["reset-flood", "gateway-reset-flood"],
        CommandKind::ChannelClosed => ["channels-closed", "gateway-channels-closed"],
        CommandKind::Close => ["close", "gateway-close"],
        CommandKind::Enrol => ["enrolments", "enrolment-from-a-gateway"],
        CommandKind::Enrolled => ["enrolled-from-a-client", "gateway-enrolls"],
        CommandKind::LinkRules => ["link-rules", "link-rules-from-a-gateway"],
        CommandKind::DatagramPort => ["datagram-port-from-a-client", "gateway-datagram-ports"],
        CommandKind::Associate => ["associate-without-a-pause", "associate-from-a-gateway"],
        CommandKind::Stop => ["stop-flood", "gateway-stop-flood"],
        CommandKind::ResetSending => ["reset-sending-flood", "gateway-reset-sending-flood"],
        CommandKind::CloseReason => ["reasons-to-close", "gateway-reasons-to-close"],
        CommandKind::Scheduler => ["schedulers", "scheduler-from-a-gateway"],
        CommandKind::AcceptsJoins => ["ports-for-joins", "port-for-joins-from-a-gateway"],
        CommandKind::GoingAway => ["going-away-from-a-client", "gateway-goes-away"],
    };
    let steps = vec![Step::CommandsOf(COMMANDS, kind)];
    let script = match side {
        Side::Client => Script::client(client, steps),
        Side::Gateway => Script::gateway(gateway, steps),
    };
    match (kind, side) {
        (CommandKind::Hello, _) => script.ends_by(Misbehaviour::Repeated),
        (CommandKind::Close, _) => script.ends_for(Reason::Asked(0)),
        (
            CommandKind::Grant
            | CommandKind::Enrolled
            | CommandKind::DatagramPort
            | CommandKind::GoingAway,
            Side::Client,
        )
        | (
            CommandKind::Enrol
            | CommandKind::LinkRules
            | CommandKind::Scheduler
            | CommandKind::AcceptsJoins
            | CommandKind::Associate,
            Side::Gateway,
        ) => script.ends_by(Misbehaviour::WrongSide),
        (
            CommandKind::Reset
            | CommandKind::Stop
            | CommandKind::ResetSending
            | CommandKind::Associate,
            _,
        ) => script.may_overflow(),
        _ => script,
    }
}

fn frames_of(side: Side, kind: FrameKind) -> Script {
    let [client, gateway] = match kind {
        FrameKind::Ack => ["acknowledgements", "gateway-acknowledgements"],
        FrameKind::Credit => ["credit", "gateway-credit"],
        FrameKind::Join => ["joins-in-the-middle", "gateway-joins-in-the-middle"],
        FrameKind::Heartbeat => ["heartbeats", "gateway-heartbeats"],
        FrameKind::Path => ["reports-on-paths", "gateway-reports-on-paths"],
        FrameKind::Datagram => ["datagrams-of-no-stream", "gateway-datagrams-of-no-stream"],
        FrameKind::Group => ["groups", "gateway-groups"],
        FrameKind::SegmentsLost => ["segments-lost-at-a-client", "segments-lost"],
        FrameKind::Chunk => ["chunks-of-no-stream", "gateway-chunks-of-no-stream"],
    };
    let steps = vec![Step::FramesOf(FRAMES, kind)];
    let script = match side {
        Side::Client => Script::client(client, steps),
        Side::Gateway => Script::gateway(gateway, steps),
    };
    match kind {
        FrameKind::Group => script.may_overflow().descriptors(MOST_DESCRIPTORS),
        FrameKind::Chunk => script.may_overflow(),
        _ => script,
    }
}

/// Connections that begin like this and then say no more. A proven key gets in beside them.
fn words(word: FirstWord) -> Script {
    let name = match word {
        FirstWord::Handshake => "handshakes-cut-short",
        FirstWord::Join => "joins-of-no-session",
        FirstWord::Other => "other-protocols",
    };
    let steps = vec![Step::Begin(CONNECTIONS, word), Step::Return(PATIENCE)];
    Script::client(name, steps).descriptors(600)
}

const STREAMS: u64 = 3000;
const COMMANDS: u64 = 4000;
const FRAMES: u64 = 4000;
const CONNECTIONS: u64 = 512;
const MOST_DESCRIPTORS: usize = 4200;
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(3);
