//! Labs on the real kernel. Without namespaces each test reports that and is skipped.

mod common;

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use common::can_make_labs;
use hawser_lab::meter::{self, Order, Outcome};
use hawser_lab::netns::NetNs;
use hawser_lab::scenario::{self, Action, Direction, Scenario, no_files};
use hawser_lab::topology::{Lab, SERVER};
use socket2::{Domain, Socket, Type};

#[test]
fn a_transfer_arrives_whole_and_never_above_the_links_rate() {
    let Some(lab) = lab(
        "a_transfer_arrives_whole_and_never_above_the_links_rate",
        PLAIN,
    ) else {
        return;
    };
    serve_meter(&lab);
    for direction in [Direction::Put, Direction::Get] {
        for (device, rate, round_trip) in [("l1", 20.0, 0.010), ("l2", 10.0, 0.040)] {
            let outcome = transfer(&lab, device, direction, 500_000).unwrap();
            assert!(outcome.ok, "{outcome:?}");
            assert!(
                outcome.mbps < rate,
                "{} over {rate} on {device}",
                outcome.mbps
            );
            assert!(outcome.connect_seconds >= round_trip * 0.98, "{outcome:?}");
        }
    }
    assert_eq!(lab.counters().missed, 0);
}

#[test]
fn what_interception_costs_is_measured_where_connections_are_captured() {
    let name = "what_interception_costs_is_measured_where_connections_are_captured";
    if !common::can_make_labs(name) {
        return;
    }
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_hawser-lab"));
    command.args(["interception", "--rounds", "2", "--connections", "20"]);
    let output = command
        .args(["--transfers", "0", "--json"])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    if ["not permitted", "no control groups", "too old"]
        .iter()
        .any(|no| errors.contains(no))
    {
        return hawser_skip::skip(&format!("lab::{name}"), &errors);
    }
    assert!(output.status.success(), "{errors}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    for connects in report["connects"].as_array().unwrap() {
        assert_eq!(connects["rounds"].as_array().unwrap().len(), 2);
        assert!(connects["captured"]["median"].as_f64().unwrap() > 0.0);
    }
}

#[test]
fn a_report_is_written_as_a_page_with_its_charts() {
    let name = "a_report_is_written_as_a_page_with_its_charts";
    if !can_make_labs(name) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let scenario = folder.path().join("plain.toml");
    std::fs::write(&scenario, PLAIN).unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_hawser-lab"))
        .args(["run", "--only", "tcp", "--repeat", "1", "--seconds", "1"])
        .args(["--direction", "get", "--html"])
        .args([folder.path(), &scenario])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let page = std::fs::read_to_string(folder.path().join("run-plain.html")).unwrap();
    assert!(page.contains("<h2>get: rate over time</h2>"));
    for name in ["tcp link 1 ", "tcp link 2 "] {
        assert!(page.contains(&format!("\"name\":\"{name}")), "{page}");
    }
    // What is on the terminal is there, too.
    let line = String::from_utf8_lossy(&output.stdout);
    let line = line.lines().next().unwrap();
    assert!(
        line.starts_with("run plain: ") && page.contains(line),
        "{line}"
    );
}

#[test]
fn two_labs_with_the_same_addresses_do_not_meet() {
    let name = "two_labs_with_the_same_addresses_do_not_meet";
    let (Some(first), Some(second)) = (lab(name, PLAIN), lab(name, PLAIN)) else {
        return;
    };
    serve_meter(&first);
    assert!(transfer(&first, "l1", Direction::Put, 100_000).unwrap().ok);
    let unserved = transfer(&second, "l1", Direction::Put, 100_000).unwrap_err();
    assert_eq!(unserved.kind(), io::ErrorKind::ConnectionRefused);
}

#[test]
fn a_black_hole_is_silent_and_ends() {
    let Some(lab) = lab("a_black_hole_is_silent_and_ends", PLAIN) else {
        return;
    };
    let _listener = listen(lab.server());
    connect(&lab, "l2").unwrap();
    lab.apply(1, Action::BlackHole).unwrap();
    let silence = connect_within(SHORT, &lab, "l2").unwrap_err();
    assert_eq!(silence.kind(), io::ErrorKind::TimedOut, "{silence}");
    connect(&lab, "l1").unwrap();
    lab.apply(1, Action::Pass).unwrap();
    connect(&lab, "l2").unwrap();
}

#[test]
fn a_link_becomes_another_one_while_packets_pass() {
    let name = "a_link_becomes_another_one_while_packets_pass";
    let Some(lab) = lab(name, PLAIN) else {
        return;
    };
    serve_meter(&lab);
    let slower = PLAIN.replace("20Mbit/s", "2Mbit/s");
    let slower = Scenario::parse(name, &slower, &no_files).unwrap().links;
    let emulator = lab.emulator().unwrap();
    emulator.change_link(0, slower[0].clone());
    for direction in [Direction::Put, Direction::Get] {
        let rate = |device| transfer(&lab, device, direction, 500_000).unwrap().mbps;
        let (changed, other) = (rate("l1"), rate("l2"));
        assert!(changed < 2.0 && other > 2.0, "{changed}, {other}");
    }
}

#[test]
fn a_carrier_goes_and_comes_back() {
    let Some(lab) = lab("a_carrier_goes_and_comes_back", PLAIN) else {
        return;
    };
    let _listener = listen(lab.server());
    let has_carrier = || {
        let output = lab
            .client()
            .command("ip")
            .args(["link", "show", "l1"])
            .output()
            .unwrap();
        !String::from_utf8_lossy(&output.stdout).contains("NO-CARRIER")
    };
    assert!(has_carrier());
    lab.apply(0, Action::CarrierDown).unwrap();
    assert!(!has_carrier());
    lab.apply(0, Action::CarrierUp).unwrap();
    eventually(has_carrier);
    eventually(|| connect_within(SHORT, &lab, "l1").is_ok());
}

#[test]
fn a_changed_address_is_the_one_that_the_server_sees() {
    let Some(lab) = lab("a_changed_address_is_the_one_that_the_server_sees", PLAIN) else {
        return;
    };
    let listener = listen(lab.server());
    let seen = |device: &str| {
        connect(&lab, device).unwrap();
        listener.accept().unwrap().1.ip()
    };
    let old = lab.links()[1].address();
    assert_eq!(seen("l2"), old);
    lab.apply(1, Action::AddressChange).unwrap();
    let new = lab.links()[1].address();
    assert_ne!(old, new);
    assert_eq!(seen("l2"), new);
}

#[test]
fn modems_with_one_address_lead_to_the_server_as_two() {
    let Some(lab) = lab("modems_with_one_address_lead_to_the_server_as_two", MODEMS) else {
        return;
    };
    assert_eq!(lab.links()[0].address(), lab.links()[1].address());
    let listener = listen(lab.server());
    let seen = ["l1", "l2"].map(|device| {
        connect(&lab, device).unwrap();
        listener.accept().unwrap().1.ip()
    });
    assert_ne!(seen[0], seen[1]);
    serve_meter(&lab);
    assert!(transfer(&lab, "l2", Direction::Get, 200_000).unwrap().ok);
}

#[test]
fn a_bound_source_leaves_by_its_own_link() {
    let Some(lab) = lab("a_bound_source_leaves_by_its_own_link", PLAIN) else {
        return;
    };
    let _listener = listen(lab.server());
    lab.apply(0, Action::BlackHole).unwrap();
    let try_from = |source: Ipv4Addr, patience| {
        lab.client().run(|| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
            socket.bind(&SocketAddrV4::new(source, 0).into())?;
            socket.connect_timeout(&TARGET.into(), patience)
        })
    };
    try_from(lab.links()[1].address(), PATIENCE).unwrap();
    assert!(try_from(lab.links()[0].address(), SHORT).is_err());
}

#[test]
fn programs_hear_that_they_are_to_end_though_the_lab_blocks_signals() {
    let name = "programs_hear_that_they_are_to_end_though_the_lab_blocks_signals";
    let Some(lab) = lab(name, PLAIN) else {
        return;
    };
    // SAFETY: the set is initialised before use, and only this thread's mask changes.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGTERM);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
    }
    let mut command = lab.client().command("cat");
    let output = command.arg("/proc/self/status").output().unwrap();
    let status = String::from_utf8_lossy(&output.stdout).into_owned();
    let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
    assert_eq!(blocked.map(str::trim), Some("0000000000000000"));
}

#[test]
fn stripped_options_are_not_agreed_on() {
    let text = PLAIN.replacen("queue", "strip = [\"sack\", \"unknown\"]\nqueue", 1);
    let Some(lab) = lab("stripped_options_are_not_agreed_on", &text) else {
        return;
    };
    let _listener = listen(lab.server());
    assert_eq!(agreed(&lab, "l1") & (STAMPS | SACK), STAMPS);
    assert_eq!(agreed(&lab, "l2") & (STAMPS | SACK), STAMPS | SACK);
    serve_meter(&lab);
    let outcome = transfer(&lab, "l1", Direction::Get, 500_000).unwrap();
    assert!(outcome.ok, "{outcome:?}");
}

#[test]
fn what_only_the_simulator_has_is_refused() {
    let text = PLAIN.replacen(
        "queue",
        "nat = { forget = \"1s\", then = \"reset\" }\nqueue",
        1,
    );
    let scenario = Scenario::parse("nat", &text, &no_files).unwrap();
    let error = Lab::shaped(&scenario).err().unwrap();
    assert!(
        error
            .to_string()
            .contains("link 1 has a translation that forgets"),
        "{error}"
    );
}

#[test]
fn a_line_that_links_could_fill_in_front_of_the_server_is_refused() {
    let text = format!("{PLAIN}[server]\nrate = \"29Mbit/s\"\n");
    let scenario = Scenario::parse("server", &text, &no_files).unwrap();
    let error = Lab::shaped(&scenario).err().unwrap();
    assert!(error.to_string().contains("`server`"), "{error}");
}

#[test]
fn every_shipped_scenario_is_valid() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let read = |folder: &Path| std::fs::read_dir(folder).unwrap();
    let files = [folder.clone(), folder.join("gain")];
    let files = files.iter().flat_map(|folder| read(folder));
    let mut count = 0;
    for path in files.map(|entry| entry.unwrap().path()) {
        if path.extension().is_some_and(|ending| ending == "toml") {
            let scenario = scenario::load(&path).unwrap();
            assert!(!scenario.summary.is_empty(), "{}", path.display());
            count += 1;
        }
    }
    assert!(count >= 17, "{count}");
}

/// A lab, or nothing where the machine forbids one.
fn lab(test: &str, text: &str) -> Option<Lab> {
    let scenario = Scenario::parse(test, text, &no_files).unwrap();
    can_make_labs(test).then(|| Lab::shaped(&scenario).unwrap())
}

fn serve_meter(lab: &Lab) {
    let listener = lab
        .server()
        .run(|| meter::serve(METER.port(), false, None))
        .unwrap();
    std::thread::spawn(move || meter::serve_until_ended(&listener));
}

fn transfer(lab: &Lab, device: &str, direction: Direction, bytes: u64) -> io::Result<Outcome> {
    let order = Order {
        direction,
        server: METER,
        bytes,
        source: None,
        device: Some(device.to_owned()),
        mptcp: false,
        congestion: None,
        socks: None,
        patience: PATIENCE,
    };
    lab.client()
        .run(|| meter::transfer(&order, &AtomicU64::new(0)))
}

fn listen(host: &NetNs) -> TcpListener {
    host.run(|| TcpListener::bind(TARGET)).unwrap()
}

/// What both ends agreed on, as `TCP_INFO` has it (`tcpi_options`).
fn agreed(lab: &Lab, device: &str) -> u8 {
    let options = || {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind_device(Some(device.as_bytes())).unwrap();
        socket.connect_timeout(&TARGET.into(), PATIENCE).unwrap();
        let mut info = [0_u8; 8];
        let mut length = info.len() as libc::socklen_t;
        // SAFETY: the kernel writes at most as many bytes as it is told.
        let result = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                info.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        assert_eq!(result, 0);
        Ok(info[5])
    };
    lab.client().run(options).unwrap()
}

/// Connects over one link, and sends a byte so that the connection is known to stand.
fn connect(lab: &Lab, device: &str) -> io::Result<()> {
    connect_within(PATIENCE, lab, device)
}

fn connect_within(patience: Duration, lab: &Lab, device: &str) -> io::Result<()> {
    lab.client().run(|| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.bind_device(Some(device.as_bytes()))?;
        socket.connect_timeout(&TARGET.into(), patience)?;
        let mut stream: TcpStream = socket.into();
        stream.set_read_timeout(Some(Duration::from_millis(1)))?;
        stream.write_all(b"x")?;
        let _ = stream.read(&mut [0]);
        Ok(())
    })
}

fn eventually(mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "did not come true in time");
        std::thread::sleep(Duration::from_millis(10));
    }
}

const METER: SocketAddrV4 = SocketAddrV4::new(SERVER, 5001);
const TARGET: SocketAddrV4 = SocketAddrV4::new(SERVER, 9000);
/// For what comes about, on a machine with much else to do.
const PATIENCE: Duration = Duration::from_secs(60);
/// For what does not.
const SHORT: Duration = Duration::from_secs(2);
/// `TCPI_OPT_TIMESTAMPS` and `TCPI_OPT_SACK`.
const STAMPS: u8 = 1;
const SACK: u8 = 2;
const PLAIN: &str = r#"
payload = "1MB"
[[link]]
rate = "20Mbit/s"
delay = "5ms"
queue = "60ms"
[[link]]
rate = "10Mbit/s"
delay = "20ms"
queue = "100ms"
"#;
const MODEMS: &str = r#"
payload = "1MB"
[[link]]
rate = "20Mbit/s"
delay = "5ms"
behind = "192.168.8.100"
[[link]]
rate = "10Mbit/s"
delay = "20ms"
behind = "192.168.8.100"
"#;
