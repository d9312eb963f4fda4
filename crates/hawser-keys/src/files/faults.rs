//! Steps of writing a file that tests can make fail.

#[cfg(not(test))]
use std::io;

/// A step of writing a file: the system may refuse it, and a power cut may follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Create,
    Write,
    Sync,
    Rename,
    SyncDirectory,
}

/// Fails where a test wants it; outside of tests every step is allowed.
#[cfg(not(test))]
pub(super) fn allowed(_: Step) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
pub(super) use injected::allowed;
#[cfg(test)]
pub(crate) use injected::at_every_step;

#[cfg(test)]
mod injected {
    use std::cell::RefCell;
    use std::io;

    use super::Step;

    thread_local! {
        static PLAN: RefCell<Option<Plan>> = const { RefCell::new(None) };
    }

    /// The steps that fail on this thread.
    struct Plan {
        /// Steps that still pass before one fails.
        left: usize,
        /// Whether every later step fails too, as in a process that has ended.
        stops: bool,
        failed: Option<Step>,
    }

    /// Calls `check` once for each step of `write`, with the step and the result of `write` when
    /// that step failed: alone, and with all later steps. `prepare` makes the input of both.
    pub(crate) fn at_every_step<W, R>(
        prepare: impl Fn() -> W,
        write: impl Fn(&W) -> R,
        check: impl Fn(&W, Step, R),
    ) {
        for stops in [false, true] {
            let mut steps = 0;
            loop {
                let world = prepare();
                PLAN.set(Some(Plan {
                    left: steps,
                    stops,
                    failed: None,
                }));
                let outcome = write(&world);
                let failed = PLAN.take().and_then(|plan| plan.failed);
                let Some(step) = failed else {
                    break;
                };
                check(&world, step, outcome);
                steps += 1;
            }
            assert!(steps >= 5, "only {steps} steps of writing can fail");
        }
    }

    pub(in crate::files) fn allowed(step: Step) -> io::Result<()> {
        PLAN.with_borrow_mut(|plan| {
            let Some(plan) = plan else {
                return Ok(());
            };
            let fails = plan.left == 0 && (plan.failed.is_none() || plan.stops);
            plan.left = plan.left.saturating_sub(1);
            if !fails {
                return Ok(());
            }
            plan.failed.get_or_insert(step);
            Err(io::Error::from(io::ErrorKind::StorageFull))
        })
    }
}
