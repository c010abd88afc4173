//! What goes wrong in a scenario file.

use evenkeel_core::time::Span;
use evenkeel_sim::faults::{Fault, FaultKind, LinkPlace};
use toml::Spanned;

use super::{Value, or};
use crate::config::diagnostic::Diagnostics;
use crate::config::fields::Fields;
use crate::config::values;

#[derive(Clone, Copy)]
enum Word {
    Slow,
    Stuck,
    Failing,
    Lying,
    Restart,
    Link,
}

/// One `[[fault]]`.
pub(super) fn read(fields: &mut Fields<'_, '_>, out: &mut Diagnostics) -> Option<Spanned<Fault>> {
    let span = fields.span();
    let kind = fields.required("kind", word, out);
    let start = fields.required("start", values::duration, out);
    let length = fields.required("length", values::duration, out);
    let what =
        match kind?.into_inner() {
            Word::Slow => {
                let time_percent = fields.required("time_percent", values::whole, out);
                backend(fields, out).zip(time_percent).map(|(backend, percent)| {
                    FaultKind::SlowDevice { backend, time_percent: percent.into_inner() }
                })
            }
            Word::Stuck => backend(fields, out).map(|backend| FaultKind::StuckDevice { backend }),
            Word::Failing => {
                let permille = fields.required("permille", values::whole, out);
                backend(fields, out).zip(permille).map(|(backend, permille)| {
                    FaultKind::FailingDevice { backend, permille: permille.into_inner() }
                })
            }
            Word::Lying => backend(fields, out).map(|backend| FaultKind::LyingDevice { backend }),
            Word::Restart => Some(FaultKind::GateRestart),
            Word::Link => link(fields, out),
        };
    let (start, length) = (start?.into_inner(), length?.into_inner());
    Some(Spanned::new(span, Fault { what: what?, start, length }))
}

fn word(value: &Value<'_>, out: &mut Diagnostics) -> Option<Word> {
    let choices = [
        ("slow", Word::Slow),
        ("stuck", Word::Stuck),
        ("failing", Word::Failing),
        ("lying", Word::Lying),
        ("restart", Word::Restart),
        ("link", Word::Link),
    ];
    values::choice(value, "a kind of fault", &choices, out)
}

fn backend(fields: &mut Fields<'_, '_>, out: &mut Diagnostics) -> Option<String> {
    fields.required("backend", values::text, out).map(Spanned::into_inner)
}

/// The link of a backend or of a workload.
fn link(fields: &mut Fields<'_, '_>, out: &mut Diagnostics) -> Option<FaultKind> {
    let backend = fields.optional("backend", values::text, out).map(Spanned::into_inner);
    let workload = fields.optional("workload", values::text, out).map(Spanned::into_inner);
    let loss_ppm = or(fields.optional("loss_ppm", values::whole, out), 0);
    let delay = or(fields.optional("delay", values::duration, out), Span::ZERO);
    let place = match (backend, workload) {
        (Some(backend), None) => LinkPlace::Backend(backend),
        (None, Some(workload)) => LinkPlace::Workload(workload),
        _ => {
            let remedy = "name one `backend` or one `workload`";
            out.error(fields.span(), "this fault does not say which link it hits", remedy);
            return None;
        }
    };
    Some(FaultKind::Link { place, loss_ppm, delay })
}
