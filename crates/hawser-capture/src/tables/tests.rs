use std::process::Command;

use super::*;

/// Both sides print their field offsets.
#[test]
#[cfg_attr(miri, ignore = "it starts a compiler")]
fn both_sides_lay_their_tables_out_alike() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("layout");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/native/layout.c");
    let mut compiler = Command::new("cc");
    match compiler
        .args(["-Wall", "-Werror", source, "-o"])
        .arg(&program)
        .status()
    {
        Ok(status) => assert!(status.success()),
        Err(error) => return hawser_skip::skip(TEST, &format!("no C compiler: {error}")),
    }
    let output = Command::new(&program).output().unwrap();
    let theirs = String::from_utf8(output.stdout).unwrap();
    assert_eq!(theirs.lines().collect::<Vec<_>>(), layouts());
}

#[test]
fn addresses_of_both_families_come_back() {
    for text in ["10.1.2.3", "fd00::1", "::1"] {
        let address: IpAddr = text.parse().unwrap();
        assert_eq!(unmapped(mapped(address)), address);
    }
}

#[test]
fn names_are_cut_to_what_the_kernel_keeps() {
    assert_eq!(text(&comm("transmission-daemon")), "transmission-da");
    assert_eq!(text(&comm("")), "");
}

const TEST: &str = "tables::tests::both_sides_lay_their_tables_out_alike";
