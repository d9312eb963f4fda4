//! The share of processors that the hostile peer takes.

use rustix::process::setpriority_process;

/// Gives the calling thread the lowest priority, and with it all threads and processes that it
/// starts from now on.
///
/// The hostile peer runs beside the program and its honest client on the same processors, which a
/// peer on another machine would not take from them. With the lowest priority it has what they
/// leave over, so that the honest goodput shows how the gateway divides its own work.
pub(crate) fn yield_to_all() {
    // It only ever lowers, which needs no right; without it the figures are the worse ones.
    let _ = setpriority_process(None, LOWEST);
}

const LOWEST: i32 = 19;

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::getpriority_process;

    #[test]
    fn only_the_calling_thread_yields() {
        let before = getpriority_process(None).unwrap();
        let lowered = std::thread::spawn(|| {
            yield_to_all();
            getpriority_process(None).unwrap()
        });
        assert_eq!(lowered.join().unwrap(), LOWEST);
        assert_eq!(getpriority_process(None).unwrap(), before);
    }
}
