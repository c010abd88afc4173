//! Policies that come into force while a scenario runs.

use evenkeel_core::time::Span;
use toml::Spanned;

use super::{RawPolicy, policy};
use crate::config::diagnostic::Diagnostics;
use crate::config::fields::Fields;
use crate::config::values;

/// One `[[change]]`.
pub(super) struct RawChange {
    pub(super) at: Span,
    pub(super) policy: RawPolicy,
}

/// Reads one.
pub(super) fn read(
    fields: &mut Fields<'_, '_>,
    out: &mut Diagnostics,
) -> Option<Spanned<RawChange>> {
    let span = fields.span();
    let at = fields.required("at", values::duration, out);
    let policy = fields.required("policy", policy, out);
    let (at, policy) = (at?.into_inner(), policy?.into_inner());
    Some(Spanned::new(span, RawChange { at, policy }))
}
