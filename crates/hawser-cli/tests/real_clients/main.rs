//! The programs people use, through the real program to a real web server: by its proxy port on the
//! loopback interface, and captured in a network with two links.

mod browser;
mod chromium;
mod clients;
mod curl;
mod dashboard;
mod fronted;
mod git;
mod installed;
mod many;
mod network;
mod nginx;
#[path = "../end_to_end/program.rs"]
#[allow(dead_code, reason = "shared with tests that use more of it")]
mod program;
mod run;
