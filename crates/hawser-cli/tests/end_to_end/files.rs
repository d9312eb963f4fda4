//! `send` and `receive`.

use std::path::PathBuf;

use rustix::process::Signal;

use super::origin::page;
use super::program::{Daemon, Place, read, until};

/// `hawser receive` into the folder `in`; its invite is in the file `invite`.
pub(super) fn receive(place: &Place) -> Daemon {
    let (folder, invite) = (place.folder("in"), place.path("invite"));
    let (folder, invite) = (folder.to_str().unwrap(), invite.to_str().unwrap());
    let arguments = [
        "receive",
        folder,
        "--listen",
        "127.0.0.1:0",
        "--invite-file",
        invite,
    ];
    place.start("receiver", &arguments)
}

pub(super) fn file(place: &Place, name: &str, content: &[u8]) -> String {
    let path = place.path(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

fn arrived(place: &Place, name: &str) -> Option<Vec<u8>> {
    std::fs::read(place.path("in").join(name)).ok()
}

#[test]
fn files_arrive_and_each_failure_is_told() {
    let place = Place::new();
    let receiver = receive(&place);
    let (large, small) = (page(5_000_000), page(100));
    let large_file = file(&place, "out/large", &large);
    let small_file = file(&place, "out/small", &small);
    let empty = file(&place, "out/empty", b"");
    let namesake = file(&place, "other/small", b"something else");
    let missing = place.path("out/missing");
    let missing = missing.to_str().unwrap();
    let folder = place.folder("out/folder");
    let folder = folder.to_str().unwrap();
    let device = "/dev/null";
    let to = place.invite();
    let all = [
        &large_file,
        &small_file,
        &empty,
        &namesake,
        missing,
        device,
        folder,
        "--to",
        &to,
    ];
    let sent = place.run("sender", &[&["send"], &all[..]].concat());
    assert_eq!(sent.code, 1, "{sent:?}");
    for complaint in [
        format!("{namesake}: another file of this name"),
        format!("cannot open {missing}: No such file"),
        format!("{device} is not a regular file"),
        "3 of 6 files were not sent".to_owned(),
    ] {
        assert!(sent.err.contains(&complaint), "{complaint}\n{sent:?}");
    }
    assert!(sent.out.contains("3 of 6 files sent"), "{sent:?}");
    assert!(arrived(&place, "large") == Some(large));
    assert!(arrived(&place, "small") == Some(small.clone()));
    assert!(arrived(&place, "empty") == Some(Vec::new()));
    assert!(place.path("in/folder").is_dir());

    // Without a further enrolment: the same again, and another one of a name that is taken.
    let again = place.run("sender", &["send", &large_file, "--to", &to]);
    assert_eq!(again.code, 0, "{again:?}");
    assert!(again.out.contains("was there already"), "{again:?}");
    let taken = place.run("sender", &["send", &namesake, "--to", &to]);
    taken.expect(1, "small exists already and is different");
    assert!(arrived(&place, "small") == Some(small));
    assert_eq!(place.status("receiver").unwrap()["role"], "receiver");
    receiver.end();
}

#[test]
fn a_sender_that_is_killed_goes_on_where_it_stopped() {
    let place = Place::new();
    let receiver = receive(&place);
    let content = page(LARGE);
    let path = file(&place, "out/large", &content);
    let to = place.invite();
    for signal in [Signal::KILL, Signal::INT] {
        let mut sender = place.launch("sender", &["send", &path, "--to", &to]);
        let before = received(&place);
        let moving = || received(&place) > before + 2_000_000;
        until("bytes arrive", moving, || sender.log() + &receiver.log());
        sender.signal(signal);
        let code = sender.wait();
        assert!(
            code != Some(0),
            "the file was through before it could be cut"
        );
        if signal == Signal::INT {
            assert_eq!(code, Some(1));
            assert!(sender.log().contains("again to resume"), "{}", sender.log());
        }
        assert!(arrived(&place, "large").is_none());
    }
    let sent = place.run("sender", &["send", &path, "--to", &to]);
    assert_eq!(sent.code, 0, "{sent:?}");
    assert!(
        !sent.out.contains("sent 268.44 MB"),
        "nothing was resumed: {sent:?}"
    );
    assert!(arrived(&place, "large") == Some(content));
    let left: Vec<PathBuf> = std::fs::read_dir(place.path("in"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

/// Returns the number of files that all senders have delivered so far.
pub(super) fn received(place: &Place) -> u64 {
    let status = place.status("receiver").unwrap();
    let sessions = status["sessions"].as_array().unwrap();
    let bytes = sessions
        .iter()
        .map(|it| it["bytes_received"].as_u64().unwrap());
    bytes.sum()
}

#[test]
fn neither_end_is_taken_for_something_else() {
    let place = Place::new();
    let _gateway = place.serve();
    let path = file(&place, "out/small", b"small");
    let sent = place.run("sender", &["send", &path, "--to", &place.invite()]);
    sent.expect(1, "takes no files");
    // A receiver never becomes the gateway of `up`.
    assert!(!read(&place.path("sender").join("client.json")).contains("addresses"));
}

#[test]
fn a_receiver_wants_a_directory_and_a_sender_an_invite() {
    let place = Place::new();
    place
        .run("receiver", &["receive", "/nowhere"])
        .expect(1, "is not a directory");
    let path = file(&place, "small", b"small");
    place
        .run("sender", &["send", &path, "--to", "@/nowhere"])
        .expect(1, "/nowhere");
    let to = "hawser://127.0.0.1:1/#AAAA";
    place
        .run("sender", &["send", &path, "--to", to])
        .expect(1, "invite");
}

const LARGE: usize = 256 << 20;
