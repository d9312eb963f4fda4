//! The commands of the guide, run page by page on machines with the names that it uses.
//!
//! The words after `sh` of a block name its machine: none for the client, `gateway`, or `host`
//! for one behind the client; `alice` is the client, and `bob` the host as a machine of its own.
//! `not run: REASON` gives the reason why it can't run here; such blocks are counted. A comment
//! `<!-- runs beside: gateway client -->` in a page names the machines on which Hawser runs.

mod page;
mod stage;

use std::path::Path;
use std::process::Command;

use hawser_skip::namespace::in_namespace_of_root;

use super::internet::missing;
use super::program::kernel_captures;
use page::{Block, Machine, Page, Place};
use stage::Stage;

/// Runs one page, in namespaces of its own.
macro_rules! pages {
    ($($test:ident: $file:literal),* $(,)?) => {
        $(
            #[test]
            fn $test() {
                run(concat!("guide::", stringify!($test)), $file);
            }
        )*

        const PAGES: &[&str] = &[$($file),*];
    };
}

pages! {
    by_name: "by-name.md",
    calls_and_games: "calls-and-games.md",
    files: "files.md",
    fleet: "fleet.md",
    gateway: "gateway.md",
    install: "install.md",
    logs: "logs.md",
    metered_links: "metered-links.md",
    no_server: "no-server.md",
    programs: "programs.md",
    router: "router.md",
    services: "services.md",
    troubleshooting: "troubleshooting.md",
    watch_and_steer: "watch-and-steer.md",
}

/// Each block of each page with commands names its machine, or why it can't run.
#[test]
fn no_page_is_forgotten() {
    let (mut run, mut not_run) = (0, 0);
    for file in std::fs::read_dir(folder()).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        let Some(page) = name.ends_with(".md").then(|| Page::read(&folder(), &name)) else {
            continue;
        };
        for Block { line, place, .. } in &page.blocks {
            match place {
                Place::NotRun(reason) => {
                    println!("{name}:{line}: not run: {reason}");
                    not_run += 1;
                }
                Place::On(_) => {
                    assert!(PAGES.contains(&name.as_str()), "{name} is not run");
                    run += 1;
                }
            }
        }
    }
    println!("{run} blocks are run, {not_run} are not");
    assert!(run > 3 * not_run, "too many blocks are not run");
}

fn run(test: &str, name: &str) {
    let page = Page::read(&folder(), name);
    in_namespace_of_root(test, || {
        if let Some(missing) = missing().or_else(missing_program) {
            return hawser_skip::skip(&format!("end_to_end::{test}"), missing);
        }
        let mut commands = page.blocks.iter().flat_map(|it| &it.commands);
        if commands.any(|it| it.contains("--capture system")) && !kernel_captures(test) {
            return;
        }
        let mut stage = Stage::new();
        if page
            .blocks
            .iter()
            .any(|it| it.place == Place::On(Machine::Bob))
        {
            stage.forward();
        }
        stage.begin(&page.beside);
        for block in &page.blocks {
            if let Place::On(machine) = &block.place {
                for command in &block.commands {
                    stage.run(*machine, command, &format!("{name}:{}", block.line));
                }
            }
        }
        stage.end();
    });
}

fn missing_program() -> Option<&'static str> {
    let is_there = |program: &str| Command::new(program).arg("--help").output().is_ok();
    let needs = [
        ("curl", "no curl here"),
        ("openssl", "no openssl here"),
        ("ping", "no ping here"),
    ];
    let missing = needs.into_iter().find(|(program, _)| !is_there(program));
    missing.map(|(_, reason)| reason)
}

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide")
}
