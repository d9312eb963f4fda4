use std::io;
use std::path::Path;

/// Function that returns the text of the file with this name.
pub type ReadText<'a> = &'a dyn Fn(&Path) -> io::Result<String>;

/// Refuses every file: for scenarios that need none.
pub fn no_files(_: &Path) -> io::Result<String> {
    Err(io::ErrorKind::Unsupported.into())
}
