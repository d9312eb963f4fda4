use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{Event, PolicyStatus, Response, StatusSnapshot, WhyReport};

/// Encodes `body` for this version of the API: one line of JSON, including its line end.
///
/// Fails if the line would be longer than [`MAX_LINE`].
pub fn encode<T: Serialize>(body: &T) -> Result<Vec<u8>, CodecError> {
    let mut line = serde_json::to_vec(&Envelope { api: API, body }).map_err(malformed)?;
    line.push(b'\n');
    if line.len() > MAX_LINE {
        return Err(CodecError::TooLong { length: line.len() });
    }
    Ok(line)
}

/// Like [`encode`], but shortens a response until it fits. It leaves out the oldest placed
/// connections; the latest events, which a reader can request next; and the last rules, which are
/// evaluated last.
pub fn encode_response(response: &Response) -> Result<Vec<u8>, CodecError> {
    let mut outcome = encode(response);
    let snapshot = match response {
        Response::Status(snapshot) => snapshot,
        Response::Why(report) => return shorten_placed(report, outcome),
        Response::Events { events, latest } => return shorten_events(events, *latest, outcome),
        Response::Policy(policy) => return outcome.or_else(|_| shorten_policy(policy)),
        _ => return outcome,
    };
    if matches!(outcome, Err(CodecError::TooLong { .. })) {
        outcome = shorten(snapshot.clone());
    }
    outcome
}

/// Decodes one message of [`encode`]; its line end may be missing, and other line ends may occur
/// where JSON allows space.
pub fn decode<T: DeserializeOwned>(message: &[u8]) -> Result<T, CodecError> {
    // The version is read first: the body of another version may be unknown here.
    let Version { api } = serde_json::from_slice(message).map_err(malformed)?;
    if api != API {
        return Err(CodecError::Version { got: api });
    }
    serde_json::from_slice(message).map_err(malformed)
}

/// Splits received bytes into lines and decodes them.
///
/// Pass received bytes to [`handle_bytes`](Self::handle_bytes), then call
/// [`poll_message`](Self::poll_message) until it returns nothing. After an error the connection is
/// unusable.
#[derive(Debug, Default)]
pub struct LineDecoder {
    buffer: Vec<u8>,
    /// Length of the buffer's beginning that is known to have no line end.
    searched: usize,
}

impl LineDecoder {
    /// Creates an empty decoder.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds received bytes. Holds at most twice [`MAX_LINE`].
    pub fn handle_bytes(&mut self, bytes: &[u8]) -> Result<(), CodecError> {
        let length = self.buffer.len().saturating_add(bytes.len());
        if length > 2 * MAX_LINE {
            return Err(CodecError::TooLong { length });
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    /// Returns the next message once its whole line has arrived.
    pub fn poll_message<T: DeserializeOwned>(&mut self) -> Result<Option<T>, CodecError> {
        let mut unsearched = self.buffer.iter().skip(self.searched);
        let Some(more) = unsearched.position(|byte| *byte == b'\n') else {
            self.searched = self.buffer.len();
            return match self.searched {
                length if length >= MAX_LINE => Err(CodecError::TooLong { length }),
                _ => Ok(None),
            };
        };
        let end = self.searched + more;
        self.searched = 0;
        if end >= MAX_LINE {
            return Err(CodecError::TooLong { length: end + 1 });
        }
        let line: Vec<u8> = self.buffer.drain(..=end).collect();
        decode(&line).map(Some)
    }

    /// Returns whether the buffer holds the beginning of a line without its end.
    pub fn is_within_line(&self) -> bool {
        !self.buffer.is_empty()
    }
}

/// Reason why a line could not be encoded or decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CodecError {
    /// The line is longer than [`MAX_LINE`].
    #[error("a message of {length} bytes or more; allowed are {MAX_LINE}")]
    TooLong {
        /// Length of the line.
        length: usize,
    },
    /// The line is not JSON, or not a known message.
    #[error("not a message: {message}")]
    Malformed {
        /// Error of the parser.
        message: String,
    },
    /// The other side speaks another version.
    #[error("a message of version {got} of the control API; known is {API}")]
    Version {
        /// The other side's version.
        got: u64,
    },
}

#[derive(Serialize)]
struct Envelope<'a, T> {
    api: u64,
    #[serde(flatten)]
    body: &'a T,
}

#[derive(Deserialize)]
struct Version {
    api: u64,
}

fn malformed(error: serde_json::Error) -> CodecError {
    // A parser may quote its input; one line of bounded length goes into logs and answers.
    let message = error.to_string().replace(char::is_control, "?");
    CodecError::Malformed {
        message: message.chars().take(MAX_MESSAGE).collect(),
    }
}

/// Halves the number of connections until the response fits or none is left.
fn shorten_placed(
    report: &WhyReport,
    mut outcome: Result<Vec<u8>, CodecError>,
) -> Result<Vec<u8>, CodecError> {
    let mut short = report.clone();
    while let (Err(CodecError::TooLong { .. }), Some(placed)) = (&outcome, &mut short.placed) {
        let surplus = placed.connections.len().div_ceil(2);
        if surplus == 0 {
            break;
        }
        placed.connections.drain(..surplus);
        outcome = encode(&Response::Why(Box::new(short.clone())));
    }
    outcome
}

/// Halves the number of events until the response fits or none is left.
fn shorten_events(
    mut events: &[Event],
    latest: u64,
    mut outcome: Result<Vec<u8>, CodecError>,
) -> Result<Vec<u8>, CodecError> {
    while let (Err(CodecError::TooLong { .. }), [_, ..]) = (&outcome, events) {
        events = events.split_at(events.len() / 2).0;
        outcome = encode(&Response::Events {
            events: events.to_vec(),
            latest,
        });
    }
    outcome
}

/// Keeps as many rules as fit.
fn shorten_policy(policy: &PolicyStatus) -> Result<Vec<u8>, CodecError> {
    let mut short = policy.clone();
    let rules = std::mem::take(&mut short.rules);
    let bare = encode(&Response::Policy(Box::new(short.clone())))?;
    let mut room = MAX_LINE - bare.len();
    for rule in rules {
        // One more byte for the comma.
        let length = serde_json::to_vec(&rule).map_err(malformed)?.len() + 1;
        let Some(left) = room.checked_sub(length) else {
            break;
        };
        room = left;
        short.rules.push(rule);
    }
    encode(&Response::Policy(Box::new(short)))
}

/// Reduces the numbers of sessions, and of streams and flows of packets of each, until the response
/// fits or nothing more can be left out.
fn shorten(short: Box<StatusSnapshot>) -> Result<Vec<u8>, CodecError> {
    let mut response = Response::Status(short);
    let mut outcome = Err(CodecError::TooLong { length: MAX_LINE });
    for (sessions, streams) in SHORTER {
        if let Response::Status(short) = &mut response {
            short.sessions.truncate(sessions);
            let listed = short.sessions.iter_mut();
            listed.for_each(|session| {
                session.streams.truncate(streams);
                session.packet_flows.truncate(streams);
            });
        }
        outcome = encode(&response);
        if !matches!(outcome, Err(CodecError::TooLong { .. })) {
            break;
        }
    }
    outcome
}

/// The version of the API that this crate speaks.
pub const API: u64 = 1;

/// Longest line in bytes, including its line end.
pub const MAX_LINE: usize = 1 << 20;

const MAX_MESSAGE: usize = 200;

/// Limits of sessions, and of streams and flows of each, to try in turn for a long snapshot.
const SHORTER: [(usize, usize); 6] = [
    (1024, 200),
    (1024, 20),
    (256, 20),
    (256, 0),
    (64, 0),
    (8, 0),
];

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hawser_types::{ByteCount, Rate};
    use proptest::prelude::*;

    use super::*;
    use crate::{
        Change, ChannelStatus, PathStatus, PlacedConnection, PlacedReport, Request, RuleStatus,
        SessionStatus, StreamStatus,
    };

    fn decode_all(bytes: &[u8]) -> Result<Vec<Request>, CodecError> {
        let mut decoder = LineDecoder::new();
        decoder.handle_bytes(bytes)?;
        std::iter::from_fn(|| decoder.poll_message().transpose()).collect()
    }

    #[test]
    fn requests_are_lines_of_json_with_a_version() {
        assert_eq!(
            encode(&Request::STATUS).unwrap(),
            b"{\"api\":1,\"request\":\"status\"}\n"
        );
        let invite = Request::Invite {
            ttl: Some(Duration::from_micros(1500)),
        };
        let line = encode(&invite).unwrap();
        assert_eq!(line, b"{\"api\":1,\"request\":\"invite\",\"ttl_ms\":1.5}\n");
        assert_eq!(decode_all(&line), Ok(vec![invite]));
    }

    #[test]
    fn units_stand_in_the_names_of_fields() {
        let channel = ChannelStatus {
            rtt: Some(Duration::from_micros(20_250)),
            delivery_rate: Rate::from_bits_per_second(50_000_000),
            cwnd_bytes: ByteCount::from_kib(64),
            ..ChannelStatus::default()
        };
        let json = serde_json::to_value(&channel).unwrap();
        assert_eq!(json["rtt_ms"], 20.25);
        assert_eq!(json["delivery_rate_bps"], 50_000_000);
        assert_eq!(json["cwnd_bytes"], 65_536);
        assert_eq!(json["kind"], "bulk");
        assert_eq!(
            serde_json::from_value::<ChannelStatus>(json).unwrap(),
            channel
        );
    }

    #[test]
    fn a_line_may_come_byte_by_byte_and_several_at_once() {
        let mut lines = encode(&Request::Peers).unwrap();
        lines.extend(encode(&Request::Stop).unwrap());
        assert_eq!(decode_all(&lines), Ok(vec![Request::Peers, Request::Stop]));

        let mut decoder = LineDecoder::new();
        let mut read = Vec::new();
        for byte in &lines {
            decoder.handle_bytes(&[*byte]).unwrap();
            read.extend(decoder.poll_message::<Request>().unwrap());
        }
        assert_eq!(read, [Request::Peers, Request::Stop]);
        assert!(!decoder.is_within_line());
    }

    #[test]
    fn a_rule_is_not_removed_by_its_number_alone() {
        let bare = b"{\"api\":1,\"request\":\"remove-rule\",\"number\":1}\n";
        let refused = decode_all(bare).unwrap_err().to_string();
        assert!(refused.contains("`rule`"), "{refused}");
    }

    #[test]
    fn a_line_without_end_is_refused() {
        let mut decoder = LineDecoder::new();
        let piece = vec![b' '; MAX_LINE / 4];
        let mut outcome = Ok(None);
        for _ in 0..4 {
            assert_eq!(outcome, Ok(None));
            decoder.handle_bytes(&piece).unwrap();
            outcome = decoder.poll_message::<Request>();
        }
        assert_eq!(outcome, Err(CodecError::TooLong { length: MAX_LINE }));
        assert!(decoder.handle_bytes(&vec![b' '; MAX_LINE + 1]).is_err());
    }

    #[test]
    fn another_version_is_told_from_nonsense() {
        assert_eq!(
            decode_all(b"{\"api\":2,\"request\":\"dance\"}\n"),
            Err(CodecError::Version { got: 2 })
        );
        for nonsense in [
            "\n",
            "{}\n",
            "{\"api\":1}\n",
            "{\"api\":1,\"request\":\"dance\"}\n",
            "[\n",
        ] {
            let outcome = decode_all(nonsense.as_bytes());
            assert!(
                matches!(outcome, Err(CodecError::Malformed { .. })),
                "{nonsense}"
            );
        }
        let negative = decode_all(b"{\"api\":1,\"request\":\"invite\",\"ttl_ms\":-1}\n");
        assert!(matches!(negative, Err(CodecError::Malformed { .. })));
    }

    #[test]
    fn unknown_fields_are_left_to_newer_versions() {
        let line = b"{\"api\":1,\"request\":\"stop\",\"gently\":true}\n";
        assert_eq!(decode_all(line), Ok(vec![Request::Stop]));
    }

    #[test]
    fn a_snapshot_too_long_is_shortened_and_says_how_much_there_is() {
        let stream = StreamStatus {
            destination: Some("a".repeat(200)),
            ..StreamStatus::default()
        };
        let path = PathStatus {
            channels: vec![ChannelStatus::default(); 2],
            ..PathStatus::default()
        };
        let session = SessionStatus {
            stream_count: 100,
            streams: vec![stream; 100],
            paths: vec![path; 6],
            ..SessionStatus::default()
        };
        let snapshot = StatusSnapshot {
            session_count: 500,
            sessions: vec![session; 500],
            ..StatusSnapshot::default()
        };
        let response = Response::Status(Box::new(snapshot));
        assert!(encode(&response).is_err());
        let mut decoder = LineDecoder::new();
        decoder
            .handle_bytes(&encode_response(&response).unwrap())
            .unwrap();
        let Some(Response::Status(short)) = decoder.poll_message().unwrap() else {
            panic!("another answer");
        };
        assert_eq!((short.session_count, short.sessions.len()), (500, 256));
        assert_eq!(short.sessions[0].stream_count, 100);
    }

    #[test]
    fn of_too_many_connections_the_latest_are_told() {
        let connection = |id| PlacedConnection {
            id,
            meaning: "a".repeat(10_000),
            ..PlacedConnection::default()
        };
        let placed = PlacedReport {
            connections: (1..=256).map(connection).collect(),
            latest_id: 256,
        };
        let report = WhyReport {
            placed: Some(placed),
            ..WhyReport::default()
        };
        let line = encode_response(&Response::Why(Box::new(report))).unwrap();
        let mut decoder = LineDecoder::new();
        decoder.handle_bytes(&line).unwrap();
        let Some(Response::Why(report)) = decoder.poll_message().unwrap() else {
            panic!("another answer");
        };
        let told = report.placed.unwrap();
        let ids: Vec<u64> = told.connections.iter().map(|it| it.id).collect();
        assert_eq!(ids, (193..=256).collect::<Vec<u64>>());
    }

    #[test]
    fn of_too_many_events_the_oldest_are_told_first() {
        let event = |id| Event {
            id,
            at_unix_ms: 0,
            what: Change::LinkGone {
                link: "a".repeat(3000),
            },
        };
        let line = encode_response(&Response::Events {
            events: (1..=1000).map(event).collect(),
            latest: 1000,
        });
        let mut decoder = LineDecoder::new();
        decoder.handle_bytes(&line.unwrap()).unwrap();
        let Some(Response::Events { events, latest }) = decoder.poll_message().unwrap() else {
            panic!("another answer");
        };
        let ids: Vec<u64> = events.iter().map(|it| it.id).collect();
        assert_eq!((ids, latest), ((1..=250).collect(), 1000));
    }

    #[test]
    fn every_file_of_the_corpus_is_read_without_a_panic() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/control");
        let mut files = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let _ = decode_all(&std::fs::read(entry.unwrap().path()).unwrap());
            files += 1;
        }
        assert!(files > 0, "the corpus is gone");
    }

    #[test]
    fn a_policy_with_too_many_rules_has_the_first_of_them() {
        let rule = |number: u64| RuleStatus {
            number,
            rule: "\"".repeat(number as usize % 7 * 1000),
            ..RuleStatus::default()
        };
        let all: Vec<_> = (1..400).map(rule).collect();
        let policy = PolicyStatus {
            rule_count: all.len() as u64,
            rules: all.clone(),
            ..PolicyStatus::default()
        };
        let line = encode_response(&Response::Policy(Box::new(policy.clone()))).unwrap();
        let Response::Policy(short) = decode(&line).unwrap() else {
            panic!("another answer");
        };
        let shown = short.rules.len();
        assert_eq!(short.rules, all[..shown]);
        assert_eq!(short.rule_count, 399);
        // No further rule would have fitted.
        assert!(
            shown < all.len() && line.len() > MAX_LINE - 13_000,
            "{shown}"
        );
        // A rule that is too long by itself is left out, too.
        let one = RuleStatus {
            rule: "x".repeat(MAX_LINE),
            ..rule(0)
        };
        let policy = PolicyStatus {
            rules: vec![one],
            ..policy
        };
        encode_response(&Response::Policy(Box::new(policy))).unwrap();
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode_all(&bytes);
        }

        #[test]
        fn answers_come_back_as_they_went(
            url in ".{0,40}",
            micros in 0..10_u64.pow(12),
            megabits in 0..100_000_u64,
            counters in prop::collection::btree_map("[a-z_]{1,8}", any::<u64>(), 0..5),
        ) {
            let span = Duration::from_micros(micros);
            let session = SessionStatus {
                age: span,
                up: Rate::from_bits_per_second(megabits * 1_000_000),
                peer: url.clone(),
                ..SessionStatus::default()
            };
            let snapshot = StatusSnapshot {
                uptime: span,
                sessions: vec![session],
                counters,
                ..StatusSnapshot::default()
            };
            for response in [
                Response::Invite { url: url.clone(), ttl: span },
                Response::Status(Box::new(snapshot)),
            ] {
                let mut decoder = LineDecoder::new();
                decoder.handle_bytes(&encode_response(&response).unwrap()).unwrap();
                prop_assert_eq!(decoder.poll_message(), Ok(Some(response)));
            }
        }
    }
}
