//! Every file of the state directory, with each step of writing it failing in turn.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use hawser_types::HostNameAt;

use super::*;
use crate::files::faults::at_every_step;
use crate::identity::PublicKey;
use crate::replace_if_changed;
use crate::unix_time::UnixTime;
use crate::voucher::Voucher;

/// Writes an entry numbered `n`, and returns its text if the write was acknowledged.
type Put = fn(&StateDir, u8) -> Option<String>;
/// Returns all entries that a restart finds.
type Get = fn(&StateDir) -> BTreeSet<String>;

#[test]
fn whatever_was_acknowledged_is_there_after_a_fault_at_any_step_of_any_file() {
    for file in StateFile::ALL {
        let Some((put, get)) = stores(file) else {
            continue;
        };
        at_every_step(
            || {
                let folder = tempfile::tempdir().unwrap();
                let dir = StateDir::resolve(Some(folder.path().to_path_buf())).unwrap();
                // A file that is created once is created under faults.
                let is_once = matches!(file, StateFile::Key | StateFile::WebToken);
                let before = (!is_once).then(|| put(&dir, 1).unwrap());
                (folder, dir, before)
            },
            |(_, dir, _)| put(dir, 2),
            |(_, dir, before), step, after| {
                let there = get(dir);
                for acknowledged in before.iter().chain(&after) {
                    assert!(there.contains(acknowledged), "{file:?} {step:?}: {there:?}");
                }
                let again = put(dir, 3).unwrap();
                assert!(get(dir).contains(&again), "{file:?} {step:?}");
            },
        );
    }
}

/// Returns how a file is written and read; `None` for files that other crates write and test.
fn stores(file: StateFile) -> Option<(Put, Get)> {
    Some(match file {
        StateFile::Key => (
            |dir, _| Some(dir.identity().ok()?.public().to_string()),
            |dir| [dir.identity().unwrap().public().to_string()].into(),
        ),
        StateFile::WebToken => (
            |dir, _| Some(dir.secret("web-token").ok()?.to_string()),
            |dir| [dir.secret("web-token").unwrap().to_string()].into(),
        ),
        // They use the same code as the token.
        StateFile::ServersSecret | StateFile::DirectoryKey => return None,
        StateFile::Addresses => (
            |dir, n| {
                let text = format!("address {}", n.min(2));
                replace_if_changed(&dir.file("addresses.json"), text.as_bytes()).ok()?;
                // The newest entry overwrites the previous one, which is no loss.
                Some("address".to_owned())
            },
            |dir| {
                let text = std::fs::read_to_string(dir.file("addresses.json")).unwrap();
                text.split(' ').map(str::to_owned).collect()
            },
        ),
        StateFile::Gateway => (
            |dir, n| {
                let store = GatewayStore::open(dir).ok()?;
                store.add_invite(key(n), LATER, NOW).ok()?;
                store.admit_enrolment(key(n), key(n), NOW).ok()?;
                Some(key(n).to_string())
            },
            |dir| {
                let peers = GatewayStore::open(dir).unwrap().peers();
                peers.iter().map(|peer| peer.key.to_string()).collect()
            },
        ),
        StateFile::Client => (
            |dir, n| {
                let store = ClientStore::open(dir).ok()?;
                store.remember(key(n), &[], NOW).ok()?;
                Some(key(n).to_string())
            },
            |dir| {
                let gateways = ClientStore::open(dir).unwrap().gateways();
                gateways.iter().map(|it| it.key.to_string()).collect()
            },
        ),
        StateFile::PacketAddresses => (
            |dir, n| {
                let own = OwnAddresses {
                    number: n.into(),
                    block: None,
                };
                let store = PacketAddresses::open(dir).ok()?;
                store.give(key(n), own, |_| true).ok()?;
                Some(key(n).to_string())
            },
            |dir| {
                let given = PacketAddresses::open(dir).unwrap().given();
                given.iter().map(|(key, _)| key.to_string()).collect()
            },
        ),
        StateFile::Names => (
            |dir, n| {
                NameStore::open(dir)
                    .ok()?
                    .add(&name(n), Some(key(n)))
                    .ok()?;
                Some(name(n).to_string())
            },
            |dir| {
                let peers = NameStore::open(dir).unwrap().peers();
                peers.iter().map(|peer| peer.name.to_string()).collect()
            },
        ),
        StateFile::Order => (
            |dir, n| {
                let names = NameStore::open(dir).unwrap();
                if names.peer(&name(0)).is_none() {
                    names.add(&name(0), Some(key(0))).ok()?;
                }
                let order = OrderStore::open(dir).ok()?;
                order.set_newest(&names.peer(&name(0))?, (n.into(), 0));
                order.write(&names.peers()).ok()?;
                Some("newest".to_owned())
            },
            |dir| {
                let peer = NameStore::open(dir).unwrap().peer(&name(0)).unwrap();
                let newest = OrderStore::open(dir).unwrap().newest(&peer);
                newest.map(|_| "newest".to_owned()).into_iter().collect()
            },
        ),
        StateFile::Servers => (
            |dir, n| {
                let span = (NOW + Duration::from_secs(86_400), NOW);
                PinStore::open(dir).ok()?.keep(at(n), key(n), span).ok()?;
                Some(at(n).to_string())
            },
            |dir| {
                let pins = PinStore::open(dir).unwrap();
                let there = (0..9).map(at).filter(|at| pins.pin(*at, NOW).is_some());
                there.map(|at| at.to_string()).collect()
            },
        ),
        StateFile::Vouchers => (
            |dir, n| {
                let voucher: Voucher = "hawser 1\nnone\n".parse().unwrap();
                let host = name(n).host_name()?;
                VoucherStore::open(dir)
                    .ok()?
                    .keep(&host, &voucher, NOW)
                    .ok()?;
                Some(host.to_string())
            },
            |dir| {
                let store = VoucherStore::open(dir).unwrap();
                let hosts = (0..9).filter_map(|n| name(n).host_name());
                let there = hosts.filter(|host| store.voucher(host, NOW).is_some());
                there.map(|host| host.to_string()).collect()
            },
        ),
        StateFile::KnownKeys
        | StateFile::Directory
        | StateFile::Usage
        | StateFile::Rules
        | StateFile::Setup => return None,
    })
}

fn key(n: u8) -> PublicKey {
    PublicKey::from_bytes([n; 32])
}

fn name(n: u8) -> HostNameAt {
    format!("h{n}@example.org").parse().unwrap()
}

fn at(n: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, n], 443))
}

const NOW: UnixTime = UnixTime::from_secs(2_000_000_000);
const LATER: UnixTime = UnixTime::from_secs(2_000_000_900);
