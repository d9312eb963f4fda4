//! Command-line arguments, and the code that they start.

mod interception;
mod meter;
mod packets_unshaped;
mod run;
mod unshaped;
mod watchers;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use self::interception::InterceptionArguments;
use self::meter::MeterCommand;
use self::packets_unshaped::PacketsUnshapedArguments;
use self::run::{FrontedArguments, RunArguments};
use self::unshaped::UnshapedArguments;
use self::watchers::WatcherArguments;
use crate::connections::ConnectionArguments;
use crate::crowd::CrowdOptions;
use crate::experiment::{Arguments, Single, Tested, begin};
use crate::hostile::HostileOptions;
use crate::idle::IdleOptions;
use crate::measure::Meeting;
use crate::scenario;
use crate::thousand::ThousandOptions;
use crate::{
    association, commands, compare, connect, cut, demo, dying, failover, fairness, gain,
    interactive, interrupt, matrix, messages, objects, packets, peer, privilege, request, roaming,
    router, short, transports,
};

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
    /// The same, with a server that the client never met and that fronts the service
    Fronted(FrontedArguments),
    /// Show the gain: one download over the better link, then over both
    Demo(Tested),
    /// Measure without limits: speed, and processor time of each process
    Unshaped(UnshapedArguments),
    /// Measure the cost of placing connections by the kernel's programs
    Interception(InterceptionArguments),
    /// Make many short connections through Hawser's port
    Short(Single<short::Options>),
    /// Time small requests on one open connection, beside bulk transfers
    Request(Single<request::Options>),
    /// Time new connections: plain, through a fresh session, through a warm one
    Connect(Single<connect::Options>),
    /// Set Hawser's modes beside the best link, MPTCP and WireGuard, by what a user notices
    Compare(Arguments<compare::Options>),
    /// Draw recorded comparisons as one page
    ComparePage(compare::PageOptions),
    /// Let connections come and go towards nginx, placed on links one by one or bonded
    Connections(ConnectionArguments),
    /// Let curl, apt-get and a browser load from nginx: over each link, in turns, and by `hawser
    /// run`
    Gain(Arguments<gain::Options>),
    /// Look for peers among destinations: added delay, and time until one is found
    Peer(Single<peer::Options>),
    /// Lose a link while connections are open on it and new ones are made
    Cut(Single<cut::Options>),
    /// Measure what transfers lose while many clients monitor the daemon
    Watchers(WatcherArguments),
    /// Send over associations of all links, between Hawser's SCTP and usrsctp
    Association(association::Arguments),
    /// Measure how long messages take beside many busy streams, over TCP and over an association
    Messages(Arguments<messages::Options>),
    /// Carry packets of iperf3 and ping by `hawser run --tun`, beside each link alone
    Packets(Arguments<packets::Options>),
    /// Carry one TCP connection as packets over links of unlike rates, by each policy (MMS-E3)
    PacketPolicies(Arguments<packets::PoliciesOptions>),
    /// Let the links of a host come and go, announced and not (MMS-E1, E2)
    Roaming(Arguments<roaming::Options>),
    /// Let hosts behind a router transfer, call and ask for names at the same time
    Router(Arguments<router::Options>),
    /// Carry packets without limits: speed and processor time, beside WireGuard in user space
    PacketsUnshaped(PacketsUnshapedArguments),
    /// Carry sessions over TCP, over associations and by automatic choice, beside usrsctp
    Transports(transports::Arguments),
    /// Measure associations without limits: speed and processor time, beside usrsctp and QUIC
    AssociationSpeed(association::speed::Arguments),
    /// Measure many clients at one gateway at the same time, without limits
    Crowd(CrowdOptions),
    /// Measure a thousand enrolled clients at one gateway: idle, busy, coming back, one hostile
    Thousand(ThousandOptions),
    /// Measure daemons that have nothing to do: memory, processor time, wake-ups, traffic
    Idle(IdleOptions),
    /// Let a peer misbehave by script: memory of the program, and goodput of an honest client
    Hostile(HostileOptions),
    /// Let links fail and return, under load and without
    Failover(Arguments<failover::Options>),
    /// Let links, translators, middleboxes and the gateway fail in all ways, by every transport
    Matrix(matrix::Arguments),
    /// Let links die that still answer, beside a healthy one, in cells drawn by a seed
    Dying(dying::Arguments),
    /// Time objects of 20 kB to 1 MB on a warm session, beside plain TCP
    Objects(Arguments<objects::Options>),
    /// Time a stream of small blocks beside bulk on all links
    Interactive(Arguments<interactive::Options>),
    /// Share a link with one plain TCP
    Fairness(Arguments<fairness::Options>),
    /// List the scenarios of a folder
    List {
        /// The folder
        #[arg(default_value = "scenarios")]
        folder: PathBuf,
    },
    /// List the verdicts of all reports in a folder
    Verdicts {
        /// The folder
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

impl Cli {
    /// Runs the command; the exit code says whether everything was measured.
    pub fn execute(self) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::Meter(command) => command.execute(),
            Command::List { folder } => commands::list(&folder),
            Command::Verdicts { folder } => commands::verdicts(&folder),
            Command::Run(arguments) => arguments.execute(Meeting::Enrolled),
            Command::Fronted(arguments) => arguments.execute(),
            Command::Unshaped(arguments) => arguments.execute(),
            Command::Interception(arguments) => arguments.execute(),
            Command::Short(arguments) => arguments.execute(|o| &o.scenario, short::run),
            Command::Request(arguments) => arguments.execute(|o| &o.scenario, request::run),
            Command::Connect(arguments) => arguments.execute(|o| &o.scenario, connect::run),
            Command::Compare(arguments) => arguments.execute(compare::run),
            Command::ComparePage(options) => options.execute(),
            Command::Connections(arguments) => arguments.execute(),
            Command::Gain(arguments) => arguments.execute(gain::run),
            Command::Peer(arguments) => arguments.execute(|o| &o.scenario, peer::run),
            Command::Cut(arguments) => arguments.execute(|o| &o.scenario, cut::run),
            Command::Watchers(arguments) => arguments.execute(),
            Command::Association(arguments) => arguments.execute(),
            Command::Messages(arguments) => arguments.execute(messages::run),
            Command::Packets(arguments) => arguments.execute(packets::run),
            Command::PacketPolicies(arguments) => arguments.execute(packets::run_policies),
            Command::Roaming(arguments) => arguments.execute(roaming::run),
            Command::Router(arguments) => arguments.execute(router::run),
            Command::PacketsUnshaped(arguments) => arguments.execute(),
            Command::Transports(arguments) => arguments.execute(),
            Command::AssociationSpeed(arguments) => arguments.execute(),
            Command::Crowd(options) => options.execute(),
            Command::Thousand(options) => options.execute(),
            Command::Idle(options) => options.execute(),
            Command::Hostile(options) => options.execute(),
            Command::Failover(arguments) => arguments.execute(failover::run),
            Command::Matrix(arguments) => arguments.execute(),
            Command::Dying(arguments) => arguments.execute(),
            Command::Objects(arguments) => arguments.execute(objects::run),
            Command::Interactive(arguments) => arguments.execute(interactive::run),
            Command::Fairness(arguments) => arguments.execute(fairness::run),
            Command::Demo(tested) => {
                let programs = tested.programs()?;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn request(arguments: &[&str]) -> Result<request::Options, clap::Error> {
        let all = ["hawser-lab", "request"].iter().chain(arguments);
        Cli::try_parse_from(all).map(|cli| match cli.command {
            Command::Request(arguments) => arguments.options,
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn experiments_take_a_transport_and_clients_are_told_of_it() {
        let hawser = std::env::current_exe().unwrap();
        let hawser = hawser.to_str().unwrap();
        for command in ["demo", "unshaped", "peer"] {
            let parse = |more: &[&str]| {
                let all = ["hawser-lab", command, "--hawser", hawser];
                Cli::try_parse_from(all.iter().chain(more))
            };
            assert!(parse(&["--transport", "sctp"]).is_ok(), "{command}");
            assert!(parse(&["--transport", "udp"]).is_err(), "{command}");
        }
        for (more, expected) in [
            (&["--transport", "sctp"][..], &["--transport", "sctp"][..]),
            (&[], &[]),
        ] {
            let all = ["hawser-lab", "demo", "--hawser", hawser];
            let cli = Cli::try_parse_from(all.iter().chain(more)).unwrap();
            let Command::Demo(tested) = cli.command else {
                panic!("{cli:?}");
            };
            let programs = tested.programs().unwrap();
            let told: Vec<_> = programs.transport_arguments().collect();
            assert_eq!(told, expected);
        }
    }

    #[test]
    fn a_request_run_needs_no_arguments() {
        let plain = request(&[]).unwrap();
        assert_eq!((plain.count, plain.size), (500, 100));
        assert_eq!((plain.repeat, plain.only_hawser), (1, false));
        assert!(plain.scenario.ends_with("lossy-both.toml"));
    }

    #[test]
    fn a_request_run_takes_its_options_and_refuses_what_is_out_of_range() {
        let given = request(&["a.toml", "--count", "7", "--size", "9", "--out", "x"]).unwrap();
        assert_eq!((given.count, given.size), (7, 9));
        for wrong in [["--count", "0"], ["--size", "0"], ["--size", "65537"]] {
            assert!(request(&wrong).is_err(), "{wrong:?}");
        }
    }
}
