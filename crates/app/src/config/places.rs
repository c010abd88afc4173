//! Where in the file each part of a policy was written, so that a problem found in the policy as
//! data is shown in the file.
//!
//! Keys are the policy's own field paths, as in [`Place`]: `scheduling.depth` of backend 2 is
//! wherever the file said `depth`. A field that was not written is found at the field around it,
//! and at last at the item's name.

use std::collections::BTreeMap;
use std::ops::Range;

use evenkeel_engine::policy::check::{self, Place, Problem};

use super::diagnostic::{Diagnostic, Severity};

/// One list of the policy, or the policy itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    Policy,
    Listener,
    Backend,
    Group,
    Export,
    Tenant,
    /// The matches of the tenant at this position.
    Match(usize),
    /// The tiers of the backend at this position.
    Member(usize),
    Exchange,
    Memory,
}

/// Spans by part, position and field.
#[derive(Debug, Default)]
pub(super) struct Places {
    spans: BTreeMap<(Part, usize, &'static str), Range<usize>>,
}

impl Places {
    /// Notes where a field stands; an empty field is the item as a whole.
    pub(super) fn note(
        &mut self,
        part: Part,
        index: usize,
        field: &'static str,
        span: Range<usize>,
    ) {
        self.spans.insert((part, index, field), span);
    }

    /// Notes the fields that were written.
    pub(super) fn note_all<const N: usize>(
        &mut self,
        part: Part,
        index: usize,
        fields: [(&'static str, Option<Range<usize>>); N],
    ) {
        for (field, span) in fields {
            if let Some(span) = span {
                self.note(part, index, field, span);
            }
        }
    }

    /// A problem of the policy as a finding in its file.
    pub(super) fn locate(&self, problem: &Problem) -> Diagnostic {
        let also = problem.also.and_then(|place| self.find(place));
        Diagnostic { span: self.find(problem.place), also, ..unlocated(problem) }
    }

    fn find(&self, place: Place) -> Option<Range<usize>> {
        let (part, index, mut field) = match place {
            Place::Policy { field } => (Part::Policy, 0, field),
            Place::Listener { index, field } => (Part::Listener, index, field),
            Place::Backend { index, field } => (Part::Backend, index, field),
            Place::Group { index, field } => (Part::Group, index, field),
            Place::Export { index, field } => (Part::Export, index, field),
            Place::Tenant { index, field } => (Part::Tenant, index, field),
            Place::Match { tenant, index } => (Part::Match(tenant), index, ""),
            Place::Member { backend, index } => (Part::Member(backend), index, ""),
            Place::Exchange { field } => (Part::Exchange, 0, field),
            Place::Memory { field } => (Part::Memory, 0, field),
        };
        loop {
            if let Some(span) = self.spans.get(&(part, index, field)) {
                return Some(span.clone());
            }
            if field.is_empty() {
                return None;
            }
            field = field.rsplit_once('.').map_or("", |(around, _)| around);
        }
    }
}

/// A problem as a finding without a place, as for a change that came from no file.
pub(crate) fn unlocated(problem: &Problem) -> Diagnostic {
    let severity = match problem.severity {
        check::Severity::Warning => Severity::Warning,
        check::Severity::Error => Severity::Error,
    };
    let (message, remedy) = (problem.message.clone(), problem.remedy.clone());
    Diagnostic { severity, span: None, also: None, message, remedy }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_was_not_written_is_shown_at_what_is_around_it() {
        let mut places = Places::default();
        places.note(Part::Backend, 1, "", 10..20);
        places.note(Part::Backend, 1, "scheduling.cost", 30..40);
        let find = |index, field| places.find(Place::Backend { index, field });
        assert_eq!(find(1, "scheduling.cost.read"), Some(30..40));
        assert_eq!(find(1, "scheduling.depth"), Some(10..20));
        assert_eq!(find(0, "name"), None);
    }
}
