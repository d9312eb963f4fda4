//! The programs in the kernel, on links and with programs that are real.

mod ends;
mod ground;
mod life;
mod placing;
mod puppet_body;
mod rules;
mod stage;

/// No test: what a puppet runs.
#[test]
fn puppet() {
    if ground::is_puppet() {
        puppet_body::run();
    }
}
