use std::os::fd::OwnedFd;

use aya::programs::ProgramError;
use aya::sys::{Stats, enable_stats};

use crate::{Capture, CaptureError};

/// Counter of the programs' runs, while it exists. The kernel then counts for every program of the
/// host, at some ten nanoseconds a run: use it for measurements only.
#[derive(Debug)]
pub struct RunCount<'a> {
    capture: &'a Capture,
    before: u64,
    /// The kernel counts while this is open.
    _counting: OwnedFd,
}

impl Capture {
    /// Starts to count the programs' runs. Needs CAP_SYS_ADMIN.
    pub fn count_runs(&self) -> Result<RunCount<'_>, CaptureError> {
        let counting = enable_stats(Stats::RunTime)
            .map_err(|error| CaptureError::system("counting of runs")(error.io_error))?;
        Ok(RunCount {
            capture: self,
            before: self.runs()?,
            _counting: counting,
        })
    }

    fn runs(&self) -> Result<u64, CaptureError> {
        let counts = self.programs.programs().map(|(name, program)| {
            let info = program.info();
            info.map(|info| info.run_count())
                .map_err(|error| refused(name, &error))
        });
        counts.sum()
    }
}

impl RunCount<'_> {
    /// Returns the total number of runs since then.
    pub fn so_far(&self) -> Result<u64, CaptureError> {
        Ok(self.capture.runs()?.saturating_sub(self.before))
    }
}

fn refused(name: &str, error: &ProgramError) -> CaptureError {
    CaptureError::Refused(format!("no facts of {name}: {error}"))
}
