//! Processes that tests started and did not end.
//!
//! One of them would keep the tests' output open, and a reader of that output would wait for ever.

use std::time::Duration;

use rustix::process::{Pid, Signal, getpid, kill_process, set_child_subreaper};

/// From now on, orphaned processes below this process become its children.
pub(crate) fn adopt() {
    // Where the kernel refuses, processes are left behind as before.
    let _ = set_child_subreaper(Some(getpid()));
}

/// Ends what is left below this process, and says what that was.
pub(crate) fn end() -> Vec<String> {
    let mut ended = Vec::new();
    // Those that a child had come to this process once it is dead.
    for _ in 0..GENERATIONS {
        let children = children();
        if children.is_empty() {
            break;
        }
        for (process, command) in children {
            if kill_process(process, Signal::KILL).is_ok() {
                ended.push(command);
            }
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    ended
}

/// The living children of this process, with their command lines.
fn children() -> Vec<(Pid, String)> {
    let own = getpid();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = processes.filter_map(|it| it.file_name().to_str()?.parse().ok());
    let living = ids.filter(|id| parent(*id) == Some(own));
    living
        .filter_map(|id| Some((Pid::from_raw(id)?, command(id))))
        .collect()
}

/// The parent of a process, unless that has ended.
fn parent(id: i32) -> Option<Pid> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // A program's name may hold anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let is_dead = matches!(fields.next()?, "Z" | "X");
    let parent = fields.next()?.parse().ok()?;
    Pid::from_raw(parent).filter(|_| !is_dead)
}

fn command(id: i32) -> String {
    let bytes = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
    let words = bytes.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    words.collect::<Vec<_>>().join(" ").trim_end().to_owned()
}

/// How deep processes below a dead one are looked for.
const GENERATIONS: usize = 20;

#[cfg(test)]
mod tests {
    use std::process::Command;

    #[test]
    fn what_a_dead_shell_has_started_is_ended() {
        super::adopt();
        // The shell ends at once; its child would go on.
        let script = "sleep 4242 > /dev/null 2>&1 &";
        let status = Command::new("sh").args(["-c", script]).status();
        assert!(status.unwrap().success());
        let ended = super::end();
        assert!(
            matches!(&ended[..], [it] if it.contains("sleep 4242")),
            "{ended:?}"
        );
        assert!(super::end().is_empty());
    }
}
