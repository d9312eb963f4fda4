//! An unusable ledger: the daemon logs one line, and works.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;

use super::origin;
use super::program::{Daemon, Place, until};

#[test]
fn a_damaged_ledger_is_set_aside() {
    let place = Place::new();
    fs::write(place.folder("client").join("ledger.db"), [b'x'; 9000]).unwrap();
    works_and_says(&place, "set aside a damaged usage database as");
}

#[test]
fn a_locked_ledger_is_done_without() {
    let place = Place::new();
    let path = place.folder("client").join("ledger.db");
    let other = rusqlite::Connection::open(path).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    works_and_says(&place, "usage is counted from zero at each start");
}

#[test]
fn a_ledger_that_is_no_file_is_done_without() {
    let place = Place::new();
    fs::create_dir(place.folder("client").join("ledger.db")).unwrap();
    works_and_says(&place, "usage is counted from zero at each start");
}

#[test]
fn on_a_full_disk_the_daemon_works() {
    let place = Place::new();
    let state = place.folder("client");
    let prepare = "mount -t tmpfs -o size=64k,mode=700 none \"$0\" && \
                   { head -c 1000000 /dev/zero > \"$0/fill\"; true; }";
    let inside = |more: &str| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c"]);
        command
            .arg(format!("{prepare} 2> /dev/null {more}"))
            .arg(&state);
        command
    };
    if !inside("").status().is_ok_and(|status| status.success()) {
        let test = "hawser-cli::ledger::on_a_full_disk_the_daemon_works";
        return hawser_skip::skip(test, "this machine forbids mount namespaces");
    }
    let mut command = inside("&& exec \"$@\"");
    let hawser = place.hawser("client", &["up", "--listen", "127.0.0.1:0"]);
    command.arg(hawser.get_program()).args(hawser.get_args());
    let daemon = place.launch_command("client", command);
    proxies(&daemon);
    let log = daemon.log();
    let told = "counting usage in memory until the usage database can be written";
    assert!(log.contains(told), "{log}");
}

fn works_and_says(place: &Place, line: &str) {
    let daemon = place.start("client", &["up", "--listen", "127.0.0.1:0"]);
    proxies(&daemon);
    let log = daemon.log();
    let warnings: Vec<_> = log.lines().filter(|line| line.contains("WARN")).collect();
    let about: Vec<_> = warnings.iter().filter(|it| it.contains("ledger")).collect();
    assert!(about.len() == 1 && about[0].contains(line), "{log}");
    daemon.end();
}

/// A page can be fetched through the proxy, whose address is in the log.
fn proxies(daemon: &Daemon) {
    let address = || {
        let log = daemon.log();
        let at = log.split_once("listen=")?.1;
        Some(at.split_whitespace().next()?.to_owned())
    };
    until("the proxy listens", || address().is_some(), || daemon.log());
    let mut stream = TcpStream::connect(address().unwrap()).unwrap();
    let origin = origin::start();
    let request = format!("GET http://{origin}/100 HTTP/1.0\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert!(answer.ends_with(&origin::page(100)), "{}", daemon.log());
}
