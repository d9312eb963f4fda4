//! The command lines in the documents for users, read by the real parser.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::*;

#[test]
fn commands_in_blocks_are_parsed_whole() {
    let mut count = 0;
    for (file, text) in documents() {
        for line in commands_in_blocks(&text) {
            let words = std::iter::once("hawser".to_owned()).chain(words(&line));
            if let Err(error) = Cli::try_parse_from(words) {
                assert_eq!(error.exit_code(), 0, "{file}: hawser {line}\n{error}");
            }
            count += 1;
        }
    }
    assert!(count > 100, "{count} commands only were found");
}

#[test]
fn commands_in_sentences_exist_with_their_flags() {
    let mut count = 0;
    for (file, text) in documents() {
        for span in commands_in_sentences(&text) {
            if let Err(problem) = exists(&span) {
                panic!("{file}: `hawser {span}`: {problem}");
            }
            count += 1;
        }
    }
    assert!(count > 100, "{count} commands only were found");
}

#[test]
fn the_list_of_commands_is_complete() {
    let text = fs::read_to_string(docs().join("guide/commands.md")).unwrap();
    let lines = text
        .lines()
        .filter_map(|line| line.strip_prefix("hawser "))
        .filter(|line| line.contains("  "));
    let listed: BTreeSet<&str> = lines
        .map(|line| line.split_whitespace().next().unwrap())
        .collect();
    let program = Cli::command();
    let visible = program.get_subcommands().filter(|it| !it.is_hide_set());
    let there: BTreeSet<&str> = visible.map(clap::Command::get_name).collect();
    assert_eq!(listed, there);
}

#[test]
fn a_wrong_command_is_noticed() {
    assert_eq!(words("a 'b c' d # e"), ["a", "b c", "d"]);
    let text = "```sh\nhawser up --warp\nsudo hawser run \\\n  -- x\n```\nSee `hawser\nflies`.\n";
    assert_eq!(commands_in_blocks(text), ["up --warp", "run -- x"]);
    assert_eq!(commands_in_sentences(text), ["flies"]);
    assert!(exists("flies").is_err());
    assert!(exists("up --warp").is_err());
    assert!(exists("peers add NAME --trust-first").is_ok());
}

/// Returns the names and texts of the guide's pages and of other documents with commands.
fn documents() -> Vec<(String, String)> {
    let pages = fs::read_dir(docs().join("guide")).unwrap();
    let mut files: Vec<PathBuf> = pages.map(|it| it.unwrap().path()).collect();
    files.push(docs().join("../README.md"));
    files.extend(["operations.md", "errors.md"].map(|name| docs().join(name)));
    let read = |file: PathBuf| {
        let text = fs::read_to_string(&file).unwrap();
        (file.display().to_string(), text)
    };
    files.into_iter().map(read).collect()
}

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// Returns the text after `hawser` in the blocks of shell commands, one line each.
fn commands_in_blocks(text: &str) -> Vec<String> {
    let blocks = text.split("```").skip(1).step_by(2);
    let shell = blocks.filter_map(|block| block.strip_prefix("sh"));
    let mut found = Vec::new();
    for block in shell {
        let (_info, lines) = block.split_once('\n').unwrap_or_default();
        let whole = lines.replace("\\\n", " ");
        let commands = whole.lines().filter_map(|line| {
            let line = line.trim().trim_start_matches("sudo ");
            let line = line.strip_prefix("hawser ")?;
            Some(line.split_whitespace().collect::<Vec<_>>().join(" "))
        });
        found.extend(commands);
    }
    found
}

/// Returns the text after `hawser` in code within sentences, where arguments may be missing.
fn commands_in_sentences(text: &str) -> Vec<String> {
    let prose = text.split("```").step_by(2);
    let mut found = Vec::new();
    for part in prose {
        let spans = part.split('`').skip(1).step_by(2);
        let commands = spans.filter_map(|span| span.strip_prefix("hawser"));
        let commands = commands.filter(|rest| rest.starts_with(char::is_whitespace));
        found.extend(commands.map(|it| it.split_whitespace().collect::<Vec<_>>().join(" ")));
    }
    found
}

/// Splits one command into words, up to its end; replaces placeholders by valid values.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let (mut is_quoted, mut was_quoted) = (false, false);
    for character in line.chars().chain([' ']) {
        match character {
            '\'' => (is_quoted, was_quoted) = (!is_quoted, true),
            ' ' if !is_quoted => {
                if !was_quoted && ["#", "|", "||", "&&"].contains(&word.as_str()) {
                    return words;
                }
                if was_quoted || !word.is_empty() {
                    words.push(meant(std::mem::take(&mut word)));
                }
                was_quoted = false;
            }
            other => word.push(other),
        }
    }
    words
}

fn meant(word: String) -> String {
    match word.as_str() {
        "ID" | "KEY" | "KEY-OF-BOB" | "KEY-OF-ALICE" | "NEXT" => "A".repeat(43),
        "INVITE" => "hawser://gw.example:7443/#abc".to_owned(),
        _ => word,
    }
}

/// Checks that the subcommands and flags in the possible beginning of a command exist.
fn exists(span: &str) -> Result<(), String> {
    let program = Cli::command();
    let mut at = &program;
    let mut may_be_command = true;
    for word in span.split(' ') {
        if word == "--" {
            break;
        }
        if let Some(flag) = word.strip_prefix("--") {
            let flag = flag.split('=').next().unwrap_or_default();
            let own = at.get_arguments().chain(program.get_arguments());
            let mut names = own.filter_map(clap::Arg::get_long);
            let is_usual = ["help", "version"].contains(&flag);
            if !is_usual && !names.any(|name| name == flag) {
                return Err(format!("there is no --{flag}"));
            }
        } else if may_be_command && at.has_subcommands() {
            match at.find_subcommand(word) {
                Some(found) => at = found,
                None if is_placeholder(word) => may_be_command = false,
                None if at.get_name() == "hawser" && word != "help" => {
                    return Err(format!("there is no command {word}"));
                }
                None => may_be_command = false,
            }
        }
    }
    Ok(())
}

fn is_placeholder(word: &str) -> bool {
    word == "…" || word.chars().all(|it| it.is_ascii_uppercase() || it == '…')
}
