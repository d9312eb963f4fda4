//! The lab: scenarios on network namespaces, shaped links and real kernels.
//!
//! A [`scenario::Scenario`] describes the links; [`topology::Lab`] builds a client host and a
//! server host with these links between them; [`measure::run`] makes the same transfer over each
//! link alone, over MPTCP and through Hawser, and reports. A *contender* is Hawser or another
//! system in an experiment; a *cable* is a line of the emulator. `docs/design/lab.md` describes
//! each experiment.
//!
//! - A lab: `scenario.rs` → `topology.rs` → `netns.rs`, `ip.rs`, `privilege.rs` → `emulator.rs`
//!   with `emulator/cable.rs` (the thread that carries frames by the model of `hawser-scenario`).
//! - An experiment: `cli.rs` → its module, such as `packets.rs` → `experiment.rs` (options,
//!   folders, reports) → `contender.rs` and `process.rs` (programs under test) → `meter.rs`
//!   (transfers) → `verdict.rs` (bounds, met or not).
//!
//! To add an experiment: one module with its options, its report and its table (`failover.rs` is an
//! example of the usual shape), a command in `cli.rs`, a short run in `tests/commands.rs`, a
//! section in `docs/design/lab.md`, and the command with its figures in `bench/README.md`. A fault
//! of a link begins at `emulator/faults.rs`, a fault of the matrix at `matrix/fault.rs`. Tests of
//! the lab itself: `tests/lab.rs`.

mod association;
mod bars;
mod captured;
pub mod cli;
mod commands;
mod compare;
mod connect;
mod connections;
mod contender;
mod cpu;
mod crowd;
mod cut;
mod demo;
mod dialogue;
mod dying;
pub mod emulator;
mod ethtool;
pub mod experiment;
mod failover;
mod fairness;
mod gain;
mod hostile;
mod idle;
mod interactive;
mod interception;
pub mod interrupt;
pub mod ip;
mod matrix;
pub mod measure;
mod messages;
pub mod meter;
pub mod netns;
mod objects;
mod open_files;
mod output;
mod packets;
mod peer;
pub mod privilege;
pub mod process;
mod relay;
mod request;
mod roaming;
mod router;
pub mod scenario;
mod short;
mod statistics;
mod text_table;
mod thousand;
mod timeline;
pub mod topology;
mod transports;
mod turns;
mod unshaped;
pub mod verdict;
mod watchers;
mod web;
