//! Whether a table means what its titles seem to say, judged by its first rows before any is read
//! for good.
//!
//! Titles leave things open: `time` may count seconds or microseconds, `size` bytes or sectors, `1`
//! may be a read or a write. Read wrongly, a table is no error but another trace. So what is not
//! stated has to be borne out by the values:
//!
//! | not stated | is taken for | if |
//! |---|---|---|
//! | unit of the time | seconds | a request a second at least, no gap of a year, none beyond 5138 |
//! | unit of offset, size | bytes | nineteen values of twenty are multiples of 512 |
//! | values of the kind | what they say | all of the first rows' say something |
//!
//! All that does not hold is reported at once, each with the option that would settle it.

use std::collections::BTreeSet;

use super::fields::{Fields, unquoted};
use super::kinds::{column, is_ambiguous_scsi, scsi_kind};
use super::plan::{Column, Plan, list, one_of};
use super::rules::{Field, TableOptions};
use super::{first_line, value};
use crate::format::line::LINE_BYTES_MAX;
use crate::text::{line_feed, quoted};

/// Rows that are looked at.
const ROWS_MAX: usize = 16_384;

/// Different values of the kind that are remembered; more are no kinds.
const VALUES_MAX: usize = 32;

/// Values that a message shows.
const SHOWN_MAX: usize = 6;

/// Requests further apart have a doubtful unit, in seconds.
pub(super) const GAP_S_MAX: u64 = 366 * 24 * 3600;

/// Seconds since 1970 in the year 5138: larger ones are other units.
const INSTANT_S_MAX: f64 = 1e11;

/// Of so many values one may be no multiple of 512.
const ODD_OF: u64 = 20;

const SECONDS_PER_YEAR: f64 = 31_556_952.0;

/// How a table is read, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Understanding {
    /// Columns, units and kinds, in one line.
    pub text: String,
}

/// A table that may mean several things.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unclear {
    /// What is not clear, each with what to add.
    pub problems: Vec<String>,
}

/// Looks at the first bytes of a table, some hundred kilobytes if there are so many; `is_all` says
/// that nothing comes behind.
///
/// # Errors
/// All that is missing, doubtful or implausible. What is wrong with single rows is for the decoder.
pub fn understand(
    head: &[u8],
    is_all: bool,
    options: &TableOptions,
) -> Result<Understanding, Unclear> {
    let unclear = |problems| Unclear { problems };
    let Some((first, behind)) = first_line(head, is_all) else {
        let problem = if is_all {
            "there is no line of titles".to_owned()
        } else {
            format!("the first line has more than {LINE_BYTES_MAX} bytes: no titles of a trace")
        };
        return Err(unclear(vec![problem]));
    };
    if first.len() > LINE_BYTES_MAX {
        let text =
            format!("the first line has more than {LINE_BYTES_MAX} bytes: no titles of a trace");
        return Err(unclear(vec![text]));
    }
    let (plan, rows) = if super::heimdall::is_log_line(first) {
        (Plan::of_heimdall_log(options), head)
    } else {
        (Plan::of(first, options), behind)
    };
    let plan = plan.map_err(unclear)?;
    let sample = Sample::of(rows, is_all, &plan);
    let problems = sample.problems(&plan);
    if problems.is_empty() {
        Ok(Understanding { text: sample.in_words(&plan) })
    } else {
        Err(unclear(problems))
    }
}

/// What the first rows say.
#[derive(Debug, Default)]
struct Sample {
    /// In the unit of the column, whatever that is.
    instants: Vec<f64>,
    sizes: Multiples,
    offsets: Multiples,
    values: BTreeSet<Vec<u8>>,
    has_more_values: bool,
}

/// Numbers of bytes, perhaps.
#[derive(Debug, Default)]
struct Multiples {
    count: u64,
    odd: u64,
}

impl Multiples {
    fn add(&mut self, text: &[u8]) {
        match value::bytes(text, 1, "") {
            Ok(0) | Err(_) => {}
            Ok(bytes) => {
                self.count += 1;
                self.odd += u64::from(!bytes.is_multiple_of(512));
            }
        }
    }

    fn are_bytes(&self) -> bool {
        self.odd * ODD_OF <= self.count
    }
}

impl Sample {
    fn of(rows: &[u8], is_all: bool, plan: &Plan) -> Self {
        let mut sample = Self::default();
        let mut rest = rows;
        for _ in 0..ROWS_MAX {
            let (line, behind) = match line_feed(rest) {
                Some(length) => (&rest[..length], &rest[length + 1..]),
                None if is_all && !rest.is_empty() => (rest, &rest[rest.len()..]),
                None => break,
            };
            rest = behind;
            let line = line.trim_ascii();
            if !line.is_empty() && line[0] != b'#' {
                sample.row(line, plan);
            }
        }
        sample.instants.sort_by(f64::total_cmp);
        sample
    }

    fn row(&mut self, line: &[u8], plan: &Plan) {
        for (index, field) in Fields::of(line).enumerate() {
            let Ok(field) = field else { return };
            let field = unquoted(field);
            if index == plan.time.index {
                let instant = str::from_utf8(&field).ok().and_then(|text| text.parse().ok());
                self.instants.extend(instant.filter(|it: &f64| it.is_finite()));
            } else if index == plan.size.index {
                self.sizes.add(&field);
            } else if index == plan.offset.index {
                self.offsets.add(&field);
            } else if Some(index) == plan.op {
                self.value(field.into_owned());
            }
        }
    }

    fn value(&mut self, value: Vec<u8>) {
        if self.values.len() < VALUES_MAX {
            self.values.insert(value);
        } else if !self.values.contains(&value) {
            self.has_more_values = true;
        }
    }

    fn problems(&self, plan: &Plan) -> Vec<String> {
        let mut problems = Vec::new();
        problems.extend(self.time_problem(&plan.time));
        problems.extend(self.op_problem(plan));
        for (field, column, values) in
            [(Field::Offset, &plan.offset, &self.offsets), (Field::Size, &plan.size, &self.sizes)]
        {
            problems.extend(bytes_problem(field, column, values));
        }
        problems
    }

    fn time_problem(&self, time: &Column) -> Option<String> {
        let (&first, &last) = (self.instants.first()?, self.instants.last()?);
        if time.is_stated {
            return None;
        }
        let title = column(&time.title);
        if last >= INSTANT_S_MAX {
            let flag = match epoch(last) {
                Some((unit, year)) => format!("add --unit time={unit} (it would end in {year})"),
                None => format!("add {}", one_of(&time_flags(&["ms", "us", "100ns", "ns"]))),
            };
            return Some(format!(
                "time: {title} has values like {last:.0}, too large for seconds; {flag}"
            ));
        }
        let gaps = self.instants.windows(2).map(|pair| pair[1] - pair[0]);
        let gap = gaps.fold(0.0, f64::max);
        let flags = one_of(&time_flags(&["ms", "us", "ns"]));
        if gap > GAP_S_MAX as f64 {
            let years = gap / SECONDS_PER_YEAR;
            return Some(format!(
                "time: {title}, read as seconds, has a gap of {years:.0} years; add {flags}, or \
                 --unit time=s if it is right"
            ));
        }
        let mean = (last - first) / (self.instants.len() as f64 - 1.0).max(1.0);
        (mean > 1.0).then(|| {
            format!(
                "time: {title}, read as seconds, has one request in {mean:.0} s; add {flags}, or \
                 --unit time=s if it is right"
            )
        })
    }

    fn op_problem(&self, plan: &Plan) -> Option<String> {
        if plan.kinds.assume.is_some() || plan.op.is_none() {
            return None;
        }
        if self.has_more_values {
            let title = column(&plan.kinds.title);
            return Some(format!(
                "op: {title} has more than {VALUES_MAX} different values, so it is hardly the \
                 kind; add --column op=TITLE for the right one"
            ));
        }
        let is_stated =
            |value: &[u8]| plan.kinds.stated.iter().any(|(known, _)| known.as_bytes() == value);
        // Codes that decimal cannot be show in which base all are.
        let are_hexadecimal =
            self.values.iter().any(|value| scsi_kind(value).is_some() && !is_ambiguous_scsi(value));
        let is_doubtful = |value: &[u8]| {
            plan.kinds.understood(value).is_none()
                || (is_ambiguous_scsi(value) && !are_hexadecimal && !is_stated(value))
        };
        let doubtful: Vec<&[u8]> = self
            .values
            .iter()
            .map(Vec::as_slice)
            .filter(|value| is_doubtful(value))
            .take(SHOWN_MAX)
            .collect();
        (!doubtful.is_empty()).then(|| plan.kinds.unclear(&doubtful))
    }

    /// What is read, in one line.
    fn in_words(&self, plan: &Plan) -> String {
        let mut parts = Vec::new();
        let measured = |name: &str, column: &Column| {
            let by_values = if column.is_stated { "" } else { " by its values" };
            format!("{name} {} in {}{by_values}", quoted(column.title.as_bytes()), column.unit)
        };
        parts.push(measured("time", &plan.time));
        parts.push(self.op_in_words(plan));
        parts.push(measured("offset", &plan.offset));
        parts.push(measured("size", &plan.size));
        if let Some((_, title)) = &plan.source {
            parts.push(format!("source {}", quoted(title.as_bytes())));
        }
        if let Some(response) = &plan.response {
            parts.push(measured("response", response));
        }
        if let Some(title) = &plan.unread_response {
            let title = quoted(title.as_bytes());
            parts.push(format!("{title} not read (its unit is not known; --unit response=us)"));
        }
        if !plan.passed_over.is_empty() {
            parts.push(format!("passed over: {}", list(&plan.passed_over)));
        }
        let name = if plan.is_heimdall { "a log of Heimdall's replayer" } else { "a table" };
        format!("read as {name}: {}", parts.join("; "))
    }

    fn op_in_words(&self, plan: &Plan) -> String {
        let assumed = plan.kinds.assume.map_or("", evenkeel_core::ticket::Kind::name);
        if plan.op.is_none() {
            return format!("op assumed to be {assumed}");
        }
        let meaning = |value: &Vec<u8>| {
            let kind = plan.kinds.understood(value);
            let kind =
                kind.map_or_else(|| format!("{assumed}, assumed"), |kind| kind.name().to_owned());
            let value = String::from_utf8_lossy(value);
            (value != kind).then(|| format!("{} = {kind}", value.escape_debug()))
        };
        let meanings: Vec<String> =
            self.values.iter().filter_map(meaning).take(SHOWN_MAX).collect();
        let title = quoted(plan.kinds.title.as_bytes());
        if meanings.is_empty() {
            format!("op {title}")
        } else {
            format!("op {title} ({})", meanings.join(", "))
        }
    }
}

/// The unit in which a number of many digits is an instant of our days, and its year.
fn epoch(instant: f64) -> Option<(&'static str, i64)> {
    // Windows counts from 1601.
    const UNITS: [(&str, f64, f64); 4] =
        [("ms", 1e3, 1970.0), ("us", 1e6, 1970.0), ("100ns", 1e7, 1601.0), ("ns", 1e9, 1970.0)];
    UNITS.into_iter().find_map(|(unit, per_second, start)| {
        let year = start + instant / per_second / SECONDS_PER_YEAR;
        #[expect(clippy::cast_possible_truncation, reason = "between 1990 and 2100")]
        (1990.0..2100.0).contains(&year).then_some((unit, year as i64))
    })
}

fn time_flags(units: &[&str]) -> Vec<String> {
    units.iter().map(|unit| format!("--unit time={unit}")).collect()
}

fn bytes_problem(field: Field, at: &Column, values: &Multiples) -> Option<String> {
    if at.is_stated || values.are_bytes() {
        return None;
    }
    let (name, title) = (field.name(), column(&at.title));
    Some(format!(
        "{name}: {title}, read as bytes, has {} of {} values that are no multiple of 512; add \
         --unit {name}=sectors (512 bytes each) or --unit {name}=4KiB, or --unit {name}=bytes if \
         it is right",
        values.odd, values.count
    ))
}
