//! Messages to the service manager that has started this daemon, where one listens (systemd's
//! `Type=notify`).

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
    if sd_notify::watchdog_enabled(false, &mut microseconds) {
        tell(&[NotifyState::Watchdog]);
    }
}

fn tell(news: &[NotifyState<'_>]) {
    // `false`: the environment stays as it is. Daemons start no programs that would inherit it.
    if let Err(error) = sd_notify::notify(false, news) {
        tracing::debug!(%error, "the service manager does not hear");
    }
}
