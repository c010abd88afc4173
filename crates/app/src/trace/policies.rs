//! The way of policies from one trace to another: each is written in front of the first request
//! that arrived under it.

use evenkeel_core::time::{Nanos, Span};
use evenkeel_trace::codec::RecordedPolicy;

use super::files::Transform;
use super::output::TraceWriter;
use crate::{human, terminal};

/// An instant of a trace, for people.
pub(crate) fn since(at: Nanos) -> String {
    if at == Nanos::ZERO { "the start".to_owned() } else { human::duration(Span(at.0)) }
}

/// What became of the policies of a trace.
#[derive(Debug, Default)]
pub(crate) struct PolicyCopy {
    /// The place of the next one among those that the trace has told.
    next: usize,
    /// Why those that are known are not in the result.
    left_out: Option<String>,
}

impl PolicyCopy {
    /// Writes those of `told` that were in force when a request arrived at `until`, as far as they
    /// were not yet. Of several that come to the same instant, the last is written.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(crate) fn write_up_to(
        &mut self,
        until: Nanos,
        told: &[RecordedPolicy],
        transform: &dyn Transform,
        writer: &mut TraceWriter,
    ) -> anyhow::Result<()> {
        let due = &told[self.next..];
        let due = &due[..due.partition_point(|policy| policy.at <= until)];
        self.next += due.len();
        for (index, policy) in due.iter().enumerate() {
            let Some(at) = transform.instant(policy.at) else { continue };
            let next = due.get(index + 1).and_then(|next| transform.instant(next.at));
            if next != Some(at) {
                let policy = RecordedPolicy { at, text: policy.text.clone() };
                self.write(&policy, transform.leaves_out_policies(), writer)?;
            }
        }
        Ok(())
    }

    /// Writes a policy, unless `refusal` says why not.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(crate) fn write(
        &mut self,
        policy: &RecordedPolicy,
        refusal: Option<&str>,
        writer: &mut TraceWriter,
    ) -> anyhow::Result<()> {
        let outcome = match refusal {
            Some(why) => Err(why.to_owned()),
            None => writer.policy(policy.at, policy.text.as_deref())?,
        };
        if let Err(why) = outcome
            && policy.text.is_some()
        {
            self.left_out.get_or_insert(why);
            // A format without policies says so once more; the native one must not go on with the
            // policy before this one.
            let _ = writer.policy(policy.at, None)?;
        }
        Ok(())
    }

    /// Says on stderr if policies were left out, and why.
    pub(crate) fn tell(&self) {
        if let Some(why) = &self.left_out {
            terminal::say(&format!("the policies that the trace tells are left out: {why}"));
        }
    }
}
