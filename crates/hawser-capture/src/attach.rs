//! Loading of the programs and attaching them to a control group.

use std::fs::{self, File};
use std::path::Path;
use std::thread;

use aya::programs::{
    CgroupAttachMode, CgroupSkb, CgroupSkbAttachType, CgroupSock, CgroupSockAddr, Program, SockOps,
};
use aya::{Ebpf, VerifierLogLevel};

use crate::{CaptureError, group, sys};

/// Loads all programs of the object and attaches each where its section says.
pub(crate) fn attach(programs: &mut Ebpf, group: &File) -> Result<(), CaptureError> {
    load(programs)?;
    let mut loaded: Vec<_> = programs.programs_mut().collect();
    // Ends of connections must be observed before beginnings are.
    loaded.sort_by_key(|(name, _)| name.starts_with("connect"));
    for (name, program) in loaded {
        // BPF links always allow several programs for one group, and `Single` passes no flag for
        // that.
        let mode = CgroupAttachMode::Single;
        if let Ok(program) = <&mut CgroupSockAddr>::try_from(&mut *program) {
            program.attach(group, mode)?;
        } else if let Ok(program) = <&mut SockOps>::try_from(&mut *program) {
            program.attach(group, mode)?;
        } else if let Ok(program) = <&mut CgroupSkb>::try_from(&mut *program) {
            let direction = match name {
                "datagram_sent" => CgroupSkbAttachType::Egress,
                _ => CgroupSkbAttachType::Ingress,
            };
            // The program only counts: connections are placed without it as well.
            if let Err(error) = program.attach(group, direction, mode) {
                tracing::warn!(%error, name, "can't count datagrams of captured programs");
            }
        } else {
            <&mut CgroupSock>::try_from(program)?.attach(group, mode)?;
        }
    }
    Ok(())
}

/// Loads each program in its own thread: the verifier is slow for the `connect` programs, and runs
/// in parallel.
fn load(programs: &mut Ebpf) -> Result<(), CaptureError> {
    thread::scope(|scope| {
        let loading: Vec<_> = programs
            .programs_mut()
            .map(|(_, program)| scope.spawn(|| load_one(program)))
            .collect();
        let outcomes = loading.into_iter().map(|loading| match loading.join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        outcomes.collect()
    })
}

fn load_one(program: &mut Program) -> Result<(), CaptureError> {
    if let Ok(program) = <&mut CgroupSockAddr>::try_from(&mut *program) {
        program.load()?;
    } else if let Ok(program) = <&mut SockOps>::try_from(&mut *program) {
        program.load()?;
    } else if let Ok(program) = <&mut CgroupSkb>::try_from(&mut *program) {
        program.load()?;
    } else {
        <&mut CgroupSock>::try_from(program)?.load()?;
    }
    Ok(())
}

/// Loads programs. If they are refused, loads them again with the verifier's log, which is slow.
/// The verifier gives up if its thread receives a signal; then loading is retried.
pub(crate) fn with_log_if_refused<T>(
    load: impl Fn(VerifierLogLevel) -> Result<T, CaptureError>,
) -> Result<T, CaptureError> {
    let mut words = VerifierLogLevel::DISABLE;
    for _ in 0..MAX_ATTEMPTS {
        match load(words) {
            Err(CaptureError::Refused(_)) if words.is_empty() => {
                words = VerifierLogLevel::default();
            }
            Err(error) if error.is_interrupted() => {}
            outcome => return outcome,
        }
    }
    load(words)
}

/// Opens the folder of a version 2 control group.
pub(crate) fn open_group(path: &Path) -> Result<File, CaptureError> {
    let not_a_group = |_| CaptureError::NotAGroup(path.to_owned());
    if !path.join("cgroup.procs").exists() {
        group::mount_point()?;
        return Err(CaptureError::NotAGroup(path.to_owned()));
    }
    // Version 1 hierarchies have no such file.
    fs::metadata(path.join("cgroup.controllers")).map_err(not_a_group)?;
    File::open(path).map_err(not_a_group)
}

/// Fails early on a kernel that is too old.
pub(crate) fn check_kernel() -> Result<(), CaptureError> {
    let found = sys::kernel_release();
    if release_number(&found).is_some_and(|release| release < OLDEST_KERNEL) {
        Err(CaptureError::KernelTooOld { found })
    } else {
        Ok(())
    }
}

/// Tells whether the kernel attaches programs to interfaces without a queueing discipline.
pub(crate) fn has_tcx() -> bool {
    release_number(&sys::kernel_release()).is_some_and(|release| release >= FIRST_TCX)
}

/// Returns the first two numbers of a kernel's release.
fn release_number(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

const MAX_ATTEMPTS: usize = 6;
/// Network namespace cookies exist since 5.14, the rest is older; distributions have 5.15.
const OLDEST_KERNEL: (u32, u32) = (5, 15);
const FIRST_TCX: (u32, u32) = (6, 6);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_by_their_first_two_numbers() {
        assert_eq!(release_number("6.1.0-25-amd64"), Some((6, 1)));
        assert_eq!(
            release_number("5.15.167.4-microsoft-standard"),
            Some((5, 15))
        );
        assert!(release_number("5.9.16").unwrap() < OLDEST_KERNEL);
        assert_eq!(release_number("unknown"), None);
    }
}
