//! Tests of the programs in the kernel, with real links and programs.

mod bonds;
mod discovery;
mod ends;
mod ground;
mod held;
mod life;
mod meeting;
mod middleboxes;
mod names;
mod old_ports;
mod placing;
mod puppet_body;
mod relay;
mod rules;
mod stage;
mod strange;

/// Not a test: the puppet's main function.
#[test]
fn puppet() {
    if ground::is_puppet() {
        puppet_body::run();
    }
}
