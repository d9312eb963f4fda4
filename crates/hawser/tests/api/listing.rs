//! A line for each public item, field, variant, method and trait implementation.

use std::collections::{BTreeMap, BTreeSet};

use quote::ToTokens;
use syn::visit::Visit;
use syn::{
    Attribute, Fields, ImplItem, Item, ItemImpl, Path, Type, UseTree, Visibility, WhereClause,
};

use crate::source::{Source, is_for_tests};

/// The public interface of the library.
pub(crate) struct Listing {
    lines: BTreeSet<String>,
    exported: BTreeSet<String>,
    /// Types of the workspace in public signatures, with a line that names them.
    named: BTreeMap<String, String>,
}

impl Listing {
    /// Lists the exports of `hawser`, its own and other crates' items.
    pub(crate) fn of_library() -> Self {
        let crates = Source::of_library();
        let exports = exports(&crates);
        let mut listing = Self {
            lines: BTreeSet::new(),
            exported: exports.iter().map(|(_, name)| name.clone()).collect(),
            named: BTreeMap::new(),
        };
        let types = public_types(&crates);
        for (home, name) in &exports {
            let source = home_of(&crates, home, name);
            for item in &source.items {
                listing.add_item(item, name, &types);
            }
        }
        listing
    }

    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for line in &self.lines {
            text.push_str(line);
            text.push('\n');
        }
        text
    }

    /// Types of the workspace that stand in a signature and are not exported.
    pub(crate) fn hidden_types(&self) -> Vec<String> {
        let hidden = self.named.iter();
        let hidden = hidden.filter(|(name, _)| !self.exported.contains(*name));
        hidden
            .map(|(name, line)| format!("{name} in: {line}"))
            .collect()
    }

    fn add(&mut self, line: String, node: &impl Visited, types: &BTreeSet<String>) {
        let mut paths = Paths::default();
        node.visit_with(&mut paths);
        for name in paths.0.into_iter().filter(|name| types.contains(name)) {
            self.named.entry(name).or_insert_with(|| line.clone());
        }
        self.lines.insert(line);
    }

    fn add_item(&mut self, item: &Item, name: &str, types: &BTreeSet<String>) {
        match item {
            Item::Struct(it) if it.ident == name && is_public(&it.vis) => {
                let head = format!(
                    "{name}: struct{}{}",
                    text_of(&it.generics),
                    marks(&it.attrs)
                );
                self.lines.insert(head);
                self.add_fields(name, &it.fields, true, types);
            }
            Item::Enum(it) if it.ident == name && is_public(&it.vis) => {
                let head = format!("{name}: enum{}{}", text_of(&it.generics), marks(&it.attrs));
                self.lines.insert(head);
                for variant in &it.variants {
                    let path = format!("{name}::{}", variant.ident);
                    self.lines
                        .insert(format!("{path}{}", marks(&variant.attrs)));
                    self.add_fields(&path, &variant.fields, false, types);
                }
            }
            Item::Type(it) if it.ident == name && is_public(&it.vis) => {
                self.add(
                    format!("{name}: type = {}", text_of(&it.ty)),
                    &*it.ty,
                    types,
                );
            }
            Item::Const(it) if it.ident == name && is_public(&it.vis) => {
                self.add(format!("{name}: const {}", text_of(&it.ty)), &*it.ty, types);
            }
            Item::Macro(it) if makes(item, name) => {
                self.lines
                    .insert(format!("{name}: by {}!", text_of(&it.mac.path)));
            }
            Item::Impl(it) if is_of(it, name) && !is_for_tests(&it.attrs) => {
                self.add_impl(name, it, types);
            }
            _ => {}
        }
    }

    fn add_fields(
        &mut self,
        of: &str,
        fields: &Fields,
        by_visibility: bool,
        types: &BTreeSet<String>,
    ) {
        let shown = fields.iter().enumerate();
        for (n, field) in shown.filter(|(_, field)| !is_hidden(&field.attrs)) {
            if by_visibility && !is_public(&field.vis) {
                // A struct with private fields can't be made or matched as a whole.
                self.lines.insert(format!("{of}: private fields"));
                continue;
            }
            let name = field
                .ident
                .as_ref()
                .map_or(n.to_string(), ToString::to_string);
            let converts = field.attrs.iter().any(|it| it.path().is_ident("from"));
            let from = if converts { " (from)" } else { "" };
            let line = format!("{of}.{name}: {}{from}", text_of(&field.ty));
            self.add(line, &field.ty, types);
        }
    }

    fn add_impl(&mut self, name: &str, it: &ItemImpl, types: &BTreeSet<String>) {
        let generics = format!(
            "{}{}",
            text_of(&it.generics),
            bounds(it.generics.where_clause.as_ref())
        );
        if let Some((path, _)) = &it.trait_ {
            if !path.is_ident("Drop") {
                self.lines
                    .insert(format!("{name}: impl{generics} {}", text_of(path)));
            }
            return;
        }
        for item in &it.items {
            match item {
                ImplItem::Fn(function) if is_public(&function.vis) => {
                    let hidden = is_hidden(&function.attrs);
                    if !hidden && !is_for_tests(&function.attrs) {
                        let line = format!("{name}::{}", text_of(&function.sig));
                        self.add(line, &function.sig, types);
                    }
                }
                ImplItem::Const(constant) if is_public(&constant.vis) => {
                    let line = format!(
                        "{name}::const {}: {}",
                        constant.ident,
                        text_of(&constant.ty)
                    );
                    self.add(line, &constant.ty, types);
                }
                _ => {}
            }
        }
    }
}

/// A syntax node to search for paths.
trait Visited {
    fn visit_with(&self, paths: &mut Paths);
}

impl Visited for Type {
    fn visit_with(&self, paths: &mut Paths) {
        paths.visit_type(self);
    }
}

impl Visited for syn::Signature {
    fn visit_with(&self, paths: &mut Paths) {
        paths.visit_signature(self);
    }
}

/// The last names of all paths.
#[derive(Default)]
struct Paths(BTreeSet<String>);

impl<'ast> Visit<'ast> for Paths {
    fn visit_path(&mut self, path: &'ast Path) {
        self.0
            .extend(path.segments.last().map(|last| last.ident.to_string()));
        syn::visit::visit_path(self, path);
    }
}

/// Returns the tokens of a syntax node as text, with the blanks that rustfmt would leave.
pub(crate) fn text_of(node: &impl ToTokens) -> String {
    let mut text = node.to_token_stream().to_string();
    for (from, to) in BLANKS {
        text = text.replace(from, to);
    }
    text
}

/// Returns the exports: the crate that the library takes each item from, and its name.
fn exports(crates: &[Source]) -> Vec<(String, String)> {
    let own = crates
        .iter()
        .find(|source| source.name == "hawser")
        .unwrap();
    let lib = include_str!("../../src/lib.rs");
    let file = syn::parse_file(lib).unwrap();
    let mut found = Vec::new();
    for item in &file.items {
        if let Item::Use(it) = item
            && is_public(&it.vis)
        {
            leaves(&it.tree, None, &own.name, &mut found);
        }
    }
    found
}

fn leaves(tree: &UseTree, from: Option<&str>, own: &str, found: &mut Vec<(String, String)>) {
    match tree {
        UseTree::Path(path) => {
            let name = path.ident.to_string().replace('_', "-");
            let first = from.unwrap_or(if name.starts_with("hawser-") {
                &name
            } else {
                own
            });
            leaves(&path.tree, Some(first), own, found);
        }
        UseTree::Group(group) => {
            group
                .items
                .iter()
                .for_each(|tree| leaves(tree, from, own, found));
        }
        UseTree::Name(name) => {
            found.push((from.unwrap_or(own).to_owned(), name.ident.to_string()));
        }
        // The library exports by name, one by one.
        _ => {}
    }
}

/// Returns the crate that defines an item. The crate that it is taken from may itself re-export it.
fn home_of<'a>(crates: &'a [Source], taken_from: &str, name: &str) -> &'a Source {
    let source = crates.iter().find(|source| source.name == taken_from);
    let source = source.unwrap_or_else(|| panic!("{taken_from} is not below the library"));
    let defines = |item: &Item| defined(item).as_deref() == Some(name) || makes(item, name);
    if source.items.iter().any(defines) {
        return source;
    }
    let mut passed_on = Vec::new();
    for item in &source.items {
        if let Item::Use(it) = item
            && is_public(&it.vis)
        {
            leaves(&it.tree, None, taken_from, &mut passed_on);
        }
    }
    let further = passed_on
        .iter()
        .find(|(from, passed)| passed == name && from != taken_from);
    let (from, _) = further.unwrap_or_else(|| panic!("{taken_from} does not have {name}"));
    home_of(crates, from, name)
}

/// The names of all public types and traits of the workspace.
fn public_types(crates: &[Source]) -> BTreeSet<String> {
    let items = crates.iter().flat_map(|source| &source.items);
    items.filter_map(defined).collect()
}

/// The name of a public type, trait or constant.
fn defined(item: &Item) -> Option<String> {
    let (visibility, name) = match item {
        Item::Struct(it) => (&it.vis, &it.ident),
        Item::Enum(it) => (&it.vis, &it.ident),
        Item::Type(it) => (&it.vis, &it.ident),
        Item::Trait(it) => (&it.vis, &it.ident),
        Item::Const(it) => (&it.vis, &it.ident),
        _ => return None,
    };
    is_public(visibility).then(|| name.to_string())
}

/// Tells whether a macro of the file makes the item `name`; its result is not examined.
fn makes(item: &Item, name: &str) -> bool {
    let Item::Macro(it) = item else { return false };
    let tokens = it.mac.tokens.to_string();
    let mut words = tokens.split(|c: char| !c.is_alphanumeric() && c != '_');
    it.ident.is_none() && words.any(|word| word == name)
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// Tells whether an implementation is one of the type `name`.
fn is_of(it: &ItemImpl, name: &str) -> bool {
    match &*it.self_ty {
        Type::Path(path) => path
            .path
            .segments
            .last()
            .is_some_and(|last| last.ident == name),
        _ => false,
    }
}

/// Tells whether an item is hidden, for Hawser's own programs only.
fn is_hidden(attributes: &[Attribute]) -> bool {
    let mut attributes = attributes.iter();
    attributes.any(|it| text_of(&it.meta) == "doc(hidden)")
}

/// Derives and attributes that are part of the interface.
fn marks(attributes: &[Attribute]) -> String {
    let mut marks: Vec<String> = Vec::new();
    for attribute in attributes {
        if attribute.path().is_ident("non_exhaustive") {
            marks.push("non_exhaustive".to_owned());
        } else if attribute.path().is_ident("derive") {
            marks.push(text_of(&attribute.meta));
        }
    }
    if marks.is_empty() {
        String::new()
    } else {
        format!(" [{}]", marks.join(", "))
    }
}

fn bounds(clause: Option<&WhereClause>) -> String {
    clause.map_or_else(String::new, |clause| format!(" {}", text_of(clause)))
}

/// Superfluous blanks between tokens.
const BLANKS: [(&str, &str); 17] = [
    (" :: ", "::"),
    (":: ", "::"),
    (" ::", "::"),
    ("& ", "&"),
    (" < ", "<"),
    (" <", "<"),
    ("< ", "<"),
    (" >", ">"),
    (" (", "("),
    ("( ", "("),
    (" )", ")"),
    (" ,", ","),
    (" :", ":"),
    (" ;", ";"),
    ("[ ", "["),
    (" ]", "]"),
    ("->(", "-> ("),
];
