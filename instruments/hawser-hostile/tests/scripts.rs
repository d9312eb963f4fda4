//! Runs every script once, briefly, against the real program. The program must survive, end
//! sessions for the right reason, stay within its memory, release all resources, and serve an
//! honest client meanwhile.
//! `HAWSER_HOSTILE_SCRIPT=NAME` runs one script alone, `HAWSER_HOSTILE_PROGRAM=PATH` tests an
//! existing program. `--nocapture` shows the figures.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use hawser_hostile::HostileError;
use hawser_hostile::outcome::Outcome;
use hawser_hostile::script::Script;
use hawser_hostile::scripts::{self, Group};
use hawser_hostile::trial::{self, Conditions};
use hawser_skip::TestFolder;
use parking_lot::Mutex;

#[test]
fn a_client_cannot_make_the_gateway_hold_more_than_its_limit() {
    perform(Group::Memory);
}

#[test]
fn a_client_that_breaks_the_rules_of_streams_harms_no_other_client() {
    perform(Group::Streams);
}

#[test]
fn commands_at_the_wrong_time_end_a_session_for_the_right_reason() {
    perform(Group::Commands);
}

#[test]
fn connections_that_misbehave_take_no_place_from_others() {
    perform(Group::Channels);
}

#[test]
fn clients_that_have_not_enrolled_reach_nothing_from_this_machine_and_take_nothing_from_others() {
    perform(Group::Strangers);
}

#[test]
fn datagrams_that_lie_end_their_own_association_or_session_alone() {
    perform(Group::Associations);
}

#[test]
fn packets_reach_nothing_of_the_gateways_host_and_fill_no_table() {
    perform(Group::Packets);
}

#[test]
fn a_client_survives_every_gateway() {
    perform(Group::Gateways);
}

#[test]
fn floods_of_each_kind_take_nothing_from_others() {
    perform(Group::Floods);
}

#[test]
fn names_of_scripts_are_unique() {
    let mut names: Vec<_> = scripts::all().iter().map(|script| script.name).collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all);
}

/// Performs the scripts of a group, some at once: most of a trial is waiting.
fn perform(group: Group) {
    let only = std::env::var("HAWSER_HOSTILE_SCRIPT").ok();
    let is_wanted = |script: &Script| only.as_deref().is_none_or(|only| only == script.name);
    let scripts: Vec<_> = group.scripts().into_iter().filter(is_wanted).collect();
    let (next, problems) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    // Of scripts that have failed, the logs stay.
    let folder = TestFolder::new();
    let conditions = Conditions {
        folder: Some(folder.path().to_owned()),
        ..Conditions::brief(hawser().to_owned())
    };
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(script) = scripts.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = problem(script, &conditions);
                    if found.is_none() {
                        let _ = std::fs::remove_dir_all(folder.path().join(script.name));
                    }
                    problems.lock().extend(found);
                }
            });
        }
    });
    let problems = problems.into_inner();
    assert!(problems.is_empty(), "{problems:#?}");
}

/// What a script has shown to be wrong.
fn problem(script: &Script, conditions: &Conditions) -> Option<String> {
    match trial::run(script, conditions) {
        Ok(outcome) => {
            show(&outcome);
            let found = || format!("{}: {:?}", script.name, outcome.violations);
            (!outcome.is_good()).then(found)
        }
        Err(HostileError::NoNetwork(reason)) => {
            hawser_skip::skip(&format!("hawser_hostile::{}", script.name), &reason);
            None
        }
        Err(error) => Some(format!("{}: {error}", script.name)),
    }
}

fn show(outcome: &Outcome) {
    let mb = |bytes: u64| bytes / 1_000_000;
    println!(
        "{:44} idle {:3} most {:4} after {:4} of {:4} MB, descriptors {:?}, goodput {:.2}, answered {:.3} of {} and {}, {:?}, {}{:?}",
        outcome.script,
        mb(outcome.idle_resident),
        mb(outcome.most_resident),
        mb(outcome.last_resident),
        mb(outcome.bound),
        outcome.descriptors,
        outcome.ratio().unwrap_or_default(),
        outcome.answered().unwrap_or_default(),
        outcome.connections.asked,
        outcome.datagrams.asked,
        outcome.endings,
        outcome.known_fault.map(|_| "known: ").unwrap_or_default(),
        outcome.violations
    );
}

/// The program of this build; built first, since it belongs to another crate.
fn hawser() -> &'static Path {
    static HAWSER: OnceLock<PathBuf> = OnceLock::new();
    HAWSER.get_or_init(|| {
        if let Some(given) = std::env::var_os("HAWSER_HOSTILE_PROGRAM") {
            return given.into();
        }
        // …/target/debug/deps/scripts-0123456789abcdef
        let test = std::env::current_exe().unwrap();
        let folder = test.parent().and_then(Path::parent).unwrap();
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "-p", "hawser-cli", "--bin", "hawser"]);
        build.arg("--target-dir").arg(folder.parent().unwrap());
        if folder.ends_with("release") {
            build.arg("--release");
        }
        assert!(build.status().unwrap().success(), "hawser is not built");
        folder.join("hawser")
    })
}

/// Scripts of one group at once.
const AT_ONCE: usize = 2;
