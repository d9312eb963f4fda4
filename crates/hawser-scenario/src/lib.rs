//! Scenarios: sets of links and events on them, read from strict TOML; and the model of one
//! direction of a link. The lab applies it to real packets, the simulator to its own.
#![forbid(unsafe_code)]

mod congestion;
pub mod dying;
mod error;
pub mod figures;
mod file;
mod line;
mod link;
mod load;
mod middlebox;
mod phase;
pub mod promise;
mod read_text;
mod scenario;
mod trace;
mod values;
mod workload;

pub use congestion::{Congestion, UnknownCongestion};
pub use error::{InvalidScenario, ScenarioError};
pub use line::{Fate, LineState};
pub use link::{Direction, Line, Link, Loss, Service};
pub use middlebox::{Forgotten, Nat, TcpOption};
pub use phase::{Doing, Phase, Step};
pub use read_text::{ReadText, no_files};
pub use scenario::{Action, Event, MAX_LINKS, Point, Scenario};
pub use trace::{Segment, TraceError};
pub use workload::{Application, Arrival, Sizes, Workload};
