//! How a volume on servers, tiered or spread, passes from one gate to the next, in the policy file.
//!
//! ```toml
//! [[backend]]
//! name = "pool"
//! choices = ["s1", "s2", "s3"]               # or `tiers`
//! lease = "5 s"                              # how long its owner may be silent
//! fence = ["/etc/evenkeel/fence", "--off"]   # keeps a gate from the servers; none if left out
//! takeover = "after 60 s, unfenced"          # or the operator's word, if left out
//! late = "30 s"                              # how long a server may go on with what it has read
//! ```

use evenkeel_core::time::Span;
use evenkeel_engine::lease::Times;
use evenkeel_engine::policy::Takeover;
use toml::Spanned;
use toml::de::DeValue;

use super::diagnostic::Diagnostics;
use super::fields::mismatch;
use super::print::{Text, quoted};
use super::raw::RawBackend;
use super::values;
use crate::units::{parse_duration, print_duration};

/// A fence as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RawFence {
    /// One that a kind of storage has by itself, or `none`.
    Named(String),
    /// A command with its arguments.
    Command(Vec<String>),
}

/// A name, or a command.
pub(super) fn fence(value: &Spanned<DeValue<'_>>, out: &mut Diagnostics) -> Option<RawFence> {
    match value.get_ref() {
        DeValue::String(name) => Some(RawFence::Named(name.to_string())),
        DeValue::Array(_) => {
            let command = values::texts(value, out)?;
            let command: Vec<String> = command.into_iter().map(Spanned::into_inner).collect();
            if command.first().is_none_or(String::is_empty) {
                let remedy = "name the program and its arguments: `[\"/etc/evenkeel/fence\"]`";
                out.error(value.span(), "a fence without a program", remedy);
                return None;
            }
            Some(RawFence::Command(command))
        }
        _ => {
            mismatch(value, "a fence", "`[\"/etc/evenkeel/fence\", \"--off\"]`", out);
            None
        }
    }
}

/// How long an owner may be silent.
pub(super) fn lease(value: &Spanned<DeValue<'_>>, out: &mut Diagnostics) -> Option<Span> {
    let span = values::duration(value, out)?;
    if span < Times::SHORTEST || span > Times::LONGEST {
        let [shortest, longest] = [Times::SHORTEST, Times::LONGEST].map(print_duration);
        let message = format!("a lease of {}", print_duration(span));
        let remedy = format!("choose one from {shortest} to {longest}; 5 s is the default");
        out.error(value.span(), message, remedy);
        return None;
    }
    Some(span)
}

/// After how long a gate that is not fenced off may be displaced.
pub(super) fn takeover(value: &Spanned<DeValue<'_>>, out: &mut Diagnostics) -> Option<Span> {
    let written = values::text(value, out)?;
    let span = written.strip_prefix("after ").and_then(|rest| rest.strip_suffix(", unfenced"));
    let span = span.and_then(|span| parse_duration(span.trim()).ok());
    if span.is_none() {
        let message = format!("there is no takeover {written:?}");
        let remedy = "write `\"after 60 s, unfenced\"`, or leave it out: then it takes the \
                      operator's word (`evenkeel ctl claim`)";
        out.error(value.span(), message, remedy);
    }
    span
}

/// How long servers may go on with what they have read from a connection that was lost.
pub(super) fn late(value: &Spanned<DeValue<'_>>, out: &mut Diagnostics) -> Option<Span> {
    let span = values::duration(value, out)?;
    if span > Takeover::LATE_MAX {
        let [longest, default] = [Takeover::LATE_MAX, Takeover::LATE].map(print_duration);
        let message = format!("servers that let go after {}", print_duration(span));
        let remedy = format!("choose {longest} at most; {default} is the default");
        out.error(value.span(), message, remedy);
        return None;
    }
    Some(span)
}

/// The span as written; one of nothing is warned of.
pub(super) fn warned_late(late: &Spanned<Span>, out: &mut Diagnostics) -> Span {
    if *late.get_ref() == Span::ZERO {
        let message = "the gate waits for nothing that servers carry out late";
        let remedy = "what a server had read from a connection that was lost, or from the gate \
                      before, may then destroy what was written and flushed since; leave `late` \
                      out: only writes to the same bytes wait";
        out.warning(late.span(), message, remedy);
    }
    *late.get_ref()
}

/// How the volume passes on.
pub(super) fn resolve(raw: &mut RawBackend, out: &mut Diagnostics) -> Takeover {
    let fence = match raw.fence.take().map(|fence| (fence.span(), fence.into_inner())) {
        None => Vec::new(),
        Some((_, RawFence::Command(command))) => command,
        Some((_, RawFence::Named(name))) if name == "none" => Vec::new(),
        Some((span, RawFence::Named(name))) => {
            let message = format!("a volume over other backends has no fence {name:?}");
            let remedy = "name a command: `fence = [\"/etc/evenkeel/fence\"]`, or leave it out";
            out.error(span, message, remedy);
            Vec::new()
        }
    };
    let times = raw.lease.take().map_or(Times::DEFAULT, |lease| Times::of(lease.into_inner()));
    let written = raw.takeover.take();
    if let Some(span) = &written {
        let message = "a gate may be displaced that is not fenced off";
        let remedy = "if it was only asleep or cut off, what it still sends destroys what was \
                      written since; a `fence` rules that out";
        out.warning(span.span(), message, remedy);
    }
    let late = raw.late.take().map_or(Takeover::LATE, |late| warned_late(&late, out));
    Takeover { times, fence, unfenced_after: written.map(Spanned::into_inner), late }
}

/// The keys as they would be written.
pub(super) fn print(takeover: &Takeover, text: &mut Text) {
    text.key("lease", quoted(&print_duration(takeover.times.lease())));
    if !takeover.fence.is_empty() {
        let words: Vec<_> = takeover.fence.iter().map(|word| quoted(word)).collect();
        text.key("fence", format!("[{}]", words.join(", ")));
    }
    if let Some(span) = takeover.unfenced_after {
        text.key("takeover", quoted(&format!("after {}, unfenced", print_duration(span))));
    }
    text.key("late", quoted(&print_duration(takeover.late)));
}
