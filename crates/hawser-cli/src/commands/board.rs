//! Progress of transfers: bars on a terminal, a line for each file elsewhere.

use std::io::{IsTerminal as _, stderr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hawser_file::{EntryPath, Phase, Progress, Update};
use hawser_types::{ByteCount, Rate};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use hawser_daemon::setup::show;

/// Display of the transfers.
#[derive(Clone)]
pub(crate) struct Board {
    bars: Option<MultiProgress>,
}

impl Board {
    /// Creates a display, with bars if standard error is a terminal.
    pub(crate) fn new() -> Self {
        let bars = stderr().is_terminal().then(|| {
            // Few redraws a second: the bars must not slow the transfers on a slow terminal.
            MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(BAR_HZ))
        });
        Self { bars }
    }

    /// Adds a bar for one file; dropping it removes the bar.
    pub(crate) fn place(&self) -> FileBar {
        FileBar { bar: self.bar() }
    }

    /// Adds a bar for a directory with this many files of this total size.
    pub(crate) fn tree(&self, name: String, files: usize, size: ByteCount) -> TreeBar {
        let bar = self.bar();
        bar.set_length(size.as_u64());
        let tree = TreeBar {
            bar,
            name,
            files,
            finished: AtomicU64::new(0),
        };
        tree.show();
        tree
    }

    fn bar(&self) -> ProgressBar {
        match &self.bars {
            Some(bars) => bars.add(ProgressBar::new(0).with_style(style(TEMPLATE))),
            None => ProgressBar::hidden(),
        }
    }

    /// Prints a line on standard output, above the bars.
    pub(crate) fn say(&self, line: &str) -> anyhow::Result<()> {
        let line = format!("{}\n", printable(line));
        match &self.bars {
            Some(bars) => bars.suspend(|| show(&line)),
            None => show(&line),
        }
    }

    /// Prints a line on standard error, above the bars.
    pub(crate) fn complain(&self, line: &str) {
        let complain = || eprintln!("hawser: {}", printable(line));
        match &self.bars {
            Some(bars) => bars.suspend(complain),
            None => complain(),
        }
    }
}

/// Display of one file's transfer.
pub(crate) trait Place: Progress {
    /// Shows what the transfer is waiting for.
    fn note(&self, text: &str);

    /// Returns the bytes of the file that are done.
    fn done(&self) -> u64;
}

/// The bar of one file.
pub(crate) struct FileBar {
    bar: ProgressBar,
}

impl Place for FileBar {
    fn note(&self, text: &str) {
        self.bar.set_prefix(printable(text));
    }

    fn done(&self) -> u64 {
        self.bar.position()
    }
}

impl Progress for FileBar {
    fn begin(&self, path: &EntryPath, total: Option<ByteCount>) {
        self.bar.set_message(printable(&path.to_string()));
        match total {
            Some(total) => self.bar.set_length(total.as_u64()),
            None => self.bar.set_style(style(ENDLESS_TEMPLATE)),
        }
    }

    fn update(&self, update: Update) {
        let phase = match update.phase {
            Phase::Transferring => String::new(),
            other => other.to_string(),
        };
        let resumed = self.bar.position() == 0 && update.done > ByteCount::ZERO;
        self.bar.set_prefix(phase);
        if matches!(update.phase, Phase::Transferring | Phase::Finished) {
            self.bar.set_position(update.done.as_u64());
            if resumed {
                // Data from an earlier transfer must not count in the rate.
                self.bar.reset_eta();
            }
        }
    }
}

impl Drop for FileBar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// The one bar of a whole directory.
pub(crate) struct TreeBar {
    bar: ProgressBar,
    name: String,
    files: usize,
    finished: AtomicU64,
}

impl TreeBar {
    /// Returns the display of one entry of the directory.
    pub(crate) fn place(&self) -> EntryBar<'_> {
        let done = AtomicU64::new(0);
        EntryBar { tree: self, done }
    }

    /// Counts a finished file.
    pub(crate) fn count(&self) {
        self.finished.fetch_add(1, Ordering::Relaxed);
        self.show();
    }

    fn show(&self) {
        let (finished, files) = (self.finished.load(Ordering::Relaxed), self.files);
        let text = format!("{}: {finished} of {files} files", self.name);
        self.bar.set_message(printable(&text));
    }
}

impl Drop for TreeBar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// The part that one file has in the bar of its directory.
pub(crate) struct EntryBar<'a> {
    tree: &'a TreeBar,
    done: AtomicU64,
}

impl Place for EntryBar<'_> {
    fn note(&self, text: &str) {
        self.tree.bar.set_prefix(printable(text));
    }

    fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }
}

impl Progress for EntryBar<'_> {
    fn update(&self, update: Update) {
        if !matches!(update.phase, Phase::Transferring | Phase::Finished) {
            return;
        }
        let now = update.done.as_u64();
        let before = self.done.swap(now, Ordering::Relaxed);
        let bar = &self.tree.bar;
        bar.set_prefix("");
        match now.checked_sub(before) {
            Some(more) => bar.inc(more),
            // Bytes that arrived damaged are sent again.
            None => bar.dec(before - now),
        }
    }
}

/// Formats an amount with its time and rate: `12.00 MB in 1.2 s, 80.0 Mbit/s`.
pub(crate) fn amount(bytes: ByteCount, time: Duration) -> String {
    let rate = Rate::over(bytes, time.max(Duration::from_millis(1)));
    format!("{bytes} in {:.1} s, {rate}", time.as_secs_f64())
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("=> ")
}

/// Replaces control characters: file names come from other hosts and must not control the terminal.
fn printable(text: &str) -> String {
    text.replace(char::is_control, "?")
}

const TEMPLATE: &str =
    "{wide_msg} [{bar:20}] {decimal_bytes:>9} {decimal_bytes_per_sec:>12} {eta:>4} {prefix}";
/// Template for a transfer of unknown size.
const ENDLESS_TEMPLATE: &str =
    "{wide_msg} {decimal_bytes:>9} {decimal_bytes_per_sec:>12} {elapsed:>4} {prefix}";
const BAR_HZ: u8 = 4;
