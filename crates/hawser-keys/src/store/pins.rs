//! Keys of servers that this host has met without enrolling, and its own keys for them.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::dir::StateDir;
use super::error::{StoreError, Version};
use super::json_file::{JsonFile, Stored};
use super::later_fields::LaterFields;
use super::secret;
use super::state_file::StateFile;
use super::tense::Tense;
use crate::files::FileError;
use crate::identity::{Identity, PublicKey};
use crate::unix_time::UnixTime;
use hawser_types::{network_of, provider_of};

/// Keys of servers, each pinned for an address and port until some time, in the file
/// `servers.json`.
///
/// This host has a separate key for each pinned server, which ends with the pin. Servers that
/// compare these keys find none in common. The keys are derived from a secret of this host and a
/// random number in the pin, so the file holds no secret.
///
/// Can be shared by many tasks. Reading is quick and touches no file; a change blocks for the time
/// of a few disk accesses.
pub struct PinStore {
    file: JsonFile<State>,
    secret: Zeroizing<String>,
}

/// A server's key, pinned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pin {
    /// The server's address and port.
    pub at: SocketAddr,
    /// The server's key.
    pub key: PublicKey,
    /// Time at which the pin ends.
    pub until: UnixTime,
    /// Whether the server has accepted a stream to this port, so the port is known to be its own.
    pub is_confirmed: bool,
}

/// A key of this host for a server whose key is not known yet.
#[derive(Debug)]
pub struct Drawn {
    number: u64,
    /// The key.
    pub identity: Identity,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
struct State {
    version: Version,
    servers: Vec<Server>,
    #[serde(flatten)]
    later: LaterFields,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Server {
    at: SocketAddr,
    key: PublicKey,
    until: UnixTime,
    /// Input for the derivation of this host's key for the server.
    number: u64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    confirmed: bool,
    /// Fields of a later version.
    #[serde(flatten)]
    later: LaterFields,
}

impl Stored for State {
    fn later_fields(&self) -> impl Iterator<Item = &LaterFields> {
        let servers = self.servers.iter().map(|it| &it.later);
        std::iter::once(&self.later).chain(servers)
    }
}

impl PinStore {
    /// Reads the file in `dir`, and the secret there; if they are missing, no server is pinned. If
    /// the secret cannot be written, a secret is made for this run.
    ///
    /// # Errors
    /// The file or the secret is invalid, or cannot be read.
    pub fn open(dir: &StateDir) -> Result<Self, StoreError> {
        let file = JsonFile::open(dir, StateFile::Servers)?;
        let secret = match dir.secret(StateFile::ServersSecret.name()) {
            Err(StoreError::File(error @ FileError::Io { .. })) => {
                tracing::warn!(%error, "cannot store the secret for this host's keys, \
                    using a temporary secret");
                secret::generate()?
            }
            read_or_failed => read_or_failed?,
        };
        Ok(Self { file, secret })
    }

    /// Returns the pin of an address and port at `now`.
    pub fn pin(&self, at: SocketAddr, now: UnixTime) -> Option<Pin> {
        let at = canonical(at);
        self.file.read(|state| Some(state.server(at, now)?.pin()))
    }

    /// Pins a key until `until`, at most [`LONGEST_PIN`] after `now`; a new pin is not confirmed.
    /// If another key is pinned for that address and port, that pin stays and is returned.
    ///
    /// Removes ended pins, unless the clock is in doubt. If the address, its network or the file
    /// has too many pins, one is evicted: first pins for which the clock is in doubt, then
    /// unconfirmed pins, then pins of the provider's network with the most pins, then the pin that
    /// ends first.
    ///
    /// # Errors
    /// The file cannot be changed.
    pub fn keep(
        &self,
        at: SocketAddr,
        key: PublicKey,
        span: (UnixTime, UnixTime),
    ) -> Result<Pin, StoreError> {
        self.keep_as((at, key, None), span, false)
    }

    /// As [`Self::keep`], with the drawn key as this host's key, which the server has already seen.
    /// If a pin exists, this host's key in that pin stays.
    ///
    /// # Errors
    /// The file cannot be changed.
    pub fn keep_drawn(
        &self,
        at: SocketAddr,
        key: PublicKey,
        drawn: &Drawn,
        span: (UnixTime, UnixTime),
    ) -> Result<Pin, StoreError> {
        self.keep_as((at, key, Some(drawn.number)), span, false)
    }

    /// Draws a key of this host for a server that is not pinned yet.
    ///
    /// # Errors
    /// The system provides no random numbers.
    pub fn draw(&self, at: SocketAddr) -> Result<Drawn, StoreError> {
        let number = random()?;
        Ok(Drawn {
            number,
            identity: self.derive(canonical(at), number),
        })
    }

    /// As [`Self::keep`], once the server has accepted a stream to that port: the pin is confirmed
    /// from then on.
    ///
    /// # Errors
    /// The file cannot be changed.
    pub fn confirm(
        &self,
        at: SocketAddr,
        key: PublicKey,
        span: (UnixTime, UnixTime),
    ) -> Result<Pin, StoreError> {
        self.keep_as((at, key, None), span, true)
    }

    /// Removes the pin of a key for an address and port, unless it is confirmed: the server with
    /// that key does not front the port.
    ///
    /// # Errors
    /// The file cannot be changed.
    pub fn drop_unconfirmed(&self, at: SocketAddr, key: PublicKey) -> Result<(), StoreError> {
        let at = canonical(at);
        let is_it = |it: &Server| it.at == at && it.key == key && !it.confirmed;
        if !self.file.read(|state| state.servers.iter().any(is_it)) {
            return Ok(());
        }
        self.file.update(|state| {
            state.servers.retain(|it| !is_it(it));
            Ok(())
        })
    }

    fn keep_as(
        &self,
        (at, key, number): (SocketAddr, PublicKey, Option<u64>),
        (until, now): (UnixTime, UnixTime),
        confirmed: bool,
    ) -> Result<Pin, StoreError> {
        let at = canonical(at);
        let until = until.min(now + LONGEST_PIN);
        let is_known = |it: &Pin| {
            let change = it.until.since(until).max(until.since(it.until));
            change < WORTH_A_WRITE && (it.is_confirmed || !confirmed)
        };
        let known = self.pin(at, now);
        if let Some(known) = known.filter(|it| it.key != key || is_known(it)) {
            return Ok(known);
        }
        let number = number.map_or_else(random, Ok)?;
        self.file.update(|state| {
            state.servers.retain(|it| it.tense(now) != Tense::Ended);
            let is_known = |it: &&mut Server| it.at == at && it.counts(now);
            if let Some(known) = state.servers.iter_mut().find(is_known) {
                if known.key == key {
                    // Until the clock is set, the new end would be wrong.
                    known.until = if now.is_set() { until } else { known.until };
                    known.confirmed |= confirmed;
                }
                return Ok(known.pin());
            }
            // Where this address or its network has reached its limit, one of its own pins is
            // evicted, so that no server displaces the pins of others.
            let (ip, network) = (at.ip(), network_of(at.ip()));
            state.limit(now, MAX_OF_ADDRESS, |it| it.at.ip() == ip);
            state.limit(now, MAX_OF_NETWORK, |it| network_of(it.at.ip()) == network);
            state.limit(now, MAX_PINS, |_| true);
            let server = Server {
                at,
                key,
                until,
                number,
                confirmed,
                later: LaterFields::default(),
            };
            state.servers.push(server.clone());
            Ok(server.pin())
        })
    }

    /// Returns this host's key for a pinned server.
    pub fn identity(&self, at: SocketAddr, now: UnixTime) -> Option<Identity> {
        let at = canonical(at);
        let number = self
            .file
            .read(|state| Some(state.server(at, now)?.number))?;
        Some(self.derive(at, number))
    }

    fn derive(&self, at: SocketAddr, number: u64) -> Identity {
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.secret.as_bytes());
        let mut hashed = hmac::Context::with_key(&key);
        hashed.update(b"hawser key towards a server");
        hashed.update(&number.to_be_bytes());
        hashed.update(at.to_string().as_bytes());
        let mut seed = Zeroizing::new([0; 32]);
        seed.copy_from_slice(hashed.sign().as_ref());
        Identity::from_seed(*seed)
    }
}

impl fmt::Debug for PinStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PinStore")
            .field("file", &self.file)
            .finish_non_exhaustive()
    }
}

impl State {
    fn server(&self, at: SocketAddr, now: UnixTime) -> Option<&Server> {
        let mut servers = self.servers.iter();
        servers.find(|it| it.at == at && it.counts(now))
    }

    /// Evicts one of the pins that satisfy `is_such`, if there are `most`. A host with many
    /// addresses has few provider-sized networks, and displaces no pins of a provider with fewer.
    fn limit(&mut self, now: UnixTime, most: usize, is_such: impl Fn(&Server) -> bool) {
        let such = self
            .servers
            .iter()
            .enumerate()
            .filter(|(_, it)| is_such(it));
        if such.clone().count() >= most {
            let mut pins_of = BTreeMap::<IpAddr, usize>::new();
            for (_, it) in such.clone() {
                *pins_of.entry(provider_of(it.at.ip())).or_default() += 1;
            }
            let of_same = |it: &Server| pins_of.get(&provider_of(it.at.ip())).copied();
            let rank = |it: &Server| {
                let counts = it.counts(now);
                (counts, it.confirmed, Reverse(of_same(it)), it.until)
            };
            let first = such.min_by_key(|(_, it)| rank(it));
            let first = first.map(|(place, _)| place);
            first.map(|place| self.servers.remove(place));
        }
    }
}

impl Server {
    fn counts(&self, now: UnixTime) -> bool {
        self.tense(now) == Tense::Counts
    }

    fn tense(&self, now: UnixTime) -> Tense {
        Tense::of(self.until, LONGEST_PIN, now)
    }

    fn pin(&self) -> Pin {
        Pin {
            at: self.at,
            key: self.key,
            until: self.until,
            is_confirmed: self.confirmed,
        }
    }
}

fn canonical(at: SocketAddr) -> SocketAddr {
    SocketAddr::new(at.ip().to_canonical(), at.port())
}

fn random() -> Result<u64, StoreError> {
    let mut bytes = [0; 8];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| StoreError::NoRandomness)?;
    Ok(u64::from_be_bytes(bytes))
}

/// Longest time for which a server may have its key pinned.
pub const LONGEST_PIN: Duration = Duration::from_secs(30 * 86_400);
const MAX_PINS: usize = 1000;
/// Most pins of one address, and of one network ([`network_of`]).
const MAX_OF_ADDRESS: usize = 32;
const MAX_OF_NETWORK: usize = 128;
const WORTH_A_WRITE: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixTime = UnixTime::from_secs(2_000_000_000);

    fn store(folder: &tempfile::TempDir) -> PinStore {
        let dir = StateDir::resolve(Some(folder.path().to_path_buf())).unwrap();
        PinStore::open(&dir).unwrap()
    }

    fn at(port: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], port))
    }

    fn key(n: u8) -> PublicKey {
        PublicKey::from_bytes([n; 32])
    }

    fn day(n: u64) -> UnixTime {
        NOW + Duration::from_secs(n * 86_400)
    }

    #[test]
    fn a_key_is_pinned_for_its_time_and_another_one_does_not_take_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let pins = store(&folder);
        assert_eq!(pins.keep(at(1), key(1), (day(7), NOW)).unwrap().key, key(1));
        let kept = pins.keep(at(1), key(2), (day(9), NOW)).unwrap();
        assert_eq!((kept.key, kept.until), (key(1), day(7)));
        assert_eq!(pins.pin(at(2), NOW), None, "another port");
        let mapped = "[::ffff:192.0.2.1]:1".parse().unwrap();
        assert_eq!(store(&folder).pin(mapped, day(6)).unwrap().key, key(1));
        assert_eq!(pins.pin(at(1), day(7)), None);
        assert_eq!(
            pins.keep(at(1), key(2), (day(9), day(7))).unwrap().key,
            key(2)
        );
    }

    #[test]
    fn a_pin_is_confirmed_for_good_and_dropped_only_before() {
        let folder = tempfile::tempdir().unwrap();
        let pins = store(&folder);
        let span = (day(1), NOW);
        assert!(!pins.keep(at(1), key(1), span).unwrap().is_confirmed);
        pins.drop_unconfirmed(at(1), key(2)).unwrap();
        assert!(pins.pin(at(1), NOW).is_some(), "it is another key's");
        pins.drop_unconfirmed(at(1), key(1)).unwrap();
        assert_eq!(store(&folder).pin(at(1), NOW), None);

        pins.keep(at(1), key(1), span).unwrap();
        // Even if the end time is no news.
        assert!(pins.confirm(at(1), key(1), span).unwrap().is_confirmed);
        assert!(
            pins.keep(at(1), key(1), (day(3), NOW))
                .unwrap()
                .is_confirmed
        );
        pins.drop_unconfirmed(at(1), key(1)).unwrap();
        assert!(store(&folder).pin(at(1), NOW).unwrap().is_confirmed);
    }

    #[test]
    fn no_pin_is_longer_than_thirty_days_whatever_a_server_or_a_clock_says() {
        let folder = tempfile::tempdir().unwrap();
        let pins = store(&folder);
        let kept = pins.keep(at(1), key(1), (day(9999), NOW)).unwrap();
        assert_eq!(kept.until, day(30));
        let before = UnixTime::from_secs(NOW.as_secs() - 90_000);
        assert_eq!(pins.pin(at(1), before), None, "the clock was set back");
        let kept = pins.keep(at(1), key(1), (day(2), NOW)).unwrap();
        assert_eq!(kept.until, day(2), "the server wants less now");
    }

    #[test]
    fn each_server_sees_another_key_and_a_new_one_after_the_pin() {
        let folder = tempfile::tempdir().unwrap();
        let pins = store(&folder);
        assert!(pins.identity(at(1), NOW).is_none());
        for port in [1, 2] {
            pins.keep(at(port), key(1), (day(1), NOW)).unwrap();
        }
        let own = |at, now| store(&folder).identity(at, now).unwrap().public();
        let first = own(at(1), NOW);
        assert_eq!(first, pins.identity(at(1), NOW).unwrap().public());
        assert_ne!(first, own(at(2), NOW));
        pins.keep(at(1), key(1), (day(3), day(2))).unwrap();
        assert_ne!(first, own(at(1), day(2)));
    }

    #[test]
    fn a_key_that_was_drawn_is_that_of_the_pin_unless_there_is_one() {
        let folder = tempfile::tempdir().unwrap();
        let pins = store(&folder);
        let span = (day(1), NOW);
        let (drawn, other) = (pins.draw(at(1)).unwrap(), pins.draw(at(1)).unwrap());
        assert_ne!(drawn.identity.public(), other.identity.public());
        pins.keep_drawn(at(1), key(1), &drawn, span).unwrap();
        pins.keep_drawn(at(1), key(1), &other, span).unwrap();
        let own = store(&folder).identity(at(1), NOW).unwrap();
        assert_eq!(own.public(), drawn.identity.public());
    }

    #[test]
    fn pins_without_end_take_no_more_room_and_the_longest_stay() {
        let folder = tempfile::tempdir().unwrap();
        let pins = store(&folder);
        let elsewhere = |n: u16| SocketAddr::from(([198, 18, n as u8, (n >> 8) as u8], 443));
        fill(&pins, (0..MAX_PINS as u16).map(|n| (elsewhere(n), n == 0)));
        pins.keep(at(443), key(1), (day(2), NOW)).unwrap();
        assert_eq!(pins.file.read(|state| state.servers.len()), MAX_PINS);
        let is_there = |at| pins.pin(at, NOW).is_some();
        assert!(is_there(at(443)) && is_there(elsewhere(2)));
        // The first pin to end is confirmed.
        assert!(is_there(elsewhere(0)) && !is_there(elsewhere(1)));
    }

    #[test]
    fn pins_of_one_address_and_of_one_network_displace_only_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let pins = store(&folder);
        let other = "203.0.113.1:443".parse().unwrap();
        let of_network = |n: u16| SocketAddr::from(([192, 0, 2, n as u8], 443));
        fill(
            &pins,
            std::iter::once((other, false)).chain((1..=32).map(|n| (at(n), n == 1))),
        );
        pins.keep(at(5000), key(1), (day(2), NOW)).unwrap();
        let is_there = |at| pins.pin(at, NOW).is_some();
        assert!(is_there(at(5000)) && is_there(other));
        assert!(is_there(at(1)) && !is_there(at(2)));
        assert_eq!(pins.file.read(|state| state.servers.len()), 33);

        fill(
            &pins,
            std::iter::once((other, false)).chain((1..=128).map(|n| (of_network(n), true))),
        );
        pins.keep(of_network(200), key(1), (day(2), NOW)).unwrap();
        assert!(is_there(of_network(200)) && is_there(other) && !is_there(of_network(1)));
        assert_eq!(pins.file.read(|state| state.servers.len()), 129);
    }

    #[test]
    fn confirmed_pins_of_many_networks_do_not_displace_those_of_others() {
        let folder = tempfile::tempdir().unwrap();
        let pins = store(&folder);
        let others = [at(443), "[2001:db8::1]:443".parse().unwrap()];
        // Each list belongs to one provider: many networks of IPv4, and of IPv6.
        let v4 = (0..500).map(|n: u16| [198, 18, n as u8, (n >> 8) as u8]);
        let v4 = v4.map(|octets| SocketAddr::from((octets, 443)));
        let v6 = (0..520).map(|n: u16| [0x2001, 0xdb9, n, 0, 0, 0, 0, 1]);
        let v6 = v6.map(|segments| SocketAddr::from((segments, 443)));
        let mut all = others.into_iter().chain(v4.chain(v6));
        let full = all.by_ref().take(MAX_PINS).map(|at| (at, true));
        fill(&pins, full);
        for at in all {
            pins.confirm(at, key(1), (day(2), NOW)).unwrap();
            assert!(pins.pin(at, NOW).unwrap().is_confirmed);
        }
        assert_eq!(pins.file.read(|state| state.servers.len()), MAX_PINS);
        let is_there = |at| pins.pin(at, NOW).is_some_and(|pin| pin.is_confirmed);
        assert!(others.into_iter().all(is_there));
    }

    /// Pins servers, confirmed or not, in the order in which the pins end.
    fn fill(pins: &PinStore, servers: impl Iterator<Item = (SocketAddr, bool)>) {
        let server = |(place, (at, confirmed))| Server {
            at,
            key: key(1),
            until: day(1) + Duration::from_secs(place),
            number: 0,
            confirmed,
            later: LaterFields::default(),
        };
        let servers = (0..).zip(servers).map(server).collect();
        let done = pins.file.update(|state| {
            state.servers = servers;
            Ok::<_, StoreError>(())
        });
        done.unwrap();
    }

    #[test]
    fn a_clock_that_is_wrong_at_one_write_forgets_no_pin() {
        let [unset, ahead] = [0, 4_070_908_800].map(UnixTime::from_secs);
        let back = UnixTime::from_secs(NOW.as_secs() - 90 * 86_400);
        for wrong in [unset, back, ahead] {
            let folder = tempfile::tempdir().unwrap();
            let pins = store(&folder);
            let kept = pins.keep(at(1), key(1), (day(7), NOW)).unwrap();
            let span = (wrong + Duration::from_secs(86_400), wrong);
            // Another server, the same one, and an impostor.
            for (port, key) in [(2, key(2)), (1, key(1)), (1, key(3))] {
                pins.confirm(at(port), key, span).unwrap();
            }
            let pins = store(&folder);
            let still = pins.pin(at(1), day(1)).unwrap();
            assert_eq!((still.key, still.until), (key(1), kept.until), "{wrong}");
            // While the clock is not set, a pin holds as well.
            let now = pins.pin(at(1), wrong).unwrap();
            let others = pins.keep(at(1), key(3), span).unwrap();
            assert_eq!((now.key, others.key), (key(1), key(1)), "{wrong}");
            assert_eq!(pins.pin(at(2), day(1)), None, "{wrong}");
        }
    }

    #[test]
    fn pins_of_a_wrong_clock_are_the_first_to_give_way() {
        let folder = tempfile::tempdir().unwrap();
        let pins = store(&folder);
        let ahead = UnixTime::from_secs(4_070_908_800);
        for n in 0..3 {
            let span = (ahead + Duration::from_secs(86_400), ahead);
            pins.confirm(at(n), key(1), span).unwrap();
        }
        for n in 3..MAX_OF_ADDRESS as u16 + 3 {
            pins.keep(at(n), key(1), (day(1), NOW)).unwrap();
        }
        assert!((3..35).all(|n| pins.pin(at(n), NOW).is_some()));
        assert_eq!(pins.file.read(|state| state.servers.len()), MAX_OF_ADDRESS);
    }
}
