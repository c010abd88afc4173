//! Tables whose first line has the titles of the columns, among them the CSV traces of libCacheSim
//! and what `evenkeel trace convert IN OUT.csv` writes.
//!
//! ```text
//! version,time,op,size,lbn              time_ns,source,op,offset,size,response_ns
//! 1,33898,2a,512,42932745               0,db/main,read,4096,8192,350000
//! ```
//!
//! `titles` knows the names of columns, `rules` is what a user states beside them, `plan` puts both
//! together, `judge` holds the first rows against it, `kinds` and `value` read the fields. Whoever
//! opens a table calls [`understand`] first: the decoder takes an unstated time for seconds, and
//! unstated sizes for bytes.
//!
//! Time, kind, offset and size must be there (the kind, unless it is assumed); other columns are
//! passed over. The encoder writes the columns of the second example, whose instants count from the
//! start of the trace and return as they were.

mod encode;
mod fields;
mod heimdall;
mod judge;
mod kinds;
mod plan;
mod rules;
mod titles;
mod value;

pub use judge::{Unclear, Understanding, understand};
pub use rules::{ColumnRule, Field, TableOptions, Unit, UnitRule};

pub(super) use encode::CsvEncoder;

use evenkeel_core::ticket::Kind;
use evenkeel_core::time::{Nanos, Span};

use self::fields::{Fields, unquoted};
use self::judge::GAP_S_MAX;
use self::plan::Plan;
use super::Options;
use super::line::Layout;
use super::names::{Interner, printable};
use super::sink::Sink;
use super::trouble::{OrField, Trouble};
use crate::Record;
use crate::text::{line_feed, quoted};

/// The columns that the encoder writes.
const OWN_TITLES: [&str; 6] = ["time_ns", "source", "op", "offset", "size", "response_ns"];

/// What Windows writes before a text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

const NANOSECONDS_PER_SECOND: u64 = 1_000_000_000;

/// Whether a line is the first of a table: titles that are known, or a log that needs none.
pub(super) fn is_head(line: &[u8]) -> bool {
    if heimdall::is_log_line(line) {
        return true;
    }
    let line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
    let (mut count, mut measures) = (0, 0);
    for field in Fields::of(line) {
        let Ok(field) = field else { return false };
        let field = unquoted(field);
        if field.first().is_some_and(|byte| byte.is_ascii_digit() || b"+-.".contains(byte)) {
            return false;
        }
        count += 1;
        let is_measure = |it: titles::Title| {
            matches!(it.field, Field::Time | Field::Offset | Field::Size | Field::Op)
        };
        measures += usize::from(titles::of(&field).is_some_and(is_measure));
    }
    count >= 3 && measures >= 1
}

/// The first line that says something, and what lies behind it; `None` if it is not all there.
fn first_line(head: &[u8], is_all: bool) -> Option<(&[u8], &[u8])> {
    let mut rest = head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(head);
    loop {
        let (line, behind) = match line_feed(rest) {
            Some(length) => (&rest[..length], &rest[length + 1..]),
            None if is_all && !rest.is_empty() => (rest, &rest[rest.len()..]),
            None => return None,
        };
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.first() != Some(&b'#') && !line.trim_ascii().is_empty() {
            return Some((line, behind));
        }
        rest = behind;
    }
}

/// The decoder of a table.
pub(super) struct Csv {
    source: String,
    options: TableOptions,
    state: State,
    interner: Interner,
    last: Option<Nanos>,
}

enum State {
    Start,
    Rows(Box<Plan>),
    /// The titles were refused: no row means anything.
    Refused,
}

impl Csv {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            source: options.source.clone(),
            options: options.table.clone(),
            state: State::Start,
            interner: Interner::default(),
            last: None,
        }
    }

    /// Takes the first line. A log without titles starts with a row.
    fn head(&mut self, line: &[u8], sink: &mut Sink<'_>) -> Result<(), Trouble> {
        let line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        let is_log = heimdall::is_log_line(line);
        let plan = if is_log {
            Plan::of_heimdall_log(&self.options)
        } else {
            Plan::of(line, &self.options)
        };
        match plan {
            Ok(plan) => {
                if plan.is_own {
                    sink.count_from_zero();
                }
                self.state = State::Rows(Box::new(plan));
                if is_log { self.row(line, sink) } else { Ok(()) }
            }
            Err(problems) => {
                self.state = State::Refused;
                Err(Trouble::Text(problems.join("; ")))
            }
        }
    }

    fn row(&mut self, line: &[u8], sink: &mut Sink<'_>) -> Result<(), Trouble> {
        let State::Rows(plan) = &self.state else { return Ok(()) };
        let mut row = Row::default();
        let mut source = None;
        for (index, field) in Fields::of(line).enumerate() {
            if index == plan.width {
                return Err(Trouble::Text(format!(
                    "more than {} fields, as many as there are titles; the line is {}",
                    plan.width,
                    quoted(line)
                )));
            }
            let field = field?;
            if plan.source.as_ref().is_some_and(|(place, _)| *place == index) {
                source = Some(field);
            } else {
                row.take(plan, index, &unquoted(field))?;
            }
        }
        let record = row.finish(plan)?;
        if !plan.time.is_stated {
            plausible(self.last, record.at, &plan.time.title)?;
        }
        let key = match (&plan.source, source) {
            (None, _) => self.source.as_bytes(),
            (Some(_), field) => field.or_field("source", "a name in printable UTF-8")?,
        };
        let id =
            self.interner.source(sink.sources, key, |key| printable("source", &unquoted(key)))?;
        self.last = Some(record.at);
        sink.push(Record { source: id, ..record })
    }
}

/// Refuses a gap that no trace of seconds has.
fn plausible(last: Option<Nanos>, at: Nanos, title: &str) -> Result<(), Trouble> {
    let gap_ns = last.map_or(0, |last| last.0.abs_diff(at.0));
    if gap_ns / NANOSECONDS_PER_SECOND <= GAP_S_MAX {
        return Ok(());
    }
    Err(Trouble::Text(format!(
        "time: {}, read as seconds, has a gap of years; add --unit time=us, or --unit time=s if it \
         is right",
        kinds::column(title)
    )))
}

impl Layout for Csv {
    fn line(&mut self, line: &[u8], sink: &mut Sink<'_>) -> Result<(), Trouble> {
        if matches!(self.state, State::Start) {
            self.head(line, sink)
        } else {
            self.row(line, sink)
        }
    }
}

/// What the fields of a line have said so far.
#[derive(Default)]
struct Row {
    at: Option<Nanos>,
    kind: Option<Kind>,
    offset: Option<u64>,
    length: Option<u64>,
    response: Option<Span>,
}

impl Row {
    #[inline]
    fn take(&mut self, plan: &Plan, index: usize, text: &[u8]) -> Result<(), Trouble> {
        if index == plan.time.index {
            self.at = Some(Nanos(time(text, plan.time.unit, "time")?));
        } else if index == plan.offset.index {
            self.offset = Some(space(text, plan.offset.unit, "offset")?);
        } else if index == plan.size.index {
            self.length = Some(space(text, plan.size.unit, "size")?);
        } else if Some(index) == plan.op {
            self.kind = Some(plan.kinds.of(text).map_err(Trouble::Text)?);
        } else if let Some(column) = plan.response.as_ref().filter(|column| column.index == index) {
            let is_known = !text.is_empty();
            self.response =
                if is_known { Some(Span(time(text, column.unit, "response")?)) } else { None };
        }
        Ok(())
    }

    /// The record, of no source yet.
    fn finish(self, plan: &Plan) -> Result<Record, Trouble> {
        let kind = match plan.op {
            Some(_) => self.kind.or_field("op", "a kind of request")?,
            None => plan.kinds.assume.or_field("op", "a column that tells")?,
        };
        let length = self.length.or_field("size", "a number")?;
        Ok(Record {
            at: self.at.or_field("time", "a number")?,
            source: crate::SourceId(0),
            kind,
            offset: self.offset.or_field("offset", "a number")?,
            length: if kind == Kind::Flush { 0 } else { length },
            response: self.response,
        })
    }
}

#[inline]
fn time(text: &[u8], unit: Unit, name: &'static str) -> Result<u64, Trouble> {
    match unit {
        Unit::Time { digits } => value::nanoseconds(text, digits, name),
        Unit::Bytes(_) => unreachable!("rules give times units of time"),
    }
}

#[inline]
fn space(text: &[u8], unit: Unit, name: &'static str) -> Result<u64, Trouble> {
    match unit {
        Unit::Bytes(bytes) => value::bytes(text, bytes, name),
        Unit::Time { .. } => unreachable!("rules give sizes units of space"),
    }
}

#[cfg(test)]
mod tests;
