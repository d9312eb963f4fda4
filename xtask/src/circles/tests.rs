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
