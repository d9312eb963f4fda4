//! The proxy port for other machines, and its password.

use std::fs::{Permissions, set_permissions, write};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output};
use std::sync::mpsc::{Receiver, channel};

use hawser_skip::namespace::{Neighbour, in_namespace, ip};

use super::connections::{links, serve_there};
use super::origin;
use super::program::{Ended, Place};

#[test]
fn a_neighbour_reads_nothing_of_this_machine_by_its_proxy_port() {
    let name = "lan::a_neighbour_reads_nothing_of_this_machine_by_its_proxy_port";
    in_namespace(name, || {
        if origin::is_without_curl(name) {
            return;
        }
        let (place, neighbour) = (Place::new(), links(&["lan"]));
        ip("address add 11.22.33.44/32 dev lo");
        origin::start_at("127.0.0.1:8888");
        origin::start_at("[::1]:8889");
        origin::start_at("0.0.0.0:8890");
        serve_there(&neighbour, async |ready| {
            origin::start_at("0.0.0.0:80");
            ready.send(()).unwrap();
        });
        let open = ["--allow-lan", "--no-password"];
        let arguments = [&["up", "--direct", "--listen", "0.0.0.0:1080"][..], &open].concat();
        let daemon = place.start("client", &arguments);
        for scheme in ["socks5h", "socks4a", "http"] {
            for hidden in HIDDEN {
                let got = fetch_there(&neighbour, scheme, hidden);
                let said = format!("{scheme} {hidden}: {got:?}\n{}", daemon.log());
                assert!(got.is_none(), "{said}");
            }
            // It is a proxy for everything else, and for programs here.
            let got = fetch_there(&neighbour, scheme, "http://10.99.0.1/5");
            assert_eq!(got.as_deref(), Some(&origin::page(5)[..]), "{scheme}");
            for listen in ["127.0.0.1", "10.1.0.2", "11.22.33.44"] {
                let proxy = format!("{scheme}://{listen}:1080");
                let here = "127.0.0.1:8888".parse().unwrap();
                let got = origin::fetch(&proxy, here, 5);
                assert_eq!(got.unwrap(), origin::page(5), "{proxy}");
            }
        }
        ip("address add 11.22.33.45/32 dev lo");
        let later = || fetch_there(&neighbour, "socks5h", "http://11.22.33.45:8890/5").is_none();
        super::program::until("a new address is closed too", later, || daemon.log());
        daemon.end();
    });
}

/// Returns what a program at the neighbour gets through this machine's port.
fn fetch_there(neighbour: &Neighbour, scheme: &str, url: &str) -> Option<Vec<u8>> {
    let output = neighbour
        .command("curl")
        .args(["--silent", "--globoff", "--fail", "--max-time", "30"])
        .args([
            "--noproxy",
            "",
            "--proxy",
            &format!("{scheme}://10.1.0.2:1080"),
            url,
        ])
        .output()
        .unwrap();
    output.status.success().then_some(output.stdout)
}

/// Pages of this machine, by all names of its addresses.
const HIDDEN: [&str; 11] = [
    "http://127.0.0.1:8888/5",
    "http://127.9.9.9:8890/5",
    "http://localhost:8888/5",
    "http://0.0.0.0:8890/5",
    "http://10.1.0.2:8890/5",
    "http://11.22.33.44:8890/5",
    "http://[::1]:8889/5",
    "http://[::]:8889/5",
    "http://[::ffff:127.0.0.1]:8888/5",
    "http://[::ffff:10.1.0.2]:8890/5",
    "http://[::ffff:0.0.0.0]:8890/5",
];

#[test]
fn the_right_password_is_needed_and_the_server_never_sees_it() {
    if origin::is_without_curl("the_right_password_is_needed_and_the_server_never_sees_it") {
        return;
    }
    let place = Place::new();
    let file = password_file(&place, "me:open sesame\n", 0o600);
    let daemon = place.up("client", &["--direct", "--password-file", &file]);
    let proxy = daemon.listen(&place).unwrap();
    let (server, heads) = listening();
    for (way, more) in [
        ("socks5h", &[][..]),
        ("http", &[]),
        ("http", &["--proxytunnel"]),
    ] {
        let fetch = |user: Option<&str>| {
            let output = curl(&format!("{way}://{proxy}"), server, user, more);
            (output.status.success(), output)
        };
        let (is_read, output) = fetch(Some("me:open sesame"));
        assert!(is_read, "{way} {more:?}: {output:?}");
        let head = heads.recv().unwrap().to_ascii_lowercase();
        assert!(!head.contains("authorization"), "{head}");
        for user in [None, Some("me:open"), Some("you:open sesame"), Some("me:")] {
            let (is_read, output) = fetch(user);
            assert!(!is_read, "{way} {more:?} {user:?}: {output:?}");
        }
    }
    let refused = curl(&format!("socks4a://{proxy}"), server, None, &[]);
    assert!(!refused.status.success(), "{refused:?}");
    assert!(
        heads.try_recv().is_err(),
        "nothing else has come to the server"
    );
    let log = daemon.log();
    assert!(!log.contains("sesame"), "{log}");
    daemon.end();
}

#[test]
fn a_neighbour_that_guesses_passwords_is_not_told_the_right_one() {
    let name = "lan::a_neighbour_that_guesses_passwords_is_not_told_the_right_one";
    in_namespace(name, || {
        if origin::is_without_curl(name) {
            return;
        }
        let (place, neighbour) = (Place::new(), links(&["lan"]));
        serve_there(&neighbour, async |ready| {
            origin::start_at("0.0.0.0:80");
            ready.send(()).unwrap();
        });
        let file = password_file(&place, "me:secret", 0o600);
        let open = ["--allow-lan", "--password-file", &file];
        let arguments = [&["up", "--direct", "--listen", "0.0.0.0:1080"][..], &open].concat();
        let daemon = place.start("client", &arguments);
        let fetch_there = |user: &str| {
            let mut curl = neighbour.command("curl");
            as_user(&mut curl, user).status().unwrap().success()
        };
        assert!(fetch_there("me:secret"), "{}", daemon.log());
        for guess in 0..15 {
            assert!(!fetch_there(&format!("me:{guess}")));
        }
        assert!(!fetch_there("me:secret"), "{}", daemon.log());
        let here = as_user(&mut Command::new("curl"), "me:secret").status();
        assert!(here.unwrap().success(), "{}", daemon.log());
        daemon.end();
    });
}

fn as_user<'a>(curl: &'a mut Command, user: &str) -> &'a mut Command {
    curl.args(["--silent", "--fail", "--max-time", "30", "--noproxy", ""]);
    curl.args(["--proxy", "socks5h://10.1.0.2:1080", "--proxy-user", user]);
    curl.args(["--output", "/dev/null", "http://10.99.0.1/5"])
}

#[test]
fn a_port_for_other_machines_opens_with_a_password_or_leave_to_have_none() {
    let place = Place::new();
    let up = |more: &[&str]| {
        let command = ["up", "--direct", "--listen", "0.0.0.0:0", "--allow-lan"];
        place.run("client", &[&command[..], more].concat())
    };
    up(&[]).expect(2, "--password-file");
    up(&[]).expect(2, "--no-password");
    let readable = password_file(&place, "me:secret", 0o644);
    up(&["--password-file", &readable]).expect(2, "mode 644");
    let wrong = password_file(&place, "secret", 0o600);
    let refused: Ended = up(&["--password-file", &wrong]);
    refused.expect(2, "USER:PASSWORD");
    assert!(!refused.err.contains("secret"), "{refused:?}");
    let both = up(&["--password-file", &wrong, "--no-password"]);
    both.expect(2, "cannot be used with");

    let config = place.path("hawser.toml");
    let right = password_file(&place, "me:secret", 0o600);
    let text =
        format!("[up]\nlisten = \"0.0.0.0:0\"\nallow-lan = true\npassword-file = {right:?}\n");
    write(&config, text).unwrap();
    let config = config.to_str().unwrap();
    place
        .start("client", &["--config", config, "up", "--direct"])
        .end();
}

fn password_file(place: &Place, text: &str, mode: u32) -> String {
    let path = place.path("password");
    write(&path, text).unwrap();
    set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    path.to_str().unwrap().to_owned()
}

fn curl(proxy: &str, server: SocketAddr, user: Option<&str>, more: &[&str]) -> Output {
    let mut command = Command::new("curl");
    command.args(["--silent", "--fail", "--max-time", "30", "--noproxy", ""]);
    command.args(["--proxy", proxy]).args(more);
    if let Some(user) = user {
        command.args(["--proxy-user", user]);
    }
    command.arg(format!("http://{server}/")).output().unwrap()
}

/// Starts a server that passes on the heads of the requests to it.
fn listening() -> (SocketAddr, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, heads) = channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read_exact(&mut byte).is_ok() {
                head.extend_from_slice(&byte);
            }
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
            if tell
                .send(String::from_utf8_lossy(&head).into_owned())
                .is_err()
            {
                return;
            }
        }
    });
    (address, heads)
}
