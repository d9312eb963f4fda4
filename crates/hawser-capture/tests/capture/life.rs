use std::net::SocketAddr;

use hawser_capture::RunGroup;

use crate::ground::*;
use crate::stage::*;

#[test]
fn a_killed_holder_leaves_nothing_behind() {
    let Some(mut stage) = Stage::new("life::a_killed_holder_leaves_nothing_behind") else {
        return;
    };
    let to = stage.to4();
    let group = RunGroup::create().unwrap();
    let mut holder = Puppet::new(None);
    holder.ask(&format!("capture {}", group.path().display()));
    let mut captured = Puppet::new(Some(&group));
    assert_eq!(
        [(); 2].map(|()| link_of(captured.connect("tcp", &to))),
        [1, 2]
    );
    holder.child.kill().unwrap();
    holder.child.wait().unwrap();
    assert_eq!(
        [(); 4].map(|()| link_of(captured.connect("tcp", &to))),
        [1; 4]
    );
    captured.ask("write still-open");
    // The connections of other processes stay.
    assert_eq!(stage.links("tcp", &to), [1, 2]);
}

#[test]
fn the_holder_itself_is_left_alone() {
    let Some(stage) = Stage::new("life::the_holder_itself_is_left_alone") else {
        return;
    };
    let to = stage.to4();
    let group = RunGroup::create().unwrap();
    let mut holder = Puppet::new(Some(&group));
    let mut other = Puppet::new(Some(&group));
    holder.ask(&format!("capture {}", group.path().display()));
    assert_eq!(
        [(); 4].map(|()| link_of(holder.connect("tcp", &to))),
        [1; 4]
    );
    assert_eq!([(); 2].map(|()| link_of(other.connect("tcp", &to))), [1, 2]);
}

#[test]
fn a_process_that_changes_its_group_takes_its_sockets_along() {
    let test = "life::a_process_that_changes_its_group_takes_its_sockets_along";
    let Some(mut stage) = Stage::new(test) else {
        return;
    };
    let to = stage.to4();
    assert_eq!(stage.links("tcp", &to), [1, 2]);
    let other = RunGroup::create().unwrap();
    stage
        .puppet
        .ask(&format!("join {}", other.path().display()));
    assert_eq!(stage.links("tcp", &to), [1; 4], "it is no longer captured");
    assert_eq!(
        stage.capture.open().len(),
        2,
        "its earlier connections stay counted"
    );
    stage.puppet.ask("drop");
    eventually("it ends", || stage.capture.open().is_empty());
    stage
        .puppet
        .ask(&format!("join {}", stage.group.path().display()));
    assert_eq!(stage.links("tcp", &to), [1, 2]);
    // Its descendants are in the group, too.
    let answer = stage.puppet.ask(&format!("children 6 {to}"));
    let mut links: Vec<u8> = answer
        .split(' ')
        .map(|from| link_of(from.parse::<SocketAddr>().unwrap().ip()))
        .collect();
    links.sort_unstable();
    assert_eq!(links, [1, 1, 1, 2, 2, 2]);
    // When the group is removed, its processes continue outside.
    let path = stage.group.path().to_owned();
    drop(stage.group);
    assert!(!path.exists());
    stage.puppet.connect("tcp", &to);
}

#[test]
fn a_group_goes_while_what_ran_in_it_is_ending() {
    let Some(stage) = Stage::new("life::a_group_goes_while_what_ran_in_it_is_ending") else {
        return;
    };
    let group = RunGroup::create().unwrap();
    let mut ending: Vec<Puppet> = (0..20).map(|_| Puppet::new(Some(&group))).collect();
    for puppet in &mut ending {
        puppet.child.kill().unwrap();
    }
    // The children are not reaped: some are unlisted, and still there.
    let path = group.path().to_owned();
    drop(group);
    assert!(!path.exists());
    drop((ending, stage));
}

#[test]
fn another_network_namespace_is_left_alone() {
    let Some(stage) = Stage::new("life::another_network_namespace_is_left_alone") else {
        return;
    };
    // SAFETY: takes no memory; only this thread moves.
    assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0);
    ip("link set lo up");
    ip("addr add 10.77.0.1/32 dev lo");
    ip("route add default dev lo");
    let mut puppet = Puppet::new(Some(&stage.group));
    let answer = puppet.ask("udp 10.66.0.1:9");
    assert!(answer.trim_end().starts_with("10.77.0.1:"), "{answer}");
    assert_eq!(stage.capture.open(), []);
}

#[test]
fn ten_thousand_connections_leave_nothing_counted() {
    let test = "life::ten_thousand_connections_leave_nothing_counted";
    let Some(mut stage) = Stage::new(test) else {
        return;
    };
    let to = stage.to4();
    let server = stage.listener.try_clone().unwrap();
    std::thread::spawn(move || {
        while let Ok((stream, _)) = server.accept() {
            drop(stream);
        }
    });
    let mut others: Vec<Puppet> = (0..3).map(|_| Puppet::new(Some(&stage.group))).collect();
    for puppet in &mut others {
        puppet.begin(&format!("many 2500 {to}"));
    }
    stage.puppet.begin(&format!("many 2500 {to}"));
    let rates = others
        .iter_mut()
        .chain([&mut stage.puppet])
        .map(Puppet::answer);
    let rate: f64 = rates.map(|rate| rate.parse::<f64>().unwrap()).sum();
    println!("{rate:.0} connections a second");
    assert_eq!(stage.capture.open(), []);
    let loads = stage.capture.loads().unwrap();
    assert!(
        loads.iter().all(|(_, load)| *load == Default::default()),
        "{loads:?}"
    );
    let counts = stage.capture.counts().unwrap();
    assert_eq!(counts.placed, 10_000);
    assert_eq!((counts.full, counts.unbound, counts.refused), (0, 0, 0));
    // No reader takes the events: they are lost, and counted.
    assert!(counts.lost_events > 10_000, "{counts:?}");
    let mut links: [u8; 2] = stage.links("tcp", &to);
    links.sort_unstable();
    assert_eq!(links, [1, 2], "and it goes on");
}
