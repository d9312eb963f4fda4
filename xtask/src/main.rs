//! The project's own checks and test runner: `cargo xtask check`, `cargo xtask test`.
#![forbid(unsafe_code)]

mod bpf;
mod circles;
mod dist;
mod fresh_debian;
mod fuzz;
mod layers;
#[cfg(target_os = "linux")]
mod leftovers;
mod licences;
mod lines;
mod metadata;
mod packages;
mod partition;
mod plan;
mod process;
mod release;
mod source;
mod tests_run;
mod tiers;
mod toolchains;
mod words;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use plan::{Step, Times};
use process::{cargo, run, workspace_root};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["check"] => check(),
        ["bpf"] => bpf::build(&workspace_root()),
        ["bpf", "--check"] => bpf::check(&workspace_root()),
        ["fmt"] => fmt(),
        ["clippy"] => clippy(),
        ["doc"] => doc(),
        ["layers"] => check_layers(),
        ["layers", "--circles"] => circles::print(&workspace_root()),
        ["lines"] => lines::check(&workspace_root()),
        ["words"] => words::check(&workspace_root()),
        ["screenshots"] => screenshots(),
        ["api"] => api(false),
        ["dist", options @ ..] => dist::dist(&workspace_root(), options),
        ["release"] => release::check(&workspace_root(), true),
        ["release", "--without-packages"] => release::check(&workspace_root(), false),
        ["api", "--bless"] => api(true),
        ["packages"] => packages::provide(&workspace_root()),
        ["cost"] => cost(false),
        ["cost", "--release"] => cost(true),
        ["fuzz", "--minutes", minutes] => fuzz::fuzz(&workspace_root(), minutes, None, "1"),
        ["fuzz", "--minutes", minutes, "--jobs", jobs] => {
            fuzz::fuzz(&workspace_root(), minutes, None, jobs)
        }
        ["fuzz", "--minutes", minutes, "--target", target] => {
            fuzz::fuzz(&workspace_root(), minutes, Some(target), "1")
        }
        ["miri"] => toolchains::miri(),
        ["msrv"] => toolchains::msrv(),
        ["deny"] => toolchains::deny(),
        ["test"] => test(true, None),
        ["test", "--no-install"] => test(false, None),
        ["test", "--partition", part] => test(true, Some(part)),
        ["test", "--no-install", "--partition", part] => test(false, Some(part)),
        [partition::RUN, part, program, arguments @ ..] => partition::run(part, program, arguments),
        ["test", "fast"] => test_fast(),
        ["test", "changed"] => test_changed("HEAD"),
        ["test", "changed", "--since", commit] => test_changed(commit),
        [] | ["help" | "-h" | "--help"] => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!("error: unknown command: {}\n\n{USAGE}", words.join(" "));
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Says what it will do, then runs every check, also after one has failed, so that one run shows
/// all there is to fix.
fn check() -> Result<()> {
    let step = |name, does, seconds, run| Step {
        name,
        does,
        first: Duration::from_secs(seconds),
        run,
    };
    let steps: [Step; 8] = [
        step("fmt", "formatting", 5, fmt),
        step(
            "bpf --check",
            "objects of the kernel's programs",
            10,
            || bpf::check(&workspace_root()),
        ),
        step("layers", "order of crates and files", 5, check_layers),
        step("lines", "length of files and functions", 5, || {
            lines::check(&workspace_root())
        }),
        step("words", "words of sources and documents", 5, || {
            words::check(&workspace_root())
        }),
        step("clippy", "lints", 10 * 60, clippy),
        step("doc", "documentation", 5 * 60, doc),
        step("test", "all tests, installing nothing", 60 * 60, || {
            test(false, None)
        }),
    ];
    let mut times = Times::read(&workspace_root());
    eprintln!("{}", times.announce(&steps));
    let mut failed = Vec::new();
    for Step { name, run, .. } in steps {
        eprintln!("== {name}");
        let began = Instant::now();
        if let Err(error) = run() {
            eprintln!("error: {error:#}");
            failed.push(name);
        } else if let Err(error) = times.note(name, began.elapsed()) {
            eprintln!("the time that it took is not kept: {error:#}");
        }
    }
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    eprintln!("all checks passed");
    Ok(())
}

/// Checks which crate depends on which, and that files of a crate do not import in circles.
fn check_layers() -> Result<()> {
    let root = workspace_root();
    let mut problems = layers::problems(&root)?;
    problems.extend(circles::problems(&root)?);
    for problem in &problems {
        eprintln!("{problem}");
    }
    if !problems.is_empty() {
        bail!("crates or files are out of their layers");
    }
    eprintln!("crates keep to their layers, and no files import each other in a circle");
    Ok(())
}

fn fmt() -> Result<()> {
    run(cargo().args(["fmt", "--all", "--check"]))
}

fn clippy() -> Result<()> {
    run(cargo().args([
        "clippy",
        "--workspace",
        "--all-targets",
        "--quiet",
        "--",
        "-D",
        "warnings",
    ]))
}

fn doc() -> Result<()> {
    run(cargo()
        .args(["doc", "--workspace", "--no-deps", "--quiet"])
        .env("RUSTDOCFLAGS", "-D warnings"))
}

/// Builds everything, since lab and end-to-end tests run the real programs, then runs all tests, or
/// a part of them.
fn test(install: bool, part: Option<&str>) -> Result<()> {
    let tier = tiers::all(part.map(str::parse).transpose()?)?;
    if install {
        packages::provide(&workspace_root())?;
    } else {
        packages::report_missing(&workspace_root());
    }
    run(cargo().args(["build", "--workspace", "--bins"]))?;
    tests_run::run(&workspace_root(), &tier)
}

/// Runs the tests that take two minutes together once they are built.
fn test_fast() -> Result<()> {
    let root = workspace_root();
    tests_run::run(&root, &tiers::fast(&root)?)
}

/// Runs the tests of crates that differ from a commit, and of those that depend on them.
fn test_changed(since: &str) -> Result<()> {
    let root = workspace_root();
    let Some(tier) = tiers::changed(&root, since)? else {
        eprintln!("no crate differs from {since}");
        return Ok(());
    };
    packages::report_missing(&root);
    run(cargo().args(["build", "--workspace", "--bins"]))?;
    tests_run::run(&root, &tier)
}

/// Takes the pictures in `docs/images` anew, of real transfers: of the dashboard, and of `hawser
/// top` as docs/guide/watch-and-steer.md has it.
fn screenshots() -> Result<()> {
    let dashboard = ["--test", "real_clients", "--", "--ignored", "--nocapture"];
    let package = ["test", "-p", "hawser-cli"];
    run(cargo().args(package).args(dashboard).arg("screenshots"))?;
    let top = ["--test", "end_to_end", "--", "--exact"];
    let file = workspace_root().join("docs/images/top.txt");
    let name = "top::a_download_over_two_links_is_seen";
    let mut test = cargo();
    run(test
        .args(package)
        .args(top)
        .arg(name)
        .env("HAWSER_CAPTURE_TOP", file))
}

/// Compares the library's public interface with the listing that is kept, or keeps it as it is. It
/// is one of the library's tests, so that only that one has to build what reads Rust.
fn api(bless: bool) -> Result<()> {
    let mut test = cargo();
    test.args(["test", "--quiet", "-p", "hawser", "--test", "api"]);
    if bless {
        test.env("HAWSER_BLESS_API", "1");
    }
    run(&mut test)
}

/// Measures what it costs a daemon to be looked at, and a message that others have associations, as
/// they are built for users or as they are built for tests.
fn cost(is_release: bool) -> Result<()> {
    let test = ["test", "-p", "hawser-cli", "--test", "end_to_end"];
    let profile = is_release.then_some("--release");
    let name = ["--", "--ignored", "--nocapture", "cost::what_looking_costs"];
    run(cargo().args(test).args(profile).args(name))?;
    let test = ["test", "-p", "hawser-daemon", "--lib"];
    let name = ["--", "--ignored", "--nocapture", "what_a_picture_costs"];
    run(cargo().args(test).args(profile).args(name))?;
    let test = ["test", "-p", "hawser-net", "--lib"];
    let name = ["--", "--ignored", "--nocapture", "what_a_message_costs"];
    run(cargo().args(test).args(profile).args(name))
}

const USAGE: &str = "\
cargo xtask COMMAND

  check                 say what follows and about how long it takes, then fmt,
                        bpf --check, layers, lines, words, clippy, doc and test,
                        installing nothing
  bpf [--check]         make the object of the kernel's programs from its source
                        (needs clang 14); check that the committed one is that
  fmt                   formatting
  clippy                lints, warnings are errors
  doc                   documentation, warnings are errors
  layers [--circles]    which crate may depend on which; sans-I/O crates stay so;
                        files of a crate that import each other in a circle
                        (--circles prints all of them with their lines)
  lines                 length of files, functions and lines; no mod.rs
  words                 words that leave out whom or what a sentence speaks of
  test [--no-install] [--partition K/N]
                        install what the tests need (as root on Debian), build,
                        run all tests, list those that were skipped; or only part
                        K of N, which together have each test once
  test fast             unit tests of all crates and all tests of pure ones, without
                        network namespaces: before each commit
  test changed [--since COMMIT]
                        all tests of the crates that differ from a commit [HEAD],
                        and of those that depend on them
  packages              only install what the tests need
  api [--bless]         compare the library's public interface with the listing in
                        crates/hawser/api.txt (`test` does so too); keep it as
                        it is now
  fuzz --minutes N [--jobs N | --target NAME]
                        run every fuzz target, so many at once, or one, for N
                        minutes; totals of all runs are in bench/fuzz/totals.json
                        (needs a nightly compiler and cargo-fuzz)
  miri                  run tests of what is `unsafe` in Miri, where it can run
                        (needs a nightly compiler with miri)
  msrv                  build with the oldest Rust that is promised
  deny                  licences, sources, versions and known faults of
                        dependencies (needs cargo-deny)
  dist [--profile NAME] [--out DIR] [--version VERSION] [--twice]
                        Debian packages and a tarball in target/packages, the same
                        bytes for the same commit (needs dpkg-dev for the former);
                        --twice checks that, by building in two folders
  dist --program FILE [--out DIR] [--version VERSION]
                        a Debian package of a program that is built already, to
                        try the package
  release [--without-packages]
                        check that the commit can be released as its version: tree,
                        version, changelog, links, licences, packages (which it
                        builds twice); say what is left to do by hand
  screenshots           take the pictures in docs/images anew, of real transfers:
                        the dashboard, and in top.txt `hawser top`
  cost [--release]      measure what it costs a daemon to be looked at, for three
                        minutes, and print a table; then what a picture costs
                        with many sessions, and a message beside many idle
                        associations";
