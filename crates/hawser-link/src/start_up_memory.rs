//! Memory that only the program's start needed: pages of its own file, and memory freed since.

use std::io;
use std::ops::Range;
use std::time::Duration;

use crate::sys;

/// Gives back the memory that only the start needed, once the program has started. A page of the
/// program's file that is needed again is mapped again, and read from the disk only if the kernel
/// has dropped it since.
pub async fn release_after_start() {
    for pause in PAUSES {
        tokio::time::sleep(pause).await;
        sys::trim_heap();
        if let Err(error) = release() {
            tracing::debug!(%error, "cannot release pages of the program");
        }
    }
}

fn release() -> io::Result<()> {
    let program = std::fs::read_link("/proc/self/exe")?;
    let mappings = std::fs::read_to_string("/proc/self/smaps")?;
    sys::release_pages(unwritten(&mappings, &program.to_string_lossy()))
}

/// Returns the parts of memory that map `file` unchanged, from a text of the form of
/// `/proc/PID/smaps`: they are not writable, and no page of them is a copy.
fn unwritten(mappings: &str, file: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut candidate = None;
    for line in mappings.lines() {
        if let Some(range) = heading(line) {
            let is_of_file =
                line.ends_with(file) && line.as_bytes()[..line.len() - file.len()].ends_with(b" ");
            let permissions = line.split_ascii_whitespace().nth(1).unwrap_or_default();
            candidate = (is_of_file && !permissions.contains('w')).then_some(range);
        } else if let Some(copies) = line.strip_prefix("Anonymous:")
            && let Some(range) = candidate.take()
            && copies.split_ascii_whitespace().next() == Some("0")
        {
            found.push(range);
        }
    }
    found
}

/// The addresses of a mapping, from its first line.
fn heading(line: &str) -> Option<Range<usize>> {
    let (from, to) = line.split_ascii_whitespace().next()?.split_once('-')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    let range = address(from)?..address(to)?;
    (range.start < range.end).then_some(range)
}

/// Pauses before each release: first, until links have joined and the first connections are open;
/// then, until rare work, such as the capture's loading or the measurements of `auto`, is done.
const PAUSES: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(40)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unwritten_pages_are_released() {
        let text = "\
1000-2000 r--p 00000000 fe:00 7 /bin/some program
Rss:                   4 kB
Anonymous:             0 kB
2000-5000 r-xp 00001000 fe:00 7 /bin/some program
Anonymous:             0 kB
VmFlags: rd ex mr mw me
5000-6000 r--p 00004000 fe:00 7 /bin/some program
Anonymous:             4 kB
6000-7000 rw-p 00005000 fe:00 7 /bin/some program
Anonymous:             0 kB
7000-8000 r-xp 00000000 fe:00 8 /bin/awesome program
Anonymous:             0 kB
9000-9000 r-xp 00000000 fe:00 7 /bin/some program
Anonymous:             0 kB
x-y r-xp 00000000 fe:00 7 /bin/some program
Anonymous:
8000-9000 r-xp 00000000 fe:00 7 /bin/some program
";
        let found = unwritten(text, "/bin/some program");
        assert_eq!(found, [0x1000..0x2000, 0x2000..0x5000]);
        assert!(unwritten(text, "/bin/other").is_empty());
    }

    #[test]
    fn the_code_of_this_program_can_be_released_and_goes_on() {
        release().unwrap();
        let program = std::fs::read_link("/proc/self/exe").unwrap();
        let mappings = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let code: fn() -> io::Result<()> = release;
        let found = unwritten(&mappings, &program.to_string_lossy());
        assert!(
            found.iter().any(|range| range.contains(&(code as usize))),
            "{found:x?}"
        );
    }
}
