//! Messages to the service manager that has started this daemon, if it listens (`Type=notify` of
//! systemd).

use std::env;
use std::net::SocketAddr;

use sd_notify::NotifyState;

/// Reports that the daemon accepts connections at `listen`.
pub(crate) fn ready(listen: SocketAddr) {
    let status = format!("listening at {listen}");
    tell(&[NotifyState::Ready, NotifyState::Status(&status)]);
}

/// Reports that the daemon is about to end.
pub(crate) fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// Reports that the daemon works. Call every second: the manager restarts a daemon that is silent
/// for longer than the watchdog time.
pub(crate) fn alive() {
    let mut microseconds = 0;
    // By sd_watchdog_enabled(3), the watchdog applies to any process if `WATCHDOG_PID` is not set.
    let is_for_all =
        env::var_os("WATCHDOG_USEC").is_some() && env::var_os("WATCHDOG_PID").is_none();
    if is_for_all || sd_notify::watchdog_enabled(false, &mut microseconds) {
        tell(&[NotifyState::Watchdog]);
    }
}

/// Reports that another process is the service's main process from now on.
pub(crate) fn is_main(process_id: u32) {
    tell(&[NotifyState::MainPid(process_id)]);
}

/// Returns whether a service manager supervises this process.
pub(crate) fn is_managed() -> bool {
    env::var_os("NOTIFY_SOCKET").is_some()
}

fn tell(news: &[NotifyState<'_>]) {
    // `false` keeps the environment. Daemons start no programs that would inherit it.
    if let Err(error) = sd_notify::notify(false, news) {
        tracing::debug!(%error, "can't notify the service manager");
    }
}
