//! What the tests need beside Rust: programs of the distribution.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

/// Installs what is missing where that is possible, and says what will be skipped where not.
pub(crate) fn provide() -> Result<()> {
    let missing = missing();
    if missing.is_empty() {
        return Ok(());
    }
    if !is_debian() || !is_root() {
        report(&missing);
        return Ok(());
    }
    let mut names: Vec<&str> = missing.iter().map(|need| need.package).collect();
    names.dedup();
    eprintln!("installing {}", names.join(", "));
    let update = apt(&["update", "-qq"]);
    let mut install = vec!["install", "-y", "-qq", "--no-install-recommends"];
    install.extend(&names);
    if !update || !apt(&install) {
        eprintln!("warning: apt-get failed; tests that need these programs will be skipped");
    }
    report_missing();
    Ok(())
}

/// Says which programs are missing and what is skipped without them.
pub(crate) fn report_missing() {
    report(&missing());
}

fn report(missing: &[&Need]) {
    if missing.is_empty() {
        return;
    }
    eprintln!("missing, so some tests will be skipped:");
    for need in missing {
        eprintln!(
            "  {} (package {}): {}",
            need.program, need.package, need.tests
        );
    }
    let mut names: Vec<&str> = missing.iter().map(|need| need.package).collect();
    names.dedup();
    eprintln!("on Debian: sudo apt-get install {}", names.join(" "));
}

fn missing() -> Vec<&'static Need> {
    NEEDS
        .iter()
        .filter(|need| !is_installed(need.program))
        .collect()
}

/// Whether a program is on the path; the folders of administrators count, since tests look there.
fn is_installed(program: &str) -> bool {
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':')
        .chain(["/usr/sbin", "/sbin"])
        .any(|folder| Path::new(folder).join(program).is_file())
}

fn apt(arguments: &[&str]) -> bool {
    Command::new("apt-get")
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        // The tests start their own servers on their own ports; the system's need not start.
        .env("RUNLEVEL", "1")
        .status()
        .is_ok_and(|status| status.success())
}

fn is_debian() -> bool {
    Path::new("/etc/debian_version").exists()
}

/// The owner of this process's own folder in `/proc` is the effective user.
fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|data| data.uid() == 0)
}

/// A program that some tests run.
struct Need {
    program: &'static str,
    package: &'static str,
    tests: &'static str,
}

const NEEDS: [Need; 10] = [
    Need {
        program: "curl",
        package: "curl",
        tests: "transfers through the proxy port",
    },
    Need {
        program: "nginx",
        package: "nginx",
        tests: "real clients and many short connections to a real server",
    },
    Need {
        program: "git",
        package: "git",
        tests: "cloning through the proxy port",
    },
    Need {
        program: "ip",
        package: "iproute2",
        tests: "everything in network namespaces: the lab, links, handover",
    },
    Need {
        program: "ethtool",
        package: "ethtool",
        tests: "everything on shaped links: the lab",
    },
    Need {
        program: "tmux",
        package: "tmux",
        tests: "`hawser top` on a terminal",
    },
    Need {
        program: "chromium",
        package: "chromium",
        tests: "pages in a real browser, through the proxy port and on two links",
    },
    Need {
        program: "promtool",
        package: "prometheus",
        tests: "the format of metrics, and what the dashboard for Grafana asks",
    },
    Need {
        program: "systemd-analyze",
        package: "systemd",
        tests: "the units for systemd",
    },
    Need {
        program: "man",
        package: "man-db",
        tests: "the manual pages",
    },
];
