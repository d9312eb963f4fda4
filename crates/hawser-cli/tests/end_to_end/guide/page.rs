//! A page of the guide, and its blocks of commands.

use std::path::Path;

/// A page.
pub(super) struct Page {
    /// Machines on which Hawser runs when the page begins.
    pub(super) beside: Vec<Machine>,
    pub(super) blocks: Vec<Block>,
}

/// A block of commands.
pub(super) struct Block {
    /// The line of the page at which it begins.
    pub(super) line: usize,
    pub(super) place: Place,
    /// Whole commands, without the comments at their ends.
    pub(super) commands: Vec<String>,
}

/// Machine on which a block runs.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    On(Machine),
    /// Nowhere, for this reason.
    NotRun(String),
}

/// A machine of the guide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Machine {
    /// The machine with two links.
    Client,
    /// The gateway, `gw.example`.
    Gateway,
    /// A machine behind the client.
    Host,
    /// The same, but a machine for which the client is an ordinary router.
    Bob,
}

impl Machine {
    pub(super) const ALL: [Self; 4] = [Self::Client, Self::Gateway, Self::Host, Self::Bob];
}

impl Page {
    pub(super) fn read(folder: &Path, name: &str) -> Self {
        let text = std::fs::read_to_string(folder.join(name)).unwrap();
        let beside = text.lines().find_map(|line| {
            let line = line.strip_prefix("<!-- runs beside: ")?;
            line.strip_suffix(" -->")
        });
        let machines = beside.unwrap_or_default().split_whitespace();
        let beside = machines.map(|it| machine(it).unwrap_or_else(|| panic!("{name}: {it}")));
        Self {
            beside: beside.collect(),
            blocks: blocks(&text, name),
        }
    }
}

fn blocks(text: &str, name: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut lines = text.lines().zip(1..);
    while let Some((line, number)) = lines.next() {
        let Some(info) = line.strip_prefix("```") else {
            continue;
        };
        let inside = lines.by_ref().take_while(|(line, _)| *line != "```");
        let inside: Vec<&str> = inside.map(|(line, _)| line).collect();
        if info == "sh" || info.starts_with("sh ") {
            let info = info["sh".len()..].trim();
            let place = place(info).unwrap_or_else(|| panic!("{name}:{number}: unknown: {info}"));
            found.push(Block {
                line: number,
                place,
                commands: commands(&inside),
            });
        }
    }
    found
}

fn place(info: &str) -> Option<Place> {
    match info.strip_prefix("not run:").map(str::trim) {
        Some("") => None,
        Some(reason) => Some(Place::NotRun(reason.to_owned())),
        None if info.is_empty() => Some(Place::On(Machine::Client)),
        None => machine(info).map(Place::On),
    }
}

fn machine(name: &str) -> Option<Machine> {
    match name {
        "client" | "alice" => Some(Machine::Client),
        "gateway" => Some(Machine::Gateway),
        "host" => Some(Machine::Host),
        "bob" => Some(Machine::Bob),
        _ => None,
    }
}

fn commands(lines: &[&str]) -> Vec<String> {
    let text = lines.join("\n").replace("\\\n", " ");
    let whole = text.lines().map(|line| {
        let command = line.split_once("  # ").map_or(line, |(command, _)| command);
        command.trim().to_owned()
    });
    whole.filter(|line| !line.is_empty()).collect()
}

#[test]
fn a_block_says_where_it_runs_or_why_not() {
    let text = "```sh\na \\\n  b  # why\n```\n```sh gateway\nc # d\n\n```\n```\nsh\n```\n";
    let found = blocks(text, "page.md");
    let commands: Vec<_> = found.iter().map(|it| (it.line, &it.commands[..])).collect();
    let expected = [
        (1, vec!["a    b".to_owned()]),
        (5, vec!["c # d".to_owned()]),
    ];
    assert_eq!(
        commands,
        expected.each_ref().map(|(line, it)| (*line, &it[..]))
    );
    assert_eq!(found[1].place, Place::On(Machine::Gateway));
    assert_eq!(place("not run: no"), Some(Place::NotRun("no".to_owned())));
    assert_eq!(place("not run:"), None);
    assert_eq!(place("elsewhere"), None);
}
