use std::io;

/// Why a configuration was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {file}: {source}")]
    Read {
        /// The file's name.
        file: String,
        /// Error of the system.
        source: io::Error,
    },
    /// The text is not TOML.
    #[error("{file}:{line}: not TOML: {message}")]
    Syntax {
        /// The file's name.
        file: String,
        /// The line, counted from 1.
        line: usize,
        /// Message of the parser.
        message: String,
    },
    /// An unknown key.
    #[error("{file}:{line}: unknown key `{key}`; allowed: {allowed}")]
    UnknownKey {
        /// The file's name.
        file: String,
        /// The line, counted from 1.
        line: usize,
        /// The key with its sections, joined by dots.
        key: String,
        /// The keys allowed in that section.
        allowed: String,
    },
    /// A missing mandatory key.
    #[error("{file}:{line}: `{key}` is missing; allowed: {allowed}")]
    Missing {
        /// The file's name.
        file: String,
        /// The line where its section begins, counted from 1.
        line: usize,
        /// The key with its sections, joined by dots.
        key: String,
        /// Allowed values.
        allowed: String,
    },
    /// A value of the wrong kind or outside its range.
    #[error("{file}:{line}: `{key}` is {got}; allowed: {allowed}")]
    Value {
        /// The file's name.
        file: String,
        /// The line, counted from 1.
        line: usize,
        /// The key with its sections, joined by dots.
        key: String,
        /// The value in the file, shortened.
        got: String,
        /// Allowed values.
        allowed: String,
    },
}
