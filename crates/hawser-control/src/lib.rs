//! Snapshots, events and commands: the one API behind the CLI and every monitor.
