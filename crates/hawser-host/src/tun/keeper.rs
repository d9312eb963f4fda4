//! A process that keeps the network of a program for a moment after the program's end.
//!
//! A network namespace vanishes with its last process, and with it the unsent data of programs that
//! closed their connections without waiting. In other networks the system sends such data for
//! minutes. So a separate process stays in the namespace until the data is sent.

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, geteuid, pidfd_open};
use rustix::thread::{ThreadNameSpaceType, move_into_thread_name_spaces};

/// Enters the network of the process `of`, reports that with a byte on `ready`, waits for the end
/// of `program`, and returns once no connection there waits for an acknowledgement, or after ten
/// seconds. This process must be single-threaded.
///
/// # Errors
/// The process has ended, or the system forbids it.
pub fn keep(of: i32, mut ready: impl Write, mut program: impl Read) -> io::Result<()> {
    enter(of)?;
    ready.write_all(&[IN_PLACE])?;
    ready.flush()?;
    io::copy(&mut program, &mut io::sink())?;
    let ended = Instant::now();
    loop {
        std::thread::sleep(PAUSE);
        let tables = TABLES.map(|table| fs::read_to_string(table).unwrap_or_default());
        if !tables.iter().any(|table| has_unacknowledged(table)) || ended.elapsed() >= PATIENCE {
            return Ok(());
        }
    }
}

/// Enters as the program did, with a user namespace or without one.
fn enter(of: i32) -> io::Result<()> {
    let process = Pid::from_raw(of).ok_or(io::ErrorKind::InvalidInput)?;
    let process = pidfd_open(process, PidfdFlags::empty())?;
    let network = ThreadNameSpaceType::NETWORK;
    if geteuid().is_root() && move_into_thread_name_spaces(process.as_fd(), network).is_ok() {
        return Ok(());
    }
    let both = ThreadNameSpaceType::USER | network;
    Ok(move_into_thread_name_spaces(process.as_fd(), both)?)
}

/// Returns whether a table of TCP connections, in the format of `/proc/net/tcp`, has one that is
/// closed at this end and whose last bytes the other end has not acknowledged.
fn has_unacknowledged(table: &str) -> bool {
    let states = table.lines().skip(1);
    let mut states = states.filter_map(|line| line.split_ascii_whitespace().nth(STATE));
    states.any(|state| CLOSED_AND_SENDING.contains(&state))
}

const TABLES: [&str; 2] = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];
/// Column of a connection's state.
const STATE: usize = 3;
/// `FIN_WAIT1`, `LAST_ACK` and `CLOSING`.
const CLOSED_AND_SENDING: [&str; 3] = ["04", "09", "0B"];
const IN_PLACE: u8 = 1;
/// The last datagrams leave in this time.
const PAUSE: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_that_are_closed_but_not_acknowledged_count() {
        let head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when\n";
        let line = |state: &str| {
            format!("   0: 0200640A:A3C8 0100000A:1F90 {state} 00000000:00000000 00:00000000\n")
        };
        for state in ["04", "09", "0B"] {
            let table = format!("{head}{}{}", line("01"), line(state));
            assert!(has_unacknowledged(&table), "{state}");
        }
        // Established, waiting for the other end's close, over, listening.
        for state in ["01", "05", "06", "08", "0A"] {
            assert!(
                !has_unacknowledged(&format!("{head}{}", line(state))),
                "{state}"
            );
        }
        assert!(!has_unacknowledged("") && !has_unacknowledged("04 04 04 04"));
    }

    #[test]
    fn a_process_that_has_gone_has_no_network() {
        let mut said = Vec::new();
        assert!(keep(i32::MAX, &mut said, io::empty()).is_err() && said.is_empty());
    }
}
