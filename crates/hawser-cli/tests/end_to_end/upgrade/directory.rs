//! The directory of a gateway.

use std::io;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hawser_skip::namespace::in_namespace;

use super::super::by_name::stage::{Stage, echo};
use super::super::directory::write_private;
use super::upgrade;

/// Registered hosts are found after the upgrade, and every query during it is answered after
/// retransmission.
#[test]
fn registered_hosts_are_found_by_the_new_process() {
    let test = "upgrade::directory::registered_hosts_are_found_by_the_new_process";
    in_namespace(test, || {
        let stage = Stage::new();
        stage.know_each_other();
        let directory = stage.serve();
        let bob = stage.up_bob(&["--offer", "7000"]);
        let alice = stage.up_alice(&[]);
        stage.until_registered(&alice, &bob);
        let is_over = Arc::new(AtomicBool::new(false));
        let asking = {
            let is_over = Arc::clone(&is_over);
            std::thread::spawn(move || ask_until(&is_over))
        };
        for _ in 0..2 {
            let before = bindings(&stage);
            upgrade(&stage.place, "directory", &directory);
            assert_eq!(bindings(&stage), before, "{}", directory.log());
            let log = || directory.log();
            super::until_alone(&stage.place, "directory", log);
        }
        let mut stream = stage.connect(&alice, "bob.example.org", 7000).unwrap();
        echo(&mut stream, 10_000);
        is_over.store(true, Ordering::Relaxed);
        let (answered, longest) = asking.join().unwrap();
        println!("{answered} answers, after {longest:?} at most");
        bob.end();
        alice.end();
        directory.end();
    });
}

/// A new process that can't read its users fails, and the old one's directory continues.
#[test]
fn a_mistake_in_the_file_of_users_ends_no_directory() {
    let test = "upgrade::directory::a_mistake_in_the_file_of_users_ends_no_directory";
    in_namespace(test, || {
        let stage = Stage::new();
        stage.know_each_other();
        let directory = stage.serve();
        let bob = stage.up_bob(&["--offer", "7000"]);
        let alice = stage.up_alice(&[]);
        stage.until_registered(&alice, &bob);
        let before = bindings(&stage);
        let users = stage.place.path("users");
        write_private(&users, "no line of this kind\n");
        let refused = stage.place.run("directory", &["upgrade"]);
        refused.expect(1, "the new process has ended (exit status: 1)");
        let status = stage.place.status("directory").unwrap();
        assert_eq!(status["process_id"], directory.process());
        assert_eq!(bindings(&stage), before, "{}", directory.log());
        let mut stream = stage.connect(&alice, "bob.example.org", 7000).unwrap();
        echo(&mut stream, 10_000);
        // Once it is right again, it works.
        write_private(&users, "alice:a\nbob:b\n");
        upgrade(&stage.place, "directory", &directory);
        assert_eq!(bindings(&stage), before, "{}", directory.log());
        bob.end();
        alice.end();
        directory.end();
    });
}

/// Sends queries to the directory one after the other. Returns the number of answers, and the
/// longest time for one.
fn ask_until(is_over: &AtomicBool) -> (u32, Duration) {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.connect("10.99.0.1:5060").unwrap();
    // As long as a client waits before it sends again (RFC 3261, T1).
    socket
        .set_read_timeout(Some(Duration::from_millis(500)))
        .unwrap();
    let own = socket.local_addr().unwrap();
    let (mut answered, mut longest) = (0, Duration::ZERO);
    while !is_over.load(Ordering::Relaxed) {
        let (begun, id) = (Instant::now(), format!("{answered}@{own}"));
        let question = format!(
            "OPTIONS sip:example.org SIP/2.0\r\nVia: SIP/2.0/UDP {own};branch=z9hG4bK{answered}\r\n\
             Max-Forwards: 70\r\nFrom: <sip:test@example.org>;tag=1\r\nTo: <sip:example.org>\r\n\
             Call-ID: {id}\r\nCSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n"
        );
        let is_answer = |heard: io::Result<usize>, bytes: &[u8]| {
            let heard = heard.map(|length| String::from_utf8_lossy(&bytes[..length]).into_owned());
            heard.is_ok_and(|it| it.starts_with("SIP/2.0 ") && it.contains(&id))
        };
        let mut bytes = [0; 2000];
        loop {
            assert!(begun.elapsed() < PATIENCE, "no answer");
            // The directory may not be listening right now.
            let _ = socket.send(question.as_bytes());
            let heard = socket.recv(&mut bytes);
            if is_answer(heard, &bytes) {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        answered += 1;
        longest = longest.max(begun.elapsed());
        std::thread::sleep(Duration::from_millis(100));
    }
    (answered, longest)
}

/// Returns the contacts in the directory.
fn bindings(stage: &Stage) -> Vec<String> {
    let status = stage.place.status("directory").unwrap();
    let bindings = status["directory"]["bindings"].as_array().unwrap().iter();
    let contacts = bindings.map(|it| it["contact"].as_str().unwrap().to_owned());
    contacts.collect()
}

const PATIENCE: Duration = Duration::from_secs(30);
