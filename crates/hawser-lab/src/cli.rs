//! Arguments and what they start.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};
use hawser_types::ByteCount;

use crate::measure::{self, Contender, Options, Programs};
use crate::meter::{self, Congestion, Order};
use crate::scenario::{self, Direction};
use crate::{commands, demo, interrupt, privilege, relay, request, short, unshaped};

/// Network namespaces with shaped links, and real transfers measured in them.
#[derive(Debug, Parser)]
#[command(name = "hawser-lab", version, max_term_width = 79)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure TCP on each link, MPTCP and Hawser in one scenario
    Run(RunArguments),
    /// Show the gain: one download over the better link, then over both
    Demo {
        /// The Hawser binary; else beside this one, else built
        #[arg(long, value_name = "PATH")]
        hawser: Option<PathBuf>,
    },
    /// Measure without limits: speed, and processor time of each process
    Unshaped(UnshapedArguments),
    /// Make many short connections through Hawser's port
    Short(ShortArguments),
    /// Time small requests on one open connection, beside bulk transfers
    Request(RequestArguments),
    /// List the scenarios of a folder
    List {
        /// The folder
        #[arg(default_value = "scenarios")]
        folder: PathBuf,
    },
    /// Run a command in the client namespace of a fresh lab
    Exec {
        /// The scenario file
        scenario: PathBuf,
        /// Run it on the server host instead
        #[arg(long)]
        server: bool,
        /// The command and its arguments
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Open a shell in the client namespace of a fresh lab
    Shell {
        /// The scenario file
        scenario: PathBuf,
    },
    #[command(subcommand, hide = true)]
    Meter(MeterCommand),
}

#[derive(Debug, clap::Args)]
struct RunArguments {
    /// The scenario files
    #[arg(required = true)]
    scenarios: Vec<PathBuf>,
    /// How often each transfer is made
    #[arg(long, default_value_t = 5)]
    repeat: u32,
    /// Print the report as JSON rather than as a table
    #[arg(long)]
    json: bool,
    /// Which way; the scenario's own when not given
    #[arg(long)]
    direction: Option<Ways>,
    /// Only these contenders
    #[arg(long, value_delimiter = ',')]
    only: Vec<Contender>,
    /// Later transfers on each Hawser session
    #[arg(long, default_value_t = 1)]
    warm: u32,
    /// Write the raw report as DIR/NAME.json
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// The Hawser binary; else beside this one, else built
    #[arg(long, value_name = "PATH")]
    hawser: Option<PathBuf>,
    /// Keep the programs' logs in DIR
    #[arg(long, value_name = "DIR")]
    logs: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct UnshapedArguments {
    /// Bytes of each transfer
    #[arg(long, default_value = "4GB")]
    size: ByteCount,
    /// How often each transfer is made
    #[arg(long, default_value_t = 3)]
    repeat: u32,
    /// Which way
    #[arg(long, default_value = "both")]
    direction: Ways,
    /// Leave Hawser out
    #[arg(long)]
    no_hawser: bool,
    /// Print JSON rather than a table
    #[arg(long)]
    json: bool,
    /// Write the figures as DIR/unshaped.json
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// The Hawser binary; else beside this one, else built
    #[arg(long, value_name = "PATH")]
    hawser: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct ShortArguments {
    /// The scenario file
    #[arg(default_value = "scenarios/eq-50.toml")]
    scenario: PathBuf,
    /// How many connections
    #[arg(long, default_value_t = 10_000)]
    connections: u64,
    /// How many at once
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u16).range(1..=2000))]
    parallel: u16,
    /// Print JSON rather than text
    #[arg(long)]
    json: bool,
    /// The Hawser binary; else beside this one, else built
    #[arg(long, value_name = "PATH")]
    hawser: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct RequestArguments {
    /// The scenario file
    #[arg(default_value = "scenarios/lossy-both.toml")]
    scenario: PathBuf,
    /// How many requests, one after another
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    count: u32,
    /// Bytes of a request and of its answer
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=i64::from(meter::MAX_ECHO)))]
    size: u32,
    /// Print JSON rather than a table
    #[arg(long)]
    json: bool,
    /// The Hawser binary; else beside this one, else built
    #[arg(long, value_name = "PATH")]
    hawser: Option<PathBuf>,
    /// Write the raw report as DIR/request-NAME.json
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Ways {
    Put,
    Get,
    Both,
}

impl Ways {
    fn directions(self) -> Vec<Direction> {
        match self {
            Self::Put => vec![Direction::Put],
            Self::Get => vec![Direction::Get],
            Self::Both => vec![Direction::Put, Direction::Get],
        }
    }
}

#[derive(Debug, Subcommand)]
enum MeterCommand {
    /// Serve transfers, over TCP and over MPTCP where there is any
    Serve {
        #[arg(long, default_value_t = measure::TCP_PORT)]
        port: u16,
        #[arg(long, default_value_t = measure::MPTCP_PORT)]
        mptcp_port: u16,
    },
    /// Send bytes to the server
    Put(TransferArguments),
    /// Fetch bytes from the server
    Get(TransferArguments),
    /// Carry connections on to another address
    Relay {
        listen: SocketAddrV4,
        target: SocketAddrV4,
    },
}

#[derive(Debug, clap::Args)]
struct TransferArguments {
    server: SocketAddrV4,
    bytes: u64,
    #[arg(long)]
    src: Option<Ipv4Addr>,
    #[arg(long)]
    device: Option<String>,
    #[arg(long, default_value = "tcp")]
    proto: Protocol,
    #[arg(long)]
    cc: Option<Congestion>,
    #[arg(long)]
    socks: Option<SocketAddrV4>,
    /// Seconds without a byte
    #[arg(long, default_value_t = 60)]
    patience: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Protocol {
    Tcp,
    Mptcp,
}

impl Cli {
    /// Does what the arguments ask; the exit code says whether all of it went well.
    pub fn execute(self) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::Meter(command) => command.execute(),
            Command::List { folder } => commands::list(&folder),
            Command::Run(arguments) => arguments.execute(),
            Command::Unshaped(arguments) => arguments.execute(),
            Command::Short(arguments) => arguments.execute(),
            Command::Request(arguments) => arguments.execute(),
            Command::Demo { hawser } => {
                let programs = Programs::find(hawser.as_deref())?;
                begin()?;
                demo::run(&programs)
            }
            Command::Exec {
                scenario,
                server,
                command,
            } => {
                let scenario = scenario::load(&scenario)?;
                privilege::acquire()?;
                interrupt::ignore_keyboard();
                commands::exec(&scenario, server, &command)
            }
            Command::Shell { scenario } => {
                let scenario = scenario::load(&scenario)?;
                privilege::acquire()?;
                interrupt::ignore_keyboard();
                let shell = std::env::var("SHELL").unwrap_or_else(|_| "/bin/sh".to_owned());
                commands::exec(&scenario, false, &[shell])
            }
        }
    }
}

impl RunArguments {
    fn execute(self) -> anyhow::Result<ExitCode> {
        let all = [Contender::Tcp, Contender::Mptcp, Contender::Hawser];
        let contenders = if self.only.is_empty() {
            all.to_vec()
        } else {
            self.only
        };
        let wants_hawser = contenders.contains(&Contender::Hawser);
        // All files are read before hours are spent on the first.
        let scenarios = self
            .scenarios
            .iter()
            .map(|path| scenario::load(path))
            .collect::<Result<Vec<_>, _>>()?;
        let options = Options {
            repeat: self.repeat.max(1),
            directions: self.direction.map(Ways::directions).unwrap_or_default(),
            hawser: wants_hawser
                .then(|| Programs::find(self.hawser.as_deref()))
                .transpose()?,
            contenders,
            warm: self.warm,
            logs: self.logs,
        };
        begin()?;
        let mut failures = 0;
        for scenario in &scenarios {
            let report = measure::run(scenario, &options)?;
            failures += report.failures();
            if self.json {
                commands::print(&serde_json::to_string(&report)?)?;
            } else {
                commands::print(&measure::render(&report))?;
            }
            if let Some(folder) = &self.out {
                let path = report.write(folder)?;
                eprintln!("written: {}", path.display());
            }
        }
        Ok(if failures == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}

impl UnshapedArguments {
    fn execute(self) -> anyhow::Result<ExitCode> {
        let hawser = (!self.no_hawser)
            .then(|| Programs::find(self.hawser.as_deref()))
            .transpose()?;
        begin()?;
        unshaped::run(&unshaped::Options {
            bytes: self.size,
            repeat: self.repeat.max(1),
            directions: self.direction.directions(),
            hawser,
            json: self.json,
            out: self.out,
        })
    }
}

impl ShortArguments {
    fn execute(self) -> anyhow::Result<ExitCode> {
        let scenario = scenario::load(&self.scenario)?;
        let hawser = Programs::find(self.hawser.as_deref())?;
        begin()?;
        short::run(&short::Options {
            scenario,
            connections: self.connections,
            parallel: self.parallel.into(),
            hawser,
            json: self.json,
        })
    }
}

impl RequestArguments {
    fn execute(self) -> anyhow::Result<ExitCode> {
        let scenario = scenario::load(&self.scenario)?;
        let hawser = Programs::find(self.hawser.as_deref())?;
        begin()?;
        request::run(&request::Options {
            scenario,
            count: self.count,
            size: self.size,
            hawser,
            json: self.json,
            out: self.out,
        })
    }
}

impl MeterCommand {
    fn execute(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Serve { port, mptcp_port } => {
                let plain = meter::serve(port, false)?;
                match meter::serve(mptcp_port, true).or_else(|_| meter::serve(mptcp_port, false)) {
                    Ok(listener) => {
                        std::thread::spawn(move || meter::serve_until_ended(&listener));
                    }
                    Err(error) => eprintln!("meter: port {mptcp_port}: {error}"),
                }
                meter::serve_until_ended(&plain)?;
            }
            Self::Put(arguments) => arguments.execute(Direction::Put)?,
            Self::Get(arguments) => arguments.execute(Direction::Get)?,
            Self::Relay { listen, target } => relay::serve(listen, target)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl TransferArguments {
    fn execute(self, direction: Direction) -> anyhow::Result<()> {
        let order = Order {
            direction,
            server: self.server,
            bytes: self.bytes,
            source: self.src,
            device: self.device,
            mptcp: self.proto == Protocol::Mptcp,
            congestion: self.cc,
            socks: self.socks,
            patience: Duration::from_secs(self.patience.max(1)),
        };
        let outcome = meter::transfer(&order, &AtomicU64::new(0))?;
        commands::print(&serde_json::to_string(&outcome)?)
    }
}

/// Gets ready to build labs: must come before the first thread.
fn begin() -> anyhow::Result<()> {
    privilege::acquire()?;
    interrupt::watch()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(arguments: &[&str]) -> Result<RequestArguments, clap::Error> {
        let all = ["hawser-lab", "request"].iter().chain(arguments);
        Cli::try_parse_from(all).map(|cli| match cli.command {
            Command::Request(arguments) => arguments,
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn a_request_run_needs_no_arguments() {
        let plain = request(&[]).unwrap();
        assert_eq!((plain.count, plain.size, plain.json), (500, 100, false));
        assert!(plain.scenario.ends_with("lossy-both.toml"));
        assert!(plain.hawser.is_none() && plain.out.is_none());
    }

    #[test]
    fn a_request_run_takes_its_options_and_refuses_what_is_out_of_range() {
        let given = request(&["a.toml", "--count", "7", "--size", "9", "--out", "x"]).unwrap();
        assert_eq!((given.count, given.size), (7, 9));
        assert_eq!(given.out, Some(PathBuf::from("x")));
        for wrong in [["--count", "0"], ["--size", "0"], ["--size", "65537"]] {
            assert!(request(&wrong).is_err(), "{wrong:?}");
        }
    }
}
