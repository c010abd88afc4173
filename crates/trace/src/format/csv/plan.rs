//! How a table is read: what each of its columns is, decided once, from the line of titles and from
//! what is stated. Where two columns could be meant, or none, nothing is chosen: the reason says
//! what to add.

use evenkeel_core::ticket::Kind;

use super::fields::{Fields, unquoted};
use super::kinds::{Kinds, column, option};
use super::rules::{Field, TableOptions, Unit};
use super::titles::{self, Title, Truth};
use super::{OWN_TITLES, heimdall};
use crate::text::quoted;

/// The most columns that a table may have.
pub(super) const COLUMNS_MAX: usize = 256;

/// Titles that a message shows.
const SHOWN_MAX: usize = 12;

/// One column that is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Column {
    /// Its place in a line, from 0.
    pub(super) index: usize,
    /// Its title.
    pub(super) title: String,
    /// What its numbers count.
    pub(super) unit: Unit,
    /// The unit is stated, by the title or by the user; otherwise the values have to bear it out.
    pub(super) is_stated: bool,
}

/// How a table is read.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// Columns of a line.
    pub(super) width: usize,
    pub(super) time: Column,
    pub(super) offset: Column,
    pub(super) size: Column,
    /// The place of the kind; `None` where every request is what is assumed.
    pub(super) op: Option<usize>,
    pub(super) kinds: Kinds,
    pub(super) source: Option<(usize, String)>,
    pub(super) response: Option<Column>,
    /// A column that looks like the response, with a unit that nothing tells.
    pub(super) unread_response: Option<String>,
    /// Titles of columns that are not read.
    pub(super) passed_over: Vec<String>,
    /// This project's own table, whose instants count from the start of the trace.
    pub(super) is_own: bool,
    /// A table of Heimdall's replayer.
    pub(super) is_heimdall: bool,
}

impl Plan {
    /// The plan for a line of titles.
    ///
    /// # Errors
    /// Everything that is missing or could be meant in two ways, each with what to add.
    pub(super) fn of(line: &[u8], options: &TableOptions) -> Result<Self, Vec<String>> {
        let titles = titles_of(line).map_err(|reason| vec![reason])?;
        if titles == OWN_TITLES {
            return Search::new(titles, options, Dialect::Own).plan();
        }
        if heimdall::has_titles(&titles) {
            return Search::new(titles, options, Dialect::Heimdall).plan();
        }
        Search::new(titles, options, Dialect::None).plan()
    }

    /// The plan for the log of Heimdall's replayer, which has no titles.
    pub(super) fn of_heimdall_log(options: &TableOptions) -> Result<Self, Vec<String>> {
        let titles = heimdall::TITLES.into_iter().map(str::to_owned).collect();
        Search::new(titles, options, Dialect::Heimdall).plan()
    }
}

/// The titles of a line.
///
/// # Errors
/// If they are too many, or no text.
fn titles_of(line: &[u8]) -> Result<Vec<String>, String> {
    let mut titles = Vec::new();
    for field in Fields::of(line) {
        let field = field.map_err(|trouble| format!("first line: {}", trouble.in_words()))?;
        if titles.len() == COLUMNS_MAX {
            return Err(format!(
                "first line: more than {COLUMNS_MAX} columns; no trace has so many"
            ));
        }
        titles.push(String::from_utf8_lossy(&unquoted(field)).into_owned());
    }
    Ok(titles)
}

/// Tables whose titles say less than is known of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    None,
    Own,
    Heimdall,
}

/// What the user says of a field's column.
#[derive(Clone, Copy, Debug)]
enum Stated {
    Nothing,
    Column(usize),
    /// There is no such column, or it is another field's; the problem is noted.
    Refused,
}

struct Search<'o> {
    titles: Vec<String>,
    known: Vec<Option<Title>>,
    /// By index: some field has this column.
    taken: Vec<bool>,
    options: &'o TableOptions,
    dialect: Dialect,
    problems: Vec<String>,
}

impl<'o> Search<'o> {
    fn new(titles: Vec<String>, options: &'o TableOptions, dialect: Dialect) -> Self {
        let mut known: Vec<_> = titles.iter().map(|title| titles::of(title.as_bytes())).collect();
        match dialect {
            Dialect::None => {}
            Dialect::Own => known.iter_mut().flatten().for_each(|title| {
                title.unit = title.unit.or(Some(Unit::BYTE));
            }),
            Dialect::Heimdall => {
                for (title, known) in titles.iter().zip(&mut known) {
                    *known = heimdall::title(title);
                }
            }
        }
        let taken = vec![false; titles.len()];
        Self { titles, known, taken, options, dialect, problems: Vec::new() }
    }

    fn plan(mut self) -> Result<Plan, Vec<String>> {
        // What is stated goes first: it takes columns away from what titles suggest.
        let stated = Field::ALL.map(|field| self.stated(field));
        let mut found = [None; Field::ALL.len()];
        for ((found, stated), field) in found.iter_mut().zip(stated).zip(Field::ALL) {
            *found = match stated {
                Stated::Nothing => self.by_title(field),
                Stated::Column(index) => Some(index),
                Stated::Refused => None,
            };
        }
        let [time, op, offset, size, source, response] = found;
        let kinds = self.kinds(op);
        let time = self.measured(Field::Time, time);
        let offset = self.measured(Field::Offset, offset);
        let size = self.measured(Field::Size, size);
        let response = response.map(|index| self.column(Field::Response, index));
        let (response, unread) = match response {
            Some(column) if column.is_stated => (Some(column), None),
            other => (None, other.map(|column| column.title)),
        };
        let (Some(time), Some(offset), Some(size), true) =
            (time, offset, size, self.problems.is_empty())
        else {
            return Err(self.problems);
        };
        let passed_over = (0..self.titles.len())
            .filter(|&index| !self.taken[index])
            .map(|index| self.titles[index].clone())
            .collect();
        Ok(Plan {
            width: self.titles.len(),
            time,
            offset,
            size,
            op,
            kinds,
            source: source.map(|index| (index, self.titles[index].clone())),
            response,
            unread_response: unread,
            passed_over,
            is_own: self.dialect == Dialect::Own,
            is_heimdall: self.dialect == Dialect::Heimdall,
        })
    }

    /// The column that the user names.
    fn stated(&mut self, field: Field) -> Stated {
        let Some(rule) = self.options.column(field) else { return Stated::Nothing };
        let wanted = &rule.title;
        let exact = self.places(|title| title == wanted);
        let places = if exact.is_empty() {
            self.places(|it| it.eq_ignore_ascii_case(wanted))
        } else {
            exact
        };
        match places[..] {
            [index] if self.taken[index] => {
                self.problem(field, &format!("{} is another field already", column(wanted)));
                Stated::Refused
            }
            [index] => {
                self.taken[index] = true;
                Stated::Column(index)
            }
            [] => {
                let text = format!("no {}; the titles are {}", column(wanted), self.all());
                self.problem(field, &text);
                Stated::Refused
            }
            _ => {
                self.problem(field, &format!("more than one {}; rename one", column(wanted)));
                Stated::Refused
            }
        }
    }

    /// The only free column whose title says that it is this field.
    fn by_title(&mut self, field: Field) -> Option<usize> {
        let places: Vec<usize> = (0..self.titles.len())
            .filter(|&index| !self.taken[index])
            .filter(|&index| self.known[index].is_some_and(|title| title.field == field))
            .collect();
        match places[..] {
            [] => None,
            [index] => {
                self.taken[index] = true;
                Some(index)
            }
            _ => {
                let flag = |&index: &usize| Self::flag(field, &self.titles[index]);
                let flags: Vec<String> = places.iter().map(flag).collect();
                let text = format!("{} columns could be it; add {}", places.len(), one_of(&flags));
                self.problem(field, &text);
                // Named above; not missing as well.
                self.taken[places[0]] = true;
                Some(places[0])
            }
        }
    }

    /// A column that must be there.
    fn measured(&mut self, field: Field, index: Option<usize>) -> Option<Column> {
        let Some(index) = index else {
            if self.options.column(field).is_none() {
                let flag = Self::flag(field, "TITLE");
                self.problem(
                    field,
                    &format!(
                        "no column is known as it; add {flag}, where the titles are {}",
                        self.all()
                    ),
                );
            }
            return None;
        };
        Some(self.column(field, index))
    }

    fn column(&self, field: Field, index: usize) -> Column {
        let by_title = self.known[index].filter(|title| title.field == field);
        let stated = self.options.unit(field).or_else(|| by_title.and_then(|title| title.unit));
        let usual = match field {
            Field::Time | Field::Response => Unit::SECONDS,
            _ => Unit::BYTE,
        };
        Column {
            index,
            title: self.titles[index].clone(),
            unit: stated.unwrap_or(usual),
            is_stated: stated.is_some(),
        }
    }

    fn kinds(&mut self, op: Option<usize>) -> Kinds {
        let rule = self.options.column(Field::Op);
        let assume = self.options.assume();
        let Some(index) = op else {
            if assume.is_none() && rule.is_none() {
                let text = format!(
                    "no column tells reads from writes; add --column op=TITLE, where the titles \
                     are {}, or --assume read if all requests are reads",
                    self.all()
                );
                self.problem(Field::Op, &text);
            }
            return Kinds { assume, ..Kinds::default() };
        };
        let truth = match self.known[index].and_then(|title| title.truth) {
            Some(Truth::Read) => Some((Kind::Read, Kind::Write)),
            Some(Truth::Write) => Some((Kind::Write, Kind::Read)),
            None => None,
        };
        Kinds {
            title: self.titles[index].clone(),
            stated: rule.map(|rule| rule.values.clone()).unwrap_or_default(),
            truth,
            assume,
        }
    }

    fn places(&self, is_wanted: impl Fn(&str) -> bool) -> Vec<usize> {
        let is_wanted = |&index: &usize| is_wanted(self.titles[index].trim());
        (0..self.titles.len()).filter(is_wanted).collect()
    }

    fn flag(field: Field, title: &str) -> String {
        option(&format!("--column {}=", field.name()), title)
    }

    fn problem(&mut self, field: Field, text: &str) {
        self.problems.push(format!("{}: {text}", field.name()));
    }

    fn all(&self) -> String {
        list(&self.titles)
    }
}

/// Titles for people, not too many.
pub(super) fn list(titles: &[String]) -> String {
    let shown: Vec<String> =
        titles.iter().take(SHOWN_MAX).map(|title| quoted(title.as_bytes())).collect();
    let more = titles.len().saturating_sub(SHOWN_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", shown.join(", "))
}

/// `a`, `a or b`, `a, b or c`.
pub(super) fn one_of(options: &[String]) -> String {
    match options {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(titles: &str, columns: &[&str], units: &[&str]) -> Result<Plan, Vec<String>> {
        let columns = columns.iter().map(|text| text.parse().unwrap()).collect();
        let units = units.iter().map(|text| text.parse().unwrap()).collect();
        let options = TableOptions::new(columns, units, None).unwrap();
        Plan::of(titles.as_bytes(), &options)
    }

    #[test]
    fn what_is_stated_beats_what_titles_suggest() {
        let plan = plan(
            "time,t2,rw,lba,size,lat",
            &["time=T2", "op=rw:0=read,1=write"],
            &["time=us", "size=sectors", "response=ms"],
        );
        let plan = plan.unwrap();
        assert_eq!((plan.time.title.as_str(), plan.time.unit), ("t2", Unit::MICROSECONDS));
        assert_eq!((plan.size.unit, plan.size.is_stated), (Unit::SECTORS, true));
        assert_eq!((plan.offset.unit, plan.offset.is_stated), (Unit::SECTORS, true));
        assert_eq!(plan.response.map(|column| column.unit), Some(Unit::MILLISECONDS));
        assert_eq!(plan.kinds.of(b"1"), Ok(Kind::Write));
        assert_eq!(plan.passed_over, ["time"]);
    }

    #[test]
    fn a_missing_or_doubtful_column_is_named_with_what_to_add() {
        for (titles, columns, told) in [
            ("time,rw,lba", &[][..], "size: no column is known as it; add --column size=TITLE"),
            ("time,ts,rw,lba,size", &[], "time: 2 columns could be it; add --column time=time or"),
            ("time,lba,size,x", &[], "op: no column tells reads from writes"),
            ("time,rw,lba,size", &["op=flag"], "op: no column \"flag\"; the titles are \"time\""),
            ("time,rw,rw,lba,size", &["op=rw"], "op: more than one column \"rw\""),
            ("time,rw,a,size", &["offset=a", "size=a"], "size: column \"a\" is another field"),
        ] {
            let problems = plan(titles, columns, &[]).unwrap_err();
            assert_eq!(problems.len(), 1, "{problems:?}");
            assert!(problems[0].starts_with(told), "{titles}: {problems:?}");
        }
    }

    #[test]
    fn a_response_without_a_unit_is_not_read() {
        let plan = plan("time,rw,lba,size,latency", &[], &[]).unwrap();
        assert_eq!((plan.response, plan.unread_response.as_deref()), (None, Some("latency")));
    }

    #[test]
    fn more_columns_than_any_trace_has_are_refused() {
        let titles = vec!["x"; COLUMNS_MAX + 1].join(",");
        let problems = plan(&titles, &[], &[]).unwrap_err();
        assert!(problems[0].contains("more than 256 columns"), "{problems:?}");
    }
}
