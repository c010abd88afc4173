//! Whether a request is one that the export can serve, decided from its header alone.
//!
//! The check comes before any scheduling, so that nothing which cannot be served takes anybody's
//! share. In order: payload size, command and its flags, permission, range, alignment.

use super::proto::{
    BlockSize, Command, CommandFlags, Errno, MAX_PAYLOAD_BYTES, ReplyStyle, TransmissionFlags,
};
use super::request::{MAX_STATUS_QUERY_BYTES, Request};

/// What the session promised its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// Size of the export.
    pub size_bytes: u64,
    /// Transmission flags as the client was told them.
    pub flags: TransmissionFlags,
    /// Size constraints that are enforced.
    pub block_size: BlockSize,
    /// Framing of the session.
    pub style: ReplyStyle,
    /// Whether any metadata context was selected.
    pub has_contexts: bool,
}

/// Why a request is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Skip the request's payload, answer with the error, go on.
    Refuse {
        /// For the client's program.
        errno: Errno,
        /// For its user.
        reason: &'static str,
    },
    /// Drop the connection: skipping the payload would cost more than the client is worth.
    Disconnect {
        /// For the log.
        reason: &'static str,
    },
}

/// Checks a request header. [`Command::Disconnect`] passes unless it brings a payload. A
/// `BLOCK_STATUS` with a payload passes without a look at its range; see [`check_status_range`].
///
/// # Errors
/// What to do about a request that cannot be served.
#[inline]
pub fn check_request(request: &Request, promise: &Promise) -> Result<(), Fault> {
    check_payload(request, promise)?;
    check_flags(request, promise)?;
    match request.command {
        Command::Disconnect => return Ok(()),
        Command::Flush => return check_flush(request, promise),
        Command::BlockStatus => check_status(request, promise)?,
        command => check_supported(command, promise.flags)?,
    }
    if request.command.writes() && promise.flags.contains(TransmissionFlags::READ_ONLY) {
        return refuse(Errno::NotPermitted, "the export is read-only");
    }
    if request.command == Command::BlockStatus && request.payload_bytes > 0 {
        return Ok(());
    }
    check_range(request, promise)
}

/// Checks the range of a `BLOCK_STATUS` request whose length came in its payload.
///
/// # Errors
/// As [`check_request`].
pub fn check_status_range(offset: u64, length: u64, promise: &Promise) -> Result<(), Fault> {
    let request = Request {
        flags: CommandFlags::NONE,
        command: Command::BlockStatus,
        cookie: 0,
        offset,
        length,
        payload_bytes: 0,
    };
    check_range(&request, promise)
}

#[inline]
fn refuse<T>(errno: Errno, reason: &'static str) -> Result<T, Fault> {
    Err(Fault::Refuse { errno, reason })
}

/// A payload is skipped as long as every client may send one of its size, whatever was advertised.
#[inline]
fn check_payload(request: &Request, promise: &Promise) -> Result<(), Fault> {
    let maximum = promise.block_size.maximum_payload;
    if request.payload_bytes > u64::from(maximum.max(MAX_PAYLOAD_BYTES)) {
        return Err(Fault::Disconnect { reason: "payload far beyond the limit" });
    }
    if request.payload_bytes > u64::from(maximum) {
        return refuse(Errno::Invalid, "payload larger than the advertised maximum");
    }
    Ok(())
}

/// Every flag must be one that the command takes and that the export offers.
#[inline]
fn check_flags(request: &Request, promise: &Promise) -> Result<(), Fault> {
    let offered = |flag, allowed| if promise.flags.contains(flag) { allowed } else { NO_FLAGS };
    let fua = offered(TransmissionFlags::SEND_FUA, CommandFlags::FUA);
    let own = match request.command {
        Command::Read => offered(TransmissionFlags::SEND_DF, CommandFlags::DF),
        Command::Write if promise.style.is_extended() => CommandFlags::PAYLOAD_LEN,
        Command::WriteZeroes => CommandFlags::NO_HOLE
            .with(offered(TransmissionFlags::SEND_FAST_ZERO, CommandFlags::FAST_ZERO)),
        Command::BlockStatus => CommandFlags::REQ_ONE
            .with(offered(TransmissionFlags::BLOCK_STATUS_PAYLOAD, CommandFlags::PAYLOAD_LEN)),
        _ => NO_FLAGS,
    };
    if !request.flags.without(own | fua).is_empty() {
        return refuse(Errno::Invalid, "a flag that this command does not take here");
    }
    Ok(())
}

const NO_FLAGS: CommandFlags = CommandFlags::NONE;

fn check_supported(command: Command, flags: TransmissionFlags) -> Result<(), Fault> {
    let needed = match command {
        Command::Trim => TransmissionFlags::SEND_TRIM,
        Command::WriteZeroes => TransmissionFlags::SEND_WRITE_ZEROES,
        Command::Cache => TransmissionFlags::SEND_CACHE,
        Command::Unknown(_) => return refuse(Errno::Invalid, "an unknown command"),
        _ => TransmissionFlags::NONE,
    };
    if flags.contains(needed) {
        Ok(())
    } else {
        refuse(Errno::Invalid, "a command that the export does not offer")
    }
}

fn check_flush(request: &Request, promise: &Promise) -> Result<(), Fault> {
    if !promise.flags.contains(TransmissionFlags::SEND_FLUSH) {
        return refuse(Errno::Invalid, "a command that the export does not offer");
    }
    if request.offset != 0 || request.length != 0 {
        return refuse(Errno::Invalid, "a FLUSH with a range");
    }
    Ok(())
}

fn check_status(request: &Request, promise: &Promise) -> Result<(), Fault> {
    if !promise.has_contexts {
        return refuse(Errno::Invalid, "no metadata context was negotiated");
    }
    if request.payload_bytes > MAX_STATUS_QUERY_BYTES {
        return refuse(Errno::Invalid, "a query for more contexts than there can be");
    }
    if request.flags.contains(CommandFlags::PAYLOAD_LEN) && request.payload_bytes == 0 {
        return refuse(Errno::Invalid, "an empty query");
    }
    Ok(())
}

#[inline]
fn check_range(request: &Request, promise: &Promise) -> Result<(), Fault> {
    if request.length == 0 {
        return refuse(Errno::Invalid, "a request for no bytes");
    }
    let end = request.offset.checked_add(request.length);
    if end.is_none_or(|end| end > promise.size_bytes) {
        let errno = match request.command {
            Command::Write | Command::WriteZeroes => Errno::NoSpace,
            _ => Errno::Invalid,
        };
        return refuse(errno, "beyond the end of the export");
    }
    let misaligned = u64::from(promise.block_size.minimum) - 1;
    if (request.offset | request.length) & misaligned != 0 {
        return refuse(Errno::Invalid, "not aligned to the minimum block size");
    }
    let too_long = request.length > u64::from(promise.block_size.maximum_payload);
    if request.command == Command::Read && too_long {
        let errno = if promise.style.is_chunked() { Errno::Overflow } else { Errno::Invalid };
        return refuse(errno, "a read larger than the maximum payload");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: TransmissionFlags = TransmissionFlags::KNOWN.without(TransmissionFlags::READ_ONLY);

    fn promise() -> Promise {
        let block_size = BlockSize { minimum: 512, preferred: 4096, maximum_payload: 1 << 20 };
        Promise {
            size_bytes: 1 << 40,
            flags: ALL,
            block_size,
            style: ReplyStyle::Structured,
            has_contexts: true,
        }
    }

    fn request(command: Command, offset: u64, length: u64) -> Request {
        let payload_bytes = if command == Command::Write { length } else { 0 };
        Request { flags: CommandFlags::NONE, command, cookie: 1, offset, length, payload_bytes }
    }

    fn errno(request: &Request, promise: &Promise) -> Option<Errno> {
        match check_request(request, promise) {
            Ok(()) => None,
            Err(Fault::Refuse { errno, .. }) => Some(errno),
            Err(Fault::Disconnect { reason }) => panic!("{reason}"),
        }
    }

    #[test]
    fn what_the_export_offers_passes() {
        for command in [
            Command::Read,
            Command::Write,
            Command::Trim,
            Command::Cache,
            Command::WriteZeroes,
            Command::BlockStatus,
        ] {
            let fua = Request { flags: CommandFlags::FUA, ..request(command, 512, 1 << 20) };
            assert_eq!(errno(&fua, &promise()), None, "{command:?}");
        }
        assert_eq!(errno(&request(Command::Flush, 0, 0), &promise()), None);
        assert_eq!(errno(&request(Command::Disconnect, 0, 0), &promise()), None);
    }

    #[test]
    fn a_read_only_export_refuses_writes_of_every_kind() {
        let promise = Promise { flags: TransmissionFlags::KNOWN, ..promise() };
        for command in [Command::Write, Command::Trim, Command::WriteZeroes] {
            assert_eq!(errno(&request(command, 0, 512), &promise), Some(Errno::NotPermitted));
        }
        assert_eq!(errno(&request(Command::Read, 0, 512), &promise), None);
    }

    #[test]
    fn beyond_the_end_writes_lack_space_and_reads_are_invalid() {
        for (offset, length) in [(1 << 40, 512), ((1 << 40) - 512, 1024), (u64::MAX - 511, 512)] {
            let of = |command| errno(&request(command, offset, length), &promise());
            assert_eq!(of(Command::Write), Some(Errno::NoSpace));
            assert_eq!(of(Command::WriteZeroes), Some(Errno::NoSpace));
            assert_eq!(of(Command::Read), Some(Errno::Invalid));
            assert_eq!(of(Command::Trim), Some(Errno::Invalid));
            assert_eq!(of(Command::BlockStatus), Some(Errno::Invalid));
        }
    }

    #[test]
    fn misaligned_and_empty_requests_are_invalid() {
        for (offset, length) in [(1, 512), (0, 511), (0, 0)] {
            assert_eq!(errno(&request(Command::Read, offset, length), &promise()), INVALID);
        }
    }

    const INVALID: Option<Errno> = Some(Errno::Invalid);

    #[test]
    fn each_flag_is_bound_to_its_command_and_to_what_was_offered() {
        let cases = [
            (CommandFlags::DF, Command::Read, TransmissionFlags::SEND_DF),
            (CommandFlags::FAST_ZERO, Command::WriteZeroes, TransmissionFlags::SEND_FAST_ZERO),
            (CommandFlags::FUA, Command::Write, TransmissionFlags::SEND_FUA),
        ];
        for (flag, command, feature) in cases {
            let flagged = Request { flags: flag, ..request(command, 0, 512) };
            let without = Promise { flags: ALL.without(feature), ..promise() };
            assert_eq!(errno(&flagged, &promise()), None, "{flag:?}");
            assert_eq!(errno(&flagged, &without), INVALID, "{flag:?}");
        }
        for flag in [CommandFlags::NO_HOLE, CommandFlags::REQ_ONE, CommandFlags(1 << 12)] {
            let flagged = Request { flags: flag, ..request(Command::Read, 0, 512) };
            assert_eq!(errno(&flagged, &promise()), INVALID, "{flag:?}");
        }
    }

    #[test]
    fn commands_that_were_not_offered_are_invalid() {
        let bare =
            Promise { flags: TransmissionFlags::HAS_FLAGS, has_contexts: false, ..promise() };
        for command in [
            Command::Trim,
            Command::Cache,
            Command::WriteZeroes,
            Command::BlockStatus,
            Command::Unknown(8),
        ] {
            assert_eq!(errno(&request(command, 0, 512), &bare), INVALID, "{command:?}");
        }
        assert_eq!(errno(&request(Command::Flush, 0, 0), &bare), INVALID);
        assert_eq!(errno(&request(Command::Flush, 0, 512), &promise()), INVALID);
    }

    #[test]
    fn a_payload_beyond_what_anybody_may_send_drops_the_client() {
        let huge = request(Command::Write, 0, u64::from(MAX_PAYLOAD_BYTES) + 512);
        assert!(matches!(check_request(&huge, &promise()), Err(Fault::Disconnect { .. })));
        let big = request(Command::Write, 0, u64::from(MAX_PAYLOAD_BYTES));
        assert_eq!(errno(&big, &promise()), INVALID);
        let extended = Promise { style: ReplyStyle::Extended, ..promise() };
        let odd = Request {
            flags: CommandFlags::PAYLOAD_LEN,
            payload_bytes: u64::MAX,
            ..request(Command::Read, 0, 0)
        };
        assert!(matches!(check_request(&odd, &extended), Err(Fault::Disconnect { .. })));
    }

    #[test]
    fn the_payload_flag_belongs_to_extended_headers() {
        let extended = Promise { style: ReplyStyle::Extended, ..promise() };
        let flagged =
            Request { flags: CommandFlags::PAYLOAD_LEN, ..request(Command::Write, 0, 512) };
        assert_eq!(errno(&flagged, &extended), None);
        assert_eq!(errno(&flagged, &promise()), INVALID);
        assert_eq!(errno(&request(Command::Write, 0, 512), &extended), None);
    }

    #[test]
    fn a_huge_effect_length_is_served_but_a_huge_read_is_not() {
        assert_eq!(errno(&request(Command::WriteZeroes, 0, 1 << 40), &promise()), None);
        assert_eq!(errno(&request(Command::Read, 0, 2 << 20), &promise()), Some(Errno::Overflow));
        let simple = Promise { style: ReplyStyle::Simple, ..promise() };
        assert_eq!(errno(&request(Command::Read, 0, 2 << 20), &simple), INVALID);
    }

    #[test]
    fn a_status_query_in_a_payload_is_checked_when_it_is_read() {
        let extended = Promise { style: ReplyStyle::Extended, ..promise() };
        let query = |payload_bytes| Request {
            flags: CommandFlags::PAYLOAD_LEN,
            payload_bytes,
            ..request(Command::BlockStatus, 0, 0)
        };
        assert_eq!(errno(&query(12), &extended), None);
        assert_eq!(errno(&query(0), &extended), INVALID);
        assert_eq!(errno(&query(4096), &extended), INVALID);
        assert!(check_status_range(0, 512, &extended).is_ok());
        assert!(check_status_range(1 << 40, 512, &extended).is_err());
    }

    proptest! {
        #[test]
        fn what_passes_lies_within_the_export(
            code in 0u16..9, flags in 0u16..64, offset: u64, length: u64, size_bytes: u64,
        ) {
            let request = Request {
                flags: CommandFlags(flags),
                ..request(Command::from_code(code), offset, length)
            };
            let promise = Promise { size_bytes, ..promise() };
            let ranged = !matches!(request.command, Command::Flush | Command::Disconnect);
            if check_request(&request, &promise).is_ok() && ranged {
                prop_assert!(u128::from(offset) + u128::from(length) <= u128::from(size_bytes));
                prop_assert!(offset % 512 == 0 && length % 512 == 0 && length > 0);
            }
        }
    }
}
