//! The state machine behind [`ServerHandshake`]: gathering options and answering them.
//!
//! ```text
//! ClientFlags -> Header -> Data -> answer -> Header ...
//!                                   |-> AwaitTls     -> Header     (what was negotiated is void)
//!                                   |-> AwaitList    -> Header
//!                                   |-> AwaitLookup  -> Header | Ready | Closed
//! ```

use super::lookup::Selected;
use super::{
    CloseReason, HandshakeError, Lookup, Purpose, Refusal, ServerEvent, ServerOptions,
    ServerSession, TlsOffer,
};
use crate::nbd::option::{
    ContextQuery, InfoQuery, OPTION_HEADER_BYTES, OptionKind, OptionReply, RefusedReason,
    decode_option, encode_option_reply, info, length_u32, string,
};
use crate::nbd::proto::{
    GREETING_MAGIC, HandshakeFlags, MAX_HANDSHAKE_BYTES, MAX_OPTION_DATA_BYTES, MAX_OPTIONS,
    MAX_STRING_BYTES, OPTION_MAGIC, ReplyStyle,
};
use crate::nbd::text::truncated;

/// The most queries that one option may bring; each is compared with each context.
pub(super) const MAX_QUERIES: usize = 256;

/// One connection's handshake on the server's side. The greeting is in the output from the start.
#[derive(Debug)]
pub struct ServerHandshake {
    pub(super) offer: ServerOptions,
    pub(super) output: Vec<u8>,
    pub(super) state: State,
    /// What has come of the item that is being gathered; the data of an option until its answer.
    pub(super) held: Vec<u8>,
    pub(super) client_flags: HandshakeFlags,
    pub(super) tls: bool,
    shutting_down: bool,
    pub(super) style: ReplyStyle,
    pub(super) selected: Option<Selected>,
    options_seen: u32,
    data_seen_bytes: u64,
}

#[derive(Debug)]
pub(super) enum State {
    ClientFlags,
    Header,
    Data { option: OptionKind, length: u32, left: u32 },
    AwaitTls,
    AwaitList,
    AwaitLookup(OptionKind),
    Ready(Box<ServerSession>),
    Closed(CloseReason),
    Finished,
}

impl ServerHandshake {
    /// A fresh connection.
    pub fn new(options: ServerOptions) -> Self {
        let flags = HandshakeFlags::FIXED_NEWSTYLE | HandshakeFlags::NO_ZEROES;
        let mut output = Vec::with_capacity(64);
        output.extend_from_slice(&GREETING_MAGIC.to_be_bytes());
        output.extend_from_slice(&OPTION_MAGIC.to_be_bytes());
        output.extend_from_slice(&flags.0.to_be_bytes());
        Self {
            offer: options,
            output,
            state: State::ClientFlags,
            held: Vec::new(),
            client_flags: HandshakeFlags::NONE,
            tls: false,
            shutting_down: false,
            style: ReplyStyle::Simple,
            selected: None,
            options_seen: 0,
            data_seen_bytes: 0,
        }
    }

    /// Bytes to send; the driver takes them out.
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// Takes input, up to the next event; at most one option is answered. Returns how many bytes
    /// were used and the event. Empty input is fine.
    ///
    /// # Errors
    /// If the client broke the protocol in a way that has no reply, or brought more than a
    /// handshake may take.
    ///
    /// # Panics
    /// If the question of the last event has not been answered.
    pub fn handle(&mut self, input: &[u8]) -> Result<(usize, ServerEvent), HandshakeError> {
        let mut rest = input;
        let event = self.advance(&mut rest);
        if event.is_err() {
            self.state = State::Finished;
        }
        let event = event?;
        if event == ServerEvent::StartTls && !rest.is_empty() {
            self.state = State::Finished;
            return Err(HandshakeError::PlaintextBehindStartTls);
        }
        Ok((input.len() - rest.len(), event))
    }

    fn advance(&mut self, rest: &mut &[u8]) -> Result<ServerEvent, HandshakeError> {
        loop {
            match std::mem::replace(&mut self.state, State::Finished) {
                State::ClientFlags => {
                    if !self.gather(rest, 4) {
                        self.state = State::ClientFlags;
                        return Ok(ServerEvent::NeedInput);
                    }
                    self.client_flags()?;
                }
                State::Header => {
                    if !self.gather(rest, OPTION_HEADER_BYTES) {
                        self.state = State::Header;
                        return Ok(ServerEvent::NeedInput);
                    }
                    self.header()?;
                }
                State::Data { option, length, left } => {
                    let left = self.data(rest, option, length, left);
                    if left > 0 {
                        self.state = State::Data { option, length, left };
                        return Ok(ServerEvent::NeedInput);
                    }
                    self.state = State::Header;
                    let event = self.answer(option, length)?;
                    if !matches!(self.state, State::AwaitLookup(_)) {
                        self.held.clear();
                    }
                    return Ok(event);
                }
                State::Ready(session) => return Ok(ServerEvent::Ready(session)),
                State::Closed(reason) => return Ok(ServerEvent::Closed(reason)),
                State::AwaitTls => return Err(HandshakeError::PlaintextBehindStartTls),
                State::Finished => return Err(HandshakeError::Finished),
                State::AwaitList | State::AwaitLookup(_) => {
                    panic!("the driver answers one question before it brings more input")
                }
            }
        }
    }

    /// Moves bytes from the input until `need` are held; says whether they are.
    fn gather(&mut self, rest: &mut &[u8], need: usize) -> bool {
        let take = rest.len().min(need - self.held.len());
        let (head, tail) = rest.split_at(take);
        self.held.extend_from_slice(head);
        *rest = tail;
        self.held.len() == need
    }

    /// Takes data of an option: holds it if it will be read, else drops it. Returns what is left.
    fn data(&mut self, rest: &mut &[u8], option: OptionKind, length: u32, left: u32) -> u32 {
        let take = rest.len().min(left as usize);
        let (head, tail) = rest.split_at(take);
        if is_held(option, length) {
            self.held.extend_from_slice(head);
        }
        *rest = tail;
        left - length_u32(take)
    }

    fn client_flags(&mut self) -> Result<(), HandshakeError> {
        let flags = self.held.drain(..).fold(0u32, |flags, byte| flags << 8 | u32::from(byte));
        let known = u16::try_from(flags).map(HandshakeFlags);
        let Some(known) = known.ok().filter(|known| HandshakeFlags::KNOWN.contains(*known)) else {
            return Err(HandshakeError::UnknownClientFlags(flags));
        };
        self.client_flags = known;
        self.state = State::Header;
        Ok(())
    }

    fn header(&mut self) -> Result<(), HandshakeError> {
        let (option, length) = decode_option(&self.held).map_err(HandshakeError::BadOptionMagic)?;
        self.held.clear();
        self.options_seen += 1;
        self.data_seen_bytes += u64::from(length);
        let fixed_newstyle = self.client_flags.contains(HandshakeFlags::FIXED_NEWSTYLE);
        if !fixed_newstyle && option != OptionKind::ExportName {
            return Err(HandshakeError::NotFixedNewstyle { option: option.code() });
        }
        if self.options_seen > MAX_OPTIONS {
            return Err(HandshakeError::TooManyOptions);
        }
        if self.data_seen_bytes > MAX_HANDSHAKE_BYTES {
            return Err(HandshakeError::TooMuchData { length });
        }
        if option == OptionKind::ExportName && length as usize > MAX_STRING_BYTES {
            return Err(HandshakeError::BadExportName("the name is too long"));
        }
        self.state = State::Data { option, length, left: length };
        Ok(())
    }

    /// Answers an option whose data has come, or has been skipped.
    fn answer(&mut self, option: OptionKind, length: u32) -> Result<ServerEvent, HandshakeError> {
        if option == OptionKind::Abort {
            self.reply(option, OptionReply::Ack, &[]);
            self.state = State::Finished;
            return Ok(ServerEvent::Closed(CloseReason::Aborted));
        }
        let lacks_tls = self.offer.tls == TlsOffer::Required && !self.tls;
        if lacks_tls && option != OptionKind::StartTls {
            return Ok(self.refuse(option, &Refusal::TlsRequired));
        }
        if self.shutting_down {
            return Ok(self.refuse(option, &Refusal::Shutdown));
        }
        match option {
            OptionKind::ExportName => self.export_name(),
            OptionKind::Info | OptionKind::Go => Ok(self.info_or_go(option, length)),
            OptionKind::ListMetaContext | OptionKind::SetMetaContext => {
                Ok(self.meta_context(option, length))
            }
            OptionKind::Unknown(_) => Ok(self.error(option, RefusedReason::Unsupported, "")),
            _ if length > 0 => {
                Ok(self.error(option, RefusedReason::Invalid, "this option takes no data"))
            }
            _ => Ok(self.bare_option(option)),
        }
    }

    /// Options without data.
    fn bare_option(&mut self, option: OptionKind) -> ServerEvent {
        match option {
            OptionKind::List => {
                self.state = State::AwaitList;
                return ServerEvent::List;
            }
            OptionKind::StartTls => return self.start_tls(),
            OptionKind::ExtendedHeaders if self.offer.extended => {
                self.style = ReplyStyle::Extended;
            }
            OptionKind::StructuredReply if self.style == ReplyStyle::Extended => {
                let why = "extended headers are in use";
                return self.error(option, RefusedReason::ExtendedHeadersRequired, why);
            }
            OptionKind::StructuredReply if self.offer.structured => {
                self.style = ReplyStyle::Structured;
            }
            _ => return self.error(option, RefusedReason::Unsupported, ""),
        }
        self.reply(option, OptionReply::Ack, &[]);
        ServerEvent::SendOutput
    }

    fn start_tls(&mut self) -> ServerEvent {
        let option = OptionKind::StartTls;
        if self.tls {
            return self.error(option, RefusedReason::Invalid, "TLS is already in use");
        }
        if self.offer.tls == TlsOffer::Off {
            return self.error(option, RefusedReason::Policy, "TLS is not set up on this server");
        }
        self.reply(option, OptionReply::Ack, &[]);
        self.state = State::AwaitTls;
        ServerEvent::StartTls
    }

    fn export_name(&mut self) -> Result<ServerEvent, HandshakeError> {
        if self.style.is_extended() {
            return Err(HandshakeError::BadExportName("extended headers were negotiated"));
        }
        let Some(export) = string(&self.held).map(str::to_owned) else {
            return Err(HandshakeError::BadExportName("the name is not UTF-8 or has a NUL"));
        };
        Ok(self.look_up(OptionKind::ExportName, export, Purpose::Enter, false))
    }

    fn info_or_go(&mut self, option: OptionKind, length: u32) -> ServerEvent {
        if !is_held(option, length) {
            return self.error(option, RefusedReason::TooBig, "");
        }
        let Some(query) = InfoQuery::decode(&self.held) else {
            return self.error(option, RefusedReason::Invalid, "malformed data");
        };
        let obeys_block_size = query.asks_for(info::BLOCK_SIZE);
        let export = query.export.to_owned();
        let purpose = if option == OptionKind::Go { Purpose::Enter } else { Purpose::Info };
        self.look_up(option, export, purpose, obeys_block_size)
    }

    fn meta_context(&mut self, option: OptionKind, length: u32) -> ServerEvent {
        if option == OptionKind::SetMetaContext {
            self.selected = None;
        }
        if !self.style.is_chunked() {
            let why = "structured replies or extended headers come first";
            return self.error(option, RefusedReason::Invalid, why);
        }
        if !is_held(option, length) {
            return self.error(option, RefusedReason::TooBig, "");
        }
        match ContextQuery::decode(&self.held, MAX_QUERIES) {
            Ok(query) => {
                let export = query.export.to_owned();
                self.look_up(option, export, Purpose::Contexts, false)
            }
            Err(reason) => self.error(option, reason, "malformed or too many queries"),
        }
    }

    fn look_up(
        &mut self,
        option: OptionKind,
        export: String,
        purpose: Purpose,
        obeys_block_size: bool,
    ) -> ServerEvent {
        self.state = State::AwaitLookup(option);
        ServerEvent::Lookup(Lookup { export, purpose, obeys_block_size })
    }

    /// The transport is now under TLS. What was negotiated before is void: somebody other than the
    /// client could have said it.
    ///
    /// # Panics
    /// Unless the last event was [`ServerEvent::StartTls`].
    pub fn tls_established(&mut self) {
        assert!(matches!(self.state, State::AwaitTls), "TLS comes when the client asks for it");
        self.state = State::Header;
        self.tls = true;
        self.style = ReplyStyle::Simple;
        self.selected = None;
    }

    /// Lists one export, by name and description; the description may be empty. The output may be
    /// sent between entries. A name beyond the protocol's limit is left out: no client could
    /// ask for it.
    ///
    /// # Panics
    /// Unless the last event was [`ServerEvent::List`].
    pub fn list_entry(&mut self, name: &str, description: &str) {
        assert!(matches!(self.state, State::AwaitList), "a list is given when it is asked for");
        if name.len() <= MAX_STRING_BYTES {
            let description = truncated(description, MAX_STRING_BYTES).as_bytes();
            let length = length_u32(name.len()).to_be_bytes();
            let parts = [&length, name.as_bytes(), description];
            self.reply(OptionKind::List, OptionReply::Server, &parts);
        }
    }

    /// Ends the list, or refuses to give one.
    ///
    /// # Panics
    /// Unless the last event was [`ServerEvent::List`].
    pub fn list_end(&mut self, result: Result<(), Refusal>) {
        assert!(matches!(self.state, State::AwaitList), "a list is given when it is asked for");
        self.state = State::Header;
        match result {
            Ok(()) => self.reply(OptionKind::List, OptionReply::Ack, &[]),
            Err(refusal) => _ = self.refuse(OptionKind::List, &refusal),
        }
    }

    /// Answers [`ServerEvent::List`] in one go, with names and descriptions.
    ///
    /// # Panics
    /// Unless the last event was [`ServerEvent::List`].
    pub fn reply_list(&mut self, exports: &[(&str, &str)]) {
        for (name, description) in exports {
            self.list_entry(name, description);
        }
        self.list_end(Ok(()));
    }

    /// From now on every option but a goodbye is refused, because the server is going down.
    pub fn shut_down(&mut self) {
        self.shutting_down = true;
    }

    pub(super) fn reply(&mut self, option: OptionKind, reply: OptionReply, parts: &[&[u8]]) {
        encode_option_reply(&mut self.output, option, reply, parts);
    }

    pub(super) fn error(
        &mut self,
        option: OptionKind,
        reason: RefusedReason,
        message: &str,
    ) -> ServerEvent {
        let message = truncated(message, MAX_STRING_BYTES).as_bytes();
        self.reply(option, OptionReply::Error(reason), &[message]);
        ServerEvent::SendOutput
    }

    /// Refuses an option; `EXPORT_NAME` knows no other refusal than the end of the session.
    pub(super) fn refuse(&mut self, option: OptionKind, refusal: &Refusal) -> ServerEvent {
        if option == OptionKind::ExportName {
            self.state = State::Finished;
            return ServerEvent::Closed(CloseReason::ExportNameRefused(refusal.clone()));
        }
        let (reason, message) = match refusal {
            Refusal::Unknown => (RefusedReason::UnknownExport, "no export of this name"),
            Refusal::Policy(message) => (RefusedReason::Policy, message.as_str()),
            // The protocol forbids this error once TLS is in use.
            Refusal::TlsRequired if self.tls => (RefusedReason::Policy, "not for this client"),
            Refusal::TlsRequired => (RefusedReason::TlsRequired, "TLS comes first"),
            Refusal::BlockSizeRequired(_) => {
                (RefusedReason::BlockSizeRequired, "the client has to ask for block sizes")
            }
            Refusal::ExtendedHeadersRequired => {
                (RefusedReason::ExtendedHeadersRequired, "extended headers come first")
            }
            Refusal::Shutdown => (RefusedReason::Shutdown, "the server is shutting down"),
        };
        self.error(option, reason, message)
    }
}

/// Whether the data of an option is held for reading. What is not held is skipped.
fn is_held(option: OptionKind, length: u32) -> bool {
    option.has_data() && length as usize <= MAX_OPTION_DATA_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nbd::option::encode_option;

    /// Whatever a client sends, its handshake holds one option at most.
    #[test]
    fn a_handshake_never_holds_more_than_one_option() {
        let mut input = vec![0, 0, 0, 3];
        encode_option(&mut input, OptionKind::StructuredReply, &[]);
        for size in [0, 100, MAX_OPTION_DATA_BYTES, MAX_OPTION_DATA_BYTES + 1, 400_000] {
            for option in [OptionKind::Go, OptionKind::SetMetaContext, OptionKind::Unknown(50)] {
                encode_option(&mut input, option, &vec![b'n'; size]);
            }
        }
        let mut server = ServerHandshake::new(ServerOptions::default());
        let mut rest = input.as_slice();
        let broken = loop {
            match server.handle(rest) {
                Ok((consumed, _)) => rest = &rest[consumed..],
                Err(error) => break error,
            }
            assert!(server.held.capacity() <= 2 * MAX_OPTION_DATA_BYTES);
            server.output.clear();
        };
        assert_eq!(broken, HandshakeError::TooMuchData { length: 400_000 });
    }
}
