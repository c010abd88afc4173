//! What a `[[replay]]` states about the columns of its trace, if that is a table: the words of the
//! command line.
//!
//! ```toml
//! column = "op=rw_flag:0=write,1=read"    # or a list of such
//! unit = ["size=sectors", "time=ms"]
//! assume = "read"
//! ```

use std::str::FromStr;

use evenkeel_core::ticket::Kind;
use evenkeel_trace::format::{ColumnRule, TableOptions, UnitRule};
use toml::Spanned;
use toml::de::DeValue;

use super::Value;
use crate::config::diagnostic::Diagnostics;
use crate::config::fields::Fields;
use crate::config::values;

/// What is stated; `None` with the mistakes noted.
pub(super) fn read(fields: &mut Fields<'_, '_>, out: &mut Diagnostics) -> Option<TableOptions> {
    let span = fields.span();
    let columns = fields.optional("column", rules::<ColumnRule>, out);
    let units = fields.optional("unit", rules::<UnitRule>, out);
    let assume = fields.optional("assume", kind, out).map(Spanned::into_inner);
    let rules = TableOptions::new(
        columns.map(Spanned::into_inner).unwrap_or_default(),
        units.map(Spanned::into_inner).unwrap_or_default(),
        assume,
    );
    rules.map_err(|reason| out.error(span, reason, "state each once")).ok()
}

/// One rule, or a list of them.
fn rules<R: FromStr<Err = String>>(value: &Value<'_>, out: &mut Diagnostics) -> Option<Vec<R>> {
    let texts = if let DeValue::Array(_) = value.get_ref() {
        values::texts(value, out)?
    } else {
        vec![Spanned::new(value.span(), values::text(value, out)?)]
    };
    let mut rules = Vec::new();
    for text in texts {
        match text.get_ref().parse() {
            Ok(rule) => rules.push(rule),
            Err(reason) => {
                out.error(text.span(), reason, "the manual of traces has examples");
                return None;
            }
        }
    }
    Some(rules)
}

fn kind(value: &Value<'_>, out: &mut Diagnostics) -> Option<Kind> {
    match values::text(value, out)?.as_str() {
        "read" => Some(Kind::Read),
        "write" => Some(Kind::Write),
        _ => {
            out.error(value.span(), "this cannot be assumed", "write `read` or `write`");
            None
        }
    }
}
