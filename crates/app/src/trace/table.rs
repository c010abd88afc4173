//! What the command line states about the columns of a table (csv).

use clap::builder::{PossibleValuesParser, TypedValueParser};
use evenkeel_core::ticket::Kind;
use evenkeel_trace::format::{ColumnRule, TableOptions, UnitRule};

use crate::exit::Exit;

/// How to read a table. The same for every command that reads traces.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct TableArgs {
    /// Which column holds a field: time, op, offset, size, source or response. For op with the
    /// meaning of its values, as in `op=rw_flag:0=write,1=read`.
    #[arg(long, value_name = "FIELD=TITLE", help_heading = "Tables (csv)")]
    column: Vec<ColumnRule>,
    /// What the numbers of a field count, as in size=sectors, offset=4KiB, time=ms or response=us.
    #[arg(long, value_name = "FIELD=UNIT", help_heading = "Tables (csv)")]
    unit: Vec<UnitRule>,
    /// What requests are whose kind no column tells.
    #[arg(long, value_name = "KIND", help_heading = "Tables (csv)", value_parser = assumed())]
    assume: Option<Kind>,
}

fn assumed() -> impl TypedValueParser<Value = Kind> {
    PossibleValuesParser::new([Kind::Read.name(), Kind::Write.name()])
        .map(|name| if name == Kind::Read.name() { Kind::Read } else { Kind::Write })
}

impl TableArgs {
    /// What is stated.
    ///
    /// # Errors
    /// [`Exit::Usage`] for two statements about one field.
    pub(crate) fn options(&self) -> anyhow::Result<TableOptions> {
        TableOptions::new(self.column.clone(), self.unit.clone(), self.assume)
            .map_err(|error| Exit::Usage.because(error))
    }
}
