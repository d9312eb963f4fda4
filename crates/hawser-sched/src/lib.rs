//! One trait per unit of scheduling and one file per policy; what each link adds, and what the user
//! allows.
//!
//! A policy is pure over a read-only view of the paths: it never sends, it says where the next unit
//! should go: the [`chunk`] of a byte stream, the [`packet`] of a tunnel, or the whole
//! [`connection`]. The [`governor`] demotes links that harm the whole, [`rules`] are the user's,
//! [`signal`] tells which links are about to go, and [`standby`] has further ones connected in
//! time. Beside these are the decisions about single connections and links: [`ControlChoice`],
//! [`RttRefresh`], [`ChannelCount`], and the demand of applications, [`DemandEstimate`].
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
mod view;

pub use channel_count::{ChannelCount, LinkFacts, Spread};
pub use control::{Control, ControlChoice, ControlFacts};
pub use demand::{DemandEstimate, DemandKey, PortClass};
pub use rtt_refresh::RttRefresh;
pub use view::PathView;
