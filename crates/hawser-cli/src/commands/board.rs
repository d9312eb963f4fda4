//! Progress of transfers: bars on a terminal, a line for each file elsewhere.

use std::io::{IsTerminal as _, stderr};
use std::time::Duration;

use hawser_file::{FileName, Phase, Progress, Update};
use hawser_types::{ByteCount, Rate};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::setup::show;

/// Display of the transfers.
#[derive(Clone)]
pub(crate) struct Board {
    bars: Option<MultiProgress>,
}

impl Board {
    /// Bars if standard error is a terminal.
    pub(crate) fn new() -> Self {
        let bars = stderr().is_terminal().then(|| {
            // Twice a second: over a slow terminal the bars must not slow the files.
            MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(BAR_HZ))
        });
        Self { bars }
    }

    /// A place for one file, which goes when it is dropped.
    pub(crate) fn place(&self) -> FileBar {
        let bar = match &self.bars {
            Some(bars) => bars.add(ProgressBar::new(0).with_style(style())),
            None => ProgressBar::hidden(),
        };
        FileBar { bar }
    }

    /// A line on standard output, above the bars.
    pub(crate) fn say(&self, line: &str) -> anyhow::Result<()> {
        let line = format!("{}\n", printable(line));
        match &self.bars {
            Some(bars) => bars.suspend(|| show(&line)),
            None => show(&line),
        }
    }

    /// A line on standard error, above the bars.
    pub(crate) fn complain(&self, line: &str) {
        let complain = || eprintln!("hawser: {}", printable(line));
        match &self.bars {
            Some(bars) => bars.suspend(complain),
            None => complain(),
        }
    }
}

/// The bar of one file.
pub(crate) struct FileBar {
    bar: ProgressBar,
}

impl FileBar {
    /// Says what is waited for.
    pub(crate) fn note(&self, text: &str) {
        self.bar.set_prefix(printable(text));
    }

    /// Returns the bytes of the file that are done.
    pub(crate) fn done(&self) -> u64 {
        self.bar.position()
    }
}

impl Progress for FileBar {
    fn begin(&self, name: &FileName, total: ByteCount) {
        self.bar.set_message(printable(name.as_str()));
        self.bar.set_length(total.as_u64());
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
                // What was there before says nothing about the rate.
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

/// A count and how fast it went: `12.00 MB in 1.2 s, 80.0 Mbit/s`.
pub(crate) fn amount(bytes: ByteCount, time: Duration) -> String {
    let rate = Rate::over(bytes, time.max(Duration::from_millis(1)));
    format!("{bytes} in {:.1} s, {rate}", time.as_secs_f64())
}

fn style() -> ProgressStyle {
    ProgressStyle::with_template(TEMPLATE)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("=> ")
}

/// Names come from others: a terminal must not take them for commands.
fn printable(text: &str) -> String {
    text.replace(char::is_control, "?")
}

const TEMPLATE: &str =
    "{wide_msg} [{bar:20}] {decimal_bytes:>9} {decimal_bytes_per_sec:>12} {eta:>4} {prefix}";
const BAR_HZ: u8 = 4;
