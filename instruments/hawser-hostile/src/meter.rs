//! Memory and descriptors of a process, over time.

use std::fs;
use std::io;
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// One moment of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Sample {
    /// Seconds since the script began.
    pub seconds: f64,
    /// Resident memory in bytes.
    pub resident: u64,
    /// Open descriptors.
    pub descriptors: usize,
}

/// Looks at a process every now and then until it is asked for what it saw.
pub(crate) struct Meter {
    stop: oneshot::Sender<()>,
    watching: JoinHandle<Readings>,
}

/// What a [`Meter`] saw.
#[derive(Clone, Debug, Default)]
pub(crate) struct Readings {
    pub(crate) most_resident: u64,
    pub(crate) most_descriptors: usize,
    /// About one a second.
    pub(crate) samples: Vec<Sample>,
}

impl Meter {
    pub(crate) fn start(process: u32) -> Self {
        let (stop, stopped) = oneshot::channel();
        let watching = tokio::spawn(watch(process, stopped));
        Self { stop, watching }
    }

    pub(crate) async fn stop(self) -> Readings {
        // A task that has ended needs no stopping.
        let _ = self.stop.send(());
        self.watching.await.unwrap_or_default()
    }
}

async fn watch(process: u32, mut stopped: oneshot::Receiver<()>) -> Readings {
    let began = Instant::now();
    let mut readings = Readings::default();
    // The kernel then counts the highest value anew; where it does not, sampling has to do.
    let _ = fs::write(format!("/proc/{process}/clear_refs"), "5");
    let mut next = Duration::ZERO;
    loop {
        let seconds = began.elapsed();
        if let Ok(sample) = sample(process, seconds) {
            readings.most_resident = readings.most_resident.max(sample.resident);
            readings.most_descriptors = readings.most_descriptors.max(sample.descriptors);
            if seconds >= next {
                next = seconds + SECOND;
                readings.samples.push(sample);
            }
        }
        if tokio::time::timeout(PERIOD, &mut stopped).await.is_ok() {
            let highest = memory(process, "VmHWM:").unwrap_or_default();
            readings.most_resident = readings.most_resident.max(highest);
            return readings;
        }
    }
}

/// What a process holds now.
pub(crate) fn sample(process: u32, since: Duration) -> io::Result<Sample> {
    Ok(Sample {
        seconds: (since.as_secs_f64() * 10.0).round() / 10.0,
        resident: memory(process, "VmRSS:")?,
        descriptors: fs::read_dir(format!("/proc/{process}/fd"))?.count(),
    })
}

fn memory(process: u32, field: &str) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/status"))?;
    let kib = text.lines().find_map(|line| {
        let rest = line.strip_prefix(field)?;
        rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    });
    Ok(kib.ok_or(io::ErrorKind::InvalidData)? * 1024)
}

const PERIOD: Duration = Duration::from_millis(50);
const SECOND: Duration = Duration::from_millis(990);
