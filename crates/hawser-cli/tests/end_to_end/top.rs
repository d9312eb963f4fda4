//! `hawser top` on a real terminal: tmux, with two real links.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use hawser_skip::namespace::{Neighbour, in_namespace};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;

use super::choice::gateway;
use super::connections::{serve_there, two_links};
use super::program::{Daemon, Place, read, until};

#[test]
fn keys_steer_the_daemon_and_the_terminal_is_given_back() {
    let name = "top::keys_steer_the_daemon_and_the_terminal_is_given_back";
    in_namespace(name, || {
        let (place, _neighbour) = (Place::new(), two_links());
        let up = place.start("client", &UP);
        let Some(pane) = Pane::open(&place, name) else {
            return;
        };
        let (before, after) = (place.path("before"), place.path("after"));
        pane.line(&format!("stty -g > {}", before.display()));
        pane.line(TOP);
        pane.until("[1 Links]");
        pane.until("> dsl");
        pane.keys(&["j", "x"]);
        pane.until("lte: never, until the daemon ends");
        let status = place.status("client").unwrap();
        let mut links = status["links"].as_array().unwrap().iter();
        let lte = links.find(|link| link["name"] == "lte").unwrap();
        assert_eq!(lte["allowed"]["up"], "never", "{status}");
        assert_eq!(lte["allowed"]["down"], "never", "{status}");

        // To the shell and back.
        pane.keys(&["C-z"]);
        pane.until_shell();
        pane.line("fg");
        pane.until("[1 Links]");

        pane.tmux(&["resize-window", "-x", "50", "-y", "12"]);
        pane.until("Lists need 60 columns");
        pane.tmux(&["resize-window", "-x", "130", "-y", "40"]);
        pane.until("THIS MONTH");

        up.end();
        pane.until("no daemon runs; trying again");
        let up = place.start("client", &UP);
        pane.until("the daemon was restarted");

        pane.keys(&["q"]);
        pane.until_shell();
        pane.line("echo ended with $?");
        pane.until("ended with 0");
        pane.line(&format!(
            "stty -g > {}; echo is $((40 + 2))",
            after.display()
        ));
        pane.until("is 42");
        assert_eq!(read(&before), read(&after));
        assert_eq!(pane.shows("#{alternate_on} #{cursor_flag}"), "0 1");
        up.end();
    });
}

#[test]
fn a_signal_ends_it_in_order() {
    let name = "top::a_signal_ends_it_in_order";
    let place = Place::new();
    let up = place.up("client", &[]);
    let Some(pane) = Pane::open(&place, name) else {
        return;
    };
    let id = place.path("id");
    pane.line(&format!(
        "sh -c 'echo $$ > {}; exec {TOP} --ascii --no-color'",
        id.display()
    ));
    pane.until("[1 Links]");
    assert!(pane.text().is_ascii(), "{}", pane.text());
    let process: i32 = read(&id).trim().parse().unwrap();
    kill_process(Pid::from_raw(process).unwrap(), Signal::TERM).unwrap();
    pane.until_shell();
    pane.line("echo ended with $?");
    pane.until("ended with 0");
    assert_eq!(pane.shows("#{alternate_on} #{cursor_flag}"), "0 1");
    up.end();
}

#[test]
fn a_download_over_two_links_is_seen() {
    let name = "top::a_download_over_two_links_is_seen";
    in_namespace(name, || {
        let (place, neighbour) = (Place::new(), two_links());
        for (link, rate) in [("dsl", "24mbit"), ("lte", "12mbit")] {
            if !shape(&neighbour, link, rate) {
                return hawser_skip::skip(&format!("end_to_end::{name}"), "no tc or tbf here");
            }
        }
        serve_much(&neighbour);
        let _gateway = gateway(&place, &neighbour);
        let invite = place.invite();
        let up = place.start("client", &[&UP[..], &["--gateway", &invite]].concat());
        let Some(pane) = Pane::open(&place, name) else {
            return;
        };
        let mut curl = download(&up, &place);
        pane.line(TOP);
        let has_bars = |line: &str| line.matches(|it| ('▁'..='█').contains(&it)).count() >= BARS;
        let is_seen = || {
            let text = pane.text();
            let row = |name| {
                text.lines()
                    .any(|line| line.contains(name) && has_bars(line))
            };
            row("dsl ") && row("lte ")
        };
        until("both links carry it", is_seen, || pane.text() + &up.log());
        if let Some(file) = std::env::var_os("HAWSER_CAPTURE_TOP") {
            std::fs::write(file, pane.text()).unwrap();
        }
        pane.keys(&["2"]);
        pane.until("10.99.0.1:81");
        pane.until("dsl+lte");
        pane.keys(&["3"]);
        pane.until("SESSION");
        pane.keys(&["1", "j", "x"]);
        pane.until("lte: never, until the daemon ends");
        pane.keys(&["4"]);
        pane.until("lte is used: never");
        pane.keys(&["q"]);
        let _ = curl.kill();
        let _ = curl.wait();
        up.end();
    });
}

/// A terminal of 80 columns and 24 lines with a shell.
pub(super) struct Pane {
    socket: PathBuf,
}

impl Pane {
    /// `None`, with a report, without tmux.
    pub(super) fn open(place: &Place, test: &str) -> Option<Self> {
        if Command::new("tmux").arg("-V").output().is_err() {
            hawser_skip::skip(&format!("end_to_end::{test}"), "no tmux here");
            return None;
        }
        let pane = Self {
            socket: place.path("tmux"),
        };
        let mut start = pane.command(&["new-session", "-d", "-x", "80", "-y", "24", "sh", "-i"]);
        start.env("HAWSER", env!("CARGO_BIN_EXE_hawser"));
        start.env("STATE", place.path("client"));
        start
            .env("PS1", "$ ")
            .env_remove("ENV")
            .env_remove("NO_COLOR");
        assert!(start.status().unwrap().success());
        Some(pane)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("tmux");
        command
            .args(["-u", "-f", "/dev/null", "-S"])
            .arg(&self.socket);
        command
            .args(arguments)
            .env("LC_ALL", "C.UTF-8")
            .env_remove("TMUX");
        command.stdin(Stdio::null());
        command
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        assert!(output.status.success(), "tmux {arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Presses keys, by the names that tmux has for them.
    fn keys(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// Types a line for the shell.
    pub(super) fn line(&self, text: &str) {
        self.tmux(&["send-keys", "-l", text]);
        self.keys(&["Enter"]);
    }

    /// Returns the terminal's content.
    pub(super) fn text(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Returns tmux's information about the terminal.
    fn shows(&self, format: &str) -> String {
        self.tmux(&["display-message", "-p", format])
            .trim()
            .to_owned()
    }

    fn until(&self, text: &str) {
        until(text, || self.text().contains(text), || self.text());
    }

    /// Waits until the shell prompts: another program may read earlier input.
    fn until_shell(&self) {
        let asks = || self.text().trim_end().ends_with('$');
        until("the shell asks", asks, || self.text());
    }
}

impl Drop for Pane {
    fn drop(&mut self) {
        let _ = self.command(&["kill-server"]).output();
    }
}

/// Limits the rate of data from a link. Returns whether that is possible.
pub(crate) fn shape(neighbour: &Neighbour, link: &str, rate: &str) -> bool {
    let mut tc = neighbour.command("tc");
    tc.args(["qdisc", "add", "dev", link, "root", "tbf", "rate", rate]);
    tc.args(["burst", "32kb", "latency", "40ms"]);
    tc.status().is_ok_and(|status| status.success())
}

/// Serves endless bodies to all clients on port 81.
fn serve_much(neighbour: &Neighbour) {
    serve_there(neighbour, async move |ready| {
        let listener = TcpListener::bind("10.99.0.1:81").await.unwrap();
        ready.send(()).unwrap();
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let _ = stream.write_all(b"HTTP/1.0 200 OK\r\n\r\n").await;
                while stream.write_all(&[0; 65_536]).await.is_ok() {}
            });
        }
    });
}

fn download(up: &Daemon, place: &Place) -> std::process::Child {
    let proxy = format!("socks5h://{}", up.listen(place).unwrap());
    let mut curl = Command::new("curl");
    curl.args(["-s", "-o", "/dev/null", "--noproxy", "", "--proxy", &proxy]);
    curl.arg("http://10.99.0.1:81/");
    curl.spawn().unwrap()
}

const UP: [&str; 3] = ["up", "--listen", "127.0.0.1:0"];
pub(super) const TOP: &str = "\"$HAWSER\" --state \"$STATE\" top";
/// Number of seconds of a link's history that must be visible.
const BARS: usize = 8;
