//! Load of a scenario file: synthetic workloads and recorded traces.

use std::ops::Range;

use evenkeel_core::time::Span;
use evenkeel_sim::link::LinkSpec;
use evenkeel_sim::scenario::{
    Arrivals, Layout, Pattern, Replay, ReplayTiming, Route, WeightedSize, Workload,
};
use toml::Spanned;
use toml::de::DeValue;

use super::device::{at_least_one, link};
use super::table;
use super::{Value, or};
use crate::config::diagnostic::Diagnostics;
use crate::config::fields::{Fields, mismatch};
use crate::config::values;
use crate::trace::input::{ReadOptions, TraceFile};
use crate::units::Amount;

/// One `[[workload]]`.
pub(super) fn read(
    fields: &mut Fields<'_, '_>,
    out: &mut Diagnostics,
) -> Option<Spanned<Workload>> {
    let span = fields.span();
    let default = Workload::default();
    let name = fields.required("name", values::text, out);
    let target = fields.required("target", targets, out);
    let named = name.is_some() && target.is_some();
    // Without a name the rest is read all the same, for its own mistakes.
    let workload = Workload {
        name: or(name, String::new()),
        tenant: fields.optional("tenant", values::text, out).map(Spanned::into_inner),
        targets: or(target, Vec::new()),
        layout: or(fields.optional("layout", layout, out), default.layout),
        clients: or(fields.optional("clients", at_least_one, out), default.clients),
        depth: or(fields.optional("depth", at_least_one, out), default.depth),
        arrivals: or(fields.optional("arrivals", arrivals, out), default.arrivals),
        sizes: or(fields.optional("size", sizes, out), default.sizes),
        pattern: or(fields.optional("pattern", pattern, out), default.pattern),
        read_percent: or(fields.optional("read_percent", percent, out), default.read_percent),
        flush_every: or(fields.optional("flush_every", values::whole, out), 0),
        range: fields.optional("range", range, out).map(Spanned::into_inner),
        requests: fields
            .optional("requests", values::whole, out)
            .map(|all| all.into_inner().into()),
        start: or(fields.optional("start", values::duration, out), Span::ZERO),
        stop: fields.optional("stop", values::duration, out).map(Spanned::into_inner),
        idle: or(fields.optional("idle", idle, out), Vec::new()),
        link: or(fields.optional("link", link, out), LinkSpec::default()),
    };
    named.then(|| Spanned::new(span, workload))
}

/// A `[[replay]]` with the file of its trace.
pub(super) struct FileReplay {
    pub(super) replay: Replay,
    pub(super) trace: TraceFile,
}

/// One `[[replay]]`. Each source of the trace goes where `otherwise` says: to one export, as one
/// tenant or as the policy's matches decide.
pub(super) fn read_replay(
    fields: &mut Fields<'_, '_>,
    out: &mut Diagnostics,
) -> Option<Spanned<FileReplay>> {
    let span = fields.span();
    let name = fields.required("name", values::text, out);
    let file = fields.required("file", values::path, out);
    let table = table::read(fields, out);
    let target = fields.required("target", values::text, out);
    let tenant = fields.optional("tenant", values::text, out).map(Spanned::into_inner);
    let depth = fields.optional("depth", at_least_one, out);
    let speed = fields.optional("speed", values::thousandths, out);
    let timing = match (depth, speed) {
        (Some(depth), None) => {
            ReplayTiming::Closed { depth: depth.into_inner(), think: Span::ZERO }
        }
        (None, speed) => ReplayTiming::Recorded { speed_milli: or(speed, 1000) },
        (Some(_), Some(speed)) => {
            let remedy = "keep `speed` for the recorded pace, or `depth` to ignore it";
            out.error(speed.span(), "a closed loop has no speed", remedy);
            return None;
        }
    };
    let start = or(fields.optional("start", values::duration, out), Span::ZERO);
    let link = or(fields.optional("link", link, out), LinkSpec::default());
    let otherwise = Some(Route { tenant, target: target?.into_inner() });
    let name = name?.into_inner();
    let replay = Replay {
        name,
        routes: Vec::new(),
        otherwise,
        timing,
        start,
        stop: None,
        window: None,
        continues: false,
        link,
    };
    let options = ReadOptions { table: table?, ..ReadOptions::default() };
    let trace = TraceFile { path: file?.into_inner(), options };
    Some(Spanned::new(span, FileReplay { replay, trace }))
}

/// One name, or a list of them.
fn targets(value: &Value<'_>, out: &mut Diagnostics) -> Option<Vec<String>> {
    if let DeValue::Array(_) = value.get_ref() {
        let names = values::texts(value, out)?;
        return Some(names.into_iter().map(Spanned::into_inner).collect());
    }
    Some(vec![values::text(value, out)?])
}

fn layout(value: &Value<'_>, out: &mut Diagnostics) -> Option<Layout> {
    let choices = [("spread", Layout::Spread), ("striped", Layout::Striped)];
    values::choice(value, "a layout", &choices, out)
}

/// `"closed"`, or a table whose one rate says how requests come.
fn arrivals(value: &Value<'_>, out: &mut Diagnostics) -> Option<Arrivals> {
    if let DeValue::String(_) = value.get_ref() {
        let closed = Arrivals::Closed { think: Span::ZERO };
        return values::choice(value, "a way to arrive", &[("closed", closed)], out);
    }
    let mut fields = Fields::of("`arrivals`", value, out)?;
    let think = fields.optional("think", values::duration, out).map(Spanned::into_inner);
    let mut rate = |key, out: &mut Diagnostics| fields.optional(key, per_second, out);
    let constant = rate("constant", out).map(Spanned::into_inner);
    let poisson = rate("poisson", out).map(Spanned::into_inner);
    let burst = rate("burst", out).map(Spanned::into_inner);
    let on = fields.optional("on", values::duration, out).map(Spanned::into_inner);
    let off = fields.optional("off", values::duration, out).map(Spanned::into_inner);
    fields.finish(out);
    match (think, constant, poisson, burst, on, off) {
        (Some(think), None, None, None, None, None) => Some(Arrivals::Closed { think }),
        (None, Some(per_second), None, None, None, None) => Some(Arrivals::Constant { per_second }),
        (None, None, Some(per_second), None, None, None) => Some(Arrivals::Poisson { per_second }),
        (None, None, None, Some(per_second), Some(on), Some(off)) => {
            Some(Arrivals::OnOff { per_second, on, off })
        }
        _ => {
            let remedy = "write one of `{ think = \"1 ms\" }`, `{ constant = \"500 iops\" }`, \
                          `{ poisson = \"500 iops\" }`, \
                          `{ burst = \"500 iops\", on = \"2 s\", off = \"3 s\" }`";
            out.error(value.span(), "these arrivals are none or several at once", remedy);
            None
        }
    }
}

fn per_second(value: &Value<'_>, out: &mut Diagnostics) -> Option<f64> {
    let rates = values::rates(value, out)?;
    if let [rate] = &rates[..]
        && let Amount::Requests(rate) = rate.get_ref()
    {
        return Some(*rate as f64);
    }
    out.error(value.span(), "arrivals count requests", "write it like `\"500 iops\"`");
    None
}

/// One size, or a list of sizes with weights.
fn sizes(value: &Value<'_>, out: &mut Diagnostics) -> Option<Vec<WeightedSize>> {
    match value.get_ref() {
        DeValue::Array(items) => items.iter().map(|item| weighted(item, out)).collect(),
        _ => Some(vec![WeightedSize { size_bytes: size(value, out)?, weight: 1 }]),
    }
}

fn weighted(value: &Value<'_>, out: &mut Diagnostics) -> Option<WeightedSize> {
    let mut fields = Fields::of("a weighted size", value, out)?;
    let size = fields.required("size", size, out);
    let weight = or(fields.optional("weight", values::whole, out), 1);
    fields.finish(out);
    Some(WeightedSize { size_bytes: size?.into_inner(), weight })
}

fn size(value: &Value<'_>, out: &mut Diagnostics) -> Option<u32> {
    let size = values::size(value, out)?;
    let fits = u32::try_from(size).ok();
    if fits.is_none() {
        out.error(value.span(), "a request of this size cannot be made", "32 MiB is the most");
    }
    fits
}

/// `"uniform"`, `"sequential"`, `{ zipf = 0.99 }`, or `{ hot = 90, bytes = "1 GiB" }`.
fn pattern(value: &Value<'_>, out: &mut Diagnostics) -> Option<Pattern> {
    const EXAMPLES: &str =
        "`\"uniform\"`, `\"sequential\"`, `{ zipf = 0.99 }` or `{ hot = 90, bytes = \"1 GiB\" }`";
    match value.get_ref() {
        DeValue::Table(_) => {
            let mut fields = Fields::of("`pattern`", value, out)?;
            let skew = fields.optional("zipf", values::thousandths, out);
            let hot = fields.optional("hot", values::thousandths, out);
            let bytes = fields.optional("bytes", values::size, out);
            fields.finish(out);
            match (skew, hot, bytes) {
                (Some(skew), None, None) => {
                    Some(Pattern::Zipf { theta: f64::from(skew.into_inner()) / 1000.0 })
                }
                (None, Some(percent), Some(bytes)) => hot_part(&percent, bytes.into_inner(), out),
                _ => {
                    out.error(value.span(), "this pattern is none", format!("write {EXAMPLES}"));
                    None
                }
            }
        }
        DeValue::String(_) => {
            let choices = [("uniform", Pattern::Uniform), ("sequential", Pattern::Sequential)];
            values::choice(value, "a pattern", &choices, out)
        }
        _ => {
            mismatch(value, "a pattern", EXAMPLES, out);
            None
        }
    }
}

/// So many percent, in thousandths, of the requests within the first bytes.
fn hot_part(percent: &Spanned<u32>, hot_bytes: u64, out: &mut Diagnostics) -> Option<Pattern> {
    let requests_ppm = percent.get_ref() * 10;
    let pattern = Pattern::Hot { hot_bytes, requests_ppm };
    if pattern.fault().is_some() {
        out.error(percent.span(), "more than all of them", "write at most 100");
        return None;
    }
    Some(pattern)
}

fn percent(value: &Value<'_>, out: &mut Diagnostics) -> Option<u8> {
    let number = values::whole(value, out)?;
    let fits = u8::try_from(number).ok().filter(|percent| *percent <= 100);
    if fits.is_none() {
        out.error(value.span(), "more than all of them", "write 0 to 100");
    }
    fits
}

/// `["0 B", "1 GiB"]`: first byte, and the one after the last.
fn range(value: &Value<'_>, out: &mut Diagnostics) -> Option<Range<u64>> {
    between(value, "a range", "`[\"0 B\", \"1 GiB\"]`", values::size, out)
}

/// A list of `["10 s", "20 s"]`.
fn idle(value: &Value<'_>, out: &mut Diagnostics) -> Option<Vec<Range<Span>>> {
    let examples = "`[[\"10 s\", \"20 s\"]]`";
    let DeValue::Array(items) = value.get_ref() else {
        mismatch(value, "a list of intervals", examples, out);
        return None;
    };
    items.iter().map(|item| between(item, "an interval", examples, values::duration, out)).collect()
}

fn between<T: Copy + PartialOrd>(
    value: &Value<'_>,
    what: &str,
    examples: &str,
    read: fn(&Value<'_>, &mut Diagnostics) -> Option<T>,
    out: &mut Diagnostics,
) -> Option<Range<T>> {
    let ends = match value.get_ref() {
        DeValue::Array(items) if items.len() == 2 => {
            let ends: Vec<Option<T>> = items.iter().map(|item| read(item, out)).collect();
            ends[0]?..ends[1]?
        }
        _ => {
            mismatch(value, what, examples, out);
            return None;
        }
    };
    if ends.start >= ends.end {
        out.error(value.span(), format!("{what} that ends before it begins"), "swap its ends");
        return None;
    }
    Some(ends)
}
