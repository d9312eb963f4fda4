//! Messages to the service manager that has started this daemon, where one listens (systemd's
//! `Type=notify`).

use std::env;
use std::net::SocketAddr;

use sd_notify::NotifyState;

/// The daemon takes connections at `listen`.
pub(crate) fn ready(listen: SocketAddr) {
    let status = format!("listening at {listen}");
    tell(&[NotifyState::Ready, NotifyState::Status(&status)]);
}

/// The daemon is about to end.
pub(crate) fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// The daemon does its work. To be called every second: the manager restarts a daemon from which it
/// hears nothing for longer than it was told.
pub(crate) fn alive() {
    let mut microseconds = 0;
    // By sd_watchdog_enabled(3) it is also meant for a process where no number says whom it is for.
    let is_for_all =
        env::var_os("WATCHDOG_USEC").is_some() && env::var_os("WATCHDOG_PID").is_none();
    if is_for_all || sd_notify::watchdog_enabled(false, &mut microseconds) {
        tell(&[NotifyState::Watchdog]);
    }
}

/// Another process is the service from now on.
pub(crate) fn is_main(process_id: u32) {
    tell(&[NotifyState::MainPid(process_id)]);
}

/// Whether a service manager looks after this process.
pub(crate) fn is_managed() -> bool {
    env::var_os("NOTIFY_SOCKET").is_some()
}

fn tell(news: &[NotifyState<'_>]) {
    // `false`: the environment stays as it is. Daemons start no programs that would inherit it.
    if let Err(error) = sd_notify::notify(false, news) {
        tracing::debug!(%error, "the service manager does not hear");
    }
}
