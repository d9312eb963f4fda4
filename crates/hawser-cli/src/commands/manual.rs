//! `hawser completions` and `hawser man`: scripts for shells, and manual pages, generated from the
//! definition of the command line.

mod sections;

use std::io;
use std::path::Path;

use anyhow::Context as _;
use clap::{Command, CommandFactory as _};
use clap_mangen::Man;

use crate::args::{Cli, CompletionsArgs, ManArgs};
use hawser_daemon::setup::show;

/// Prints the script that makes a shell complete commands and flags.
pub(crate) fn completions(args: &CompletionsArgs) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "hawser", &mut script);
    show(&String::from_utf8(script)?)
}

/// Writes a page for each command, or prints the first.
pub(crate) fn pages(args: &ManArgs) -> anyhow::Result<()> {
    let mut all = Cli::command().disable_help_subcommand(true);
    // Sets the full name of each command.
    all.build();
    let Some(folder) = &args.out else {
        return show(&String::from_utf8(page(all)?.1)?);
    };
    std::fs::create_dir_all(folder)
        .and_then(|()| write(all, folder))
        .with_context(|| format!("can't write pages into {}", folder.display()))
}

/// Writes the page of a command and those of the commands below it.
fn write(command: Command, folder: &Path) -> io::Result<()> {
    for below in command.get_subcommands().filter(|it| !it.is_hide_set()) {
        write(below.clone(), folder)?;
    }
    let (name, text) = page(command)?;
    std::fs::write(folder.join(name), text)
}

/// Returns the page of a command: the name of its file, and its text.
fn page(command: Command) -> io::Result<(String, Vec<u8>)> {
    let name = command.get_display_name().unwrap_or("hawser").to_owned();
    let man = Man::new(command).source(RELEASE).manual("Hawser");
    let mut text = Vec::new();
    man.render(&mut text)?;
    sections::after_flags(&name).to_writer(&mut text)?;
    Ok((man.get_filename(), text))
}

const RELEASE: &str = concat!("hawser ", env!("CARGO_PKG_VERSION"));
