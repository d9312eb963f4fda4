//! A client with two links, a gateway that carries packets, and an internet behind it.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hawser_skip::namespace::{Neighbour, ip};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, UdpSocket};

use super::connections::{add_link, serve_there};
use super::program::{Daemon, Place, kernel_captures, until};
use super::silent_link::{HAWSER, has_mounts};

/// Two links to a gateway, behind which there is an internet.
pub(crate) struct Internet {
    pub(crate) place: Place,
    pub(crate) gateway: Neighbour,
    pub(crate) server: Neighbour,
}

impl Internet {
    /// `None` if a program is missing, with a report for `test`.
    pub(crate) fn new(test: &str) -> Option<Self> {
        if let Some(missing) = missing() {
            hawser_skip::skip(&format!("end_to_end::{test}"), missing);
            return None;
        }
        let (gateway, server) = (Neighbour::start(), Neighbour::start());
        ip("link set lo up");
        gateway.ip("link set lo up");
        add_link(&gateway, 1, "dsl");
        add_link(&gateway, 2, "lte");
        ip("link add wan type veth peer name far");
        gateway.take("wan");
        server.take("far");
        gateway.ip("link set wan up");
        server.ip("link set far up");
        gateway.ip("address add 11.0.0.1/24 dev wan");
        server.ip(&format!("address add {SERVER}/24 dev far"));
        serve_echoes(&server, SERVER);
        let place = Place::new();
        Some(Self {
            place,
            gateway,
            server,
        })
    }

    /// The same, if the kernel captures packets of programs; otherwise that is reported as well.
    pub(crate) fn captured(test: &str) -> Option<Self> {
        if kernel_captures(test) {
            Self::new(test)
        } else {
            None
        }
    }

    /// Gives the internet the other family as well.
    pub(crate) fn add_ipv6(&self) {
        self.gateway.ip("address add 2a00:11::1/64 dev wan nodad");
        self.server
            .ip(&format!("address add {SERVER_V6}/64 dev far nodad"));
        self.gateway
            .ip(&format!("route add default via {SERVER_V6} dev wan"));
        serve_echoes(&self.server, SERVER_V6);
    }

    pub(crate) fn serve(&self) -> Daemon {
        self.serve_with(&["--packet-exit", "nat"])
    }

    /// Starts a gateway with these additional flags.
    pub(crate) fn serve_with(&self, flags: &[&str]) -> Daemon {
        let gateway = self.begin_serving(flags);
        let listens = || gateway.listen(&self.place).is_some();
        until("the gateway listens", listens, || gateway.log());
        gateway
    }

    /// Starts one without waiting until it listens.
    pub(crate) fn begin_serving(&self, flags: &[&str]) -> Daemon {
        let invite = self.place.path("invite");
        let mut serve = self.gateway.command(HAWSER);
        serve.arg("--state").arg(self.place.path("gateway"));
        serve.args(["serve", "--listen", "0.0.0.0:7443"]);
        serve.args(["--advertise", "10.1.0.1", "--advertise", "10.2.0.1"]);
        serve.args(flags);
        serve.arg("--invite-file").arg(&invite);
        self.place.launch_command("gateway", serve)
    }

    /// Has the client enrol.
    pub(crate) fn enrol(&self) {
        self.enrol_as("client", &self.place.invite());
    }

    /// Has another client enrol, with this name.
    pub(crate) fn enrol_another(&self, name: &str) {
        let mut invite = self.gateway.command(HAWSER);
        invite.arg("--state").arg(self.place.path("gateway"));
        self.enrol_as(name, &said(invite.arg("invite")));
    }

    fn enrol_as(&self, name: &str, invite: &str) {
        let arguments = ["up", "--listen", "127.0.0.1:0", "--gateway", invite];
        let up = self.place.launch(name, &arguments);
        let is_enrolled = || {
            let status = self.place.status(name).unwrap_or_default();
            status["sessions"][0]["state"] == "established"
        };
        until("the client is enrolled", is_enrolled, || up.log());
        up.end();
    }

    /// Returns a Python script in a network of its own.
    pub(crate) fn enclosed(&self, script: &str) -> Command {
        self.enclosed_as("client", script)
    }

    /// The same of another client.
    pub(crate) fn enclosed_as(&self, name: &str, script: &str) -> Command {
        let run = ["run", "--tun", "--", "python3", "-c", script];
        self.place.hawser(name, &run)
    }

    /// Starts a Python script on this machine, which ends when its file DONE exists.
    pub(crate) fn begin(&self, script: &str) -> Child {
        let script = script.replace("DONE", self.done().to_str().unwrap());
        let mut python = local_python(&script);
        python.stdout(Stdio::piped()).spawn().unwrap()
    }

    pub(crate) fn done(&self) -> PathBuf {
        self.place.path("done")
    }

    pub(crate) fn counter(&self, name: &str) -> u64 {
        let status = self.place.status("gateway").unwrap();
        status["counters"][name].as_u64().unwrap()
    }

    pub(crate) fn setting(&self, name: &str) -> String {
        said(self.gateway.command("cat").arg(format!("/proc/sys/{name}")))
    }

    pub(crate) fn rules(&self) -> String {
        said(self.gateway.command("nft").args(["list", "ruleset"]))
    }
}

/// Returns a missing prerequisite of packet mode on this machine.
pub(crate) fn missing() -> Option<&'static str> {
    let has = |program: &str| Command::new(program).arg("-V").output().is_ok();
    let tun = || std::fs::OpenOptions::new().write(true).open("/dev/net/tun");
    let needs: [(&str, bool); 4] = [
        ("no nft here", has("nft")),
        ("no python3 here", has("python3")),
        ("no mount namespace here", has_mounts()),
        ("no /dev/net/tun here", tun().is_ok()),
    ];
    needs
        .into_iter()
        .find(|(_, is_here)| !is_here)
        .map(|(what, _)| what)
}

/// Reads and drops the bytes of connections to port 9; counts those of closed connections.
pub(crate) fn serve_discard(server: &Neighbour) -> Arc<AtomicU64> {
    let swallowed = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&swallowed);
    serve_there(server, async move |ready| {
        let listener = TcpListener::bind((SERVER, 9)).await.unwrap();
        ready.send(()).unwrap();
        while let Ok((mut stream, _)) = listener.accept().await {
            let read = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
            counted.fetch_add(read.unwrap_or(0), Ordering::Relaxed);
        }
    });
    swallowed
}

/// Mirrors datagrams and bytes, each at port 7.
pub(crate) fn serve_echoes(server: &Neighbour, at: &'static str) {
    serve_there(server, async move |ready| {
        let datagrams = UdpSocket::bind((at, 7)).await.unwrap();
        let listener = TcpListener::bind((at, 7)).await.unwrap();
        ready.send(()).unwrap();
        let mirror = async {
            let mut bytes = vec![0; 65_536];
            while let Ok((length, from)) = datagrams.recv_from(&mut bytes).await {
                let _ = datagrams.send_to(&bytes[..length], from).await;
            }
        };
        let echo = async {
            while let Ok((mut stream, from)) = listener.accept().await {
                tokio::spawn(async move {
                    // Whom the server sees.
                    let seen = format!("{}\n", from.ip());
                    let _ = stream.write_all(seen.as_bytes()).await;
                    let (mut read, mut write) = stream.split();
                    let mut bytes = vec![0; 65_536];
                    while let Ok(length @ 1..) = read.read(&mut bytes).await {
                        let _ = write.write_all(&bytes[..length]).await;
                    }
                });
            }
        };
        tokio::join!(mirror, echo);
    });
}

pub(crate) fn said(command: &mut Command) -> String {
    let output = command.output().unwrap();
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// A script of Python on this machine, which can send datagrams.
pub(crate) fn local_python(script: &str) -> Command {
    let mut python = Command::new("python3");
    python.args(["-c", &with_udp(script)]);
    python
}

/// A script of Python that can send datagrams.
pub(crate) fn with_udp(script: &str) -> String {
    format!("{UDP}\n{script}")
}

pub(crate) const SERVER: &str = "11.0.0.2";
pub(crate) const SERVER_V6: &str = "2a00:11::2";
/// A datagram that is sent back; it is repeated if that takes long.
const UDP: &str = "
import socket, sys, os, time
def udp():
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
def echo(s, to, payload, tries=100, patience=0.5):
    s.settimeout(patience)
    for i in range(tries):
        try:
            s.sendto(payload, to)
            got = s.recvfrom(65536)[0]
            if got == payload:
                return True
        except OSError:
            time.sleep(0.05)
    return False
";
/// Bytes that are sent back, by TCP.
pub(crate) const STREAM: &str = "
t = socket.create_connection(('11.0.0.2', 7))
f = t.makefile('rb')
seen = f.readline().decode().strip()
payload = os.urandom(300000)
import threading
threading.Thread(target=lambda: t.sendall(payload), daemon=True).start()
print(seen, f.read(300000) == payload)
";
