//! Reads tables of a TOML document key by key, remembering what was asked for: what nobody asked
//! for is an unknown key, and what was asked for is what could have been meant.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::diagnostic::Diagnostics;

/// A value with its place in the file.
pub(crate) type Read<T> = fn(&Spanned<DeValue<'_>>, &mut Diagnostics) -> Option<T>;

/// A table that is being read.
pub(crate) struct Fields<'t, 'i> {
    what: String,
    table: &'t DeTable<'i>,
    span: Range<usize>,
    asked: Vec<&'static str>,
}

impl<'t, 'i> Fields<'t, 'i> {
    /// Begins to read a table, called `what` in messages.
    pub(crate) fn new(what: &str, table: &'t DeTable<'i>, span: Range<usize>) -> Self {
        Self { what: what.to_owned(), table, span, asked: Vec::new() }
    }

    /// Begins to read a value that must be a table.
    pub(crate) fn of(
        what: &str,
        value: &'t Spanned<DeValue<'i>>,
        out: &mut Diagnostics,
    ) -> Option<Self> {
        if let DeValue::Table(table) = value.get_ref() {
            return Some(Self::new(what, table, value.span()));
        }
        mismatch(value, what, "", out);
        None
    }

    /// Where the table is.
    pub(crate) fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// Whether the table has this key.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// A key that may be absent.
    pub(crate) fn optional<T>(
        &mut self,
        key: &'static str,
        read: Read<T>,
        out: &mut Diagnostics,
    ) -> Option<Spanned<T>> {
        self.asked.push(key);
        let value = self.table.get(key)?;
        Some(Spanned::new(value.span(), read(value, out)?))
    }

    /// A key that must be there.
    pub(crate) fn required<T>(
        &mut self,
        key: &'static str,
        read: Read<T>,
        out: &mut Diagnostics,
    ) -> Option<Spanned<T>> {
        if !self.table.contains_key(key) {
            let message = format!("{} has no `{key}`", self.what);
            out.error(self.span.clone(), message, format!("add `{key} = ...`"));
        }
        self.optional(key, read, out)
    }

    /// An array of tables `[[key]]`, each read by `read`.
    pub(crate) fn tables<T>(
        &mut self,
        key: &'static str,
        read: fn(&mut Fields<'_, '_>, &mut Diagnostics) -> Option<T>,
        out: &mut Diagnostics,
    ) -> Vec<T> {
        self.asked.push(key);
        let Some(value) = self.table.get(key) else { return Vec::new() };
        let what = format!("[[{key}]]");
        let DeValue::Array(items) = value.get_ref() else {
            let remedy = format!("write `[[{key}]]`, once for each");
            let message = format!("`{key}` is {}, not a list of tables", name_of(value.get_ref()));
            out.error(value.span(), message, remedy);
            return Vec::new();
        };
        let mut all = Vec::with_capacity(items.len());
        for item in items {
            if let Some(mut fields) = Fields::of(&what, item, out) {
                all.extend(read(&mut fields, out));
                fields.finish(out);
            }
        }
        all
    }

    /// Refuses whatever nobody asked for.
    pub(crate) fn finish(&self, out: &mut Diagnostics) {
        for (key, _) in
            self.table.iter().filter(|(key, _)| !self.asked.contains(&&*key.get_ref().clone()))
        {
            let name = key.get_ref();
            let shown: String = name.chars().take(40).collect();
            let remedy = match nearest(name, &self.asked) {
                Some(known) => format!("did you mean `{known}`?"),
                None => format!("known keys are {}", list(&self.asked)),
            };
            out.error(key.span(), format!("unknown key `{shown}` in {}", self.what), remedy);
        }
    }
}

/// Refuses a value of the wrong type.
pub(crate) fn mismatch(
    value: &Spanned<DeValue<'_>>,
    expected: &str,
    examples: &str,
    out: &mut Diagnostics,
) {
    let remedy = if examples.is_empty() { String::new() } else { format!("write {examples}") };
    let message = format!("expected {expected}, found {}", name_of(value.get_ref()));
    out.error(value.span(), message, remedy);
}

/// The known word nearest to `word`, if one is near enough to have been meant.
pub(crate) fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let near = |candidate: &str| distance(word, candidate);
    let best = known.iter().copied().min_by_key(|candidate| near(candidate))?;
    (near(best) <= 1 + best.len() / 4).then_some(best)
}

/// Words as a list for a sentence.
pub(crate) fn list(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

fn name_of(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "a truth value",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// Edit distance, with the swap of two neighbours as one edit. Only the first characters count, so
/// that a hostile key costs little.
fn distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.chars().take(40).collect();
    let right: Vec<char> = right.chars().take(40).collect();
    let mut rows: Vec<Vec<usize>> = vec![(0..=right.len()).collect()];
    for (i, a) in left.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in right.iter().enumerate() {
            let substitute = rows[i][j] + usize::from(a != b);
            let mut best = substitute.min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == right[j - 1] && left[i - 1] == *b {
                best = best.min(rows[i - 1][j - 1] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[left.len()][right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_fingers_is_recognised_and_nonsense_is_not() {
        let known = ["share", "limit", "per_tenant"];
        assert_eq!(nearest("shrae", &known), Some("share"));
        assert_eq!(nearest("limits", &known), Some("limit"));
        assert_eq!(nearest("per-tenant", &known), Some("per_tenant"));
        assert_eq!(nearest("colour", &known), None);
    }
}
