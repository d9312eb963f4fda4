//! A machine with a link on standby.

use std::cell::RefCell;
use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use hawser_skip::namespace::{Neighbour, in_namespace_of_root, ip};
use serde_json::Value;

use super::super::bus::{Bus, Running};
use super::super::connections::{links, serve_echo};
use super::super::program::{Daemon, Place, read, until};

/// Authority over users' permissions.
#[derive(Clone, Copy, PartialEq)]
enum Asking {
    /// Root may do anything, and other users nothing.
    NoAgent,
    /// Polkit, with the rules in the folder `rules`.
    Polkit,
}

/// A machine with the link `dsl`, configured by hand, and `lte`, managed by NetworkManager.
pub(super) struct Stage {
    place: Place,
    bus: Bus,
    asking: Asking,
    polkit: RefCell<Option<Running>>,
    manager: RefCell<Option<Running>>,
    _neighbour: Neighbour,
}

/// Runs `body` if NetworkManager can be run.
pub(super) fn with_stage(name: &str, body: impl FnOnce(&Stage)) {
    in_namespace_of_root(name, || {
        if let Some(stage) = Stage::new(name, Asking::NoAgent) {
            body(&stage);
        }
    });
}

/// Runs `body` if NetworkManager and polkit can be run, for a service that is not root.
pub(super) fn with_service(name: &str, body: impl FnOnce(&Stage)) {
    in_namespace_of_root(name, || {
        let skip = |reason: &str| hawser_skip::skip(&format!("end_to_end::{name}"), reason);
        if !Path::new(POLKIT).exists() {
            return skip("polkit is not installed");
        }
        let Some(stage) = Stage::new(name, Asking::Polkit) else {
            return;
        };
        let mut version = stage.place.hawser("client", &["--version"]);
        version.uid(SERVICE).gid(SERVICE);
        if let Err(error) = version.output() {
            return skip(&format!("can't run as another user: {error}"));
        }
        chown(stage.place.folder("client"), Some(SERVICE), Some(SERVICE)).unwrap();
        body(&stage);
    });
}

impl Stage {
    /// `None`, with a report, if it cannot be set up.
    fn new(name: &str, asking: Asking) -> Option<Self> {
        let version = service("NetworkManager").arg("--version").output();
        if let Err(error) = version {
            let reason = format!("cannot run NetworkManager: {error}");
            hawser_skip::skip(&format!("end_to_end::{name}"), &reason);
            return None;
        }
        let (place, neighbour) = (Place::new(), links(&["dsl"]));
        ip("link add lte type veth peer name far");
        neighbour.take("far");
        neighbour.ip("link set far name lte up");
        neighbour.ip("address add 10.2.0.1/24 dev lte");
        serve_echo(&neighbour);
        let bus = match asking {
            Asking::NoAgent => Bus::start(&place, name)?,
            Asking::Polkit => {
                // Services that are not root come to the bus.
                std::fs::set_permissions(place.path("."), Permissions::from_mode(0o711)).unwrap();
                let mut command = knowing_the_service(&place);
                command.arg("dbus-daemon");
                Bus::start_by(command, &place, name)?
            }
        };
        let stage = Self {
            place,
            bus,
            asking,
            polkit: None.into(),
            manager: None.into(),
            _neighbour: neighbour,
        };
        if asking == Asking::Polkit {
            stage.start_polkit();
        }
        stage.start_manager();
        Some(stage)
    }

    fn start_polkit(&self) {
        let rules = self.place.folder("rules");
        std::fs::set_permissions(&rules, Permissions::from_mode(0o755)).unwrap();
        let mut command = knowing_the_service(&self.place);
        command
            .args(["sh", "-c", PREPARE_POLKIT, POLKIT])
            .arg(rules);
        let output = std::fs::File::create(self.place.path("polkit.log")).unwrap();
        let command = self.bus.lend(&mut command);
        let command = command.stdout(output.try_clone().unwrap()).stderr(output);
        *self.polkit.borrow_mut() = Some(Running(command.spawn().unwrap()));
        let is_there = || {
            let mut command = Command::new("pkcheck");
            let process = std::process::id().to_string();
            command.args(["--action-id", "org.freedesktop.policykit.exec"]);
            let command = command.args(["--process", &process]);
            let output = self.bus.lend(command).output();
            output.is_ok_and(|it| it.status.success())
        };
        until("polkit answers", is_there, || self.log("polkit"));
    }

    pub(super) fn start_manager(&self) {
        let connections = self.place.folder("connections");
        let connection = connections.join("mobile.nmconnection");
        std::fs::write(&connection, CONNECTION).unwrap();
        // It reads no others.
        std::fs::set_permissions(&connection, Permissions::from_mode(0o600)).unwrap();
        let config = self.place.path("manager.conf");
        let content = MANAGER.replace("CONNECTIONS", connections.to_str().unwrap());
        let content = content.replace("ASKED", &(self.asking == Asking::Polkit).to_string());
        std::fs::write(&config, content).unwrap();
        // The machine's own one has its files in the same places.
        let mut command = knowing_the_service(&self.place);
        command.args(["sh", "-c", PREPARE, "sh"]);
        command.arg(config).arg(self.place.folder("none"));
        let command = self.bus.lend(&mut command);
        let output = std::fs::File::create(self.place.path("manager.log")).unwrap();
        let command = command.stdout(output.try_clone().unwrap()).stderr(output);
        *self.manager.borrow_mut() = Some(Running(command.spawn().unwrap()));
        let is_there = || self.ask_nmcli("-t -f DEVICE,STATE device").contains("lte:");
        until("NetworkManager has the link", is_there, || {
            self.log("manager")
        });
    }

    pub(super) fn end_manager(&self) {
        *self.manager.borrow_mut() = None;
    }

    /// Returns the output of a service.
    fn log(&self, service: &str) -> String {
        read(&self.place.path(&format!("{service}.log")))
    }

    pub(super) fn logs(&self, up: &Daemon) -> String {
        format!(
            "{}\n{}\n{}",
            up.log(),
            self.log("manager"),
            self.log("polkit")
        )
    }

    pub(super) fn up(&self) -> Daemon {
        self.up_with(STANDBY, |_| ())
    }

    pub(super) fn up_with(&self, config: &str, as_user: impl FnOnce(&mut Command)) -> Daemon {
        let path = self.place.path("hawser.toml");
        std::fs::write(&path, config).unwrap();
        self.bus.start_daemon(&self.place, &path, as_user)
    }

    pub(super) fn up_as_service(&self) -> Daemon {
        self.up_with(STANDBY, |command| {
            command.uid(SERVICE).gid(SERVICE);
        })
    }

    /// Changes polkit's rules so that the service may connect links.
    pub(super) fn let_the_service_connect(&self) {
        let rules = self.place.path("rules/60-hawser.rules");
        std::fs::copy(RULES, rules).unwrap();
    }

    /// Sends a signal to polkit.
    pub(super) fn signal_polkit(&self, signal: &str) {
        let polkit = self.polkit.borrow();
        let id = polkit.as_ref().unwrap().0.id().to_string();
        let sent = Command::new("kill").args([signal, &id]).status().unwrap();
        assert!(sent.success());
    }

    pub(super) fn doctor(&self) -> String {
        self.bus
            .doctor(&self.place, &self.place.path("hawser.toml"))
    }

    /// Returns the output of a command, whose words are separated by blanks.
    pub(super) fn say(&self, line: &str) -> String {
        let words: Vec<&str> = line.split(' ').collect();
        let ended = self.place.run("client", &words);
        assert_eq!(ended.code, 0, "{line}: {ended:?}");
        ended.out
    }

    pub(super) fn link(&self, name: &str) -> Value {
        let status = self.place.status("client").unwrap();
        let links = status["links"].as_array().unwrap();
        links.iter().find(|it| it["name"] == name).unwrap().clone()
    }

    /// Returns what the daemon does with the link on standby.
    pub(super) fn standby(&self) -> String {
        let state = &self.link("lte")["standby"]["state"];
        state.as_str().unwrap_or_default().to_owned()
    }

    /// Runs a command of the user.
    pub(super) fn nmcli(&self, line: &str) {
        let said = self.ask_nmcli(line);
        assert!(said.contains("successfully"), "{line}: {said}");
    }

    fn ask_nmcli(&self, line: &str) -> String {
        let mut command = Command::new("nmcli");
        let output = self
            .bus
            .lend(command.args(line.split(' ')))
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

/// Returns a command whose arguments are a program, which knows the service's user by name.
fn knowing_the_service(place: &Place) -> Command {
    let users = std::fs::read_to_string("/etc/passwd").unwrap();
    let known = format!("{users}hawser:x:{SERVICE}:{SERVICE}::/:/usr/sbin/nologin\n");
    let file = place.path("users");
    std::fs::write(&file, known).unwrap();
    std::fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    let mut command = service("unshare");
    let prepare = "mount --bind \"$0\" /etc/passwd && exec \"$@\"";
    command.args(["--mount", "--", "sh", "-c", prepare]);
    command.arg(file);
    command
}

/// Finds a program that distributions install only for administrators.
fn service(program: &str) -> Command {
    let mut command = Command::new(program);
    command
        .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
        .stdin(Stdio::null());
    command
}

pub(super) fn has_address(link: &str) -> bool {
    let output = Command::new("ip")
        .args(["-4", "address", "show", link])
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).contains("inet ")
}

const STANDBY: &str = "[[link]]\nname = \"lte\"\nstandby = true\n";
/// The service's user, without rights of its own.
const SERVICE: u32 = 61_234;
const RULES: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../contrib/polkit/60-hawser.rules"
);
const POLKIT: &str = "/usr/lib/polkit-1/polkitd";
/// Hides the machine's own rules from polkit.
const PREPARE_POLKIT: &str = "
mount --bind $1 /etc/polkit-1/rules.d &&
mount -t tmpfs none /usr/share/polkit-1/rules.d &&
exec $0 --no-debug";
/// Without write access to `/sys` NetworkManager waits for no udev.
const PREPARE: &str = "
mount -t sysfs -o ro none /sys &&
mkdir -p /run/NetworkManager /var/lib/NetworkManager &&
mount -t tmpfs none /run/NetworkManager &&
mount -t tmpfs none /var/lib/NetworkManager &&
exec NetworkManager --no-daemon --config=$1 --config-dir=$2";
const MANAGER: &str = "
[main]
plugins=keyfile
auth-polkit=ASKED
dns=none
rc-manager=unmanaged
no-auto-default=*
[keyfile]
path=CONNECTIONS
unmanaged-devices=interface-name:dsl;interface-name:lo
[connectivity]
enabled=false
";
const CONNECTION: &str = "
[connection]
id=Mobile
uuid=6f0f3a3e-0000-4000-8000-000000000001
type=ethernet
interface-name=lte
autoconnect=false
[ipv4]
method=manual
address1=10.2.0.2/24,10.2.0.1
route-metric=200
[ipv6]
method=disabled
";
