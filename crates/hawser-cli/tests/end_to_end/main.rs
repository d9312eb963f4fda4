//! The real program, from the command line to the bytes at the other end, on the loopback
//! interface.

mod bench;
mod captured;
mod choice;
mod connections;
mod cost;
mod datagrams;
mod events;
mod families;
mod files;
mod gateway;
mod ledger;
mod manual;
mod origin;
mod own_addresses;
mod peer;
mod program;
mod rules;
mod service;
mod steering;
mod top;
mod transport;
mod units;
mod usage;
mod web;
mod why;
