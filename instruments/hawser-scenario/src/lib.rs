//! Scenarios: sets of links and events on them, read from strict TOML; and the model of one
//! direction of a link. The lab applies it to real packets, the simulator to its own.
//!
//! - From a file to links: `load.rs` → `file.rs` (the TOML form; `file/link.rs`,
//!   `file/workload.rs`, `file/sweep.rs`) → `scenario.rs`, `link.rs`, `workload.rs` (the checked
//!   form). `trace.rs` reads rates that change, `middlebox.rs` has translators and what takes
//!   options away.
//! - A packet over a link: `line.rs` ([`LineState`]) computes its fate when it enters;
//!   `line/service.rs` serves at the rate.
//! - What an experiment asks: [`promise`] (guarantees for a session on a set of links), [`dying`]
//!   (links that are as good as dead and still answer), [`figures`] (results, whether simulated or
//!   measured), `phase.rs` (steps between events).
//!
//! To add a key of scenarios, begin at `file.rs`, with a test in `file/tests.rs`. To test on
//! another set of links, add a file to `scenarios/`: simulator and lab read the same.
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
