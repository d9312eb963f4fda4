//! The Debian package from a new user's point of view: on machines without any trace of Hawser.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::machine::{Machine, carried};
use crate::program::{Place, until};

#[test]
// long: a transcript.
fn a_package_is_installed_used_upgraded_and_purged() {
    let test = "installed::fresh::a_package_is_installed_used_upgraded_and_purged";
    let Some(root) = fresh_debian(test) else {
        return;
    };
    let place = Place::new();
    let [first, second] = ["1.0", "1.1"].map(|version| pack(&place, version));
    lintian(test, &first);
    let boot = || Machine::boot_from(test, &root, "true");
    let (Some(client), Some(gateway)) = (boot(), boot()) else {
        return;
    };
    connect(&client, &gateway);
    gateway.quietly(include_str!("site.sh")).unwrap();
    for machine in [&client, &gateway] {
        machine.copy(&first, "/tmp/hawser.deb");
        machine.copy(&second, "/tmp/hawser-new.deb");
    }
    let before = [&client, &gateway].map(files);

    // The package brings its files, and starts nothing.
    for machine in [&client, &gateway] {
        machine.says(&apt("install /tmp/hawser.deb"));
        for file in FILES {
            machine.quietly(&format!("test -s {file}")).expect(file);
        }
        assert_eq!(machine.quietly("dpkg --verify hawser").unwrap(), "");
        let settings = machine.quietly("stat -c '%U:%G %a' /etc/hawser /etc/hawser/hawser.toml");
        let settings = settings.unwrap();
        assert_eq!(settings, "hawser:hawser 750\nhawser:hawser 640\n");
        for unit in UNITS {
            assert_eq!(enabled(machine, unit), "disabled");
            assert!(
                machine
                    .quietly(&format!("systemctl is-active {unit}"))
                    .is_err()
            );
        }
    }

    // One command each, and the first download.
    gateway.says("hawser setup --serve --advertise 203.0.113.1 --boot yes");
    let invite = gateway.says("hawser invite");
    let invite = invite.lines().next().unwrap();
    let setup =
        format!("hawser setup --gateway '{invite}' --no-metered --capture proxy --boot yes");
    client.says(&setup);
    let sum = gateway.quietly("sha256sum </tmp/www/file").unwrap();
    assert_eq!(client.says(FETCH), sum);
    let carried = carried(&client);
    assert_eq!(carried.len(), 2);
    assert!(carried.iter().all(|it| *it > 2_000_000), "{carried:?}");

    // An upgrade keeps keys and settings, and the services run the new program.
    let kept = [&client, &gateway].map(kept_files);
    for machine in [&gateway, &client] {
        machine.says("dpkg -i /tmp/hawser-new.deb 2>&1");
        assert_eq!(installed(machine), "install ok installed 1.1-1");
    }
    assert_eq!([&client, &gateway].map(kept_files), kept);
    for (machine, unit) in [(&gateway, "hawser-serve"), (&client, "hawser-up")] {
        until(
            "the service runs the new program",
            || runs_installed_program(machine, unit),
            || journal(machine, unit),
        );
        assert_eq!(enabled(machine, unit), "enabled");
    }
    until_downloads(&client, &sum);

    // What is removed leaves keys and settings, and goes on with them when it is installed again.
    client.says(&apt("remove hawser"));
    assert_eq!(installed(&client), "deinstall ok config-files 1.1-1");
    let gone = "test ! -e /usr/bin/hawser && ! systemctl is-active --quiet hawser-up";
    client.quietly(gone).unwrap();
    assert_eq!(kept_files(&client), kept[0]);
    client.says(&apt("install /tmp/hawser-new.deb"));
    assert_eq!(kept_files(&client), kept[0]);
    assert_eq!(enabled(&client, "hawser-up"), "enabled");
    client.says("systemctl start hawser-up");
    until_downloads(&client, &sum);

    // What is purged leaves nothing, whether it was removed before or not.
    gateway.says(&apt("purge hawser"));
    client.says(&apt("remove hawser"));
    client.says("dpkg --purge hawser 2>&1");
    for (machine, before) in [&client, &gateway].into_iter().zip(before) {
        let after = files(machine);
        let left: Vec<_> = after.lines().filter(|it| !before.contains(*it)).collect();
        let lost: Vec<_> = before.lines().filter(|it| !after.contains(*it)).collect();
        assert!(left.is_empty() && lost.is_empty(), "{left:#?}\n{lost:#?}");
    }
    keep_transcript(&gateway, &client);
}

#[test]
fn a_drop_in_of_setup_goes_with_a_purge_and_others_stay() {
    let test = "installed::fresh::a_drop_in_of_setup_goes_with_a_purge_and_others_stay";
    let Some(root) = fresh_debian(test) else {
        return;
    };
    let place = Place::new();
    let package = pack(&place, "1.0");
    let Some(machine) = Machine::boot_from(test, &root, "true") else {
        return;
    };
    machine.copy(&package, "/tmp/hawser.deb");
    machine.says("dpkg -i /tmp/hawser.deb 2>&1");
    let setup = "hawser setup --no-gateway --no-metered --capture system --boot yes";
    // Where the kernel takes no programs, the service does not start; its drop-in is there anyway.
    let _ = machine.try_sh(setup);
    let drop_ins = "/etc/systemd/system/hawser-up.service.d";
    machine.says(&format!("test -s {drop_ins}/capture.conf"));
    machine.says(&format!("echo '[Unit]' >{drop_ins}/mine.conf"));
    machine.says(&apt("purge hawser"));
    assert_eq!(machine.says(&format!("ls {drop_ins}")), "mine.conf\n");
    assert!(machine.quietly("ls /etc/hawser").is_err());
}

#[test]
fn a_service_that_starts_with_the_machine_takes_links_that_come_later() {
    let test = "installed::fresh::a_service_that_starts_with_the_machine";
    let Some(root) = fresh_debian(test) else {
        return;
    };
    let place = Place::new();
    let package = pack(&place, "1.0");
    // As what makes images of machines does it, with nothing running.
    let install = format!(
        "cp {} tmp/hawser.deb
        chroot . dpkg -i /tmp/hawser.deb
        chroot . systemctl enable hawser-up",
        package.display()
    );
    let client = Machine::boot_from(test, &root, &install);
    let far = Machine::boot_from(test, &root, "true");
    let (Some(client), Some(far)) = (client, far) else {
        return;
    };
    assert_eq!(client.says("systemctl is-active hawser-up"), "active\n");
    let links = || client.says("hawser links --json");
    assert!(!links().contains("link1"), "{}", links());
    connect(&client, &far);
    let script = include_str!("site.sh").replace("ip netns exec site ", "");
    // The site is the far machine itself, as there is no gateway.
    let script = script.replace("9.9.9.9:80", "203.0.113.1:80");
    far.quietly(&script).unwrap();
    until(
        "both links are there",
        || ["link1", "link2"].iter().all(|it| links().contains(it)),
        links,
    );
    let sum = far.quietly("sha256sum </tmp/www/file").unwrap();
    let fetch = FETCH.replace("9.9.9.9", "203.0.113.1");
    assert_eq!(client.says(&fetch), sum);

    // It ends in order when the machine does.
    client.says("systemctl stop hawser-up");
    let result = client.says("systemctl show -p Result -p ExecMainStatus hawser-up");
    assert_eq!(result, "Result=success\nExecMainStatus=0\n");
}

/// The folder with a Debian that `cargo xtask packages` has made. Without it: `None`, and a report.
fn fresh_debian(test: &str) -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_BIN_EXE_hawser")).ancestors().nth(2);
    let root = target.unwrap().join("fresh-debian");
    if !root.join("etc/debian_version").is_file() {
        let why = "there is no fresh Debian: `cargo xtask packages`, as root, makes it";
        hawser_skip::skip(&format!("hawser-cli {test}"), why);
        return None;
    }
    Some(root)
}

/// Packs the program under test as this version.
fn pack(place: &Place, version: &str) -> PathBuf {
    let out = place.folder(version);
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .args(["run", "--quiet", "--package", "xtask", "--", "dist"])
        .args([
            "--program",
            env!("CARGO_BIN_EXE_hawser"),
            "--version",
            version,
            "--out",
        ])
        .arg(&out)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let mut files = std::fs::read_dir(&out).unwrap();
    files.next().unwrap().unwrap().path()
}

/// Checks the package with Debian's checker, if it is installed.
fn lintian(test: &str, package: &Path) {
    let mut command = Command::new("lintian");
    command.args(["--fail-on", "error,warning"]).arg(package);
    match command.output() {
        Ok(output) => assert!(output.status.success(), "{output:?}"),
        Err(_) => hawser_skip::skip(
            &format!("hawser-cli {test}, lintian"),
            "it is not installed",
        ),
    }
}

/// Puts two links between the machines.
fn connect(client: &Machine, gateway: &Machine) {
    let processes = [client, gateway].map(|it| it.process().to_string());
    let output = Command::new("sh")
        .args(["-c", include_str!("cables.sh"), "cables.sh"])
        .args(processes)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// Returns every file of the machine with its kind, rights, owner and content, without runtime
/// files, logs and the package manager's own files.
fn files(machine: &Machine) -> String {
    let script = "
        cd /
        skip='-path ./proc -o -path ./sys -o -path ./dev -o -path ./run -o -path ./tmp'
        skip=\"$skip -o -path ./var/log -o -path ./var/cache -o -path ./var/lib/apt\"
        skip=\"$skip -o -path ./var/lib/dpkg -o -path ./var/lib/private -o -path ./var/tmp\"
        skip=\"$skip -o -path ./var/lib/systemd/timers -o -path ./var/lib/systemd/catalog\"
        # Locks, and the copies that tools for users leave of what was before.
        backups='^./etc/([a-z]+-|[.]pwd[.]lock|machine-id) '
        find . \\( $skip \\) -prune -o ! -type f -printf '%p %y %m %U %G %l\\n'
        find . \\( $skip \\) -prune -o -type f -printf '%p %m %U %G ' -exec md5sum {} \\; |
            grep -Ev \"$backups\"
        ls /var/lib/private 2>/dev/null | sed 's|^|/var/lib/private/|'
        true";
    let files = machine.quietly(script).unwrap();
    assert!(files.contains("./etc/passwd 644 0 0 "), "{files}");
    files
}

/// Returns the files that must survive an upgrade: settings, and keys.
fn kept_files(machine: &Machine) -> String {
    let script = "md5sum /etc/hawser/hawser.toml /etc/default/hawser /var/lib/private/hawser/key
        ls -l /etc/systemd/system/multi-user.target.wants";
    machine.quietly(script).unwrap()
}

fn enabled(machine: &Machine, unit: &str) -> String {
    let (Ok(said) | Err(said)) = machine.quietly(&format!("systemctl is-enabled {unit}"));
    said.trim().to_owned()
}

/// Returns a command of Debian's package manager, without its progress output.
fn apt(command: &str) -> String {
    format!("apt-get -qq -o Dpkg::Use-Pty=0 {command} 2>&1")
}

/// Returns the package's state in Debian's package manager, and its version.
fn installed(machine: &Machine) -> String {
    let query = "dpkg-query -W -f '${Status} ${Version}' hawser";
    machine.quietly(query).unwrap()
}

/// Whether the service's process runs the current file, not a replaced one.
fn runs_installed_program(machine: &Machine, unit: &str) -> bool {
    let script = format!(
        "systemctl is-active --quiet {unit} &&
        test /proc/$(systemctl show -p MainPID --value {unit})/exe -ef /usr/bin/hawser"
    );
    machine.quietly(&script).is_ok()
}

fn until_downloads(client: &Machine, sum: &str) {
    until(
        "downloads work again",
        || client.quietly(FETCH).is_ok_and(|it| it == sum),
        || journal(client, "hawser-up"),
    );
}

fn journal(machine: &Machine, unit: &str) -> String {
    let (Ok(said) | Err(said)) = machine.quietly(&format!("journalctl --no-pager -u {unit}"));
    said + &machine.log()
}

/// Writes the transcript of both machines to the file in `HAWSER_TRANSCRIPT`, if that is set.
fn keep_transcript(gateway: &Machine, client: &Machine) {
    let Some(file) = std::env::var_os("HAWSER_TRANSCRIPT") else {
        return;
    };
    let [gateway, client] = [gateway, client].map(Machine::transcript);
    let text = format!("The gateway:\n\n{gateway}\nThe client:\n\n{client}");
    std::fs::write(file, text).unwrap();
}

/// Downloads over the proxy port.
const FETCH: &str = "curl -sS -x socks5h://127.0.0.1:1080 http://9.9.9.9/file | sha256sum";
const UNITS: [&str; 3] = ["hawser-up", "hawser-serve", "hawser-kill-switch"];
/// Some of each kind of file.
const FILES: [&str; 9] = [
    "/usr/bin/hawser",
    "/usr/lib/systemd/system/hawser-up.service",
    "/usr/lib/sysusers.d/hawser.conf",
    "/usr/share/man/man1/hawser-up.1.gz",
    "/usr/share/bash-completion/completions/hawser",
    "/usr/share/zsh/vendor-completions/_hawser",
    "/usr/share/fish/vendor_completions.d/hawser.fish",
    "/usr/share/doc/hawser/copyright",
    "/usr/share/doc/hawser/examples/hawser-up.service.d/capture.conf",
];
