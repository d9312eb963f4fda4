//! One trait per unit of scheduling and one file per policy; what each link adds, and what the user
//! allows.
//!
//! A policy is pure over a read-only view of the paths: it never sends, it says where the next unit
//! should go, or that it should wait, with its reason. It holds no socket and sees no data, so a
//! policy is one file and its tests need no network. The unit is the [`chunk`] of a byte stream,
//! the [`packet`] of a tunnel, or the whole [`connection`]. `docs/design/scheduling.md` has the
//! rules and their sources.
//!
//! - Who asks: `session/placing.rs` of `hawser-session` for chunks; `send/choose.rs` of
//!   `hawser-sctp` for an association, with the same policies; `association/tunnel.rs` of
//!   `hawser-channels` for packets; `placing.rs` of `hawser-director` for connections.
//! - What they see: `view.rs` ([`PathView`]), `connection/link_view.rs`. What they answer is
//!   counted in [`tally`], and named in `code.rs` for recordings and users.
//! - Before a policy is asked: [`rules`] are the user's, the [`governor`] demotes links that harm
//!   the whole, [`signal`] tells which links are about to go, and [`standby`] has further ones
//!   connected in time.
//! - Decisions about single connections and links: [`ControlChoice`], [`RttRefresh`],
//!   [`ChannelCount`], and the demand of applications, [`DemandEstimate`].
//! - Weighted round robin, for every unit: `turns.rs`.
//!
//! To add a policy for chunks: a file in `chunk/`, its name in `chunk/policy.rs`, last in `ALL`,
//! since recordings count on the order, its constructor in `chunk.rs`, vectors in `chunk/tests.rs`;
//! its number on the wire in `session/rules.rs` of `hawser-session` (test:
//! `session/tests/scheduler.rs`) and in `docs/protocol.md`, section 5; the help text in
//! `args/steer.rs` of `hawser-cli`; the lists of names in `tests.rs` of `hawser-config`,
//! `docs/hawser.example.toml` and `docs/design/scheduling.md`; `api.txt` of `hawser` (`cargo xtask
//! api --bless`). Packets are alike, in `packet/`, without a number. For connections, in
//! `connection/`, the kernel's program decides by itself: `hawser-capture/bpf/decide.h` has to
//! agree, which `tests/decide.rs` there checks.
#![forbid(unsafe_code)]

mod channel_count;
pub mod chunk;
mod code;
pub mod connection;
mod control;
mod demand;
pub mod governor;
pub mod packet;
mod rtt_refresh;
pub mod rules;
pub mod signal;
pub mod standby;
pub mod tally;
mod turns;
mod view;

pub use channel_count::{ChannelCount, LinkFacts, Spread};
pub use control::{Control, ControlChoice, ControlFacts};
pub use demand::{DemandEstimate, DemandKey, PortClass};
pub use rtt_refresh::RttRefresh;
pub use turns::SmoothTurns;
pub use view::PathView;
