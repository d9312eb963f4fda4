//! Snapshots and commands: the API that the command line and all monitors use.
//!
//! A client sends a [`Request`] and the daemon answers with a [`Response`], each one line of JSON
//! with the version of this API: [`encode`] creates the line, [`LineDecoder`] decodes it. Names of
//! fields end in their unit: `_ms` is a span in milliseconds with a fraction, `_bps` a rate in
//! bit/s, `_bytes` a count of bytes. Unknown fields are ignored, so that a newer daemon may add
//! some. `docs/control-api.md` specifies all of it.
//!
//! This crate does no I/O: the caller moves the bytes.
//!
//! - A question and its answer: `message.rs` → `codec.rs`. The types of answers: `snapshot.rs`,
//!   `session_status.rs`, `connections.rs`, `policy.rs`, `why.rs`, `history.rs`, `event.rs`.
//! - Derived from them: `states.rs` (state of links, sessions and gateway), `changes.rs` (events
//!   between two snapshots), `gain.rs` (the rate of all links together, by that of the busiest).
//! - As text: in `hawser-text`.
//!
//! To add a request: its variant and its answer in `message.rs`, an example in
//! `docs/control-api.md` (`tests/documentation.rs` asks for one); in `hawser-daemon` its arm in
//! `answers.rs`, or in `server.rs` where it waits; what only a client or a gateway knows is a
//! method of `Subject` (`subject.rs`; `up/subject.rs`, `gateway/far_end.rs`; tests:
//! `shown/tests.rs`, `server.rs`); a change is carried out in `up/subject/steer.rs` (test:
//! `steer/tests.rs`); `is_for_owner` says who may send it; the command is in `client/` of
//! `hawser-cli`, and what it shows in `hawser-text`. A new field of an answer is
//! `#[serde(default)]`, and stands in the example in `docs/control-api.md`.
#![forbid(unsafe_code)]

mod all_sessions;
mod changes;
mod codec;
mod connections;
mod directory;
mod event;
mod event_log;
mod gain;
mod history;
mod message;
mod packet_flow;
mod placed;
mod policy;
mod session_status;
mod signal;
mod snapshot;
mod standby;
mod states;
mod units;
mod why;
mod why_count;
mod words;

pub use all_sessions::AllSessions;
pub use changes::{changes_between, policy_changes};
pub use codec::{API, CodecError, LineDecoder, MAX_LINE, decode, encode, encode_response};
pub use connections::{
    ConnectionsStatus, DiscoveredStatus, GatewayStatus, NotAskedStatus, NotBondedStatus,
    PlacingStatus, VouchedStatus,
};
pub use directory::{BindingStatus, ContactStatus, DirectoryStatus, RegistrationStatus};
pub use event::{Change, Event};
pub use event_log::EventLog;
pub use history::{History, HistoryReport, LinkHistory};
pub use message::{ErrorReason, LinkChange, PeerStatus, Request, Response};
pub use packet_flow::{PacketFlowLink, PacketFlowStatus, PacketPlacing};
pub use placed::{PlacedCandidate, PlacedConnection, PlacedReport, PlacedRule, PlacedTry};
pub use policy::{PolicyStatus, RuleStatus, Scheduled};
pub use session_status::{
    ChannelKind, ChannelState, ChannelStatus, PathStanding, PathState, PathStatus, SessionRoute,
    SessionState, SessionStatus, StreamStatus, Transport, TransportStatus,
};
pub use signal::{ModemStatus, SignalSource, SignalStatus};
pub use snapshot::{
    KillSwitchStatus, LinkAllowed, LinkState, LinkStatus, LinkTraffic, MemoryStatus,
    PredecessorStatus, Role, StatusSnapshot,
};
pub use standby::StandbyStatus;
pub use states::States;
pub use why::{
    MAX_FAR_END, WhyEvent, WhyLater, WhyLink, WhyReport, WhySession, WhySpan, WhyStream,
};
pub use why_count::WhyCount;
