//! Parts of a run of the tests: `cargo xtask test --partition K/N`.
//!
//! Cargo starts each program with tests by this one (the `runner` of its configuration), with the
//! environment that it gives to tests. This one asks the program for its tests and has it run every
//! Nth of them. So one call of cargo builds everything once, and all parts build the same.

use std::fmt;
use std::path::Path;
use std::process::Command;
use std::str::FromStr;

use anyhow::{Context, Result, bail};

use crate::process::said;

/// One of several parts of the tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Partition {
    /// From 1 to `count`.
    number: usize,
    count: usize,
}

impl Partition {
    /// Whether tests of the documentation are in this part: cargo can't split them.
    pub(crate) fn has_doc_tests(self) -> bool {
        self.number == 1
    }

    /// The configuration by which cargo starts the tests of this part.
    pub(crate) fn configuration(self) -> Result<String> {
        let own = std::env::current_exe()?;
        let own = own
            .to_str()
            .context("the path of this program is no text")?;
        let runner = serde_json::json!([own, RUN, self.to_string()]);
        Ok(format!("target.'cfg(all())'.runner={runner}"))
    }

    /// The tests of `program` that are in this part.
    fn choose(self, program: &str, tests: &[String]) -> Vec<String> {
        // Neighbours take similar times, so each goes to another part; programs with few tests
        // begin with different parts.
        let start = program.bytes().map(usize::from).sum::<usize>();
        let every = tests.iter().enumerate();
        let chosen = every.filter(|(at, _)| (start + at) % self.count == self.number - 1);
        chosen.map(|(_, test)| test.clone()).collect()
    }
}

impl FromStr for Partition {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let numbers = text
            .split_once('/')
            .and_then(|(number, count)| Some((number.parse().ok()?, count.parse().ok()?)));
        match numbers {
            Some((number, count)) if (1..=count).contains(&number) => Ok(Self { number, count }),
            _ => bail!("--partition {text}: K/N is expected, with K from 1 to N"),
        }
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.count)
    }
}

/// Runs those tests of a program that are in a part; called by cargo in place of the program.
pub(crate) fn run(part: &str, program: &str, arguments: &[&str]) -> Result<()> {
    let partition: Partition = part.parse()?;
    let listing = said(Command::new(program).args(["--list", "--format", "terse"]))?;
    let tests = listed(&listing);
    let chosen = partition.choose(name(program), &tests);
    if chosen.is_empty() {
        return Ok(());
    }
    let mut command = Command::new(program);
    command.args(arguments);
    if chosen.len() < tests.len() {
        command.arg("--exact").args(&chosen);
    }
    let status = command.status().with_context(|| program.to_owned())?;
    if chosen.len() < tests.len() {
        println!("{END}");
    }
    if !status.success() {
        bail!("{program} ended with {status}");
    }
    Ok(())
}

/// Reads the names of tests from a listing, sorted.
fn listed(listing: &str) -> Vec<String> {
    let names = listing.lines().filter_map(|it| it.strip_suffix(": test"));
    let mut names: Vec<String> = names.map(str::to_owned).collect();
    names.sort();
    names
}

/// The name of a program with tests, without cargo's hash.
fn name(program: &str) -> &str {
    let file = Path::new(program).file_name().and_then(|it| it.to_str());
    let file = file.unwrap_or(program);
    file.rsplit_once('-').map_or(file, |(name, _)| name)
}

/// The command by which cargo calls this program.
pub(crate) const RUN: &str = "run-part";
/// Line behind the output of a program that has run a part of its tests. The result in front of it
/// counts, although tests were filtered out.
pub(crate) const END: &str = "end of this part of the tests";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_each_test_once() {
        let tests: Vec<String> = (0..23).map(|at| format!("a::b{at}")).collect();
        for count in 1..30 {
            let mut all = Vec::new();
            for number in 1..=count {
                let part = Partition { number, count };
                let chosen = part.choose("hawser", &tests);
                assert!(chosen.len().abs_diff(23 / count) <= 1, "{part}");
                assert_eq!(chosen, part.choose("hawser", &tests));
                all.extend(chosen);
            }
            all.sort_by_key(|it| tests.iter().position(|test| test == it));
            assert_eq!(all, tests);
        }
    }

    #[test]
    fn a_program_with_one_test_is_not_always_in_the_first_part() {
        let test = ["only".to_owned()];
        let part = Partition {
            number: 1,
            count: 2,
        };
        let programs = ["a", "b", "c", "d"];
        let chosen = programs.map(|program| part.choose(program, &test).len());
        assert_eq!(chosen.iter().sum::<usize>(), 2);
    }

    #[test]
    fn parts_are_read_and_wrong_ones_are_refused() {
        let part: Partition = "2/3".parse().unwrap();
        assert_eq!((part.number, part.count), (2, 3));
        assert_eq!(part.to_string(), "2/3");
        for wrong in ["", "1", "0/3", "4/3", "1/0", "0/0", "a/b", "1/2/3", "-1/2"] {
            assert!(wrong.parse::<Partition>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn tests_are_read_from_a_listing_and_benchmarks_are_not() {
        assert_eq!(listed("b: test\na::c: test\nd: benchmark\n"), ["a::c", "b"]);
        assert_eq!(name("/t/deps/end_to_end-0123"), "end_to_end");
    }
}
