//! A system bus of a test's own, run by the distribution's `dbus-daemon`.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::program::{Daemon, Place, until};

/// A message bus, which ends when this is dropped.
pub(crate) struct Bus {
    _daemon: Running,
    address: String,
}

/// A program that is killed when this is dropped.
pub(crate) struct Running(pub(crate) Child);

impl Bus {
    /// Starts one; `None`, with a report, without `dbus-daemon`.
    pub(crate) fn start(place: &Place, test: &str) -> Option<Self> {
        Self::start_by(Command::new("dbus-daemon"), place, test)
    }

    /// Starts one by a command that ends in `dbus-daemon`.
    pub(crate) fn start_by(mut command: Command, place: &Place, test: &str) -> Option<Self> {
        let (config, socket) = (place.path("bus.conf"), place.path("bus"));
        let content = CONFIG.replace("SOCKET", socket.to_str().unwrap());
        std::fs::write(&config, content).unwrap();
        command
            .args(["--nofork", "--print-address"])
            .stdout(Stdio::piped());
        command.arg(format!("--config-file={}", config.display()));
        let mut daemon = match command.spawn() {
            Ok(daemon) => daemon,
            Err(error) => {
                let reason = format!("cannot run dbus-daemon: {error}");
                hawser_skip::skip(&format!("end_to_end::{test}"), &reason);
                return None;
            }
        };
        // It says where it listens once it does.
        let mut address = String::new();
        let mut output = BufReader::new(daemon.stdout.take().unwrap());
        output.read_line(&mut address).unwrap();
        Some(Self {
            _daemon: Running(daemon),
            address: address.trim_end().to_owned(),
        })
    }

    /// Returns the address of the bus.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Makes a command use this as the system's bus.
    pub(crate) fn lend<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("DBUS_SYSTEM_BUS_ADDRESS", &self.address)
    }

    /// Starts a daemon with this configuration that uses this as the system's bus; `as_user` runs
    /// it as another user.
    pub(crate) fn start_daemon(
        &self,
        place: &Place,
        config: &Path,
        as_user: impl FnOnce(&mut Command),
    ) -> Daemon {
        let config = config.to_str().unwrap();
        let arguments = ["--config", config, "up", "--listen", "127.0.0.1:0"];
        let mut command = place.hawser("client", &arguments);
        as_user(self.lend(&mut command));
        let up = place.launch_command("client", command);
        until(
            "the daemon listens",
            || up.listen(place).is_some(),
            || up.log(),
        );
        up
    }

    /// Returns the output of `hawser doctor` with this configuration.
    pub(crate) fn doctor(&self, place: &Place, config: &Path) -> String {
        let arguments = ["--config", config.to_str().unwrap(), "doctor"];
        let mut command = place.hawser("client", &arguments);
        let output = self.lend(&mut command).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const CONFIG: &str = r#"<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <listen>unix:path=SOCKET</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow user="*"/>
    <allow send_destination="*" eavesdrop="true"/>
    <allow eavesdrop="true"/>
    <allow own="*"/>
  </policy>
</busconfig>
"#;
