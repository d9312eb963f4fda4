//! The candidates that carry a transfer over unshaped links, with the programs that they need.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::PathBuf;
use std::time::Duration;

use hawser::Encryption;

use super::options::Options;
use crate::measure::{
    Bench, LibraryServer, Programs, Session, StepError, own_program, wait_for_port,
};
use crate::meter::{Congestion, Embedding, LibraryOrder, Order, Outcome};
use crate::netns::NetNs;
use crate::process::Program;
use crate::scenario::Direction;
use crate::topology::SERVER;

/// One way to carry transfers, ready to be measured.
pub(super) struct Candidate {
    /// Name in reports.
    pub(super) by: &'static str,
    /// Processes whose time counts, beside that of the measuring client.
    pub(super) watched: Vec<(&'static str, u32)>,
    transfer: Transfer,
    // They end with the candidate.
    _programs: Vec<Program>,
    _session: Option<Session>,
}

enum Transfer {
    Meter(Order),
    Library(LibraryOrder),
}

impl Candidate {
    /// One transfer.
    pub(super) fn run(&self, bench: &Bench) -> Result<Outcome, StepError> {
        match &self.transfer {
            Transfer::Meter(order) => bench.transfer(order, LIMIT, &[]),
            Transfer::Library(order) => bench.library_transfer(order, LIMIT),
        }
    }

    fn direct(bench: &Bench, by: &'static str, order: Order) -> Self {
        Self {
            by,
            watched: vec![("server", bench.meter_id())],
            transfer: Transfer::Meter(order),
            _programs: Vec::new(),
            _session: None,
        }
    }
}

/// A candidate, or its name and why it could not be started.
pub(super) type Started = Result<Candidate, (&'static str, StepError)>;

/// Starts everything that is to be measured in one direction.
pub(super) fn start(options: &Options, bench: &Bench, direction: Direction) -> Vec<Started> {
    let bytes = options.bytes;
    let plain = |control| bench.tcp_order(0, control, direction, bytes);
    let mut all: Vec<Started> = vec![
        Ok(Candidate::direct(bench, "tcp", plain(Congestion::Cubic))),
        Ok(Candidate::direct(bench, "tcp bbr", plain(Congestion::Bbr))),
    ];
    if bench.lab().speaks_mptcp() {
        let order = |control| bench.mptcp_order(control, direction, bytes);
        all.push(Ok(Candidate::direct(
            bench,
            MPTCP,
            order(Congestion::Cubic),
        )));
        let by = "mptcp bbr";
        all.push(Ok(Candidate::direct(bench, by, order(Congestion::Bbr))));
    }
    let named = |by: &'static str| move |error| (by, error);
    all.push(relays(options, bench, direction).map_err(named(RELAYS)));
    if let Some(programs) = &options.hawser {
        all.push(proxies(options, bench, direction, programs).map_err(named(HAWSER)));
    }
    for (by, encryption) in [
        (LIBRARY, Encryption::Default),
        (LIBRARY_PLAIN, Encryption::None),
    ] {
        let started = endpoints(options, bench, direction, by, encryption);
        all.push(started.map_err(named(by)));
    }
    all
}

/// Plain TCP through a relay on either host, the least that any proxy pair can cost.
fn relays(options: &Options, bench: &Bench, direction: Direction) -> Result<Candidate, StepError> {
    let relay = |host: &NetNs, name: &str, from: SocketAddrV4, to: SocketAddrV4| {
        let mut command = host.command(own_program()?);
        command.args(["meter", "relay", &from.to_string(), &to.to_string()]);
        let log = bench.folder().join(format!("{name}.log"));
        let mut program = Program::start(name, command, &log)?;
        wait_for_port(&mut program, from, host)?;
        Ok::<_, StepError>(program)
    };
    let lab = bench.lab();
    let far = relay(lab.server(), "server relay", FAR, bench.server_address())?;
    let near = relay(lab.client(), "client relay", NEAR, FAR)?;
    let order = Order {
        server: NEAR,
        ..bench.plain_order(direction, options.bytes)
    };
    Ok(Candidate {
        watched: proxied(bench, near.id(), far.id()),
        _programs: vec![near, far],
        ..Candidate::direct(bench, RELAYS, order)
    })
}

/// Hawser's own port and gateway.
fn proxies(
    options: &Options,
    bench: &Bench,
    direction: Direction,
    programs: &Programs,
) -> Result<Candidate, StepError> {
    let session = Session::start(bench, programs, direction as u32)?;
    let [client, gateway] = session.ids();
    let order = bench.socks_order(session.socks(), direction, options.bytes);
    Ok(Candidate {
        watched: proxied(bench, client, gateway),
        _session: Some(session),
        ..Candidate::direct(bench, HAWSER, order)
    })
}

fn proxied(bench: &Bench, near: u32, far: u32) -> Vec<(&'static str, u32)> {
    vec![
        ("client proxy", near),
        ("server proxy", far),
        ("server", bench.meter_id()),
    ]
}

/// Two programs that embed the library.
fn endpoints(
    options: &Options,
    bench: &Bench,
    direction: Direction,
    by: &'static str,
    encryption: Encryption,
) -> Result<Candidate, StepError> {
    let name = format!("{}-{}", by.replace(' ', "-"), direction.name());
    let folder: PathBuf = bench.folder().join(name);
    let how = Embedding {
        encryption,
        transport: options.transport,
    };
    let LibraryServer { program, invite } = bench.serve_library(&folder, 1, how)?;
    let links = bench.lab().links().iter();
    Ok(Candidate {
        by,
        watched: vec![("server", program.id())],
        transfer: Transfer::Library(LibraryOrder {
            direction,
            bytes: options.bytes.as_u64(),
            invite,
            state: folder.join("client"),
            links: links.map(|link| link.interface.clone()).collect(),
            how,
        }),
        _programs: vec![program],
        _session: None,
    })
}

pub(super) const MPTCP: &str = "mptcp";
pub(super) const RELAYS: &str = "two relays";
pub(super) const HAWSER: &str = "hawser";
pub(super) const LIBRARY: &str = "library";
pub(super) const LIBRARY_PLAIN: &str = "library plain";
const NEAR: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 5100);
const FAR: SocketAddrV4 = SocketAddrV4::new(SERVER, 5100);
const LIMIT: Duration = Duration::from_secs(180);
