//! A new user's first minutes on a machine with the services installed, under systemd as process 1:
//! nothing is edited by hand.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::program::{Place, until};

#[test]
// long: a transcript.
fn a_machine_is_set_up_by_one_command_and_as_it_was_by_another() {
    let Some(machine) = Machine::boot("installed::a_machine_is_set_up_by_one_command") else {
        return;
    };
    machine.says(include_str!("installed/prepare.sh"));
    let setup = "hawser setup --gateway @/tmp/invite --no-metered --capture proxy --boot yes";
    let said = machine.says(setup);
    assert!(
        said.contains("hawser-up.service runs, and starts by itself"),
        "{said}"
    );
    assert_eq!(machine.says("systemctl is-enabled hawser-up"), "enabled\n");
    // One download over both links, byte for byte.
    let fetch =
        "curl -sS -x socks5h://127.0.0.1:1080 http://203.0.113.1/file | cmp - /tmp/www/file";
    machine.says(fetch);
    let status: Value = serde_json::from_str(&machine.says("hawser status --json")).unwrap();
    let links = status["links"].as_array().unwrap().iter();
    let carried: Vec<_> = links
        .map(|it| it["traffic"]["received_bytes"].as_u64())
        .collect();
    assert_eq!(carried.len(), 2);
    assert!(
        carried.iter().all(|it| *it > Some(2_000_000)),
        "{carried:?}"
    );

    // The service comes back by itself, with what it knew.
    let process = || machine.says("systemctl show -p MainPID --value hawser-up");
    let killed = process();
    machine.says(&format!("kill -9 {killed}"));
    until(
        "the service runs again",
        || {
            let runs = machine.try_sh("systemctl is-active hawser-up && hawser status >/dev/null");
            runs.is_ok() && process() != killed
        },
        || machine.says("journalctl -u hawser-up --no-pager"),
    );
    machine.says(fetch);

    // The daemon answers its group and nobody else.
    let as_user = |groups: &str, command: &str| {
        let user = format!("setpriv --reuid 65534 --regid 65534 {groups} env HOME=/tmp");
        machine.try_sh(&format!("{user} {command}"))
    };
    let refused = as_user("--clear-groups", "hawser links").unwrap_err();
    assert!(refused.contains("usermod -aG hawser"), "{refused}");
    let group = machine.says("getent group hawser | cut -d: -f3");
    let links = as_user(&format!("--groups {}", group.trim()), "hawser links").unwrap();
    assert!(
        links.contains("link1") && links.contains("link2"),
        "{links}"
    );

    // It ends in order, and everything is as before.
    machine.says("systemctl stop hawser-up");
    let result = machine.says("systemctl show -p Result --value hawser-up");
    assert_eq!(result, "success\n");
    machine.says("hawser setup --undo");
    let enabled = machine
        .try_sh("systemctl is-enabled hawser-up")
        .unwrap_err();
    assert_eq!(enabled, "disabled\n");
    let files = machine.says("find /etc/hawser /etc/systemd/system -name '*hawser*.*'");
    assert_eq!(files, "");
    let unknown = machine.says("hawser setup --no-gateway --no-metered --capture proxy --boot no");
    assert!(unknown.contains("nothing was started"), "{unknown}");
    assert_eq!(
        machine.says("hawser setup --undo"),
        "there is nothing to take back\n"
    );
}

#[test]
fn settings_are_taken_back_where_nobody_has_changed_them_since() {
    let Some(machine) = Machine::boot("installed::settings_are_taken_back") else {
        return;
    };
    machine.says(include_str!("installed/prepare.sh"));
    machine
        .says("printf '# Mine.\\n[up]\\nlisten = \"127.0.0.1:1088\"\\n' >/etc/hawser/hawser.toml");
    let metered = "hawser setup --no-gateway --metered link2 --capture proxy --boot yes";
    machine.says(metered);
    let links = machine.says("hawser links");
    assert!(
        links
            .lines()
            .any(|it| it.starts_with("link2") && it.contains("backup")),
        "{links}"
    );
    machine.says("hawser setup --undo config");
    let text = machine.says("cat /etc/hawser/hawser.toml");
    assert_eq!(text, "# Mine.\n[up]\nlisten = \"127.0.0.1:1088\"\n");
    machine.says(metered);
    machine.says("echo '# Mine, too.' >>/etc/hawser/hawser.toml");
    let said = machine.says("hawser setup --undo");
    assert!(
        said.contains("was changed since, and stays as it is"),
        "{said}"
    );
    assert!(
        machine
            .says("cat /etc/hawser/hawser.toml")
            .ends_with("# Mine, too.\n")
    );

    // What keeps a service from starting is said.
    machine.says("systemctl stop hawser-up; hawser up --direct >/dev/null 2>&1 &");
    until(
        "another daemon runs",
        || machine.try_sh("hawser status").is_ok(),
        || machine.log(),
    );
    let refused = machine.try_sh("hawser setup --no-gateway --yes");
    let refused = refused.unwrap_err();
    assert!(
        refused.contains("hawser is already running in"),
        "{refused}"
    );
    machine.says("pkill -f '[h]awser up --direct'");
    until(
        "it has ended",
        || machine.try_sh("hawser status").is_err(),
        || machine.log(),
    );
    machine.says("hawser setup --undo");

    // A gateway is one command as well, and each invite another.
    machine.says("hawser setup --serve --advertise gw.example --boot yes");
    let invite = machine.says("hawser invite");
    assert!(invite.starts_with("hawser://gw.example:7443/#"), "{invite}");
    let unasked = machine
        .try_sh("hawser setup --serve --boot yes </dev/null")
        .unwrap_err();
    assert!(unasked.contains("say --advertise"), "{unasked}");
}

/// A machine with Hawser's services; it is gone when dropped.
struct Machine {
    starter: Child,
    /// systemd.
    process: u32,
    log: PathBuf,
    _place: Place,
}

impl Machine {
    /// `None`, with a report, where this machine can't start another one in it.
    fn boot(test: &str) -> Option<Self> {
        let skip = |why: &str| hawser_skip::skip(&format!("hawser-cli {test}"), why);
        let systemd = Path::new("/lib/systemd/systemd").is_file();
        if !rustix::process::geteuid().is_root() || !systemd {
            skip("it takes root and systemd");
            return None;
        }
        let place = Place::new();
        let log = place.path("boot.log");
        let files = fs::File::create(&log).unwrap();
        let mut starter = Command::new("unshare")
            .args([
                "--fork", "--pid", "--mount", "--uts", "--ipc", "--cgroup", "--net",
            ])
            .args([
                "--kill-child",
                "sh",
                "-c",
                include_str!("installed/boot.sh"),
                "boot.sh",
            ])
            .arg(place.folder("machine"))
            .stdin(Stdio::null())
            .stdout(files.try_clone().unwrap())
            .stderr(files)
            .spawn()
            .unwrap();
        let Some(process) = systemd_of(&mut starter, &log) else {
            let said = fs::read_to_string(&log).unwrap_or_default();
            skip(&format!(
                "no machine can be started in this one: {}",
                said.trim()
            ));
            return None;
        };
        let machine = Self {
            process,
            starter,
            log,
            _place: place,
        };
        let state = || machine.try_sh("systemctl is-system-running");
        let has_booted = || match state() {
            Ok(state) | Err(state) => ["running\n", "degraded\n"].contains(&state.as_str()),
        };
        until("it has booted", has_booted, || machine.log());
        machine.install();
        Some(machine)
    }

    /// Puts the program and its services where the package does.
    fn install(&self) {
        let contrib = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib");
        let root = PathBuf::from(format!("/proc/{}/root", self.process));
        let copy = |from: &Path, to: &str| {
            let to = root.join(to);
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(from, to).unwrap();
        };
        copy(Path::new(env!("CARGO_BIN_EXE_hawser")), "usr/bin/hawser");
        for unit in ["hawser-up.service", "hawser-serve.service"] {
            let to = format!("usr/lib/systemd/system/{unit}");
            copy(&contrib.join("systemd").join(unit), &to);
        }
        let users = contrib.join("debian/sysusers.conf");
        copy(&users, "usr/lib/sysusers.d/hawser.conf");
    }

    /// Runs a script as root; returns what it says, which is an error where it fails.
    fn try_sh(&self, script: &str) -> Result<String, String> {
        let output = Command::new("nsenter")
            .args(["-a", "-t", &self.process.to_string(), "env", "-i"])
            .arg("PATH=/usr/sbin:/usr/bin:/sbin:/bin")
            .args(["sh", "-c", script])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let mut said = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            return Ok(said);
        }
        said.push_str(&String::from_utf8_lossy(&output.stderr));
        Err(said)
    }

    fn says(&self, script: &str) -> String {
        let said = self.try_sh(script);
        said.unwrap_or_else(|said| panic!("{script}\n{said}\n{}", self.log()))
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

/// Waits for process 1 of the machine; `None` if it has ended instead.
fn systemd_of(starter: &mut Child, log: &Path) -> Option<u32> {
    let children = format!("/proc/{0}/task/{0}/children", starter.id());
    let child = || {
        fs::read_to_string(&children)
            .ok()?
            .trim()
            .parse::<u32>()
            .ok()
    };
    let name = |process| fs::read_to_string(format!("/proc/{process}/comm"));
    let is_systemd = |process: &u32| name(*process).is_ok_and(|name| name == "systemd\n");
    let mut found = None;
    until(
        "systemd runs",
        || {
            found = child().filter(is_systemd);
            found.is_some() || starter.try_wait().unwrap().is_some()
        },
        || fs::read_to_string(log).unwrap_or_default(),
    );
    found
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Everything in it goes with its first process.
        if let Some(process) = i32::try_from(self.process)
            .ok()
            .and_then(rustix::process::Pid::from_raw)
        {
            let _ = rustix::process::kill_process(process, rustix::process::Signal::KILL);
        }
        let _ = self.starter.wait();
    }
}
