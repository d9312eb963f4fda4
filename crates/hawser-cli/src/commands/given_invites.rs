//! Invites from the command line or from standard input.

use std::io::{self, Read};

use anyhow::{Context as _, ensure};
use hawser_config::GatewaySource;

use crate::args::Command;
use hawser_daemon::setup::{Setup, Usage};

/// Reads a command's invites from standard input. Warns of invites on the command line, which the
/// kernel shows to every user of the machine for as long as the program runs.
pub(crate) fn take(setup: &Setup, command: &mut Command) -> anyhow::Result<()> {
    if setup.is_taking_over {
        // The old process has read the invites from standard input.
        forget_read(command);
    }
    let sends_input = is_sending_input(command);
    let sources = invites(command);
    if sends_input && sources.iter().any(|it| **it == GatewaySource::Stdin) {
        let problem = "standard input can't be the file and the invite: use --to @FILE";
        return Err(Usage(problem.to_owned()).into());
    }
    if sources.iter().any(|it| matches!(it, GatewaySource::Url(_))) {
        tracing::warn!(
            "every user of this machine can read the invite on the command line; put it into a \
             file (@FILE) or give it on standard input (-)"
        );
    }
    for source in sources {
        if *source == GatewaySource::Stdin {
            *source = GatewaySource::Url(read_line(&mut io::stdin().lock())?);
        }
    }
    Ok(())
}

/// Returns the sources of the command's invites.
fn invites(command: &mut Command) -> Vec<&mut GatewaySource> {
    match command {
        Command::Up(args) => args.gateway.iter_mut().chain(&mut args.peers).collect(),
        Command::Setup(args) => args.gateway.iter_mut().collect(),
        Command::Send(args) => vec![&mut args.to],
        Command::Peers(args) => args.invite_mut().into_iter().collect(),
        _ => Vec::new(),
    }
}

/// Forgets the invites from standard input.
fn forget_read(command: &mut Command) {
    if let Command::Up(args) = command {
        args.gateway.take_if(|it| *it == GatewaySource::Stdin);
        args.peers.retain(|it| *it != GatewaySource::Stdin);
    }
}

/// Returns whether the command sends the data from standard input.
fn is_sending_input(command: &Command) -> bool {
    let Command::Send(args) = command else {
        return false;
    };
    args.files.iter().any(|file| file.as_os_str() == "-")
}

/// Reads one line, and not the text after it, which may be the answer to a question.
fn read_line(input: &mut impl Read) -> anyhow::Result<String> {
    let mut line = Vec::new();
    let mut byte = [0];
    while input
        .read(&mut byte)
        .context("can't read the invite from standard input")?
        > 0
        && byte != *b"\n"
    {
        line.push(byte[0]);
        ensure!(
            line.len() <= MAX_LINE,
            "the line on standard input has more than {MAX_LINE} bytes, which is no invite"
        );
    }
    let line = String::from_utf8(line).context("the line on standard input is no invite")?;
    let line = line.trim();
    ensure!(!line.is_empty(), "there is no invite on standard input");
    Ok(line.to_owned())
}

/// Longest line that is read; an invite is far shorter.
const MAX_LINE: usize = 8192;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invite_is_the_next_line_and_what_follows_stays() {
        let mut input = &b"hawser://gw/#a \r\nyes\n"[..];
        assert_eq!(read_line(&mut input).unwrap(), "hawser://gw/#a");
        assert_eq!(input, b"yes\n");
        let mut unended = &b"hawser://gw/#a"[..];
        assert_eq!(read_line(&mut unended).unwrap(), "hawser://gw/#a");
        for (wrong, said) in [
            (&b""[..], "no invite on standard input"),
            (b"\n", "no invite on standard input"),
            (b"\xff\n", "is no invite"),
            (&[b'x'; MAX_LINE + 2], "more than 8192 bytes"),
        ] {
            let mut wrong = wrong;
            let error = read_line(&mut wrong).unwrap_err();
            assert!(format!("{error:#}").contains(said), "{error:#}");
        }
    }
}
