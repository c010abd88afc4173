//! What a user states about a table: which column is which, what numbers count, what values mean.
//!
//! ```text
//! --column time=ts                       the column `ts` is the time
//! --column op=rw_flag:0=write,1=read     the column `rw_flag` is the kind, with these values
//! --unit size=sectors  --unit time=ms    what the numbers of size and time count
//! --assume read                          the kind of requests whose kind the table does not tell
//! ```
//!
//! What is stated here beats what titles and values suggest.

use std::fmt;
use std::str::FromStr;

use evenkeel_core::ticket::Kind;

use super::kinds;

/// A property of a request that a column can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Field {
    /// When it arrived.
    Time,
    /// Its kind.
    Op,
    /// Its first byte.
    Offset,
    /// Its bytes.
    Size,
    /// Who made it.
    Source,
    /// How long its answer took.
    Response,
}

impl Field {
    /// Every field.
    pub const ALL: [Self; 6] =
        [Self::Time, Self::Op, Self::Offset, Self::Size, Self::Source, Self::Response];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Op => "op",
            Self::Offset => "offset",
            Self::Size => "size",
            Self::Source => "source",
            Self::Response => "response",
        }
    }

    fn of(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|field| field.name() == name).ok_or_else(|| {
            let known: Vec<_> = Self::ALL.into_iter().map(Self::name).collect();
            format!("there is no field {name:?}; known are {}", known.join(", "))
        })
    }
}

/// What the numbers of a column count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Time: ten to the power of so many nanoseconds, 0 to 9.
    Time {
        /// The power of ten.
        digits: u32,
    },
    /// Space: so many bytes, at least one.
    Bytes(u64),
}

impl Unit {
    /// Seconds.
    pub const SECONDS: Self = Self::Time { digits: 9 };

    /// Milliseconds.
    pub const MILLISECONDS: Self = Self::Time { digits: 6 };

    /// Microseconds.
    pub const MICROSECONDS: Self = Self::Time { digits: 3 };

    /// The ticks of Windows file times.
    pub const TICKS: Self = Self::Time { digits: 2 };

    /// Nanoseconds.
    pub const NANOSECONDS: Self = Self::Time { digits: 0 };

    /// Sectors of 512 bytes.
    pub const SECTORS: Self = Self::Bytes(512);

    /// One byte.
    pub const BYTE: Self = Self::Bytes(1);

    fn of_time(word: &str) -> Result<Self, String> {
        Ok(match word {
            "s" => Self::SECONDS,
            "ms" => Self::MILLISECONDS,
            "us" => Self::MICROSECONDS,
            "100ns" => Self::TICKS,
            "ns" => Self::NANOSECONDS,
            _ => return Err(format!("{word:?} is no unit of time; write s, ms, us, 100ns or ns")),
        })
    }

    fn of_space(word: &str) -> Result<Self, String> {
        let known = "write bytes, sectors (512 bytes), KiB, MiB, or the size of one, as in 4KiB";
        match word {
            "bytes" => return Ok(Self::BYTE),
            "sectors" => return Ok(Self::SECTORS),
            "blocks" => {
                return Err(
                    "blocks differ in size; write sectors for 512 bytes, or 4KiB".to_owned()
                );
            }
            _ => {}
        }
        let (number, unit_bytes) = if let Some(number) = word.strip_suffix("KiB") {
            (number, 1 << 10)
        } else if let Some(number) = word.strip_suffix("MiB") {
            (number, 1 << 20)
        } else {
            (word.strip_suffix('B').unwrap_or(word), 1)
        };
        let number = match number.trim_end() {
            "" if unit_bytes > 1 => Some(1),
            number => number.parse::<u64>().ok(),
        };
        let bytes = number.and_then(|number| number.checked_mul(unit_bytes));
        bytes
            .filter(|&bytes| bytes > 0)
            .map(Self::Bytes)
            .ok_or_else(|| format!("{word:?}: {known}"))
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::SECONDS => f.write_str("s"),
            Self::MILLISECONDS => f.write_str("ms"),
            Self::MICROSECONDS => f.write_str("us"),
            Self::TICKS => f.write_str("100 ns"),
            Self::NANOSECONDS => f.write_str("ns"),
            Self::Time { digits } => write!(f, "10^{digits} ns"),
            Self::BYTE => f.write_str("bytes"),
            Self::SECTORS => f.write_str("sectors of 512 bytes"),
            Self::Bytes(bytes) if bytes % (1 << 20) == 0 => write!(f, "{} MiB", bytes >> 20),
            Self::Bytes(bytes) if bytes % (1 << 10) == 0 => write!(f, "{} KiB", bytes >> 10),
            Self::Bytes(bytes) => write!(f, "{bytes} bytes"),
        }
    }
}

/// Which column holds a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnRule {
    /// The field.
    pub field: Field,
    /// The title of its column.
    pub title: String,
    /// What values mean; for [`Field::Op`] alone.
    pub values: Vec<(String, Kind)>,
}

impl FromStr for ColumnRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = "write it as FIELD=TITLE, or as op=TITLE:VALUE=KIND,VALUE=KIND";
        let (field, rest) = text.split_once('=').ok_or(form)?;
        let field = Field::of(field.trim())?;
        // Titles may have colons; what stands behind the last one are values if it has an equals.
        let parts = rest.rsplit_once(':').filter(|(_, values)| values.contains('='));
        let (title, values) = match parts {
            Some((title, values)) if field == Field::Op => (title, self::values(values)?),
            Some(_) => return Err(format!("only op has values; {form}")),
            None => (rest, Vec::new()),
        };
        let title = title.trim().to_owned();
        if title.is_empty() {
            return Err(form.to_owned());
        }
        Ok(Self { field, title, values })
    }
}

fn values(text: &str) -> Result<Vec<(String, Kind)>, String> {
    let mut values: Vec<(String, Kind)> = Vec::new();
    for pair in text.split(',') {
        let (value, kind) = pair.split_once('=').ok_or_else(|| {
            format!("{pair:?} is no value with its kind; write it as in 0=write,1=read")
        })?;
        let (value, kind) = (value.trim(), kind.trim());
        let kind = kinds::word(kind.as_bytes()).ok_or_else(|| {
            let known: Vec<_> = Kind::ALL.into_iter().map(Kind::name).collect();
            format!("{kind:?} is no kind of request; known are {}", known.join(", "))
        })?;
        if values.iter().any(|(known, _)| known.eq_ignore_ascii_case(value)) {
            return Err(format!("the value {value:?} has two meanings; keep one"));
        }
        values.push((value.to_owned(), kind));
    }
    Ok(values)
}

/// What the numbers of a field count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitRule {
    /// The field: time, response, offset or size.
    pub field: Field,
    /// Its unit.
    pub unit: Unit,
}

impl FromStr for UnitRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = "write it as FIELD=UNIT, as in size=sectors or time=ms";
        let (field, word) = text.split_once('=').ok_or(form)?;
        let field = Field::of(field.trim())?;
        let unit = match field {
            Field::Time | Field::Response => Unit::of_time(word.trim())?,
            Field::Offset | Field::Size => Unit::of_space(word.trim())?,
            Field::Op | Field::Source => return Err(format!("{} has no unit", field.name())),
        };
        Ok(Self { field, unit })
    }
}

/// All that is stated about a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableOptions {
    columns: Vec<ColumnRule>,
    units: Vec<UnitRule>,
    assume: Option<Kind>,
}

impl TableOptions {
    /// With rules, and the kind of requests whose kind the table does not tell.
    ///
    /// # Errors
    /// A text that names the field with two rules, or with a unit that it cannot have.
    pub fn new(
        columns: Vec<ColumnRule>,
        units: Vec<UnitRule>,
        assume: Option<Kind>,
    ) -> Result<Self, String> {
        for UnitRule { field, unit } in &units {
            let fits = match (field, unit) {
                (Field::Time | Field::Response, Unit::Time { digits }) => *digits <= 9,
                (Field::Offset | Field::Size, Unit::Bytes(bytes)) => *bytes > 0,
                _ => false,
            };
            if !fits {
                return Err(format!("{} does not count {unit}", field.name()));
            }
        }
        for field in Field::ALL {
            if columns.iter().filter(|rule| rule.field == field).count() > 1 {
                return Err(format!("two columns for {}; keep one --column", field.name()));
            }
            if units.iter().filter(|rule| rule.field == field).count() > 1 {
                return Err(format!("two units for {}; keep one --unit", field.name()));
            }
        }
        Ok(Self { columns, units, assume })
    }

    /// Nothing is stated.
    pub fn is_empty(&self) -> bool {
        self.columns.is_empty() && self.units.is_empty() && self.assume.is_none()
    }

    pub(super) fn column(&self, field: Field) -> Option<&ColumnRule> {
        self.columns.iter().find(|rule| rule.field == field)
    }

    pub(super) fn unit(&self, field: Field) -> Option<Unit> {
        self.units.iter().find(|rule| rule.field == field).map(|rule| rule.unit)
    }

    pub(super) fn assume(&self) -> Option<Kind> {
        self.assume
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_is_named_with_its_values() {
        let rule: ColumnRule = "op=rw_flag:0=write,1=Read,x=discard".parse().unwrap();
        assert_eq!((rule.field, rule.title.as_str()), (Field::Op, "rw_flag"));
        let kinds: Vec<Kind> = rule.values.iter().map(|(_, kind)| *kind).collect();
        assert_eq!(kinds, [Kind::Write, Kind::Read, Kind::Trim]);
        let rule: ColumnRule = "time=Time (s): start".parse().unwrap();
        assert_eq!((rule.title.as_str(), rule.values.len()), ("Time (s): start", 0));
    }

    #[test]
    fn units_are_words_or_sizes() {
        let unit = |text: &str| text.parse::<UnitRule>().map(|rule| rule.unit);
        assert_eq!(unit("size=sectors"), Ok(Unit::SECTORS));
        assert_eq!(unit("offset=4KiB"), Ok(Unit::Bytes(4096)));
        assert_eq!(unit("offset=4096"), Ok(Unit::Bytes(4096)));
        assert_eq!(unit("size=KiB"), Ok(Unit::Bytes(1024)));
        assert_eq!(unit("time=ms"), Ok(Unit::MILLISECONDS));
        assert_eq!(unit("response=100ns"), Ok(Unit::TICKS));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_what_does() {
        for (text, told) in [
            ("rw_flag", "write it as FIELD=TITLE"),
            ("color=a", "known are time, op"),
            ("time=", "write it as FIELD=TITLE"),
            ("op=rw:0=write,1", "as in 0=write,1=read"),
            ("op=rw:0=writ", "known are read, write"),
            ("op=rw:r=read,R=write", "two meanings"),
            ("size=n:1=read", "only op has values"),
        ] {
            let refusal = text.parse::<ColumnRule>().unwrap_err();
            assert!(refusal.contains(told), "{text}: {refusal}");
        }
        for (text, told) in [
            ("size", "write it as FIELD=UNIT"),
            ("size=ms", "write bytes, sectors"),
            ("size=0", "write bytes, sectors"),
            ("size=99999999999999MiB", "write bytes, sectors"),
            ("offset=blocks", "blocks differ"),
            ("time=bytes", "write s, ms, us"),
            ("op=ms", "op has no unit"),
        ] {
            let refusal = text.parse::<UnitRule>().unwrap_err();
            assert!(refusal.contains(told), "{text}: {refusal}");
        }
        let size: UnitRule = "size=1".parse().unwrap();
        let refusal = TableOptions::new(Vec::new(), vec![size, size], None).unwrap_err();
        assert!(refusal.contains("two units for size"), "{refusal}");
    }
}
