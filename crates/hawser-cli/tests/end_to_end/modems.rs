//! Signals and states of modems: traffic leaves a modem's link before the link is lost.
//!
//! No machine that runs tests has a modem. The bus and the daemon are real; ModemManager is
//! simulated by a small service of this file, with the objects, properties and the method of
//! ModemManager's documentation. One test uses the distribution's ModemManager, which finds no
//! modem.

use std::collections::HashMap;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use hawser_skip::namespace::in_namespace;
use serde_json::Value as Json;
use tokio::runtime::Runtime;
use zbus::Connection;
use zbus::connection::Builder;
use zbus::fdo::ObjectManager;
use zbus::interface;
use zbus::zvariant::{OwnedObjectPath, Value};

use super::bus::{Bus, Running};
use super::connections::{serve_echo, two_links};
use super::program::{Daemon, Place, until};

#[test]
fn traffic_leaves_a_modems_link_when_its_signal_fades_or_its_network_is_lost() {
    let name = "modems::traffic_leaves_a_modems_link_when_its_signal_fades_or_its_network_is_lost";
    with_bus(name, |bus, place| {
        // A reserve comes before a link that is to be left, and after any other.
        let config = "[[link]]\nname = \"dsl\"\nuse = \"backup\"\n".to_owned() + MEASURED;
        let up = start(bus, place, &config);
        let rank = |expected: u64| move || link(place)["rank"] == expected;
        assert_eq!(link(place)["modem"], Json::Null);

        // It starts later than the daemon.
        let modems = ModemManager::start(bus);
        let state = || link(place)["modem"]["state"].as_str().map(str::to_owned);
        let is = |expected: &'static str| move || state().as_deref() == Some(expected);
        until("the modem is seen", is("connected"), || up.log());
        assert_eq!(link(place)["modem"]["technology"], "LTE");
        until("it is asked to measure", || modems.rate() == 2, || up.log());

        modems.set_strength(-100.2);
        let signal = |expected: &'static str| move || link(place)["signal"]["state"] == expected;
        until("the signal is read", signal("good"), || up.log());
        let read = link(place)["signal"].clone();
        let facts = (&read["dbm"], &read["radio"], &read["source"]);
        assert_eq!(facts, (&(-100).into(), &"lte".into(), &"modem".into()));
        modems.set_strength(-121.0);
        until("the signal fades", signal("fading"), || up.log());
        until("traffic leaves it", rank(2), || up.log());
        assert_eq!(told(place), Some("its signal fades (-121dBm)".to_owned()));
        modems.set_strength(-90.0);
        until("the signal is good", signal("good"), || up.log());
        until("traffic is back", rank(1), || up.log());

        // Registration is denied; ModemManager goes on calling it connected.
        modems.set_registration(3);
        until("the network is lost", is("searching"), || up.log());
        until("traffic leaves it", rank(2), || up.log());
        assert_eq!(
            told(place),
            Some("its modem has no network (LTE)".to_owned())
        );
        modems.set_registration(5);
        until("it has another network", is("roaming"), || up.log());
        until("traffic is back", rank(1), || up.log());

        // A service that is gone tells nothing that holds.
        drop(modems);
        let is_forgotten = || state().is_none() && link(place)["signal"].is_null();
        until("it is forgotten", is_forgotten, || up.log());
        let modems = ModemManager::start(bus);
        until("it is asked again", || modems.rate() == 2, || up.log());
        up.end();
        assert_eq!(modems.rate(), 0, "the modem may sleep again");
    });
}

#[test]
fn modems_measure_only_if_the_user_wants_it_and_no_other_program_does() {
    let name = "modems::modems_measure_only_if_the_user_wants_it_and_no_other_program_does";
    with_bus(name, |bus, place| {
        let modems = ModemManager::start(bus);
        let up = start(bus, place, "");
        modems.set_strength(-100.0);
        let is_read = || !link(place)["signal"].is_null();
        until("what is known anyway is read", is_read, || up.log());
        assert_eq!(modems.rate(), 0);
        up.end();

        modems.set_rate(30);
        let up = start(bus, place, MEASURED);
        until("the signal is read", is_read, || up.log());
        up.end();
        assert_eq!(modems.rate(), 30, "another program's wish");

        modems.set_rate(0);
        let up = start(bus, place, MEASURED);
        until("it is asked to measure", || modems.rate() == 2, || up.log());
        modems.set_rate(30);
        up.end();
        assert_eq!(modems.rate(), 30, "another program's later wish");
    });
}

#[test]
fn a_modem_measures_no_longer_when_the_daemon_is_killed() {
    let name = "modems::a_modem_measures_no_longer_when_the_daemon_is_killed";
    with_bus(name, |bus, place| {
        let modems = ModemManager::start(bus);
        let up = start(bus, place, MEASURED);
        until("it is asked to measure", || modems.rate() == 2, || up.log());
        up.kill();
        until("the modem may sleep", || modems.rate() == 0, String::new);
    });
}

#[test]
fn a_refusal_to_measure_is_told_and_the_modem_is_followed_all_the_same() {
    let name = "modems::a_refusal_to_measure_is_told_and_the_modem_is_followed_all_the_same";
    with_bus(name, |bus, place| {
        let modems = ModemManager::start(bus);
        modems.change_signal(|signal| signal.refuses = true);
        let up = start(bus, place, MEASURED);
        let is_told = || !link(place)["modem"]["reason"].is_null();
        until("it is told", is_told, || up.log());
        let refusal = "its signal is not measured: this user may not call Setup: no";
        let expected = format!("its modem is connected (LTE); {refusal}");
        assert_eq!(told(place), Some(expected));
        let doctor = bus.doctor(place, &place.path("hawser.toml"));
        let expected = "warn  modems: the signal of lte is not measured: this user may not call";
        assert!(doctor.contains(expected), "{doctor}");
        up.end();
        assert_eq!(modems.rate(), 0);
    });
}

#[test]
fn a_service_that_lies_is_read_no_further_and_an_honest_one_after_it_is() {
    let name = "modems::a_service_that_lies_is_read_no_further_and_an_honest_one_after_it_is";
    with_bus(name, |bus, place| {
        let up = start(bus, place, MEASURED);
        for lie in [Lie::TooMuch, Lie::OtherTypes, Lie::Silence] {
            let liar = Liar::start(bus, lie);
            until("it is asked", || liar.was_asked(), || up.log());
            assert_eq!(link(place)["modem"], Json::Null, "{lie:?}");
        }
        let _modems = ModemManager::start(bus);
        let is_seen = || link(place)["modem"]["state"] == "connected";
        until("the honest one is read", is_seen, || up.log());
        up.end();
    });
}

#[test]
fn the_distributions_modem_manager_is_asked_and_has_none() {
    let name = "modems::the_distributions_modem_manager_is_asked_and_has_none";
    with_bus(name, |bus, place| {
        let config = place.path("hawser.toml");
        std::fs::write(&config, MEASURED).unwrap();
        let says = |expected: &str| bus.doctor(place, &config).contains(expected);
        assert!(says("warn  modems: ModemManager does not run"));
        let mut command = Command::new("ModemManager");
        let command = command
            .env("PATH", SERVICES)
            .arg("--test-no-udev")
            .stderr(Stdio::null());
        let _manager = match bus.lend(command).spawn() {
            Ok(manager) => Running(manager),
            Err(error) => {
                let reason = format!("cannot run ModemManager: {error}");
                return hawser_skip::skip(&format!("end_to_end::{name}"), &reason);
            }
        };
        let is_asked = || says("warn  modems: ModemManager knows no modem with the link lte");
        until("it is asked", is_asked, String::new);
    });
}

/// Runs `body` with two links and a bus.
fn with_bus(name: &str, body: impl FnOnce(&Bus, &Place)) {
    in_namespace(name, || {
        let (place, neighbour) = (Place::new(), two_links());
        serve_echo(&neighbour);
        if let Some(bus) = Bus::start(&place, name) {
            body(&bus, &place);
        }
    });
}

/// A daemon with this configuration.
fn start(bus: &Bus, place: &Place, config: &str) -> Daemon {
    let path = place.path("hawser.toml");
    std::fs::write(&path, config).unwrap();
    bus.start_daemon(place, &path, |_| ())
}

/// The modem's link.
fn link(place: &Place) -> Json {
    let status = place.status("client").unwrap();
    let links = status["links"].as_array().unwrap();
    links.iter().find(|it| it["name"] == "lte").unwrap().clone()
}

/// Returns the first line of `hawser links` about the modem's link.
fn told(place: &Place) -> Option<String> {
    let shown = place.run("client", &["links"]).out;
    let lte = shown.lines().find_map(|line| line.strip_prefix("lte: "))?;
    Some(lte.to_owned())
}

/// Stands for ModemManager, with one modem whose link is `lte`.
struct ModemManager {
    runtime: Runtime,
    connection: Option<Connection>,
}

impl ModemManager {
    fn start(bus: &Bus) -> Self {
        let runtime = Runtime::new().unwrap();
        let connection = runtime.block_on(async {
            let path = |text: &str| OwnedObjectPath::try_from(text).unwrap();
            let modem = Modem {
                bearers: vec![path(BEARER)],
            };
            let builder = Builder::address(bus.address()).unwrap();
            let builder = builder.serve_at(ROOT, ObjectManager).unwrap();
            let builder = builder.serve_at(MODEM, modem).unwrap();
            let builder = builder
                .serve_at(MODEM, Network { registration: 1 })
                .unwrap();
            let builder = builder.serve_at(MODEM, Signal::default()).unwrap();
            let builder = builder.serve_at(BEARER, Bearer).unwrap();
            builder.name(NAME).unwrap().build().await.unwrap()
        });
        Self {
            runtime,
            connection: Some(connection),
        }
    }

    /// Changes the signal, and announces the change.
    fn change_signal<T>(&self, change: impl FnOnce(&mut Signal) -> T) -> T {
        self.runtime.block_on(async {
            let server = self.connection.as_ref().unwrap().object_server();
            let signal = server.interface::<_, Signal>(MODEM).await.unwrap();
            let mut inner = signal.get_mut().await;
            let changed = change(&mut inner);
            inner.lte_changed(signal.signal_emitter()).await.unwrap();
            changed
        })
    }

    fn set_strength(&self, rsrp: f64) {
        self.change_signal(|signal| signal.rsrp = Some(rsrp));
    }

    fn set_rate(&self, rate: u32) {
        self.change_signal(|signal| signal.rate = rate);
    }

    /// The seconds between measurements; 0 for none.
    fn rate(&self) -> u32 {
        self.change_signal(|signal| signal.rate)
    }

    fn set_registration(&self, state: u32) {
        self.runtime.block_on(async {
            let server = self.connection.as_ref().unwrap().object_server();
            let network = server.interface::<_, Network>(MODEM).await.unwrap();
            let mut inner = network.get_mut().await;
            inner.registration = state;
            let emitter = network.signal_emitter();
            inner.registration_state_changed(emitter).await.unwrap();
        });
    }
}

impl Drop for ModemManager {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            let _ = self.runtime.block_on(connection.close());
        }
    }
}

struct Modem {
    bearers: Vec<OwnedObjectPath>,
}

#[interface(name = "org.freedesktop.ModemManager1.Modem")]
impl Modem {
    /// Connected.
    #[zbus(property)]
    fn state(&self) -> i32 {
        11
    }

    /// LTE.
    #[zbus(property)]
    fn access_technologies(&self) -> u32 {
        1 << 14
    }

    /// One for commands, and one for data.
    #[zbus(property)]
    fn ports(&self) -> Vec<(String, u32)> {
        vec![("ttyUSB2".to_owned(), 3), ("lte".to_owned(), 2)]
    }

    #[zbus(property)]
    fn bearers(&self) -> Vec<OwnedObjectPath> {
        self.bearers.clone()
    }
}

struct Network {
    registration: u32,
}

#[interface(name = "org.freedesktop.ModemManager1.Modem.Modem3gpp")]
impl Network {
    #[zbus(property)]
    fn registration_state(&self) -> u32 {
        self.registration
    }
}

#[derive(Default)]
struct Signal {
    rate: u32,
    /// Whether requests are refused.
    refuses: bool,
    rsrp: Option<f64>,
}

#[interface(name = "org.freedesktop.ModemManager1.Modem.Signal")]
impl Signal {
    fn setup(&mut self, rate: u32) -> zbus::fdo::Result<()> {
        if self.refuses {
            return Err(zbus::fdo::Error::AccessDenied("no".to_owned()));
        }
        self.rate = rate;
        Ok(())
    }

    #[zbus(property)]
    fn rate(&self) -> u32 {
        self.rate
    }

    #[zbus(property)]
    fn lte(&self) -> HashMap<String, Value<'static>> {
        let facts = self.rsrp.map(|rsrp| ("rsrp".to_owned(), rsrp.into()));
        facts.into_iter().collect()
    }
}

struct Bearer;

#[interface(name = "org.freedesktop.ModemManager1.Bearer")]
impl Bearer {
    #[zbus(property)]
    fn interface(&self) -> String {
        "lte".to_owned()
    }

    #[zbus(property)]
    fn connected(&self) -> bool {
        true
    }
}

/// A misbehaving ModemManager.
struct Liar {
    runtime: Runtime,
    connection: Option<Connection>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Lie {
    /// More modems than fit into the memory reserved for them.
    TooMuch,
    /// Words where numbers should be, and numbers where lists should be.
    OtherTypes,
    /// No answer.
    Silence,
}

struct Lying {
    lie: Lie,
    asked: AtomicU64,
}

type Listed = HashMap<OwnedObjectPath, HashMap<String, HashMap<String, Value<'static>>>>;

#[interface(name = "org.freedesktop.DBus.ObjectManager")]
impl Lying {
    async fn get_managed_objects(&self) -> Listed {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let count = match self.lie {
            Lie::TooMuch => 20_000,
            Lie::OtherTypes => 10,
            Lie::Silence => std::future::pending().await,
        };
        let modem = |number: u32| {
            let path = OwnedObjectPath::try_from(format!("{ROOT}/Modem/{number}")).unwrap();
            let (state, ports) = match self.lie {
                Lie::OtherTypes => (Value::from("connected"), Value::from(7_u8)),
                _ => (
                    Value::from(11),
                    Value::from(vec![("lte".to_owned(), 2_u32)]),
                ),
            };
            let facts = [
                ("State".to_owned(), state),
                ("Ports".to_owned(), ports.try_clone().unwrap()),
                ("Bearers".to_owned(), ports),
            ];
            let interface = "org.freedesktop.ModemManager1.Modem".to_owned();
            (path, HashMap::from([(interface, HashMap::from(facts))]))
        };
        (0..count).map(modem).collect()
    }
}

impl Liar {
    fn start(bus: &Bus, lie: Lie) -> Self {
        let runtime = Runtime::new().unwrap();
        let asked = AtomicU64::new(0);
        let connection = runtime.block_on(async {
            let builder = Builder::address(bus.address()).unwrap();
            let builder = builder.serve_at(ROOT, Lying { lie, asked }).unwrap();
            builder.name(NAME).unwrap().build().await.unwrap()
        });
        Self {
            runtime,
            connection: Some(connection),
        }
    }

    /// Makes the daemon ask again. Returns whether it has read the invalid answer.
    fn was_asked(&self) -> bool {
        let connection = self.connection.as_ref().unwrap();
        self.runtime.block_on(async {
            let noticed = connection.emit_signal(None::<&str>, ROOT, NAME, "Changed", &());
            noticed.await.unwrap();
            let server = connection.object_server();
            let lying = server.interface::<_, Lying>(ROOT).await.unwrap();
            let lying = lying.get().await;
            // A second request shows that the first answer was read.
            let enough = if lying.lie == Lie::Silence { 1 } else { 2 };
            lying.asked.load(Ordering::Relaxed) >= enough
        })
    }
}

impl Drop for Liar {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            let _ = self.runtime.block_on(connection.close());
        }
    }
}

const MEASURED: &str = "[[link]]\nname = \"lte\"\nmeasure-signal = \"2s\"\n";
const NAME: &str = "org.freedesktop.ModemManager1";
const ROOT: &str = "/org/freedesktop/ModemManager1";
const MODEM: &str = "/org/freedesktop/ModemManager1/Modem/0";
const BEARER: &str = "/org/freedesktop/ModemManager1/Bearer/0";
/// Where distributions keep services.
const SERVICES: &str = "/usr/sbin:/sbin:/usr/bin:/bin";
