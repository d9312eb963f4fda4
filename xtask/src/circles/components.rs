//! Strongly connected components of a graph.

use std::collections::{BTreeMap, BTreeSet};

/// Returns the strongly connected components of at least two nodes, each sorted, in the order of
/// their first nodes.
///
/// Every target of an edge must be a key of `graph`.
pub(crate) fn components<'a>(graph: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> Vec<Vec<&'a str>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> = graph
        .keys()
        .map(|node| (*node, reached_from(graph, node)))
        .collect();
    let mut placed = BTreeSet::new();
    let mut found = Vec::new();
    for (node, targets) in &reached {
        if placed.contains(node) || !targets.contains(node) {
            continue;
        }
        // Crates have a few hundred files, so comparing all of them costs less than the stack
        // of Tarjan's algorithm takes to explain.
        let mutual = targets.iter().filter(|t| reached[*t].contains(node));
        let component: Vec<&str> = mutual.copied().collect();
        placed.extend(component.iter().copied());
        if component.len() > 1 {
            found.push(component);
        }
    }
    found
}

/// Returns every node that at least one edge leads to from `start`.
fn reached_from<'a>(
    graph: &BTreeMap<&'a str, BTreeSet<&'a str>>,
    start: &str,
) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open = vec![start];
    while let Some(node) = open.pop() {
        for target in graph.get(node).into_iter().flatten() {
            if reached.insert(*target) {
                open.push(target);
            }
        }
    }
    reached
}
