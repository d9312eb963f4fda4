//! Use of resources by processes: processor time, memory, descriptors.

use std::io;
use std::time::Duration;

/// Returns the processor time of this process so far, in user and kernel mode, in seconds.
pub(crate) fn of_this_process() -> f64 {
    // SAFETY: all-zero is a valid value, and the kernel fills it in.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// Returns the processor time of another process so far, all its threads together.
pub(crate) fn of(process: u32) -> io::Result<Duration> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    let ticks = ticks_in(&text).ok_or(io::ErrorKind::InvalidData)?;
    // SAFETY: a plain library call.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    let per_second = u64::try_from(per_second).unwrap_or(100).max(1);
    Ok(Duration::from_millis(ticks * 1000 / per_second))
}

/// Memory that a process holds, in bytes.
pub(crate) fn resident(process: u32) -> io::Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let kib = text.lines().find_map(|line| {
        let rest = line.strip_prefix("VmRSS:")?;
        rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    });
    Ok(kib.ok_or(io::ErrorKind::InvalidData)? * 1024)
}

/// Returns the number of descriptors that a process has open.
pub(crate) fn descriptors(process: u32) -> io::Result<usize> {
    Ok(std::fs::read_dir(format!("/proc/{process}/fd"))?.count())
}

/// User and kernel ticks, fields 14 and 15; the name before them may hold anything.
fn ticks_in(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let kernel: u64 = fields.next()?.parse().ok()?;
    Some(user + kernel)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_found_behind_a_strange_name() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194560 1 0 0 0 30 12 0 0 20 0 1 0";
        assert_eq!(ticks_in(stat), Some(42));
        assert_eq!(ticks_in("7 (a) S 1"), None);
    }

    #[test]
    fn this_process_has_memory_and_time() {
        assert!(resident(std::process::id()).unwrap() > 100_000);
        assert!(of(std::process::id()).is_ok());
        assert!(descriptors(std::process::id()).unwrap() > 2);
    }
}
