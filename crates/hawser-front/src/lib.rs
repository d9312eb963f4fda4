//! The front ends: where traffic comes in and goes out: proxy port, gateway, directory.
//!
//! - A connection in: `proxy/dispatch.rs` (SOCKS, HTTP), or `redirect.rs` for captured ones →
//!   `connection/who.rs` (which program) → `dialer.rs` → a session with the host itself (`peer/`),
//!   the gateway (`bonded.rs`), or links: `connection/over_links.rs`, `connection/race.rs`. What
//!   the kernel places by itself is only reported (`connection/kernel.rs`). `relay.rs` moves the
//!   bytes, `connection/flow.rs` counts them. `connection/director.rs` is the director with lock
//!   and clock.
//! - A datagram in: `proxy/udp_associate.rs` → `datagram/choice.rs` (for each flow) →
//!   `datagram/direct.rs` over a link, or `datagram/bonded.rs` over the gateway, which takes it in
//!   `gateway/datagrams.rs`.
//! - A stream at a gateway: `gateway/serve.rs` and `gateway/client_streams.rs` →
//!   `gateway/policy.rs` (may it go there) → `gateway/lookups.rs` → `connect.rs` → `relay.rs`.
//! - Packets: `packets/tunnel.rs` at the client, `packets/exchange.rs` at the gateway, which agree
//!   by `packets/terms.rs`. Queries for names: `name_stub.rs`.
//!
//! Hosts with a session of their own, in `peer/`: *peers*, with which this machine has enrolled
//! (`peer/peers.rs`), hosts *known by name*, whose name is in a directory and whose key in the
//! user's book (`peer/named.rs`; behind NAT `peer/meeting.rs` and `peer/punching.rs`), *discovered*
//! servers, which front a service and whose key is pinned (`peer/discovered.rs`), names that their
//! owners *vouch* for (`peer/vouched.rs`), and strangers at ports that this machine *fronts*
//! (`gateway/fronted.rs`). `directory/` and `registration/` are the sockets of `hawser-sip`.
//!
//! Where to begin: what clients may reach, `gateway/policy.rs`; what other machines may reach here,
//! `this_machine.rs`; limits of one client, `gateway/client.rs`; when connections to a peer are
//! refused, `peer/held.rs`. Tests: `tests/` (proxy and gateway over loopback), `dialer/tests.rs`,
//! `fuzzing.rs`. `docs/design/` has `connection.md`, `fronting.md`, `names.md`.

mod address;
pub mod bonded;
pub mod connect;
pub mod connection;
pub mod datagram;
pub mod destination;
pub mod dialer;
pub mod directory;
pub mod either;
#[doc(hidden)]
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod gateway;
mod incoming;
pub mod name_stub;
pub mod near;
mod own_ports;
pub mod packets;
pub mod peer;
pub mod proxy;
pub mod redirect;
pub mod registration;
pub mod relay;
pub mod resolve;
pub mod root_certificates;
mod tally;
#[cfg(test)]
mod testing;
pub mod this_machine;
mod token_bucket;
mod told_names;
pub mod transport;
mod udp_addresses;
