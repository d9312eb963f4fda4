//! Checks of the kernel's permissions and settings.

use std::fs::OpenOptions;

use hawser_capture::{Capture, Discovery, RunGroup, Settings};
use hawser_config::{DEFAULT_FRONT_PORT, FrontPort};
use hawser_host::lan;
use hawser_keys::unix_time::UnixTime;
use hawser_link::bind::{allowed_congestion, available_congestion, best_congestion};
use hawser_sched::rules::Date;
use hawser_types::ByteCount;
use rustix::process::{Resource, geteuid, getrlimit};

use super::check::Check;

/// Runs the checks, for a gateway that fronts these ports.
pub(super) fn check(fronted: &[FrontPort]) -> Vec<Check> {
    let mut checks = vec![congestion()];
    checks.extend(slow_start());
    checks.extend(buffers());
    checks.push(open_files());
    checks.push(clock(UnixTime::now()));
    checks.push(capturing());
    checks.push(handshakes(fronted));
    checks.push(own_networks());
    checks.push(routing());
    checks
}

fn congestion() -> Check {
    let name = "congestion control";
    if let Some(best) = best_congestion() {
        return Check::ok(name, format!("{best} can be used"));
    }
    let known = |list: std::io::Result<Vec<String>>| {
        list.is_ok_and(|names| names.iter().any(|name| name == "bbr"))
    };
    let allowed = allowed_congestion().unwrap_or_default().join(" ");
    let allow = format!("sysctl -w net.ipv4.tcp_allowed_congestion_control=\"{allowed} bbr\"");
    let finding = "bbr is not available; on links with loss, other algorithms are much slower";
    if known(available_congestion()) {
        Check::warn(name, finding, allow)
    } else {
        Check::warn(name, finding, format!("modprobe tcp_bbr && {allow}"))
    }
}

/// Checks slow start after idle: channels pause between transfers and must resume at full speed.
fn slow_start() -> Option<Check> {
    let name = "tcp_slow_start_after_idle";
    let set = sysctl("tcp_slow_start_after_idle")?;
    Some(match (set.as_str(), best_congestion()) {
        ("0", _) => Check::ok(name, "off: an idle channel resumes at full speed"),
        (_, Some(best)) => Check::ok(name, format!("on, but {best} ignores it")),
        (_, None) => Check::warn(
            name,
            "on: an idle channel starts slowly again",
            "sysctl -w net.ipv4.tcp_slow_start_after_idle=0",
        ),
    })
}

fn buffers() -> Vec<Check> {
    let mut checks = Vec::new();
    for name in ["tcp_rmem", "tcp_wmem"] {
        let Some(limits) = sysctl(name) else { continue };
        let Some(most) = limits
            .split_whitespace()
            .nth(2)
            .and_then(|n| n.parse().ok())
        else {
            continue;
        };
        checks.push(buffer(name, ByteCount::new(most)));
    }
    checks
}

fn buffer(name: &str, most: ByteCount) -> Check {
    // The kernel uses half of a buffer for bookkeeping by default (tcp_adv_win_scale).
    let reach = most.as_u64() / 2 * 8 * 10 / 1_000_000;
    let finding = format!("at most {most}: about {reach} Mbit/s a channel at 100 ms");
    if most < MIN_BUFFER {
        Check::warn(
            name,
            finding,
            format!("sysctl -w net.ipv4.{name}=\"4096 131072 16777216\""),
        )
    } else {
        Check::ok(name, finding)
    }
}

/// Checks whether `hawser run` and `hawser up --capture` can capture connections in the kernel,
/// without a proxy in the data path.
fn capturing() -> Check {
    let name = "capturing in the kernel";
    let group = RunGroup::create();
    let tried =
        group.and_then(|group| Capture::start(group.path(), &Settings::default()).map(drop));
    match tried {
        Ok(()) => Check::ok(name, "permitted"),
        Err(error) => Check::warn(
            name,
            format!("{error}; `hawser run` loads a library into programs instead"),
            "run hawser as root, or give it CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON and a control group of its own",
        ),
    }
}

/// Checks whether TCP handshakes can tell which servers have Hawser.
fn handshakes(fronted: &[FrontPort]) -> Check {
    let name = "capability in handshakes";
    let group = RunGroup::create();
    match group.and_then(|group| Discovery::start(group.path())) {
        Ok(mut discovery) => match discovery.try_to_reach_a_listener() {
            Ok(()) => Check::ok(name, "permitted"),
            Err(error) => Check::warn(name, error.to_string(), start_again(fronted)),
        },
        Err(error) => Check::warn(
            name,
            format!(
                "{error}; `hawser up --discover` probes each server at port {DEFAULT_FRONT_PORT} \
                 instead, and clients that go by handshakes do not notice `hawser serve --front`"
            ),
            "run hawser as root, or give it CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON and a control group of its own",
        ),
    }
}

/// Returns the advice to restart services whose listeners can't be changed while they run.
fn start_again(fronted: &[FrontPort]) -> String {
    let ports: Vec<String> = fronted.iter().map(|it| it.port.to_string()).collect();
    let services = if ports.is_empty() {
        "services that it fronts".to_owned()
    } else {
        format!("the services at {}", ports.join(", "))
    };
    format!("once `hawser serve --front` runs, restart {services} if they were started earlier")
}

/// Checks the requirements of `hawser run --tun`.
fn own_networks() -> Check {
    let name = "programs in networks of their own";
    let device = OpenOptions::new().read(true).write(true).open(TUN);
    if let Err(error) = device {
        return Check::warn(
            name,
            format!("{TUN}: {error}; `hawser run --tun` can't make its interface"),
            format!("modprobe tun && chmod 666 {TUN}"),
        );
    }
    let is_root = geteuid().is_root();
    let forbidding = NAMESPACES.into_iter().find(|(setting, forbids)| {
        let value = std::fs::read_to_string(format!("/proc/sys/{setting}"));
        value.is_ok_and(|value| value.trim() == *forbids)
    });
    match forbidding.filter(|_| !is_root) {
        Some((setting, value)) => Check::warn(
            name,
            format!("{setting} is {value}: users may not create namespaces for `hawser run --tun`"),
            "run it as root, or change that setting",
        ),
        None => Check::ok(name, "permitted"),
    }
}

/// Checks the requirements of `hawser up --capture lan:`.
fn routing() -> Check {
    let name = "routing hosts behind this machine";
    match lan::check_system() {
        Ok(()) => Check::ok(name, "permitted"),
        Err(error) => Check::warn(
            name,
            format!("{error}; `hawser up --capture lan:` can't route them"),
            "install nftables, and run hawser as root or give it CAP_NET_ADMIN",
        ),
    }
}

fn open_files() -> Check {
    let name = "open files";
    let most = getrlimit(Resource::Nofile).maximum;
    match most {
        Some(most) if most < MIN_FILES => Check::warn(
            name,
            format!("at most {most}; each connection of an application needs one"),
            "raise the hard limit: `ulimit -Hn 65536` as root, or LimitNOFILE=65536 in a unit",
        ),
        Some(most) => Check::ok(name, format!("up to {most}")),
        None => Check::ok(name, "no limit"),
    }
}

fn clock(now: UnixTime) -> Check {
    let name = "clock";
    if now < UnixTime::from_secs(START_OF_2024) {
        Check::fail(
            name,
            "it is set before 2024, so invites never expire or expire at once",
            "set it: `timedatectl set-ntp true` or `date -s …`",
        )
    } else {
        let (days, seconds) = (now.as_secs() / 86_400, now.as_secs() % 86_400);
        let (hour, minute) = (seconds / 3600, seconds / 60 % 60);
        let today = Date::after_1970(days);
        Check::ok(name, format!("{today} {hour:02}:{minute:02} UTC"))
    }
}

fn sysctl(name: &str) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).ok()?;
    Some(text.trim().to_owned())
}

/// A smaller buffer limits a channel of 100 Mbit/s at a round-trip time of 160 ms.
const MIN_BUFFER: ByteCount = ByteCount::new(4_000_000);
const MIN_FILES: u64 = 4096;
const TUN: &str = "/dev/net/tun";
/// Settings, and the values with which they forbid users to create namespaces.
const NAMESPACES: [(&str, &str); 3] = [
    ("user/max_user_namespaces", "0"),
    ("kernel/unprivileged_userns_clone", "0"),
    ("kernel/apparmor_restrict_unprivileged_userns", "1"),
];
const START_OF_2024: u64 = 1_704_067_200;

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::*;

    #[test]
    fn services_that_are_to_be_started_again_are_named() {
        assert!(start_again(&[]).contains("services that it fronts"));
        let fronted: Vec<FrontPort> = ["443", "22"].iter().map(|it| it.parse().unwrap()).collect();
        assert!(start_again(&fronted).contains("restart the services at 443, 22 if"));
    }

    #[test]
    fn small_buffers_and_a_wrong_clock_are_seen() {
        assert_eq!(
            buffer("tcp_rmem", ByteCount::new(212_992)).status,
            Status::Warn
        );
        assert_eq!(
            buffer("tcp_rmem", ByteCount::new(6_291_456)).status,
            Status::Ok
        );
        assert_eq!(clock(UnixTime::from_secs(0)).status, Status::Fail);
        let noon = clock(UnixTime::from_secs(START_OF_2024 + 12 * 3600 + 60));
        assert_eq!(
            (noon.status, noon.finding.as_str()),
            (Status::Ok, "2024-01-01 12:01 UTC")
        );
    }
}
