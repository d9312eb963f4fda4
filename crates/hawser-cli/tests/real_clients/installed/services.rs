//! The services under a real systemd: when they hang, and when links appear and disappear.

use super::machine::Machine;
use crate::program::until;

#[test]
fn a_service_that_hangs_is_started_again() {
    let Some(machine) = Machine::boot("installed::services::a_service_that_hangs") else {
        return;
    };
    machine.says(include_str!("prepare.sh"));
    // Sooner than in the unit, so that the test need not wait for half a minute.
    machine.says(
        "mkdir -p /etc/systemd/system/hawser-up.service.d
        printf '[Service]\\nWatchdogSec=5s\\nTimeoutAbortSec=2s\\n' \
            >/etc/systemd/system/hawser-up.service.d/watchdog.conf",
    );
    machine.says(SETUP);
    let process = || machine.says("systemctl show -p MainPID --value hawser-up");
    let hung = process();
    machine.says(&format!("kill -STOP {hung}"));
    until(
        "the service runs again",
        || {
            let runs = machine.quietly("systemctl is-active hawser-up && hawser status >/dev/null");
            runs.is_ok() && process() != hung
        },
        || machine.says("journalctl -u hawser-up --no-pager"),
    );
    // Nothing else can have ended a process that does nothing.
    let restarts = machine.says("systemctl show -p NRestarts --value hawser-up");
    assert_eq!(restarts, "1\n");
    machine.says(FETCH);
}

#[test]
fn a_service_starts_without_links_and_takes_them_when_they_come() {
    let Some(machine) = Machine::boot("installed::services::a_service_starts_without_links") else {
        return;
    };
    machine.says(include_str!("prepare.sh"));
    machine.says(SETUP);
    machine.says("systemctl stop hawser-up");
    let ended = "systemctl show -p Result -p ExecMainStatus hawser-up";
    assert_eq!(machine.says(ended), "Result=success\nExecMainStatus=0\n");
    // As early in a boot, or with both cables pulled.
    machine.says("ip link del link1 && ip link del link2");
    // It returns when the service says that it is ready.
    machine.says("systemctl start hawser-up");
    machine.says("sh /tmp/links.sh");
    until(
        "downloads work",
        || machine.quietly(FETCH).is_ok(),
        || machine.says("journalctl -u hawser-up --no-pager"),
    );
    let links = machine.says("hawser links");
    assert!(
        links.contains("link1") && links.contains("link2"),
        "{links}"
    );
}

#[test]
fn the_kill_switch_of_a_boot_works_with_its_few_rights() {
    let test = "installed::services::the_kill_switch_of_a_boot_works_with_its_few_rights";
    let Some(machine) = Machine::boot(test) else {
        return;
    };
    if let Err(said) = machine.quietly("nft add table inet probe && nft delete table inet probe") {
        return hawser_skip::skip(&format!("hawser-cli {test}"), &said);
    }
    machine.says("chmod 755 /usr/bin/hawser && systemctl daemon-reload");
    machine.says("systemctl start hawser-kill-switch");
    let table = "nft list table inet hawser_kill_switch";
    machine.says(table);
    // Ending the service opens nothing; only its owner does.
    machine.says("systemctl stop hawser-kill-switch");
    machine.says(table);
    machine.says("hawser kill-switch off");
    assert!(machine.quietly(table).is_err());
}

const SETUP: &str = "hawser setup --gateway @/tmp/invite --no-metered --capture proxy --boot yes";
const FETCH: &str =
    "curl -sS -x socks5h://127.0.0.1:1080 http://203.0.113.1/file | cmp - /tmp/www/file";
