use std::net::{SocketAddr, TcpListener};

use hawser_capture::{Settings, Unruled};
use hawser_policy::{Action, Avoid, Condition, LinkChoice, Mode, Rule, RuleSet};

use crate::ground::{SERVER4, entries, entry, eventually};
use crate::stage::*;

fn rule(when: Condition, then: Action) -> Rule {
    Rule {
        when,
        then,
        ..Rule::default()
    }
}

fn links(links: LinkChoice) -> Action {
    Action {
        links: Some(links),
        ..Action::default()
    }
}

fn program(pattern: &str) -> Condition {
    Condition {
        program: vec![pattern.parse().unwrap()],
        ..Condition::default()
    }
}

fn in_group(group: &std::path::Path) -> Condition {
    Condition {
        cgroup: vec![below_mount(group).parse().unwrap()],
        ..Condition::default()
    }
}

/// The path of a group from the root of the hierarchy.
fn below_mount(group: &std::path::Path) -> String {
    let mount = hawser_capture::mount_point().unwrap();
    format!("/{}", group.strip_prefix(mount).unwrap().display())
}

fn some_rules(stage: &Stage) -> RuleSet {
    let named = |name: &str| vec![name.to_owned()];
    let ordered = Condition {
        user: vec![65_534.into()],
        ..program("ordered")
    };
    let precise = Condition {
        port: vec![stage.port().to_string().parse().unwrap()],
        address: vec!["10.99.9.0/24".parse().unwrap()],
        cgroup: vec![below_mount(stage.group.path()).parse().unwrap()],
        ..program("precise")
    };
    let elsewhere = Condition {
        cgroup: vec!["/nowhere".parse().unwrap()],
        ..program("precise")
    };
    let order = LinkChoice::Order(vec!["gone".into(), "east".into(), "west".into()]);
    RuleSet::new([
        rule(program("mail*"), links(LinkChoice::Only(named("east")))),
        rule(program("*ghost"), links(LinkChoice::Only(named("gone")))),
        rule(program("homely"), links(LinkChoice::Except(named("east")))),
        rule(ordered, links(order)),
        rule(elsewhere, links(LinkChoice::Only(named("west")))),
        rule(precise, links(LinkChoice::Only(named("east")))),
    ])
}

#[test]
fn rules_decide() {
    let Some(mut stage) = Stage::new("rules::rules_decide") else {
        return;
    };
    let to = stage.to4();
    let in_force = stage.capture.set_rules(&some_rules(&stage)).unwrap();
    assert_eq!((in_force.asked, in_force.left_out), (6, 0));
    assert_eq!(stage.links("tcp", &to), [1, 2], "no rule");
    for (name, expected) in [("mailer", 2), ("homely", 1), ("precise", 2)] {
        stage.puppet.ask(&format!("name {name}"));
        assert_eq!(stage.links("tcp", &to), [expected; 3], "{name}");
    }
    stage.puppet.ask("name ordered");
    stage.puppet.ask("user 65534");
    assert_eq!(stage.links("tcp", &to), [2; 3]);
}

#[test]
fn what_the_kernel_cannot_match_is_learnt() {
    let Some(mut stage) = Stage::new("rules::what_the_kernel_cannot_match_is_learnt") else {
        return;
    };
    let to = stage.to4();
    let executable = Condition {
        executable: vec!["*/capture-*".parse().unwrap()],
        ..program("puppet")
    };
    let only_east = links(LinkChoice::Only(vec!["east".into()]));
    let mut rules = some_rules(&stage).rules().to_vec();
    rules.push(rule(executable, only_east));
    stage.capture.set_rules(&RuleSet::new(rules)).unwrap();
    stage.puppet.ask("name aghost");
    assert_eq!(stage.links("tcp", &to), [1], "the pattern is not known yet");
    let connection = stage.capture.open().pop().unwrap();
    assert!(stage.capture.learn(&connection).unwrap());
    assert!(!stage.capture.learn(&connection).unwrap(), "once is enough");
    let answer = stage.puppet.tell(&format!("tcp {to}"));
    assert!(
        answer.starts_with("error 1 "),
        "the rules leave it no link: {answer}"
    );
    assert_eq!(stage.capture.counts().unwrap().refused, 1);
    stage.puppet.ask("name puppet");
    stage.puppet.ask("drop");
    assert_eq!(stage.links("tcp", &to), [2, 1], "nor the file");
    let open = stage.capture.open();
    let connection = open.iter().find(|one| one.program == "puppet").unwrap();
    stage.capture.learn(connection).unwrap();
    assert_eq!(stage.links("tcp", &to), [2; 3]);
    stage.capture.set_rules(&RuleSet::default()).unwrap();
    assert_eq!(stage.links("tcp", &to), [1, 2]);
}

#[test]
fn redirected_connections_show_where_they_wanted_to_go() {
    let test = "rules::redirected_connections_show_where_they_wanted_to_go";
    let Some(mut stage) = Stage::new(test) else {
        return;
    };
    let here4 = TcpListener::bind("127.0.0.1:0").unwrap();
    let here6 = TcpListener::bind("[::1]:0").unwrap();
    let (SocketAddr::V4(to4), SocketAddr::V6(to6)) =
        (here4.local_addr().unwrap(), here6.local_addr().unwrap())
    else {
        panic!("families")
    };
    let mut settings = Settings {
        redirect_ipv4: Some(to4),
        redirect_ipv6: Some(to6),
        unruled: Unruled::Bonded,
        ..turns()
    };
    stage.capture.set_settings(&settings).unwrap();
    let origins = stage.capture.origins();
    let wanted4: SocketAddr = "203.0.113.9:443".parse().unwrap();
    let wanted6: SocketAddr = "[2001:db8::9]:443".parse().unwrap();
    for (kind, wanted, here) in [
        ("tcp", wanted4, &here4),
        ("mapped", wanted4, &here4),
        ("tcp", wanted6, &here6),
    ] {
        stage.puppet.ask(&format!("{kind} {wanted}"));
        let (_, peer) = here.accept().unwrap();
        assert_eq!(stage.puppet.ask("peer"), wanted.to_string());
        let origin = origins.find(peer).unwrap();
        assert_eq!((origin.remote, origin.program.as_str()), (wanted, "puppet"));
        let other = SocketAddr::new(peer.ip(), 1);
        assert_eq!(origins.original_destination(other), None);
        stage.puppet.ask("drop");
        // The other end is closed when no program that another test starts holds it any more.
        eventually("it has ended", || origins.find(peer).is_none());
    }
    shows_its_mark(&mut stage, &here4, wanted4);
    // Only peers are bonded, and rules have precedence.
    settings.unruled = Unruled::Peers;
    stage.capture.set_settings(&settings).unwrap();
    stage
        .capture
        .set_peers(&[wanted4, "[2001:db8::9]:0".parse().unwrap()], &[])
        .unwrap();
    stage.puppet.ask(&format!("tcp {wanted4}"));
    stage.puppet.ask(&format!("tcp {wanted6}"));
    let server = stage.to4();
    assert_eq!(stage.links("tcp", &server), [1, 2], "no peer");
    let direct = Action {
        mode: Some(Mode::Direct),
        ..Action::default()
    };
    stage
        .capture
        .set_rules(&RuleSet::new([rule(Condition::default(), direct)]))
        .unwrap();
    let peers = [server.parse().unwrap()];
    stage.capture.set_peers(&peers, &[]).unwrap();
    assert_eq!(stage.links("tcp", &server), [1, 2], "the rule says so");
}

fn shows_its_mark(stage: &mut Stage, here: &TcpListener, wanted: SocketAddr) {
    stage.puppet.ask(&format!("marked 46 {wanted}"));
    let (_, peer) = here.accept().unwrap();
    assert_eq!(stage.capture.origins().find(peer).unwrap().dscp, 46);
}

#[test]
fn lookups_are_left_alone_unless_a_rule_names_links() {
    let Some(mut stage) = Stage::new("rules::lookups_are_left_alone_unless_a_rule_names_links")
    else {
        return;
    };
    let resolver = format!("{SERVER4}:53");
    assert_eq!(stage.links("udp", &resolver), [1; 4]);
    assert_eq!(
        stage.links("udp", &stage.to4()),
        [1, 2],
        "others are placed"
    );
    let east = links(LinkChoice::Only(vec!["east".to_owned()]));
    let rules = RuleSet::new([rule(Condition::default(), east)]);
    stage.capture.set_rules(&rules).unwrap();
    assert_eq!(stage.links("udp", &resolver), [2; 2]);
}

#[test]
fn what_rules_keep_to_links_or_off_some_is_not_redirected() {
    let test = "rules::what_rules_keep_to_links_or_off_some_is_not_redirected";
    let Some(mut stage) = Stage::new(test) else {
        return;
    };
    let here = TcpListener::bind("127.0.0.1:0").unwrap();
    let SocketAddr::V4(to_here) = here.local_addr().unwrap() else {
        panic!("IPv4")
    };
    let settings = Settings {
        redirect_ipv4: Some(to_here),
        unruled: Unruled::Bonded,
        ..turns()
    };
    stage.capture.set_settings(&settings).unwrap();
    let mut links_of = entries();
    links_of[0].metered = true;
    stage.capture.set_links(&links_of).unwrap();
    let to = stage.to4();
    let place = |stage: &mut Stage| {
        let known: Vec<u64> = stage.capture.open().iter().map(|it| it.cookie).collect();
        stage.puppet.ask(&format!("tcp {to}"));
        let mut open = stage.capture.open().into_iter();
        open.find(|it| !known.contains(&it.cookie)).unwrap()
    };
    let obey = |stage: &mut Stage, then: Action| {
        let then = Action {
            mode: Some(Mode::Bonded),
            ..then
        };
        let rules = RuleSet::new([rule(in_group(stage.group.path()), then)]);
        stage.capture.set_rules(&rules).unwrap();
    };
    let named = |name: &str| vec![name.to_owned()];
    let [west, east] = [0, 1].map(|place| links_of[place].index);
    obey(&mut stage, Action::default());
    let placed = place(&mut stage);
    assert!(placed.redirected, "nothing is said of links");
    assert_eq!(stage.capture.left_by_rules(&placed), None);
    obey(&mut stage, links(LinkChoice::Only(named("east"))));
    let placed = place(&mut stage);
    assert_eq!(placed.link, Some(east));
    assert_eq!(stage.capture.left_by_rules(&placed), Some(vec![east]));
    obey(&mut stage, links(LinkChoice::Except(named("gone"))));
    let placed = place(&mut stage);
    assert_eq!(placed.link, Some(west));
    assert_eq!(stage.capture.left_by_rules(&placed), Some(vec![west, east]));
    let avoid = Action {
        avoid: Some(vec![Avoid::Metered]),
        ..Action::default()
    };
    obey(&mut stage, avoid);
    assert_eq!([(); 2].map(|()| place(&mut stage).link), [Some(east); 2]);
    // If no link is known here, another program may know one.
    obey(&mut stage, links(LinkChoice::Only(named("east"))));
    stage.capture.set_links(&[]).unwrap();
    assert!(place(&mut stage).redirected);
}

#[test]
fn a_link_that_comes_is_not_used_before_the_rules_know_its_place() {
    let test = "rules::a_link_that_comes_is_not_used_before_the_rules_know_its_place";
    let Some(mut stage) = Stage::new(test) else {
        return;
    };
    let to = stage.to4();
    stage.ground.add_link(3, "north");
    let all = [entries(), vec![entry("north")]].concat();
    let never = rule(
        Condition::default(),
        links(LinkChoice::Except(vec!["north".to_owned()])),
    );
    // More users than the table can hold.
    let users = Condition {
        user: (0..2000_u32).map(Into::into).collect(),
        ..Condition::default()
    };
    let too_many = rule(users, links(LinkChoice::Any));
    let rules = RuleSet::new([never.clone(), too_many]);
    assert!(stage.capture.set_rules(&rules).is_err());
    for _ in 0..2 {
        assert!(stage.capture.set_links(&all).is_err());
        assert_eq!(stage.links("tcp", &to), [1, 2, 1, 2]);
    }
    stage.capture.set_rules(&RuleSet::new([never])).unwrap();
    stage.capture.set_links(&all).unwrap();
    assert_eq!(stage.links("tcp", &to), [1, 2, 1, 2]);
    stage.capture.set_rules(&RuleSet::default()).unwrap();
    assert_eq!(stage.links("tcp", &to), [3, 1, 2, 3]);
}

#[test]
fn a_rule_for_a_control_group_holds_for_one_that_is_made_anew() {
    let test = "rules::a_rule_for_a_control_group_holds_for_one_that_is_made_anew";
    let Some(mut stage) = Stage::new(test) else {
        return;
    };
    let to = stage.to4();
    let above = stage.group.path().to_owned();
    let service = above.join("service");
    let only_east = links(LinkChoice::Only(vec!["east".to_owned()]));
    let rules = RuleSet::new([rule(in_group(&service), only_east)]);
    stage.capture.set_rules(&rules).unwrap();
    for _ in 0..2 {
        std::fs::create_dir(&service).unwrap();
        stage.puppet.ask(&format!("join {}", service.display()));
        stage.capture.set_links(&entries()).unwrap();
        assert_eq!(stage.links("tcp", &to), [2; 3]);
        stage.puppet.ask(&format!("join {}", above.display()));
        std::fs::remove_dir(&service).unwrap();
    }
}
