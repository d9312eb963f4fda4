//! Every daemon with every file of the state directory damaged, with a field of a later version, of
//! a later format, empty, or unreadable; on a full disk; and with a wrong clock.

use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::process::Command;

use hawser_keys::store::{ASIDE, StateFile, WhenDamaged};
use hawser_skip::ClosedPort;

use super::program::{Daemon, Ended, Place, until};

/// Fault of a file.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Damaged,
    Empty,
    /// A directory in its place.
    Unreadable,
    LaterField,
    LaterFormat,
}

/// The daemons, each with the files that only the user may give up.
const DAEMONS: [(&str, &[StateFile]); 7] = [
    (
        "serve",
        &[StateFile::Key, StateFile::Gateway, StateFile::WebToken],
    ),
    ("directory", &[StateFile::DirectoryKey]),
    ("front", &[]),
    (
        "up",
        &[StateFile::Client, StateFile::Names, StateFile::Rules],
    ),
    ("name", &[StateFile::Key, StateFile::Names]),
    ("discover", &[StateFile::ServersSecret]),
    ("vouched", &[]),
];

/// All daemons' files are created in one directory; each case has a copy of it.
struct Stage {
    place: Place,
    port: ClosedPort,
}

impl Stage {
    fn new() -> Self {
        let place = Place::new();
        for (name, text) in [("users", "alice:a secret\n"), ("password", "a secret\n")] {
            let mut options = fs::OpenOptions::new();
            options.write(true).create(true).mode(0o600);
            let mut file = options.open(place.path(name)).unwrap();
            std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
        }
        let port = ClosedPort::new();
        Self { place, port }
    }

    /// Creates the stage with a directory that all daemons have run in.
    fn lived_in() -> Self {
        let stage = Self::new();
        for (daemon, _) in DAEMONS {
            stage.start(daemon, "good").end();
        }
        let good = stage.place.path("good");
        fs::write(good.join("client.json"), r#"{"version":1,"gateways":[]}"#).unwrap();
        fs::write(good.join("servers.json"), r#"{"version":1,"servers":[]}"#).unwrap();
        fs::write(good.join("vouchers.json"), r#"{"version":1,"vouchers":{}}"#).unwrap();
        fs::write(good.join("names.json"), r#"{"version":1,"names":[]}"#).unwrap();
        fs::write(good.join("rules.toml"), "").unwrap();
        stage
    }

    fn arguments(&self, daemon: &str) -> Vec<String> {
        let at = |name: &str| self.place.path(name).display().to_string();
        let port = self.port.address().port();
        let text = match daemon {
            "serve" => "serve --listen 127.0.0.1:0 --web 127.0.0.1:0".to_owned(),
            "directory" => format!(
                "serve --listen 127.0.0.1:0 --directory example.org --directory-listen \
                 127.0.0.1:0 --directory-users {}",
                at("users")
            ),
            "front" => format!(
                "serve --listen 127.0.0.1:0 --front {port}:proxy={port} --front-listen 127.0.0.1:0"
            ),
            "up" => "up --listen 127.0.0.1:0 --link lo --web 127.0.0.1:0".to_owned(),
            "name" => format!(
                "up --listen 127.0.0.1:0 --name alice@example.org --directory sip:127.0.0.1:9 \
                 --directory-password-file {}",
                at("password")
            ),
            "discover" => "up --listen 127.0.0.1:0 --discover".to_owned(),
            "vouched" => "up --listen 127.0.0.1:0 --vouched example.org".to_owned(),
            other => panic!("{other}"),
        };
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn launch(&self, daemon: &str, state: &str) -> Daemon {
        let arguments = self.arguments(daemon);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        self.place.launch(state, &arguments)
    }

    /// Starts a daemon, which must come up.
    fn start(&self, daemon: &str, state: &str) -> Daemon {
        let mut started = self.launch(daemon, state);
        let mut code = None;
        let is_ready = || {
            code = started.ended();
            code.is_some() || started.listen(&self.place).is_some()
        };
        until(daemon, is_ready, String::new);
        assert_eq!(code, None, "{daemon}: {}", started.log());
        started
    }

    /// A copy of the directory that all daemons have run in.
    fn copy(&self, state: &str) {
        let to = self.place.path(state);
        let _ = fs::remove_dir_all(&to);
        let from = self.place.path("good");
        let copied = Command::new("cp").arg("-a").args([&from, &to]).status();
        assert!(copied.unwrap().success());
    }
}

/// Applies the fault to the file; false if that is impossible for such a file.
fn spoil(path: &Path, fault: Fault) -> bool {
    let good = fs::read(path).unwrap();
    let text = String::from_utf8_lossy(&good).into_owned();
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    let is_json = name.ends_with(".json");
    match fault {
        Fault::Damaged if name == "rules.toml" => fs::write(path, "[[rule").unwrap(),
        Fault::Damaged if is_json => fs::write(path, &good[..good.len() / 2]).unwrap(),
        Fault::Damaged => fs::write(path, "nonsense ".repeat(1000)).unwrap(),
        // An empty database is a new one, and without rules there are none.
        Fault::Empty if name.ends_with(".db") || name == "rules.toml" => return false,
        Fault::Empty => fs::write(path, "").unwrap(),
        Fault::Unreadable => {
            fs::remove_file(path).unwrap();
            fs::DirBuilder::new().mode(0o700).create(path).unwrap();
        }
        Fault::LaterField if is_json => {
            fs::write(path, text.replacen('{', r#"{"later": [1],"#, 1)).unwrap();
        }
        Fault::LaterFormat if is_json => {
            let (before, after) = text.split_once("\"version\"").unwrap();
            let rest = after.split_once('1').unwrap().1;
            fs::write(path, format!("{before}\"version\": 9{rest}")).unwrap();
        }
        Fault::LaterFormat if name == "ledger.db" => {
            let database = rusqlite::Connection::open(path).unwrap();
            database.execute_batch("PRAGMA user_version = 99").unwrap();
        }
        Fault::LaterField | Fault::LaterFormat => return false,
    }
    true
}

const FAULTS: [Fault; 5] = [
    Fault::Damaged,
    Fault::Empty,
    Fault::Unreadable,
    Fault::LaterField,
    Fault::LaterFormat,
];

#[test]
fn daemons_leave_only_files_that_are_listed() {
    let stage = Stage::lived_in();
    for file in fs::read_dir(stage.place.path("good")).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        let base = name.trim_end_matches("-wal").trim_end_matches("-shm");
        let base = base.trim_end_matches(ASIDE);
        let is_listed = StateFile::ALL.iter().any(|file| file.name() == base);
        let is_of_run = name.ends_with(".lock") || name.ends_with(".sock");
        assert!(is_listed || is_of_run, "{name}");
    }
}

#[test]
fn a_file_that_only_the_user_may_give_up_ends_the_daemon_with_one_line_and_stays() {
    let stage = Stage::lived_in();
    for (daemon, files) in DAEMONS {
        for (file, fault) in files
            .iter()
            .flat_map(|file| FAULTS.map(|fault| (file, fault)))
        {
            assert_eq!(file.when_damaged(), WhenDamaged::Refused);
            stage.copy("state");
            let path = stage.place.path("state").join(file.name());
            // One that can't be read has a stand-in for the run.
            let goes_on = *file == StateFile::ServersSecret && fault == Fault::Unreadable;
            if fault == Fault::LaterField || goes_on || !spoil(&path, fault) {
                continue;
            }
            let before = fs::read(&path).ok();
            let mut ended = stage.launch(daemon, "state");
            let code = ended.wait();
            let (what, log) = (format!("{daemon}: {} {fault:?}", file.name()), ended.log());
            // What a user has written wrongly is told apart, so that a service is not restarted.
            let is_usage = *file == StateFile::Rules && fault == Fault::Damaged;
            assert_eq!(code, Some(if is_usage { 2 } else { 1 }), "{what}: {log}");
            let last: Vec<_> = log
                .lines()
                .filter(|it| it.starts_with("hawser: "))
                .collect();
            assert_eq!(last.len(), 1, "{what}: {log}");
            assert!(last[0].contains(file.name()), "{what}: {log}");
            let remedies = [
                "put back a copy",
                "move it away",
                "update hawser",
                "rules.toml",
            ];
            let is_remedied = remedies.iter().any(|remedy| last[0].contains(remedy));
            assert!(is_remedied || fault == Fault::Unreadable, "{what}: {log}");
            assert_eq!(fs::read(&path).ok(), before, "{what}");
        }
    }
}

#[test]
fn daemons_go_on_without_caches_that_can_not_be_used_and_keep_fields_of_later_versions() {
    let stage = Stage::lived_in();
    let caches = StateFile::ALL.into_iter();
    let caches = caches.filter(|file| file.when_damaged() != WhenDamaged::Refused);
    let caches: Vec<StateFile> = caches.collect();
    assert_eq!(caches.len(), 6);
    for fault in FAULTS {
        stage.copy("state");
        let path = |file: StateFile| stage.place.path("state").join(file.name());
        for file in &caches {
            let is_list = *file == StateFile::Addresses;
            if !is_list || !matches!(fault, Fault::LaterField | Fault::LaterFormat) {
                spoil(&path(*file), fault);
            }
        }
        // In these, fields of later versions are kept.
        let kept = [StateFile::Gateway, StateFile::Client, StateFile::Names];
        if fault == Fault::LaterField {
            kept.iter()
                .for_each(|file| assert!(spoil(&path(*file), fault)));
        }
        for (daemon, _) in DAEMONS {
            let started = stage.start(daemon, "state");
            let log = started.log();
            started.end();
            assert!(!log.contains("hawser: "), "{daemon} {fault:?}: {log}");
        }
        if fault == Fault::LaterField {
            let written = [StateFile::Order, StateFile::Servers, StateFile::Vouchers];
            for file in kept.iter().chain(&written) {
                let text = fs::read_to_string(path(*file)).unwrap();
                assert!(text.contains("\"later\""), "{file:?}: {text}");
            }
            continue;
        }
        for file in [StateFile::Order, StateFile::Servers, StateFile::Vouchers] {
            let aside = stage
                .place
                .path("state")
                .join(format!("{}{ASIDE}", file.name()));
            assert!(aside.exists(), "{file:?} {fault:?}");
        }
    }
}

#[test]
fn a_full_disk_ends_no_daemon_and_takes_no_allowance_twice() {
    let stage = Stage::lived_in();
    let config = stage.place.path("config");
    fs::write(&config, "[[link]]\nname = \"lo\"\nallowance = \"1GB\"\n").unwrap();
    // What was used this month.
    let ledger = rusqlite::Connection::open(stage.place.path("good/ledger.db")).unwrap();
    let charge = "INSERT OR REPLACE INTO usage VALUES ('lo', \
                  strftime('%Y%m01', 'now') + 0, 123456789, 0)";
    ledger.execute(charge, []).unwrap();
    drop(ledger);
    for (daemon, _) in DAEMONS {
        for is_first in [false, true] {
            stage.copy("copy");
            let names = StateFile::ALL
                .into_iter()
                .filter(|file| *file != StateFile::Key);
            for file in names.filter(|file| is_first && is_made_anew(*file)) {
                let _ = fs::remove_file(stage.place.path("copy").join(file.name()));
            }
            let Some(started) = on_full_disk(&stage, daemon) else {
                return;
            };
            let said = match daemon {
                "serve" | "front" | "directory" => "accepting clients",
                _ => "listen=",
            };
            let is_said = || started.log().contains(said) || started.log().contains("hawser: ");
            until(daemon, is_said, || started.log());
            let log = started.log();
            assert!(!log.contains("hawser: "), "{daemon}: {log}");
            if daemon == "up" && !is_first {
                let process = started.process().to_string();
                let mut links = Command::new("nsenter");
                links.args([
                    "--user",
                    "--mount",
                    "--preserve-credentials",
                    "--target",
                    &process,
                ]);
                links.args([env!("CARGO_BIN_EXE_hawser"), "--state"]);
                links
                    .arg(stage.place.path("full"))
                    .args(["status", "--json"]);
                let links = Ended::of(links.output().unwrap());
                assert!(links.out.contains("123456789"), "{links:?}\n{log}");
            }
            started.end();
        }
    }
}

/// Whether a daemon recreates the file if it is missing, without needing room on the disk.
fn is_made_anew(file: StateFile) -> bool {
    !matches!(file, StateFile::WebToken | StateFile::DirectoryKey)
}

/// Starts a daemon with the state in `copy` on a disk without room; `None` if the machine forbids
/// that.
fn on_full_disk(stage: &Stage, daemon: &str) -> Option<Daemon> {
    let prepare = "mount -t tmpfs -o size=512k,mode=700 none \"$0\" && cp -a \"$1\"/. \"$0\" && \
                   { head -c 1000000 /dev/zero > \"$0/fill\"; true; }";
    let (full, copy) = (stage.place.folder("full"), stage.place.path("copy"));
    let inside = |more: &str| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c"]);
        command.arg(format!("{prepare} 2> /dev/null {more}"));
        command.arg(&full).arg(&copy);
        command
    };
    if !inside("").status().is_ok_and(|status| status.success()) {
        let test = "state_files::a_full_disk_ends_no_daemon_and_takes_no_allowance_twice";
        hawser_skip::skip(test, "this machine forbids mount namespaces");
        return None;
    }
    let mut command = inside("&& shift && exec \"$@\"");
    command
        .arg(env!("CARGO_BIN_EXE_hawser"))
        .arg("--state")
        .arg(&full);
    command.arg("--config").arg(stage.place.path("config"));
    command.args(stage.arguments(daemon));
    Some(stage.place.launch_command("full", command))
}

#[test]
fn a_clock_that_is_ahead_or_not_set_for_one_command_costs_no_invite() {
    let test = "state_files::a_clock_that_is_ahead_or_not_set_for_one_command_costs_no_invite";
    let with_clock = |time: &str, program: &str| {
        let mut command = Command::new("faketime");
        command.args(["-f", time, program]);
        command
    };
    let year = with_clock("@2099-01-01 00:00:00", "date")
        .arg("+%Y")
        .output();
    if !year.is_ok_and(|it| it.stdout == b"2099\n") {
        return hawser_skip::skip(test, "faketime is missing");
    }
    let stage = Stage::new();
    stage.start("serve", "gateway").end();
    let list = || {
        stage
            .place
            .run("gateway", &["invite", "list", "--json"])
            .out
    };
    let open = |list: &str| list.matches("\"open\"").count();
    assert_eq!(open(&list()), 1, "{}", list());
    for time in ["@2099-01-01 00:00:00", "@1970-01-02 00:00:00"] {
        let mut command = with_clock(time, env!("CARGO_BIN_EXE_hawser"));
        command.arg("--state").arg(stage.place.path("gateway"));
        let made = Ended::of(command.arg("invite").output().unwrap());
        assert_eq!(made.code, 0, "{made:?}");
    }
    // The one of 2099 is open as well; that of 1970 has expired.
    assert_eq!(open(&list()), 2, "{}", list());
}
