//! The trace formats, one a file, behind one [`Format`].
//!
//! What all decoders promise, whatever the bytes:
//!
//! - Records come in the order of their arrival, unless [`Order::AsGiven`] is asked for. The first
//!   has `at = 0`, except in the native format and in tables that were written here, which keep the
//!   instants they were given. Files that are slightly out of order are
//!   sorted within a window of [`Options::window_records`]; a record behind it is a defect.
//! - `offset + length` stays within 64 bits.
//! - They do not panic, and how the input is cut changes nothing.
//! - What is no record is a defect with its place, and decoding goes on behind it.
//! - They keep no more than this:
//!
//! | what | at most |
//! |---|---|
//! | a line of text | 4,096 bytes; a longer one is a defect |
//! | a record of the native format | 8,240 bytes, 8,192 of them for a name |
//! | a block of the native format | 73,808 bytes with its head |
//! | a policy of the native format, all of a trace | 4 MiB; 65,536 with 64 MiB together |
//! | a record of vscsi, blktrace | 40, 48 bytes, and 65,535 of payload that is passed over |
//! | the window | [`Options::window_records`] records |
//! | requests under way in a trace of the block layer | 65,536 records |
//! | names of sources | those of [`Sources`](crate::Sources) |
//!
//! Encoders refuse what their format cannot hold, and round instants down to its resolution.

mod alibaba;
mod blk;
mod blkreplay;
mod checked;
mod columns;
mod csv;
mod detect;
mod field;
mod foreign;
mod iolog;
mod line;
mod msr;
mod names;
pub mod native;
mod scsi;
mod sink;
mod spc;
mod tencent;
mod timeline;
mod trouble;
mod vscsi;

pub use blk::Arrival;
pub use csv::{
    ColumnRule, Field, TableOptions, Unclear, Understanding, Unit, UnitRule, understand,
};
pub use foreign::{Foreign, foreign};
pub use iolog::WaitUnit;

use crate::codec::{Decoder, Encoder};
use checked::Checked;
use line::LineDecoder;

/// How to read a trace, where its bytes do not tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Records that are held back to bring neighbours in order of their arrival.
    pub window_records: usize,
    /// The source of all requests, for formats that tell none apart.
    pub source: String,
    /// When requests of a block layer's trace arrive.
    pub arrival: Arrival,
    /// What `wait` lines of fio's version 2 count.
    pub wait_unit: WaitUnit,
    /// The instant of `at = 0` for the head of the native format, in nanoseconds since 1970; zero
    /// if it is not known.
    pub origin_ns: u64,
    /// What is stated of a table's columns.
    pub table: TableOptions,
    /// In which order records come.
    pub order: Order,
}

/// In which order a decoder gives records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// That of their arrival, with instants counted from the first.
    #[default]
    Arrival,
    /// As they stand, with instants on the format's own clock: for who is going to sort. The native
    /// format knows no other order than that of arrival.
    AsGiven,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            window_records: 1024,
            source: "trace".to_owned(),
            arrival: Arrival::default(),
            wait_unit: WaitUnit::default(),
            origin_ns: 0,
            table: TableOptions::default(),
            order: Order::default(),
        }
    }
}

/// A trace format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Format {
    /// This project's own, and the gate's recording.
    Native,
    /// MSR Cambridge CSV.
    Msr,
    /// SPC text, as the `UMass` repository has it.
    Spc,
    /// `CloudPhysics` binary records, version 1 or 2.
    Vscsi,
    /// A table whose first line names the columns, such as libCacheSim's.
    Csv,
    /// Alibaba Cloud CSV.
    Alibaba,
    /// Tencent CBS CSV.
    Tencent,
    /// The text of blkparse.
    Blkparse,
    /// The binary records of blktrace.
    Blktrace,
    /// fio's I/O log, version 2.
    Iolog2,
    /// fio's I/O log, version 3.
    Iolog3,
    /// The `.load` text of blkreplay.
    Blkreplay,
    /// `DiskSim`'s ascii trace: milliseconds and sectors.
    DiskSim,
    /// The trace of `SSDsim` and `MQSim`: nanoseconds and sectors.
    SsdSim,
    /// The trace of Heimdall: milliseconds and bytes.
    Heimdall,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 15] = [
        Self::Native,
        Self::Msr,
        Self::Spc,
        Self::Vscsi,
        Self::Csv,
        Self::Alibaba,
        Self::Tencent,
        Self::Blkparse,
        Self::Blktrace,
        Self::Iolog2,
        Self::Iolog3,
        Self::Blkreplay,
        Self::DiskSim,
        Self::SsdSim,
        Self::Heimdall,
    ];

    /// The name that people give it by.
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Msr => "msr",
            Self::Spc => "spc",
            Self::Vscsi => "vscsi",
            Self::Csv => "csv",
            Self::Alibaba => "alibaba",
            Self::Tencent => "tencent",
            Self::Blkparse => "blkparse",
            Self::Blktrace => "blktrace",
            Self::Iolog2 => "iolog2",
            Self::Iolog3 => "iolog3",
            Self::Blkreplay => "blkreplay",
            Self::DiskSim => "disksim",
            Self::SsdSim => "ssdsim",
            Self::Heimdall => "heimdall",
        }
    }

    /// The format of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    /// How files of the format are commonly called, without what compression adds.
    pub fn extensions(self) -> &'static [&'static str] {
        match self {
            Self::Native => &["ektrace"],
            Self::Msr | Self::Csv | Self::Alibaba | Self::Tencent => &["csv"],
            Self::Spc => &["spc"],
            Self::Vscsi => &["vscsi"],
            Self::Blkparse => &["blkparse"],
            Self::Blktrace => &["blktrace"],
            Self::Iolog2 | Self::Iolog3 => &["iolog"],
            Self::Blkreplay => &["load"],
            Self::DiskSim => &["disksim"],
            Self::SsdSim => &["ssdsim", "mqsim"],
            Self::Heimdall => &["heimdall"],
        }
    }

    /// The format of a file, from its first bytes (not compressed; a few hundred are plenty) and
    /// its name. `None` for those that only their user can tell: see [`Self::DiskSim`].
    pub fn detect(head: &[u8], file_name: &str) -> Option<Self> {
        detect::detect(head, file_name)
    }

    /// The format in which a file of this name is written; `None` if the name does not tell.
    pub fn for_writing(file_name: &str) -> Option<Self> {
        detect::for_writing(file_name)
    }

    /// A decoder for a file from its start.
    pub fn decoder(self, options: &Options) -> Box<dyn Decoder> {
        match self {
            Self::Native => Box::new(native::NativeDecoder::new()),
            Self::Msr => lines(msr::Msr::default(), options),
            Self::Spc => lines(spc::Spc::default(), options),
            Self::Vscsi => Box::new(vscsi::VscsiDecoder::new(options)),
            Self::Csv => lines(csv::Csv::new(options), options),
            Self::Alibaba => lines(alibaba::Alibaba::default(), options),
            Self::Tencent => lines(tencent::Tencent::default(), options),
            Self::Blkparse => lines(blk::text::Blkparse::new(options), options),
            Self::Blktrace => Box::new(blk::binary::BlktraceDecoder::new(options)),
            Self::Iolog2 => lines(iolog::Iolog::new(iolog::Version::Two, options), options),
            Self::Iolog3 => lines(iolog::Iolog::new(iolog::Version::Three, options), options),
            Self::Blkreplay => lines(blkreplay::Blkreplay::new(options), options),
            Self::DiskSim => lines(columns::Columns::new(columns::DISKSIM), options),
            Self::SsdSim => lines(columns::Columns::new(columns::SSDSIM), options),
            Self::Heimdall => lines(columns::Columns::new(columns::HEIMDALL), options),
        }
    }

    /// An encoder for a new file; `None` if the format is read only (none is, so far).
    pub fn encoder(self, options: &Options) -> Option<Box<dyn Encoder>> {
        Some(match self {
            Self::Native => Box::new(native::NativeEncoder::new(options.origin_ns)),
            Self::Msr => checked(msr::MsrEncoder),
            Self::Spc => checked(spc::SpcEncoder::default()),
            Self::Vscsi => checked(vscsi::VscsiEncoder::default()),
            Self::Csv => checked(csv::CsvEncoder::default()),
            Self::Alibaba => checked(alibaba::AlibabaEncoder::default()),
            Self::Tencent => checked(tencent::TencentEncoder::default()),
            Self::Blkparse => checked(blk::text::BlkparseEncoder::new()),
            Self::Blktrace => checked(blk::binary::BlktraceEncoder::new()),
            Self::Iolog2 => checked(iolog::IologEncoder::new(iolog::Version::Two)),
            Self::Iolog3 => checked(iolog::IologEncoder::new(iolog::Version::Three)),
            Self::Blkreplay => checked(blkreplay::BlkreplayEncoder::default()),
            Self::DiskSim => checked(columns::ColumnsEncoder::new(columns::DISKSIM)),
            Self::SsdSim => checked(columns::ColumnsEncoder::new(columns::SSDSIM)),
            Self::Heimdall => checked(columns::ColumnsEncoder::new(columns::HEIMDALL)),
        })
    }
}

fn lines<L: line::Layout + 'static>(layout: L, options: &Options) -> Box<dyn Decoder> {
    Box::new(LineDecoder::new(layout, options))
}

fn checked<E: Encoder + 'static>(encoder: E) -> Box<dyn Encoder> {
    Box::new(Checked::new(encoder))
}

/// Why a line is no record of such a trace.
#[cfg(test)]
fn refused(format: Format, line: &str) -> String {
    let mut decoder = format.decoder(&Options::default());
    let (records, defects) = crate::codec::decode_all(&mut *decoder, line.as_bytes());
    assert!(records.is_empty(), "{line}");
    defects.into_iter().next().expect("no records of a whole line is a defect").reason
}
