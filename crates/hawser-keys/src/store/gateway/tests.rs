use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::thread;

use tempfile::TempDir;

use super::*;
use crate::files::faults::{Step, at_every_step};

const NOW: UnixTime = UnixTime::from_secs(1_000);
const LATER: UnixTime = UnixTime::from_secs(2_000);

fn key(n: u8) -> PublicKey {
    PublicKey::from_bytes([n; 32])
}

fn dir() -> (TempDir, StateDir) {
    let parent = tempfile::tempdir().unwrap();
    let dir = StateDir::resolve(Some(parent.path().join("state"))).unwrap();
    (parent, dir)
}

fn with_invite() -> (TempDir, StateDir, GatewayStore) {
    let (parent, dir) = dir();
    let store = GatewayStore::open(&dir).unwrap();
    store.add_invite(key(1), LATER, NOW).unwrap();
    (parent, dir, store)
}

#[test]
fn an_enrolled_client_is_a_peer_and_stays_one_after_a_restart() {
    let (_parent, dir, store) = with_invite();
    assert!(!store.is_peer(&key(9)));
    assert_eq!(
        store.admit_enrolment(key(1), key(9), NOW).unwrap(),
        Enrolment::New
    );
    let again = GatewayStore::open(&dir).unwrap();
    assert!(again.is_peer(&key(9)) && !again.is_peer(&key(1)));
    let peer = &again.peers()[0];
    assert_eq!((peer.enrolled_at, peer.invite), (NOW, key(1)));
    assert_eq!(again.invites()[0].used_by, Some(key(9)));
    let mode = fs::metadata(dir.file("gateway.json"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn enrolling_is_idempotent_for_one_client_and_refused_to_another() {
    let (_parent, _dir, store) = with_invite();
    store.admit_enrolment(key(1), key(9), NOW).unwrap();
    let much_later = UnixTime::from_secs(9_999);
    for now in [NOW, much_later] {
        assert_eq!(
            store.admit_enrolment(key(1), key(9), now).unwrap(),
            Enrolment::Known
        );
    }
    let other = store.admit_enrolment(key(1), key(8), NOW);
    assert!(matches!(other, Err(EnrolmentError::UsedByAnother)));
    assert_eq!(store.peers().len(), 1);
}

#[test]
fn an_expired_or_unknown_invite_is_refused() {
    let (_parent, _dir, store) = with_invite();
    assert!(store.accepts_enrolment(&key(1), UnixTime::from_secs(1_999)));
    assert!(!store.accepts_enrolment(&key(1), LATER));
    assert!(!store.accepts_enrolment(&key(2), NOW));
    let late = store.admit_enrolment(key(1), key(9), LATER).unwrap_err();
    assert_eq!(late.to_string(), "the invite expired 0 s ago");
    let unknown = store.admit_enrolment(key(2), key(9), NOW);
    assert!(matches!(unknown, Err(EnrolmentError::UnknownInvite { .. })));
    assert!(store.peers().is_empty());
}

#[test]
fn a_revoked_client_cannot_come_back_with_its_old_invite() {
    let (_parent, _dir, store) = with_invite();
    store.admit_enrolment(key(1), key(9), NOW).unwrap();
    assert!(
        store.accepts_enrolment(&key(1), NOW),
        "the answer may have been lost"
    );
    assert_eq!(store.revoke(key(9)).unwrap().key, key(9));
    assert!(!store.is_peer(&key(9)));
    assert!(!store.accepts_enrolment(&key(1), NOW));
    let back = store.admit_enrolment(key(1), key(9), NOW);
    assert!(matches!(back, Err(EnrolmentError::Revoked)));
    store.add_invite(key(2), LATER, NOW).unwrap();
    assert_eq!(
        store.admit_enrolment(key(2), key(9), NOW).unwrap(),
        Enrolment::New
    );
    assert!(matches!(
        store.revoke(key(7)),
        Err(StoreError::UnknownPeer { .. })
    ));
}

#[test]
fn another_process_is_noticed_and_nothing_of_it_lost() {
    let (_parent, dir, daemon) = with_invite();
    let command = GatewayStore::open(&dir).unwrap();
    command.add_invite(key(2), LATER, NOW).unwrap();
    // The daemon has not reloaded in between.
    daemon.admit_enrolment(key(1), key(9), NOW).unwrap();
    assert_eq!(daemon.invites().len(), 2);
    assert!(!command.is_peer(&key(9)));
    assert!(command.reload_if_changed().unwrap());
    assert!(!command.reload_if_changed().unwrap());
    command.revoke(key(9)).unwrap();
    assert!(daemon.is_peer(&key(9)));
    assert!(daemon.reload_if_changed().unwrap());
    assert!(!daemon.is_peer(&key(9)));
}

#[test]
fn many_writers_at_once_lose_no_invite() {
    let (_parent, dir) = dir();
    thread::scope(|scope| {
        for n in 0..4_u8 {
            let dir = &dir;
            scope.spawn(move || {
                let store = GatewayStore::open(dir).unwrap();
                for i in 0..8 {
                    store.add_invite(key(n * 8 + i), LATER, NOW).unwrap();
                }
            });
        }
    });
    assert_eq!(GatewayStore::open(&dir).unwrap().invites().len(), 32);
    let left = fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(left, 2, "only the file and its lock");
}

#[test]
fn a_damaged_file_is_named_and_never_overwritten() {
    let (_parent, dir, store) = with_invite();
    let path = dir.file("gateway.json");
    let good = fs::read_to_string(&path).unwrap();
    for bad in [
        "",
        "{",
        "[]",
        &good.replace("peers", "piers"),
        &good[..good.len() / 2],
    ] {
        fs::write(&path, bad).unwrap();
        let error = GatewayStore::open(&dir).unwrap_err().to_string();
        assert!(error.contains("gateway.json is damaged"), "{error}");
        assert!(store.add_invite(key(3), LATER, NOW).is_err());
        assert!(store.reload_if_changed().is_err());
        assert_eq!(store.invites().len(), 1, "what was known stays in force");
        assert_eq!(fs::read_to_string(&path).unwrap(), bad);
    }
    fs::write(&path, good.replace("\"version\": 1", "\"version\": 2")).unwrap();
    let error = GatewayStore::open(&dir).unwrap_err();
    assert!(
        matches!(error, StoreError::Version { got: 2, .. }),
        "{error}"
    );
}

#[test]
fn fields_of_a_later_version_outlive_every_change_and_are_told() {
    let (_parent, dir, store) = with_invite();
    store.admit_enrolment(key(1), key(9), NOW).unwrap();
    let path = dir.file("gateway.json");
    let later = fs::read_to_string(&path).unwrap();
    let later = later.replace(
        "\"version\": 1",
        "\"version\": 1, \"quota\": {\"of\": [1.5, null]}",
    );
    let later = later.replace("\"enrolled-at\"", "\"colour\": \"red\", \"enrolled-at\"");
    let later = later.replace("\"expires\"", "\"uses\": 18446744073709551615, \"expires\"");
    fs::write(&path, later).unwrap();
    let store = GatewayStore::open(&dir).unwrap();
    let names: std::collections::BTreeSet<_> = store.file.read(|state| {
        state
            .later_fields()
            .flat_map(LaterFields::names)
            .map(str::to_owned)
            .collect()
    });
    assert_eq!(
        names.iter().collect::<Vec<_>>(),
        ["colour", "quota", "uses"]
    );
    store.rename(key(9), Some("laptop")).unwrap();
    store.add_invite(key(2), LATER, NOW).unwrap();
    store.admit_enrolment(key(2), key(8), NOW).unwrap();
    store.revoke(key(8)).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let written: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(written["quota"], serde_json::json!({"of": [1.5, null]}));
    assert_eq!(written["peers"][0]["colour"], "red");
    assert_eq!(written["peers"][0]["name"], "laptop");
    assert_eq!(written["invites"][0]["uses"], u64::MAX);
}

#[test]
fn a_clock_that_is_ahead_at_one_write_forgets_no_invite() {
    let (_parent, dir) = dir();
    let store = GatewayStore::open(&dir).unwrap();
    let [now, ahead] = [1_800_000_000, 4_070_908_800].map(UnixTime::from_secs);
    let day = Duration::from_secs(86_400);
    store.add_invite(key(1), now + day, now).unwrap();
    for wrong in [ahead, UnixTime::from_secs(0)] {
        store
            .add_invite(key(wrong.as_secs() as u8 + 2), wrong + day, wrong)
            .unwrap();
    }
    let again = GatewayStore::open(&dir).unwrap();
    assert_eq!(
        again.admit_enrolment(key(1), key(9), now).unwrap(),
        Enrolment::New
    );
}

#[test]
fn a_file_that_others_may_write_is_refused() {
    let (_parent, dir, _store) = with_invite();
    let path = dir.file("gateway.json");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    let error = GatewayStore::open(&dir).unwrap_err().to_string();
    assert!(error.contains("chmod 644"), "{error}");
}

#[test]
fn old_invites_are_forgotten_when_a_new_one_is_made() {
    let (_parent, _dir, store) = with_invite();
    let a_day_later = UnixTime::from_secs(LATER.as_secs() + KEEP_EXPIRED.as_secs() - 1);
    store.add_invite(key(2), a_day_later, a_day_later).unwrap();
    assert_eq!(store.invites().len(), 2);
    let next = a_day_later + Duration::from_secs(1);
    store.add_invite(key(3), next, next).unwrap();
    assert_eq!(
        store.invites().iter().map(|i| i.key).collect::<Vec<_>>(),
        [key(2), key(3)]
    );
    let twice = store.add_invite(key(3), next, next);
    assert!(matches!(twice, Err(StoreError::InviteExists { .. })));
}

#[test]
fn a_peer_can_be_given_a_name_that_fits_a_table() {
    let (_parent, _dir, store) = with_invite();
    store.admit_enrolment(key(1), key(9), NOW).unwrap();
    store.rename(key(9), Some("laptop")).unwrap();
    assert_eq!(store.peers()[0].name.as_deref(), Some("laptop"));
    for bad in ["", "a\u{1b}[2J", &"x".repeat(65)] {
        assert!(matches!(
            store.rename(key(9), Some(bad)),
            Err(StoreError::Name { .. })
        ));
    }
}

#[test]
fn no_client_enrols_with_a_revoked_invite_even_in_a_process_that_knew_it() {
    let (_parent, dir, store) = with_invite();
    let other = GatewayStore::open(&dir).unwrap();
    assert!(other.accepts_enrolment(&key(1), NOW));
    assert!(store.invites()[0].is_open(NOW) && !store.invites()[0].is_open(LATER));
    assert_eq!(store.revoke_invite(key(1)).unwrap().key, key(1));
    let refused = other.admit_enrolment(key(1), key(9), NOW);
    assert!(matches!(refused, Err(EnrolmentError::UnknownInvite { .. })));
    assert!(!other.accepts_enrolment(&key(1), NOW));
    let again = store.revoke_invite(key(1));
    assert!(matches!(again, Err(StoreError::UnknownInvite { .. })));
}

#[test]
fn an_invite_that_was_used_is_not_revoked_and_its_client_stays() {
    let (_parent, _dir, store) = with_invite();
    store.admit_enrolment(key(1), key(9), NOW).unwrap();
    assert!(!store.invites()[0].is_open(NOW));
    let refused = store.revoke_invite(key(1));
    let client = key(9);
    assert!(matches!(refused, Err(StoreError::InviteUsed { client: it, .. }) if it == client));
    assert!(store.is_peer(&client));
}

#[test]
fn of_too_many_unused_invites_those_that_expire_first_are_forgotten() {
    let (_parent, _dir, store) = with_invite();
    store
        .add_invite(key(2), LATER + Duration::from_secs(9), NOW)
        .unwrap();
    store
        .add_invite(key(3), LATER + Duration::from_secs(5), NOW)
        .unwrap();
    store.admit_enrolment(key(1), key(9), NOW).unwrap();
    store.limit_unused_invites(1).unwrap();
    let left: Vec<_> = store.invites().iter().map(|invite| invite.key).collect();
    // The used invite stays, so that a later client can be told that it was used.
    assert_eq!(left, [key(1), key(2)]);
}

#[test]
fn what_root_changes_in_the_directory_of_a_service_stays_the_service_s() {
    if !rustix::process::geteuid().is_root() {
        let name =
            "hawser-net::what_root_changes_in_the_directory_of_a_service_stays_the_service_s";
        return hawser_skip::skip(name, "only root may give files away");
    }
    let (parent, dir) = dir();
    let owner = |path: &std::path::Path| fs::metadata(path).unwrap().uid();
    dir.prepare().unwrap();
    chown(dir.path(), Some(SERVICE), Some(SERVICE)).unwrap();
    dir.identity().unwrap();
    let store = GatewayStore::open(&dir).unwrap();
    store.add_invite(key(1), LATER, NOW).unwrap();
    for name in ["key", "gateway.json", "gateway.lock"] {
        assert_eq!(owner(&dir.file(name)), SERVICE, "{name}");
    }
    // Root reads files that the service has written, but not files of a third user.
    assert_eq!(GatewayStore::open(&dir).unwrap().invites().len(), 1);
    dir.identity().unwrap();
    chown(dir.file("key"), Some(SERVICE + 1), None).unwrap();
    assert!(dir.identity().is_err());
    // A compromised service must not gain other files by symbolic links.
    let other = parent.path().join("of-root");
    fs::write(&other, "").unwrap();
    fs::remove_file(dir.file("gateway.lock")).unwrap();
    symlink(&other, dir.file("gateway.lock")).unwrap();
    assert!(store.add_invite(key(2), LATER, NOW).is_err());
    assert_eq!(owner(&other), 0);
}

/// An arbitrary user id.
const SERVICE: u32 = 61_234;

#[test]
fn whichever_step_of_writing_fails_a_restart_finds_the_old_state_or_the_new_one() {
    at_every_step(
        || {
            let (parent, dir, store) = with_invite();
            // The remains of an earlier crash do no harm.
            fs::write(dir.file(".hawser-left"), "{").unwrap();
            (parent, dir, store)
        },
        |(_parent, _dir, store)| store.admit_enrolment(key(1), key(9), NOW),
        |(_parent, dir, store), step, outcome| {
            let error = outcome.unwrap_err().to_string();
            assert!(
                error.contains("gateway.json") || step == Step::SyncDirectory,
                "{error}"
            );
            assert!(error.contains("no storage space"), "{error}");
            let again = GatewayStore::open(dir).unwrap();
            let is_new = again.is_peer(&key(9));
            assert_eq!(again.invites()[0].used_by.is_some(), is_new, "{step:?}");
            assert_eq!(is_new, step == Step::SyncDirectory);
            // The running process sees the new state without a restart.
            assert_eq!(store.is_peer(&key(9)), is_new, "{step:?}");
            let retried = store.admit_enrolment(key(1), key(9), NOW).unwrap();
            assert_eq!(retried == Enrolment::Known, is_new);
        },
    );
}
