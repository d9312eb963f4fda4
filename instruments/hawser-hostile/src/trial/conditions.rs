use std::path::PathBuf;
use std::time::Duration;

use hawser_types::ByteCount;

/// Under which conditions scripts are performed.
#[derive(Clone, Debug)]
pub struct Conditions {
    /// The program.
    pub hawser: PathBuf,
    /// Its memory limit.
    pub memory: ByteCount,
    /// Time for which the script is performed again and again; `None` performs it once.
    pub time: Option<Duration>,
    /// Time for which the honest client is measured before.
    pub before: Duration,
    /// Bytes a second that the honest client could have.
    pub pace: u64,
    /// Where logs and state are kept, each trial's below the script's name; `None` keeps nothing.
    pub folder: Option<PathBuf>,
}

impl Conditions {
    /// The conditions of tests: each script once, with 64 MiB. A debug build serves what the honest
    /// clients of several trials at once want, and leaves the hostile peer something.
    pub fn brief(hawser: PathBuf) -> Self {
        Self {
            hawser,
            memory: ByteCount::from_mib(64),
            time: None,
            before: Duration::from_millis(500),
            pace: 1_000_000,
            folder: None,
        }
    }
}
