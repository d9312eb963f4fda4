//! `hawser completions` and `hawser man`: what the definition of the command line makes for shells
//! and readers.

use std::io;
use std::path::Path;

use anyhow::Context as _;
use clap::{Command, CommandFactory as _};
use clap_mangen::Man;

use crate::args::{Cli, CompletionsArgs, ManArgs};
use crate::setup::show;

/// Prints the script with which a shell completes commands and flags.
pub(crate) fn completions(args: &CompletionsArgs) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "hawser", &mut script);
    show(&String::from_utf8(script)?)
}

/// Writes a page for each command, or prints the first.
pub(crate) fn pages(args: &ManArgs) -> anyhow::Result<()> {
    let mut all = Cli::command().disable_help_subcommand(true);
    // Gives each command its whole name.
    all.build();
    let Some(folder) = &args.out else {
        let mut text = Vec::new();
        page(all).render(&mut text)?;
        return show(&String::from_utf8(text)?);
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
    page(command).generate_to(folder).map(drop)
}

fn page(command: Command) -> Man {
    Man::new(command).source(RELEASE).manual("Hawser")
}

const RELEASE: &str = concat!("hawser ", env!("CARGO_PKG_VERSION"));
