//! Decides the route of a whole connection: over a session with the destination itself, over a
//! gateway, or over one of this machine's links.
//!
//! [`Director::decide`] returns one [`Route`] for a connection. The caller opens the connection,
//! charges it with [`Director::open`] or [`Director::open_by_gateway`], and reports its progress
//! with `handle_*`. From these reports the director learns the capacity of links and gateway and
//! the needs of applications.
//!
//! The crate does no I/O and has no clock: each function takes `now`. [`Director`] documents the
//! order of calls. The simulator asks the same director as the daemon.
//!
//! - A decision: `request.rs` → `judgement.rs` (rules to a verdict, `demands.rs` to an estimate) →
//!   `links.rs`, `health.rs`, `link_rules.rs` (which links may be used) → `link_rates.rs`,
//!   `charges.rs` (what they can carry, and do) → `placing.rs` (their order, by a policy of
//!   `hawser-sched`) → `gateway.rs`, `sites.rs`, `weighing.rs` (link or gateway) → `decision.rs`.
//! - Attempts: `plan.rs` orders them; `flows.rs` and `exits.rs` charge each as it begins;
//!   `director/answers.rs` takes answers and misses.
//! - The end: `director/learning.rs` gives back the load and teaches the demand; `story.rs` and
//!   `director/history.rs` keep the connection for `hawser why`.
//!
//! To change when the gateway is chosen, begin at `weighing.rs`; how a link counts as dead, at
//! `health.rs`. Tests: `director/tests.rs` and `director/tests/`, with `testing/rig.rs`.
//!
//! Source: DBAS §II (connection-oriented mode).
#![forbid(unsafe_code)]

mod charges;
mod decision;
mod demands;
mod director;
mod estimates;
mod exits;
mod expected;
mod flows;
mod gateway;
mod health;
mod judgement;
mod link_counters;
mod link_rates;
mod link_record;
mod link_rules;
mod links;
mod placing;
mod plan;
mod report;
mod request;
mod sites;
mod story;
#[cfg(test)]
mod testing;
mod weighing;

pub use decision::leads_to;
pub use decision::{
    AddressRoute, Candidate, FarEnds, GatewayDecision, Known, LinkDecision, Missing, Outlook,
    Question, Route, Standing,
};
pub use director::Director;
pub use exits::Over;
pub use flows::{FlowId, Progress};
pub use gateway::SessionView;
pub use health::Health;
pub use link_rules::AllLinkRules;
pub use plan::{Attempt, plan};
pub use report::{DirectorReport, GatewayReport, LinkReport};
pub use request::ConnectionRequest;
pub use story::{LeftTo, Promise, Story, Subject, Try, TryRoute, TryState};
pub use weighing::ruled;
