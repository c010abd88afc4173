//! Constants of the protocol: magic numbers, flags, commands, errors, limits.
//!
//! Names follow the protocol text with the `NBD_` prefix and the abbreviations taken off. Bit sets
//! keep bits that they do not know, so that what came in can be reported as it came.

use std::fmt;
use std::ops::{BitAnd, BitOr};

/// First eight bytes of every server's greeting (`NBDMAGIC`).
pub const GREETING_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// Second eight bytes of a newstyle greeting, and the start of every option (`IHAVEOPT`).
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Second eight bytes of an oldstyle greeting, which has no options.
pub const OLDSTYLE_MAGIC: u64 = 0x0000_4202_8186_1253;
/// Start of every option reply.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Start of a compact request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Start of an extended request.
pub const EXTENDED_REQUEST_MAGIC: u32 = 0x21e4_1c71;
/// Start of a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Start of a structured reply chunk.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;
/// Start of an extended reply chunk.
pub const EXTENDED_REPLY_MAGIC: u32 = 0x6e8a_278c;

/// The port that IANA assigned to the protocol.
pub const DEFAULT_PORT: u16 = 10809;

/// The longest string that the protocol allows: names, descriptions, queries, error texts.
pub const MAX_STRING_BYTES: usize = 4096;
/// The most option data that a server here holds; a longer option is skipped and refused.
pub const MAX_OPTION_DATA_BYTES: usize = 32 * 1024;
/// All option data that one client may send in one handshake, held or skipped.
pub const MAX_HANDSHAKE_BYTES: u64 = 1024 * 1024;
/// All options that one client may send in one handshake.
pub const MAX_OPTIONS: u32 = 4096;
/// The longest option reply that a client here accepts: a name, a description and their lengths.
pub const MAX_OPTION_REPLY_BYTES: usize = 2 * MAX_STRING_BYTES + 64;
/// All option replies that a client here accepts from one server.
pub const MAX_OPTION_REPLIES: u32 = 65_536;
/// The most metadata contexts that one session selects.
pub const MAX_CONTEXTS: usize = 16;
/// The payload that every peer may use, whatever was advertised: 32 MiB.
pub const MAX_PAYLOAD_BYTES: u32 = 32 * 1024 * 1024;
/// The largest minimum block size that a server may advertise.
pub const MAX_MINIMUM_BLOCK_BYTES: u32 = 65_536;
/// The most extents in one block status chunk.
pub const MAX_EXTENTS: usize = 1 << 20;
/// The largest export whose every offset is a valid signed file offset.
pub const MAX_EXPORT_BYTES: u64 = i64::MAX as u64;

/// Zeroes behind the answer to `EXPORT_NAME`, unless both sides agreed to leave them out.
pub(crate) const EXPORT_NAME_PADDING_BYTES: usize = 124;

macro_rules! bit_set {
    ($(#[$meta:meta])* $name:ident { $($(#[$bit_meta:meta])* $bit:ident = $shift:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
        pub struct $name(pub u16);

        impl $name {
            /// The empty set.
            pub const NONE: Self = Self(0);
            $($(#[$bit_meta])* pub const $bit: Self = Self(1 << $shift);)*
            /// Every bit that the protocol defines.
            pub const KNOWN: Self = Self(0 $(| 1 << $shift)*);

            /// Whether every bit of `other` is in this set.
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// This set and `other`.
            #[must_use]
            pub const fn with(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// This set less `other`.
            #[must_use]
            pub const fn without(self, other: Self) -> Self {
                Self(self.0 & !other.0)
            }

            /// Whether no bit is set.
            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }
        }

        impl BitOr for $name {
            type Output = Self;
            fn bitor(self, other: Self) -> Self {
                self.with(other)
            }
        }

        impl BitAnd for $name {
            type Output = Self;
            fn bitand(self, other: Self) -> Self {
                Self(self.0 & other.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut set = f.debug_set();
                $(if self.contains(Self::$bit) {
                    set.entry(&format_args!(stringify!($bit)));
                })*
                let unknown = self.without(Self::KNOWN);
                if !unknown.is_empty() {
                    set.entry(&format_args!("{:#06x}", unknown.0));
                }
                set.finish()
            }
        }
    };
}

bit_set! {
    /// What the server says in its greeting.
    HandshakeFlags {
        /// Options other than `EXPORT_NAME` are understood, and answered.
        FIXED_NEWSTYLE = 0,
        /// The padding behind the answer to `EXPORT_NAME` may be left out.
        NO_ZEROES = 1,
    }
}

bit_set! {
    /// What an export can do, as told at the end of the handshake.
    TransmissionFlags {
        /// Always set.
        HAS_FLAGS = 0,
        /// Writes of every kind are refused.
        READ_ONLY = 1,
        /// FLUSH is understood.
        SEND_FLUSH = 2,
        /// The command flag FUA is understood.
        SEND_FUA = 3,
        /// Seeks cost time.
        ROTATIONAL = 4,
        /// TRIM is understood.
        SEND_TRIM = 5,
        /// `WRITE_ZEROES` and its flag `NO_HOLE` are understood.
        SEND_WRITE_ZEROES = 6,
        /// The command flag DF is understood.
        SEND_DF = 7,
        /// A FLUSH on one connection covers what was acknowledged on any.
        CAN_MULTI_CONN = 8,
        /// The withdrawn resize extension.
        SEND_RESIZE = 9,
        /// CACHE is understood.
        SEND_CACHE = 10,
        /// The command flag `FAST_ZERO` is understood.
        SEND_FAST_ZERO = 11,
        /// `BLOCK_STATUS` may name contexts in a payload.
        BLOCK_STATUS_PAYLOAD = 12,
    }
}

bit_set! {
    /// Modifiers of one request.
    CommandFlags {
        /// Reply after the written data is durable.
        FUA = 0,
        /// Keep the zeroed range allocated.
        NO_HOLE = 1,
        /// Reply with at most one content chunk.
        DF = 2,
        /// Reply with one extent per context.
        REQ_ONE = 3,
        /// Fail with [`Errno::NotSupported`] rather than write zeroes slowly.
        FAST_ZERO = 4,
        /// The length field of an extended request counts payload, not effect.
        PAYLOAD_LEN = 5,
    }
}

bit_set! {
    /// Modifiers of one reply chunk.
    ReplyFlags {
        /// No more chunks follow for this request.
        DONE = 0,
    }
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    /// Bytes of the export.
    Read,
    /// Bytes to the export.
    Write,
    /// The client goes; there is no reply.
    Disconnect,
    /// Makes acknowledged writes durable.
    Flush,
    /// Discards a range.
    Trim,
    /// Asks for a range to be brought near.
    Cache,
    /// Writes zeroes without sending them.
    WriteZeroes,
    /// Asks for the extents of a range in the negotiated metadata contexts.
    BlockStatus,
    /// A number that the protocol does not define.
    Unknown(u16),
}

impl Command {
    /// The command of a number on the wire.
    pub const fn from_code(code: u16) -> Self {
        match code {
            0 => Self::Read,
            1 => Self::Write,
            2 => Self::Disconnect,
            3 => Self::Flush,
            4 => Self::Trim,
            5 => Self::Cache,
            6 => Self::WriteZeroes,
            7 => Self::BlockStatus,
            other => Self::Unknown(other),
        }
    }

    /// The number on the wire.
    pub const fn code(self) -> u16 {
        match self {
            Self::Read => 0,
            Self::Write => 1,
            Self::Disconnect => 2,
            Self::Flush => 3,
            Self::Trim => 4,
            Self::Cache => 5,
            Self::WriteZeroes => 6,
            Self::BlockStatus => 7,
            Self::Unknown(code) => code,
        }
    }

    /// Whether it can change the export's bytes.
    pub const fn writes(self) -> bool {
        matches!(self, Self::Write | Self::Trim | Self::WriteZeroes)
    }
}

/// Why a request failed. The protocol defines these and no others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Errno {
    /// `NBD_EPERM`: not permitted, such as a write to a read-only export.
    NotPermitted,
    /// `NBD_EIO`: the device failed.
    Io,
    /// `NBD_ENOMEM`: out of memory.
    OutOfMemory,
    /// `NBD_EINVAL`: the request makes no sense here.
    Invalid,
    /// `NBD_ENOSPC`: no space, or a write beyond the end.
    NoSpace,
    /// `NBD_EOVERFLOW`: too long to serve.
    Overflow,
    /// `NBD_ENOTSUP`: not as fast as was asked for.
    NotSupported,
    /// `NBD_ESHUTDOWN`: the server is going down.
    Shutdown,
}

impl Errno {
    /// The number on the wire.
    pub const fn code(self) -> u32 {
        match self {
            Self::NotPermitted => 1,
            Self::Io => 5,
            Self::OutOfMemory => 12,
            Self::Invalid => 22,
            Self::NoSpace => 28,
            Self::Overflow => 75,
            Self::NotSupported => 95,
            Self::Shutdown => 108,
        }
    }

    /// The error of a nonzero number on the wire; what the protocol does not define counts as
    /// [`Errno::Invalid`], as it advises.
    pub const fn from_code(code: u32) -> Self {
        match code {
            1 => Self::NotPermitted,
            5 => Self::Io,
            12 => Self::OutOfMemory,
            28 => Self::NoSpace,
            75 => Self::Overflow,
            95 => Self::NotSupported,
            108 => Self::Shutdown,
            _ => Self::Invalid,
        }
    }

    /// The error that tells a client about a Linux system error: exhausted quotas and files at
    /// their size limit count as no space, and whatever has no counterpart is an I/O error.
    pub const fn from_linux(errno: i32) -> Self {
        match errno {
            1 | 13 | 30 => Self::NotPermitted,
            12 => Self::OutOfMemory,
            22 => Self::Invalid,
            27 | 28 | 122 => Self::NoSpace,
            75 => Self::Overflow,
            95 => Self::NotSupported,
            108 => Self::Shutdown,
            _ => Self::Io,
        }
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotPermitted => "operation not permitted",
            Self::Io => "input/output error",
            Self::OutOfMemory => "out of memory",
            Self::Invalid => "invalid request",
            Self::NoSpace => "no space left on the export",
            Self::Overflow => "length too large",
            Self::NotSupported => "not supported",
            Self::Shutdown => "server is shutting down",
        })
    }
}

/// Size constraints of an export, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSize {
    /// Alignment of every offset and length: a power of two, at most 64 KiB.
    pub minimum: u32,
    /// Alignment that is served well: a power of two, at least the minimum.
    pub preferred: u32,
    /// The longest payload of one request or reply.
    pub maximum_payload: u32,
}

impl Default for BlockSize {
    /// What holds where nothing was advertised.
    fn default() -> Self {
        Self { minimum: 1, preferred: 4096, maximum_payload: MAX_PAYLOAD_BYTES }
    }
}

impl BlockSize {
    /// Whether the three sizes obey the protocol's constraints on each other. The lower bound of
    /// 512 on the preferred size is not asked for, because servers in use break it harmlessly.
    pub const fn is_valid(self) -> bool {
        self.minimum.is_power_of_two()
            && self.minimum <= MAX_MINIMUM_BLOCK_BYTES
            && self.preferred.is_power_of_two()
            && self.preferred >= self.minimum
            && self.maximum_payload >= self.preferred
    }
}

/// A metadata context of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    /// The number that stands for it in block status replies.
    pub id: u32,
    /// Its name, such as `base:allocation`.
    pub name: String,
}

/// One run of bytes with the same status in a metadata context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Bytes, more than zero.
    pub length: u64,
    /// What the context says of them.
    pub flags: u64,
}

impl Extent {
    /// `base:allocation`: the range is not allocated.
    pub const HOLE: u64 = 1;
    /// `base:allocation`: the range reads as zeroes.
    pub const ZERO: u64 = 2;
}

/// How both sides frame the messages of the transmission phase; the handshake settles it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ReplyStyle {
    /// Compact requests (28 bytes), simple replies (16 bytes).
    #[default]
    Simple,
    /// Compact requests, structured reply chunks (20 bytes).
    Structured,
    /// Extended requests and extended reply chunks (32 bytes each).
    Extended,
}

impl ReplyStyle {
    /// Whether requests have the extended header.
    pub const fn is_extended(self) -> bool {
        matches!(self, Self::Extended)
    }

    /// Whether a reply is a series of chunks.
    pub const fn is_chunked(self) -> bool {
        !matches!(self, Self::Simple)
    }
}
