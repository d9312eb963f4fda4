//! Prerequisites of the tests besides Rust: programs of the distribution, and a fresh Debian.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::fresh_debian;

/// Installs what is missing where that is possible, and says what will be skipped where not.
pub(crate) fn provide(root: &Path) -> Result<()> {
    let is_debian = Path::new("/etc/debian_version").exists();
    // The owner of this process's own folder in `/proc` is the effective user.
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|data| data.uid() == 0);
    if is_debian && is_root {
        install_missing();
        // Without the network there is no fresh Debian, and its tests are skipped.
        if is_installed("mmdebstrap")
            && let Err(error) = fresh_debian::provide(root)
        {
            eprintln!("warning: {error:#}");
        }
    }
    report_missing(root);
    Ok(())
}

fn install_missing() {
    let missing = missing();
    if missing.is_empty() {
        return;
    }
    let names = missing.iter().map(|need| need.package);
    // Where services start at once, this one would take over the machine's links.
    let is_safe = |package: &&str| *package != "network-manager" || !has_systemd();
    let mut names: Vec<&str> = names.filter(is_safe).collect();
    names.dedup();
    eprintln!("installing {}", names.join(", "));
    // Where one source is broken, what the others have may be enough.
    apt(&["update", "-qq"]);
    if !install(&names) {
        // A package that this distribution does not have keeps all others out, too.
        for name in &names {
            if !install(&[name]) {
                eprintln!("warning: {name} can't be installed");
            }
        }
    }
    stop_services(missing.iter().filter(|need| is_installed(need.program)));
}

/// Stops and disables the services that these packages have just started and enabled: the tests
/// start their own servers on their own ports, and the user has asked for no more.
fn stop_services<'a>(installed: impl Iterator<Item = &'a &'a Need>) {
    if !has_systemd() {
        return;
    }
    let of = |package| SERVICES.iter().find(|(of, _)| *of == package);
    for &(_, service) in installed.filter_map(|need| of(need.package)) {
        let mut command = Command::new("systemctl");
        let status = command.args(["disable", "--now", service]).status();
        if !status.is_ok_and(|status| status.success()) {
            eprintln!("warning: the service {service}, which no test needs, could not be disabled");
        }
    }
}

/// Says which programs are missing and what is skipped without them.
pub(crate) fn report_missing(root: &Path) {
    report(&missing());
    if !fresh_debian::is_there(root) {
        eprintln!(
            "there is no fresh Debian, so tests of the package will be skipped: `cargo xtask \
             packages`, as root on Debian, makes it"
        );
    }
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

fn install(packages: &[&str]) -> bool {
    let command = ["install", "-y", "-qq", "--no-install-recommends"];
    apt(&[&command, packages].concat())
}

fn apt(arguments: &[&str]) -> bool {
    Command::new("apt-get")
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        // Without systemd, services that come with packages do not start in this one.
        .env("RUNLEVEL", "1")
        .status()
        .is_ok_and(|status| status.success())
}

fn has_systemd() -> bool {
    Path::new("/run/systemd/system").is_dir()
}

/// A program that some tests run.
struct Need {
    program: &'static str,
    package: &'static str,
    tests: &'static str,
}

/// The services of the packages below.
const SERVICES: [(&str, &str); 4] = [
    ("kamailio", "kamailio"),
    ("modemmanager", "ModemManager"),
    ("nginx", "nginx"),
    ("prometheus", "prometheus"),
];

const NEEDS: [Need; 31] = [
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
        program: "faketime",
        package: "faketime",
        tests: "the program with a clock that is wrong",
    },
    Need {
        program: "git",
        package: "git",
        tests: "cloning through the proxy port",
    },
    Need {
        program: "ip",
        package: "iproute2",
        tests: "everything in network namespaces: the lab, links, handover, shaped links",
    },
    Need {
        program: "nft",
        package: "nftables",
        tests: "packets of programs in networks of their own, and of hosts behind routers",
    },
    Need {
        program: "tcpdump",
        package: "tcpdump",
        tests: "what leaves a machine with a kill switch",
    },
    Need {
        program: "tshark",
        package: "tshark",
        tests: "options of TCP's handshake, as another program reads them",
    },
    Need {
        program: "python3",
        package: "python3",
        tests: "programs that make their own sockets, captured or in networks of their own",
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
        program: "/usr/include/usrsctp.h",
        package: "libusrsctp-dev",
        tests: "associations with another SCTP stack",
    },
    Need {
        program: "openssl",
        package: "openssl",
        tests: "a SIP registrar over TLS, and the commands of the guide",
    },
    Need {
        program: "ping",
        package: "iputils-ping",
        tests: "the commands of the guide",
    },
    Need {
        program: "kamailio",
        package: "kamailio",
        tests: "registrations with another SIP registrar",
    },
    Need {
        program: "/etc/kamailio/tls.cfg",
        package: "kamailio-tls-modules",
        tests: "the same over TLS",
    },
    Need {
        program: "/usr/share/doc/kamailio-presence-modules/copyright",
        package: "kamailio-presence-modules",
        tests: "watching contacts at another SIP registrar",
    },
    Need {
        program: "baresip",
        package: "baresip-core",
        tests: "calls by name between telephones",
    },
    Need {
        program: "sipsak",
        package: "sipsak",
        tests: "registrations by another SIP client",
    },
    Need {
        program: "sipp",
        package: "sip-tester",
        tests: "what a SIP registrar answers, also to faults",
    },
    Need {
        program: "dbus-daemon",
        package: "dbus-daemon",
        tests: "modems, and what else is asked over D-Bus",
    },
    Need {
        program: "ModemManager",
        package: "modemmanager",
        tests: "modems, with the service that runs them",
    },
    Need {
        program: "NetworkManager",
        package: "network-manager",
        tests: "links that are connected when they are needed",
    },
    Need {
        program: "pkcheck",
        package: "polkitd",
        tests: "the same by a service that is not root",
    },
    Need {
        program: "mmdebstrap",
        package: "mmdebstrap",
        tests: "the Debian package on a fresh machine",
    },
    Need {
        program: "dpkg-shlibdeps",
        package: "dpkg-dev",
        tests: "the same, and releases",
    },
    Need {
        program: "objcopy",
        package: "binutils",
        tests: "the same, and releases",
    },
    Need {
        program: "lintian",
        package: "lintian",
        tests: "the Debian package's form",
    },
    Need {
        program: "man",
        package: "man-db",
        tests: "the manual pages",
    },
];
