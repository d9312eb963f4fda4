//! Arguments and what they start.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};

use crate::measure::{self, Contender, Options};
use crate::meter::{self, Congestion, Order};
use crate::scenario::{Direction, Scenario};
use crate::{commands, privilege};

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

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Ways {
    Put,
    Get,
    Both,
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
            Command::Run(arguments) => {
                privilege::acquire()?;
                arguments.execute()
            }
            Command::Exec {
                scenario,
                server,
                command,
            } => {
                let scenario = Scenario::load(&scenario)?;
                privilege::acquire()?;
                commands::exec(&scenario, server, &command)
            }
            Command::Shell { scenario } => {
                let scenario = Scenario::load(&scenario)?;
                privilege::acquire()?;
                let shell = std::env::var("SHELL").unwrap_or_else(|_| "/bin/sh".to_owned());
                commands::exec(&scenario, false, &[shell])
            }
        }
    }
}

impl RunArguments {
    fn execute(self) -> anyhow::Result<ExitCode> {
        let options = Options {
            repeat: self.repeat.max(1),
            directions: match self.direction {
                None => Vec::new(),
                Some(Ways::Put) => vec![Direction::Put],
                Some(Ways::Get) => vec![Direction::Get],
                Some(Ways::Both) => vec![Direction::Put, Direction::Get],
            },
            contenders: if self.only.is_empty() {
                vec![Contender::Tcp, Contender::Mptcp, Contender::Hawser]
            } else {
                self.only
            },
            warm: self.warm,
            hawser: self.hawser,
            logs: self.logs,
        };
        // All files are read before hours are spent on the first.
        let scenarios = self
            .scenarios
            .iter()
            .map(|path| Scenario::load(path))
            .collect::<Result<Vec<_>, _>>()?;
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
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl TransferArguments {
    fn execute(self, direction: Direction) -> anyhow::Result<()> {
        let outcome = meter::transfer(&Order {
            direction,
            server: self.server,
            bytes: self.bytes,
            source: self.src,
            device: self.device,
            mptcp: self.proto == Protocol::Mptcp,
            congestion: self.cc,
            socks: self.socks,
            patience: Duration::from_secs(self.patience.max(1)),
        })?;
        commands::print(&serde_json::to_string(&outcome)?)
    }
}
