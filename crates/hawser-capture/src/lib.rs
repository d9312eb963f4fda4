//! Assigns connections to links in the kernel, for programs that do not know about Hawser.
//!
//! A BPF program at `connect(2)` chooses the link from tables that this crate maintains, charges it
//! with the connection's expected demand, and binds the socket to it. Then the kernel moves the
//! bytes; when the connection ends, an event reports what it moved. If no decision is possible, or
//! anything fails, the connection is made as without Hawser.
//!
//! - Placing: `bpf/capture.c` with `bpf/decide.h` decides; `attach.rs` loads it, `tables.rs` has
//!   the structs that both sides share, `apply.rs` and `rules.rs` fill in the user's rules,
//!   `capture.rs` ([`Capture`]) links and demands. `events.rs` and `ring.rs` report ([`Event`]).
//! - Capability in the handshake: `bpf/discovery.c` with `discovery.rs` and `discovery/`.
//! - The shim, for users without rights on the kernel: the library is `shim/shim.c` with
//!   `shim/names.c` beside `src/`; `src/shim/server.rs` answers it.
//!
//! To change a decision, begin at `bpf/decide.h` (test: `tests/decide.rs`, against `hawser-sched`);
//! a condition of rules, at `rules.rs` and `bpf/capture.c` (tests: `rules/tests.rs`,
//! `tests/capture/rules.rs`). `cargo xtask bpf` builds the objects. `docs/design/capture.md`
//! explains.
//!
//! ```no_run
//! # use hawser_capture::{Capture, Event, RunGroup, Settings};
//! # async fn example(links: &[hawser_capture::LinkEntry], rules: &hawser_policy::RuleSet)
//! # -> Result<(), Box<dyn std::error::Error>> {
//! // A group for one program; `hawser_capture::mount_point()` would be all of the system.
//! let group = RunGroup::create()?;
//! let mut capture = Capture::start(group.path(), &Settings::default())?;
//! capture.set_local_prefixes(&["192.168.0.0/16".parse()?])?;
//! capture.set_rules(rules)?;
//! // Call again whenever rates, latencies or usable links have changed.
//! capture.set_links(links)?;
//!
//! let mut command = std::process::Command::new("curl");
//! group.enter(command.arg("https://example.org"))?;
//! let mut child = command.spawn()?;
//!
//! let mut events = capture.events()?.expect("taken once");
//! while child.try_wait()?.is_none() {
//!     match events.next().await? {
//!         // Facts that only user space can find count from the program's next connection on.
//!         Event::Connected(connection) => {
//!             capture.learn(&connection)?;
//!         }
//!         Event::Ended(connection, end) => {
//!             // Teach the demand with `end.moved`, then `capture.set_demands`.
//! #           let _ = (connection, end);
//!         }
//!         Event::Refused(_) => {}
//!     }
//! }
//! # Ok(())
//! # }
//! ```
#![cfg(target_os = "linux")]

mod apply;
mod attach;
mod capture;
mod diag;
mod discovery;
mod error;
mod events;
mod group;
mod handshake;
mod maps;
pub mod process;
mod recount;
mod ring;
mod rule_tables;
mod rules;
mod runs;
mod seen;
mod settings;
pub mod shim;
mod sys;
mod tables;

pub use apply::RulesInForce;
pub use capture::{Capture, Counts, MAX_PEERS};
pub use discovery::{
    Announcement, Asking, Avoidance, Bonds, Discoveries, Discovery, DiscoveryCounts, FrontedPort,
    Learnt, Middleboxes, Outcome, kernel_time,
};
pub use error::CaptureError;
pub use events::{Connection, End, Event, Events, Origin, OriginTable, Origins};
pub use group::{RunGroup, mount_point, own_group};
pub use handshake::Handshake;
pub use recount::CapturedProgress;
pub use runs::RunCount;
pub use settings::{Bytes, CarriedFamilies, LinkEntry, Settings, Unruled};
pub use tables::{MAX_LINKS, MAX_RULES};
