use super::*;

/// The circles of a crate of these files.
fn circles(files: &[(&str, &str)]) -> Vec<Vec<String>> {
    let load = |name: &str| {
        let file = files.iter().find(|(file, _)| *file == name);
        let (_, text) = file.with_context(|| format!("no file {name}"))?;
        Ok((*text).to_owned())
    };
    let tree = Tree::build("lib.rs", &load).unwrap();
    let found = find("crate", &resolve::imports(&tree));
    found.into_iter().map(|circle| circle.files).collect()
}

#[test]
fn two_files_that_name_items_of_each_other_are_a_circle() {
    let files = [
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "use crate::b::B; pub struct A;"),
        ("b.rs", "pub struct B; fn f() { super::a::A }"),
    ];
    assert_eq!(circles(&files), [["a.rs", "b.rs"]]);
}

#[test]
fn a_circle_may_lead_over_several_files() {
    let files = [
        ("lib.rs", "mod a; mod b; mod c; mod d;"),
        ("a.rs", "use crate::b::f; pub fn g() {}"),
        ("b.rs", "pub fn f() { crate::c::f() }"),
        ("c.rs", "pub fn f() { format!(\"{}\", super::a::g()) }"),
        ("d.rs", "use crate::a::g;"),
    ];
    assert_eq!(circles(&files), [["a.rs", "b.rs", "c.rs"]]);
}

#[test]
fn a_parent_imports_its_child_only_by_using_items_of_it() {
    let child = ("a/b.rs", "use super::A; pub fn f() {}");
    let declares = "mod b; pub use b::f; pub struct A;";
    let mut files = [("lib.rs", "mod a;"), ("a.rs", declares), child];
    assert!(circles(&files).is_empty());
    for uses in [
        "mod b; pub use b::f; pub struct A; fn g() { f() }",
        "mod b; use b::f; pub struct A;",
        "mod b; pub struct A; fn g() { b::f() }",
    ] {
        files[1].1 = uses;
        assert_eq!(circles(&files), [["a.rs", "a/b.rs"]], "{uses}");
    }
}

#[test]
fn names_are_followed_to_the_file_that_defines_them() {
    let mut files = [
        ("lib.rs", "mod a; pub use a::A; mod b;"),
        ("a.rs", "mod c; pub(crate) use c::A; pub use c::*;"),
        ("a/c.rs", "pub struct A; pub struct D; use crate::b::B;"),
        ("b.rs", "pub struct B; use crate::A as Other;"),
    ];
    assert_eq!(circles(&files), [["a/c.rs", "b.rs"]]);
    files[3].1 = "pub struct B; use crate::a; fn f() { a::D; }";
    assert_eq!(circles(&files), [["a/c.rs", "b.rs"]]);
    files[3].1 = "pub struct B; use crate::a; fn f() { a.D; }";
    assert!(circles(&files).is_empty());
}

#[test]
fn a_function_that_is_named_like_its_module_is_followed() {
    let scripts = "mod memory; pub(crate) use memory::memory;";
    let mut files = [
        ("lib.rs", "mod script; mod scripts;"),
        (
            "script.rs",
            "use crate::scripts; pub struct Script; fn all() { scripts::memory() }",
        ),
        ("scripts.rs", scripts),
        (
            "scripts/memory.rs",
            "use crate::script::Script; pub(crate) fn memory() {}",
        ),
    ];
    for calls in [
        files[1].1,
        "use crate::scripts::memory; pub struct Script; fn all() { memory() }",
        "use super::scripts::*; pub struct Script; fn all() { memory() }",
        "pub struct Script; fn all() { super::scripts::memory() }",
        "use crate as top; pub struct Script; fn all() { top::scripts::memory() }",
        "mod of { use super::super::scripts::memory; } pub struct Script;",
    ] {
        files[1].1 = calls;
        assert_eq!(
            circles(&files),
            [["script.rs", "scripts/memory.rs"]],
            "{calls}"
        );
    }
    files[1].1 = "pub struct Script; fn all() {}";
    assert!(circles(&files).is_empty());
}

#[test]
fn a_module_and_a_function_of_one_name_are_told_apart() {
    // Both kinds of `scripts` pass through the root, and only the module leads on to `Script`.
    let mut files = [
        ("lib.rs", "mod script; mod a; use a::scripts;"),
        ("script.rs", "use crate::scripts; fn f() { scripts::g() }"),
        ("a.rs", "pub mod scripts; pub fn scripts() {}"),
        (
            "a/scripts.rs",
            "pub fn g() { use crate::script as f; f::f() }",
        ),
    ];
    assert_eq!(circles(&files), [["a/scripts.rs", "script.rs"]]);
    files[0].1 = "mod script; mod a; use a::scripts; use a::scripts::scripts as other;";
    files[2].1 = "pub mod scripts; pub use scripts::scripts;";
    files[3].1 = "pub fn scripts() {} pub fn g() { crate::script::f() }";
    assert_eq!(circles(&files), [["a/scripts.rs", "script.rs"]]);
}

#[test]
fn a_module_that_passes_a_function_on_is_imported_by_files_outside_of_it() {
    let mut files = [
        ("lib.rs", "mod bind; mod takeover;"),
        (
            "bind.rs",
            "use crate::takeover; fn listen() { takeover::take() } pub fn check() {}",
        ),
        (
            "takeover.rs",
            "mod kept; pub(crate) use kept::take; fn f() { crate::bind::check() }",
        ),
        ("takeover/kept.rs", "pub(crate) fn take() {}"),
    ];
    assert_eq!(circles(&files), [["bind.rs", "takeover.rs"]]);
    // The modules around a file may pass on to it what its neighbours have.
    files[1].1 = "pub fn check() {}";
    files[2].1 = "mod kept; mod other; pub(crate) use kept::take; fn f() { other::g() }";
    let other = ("takeover/other.rs", "use super::take; pub fn g() {}");
    let files = [&files[..], &[other]].concat();
    assert!(circles(&files).is_empty());
}

#[test]
fn paths_behind_dots_in_attributes_and_to_variants_are_imports() {
    let mut files = [
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", ""),
        ("b.rs", "pub enum B { C } fn f() { crate::a::g() }"),
    ];
    for imports in [
        "pub fn g() { A { ..super::b::B::default() } }",
        "pub fn g() { 0..super::b::B }",
        "pub fn g() { use super::b::B::*; C }",
        "pub fn g() {} struct A {\n #[serde(rename = \"x\", with = \"super::b::f\")] c: u8 }",
    ] {
        files[1].1 = imports;
        assert_eq!(circles(&files), [["a.rs", "b.rs"]], "{imports}");
    }
    files[1].1 = "pub fn g() { a.b::<u8>(); \"super::b::f\" }";
    assert!(circles(&files).is_empty());
}

#[test]
fn names_that_a_glob_brings_are_found_where_they_are_used() {
    let mut files = [
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "use crate::b::*; pub const A: u8 = 1; fn f() { B }"),
        ("b.rs", "pub const B: u8 = crate::a::A;"),
    ];
    assert_eq!(circles(&files), [["a.rs", "b.rs"]]);
    files[1].1 = "use crate::b::*; pub const A: u8 = 1;";
    assert!(circles(&files).is_empty());
}

#[test]
fn tests_comments_and_modules_in_braces_are_no_imports() {
    let files = [
        ("lib.rs", "mod a; mod b;"),
        (
            "a.rs",
            "pub struct A;\n#[cfg(test)]\nmod tests {\n use crate::b::B;\n}\n// crate::b::B",
        ),
        (
            "b.rs",
            "use crate::a::A; pub struct B; mod c { use super::B; }",
        ),
    ];
    assert!(circles(&files).is_empty());
}

#[test]
fn re_exports_in_a_circle_end() {
    let files = [
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "pub use crate::b::X; fn f() { X }"),
        ("b.rs", "pub use crate::a::X;"),
    ];
    assert!(circles(&files).is_empty());
}

#[test]
fn a_circle_is_a_problem_that_names_its_files() {
    let problem = problem(&Circle {
        package: "new".to_owned(),
        files: vec!["a.rs".to_owned(), "b.rs".to_owned()],
        imports: Vec::new(),
    });
    assert!(problem.starts_with("new: ") && problem.ends_with(": a.rs, b.rs"));
}
