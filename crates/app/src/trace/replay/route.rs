//! Which export the requests of a source go to.

use std::collections::BTreeMap;

use evenkeel_io::load::replay::TARGETS_MAX;
use evenkeel_trace::{SourceId, Sources};

use crate::exit::Exit;

/// One `--map`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    /// Requests of this source ..
    pub(super) source: String,
    /// .. go to this export.
    pub(super) export: String,
}

/// Where requests of sources go that no rule names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fallback {
    /// To the export of the address.
    Address,
    /// To the export of the source's own name, or of what follows its last slash.
    OwnName,
}

/// Finds the export of a source.
#[derive(Debug)]
pub(super) struct Router {
    /// By name of source: index of the export.
    by_name: BTreeMap<String, usize>,
    /// Where all others go.
    other: Option<usize>,
    /// By id of source, as far as they were asked for.
    by_id: Vec<Option<usize>>,
}

impl Router {
    /// Sources go where a rule says, else where `fallback` does. Returns the exports that are
    /// needed as well; which are, tells the list of all `sources`, if it is known.
    pub(super) fn new(
        address_export: &str,
        rules: &[Rule],
        (fallback, sources): (Fallback, Option<&[String]>),
    ) -> anyhow::Result<(Self, Vec<String>)> {
        let mut exports: Vec<String> = Vec::new();
        let mut index_of = |export: &str| {
            exports.iter().position(|known| known == export).unwrap_or_else(|| {
                exports.push(export.to_owned());
                exports.len() - 1
            })
        };
        let mut by_name = BTreeMap::new();
        for rule in rules {
            by_name.insert(rule.source.clone(), index_of(&rule.export));
        }
        let is_mapped = |source: &String| rules.iter().any(|rule| rule.source == *source);
        let mut rest = sources.unwrap_or_default().iter().filter(|source| !is_mapped(source));
        let mut other = None;
        match fallback {
            Fallback::OwnName => rest.for_each(|source| {
                let own = source.rsplit('/').next().unwrap_or(source);
                by_name.insert(source.clone(), index_of(own));
            }),
            Fallback::Address if sources.is_none() || rest.next().is_some() => {
                other = Some(index_of(address_export));
            }
            Fallback::Address => {}
        }
        if exports.len() > TARGETS_MAX {
            let count = exports.len();
            let message = format!(
                "the trace would go to {count} exports; cut it to the sources of at most \
                 {TARGETS_MAX}"
            );
            return Err(Exit::Usage.because(message));
        }
        Ok((Self { by_name, other, by_id: Vec::new() }, exports))
    }

    /// The index of the export that requests of `source` go to.
    ///
    /// # Errors
    /// If there is none, which takes a trace that changed since it was looked through.
    pub(super) fn target(&mut self, sources: &Sources, source: SourceId) -> anyhow::Result<usize> {
        let index = source.0 as usize;
        if let Some(&Some(target)) = self.by_id.get(index) {
            return Ok(target);
        }
        let name = sources.name(source);
        let target = self.by_name.get(name).copied().or(self.other).ok_or_else(|| {
            Exit::Invalid.because(format!("source {name:?} was not there a moment ago; try again"))
        })?;
        self.by_id.resize(self.by_id.len().max(index + 1), None);
        self.by_id[index] = Some(target);
        Ok(target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [&str; 3] = ["db/a", "db/b", "web/a"];

    fn routed(rules: &[(&str, &str)], fallback: Fallback) -> (Vec<usize>, Vec<String>) {
        let rules: Vec<Rule> = rules
            .iter()
            .map(|(source, export)| Rule {
                source: (*source).to_owned(),
                export: (*export).to_owned(),
            })
            .collect();
        let known = ALL.map(str::to_owned);
        let terms = (fallback, Some(&known[..]));
        let (mut router, exports) = Router::new("disk", &rules, terms).unwrap();
        let mut sources = Sources::default();
        let ids = ALL.map(|name| sources.intern(name).unwrap());
        (ids.map(|id| router.target(&sources, id).unwrap()).to_vec(), exports)
    }

    #[test]
    fn sources_go_to_one_export_to_mapped_ones_or_to_those_of_their_names() {
        let (targets, exports) = routed(&[], Fallback::Address);
        assert_eq!((targets, exports), (vec![0, 0, 0], vec!["disk".to_owned()]));
        let (targets, exports) = routed(&[("db/b", "copy")], Fallback::Address);
        assert_eq!((targets, exports), (vec![1, 0, 1], vec!["copy".into(), "disk".into()]));
        let (targets, exports) = routed(&[("db/b", "copy")], Fallback::OwnName);
        assert_eq!((targets, exports), (vec![1, 0, 1], vec!["copy".into(), "a".into()]));
        let (_, exports) = routed(&ALL.map(|source| (source, "copy")), Fallback::Address);
        assert_eq!(exports, ["copy"], "the address's own export is not needed");
    }
}
