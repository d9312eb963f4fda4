//! Placeholder until its work begins.
fn main() {}
