//! The user's rules for connections: the facts of a connection, and the verdict of the rules.
//!
//! [`Facts`] are the known properties of a new connection. A [`RuleSet`] judges them: each field of
//! the [`Verdict`] is set by the first rule that applies and sets it. The user's rules come first,
//! then those of the chosen [`Profile`], then the built-in ones.
//!
//! The way through: `facts.rs` → `set.rs` (`judge`; `explain` says why) → `rule.rs` (a rule is a
//! condition and an action) → `condition.rs` → `pattern.rs` and `value.rs`. `text.rs` shows rules.
//!
//! To add a condition of rules:
//!
//! 1. its field in `condition.rs`, its fact in `facts.rs`, its text in `text.rs`; test in
//!    `set/tests.rs`;
//! 2. its key in `rule.rs` of `hawser-config`, and in `docs/hawser.example.toml`;
//! 3. its way here: in `hawser-front`, `connection/origin.rs`, `connection/asker.rs`,
//!    `connection/kernel.rs` and `connection/kernel/turned.rs` hand over the fact, and
//!    `proxy/captured.rs` of `hawser-daemon` does (a fact of a process is read in `asker.rs` of
//!    `hawser-link` and `process.rs` of `hawser-capture`); `request.rs` of `hawser-director`
//!    carries it; flags: `args/rule.rs` and `commands/rule.rs` of `hawser-cli`;
//! 4. the other two judges: the kernel's tables in `rules.rs`, `tables.rs` and `rule_tables.rs` of
//!    `hawser-capture` with `bpf/capture.c` and `bpf/tables.h` (`events.rs` reports the fact,
//!    `tests/native/layout.c` lists every field), and nftables in `lan/modes.rs` of `hawser-host`.
//!
//! Sources: DBAS §II.B.1 (classes of applications), §II.C (the user's policy).
#![forbid(unsafe_code)]

mod condition;
mod facts;
mod pattern;
mod rule;
mod set;
mod text;
mod value;

pub use condition::{Condition, Field, MAX_VALUES, Miss};
pub use facts::{Facts, Protocol, UnknownProtocol};
pub use hawser_sched::connection::Class;
pub use ipnet::IpNet;
pub use pattern::{CgroupPath, DomainPattern, Pattern, PatternError};
pub use rule::{
    Action, Avoid, LinkChoice, Mode, Profile, Rule, Source, UnknownAvoid, UnknownMode,
    UnknownProfile,
};
pub use set::{Explained, RuleSet, Verdict};
pub use value::{Dscp, DscpError, PortRange, PortRangeError, User};
