//! Why a line, or a binary record, is no record of a trace.
//!
//! Most often a field is not what it should be. That costs nothing to say where it is found; words
//! are made of it once, where the line is at hand.

/// Why a line is no record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// A field is not what it should be; the line is shown with it.
    Field { field: &'static str, expected: &'static str },
    /// Anything else, in full.
    Text(String),
}

impl Trouble {
    /// In words, where there is no line to show.
    pub(crate) fn in_words(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Field { field, expected } => format!("{field}: expected {expected}"),
        }
    }
}

/// As [`Trouble::Field`].
pub(crate) const fn field(field: &'static str, expected: &'static str) -> Trouble {
    Trouble::Field { field, expected }
}

/// Says which field is missing.
pub(crate) trait OrField<T> {
    /// The value, or that this field is not what is expected.
    fn or_field(self, field: &'static str, expected: &'static str) -> Result<T, Trouble>;
}

impl<T> OrField<T> for Option<T> {
    #[inline]
    fn or_field(self, field: &'static str, expected: &'static str) -> Result<T, Trouble> {
        match self {
            Some(value) => Ok(value),
            None => Err(Trouble::Field { field, expected }),
        }
    }
}
