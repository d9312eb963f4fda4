//! Use of resources by processes: processor time, memory, descriptors.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use serde::Serialize;

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

/// Returns the processor time of another process so far, in nanoseconds, all its threads together,
/// those that have ended too.
pub(crate) fn of(process: u32) -> io::Result<Duration> {
    let process = libc::pid_t::try_from(process).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut clock: libc::clockid_t = 0;
    // SAFETY: the library fills in the number.
    let error = unsafe { libc::clock_getcpuclockid(process, &raw mut clock) };
    if error != 0 {
        return Err(io::Error::from_raw_os_error(error));
    }
    // SAFETY: all-zero is a valid value, and the kernel fills it in.
    let time = unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        if libc::clock_gettime(clock, &raw mut time) != 0 {
            return Err(io::Error::last_os_error());
        }
        time
    };
    let whole = Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or(0));
    Ok(whole + Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or(0)))
}

/// Memory that a process holds, in bytes.
pub(crate) fn resident(process: u32) -> io::Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let kib = number_after(&text, "VmRSS:");
    Ok(kib.ok_or(io::ErrorKind::InvalidData)? * 1024)
}

/// Memory of a process, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Memory {
    /// All pages that are in memory.
    pub(crate) resident: u64,
    /// The same, where a page that several processes have counts for each in part.
    pub(crate) proportional: u64,
    /// Pages of no file: heap and stacks.
    pub(crate) anonymous: u64,
}

/// Returns the memory that a process holds now.
pub(crate) fn memory(process: u32) -> io::Result<Memory> {
    let text = std::fs::read_to_string(format!("/proc/{process}/smaps_rollup"))?;
    Memory::read(&text).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

impl Memory {
    /// Reads the form of `smaps_rollup`.
    fn read(text: &str) -> Option<Self> {
        let bytes = |name: &str| Some(number_after(text, name)? * 1024);
        Some(Self {
            resident: bytes("Rss:")?,
            proportional: bytes("Pss:")?,
            anonymous: bytes("Anonymous:")?,
        })
    }
}

/// Returns how often each thread of a process has waited so far, by its number.
pub(crate) fn waits(process: u32) -> io::Result<BTreeMap<u32, u64>> {
    let mut all = BTreeMap::new();
    for thread in std::fs::read_dir(format!("/proc/{process}/task"))? {
        let thread = thread?;
        let number = thread.file_name().to_string_lossy().parse::<u32>().ok();
        // It may have ended by now.
        let text = std::fs::read_to_string(thread.path().join("status")).unwrap_or_default();
        let count = number_after(&text, "voluntary_ctxt_switches:");
        all.extend(number.zip(count));
    }
    Ok(all)
}

/// The number behind the line's first word `name`.
fn number_after(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines();
    let rest = lines.find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// Returns the number of descriptors that a process has open.
pub(crate) fn descriptors(process: u32) -> io::Result<usize> {
    Ok(std::fs::read_dir(format!("/proc/{process}/fd"))?.count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_in_bytes_and_needs_all_its_lines() {
        let text = "55a0-7ffd ---p 00000000 00:00 0  [rollup]\nRss:    1200 kB\nPss:     900 kB\n\
                    Pss_Anon:  1 kB\nAnonymous:    300 kB\nAnonHugePages:   0 kB\n";
        let memory = Memory {
            resident: 1_228_800,
            proportional: 921_600,
            anonymous: 307_200,
        };
        assert_eq!(Memory::read(text), Some(memory));
        assert_eq!(Memory::read("Rss: 1 kB\nPss: x kB\n"), None);
    }

    #[test]
    fn processor_time_of_a_process_holds_that_of_threads_that_have_ended() {
        let before = of(std::process::id()).unwrap();
        let thread = std::thread::spawn(|| {
            let begun = of_this_thread();
            let mut numbers = 0..u64::MAX;
            while of_this_thread() - begun < Duration::from_millis(20) {
                std::hint::black_box(numbers.next());
            }
        });
        thread.join().unwrap();
        let spent = of(std::process::id()).unwrap() - before;
        assert!(spent >= Duration::from_millis(20), "{spent:?}");
    }

    fn of_this_thread() -> Duration {
        // SAFETY: all-zero is a valid value, and the kernel fills it in.
        let time = unsafe {
            let mut time: libc::timespec = std::mem::zeroed();
            libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time);
            time
        };
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }

    #[test]
    fn this_process_has_memory_and_time() {
        assert!(resident(std::process::id()).unwrap() > 100_000);
        assert!(of(std::process::id()).is_ok());
        assert!(descriptors(std::process::id()).unwrap() > 2);
        assert!(!waits(std::process::id()).unwrap().is_empty());
    }
}
