//! The lab: scenarios on network namespaces, shaped links and real kernels.
//!
//! A [`scenario::Scenario`] describes the links; [`topology::Lab`] builds a client host and a
//! server host with these links between them; [`measure::run`] makes the same transfer over each
//! link alone, over MPTCP and through Hawser, and reports.

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
