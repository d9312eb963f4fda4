//! Programs with a line-by-line dialogue.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A program with a pipe each way; killed when dropped.
#[derive(Debug)]
pub(crate) struct Dialogue {
    child: Child,
    /// None once the input was closed.
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
}

impl Dialogue {
    pub(crate) fn start(mut command: Command) -> io::Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (to, from) = pipes.ok_or_else(|| io::Error::other("no pipes"))?;
        Ok(Self {
            child,
            to: Some(to),
            from: BufReader::new(from),
        })
    }

    pub(crate) fn say(&mut self, line: &str) -> io::Result<()> {
        match &mut self.to {
            Some(to) => writeln!(to, "{line}"),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Its next line, waited for; an error when it has ended.
    pub(crate) fn hear(&mut self) -> io::Result<String> {
        let mut line = String::new();
        match self.from.read_line(&mut line)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(line),
        }
    }

    /// Tells it that no more comes.
    pub(crate) fn say_no_more(&mut self) {
        self.to = None;
    }
}

impl Drop for Dialogue {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
