//! Hosts that reach each other by name.

use hawser_skip::namespace::in_namespace;

use super::super::by_name::stage::{Stage, echo};
use super::super::program::until;
use super::{until_alone, upgrade};

/// A stream continues while both hosts are replaced, one after the other; new ones lead to the new
/// processes, also in the other direction; finally the directory has each host once.
#[test]
fn streams_between_hosts_by_name_go_on() {
    let test = "upgrade::names::streams_between_hosts_by_name_go_on";
    in_namespace(test, || {
        let stage = Stage::new();
        stage.know_each_other();
        let directory = stage.serve();
        let bob = stage.up_bob(&["--offer", "7000"]);
        let alice = stage.up_alice(&[]);
        stage.until_registered(&alice, &bob);
        let log = || format!("{}\n{}\n{}", alice.log(), bob.log(), directory.log());
        let connect = || stage.connect(&alice, "bob.example.org", 7000);
        let mut stream = connect().unwrap();
        echo(&mut stream, 100_000);
        for (state, daemon) in [("bob", &bob), ("alice", &alice)] {
            upgrade(&stage.place, state, daemon);
            echo(&mut stream, 100_000);
            stage.until_registered(&alice, &bob);
            let mut new = None;
            let is_open = || {
                new = connect().ok();
                new.is_some()
            };
            until("a new stream opens", is_open, log);
            echo(&mut new.unwrap(), 100_000);
            echo(&mut stream, 100_000);
        }
        drop(stream);
        until_alone(&stage.place, "alice", log);
        until_alone(&stage.place, "bob", log);
        let contacts = || {
            let status = stage.place.status("directory").unwrap();
            let bindings = status["directory"]["bindings"].as_array().unwrap();
            let of = |name: &str| {
                let mut users = bindings.iter().map(|it| it["address"].to_string());
                users.any(|it| it.contains(name))
            };
            (of("alice"), of("bob"), bindings.len())
        };
        // Each has two links.
        until("each is known once", || contacts() == (true, true, 4), log);
        echo(&mut connect().unwrap(), 100_000);
        bob.end();
        alice.end();
        directory.end();
    });
}
