//! A new user's first minutes on a machine with the installed services, under systemd as process 1:
//! no file is edited by hand.

mod fresh;
mod machine;
mod services;

use super::program::until;
use machine::{Machine, carried};

#[test]
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
    let carried = carried(&machine);
    assert_eq!(carried.len(), 2);
    assert!(carried.iter().all(|it| *it > 2_000_000), "{carried:?}");

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

    // The daemon answers only its group.
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
fn settings_are_reverted_unless_they_were_changed_since() {
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
    assert!(unasked.contains("answer with --advertise"), "{unasked}");
}
