//! Sessions over real sockets: the tokio driver, clients, gateways, associations and streams.
//!
//! [`clock`] is the process's one monotonic clock. Links and their sockets are in `hawser-link`,
//! keys in `hawser-keys`, the handshake in `hawser-seal`. `docs/design/driver.md` explains the
//! decisions.
//!
//! - A stream's bytes: `stream.rs` → `driver/shared.rs` (the session's lock) → `driver/channel.rs`
//!   (a reading and a writing task for each TCP channel; they read, open, seal and write outside
//!   the lock) → `driver/streams.rs` wakes the reader. `driver/timer.rs` calls the session when a
//!   time-out is due.
//! - An association: `driver/association.rs` moves records between the session and
//!   `association/handle.rs` → `association/keyed_endpoint.rs` (the *keyed endpoint*: the
//!   associations of one datagram key, with their lock) → `association/socket.rs` (gathers, seals,
//!   sends many with one call); arrivals come by `association/receiver.rs` and
//!   `association/keyed_endpoints.rs`. Packets of tunnels, out and in: `driver/packet_lane.rs`. The
//!   two locks are never held together (`lock_order.rs`).
//! - A client: `client.rs` → `client/sessions.rs` (one session after the other) →
//!   `client/candidates.rs` and `client/first.rs` (a race of handshakes) → `client/keeper.rs`
//!   (channels of each link) and `client/association.rs`. A gateway: `gateway/port.rs` →
//!   `gateway/half_open.rs` (places of strangers) → `gateway/admit.rs` (handshake or join, by the
//!   first byte) → `gateway/session.rs`.
//! - A successor process: `takeover.rs`; clients are told to leave by `gateway/going.rs`.
//!
//! Where to begin: limits of a gateway, `gateway/limits.rs`; where the gateway is looked for,
//! `client/candidates.rs`; which connections of its gateway a client takes, `client/join_port.rs`;
//! periodic work, `ticks.rs`, so that an idle process sleeps; log lines of a session: its span is
//! in `spans.rs`, made by `driver.rs` and described in `docs/guide/logs.md`; it begins in
//! `client/first.rs` and `gateway/admit.rs`, and ends in `client/sessions.rs` and
//! `gateway/session.rs`. Tests: `tests/` with a gateway and a client in one process
//! (`tests/common/pair.rs`), and `driver/tests.rs`.

pub mod association;
pub mod client;
pub mod clock;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod gateway;
mod local_pair;
mod port_on_links;
pub mod session;
mod session_budgets;
pub mod spans;
pub mod stream;
pub mod takeover;
pub mod thread_memory;
pub mod ticks;

mod congestion;
mod driver;
mod lock_order;
mod sign_of_life;

pub use local_pair::local_pair;
