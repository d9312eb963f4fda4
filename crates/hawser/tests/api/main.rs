//! The public interface, compared with the listing in `api.txt`.
//!
//! A removed or changed item breaks programs that embed the library: the listing shows it in
//! review, and the version must reflect it. `cargo xtask api --bless` writes the listing anew.

mod listing;
mod source;

use std::path::Path;

use listing::Listing;

#[test]
fn the_public_interface_is_the_one_that_is_kept() {
    let found = Listing::of_library().text();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("api.txt");
    if std::env::var_os("HAWSER_BLESS_API").is_some() {
        std::fs::write(&file, &found).unwrap();
        return;
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    let lost = missing_in(&found, &kept);
    let new = missing_in(&kept, &found);
    assert!(
        lost.is_empty() && new.is_empty(),
        "the public interface changed; `cargo xtask api --bless` keeps it so.\n\
         gone or changed, which breaks programs:\n{}\nnew:\n{}",
        lost.join("\n"),
        new.join("\n")
    );
}

#[test]
fn every_type_in_a_public_signature_can_be_named() {
    let hidden = Listing::of_library().hidden_types();
    assert!(hidden.is_empty(), "not exported: {hidden:#?}");
}

/// The lines of `text` that `other` does not have.
fn missing_in<'a>(other: &str, text: &'a str) -> Vec<&'a str> {
    text.lines()
        .filter(|line| !other.lines().any(|there| there == *line))
        .collect()
}
