use std::os::fd::OwnedFd;

use aya::programs::Program;
use aya::sys::{Stats, enable_stats};

use crate::{Capture, CaptureError};

/// Counts the runs of the programs until dropped, except the programs that count datagrams.
/// Meanwhile the kernel counts for every program of the host, which costs each run some ten
/// nanoseconds: it is for measurements.
#[derive(Debug)]
pub struct RunCount<'a> {
    capture: &'a Capture,
    before: u64,
    /// The kernel counts while this descriptor is open.
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
        let programs = self.programs.programs();
        // The excluded programs run for every packet, and return at once except for datagrams.
        let programs = programs.filter(|(_, it)| !matches!(it, Program::CgroupSkb(_)));
        let counts = programs.map(|(name, program)| {
            let info = program.info();
            info.map(|info| info.run_count()).map_err(|error| {
                CaptureError::Refused(format!("can't read the run count of {name}: {error}"))
            })
        });
        counts.sum()
    }
}

impl RunCount<'_> {
    /// Returns the runs of all programs since the count began, without those that count datagrams.
    pub fn so_far(&self) -> Result<u64, CaptureError> {
        Ok(self.capture.runs()?.saturating_sub(self.before))
    }
}
