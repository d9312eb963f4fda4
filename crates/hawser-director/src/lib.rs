//! Decides the route of a whole connection: over one of this machine's links, or over a gateway.
//!
//! [`Director::decide`] returns one [`Decision`] for a connection. The caller opens the connection,
//! charges it with [`Director::open`] or [`Director::open_by_gateway`], and reports its progress
//! with `handle_*`. From these reports the director learns the capacity of links and gateway and
//! the needs of applications.
//!
//! The crate does no I/O and has no clock: each function takes `now`. [`Director`] documents the
//! order of calls.
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
    Candidate, Decision, GatewayDecision, LinkDecision, Outlook, Question, Route, Standing,
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
