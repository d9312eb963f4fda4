//! The programs people use, through the proxy port of the real program, to a real web server. All
//! of it is on the loopback interface.

mod browser;
mod clients;
mod curl;
mod git;
mod many;
mod nginx;
#[path = "../end_to_end/program.rs"]
#[allow(dead_code, reason = "shared with tests that use more of it")]
mod program;
