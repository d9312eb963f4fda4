//! The programs in the kernel, on links and with programs that are real.

mod common;
#[path = "common/puppet.rs"]
mod puppet_body;

use common::*;
use hawser_capture::Settings;
use hawser_sched::connection::ConnectionPolicy;

/// No test: what a puppet runs.
#[test]
fn puppet() {
    if is_puppet() {
        puppet_body::run();
    }
}

fn settings(policy: ConnectionPolicy) -> Settings {
    Settings {
        policy,
        ..Settings::default()
    }
}

#[test]
fn connections_take_turns() {
    let test = "capture::connections_take_turns";
    let Some(ground) = Ground::new(test) else {
        return;
    };
    let settings = settings(ConnectionPolicy::RoundRobin);
    let Some((mut capture, group)) = capture(test, &settings) else {
        return;
    };
    let listener = ground.listener();
    let port = listener.local_addr().unwrap().port();
    let mut puppet = Puppet::new("puppet", Some(&group));
    let to = format!("{SERVER4}:{port}");

    assert_eq!(
        link_of(puppet.connect("tcp", &to)),
        1,
        "as without us while there are no links"
    );
    capture.set_links(&entries()).unwrap();
    let links: Vec<u8> = (0..4)
        .map(|_| link_of(puppet.connect("tcp", &to)))
        .collect();
    assert_eq!(links, [1, 2, 1, 2]);
    drop(capture);
    assert_eq!(
        link_of(puppet.connect("tcp", &to)),
        1,
        "as without us when it has gone"
    );
}
