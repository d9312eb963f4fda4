//! WireGuard in user space at both ends: a reference for tunnels of packets.

use std::ffi::OsStr;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::ip;
use crate::measure::{Bench, StepError};
use crate::netns::NetNs;
use crate::process::Program;
use crate::topology::LabError;

/// A tunnel that stands as long as this lives.
#[derive(Debug)]
pub(crate) struct WireGuard {
    near: Program,
    far: Program,
}

impl WireGuard {
    /// Starts `program` (wireguard-go, boringtun-cli) at both ends, over link `index`, from 0.
    pub(crate) fn start(bench: &Bench, program: &OsStr, index: usize) -> Result<Self, StepError> {
        let lab = bench.lab();
        let start = |host: &NetNs, device: &str| {
            let mut command = host.command(program);
            command.args(["-f", device]);
            let log = bench.folder().join(format!("{device}.log"));
            Program::start("wireguard", command, &log)
        };
        let mut both = Self {
            near: start(lab.client(), NEAR)?,
            far: start(lab.server(), FAR)?,
        };
        let port = ENDPOINT_PORT;
        let endpoint = SocketAddrV4::new(lab.links()[index].gateway(), port);
        configure(
            &mut both.far,
            FAR,
            &format!(
                "private_key={B_PRIVATE}\nlisten_port={port}\npublic_key={A_PUBLIC}\n\
                 allowed_ip={CLIENT}/32\n"
            ),
        )?;
        configure(
            &mut both.near,
            NEAR,
            &format!(
                "private_key={A_PRIVATE}\npublic_key={B_PUBLIC}\nendpoint={endpoint}\n\
                 allowed_ip={FAR_END}/32\n"
            ),
        )?;
        for (host, device, own, other) in [
            (lab.client(), NEAR, CLIENT, FAR_END),
            (lab.server(), FAR, FAR_END, CLIENT),
        ] {
            let lines = [
                format!("address add {own}/32 dev {device}"),
                format!("link set {device} mtu {MTU} up"),
                format!("route add {other}/32 dev {device} src {own}"),
            ];
            ip::batch(host, &lines).map_err(LabError::from)?;
        }
        Ok(both)
    }

    /// An error when the program has ended at either end.
    pub(crate) fn check_alive(&mut self) -> io::Result<()> {
        [&mut self.near, &mut self.far]
            .into_iter()
            .try_for_each(Program::check_alive)
    }

    /// The processes at the client and at the server.
    pub(crate) fn ids(&self) -> [u32; 2] {
        [self.near.id(), self.far.id()]
    }
}

/// Sets a device up over its socket (the cross-platform interface of WireGuard).
fn configure(program: &mut Program, device: &str, lines: &str) -> io::Result<()> {
    let path = PathBuf::from(SOCKETS).join(format!("{device}.sock"));
    let deadline = Instant::now() + STARTS;
    let mut socket = loop {
        match UnixStream::connect(&path) {
            Ok(socket) => break socket,
            Err(error) if Instant::now() > deadline => return Err(error),
            Err(_) => program.check_alive()?,
        }
        std::thread::sleep(PAUSE);
    };
    socket.write_all(format!("set=1\n{lines}\n").as_bytes())?;
    let mut answer = [0; 256];
    let length = socket.read(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer[..length]);
    match answer.trim() {
        "errno=0" => Ok(()),
        other => Err(io::Error::other(format!(
            "WireGuard refuses its setup: {other}"
        ))),
    }
}

/// The far end inside the tunnel.
pub(crate) const FAR_END: Ipv4Addr = Ipv4Addr::new(10, 98, 0, 1);
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 98, 0, 2);
const ENDPOINT_PORT: u16 = 51_820;
const NEAR: &str = "hwlab-near";
const FAR: &str = "hwlab-far";
const SOCKETS: &str = "/var/run/wireguard";
/// As Hawser's tunnel.
const MTU: u16 = hawser_front::packets::MTU;
const STARTS: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);
/// Two pairs of keys. They protect nothing.
const A_PRIVATE: &str = "1111111111111111111111111111111111111111111111111111111111111111";
const A_PUBLIC: &str = "7b4e909bbe7ffe44c465a220037d608ee35897d31ef972f07f74892cb0f73f13";
const B_PRIVATE: &str = "2222222222222222222222222222222222222222222222222222222222222222";
const B_PUBLIC: &str = "0faa684ed28867b97f4a6a2dee5df8ce974e76b7018e3f22a1c4cf2678570f20";
