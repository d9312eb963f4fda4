//! The standard output.

use std::io::{self, Write};

/// Prints a line or more; a reader that has gone is no failure.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    match writeln!(io::stdout(), "{}", text.trim_end()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
}
