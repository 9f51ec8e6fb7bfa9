//! Who may depend on whom, as `cargo metadata` sees it.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use anyhow::Context as _;
use serde::Deserialize;

use crate::repository::{none, top};

/// The packages of the workspace, what each may depend on, and why no more. Arrows never turn.
const EDGES: &[(&str, &[&str], &str)] = &[
    ("mesh-protocol", &[], "an auditor depends on it alone to check evidence"),
    ("mesh-sandbox", &[], "it runs one job and knows no mesh"),
    ("mesh-harness", &[], "it runs one agent and knows no mesh"),
    ("mesh-node-core", &["mesh-protocol"], "it decides, so it knows only what crosses a wire or a disk"),
    (
        "mesh-node",
        &["mesh-harness", "mesh-node-core", "mesh-protocol", "mesh-sandbox"],
        "it joins the parts, which do not know one another",
    ),
    ("mesh-cli", &["mesh-node", "mesh-protocol"], "it speaks to a node and prints the protocol's types"),
    (
        "mesh-simulations",
        &["mesh-harness", "mesh-node", "mesh-node-core", "mesh-protocol"],
        "it runs the shipped cores on a queue, and whole nodes on a disk and a network in memory",
    ),
    (
        "mesh-tests",
        &["mesh-cli", "mesh-harness", "mesh-node", "mesh-node-core", "mesh-protocol", "mesh-sandbox"],
        "nothing depends on it",
    ),
];

/// Packages that decide and so may reach none of [`IO`], however far away.
const PURE: &[&str] = &["mesh-protocol", "mesh-node-core"];

/// Crates that wait, listen, connect or write.
const IO: &[&str] = &[
    "async-std",
    "axum",
    "hyper",
    "mio",
    "quinn",
    "quinn-udp",
    "redb",
    "reqwest",
    "smol",
    "socket2",
    "tokio",
];

/// What `cargo metadata` tells, as far as the rules ask.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    source: Option<String>,
    dependencies: Vec<Declared>,
}

#[derive(Deserialize)]
struct Declared {
    name: String,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Edge>,
}

#[derive(Deserialize)]
struct Edge {
    pkg: String,
    dep_kinds: Vec<Kind>,
}

#[derive(Deserialize)]
struct Kind {
    /// None for an ordinary dependency, else `dev` or `build`.
    kind: Option<String>,
}

/// The metadata for the platform this test was built for: what others need was not fetched.
fn metadata() -> anyhow::Result<Metadata> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let version = Command::new(&cargo).arg("-vV").output().context("cannot start cargo")?;
    let version = String::from_utf8(version.stdout)?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).context("cargo names no host")?;
    let output = Command::new(&cargo)
        .args(["metadata", "--format-version", "1", "--locked", "--offline", "--filter-platform", host])
        .current_dir(top())
        .output()?;
    anyhow::ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Every package that `root` reaches by ordinary dependencies, by id.
fn reached<'a>(metadata: &'a Metadata, root: &'a str) -> BTreeSet<&'a str> {
    let nodes: BTreeMap<&str, &Node> =
        metadata.resolve.nodes.iter().map(|node| (node.id.as_str(), node)).collect();
    let mut seen = BTreeSet::new();
    let mut open = vec![root];
    while let Some(id) = open.pop() {
        if !seen.insert(id) {
            continue;
        }
        let edges = nodes.get(id).map(|node| node.deps.as_slice()).unwrap_or_default();
        let ordinary = |edge: &&Edge| edge.dep_kinds.iter().any(|kind| kind.kind.is_none());
        open.extend(edges.iter().filter(ordinary).map(|edge| edge.pkg.as_str()));
    }
    seen
}

#[test]
fn packages_depend_on_each_other_only_along_the_agreed_arrows() -> anyhow::Result<()> {
    let metadata = metadata()?;
    let mut broken = Vec::new();
    let mut members = BTreeSet::new();
    for package in metadata.packages.iter().filter(|package| package.source.is_none()) {
        members.insert(package.name.as_str());
        let Some((_, allowed, why)) = EDGES.iter().find(|(name, ..)| *name == package.name) else {
            broken.push(format!("{} is not an agreed package", package.name));
            continue;
        };
        let ours =
            package.dependencies.iter().map(|on| on.name.as_str()).filter(|on| on.starts_with("mesh-"));
        let wrong: BTreeSet<&str> = ours.filter(|on| !allowed.contains(on)).collect();
        broken.extend(wrong.iter().map(|on| format!("{} depends on {on}: {why}", package.name)));
    }
    let agreed: BTreeSet<&str> = EDGES.iter().map(|(name, ..)| *name).collect();
    broken.extend(agreed.difference(&members).map(|name| format!("{name} is agreed and missing")));
    none(&broken, "dependencies between our packages point one way");
    Ok(())
}

#[test]
fn what_decides_reaches_no_socket_disk_or_runtime() -> anyhow::Result<()> {
    let metadata = metadata()?;
    let names: BTreeMap<&str, &str> =
        metadata.packages.iter().map(|package| (package.id.as_str(), package.name.as_str())).collect();
    let mut broken = Vec::new();
    for pure in PURE {
        let root = metadata
            .packages
            .iter()
            .find(|package| package.name == *pure)
            .context("a pure package is gone")?;
        let reached = reached(&metadata, &root.id);
        assert!(reached.len() > 10, "{pure} reaches only {} packages: the graph was not read", reached.len());
        let reached = reached.iter().filter_map(|id| names.get(id));
        broken.extend(reached.filter(|name| IO.contains(name)).map(|name| format!("{pure} reaches {name}")));
    }
    none(&broken, "decisions are functions of their arguments");
    Ok(())
}

#[test]
fn every_other_package_comes_from_one_registry() -> anyhow::Result<()> {
    let metadata = metadata()?;
    let sources: BTreeSet<&str> =
        metadata.packages.iter().filter_map(|package| package.source.as_deref()).collect();
    assert!(sources.iter().all(|source| source.starts_with("registry+")), "not from a registry: {sources:?}");
    assert_eq!(sources.len(), 1, "more than one source: {sources:?}");
    Ok(())
}
