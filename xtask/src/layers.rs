//! Which crate may use which: the table in ARCHITECTURE.md, held against `cargo metadata`.
//!
//! The table is the one truth. Its rows look like this:
//!
//! ```text
//! | crate  | may use    | third-party crates |
//! |--------|------------|--------------------|
//! | `core` | nothing    | `crc32c`           |
//! | `wire` | `core`     | none               |
//! | `io`   | `core`, .. | any                |
//! ```
//!
//! Dev-dependencies count for edges between our own crates, since a test can tie two layers
//! together as well as code can; they do not count as third-party crates.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::shell;

const HEADING: &str = "| crate | may use | third-party crates |";

/// Checks the workspace; fails with every breach named.
pub(crate) fn run() -> Result<()> {
    let document = std::fs::read_to_string(shell::root().join("ARCHITECTURE.md"))
        .context("cannot read ARCHITECTURE.md")?;
    let rules = rules(&document)?;
    let output = shell::cargo("metadata --format-version 1 --no-deps --locked").output()?;
    if !output.status.success() {
        bail!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    }
    let packages = packages(&serde_json::from_slice(&output.stdout)?)?;
    let breaches = breaches(&rules, &packages);
    for breach in &breaches {
        eprintln!("{breach}");
    }
    if !breaches.is_empty() {
        bail!("{} edges that ARCHITECTURE.md does not allow", breaches.len());
    }
    eprintln!("layers: {} crates keep to the table in ARCHITECTURE.md", packages.len());
    Ok(())
}

/// What one crate may use.
#[derive(Debug, PartialEq, Eq)]
struct Rule {
    ours: BTreeSet<String>,
    third_party: ThirdParty,
}

#[derive(Debug, PartialEq, Eq)]
enum ThirdParty {
    Any,
    Only(BTreeSet<String>),
}

/// What one crate does use.
#[derive(Debug, Default, PartialEq, Eq)]
struct Package {
    ours: BTreeSet<String>,
    third_party: BTreeSet<String>,
}

fn rules(document: &str) -> Result<BTreeMap<String, Rule>> {
    let mut lines = document.lines().skip_while(|line| collapse(line) != HEADING).skip(2);
    let rows = lines.by_ref().take_while(|line| line.trim_start().starts_with('|'));
    let rules = rows.map(rule).collect::<Result<BTreeMap<_, _>>>()?;
    if rules.is_empty() {
        bail!("ARCHITECTURE.md has no table that opens with `{HEADING}`");
    }
    Ok(rules)
}

fn rule(row: &str) -> Result<(String, Rule)> {
    let cells: Vec<_> = row.trim().trim_matches('|').split('|').map(str::trim).collect();
    let [name, ours, third_party] = cells[..] else {
        bail!("ARCHITECTURE.md: three cells wanted in `{row}`");
    };
    let names = |cell: &str| -> BTreeSet<String> {
        let quoted = cell.split('`').skip(1).step_by(2);
        quoted.map(str::to_owned).collect()
    };
    let third_party = match third_party {
        "any" => ThirdParty::Any,
        "none" => ThirdParty::Only(BTreeSet::new()),
        list if list.contains('`') => ThirdParty::Only(names(list)),
        other => {
            bail!("ARCHITECTURE.md: `any`, `none` or crates wanted, not `{other}`, in `{row}`")
        }
    };
    let name = names(name).pop_first().with_context(|| format!("no crate named in `{row}`"))?;
    Ok((name, Rule { ours: names(ours), third_party }))
}

fn collapse(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn packages(metadata: &Value) -> Result<BTreeMap<String, Package>> {
    let list = metadata["packages"].as_array().context("metadata without packages")?;
    list.iter().map(|package| Ok((short(text(package, "name")?), uses(package)?))).collect()
}

fn uses(package: &Value) -> Result<Package> {
    let mut uses = Package::default();
    for dependency in package["dependencies"].as_array().context("package without dependencies")? {
        let name = text(dependency, "name")?;
        if dependency["path"].is_string() {
            uses.ours.insert(short(name));
        } else if dependency["kind"].as_str() != Some("dev") {
            uses.third_party.insert(name.to_owned());
        }
    }
    Ok(uses)
}

fn breaches(rules: &BTreeMap<String, Rule>, packages: &BTreeMap<String, Package>) -> Vec<String> {
    let mut breaches = Vec::new();
    for (name, package) in packages {
        let Some(rule) = rules.get(name) else {
            breaches.push(format!("{name}: has no row; add one to the table in ARCHITECTURE.md"));
            continue;
        };
        for used in package.ours.difference(&rule.ours) {
            breaches.push(format!("{name} uses {used}: move what it needs to a crate it may use"));
        }
        if let ThirdParty::Only(allowed) = &rule.third_party {
            for used in package.third_party.difference(allowed) {
                breaches.push(format!("{name} uses {used}: it is pure and may use no such crate"));
            }
        }
    }
    for name in rules.keys().filter(|name| !packages.contains_key(*name)) {
        breaches.push(format!("{name}: is in the table but not in the workspace; drop its row"));
    }
    breaches
}

/// Package names carry the project's name, folders and the table do not.
fn short(name: &str) -> String {
    name.strip_prefix("evenkeel-").unwrap_or(name).to_owned()
}

fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str> {
    value[key].as_str().with_context(|| format!("metadata without `{key}`"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const TABLE: &str = "# Title\n\n\
        | crate  | may use | third-party crates |\n|---|---|---|\n\
        | `core` | nothing | `crc32c` |\n| `io` | `core`, `wire` | any |\n\n\
        after\n| `x` | y | none |\n";

    fn package(name: &str, dependencies: &Value) -> Value {
        json!({ "packages": [{ "name": name, "dependencies": dependencies }] })
    }

    fn check(name: &str, dependencies: &Value) -> Vec<String> {
        let rules = rules(TABLE).unwrap();
        let found = breaches(&rules, &packages(&package(name, dependencies)).unwrap());
        found.into_iter().filter(|breach| !breach.contains("drop its row")).collect()
    }

    #[test]
    fn the_table_ends_where_its_rows_end() {
        let rules = rules(TABLE).unwrap();
        assert_eq!(rules.keys().collect::<Vec<_>>(), ["core", "io"]);
        assert_eq!(rules["io"].third_party, ThirdParty::Any);
        assert!(rules["io"].ours.contains("wire"));
    }

    #[test]
    fn an_edge_upwards_is_a_breach_even_for_tests() {
        let used = json!([{ "name": "evenkeel-io", "path": "/x", "kind": "dev" }]);
        assert_eq!(check("evenkeel-core", &used).len(), 1);
    }

    #[test]
    fn a_pure_crate_may_test_with_third_party_crates_but_not_ship_them() {
        let test = json!([{ "name": "proptest", "path": null, "kind": "dev" }]);
        let ship = json!([{ "name": "tokio", "path": null, "kind": null }]);
        let named = json!([{ "name": "crc32c", "path": null, "kind": null }]);
        assert!(check("evenkeel-core", &test).is_empty());
        assert!(check("evenkeel-core", &named).is_empty());
        assert_eq!(check("evenkeel-core", &ship).len(), 1);
        assert!(check("evenkeel-io", &ship).is_empty());
    }

    #[test]
    fn crate_and_table_must_know_each_other() {
        assert!(check("evenkeel-new", &json!([]))[0].contains("has no row"));
        let found = breaches(&rules(TABLE).unwrap(), &BTreeMap::new());
        assert_eq!(found.len(), 2);
    }
}
