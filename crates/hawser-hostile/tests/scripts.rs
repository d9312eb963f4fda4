//! Every script once, briefly, against the real program: it survives, ends sessions for the right
//! reason, stays within its memory, gives back what it took, and serves an honest client meanwhile.
//!
//! `HAWSER_HOSTILE_SCRIPT=NAME` performs one script alone, `HAWSER_HOSTILE_PROGRAM=PATH` tests a
//! program that was built before. The figures are shown with `--nocapture`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use hawser_hostile::outcome::Outcome;
use hawser_hostile::script::{self, Group};
use hawser_hostile::trial::{self, Conditions};

#[test]
fn a_client_cannot_make_the_gateway_hold_more_than_its_limit() {
    perform(Group::Memory);
}

#[test]
fn a_client_that_breaks_the_rules_of_streams_harms_nobody_else() {
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
fn a_client_survives_every_gateway() {
    perform(Group::Gateways);
}

#[test]
fn names_of_scripts_are_unique() {
    let mut names: Vec<_> = script::all().iter().map(|script| script.name).collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all);
}

fn perform(group: Group) {
    let only = std::env::var("HAWSER_HOSTILE_SCRIPT").ok();
    let is_wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);
    let mut problems = Vec::new();
    for script in group.scripts() {
        if !is_wanted(script.name) {
            continue;
        }
        let conditions = Conditions::brief(hawser().to_owned());
        match trial::run(&script, &conditions) {
            Ok(outcome) => {
                show(&outcome);
                if !outcome.is_good() {
                    problems.push(format!("{}: {:?}", script.name, outcome.violations));
                }
            }
            Err(error) => problems.push(format!("{}: {error}", script.name)),
        }
    }
    assert!(problems.is_empty(), "{problems:#?}");
}

fn show(outcome: &Outcome) {
    let mb = |bytes: u64| bytes / 1_000_000;
    println!(
        "{:44} idle {:3} most {:4} after {:4} of {:4} MB, descriptors {:?}, goodput {:.2}, {:?}, {}{:?}",
        outcome.script,
        mb(outcome.idle_resident),
        mb(outcome.most_resident),
        mb(outcome.last_resident),
        mb(outcome.bound),
        outcome.descriptors,
        outcome.ratio().unwrap_or_default(),
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
