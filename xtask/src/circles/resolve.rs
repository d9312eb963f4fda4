//! Finds the file that defines the item of a path.

use std::collections::BTreeSet;

use super::scan::Binding;
use super::tree::Tree;

/// A line of one file that names an item of another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Import {
    /// The file with the line, below `src`.
    pub(crate) from: String,
    /// The line, counted from 1.
    pub(crate) line: usize,
    /// The path as it stands there.
    pub(crate) name: String,
    /// The file that defines the item.
    pub(crate) to: String,
}

/// Returns what files of a crate import of each other: of each item the first line in each file.
pub(crate) fn imports(tree: &Tree) -> Vec<Import> {
    let mut found = BTreeSet::new();
    for (number, node) in tree.nodes() {
        let module = &node.module;
        let used = module.bindings.iter().filter(|b| is_used(b, node));
        let used = used.map(|b| (b.path.clone(), b.line));
        let words = if module.globs.is_empty() {
            None
        } else {
            Some(module.words.iter())
        };
        let from_globs = words.into_iter().flatten();
        let from_globs = from_globs.map(|(word, line)| (vec![word.clone()], *line));
        let in_code = module
            .paths
            .iter()
            .map(|(path, line)| (path.clone(), *line));
        // Variants of an enum; from a module, only words that are used count.
        let enums = module.globs.iter().cloned();
        for (path, line) in used.chain(in_code).chain(from_globs).chain(enums) {
            let defined = file_of(tree, number, &path);
            let Some(defined) = defined else { continue };
            for to in passing(tree, number, &path).chain([defined]) {
                if to != node.file {
                    found.insert(Import {
                        from: node.file.clone(),
                        line,
                        name: path.join("::"),
                        to: to.to_owned(),
                    });
                }
            }
        }
    }
    found.into_iter().collect()
}

/// A name that is only passed on to other modules is not used.
fn is_used(binding: &Binding, node: &super::tree::Node) -> bool {
    !binding.is_public || node.module.words.contains_key(&binding.name)
}

/// Returns the file that defines what `path` names in module `from`; `None` for a module, and for
/// what lies outside the crate.
fn file_of<'a>(tree: &'a Tree, from: usize, path: &[String]) -> Option<&'a str> {
    match resolve(tree, from, path, Kind::Item, &mut BTreeSet::new())? {
        Target::Item(module) => Some(&tree.node(module).file),
        Target::Module(_) => None,
    }
}

/// Returns the files of modules on `path` that pass on what is defined elsewhere, but for those
/// around module `from`: a module may well name a neighbour by what is above both.
fn passing<'a>(tree: &'a Tree, from: usize, path: &'a [String]) -> impl Iterator<Item = &'a str> {
    (1..path.len()).filter_map(move |length| {
        let before = &path[..length];
        let found = resolve(tree, from, before, Kind::Module, &mut BTreeSet::new())?;
        let Target::Module(module) = found else {
            return None;
        };
        let (node, name) = (tree.node(module), &path[length]);
        let is_module = length + 1 < path.len() && node.children.contains_key(name);
        let is_own = is_module || node.module.items.contains(name);
        let passes = !is_own && node.module.bindings.iter().any(|it| it.name == *name);
        (passes && !is_around(tree, module, from)).then_some(node.file.as_str())
    })
}

/// Whether a module is `inner`, or around it.
fn is_around(tree: &Tree, module: usize, inner: usize) -> bool {
    let mut at = inner;
    while at != module && at != 0 {
        at = tree.node(at).parent;
    }
    at == module
}

#[derive(Clone, Copy)]
enum Target {
    /// An item that this module defines.
    Item(usize),
    Module(usize),
}

/// What a name is to mean: a module and a function may have the same one, and `use` brings both.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Item,
    Module,
}

/// Names that are being looked up, by module, so that a circle of re-exports ends.
type Pending = BTreeSet<(usize, String, Kind)>;

/// Finds what `path` names in module `from`: what is of kind `last`, if there is such.
fn resolve(
    tree: &Tree,
    from: usize,
    path: &[String],
    last: Kind,
    pending: &mut Pending,
) -> Option<Target> {
    let kind = |behind: &[String]| {
        if behind.is_empty() {
            last
        } else {
            Kind::Module
        }
    };
    let (first, mut rest) = path.split_first()?;
    let mut target = match first.as_str() {
        "crate" => Target::Module(0),
        "self" => Target::Module(from),
        "super" => Target::Module(tree.node(from).parent),
        name => look_up(tree, from, name, kind(rest), pending)?,
    };
    while let (Target::Module(module), Some((name, behind))) = (target, rest.split_first()) {
        rest = behind;
        target = match name.as_str() {
            "super" => Target::Module(tree.node(module).parent),
            // A macro may have made what is not to be seen.
            name => {
                look_up(tree, module, name, kind(rest), pending).unwrap_or(Target::Item(module))
            }
        };
    }
    Some(target)
}

/// Finds a name in a module: what is of this kind, or else what has the name.
fn look_up(
    tree: &Tree,
    module: usize,
    name: &str,
    kind: Kind,
    pending: &mut Pending,
) -> Option<Target> {
    let node = tree.node(module);
    let child = node.children.get(name).map(|child| Target::Module(*child));
    let item = node.module.items.contains(name);
    let item = item.then_some(Target::Item(module));
    let (wanted, other) = match kind {
        Kind::Item => (item, child),
        Kind::Module => (child, item),
    };
    let key = (module, name.to_owned(), kind);
    if wanted.is_some() || !pending.insert(key.clone()) {
        return wanted.or(other);
    }
    let bindings = node.module.bindings.iter().filter(|b| b.name == name);
    let mut targets: Vec<Target> = bindings
        .filter_map(|b| resolve(tree, module, &b.path, kind, pending))
        .collect();
    for (glob, _) in &node.module.globs {
        if let Some(Target::Module(source)) = resolve(tree, module, glob, Kind::Module, pending) {
            targets.extend(look_up(tree, source, name, kind, pending));
        }
    }
    pending.remove(&key);
    let is_wanted = |target: &&Target| matches!(target, Target::Item(_)) == (kind == Kind::Item);
    let wanted = targets.iter().find(is_wanted).copied();
    wanted.or(other).or(targets.first().copied())
}
