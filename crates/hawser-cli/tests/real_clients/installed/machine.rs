//! Machines of their own, with systemd as process 1, in namespaces of this one.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::program::{Place, read, until};

/// A machine with Hawser's services; it is gone when dropped.
pub(super) struct Machine {
    starter: Child,
    /// systemd.
    process: u32,
    cgroup: PathBuf,
    log: PathBuf,
    /// Commands typed on it, and their output.
    transcript: RefCell<String>,
    _place: Place,
}

impl Machine {
    /// A copy of this machine, with the services of the sources. `None`, with a report, if this
    /// machine can't start another one in it.
    pub(super) fn boot(test: &str) -> Option<Self> {
        let machine = Self::boot_from(test, Path::new("/"), "")?;
        machine.install();
        Some(machine)
    }

    /// A machine with the files below `root`. `before` is a script that runs before it starts, with
    /// the machine's own root folder as its directory.
    pub(super) fn boot_from(test: &str, root: &Path, before: &str) -> Option<Self> {
        let skip = |why: &str| hawser_skip::skip(&format!("hawser-cli {test}"), why);
        let systemd = root.join("lib/systemd/systemd").is_file();
        if !rustix::process::geteuid().is_root() || !systemd {
            skip("it takes root and systemd");
            return None;
        }
        let place = Place::new();
        let log = place.path("boot.log");
        let files = fs::File::create(&log).unwrap();
        let folder = place.folder("machine");
        let mut starter = Command::new("sh")
            .args(["-c", include_str!("enter.sh"), "enter.sh"])
            .arg(include_str!("boot.sh"))
            .arg(&folder)
            .arg(root)
            .arg(before)
            .stdin(Stdio::null())
            .stdout(files.try_clone().unwrap())
            .stderr(files)
            .spawn()
            .unwrap();
        let found = systemd_of(&mut starter, &log);
        let cgroup = read(&folder.join("cgroup"));
        let cgroup = PathBuf::from(cgroup.trim());
        let Some(process) = found else {
            remove_groups(&cgroup);
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
            cgroup,
            log,
            transcript: RefCell::default(),
            _place: place,
        };
        let state = || machine.quietly("systemctl is-system-running");
        let has_booted = || match state() {
            Ok(state) | Err(state) => ["running\n", "degraded\n"].contains(&state.as_str()),
        };
        until("it has booted", has_booted, || machine.log());
        Some(machine)
    }

    /// Puts the program and its services where the package does.
    fn install(&self) {
        let contrib = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib");
        let copy = |from: &Path, to: &str| self.copy(from, to);
        copy(Path::new(env!("CARGO_BIN_EXE_hawser")), "/usr/bin/hawser");
        for unit in ["hawser-up", "hawser-serve", "hawser-kill-switch"] {
            let from = format!("systemd/{unit}.service");
            let to = format!("/usr/lib/systemd/system/{unit}.service");
            copy(&contrib.join(from), &to);
        }
        let users = contrib.join("debian/sysusers.conf");
        copy(&users, "/usr/lib/sysusers.d/hawser.conf");
    }

    /// Copies a file of this machine to a path in the other one.
    pub(super) fn copy(&self, from: &Path, to: &str) {
        let to = PathBuf::from(format!("/proc/{}/root{to}", self.process));
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(from, to).unwrap();
    }

    /// Returns its first process, by its number on this machine.
    pub(super) fn process(&self) -> u32 {
        self.process
    }

    /// Runs a script as root; returns its output, which is an error if it fails. Both go into the
    /// transcript.
    pub(super) fn try_sh(&self, script: &str) -> Result<String, String> {
        let said = self.quietly(script);
        let (Ok(shown) | Err(shown)) = &said;
        let mut transcript = self.transcript.borrow_mut();
        transcript.push_str(&format!("# {script}\n{shown}"));
        if !transcript.ends_with('\n') {
            transcript.push('\n');
        }
        said
    }

    /// Does the same for commands of a test that a user would not type.
    pub(super) fn quietly(&self, script: &str) -> Result<String, String> {
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

    pub(super) fn says(&self, script: &str) -> String {
        let said = self.try_sh(script);
        said.unwrap_or_else(|said| panic!("{script}\n{said}\n{}", self.log()))
    }

    /// Returns the commands typed on it so far, and their output.
    pub(super) fn transcript(&self) -> String {
        self.transcript.borrow().clone()
    }

    pub(super) fn log(&self) -> String {
        read(&self.log)
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
        remove_groups(&self.cgroup);
    }
}

/// Removes a control group with those below it, in which no process runs any more.
fn remove_groups(group: &Path) {
    for below in fs::read_dir(group).into_iter().flatten().flatten() {
        if below.file_type().is_ok_and(|it| it.is_dir()) {
            remove_groups(&below.path());
        }
    }
    // Its own files go with it. A remaining group does no harm.
    let _ = fs::remove_dir(group);
}

/// Returns the bytes that each link has received, by `hawser status` there.
pub(super) fn carried(machine: &Machine) -> Vec<u64> {
    let status = machine.quietly("hawser status --json").unwrap();
    let status: Value = serde_json::from_str(&status).unwrap();
    let links = status["links"].as_array().unwrap().iter();
    links
        .map(|it| it["traffic"]["received_bytes"].as_u64().unwrap_or_default())
        .collect()
}
