//! The web server, and the transports to it.

use std::io;
use std::net::SocketAddrV4;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::options::{EntryPoint, Options};
use super::visits::{PATIENCE, Visits};
use crate::measure::{
    Bench, Programs, SOCKS, StepError, own_program, wait_for_file, wait_for_port,
};
use crate::process::Program;
use crate::topology::SERVER;

/// Starts the programs on the hosts.
pub(super) struct Hosts<'a> {
    pub(super) bench: &'a Bench,
    pub(super) programs: &'a Programs,
    pub(super) options: &'a Options,
}

/// An application that makes connections, and what carries them; both end when dropped.
pub(super) struct Application {
    program: Program,
    _daemon: Option<Program>,
}

impl Hosts<'_> {
    /// Starts nginx, which answers each client with the client's address.
    pub(super) fn serve(&self) -> io::Result<Program> {
        let folder = self.bench.folder().join("web");
        std::fs::create_dir_all(folder.join("temp"))?;
        let configuration = format!(
            "daemon off; pid nginx.pid; user root; worker_processes 1;
events {{ worker_connections 8192; }}
http {{
  access_log off; keepalive_timeout 600s; keepalive_requests 1000000; default_type text/plain;
  client_body_temp_path temp; proxy_temp_path temp; fastcgi_temp_path temp;
  uwsgi_temp_path temp; scgi_temp_path temp;
  server {{ listen {WEB} backlog=4096; return 200 $remote_addr; }}
}}
"
        );
        std::fs::write(folder.join("nginx.conf"), configuration)?;
        let server = self.bench.lab().server();
        let mut command = server.command("nginx");
        command.arg("-p").arg(&folder);
        command.args(["-c", "nginx.conf", "-e", "error.log"]);
        let mut web = Program::start("nginx", command, &folder.join("nginx.log"))?;
        wait_for_port(&mut web, WEB, server)?;
        Ok(web)
    }

    /// Starts the application, and returns once its first connections are open.
    pub(super) fn start(&self, way: EntryPoint) -> Result<Application, StepError> {
        let (client, folder) = (self.bench.lab().client(), self.bench.folder());
        let [ready, report] = [READY, REPORT].map(|name| folder.join(name));
        // A folder that is kept may hold those of another run.
        for earlier in [&ready, &report, &folder.join("state")] {
            let _ = std::fs::remove_file(earlier).or_else(|_| std::fs::remove_dir_all(earlier));
        }
        let mut daemon = None;
        let mut command = match way {
            EntryPoint::Port => {
                daemon = Some(self.daemon()?);
                client.command(own_program()?)
            }
            EntryPoint::Shim => self.captured("shim")?,
            EntryPoint::Kernel => self.captured("kernel")?,
        };
        command.args(["meter", "visits", &WEB.to_string()]);
        command.arg(&ready).arg(report);
        for (name, value) in [
            ("--open", self.options.open),
            ("--rate", self.options.rate),
            ("--seconds", self.options.lead + self.options.after),
        ] {
            command.args([name, &value.to_string()]);
        }
        if way == EntryPoint::Port {
            command.args(["--socks", &SOCKS.to_string()]);
        }
        let mut program = Program::start("application", command, &folder.join("application.log"))?;
        wait_for_file(&mut program, &ready)?;
        Ok(Application {
            program,
            _daemon: daemon,
        })
    }

    fn daemon(&self) -> Result<Program, StepError> {
        let client = self.bench.lab().client();
        let mut up = self.hawser()?;
        up.args(["up", "--direct", "--listen", &SOCKS.to_string()]);
        up.args(["--connection-scheduler", self.options.scheduler.name()]);
        let log = self.bench.folder().join("up.log");
        let mut daemon = Program::start("hawser up", up, &log)?;
        wait_for_port(&mut daemon, SOCKS, client)?;
        Ok(daemon)
    }

    /// `hawser run` with this very program behind it.
    fn captured(&self, via: &str) -> Result<Command, StepError> {
        let mut run = self.hawser()?;
        run.args(["run", "--mode", "direct", "--via", via]);
        run.args([
            "--connection-scheduler",
            self.options.scheduler.name(),
            "--",
        ]);
        run.arg(own_program()?);
        Ok(run)
    }

    fn hawser(&self) -> Result<Command, StepError> {
        let mut hawser = self.programs.command(self.bench.lab().client())?;
        hawser.arg("--state").arg(self.bench.folder().join("state"));
        Ok(hawser)
    }
}

impl Application {
    /// Waits for it to end, as it does `within` this time and its own patience.
    pub(super) fn end(mut self, folder: &Path, within: Duration) -> Result<Visits, StepError> {
        let report = folder.join(REPORT);
        let deadline = Instant::now() + within + 3 * PATIENCE;
        while !report.exists() {
            let alive = self.program.check_alive();
            // It may have written its report and ended between the two looks.
            if !report.exists() {
                alive?;
            }
            if Instant::now() >= deadline {
                let said = format!(
                    "the application does not end: {}",
                    self.program.last_words()
                );
                return Err(io::Error::new(io::ErrorKind::TimedOut, said).into());
            }
            std::thread::sleep(POLL);
        }
        Ok(serde_json::from_slice(&std::fs::read(report)?)?)
    }
}

const WEB: SocketAddrV4 = SocketAddrV4::new(SERVER, 80);
const READY: &str = "ready";
const REPORT: &str = "visits.json";
const POLL: Duration = Duration::from_millis(50);
