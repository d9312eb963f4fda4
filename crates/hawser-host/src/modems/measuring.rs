//! Makes ModemManager measure signals for as long as this program runs.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use tokio::time::Instant;

use crate::bus::{Interfaces, Service, property};
use crate::guard::Guard;
use crate::measured::{Measured, SIGNAL, set_up};

/// Asks ModemManager to measure the signals of modems. A guard ends the measurements when this
/// program ends, however it ends.
#[derive(Debug, Default)]
pub struct Measuring {
    /// Intervals of measurement, by the names of links.
    wanted: BTreeMap<String, Duration>,
    guard: Option<Guard>,
    measured: Measured,
    /// Modems that could not be made to measure, and why.
    refused: BTreeMap<String, Refusal>,
}

#[derive(Debug)]
struct Refusal {
    reason: String,
    /// Time of the next attempt.
    until: Instant,
}

impl Measuring {
    /// Measures signals of the links in `wanted` at these intervals; `guard` ends the
    /// measurements.
    pub fn new(wanted: BTreeMap<String, Duration>, guard: Guard) -> Self {
        Self {
            wanted,
            guard: Some(guard),
            ..Self::default()
        }
    }

    /// Asks for the wanted measurement of a modem, unless another program has already set an
    /// interval.
    pub(super) async fn ask<'a>(
        &mut self,
        service: &Service,
        path: &str,
        modem: &Interfaces,
        mut links: impl Iterator<Item = &'a String>,
    ) {
        let Some(every) = links.find_map(|link| self.wanted.get(link)) else {
            return;
        };
        let rate = modem.get(SIGNAL).and_then(|it| property(it, "Rate"));
        let is_off = rate == Some(0_u32);
        let refusal = self.refused.get(path);
        let is_refused = refusal.is_some_and(|it| Instant::now() < it.until);
        if !is_off || is_refused {
            return;
        }
        let seconds = u32::try_from(every.as_secs()).unwrap_or(u32::MAX).max(1);
        self.measured.insert(service, path, seconds);
        // The guard must know of the measurement before it begins.
        if let Err(error) = self.tell_guard() {
            return self.refuse(path, format!("cannot tell the guard: {error}"));
        }
        match set_up(service, path, seconds).await {
            Ok(()) => drop(self.refused.remove(path)),
            Err(error) => {
                // Without an answer the call may have taken effect.
                if error.is_of_one_question() {
                    self.measured.remove(path);
                    let _ = self.tell_guard();
                }
                self.refuse(path, error.to_string());
            }
        }
    }

    fn tell_guard(&mut self) -> io::Result<()> {
        let guard = self.guard.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        guard.end_measuring(&self.measured)
    }

    fn refuse(&mut self, path: &str, reason: String) {
        tracing::warn!(modem = path, reason, "cannot measure the signal");
        let until = Instant::now() + ASK_AGAIN;
        let refusal = Refusal { reason, until };
        self.refused.insert(path.to_owned(), refusal);
    }

    /// Returns why a modem does not measure although the user wants it.
    pub(super) fn refusal(&self, path: &str) -> Option<&str> {
        self.refused.get(path).map(|it| it.reason.as_str())
    }

    /// Forgets modems that are gone.
    pub(super) fn keep(&mut self, is_there: impl Fn(&str) -> bool) {
        self.measured.keep(&is_there);
        self.refused.retain(|path, _| is_there(path));
    }

    /// Ends the measurements, by ending the guard.
    pub(super) async fn end(self) {
        // The guard has little to do, so this waits for it.
        let _ = tokio::task::spawn_blocking(move || drop(self.guard)).await;
    }
}

/// Delay after a refusal: the user may have removed its cause.
const ASK_AGAIN: Duration = Duration::from_secs(60);
