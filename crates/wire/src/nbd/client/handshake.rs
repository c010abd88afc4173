//! The state machine behind [`ClientHandshake`]: gathering replies and taking one step at a time.
//!
//! ```text
//! greeting -> STARTTLS -> EXTENDED_HEADERS -> STRUCTURED_REPLY -> LIST_META_CONTEXT
//!          -> SET_META_CONTEXT -> GO | INFO | LIST      (steps that are not wanted are left out)
//!                                 '-> EXPORT_NAME           (if the server does not know GO)
//! ```

use super::replies::Progress;
use super::{ClientError, ClientEvent, ClientOptions, ClientSession, ContextsWanted, Goal};
use crate::nbd::fields::Fields;
use crate::nbd::option::{
    ContextQuery, InfoQuery, OPTION_REPLY_HEADER_BYTES, OptionKind, OptionReply,
    decode_option_reply, encode_option, info, string,
};
use crate::nbd::proto::{
    EXPORT_NAME_PADDING_BYTES, GREETING_MAGIC, HandshakeFlags, MAX_CONTEXTS, MAX_OPTION_REPLIES,
    MAX_OPTION_REPLY_BYTES, OLDSTYLE_MAGIC, OPTION_MAGIC, TransmissionFlags,
};

const GREETING_BYTES: usize = 18;

/// One connection's handshake on the client's side.
#[derive(Debug)]
pub struct ClientHandshake {
    pub(super) options: ClientOptions,
    output: Vec<u8>,
    state: State,
    /// What has come of the item that is being gathered.
    held: Vec<u8>,
    no_zeroes: bool,
    replies_seen: u32,
    pub(super) progress: Progress,
    pub(super) session: ClientSession,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Greeting,
    Reply(OptionKind),
    ReplyData { option: OptionKind, reply: OptionReply, length: usize },
    ExportNameReply,
    AwaitTls,
    Finished,
}

impl ClientHandshake {
    /// A fresh connection.
    ///
    /// # Panics
    /// If the name of the export or of a context is no string of the protocol: UTF-8 without NUL,
    /// up to 4096 bytes.
    pub fn new(options: ClientOptions) -> Self {
        let is_string = |text: &str| string(text.as_bytes()).is_some();
        assert!(is_string(&options.export), "the caller checks export names");
        let mut progress = Progress::default();
        if let ContextsWanted::Named(names) = &options.contexts {
            assert!(names.iter().all(|name| is_string(name)), "the caller checks context names");
            progress.wanted_contexts = names.iter().take(MAX_CONTEXTS).cloned().collect();
        }
        Self {
            options,
            output: Vec::new(),
            state: State::Greeting,
            held: Vec::new(),
            no_zeroes: false,
            replies_seen: 0,
            progress,
            session: ClientSession::default(),
        }
    }

    /// Bytes to send; the driver takes them out.
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// Takes input, up to the next event. Returns how many bytes were used and the event. Empty
    /// input is fine.
    ///
    /// # Errors
    /// If the server refuses what is needed, or breaks the protocol.
    pub fn handle(&mut self, input: &[u8]) -> Result<(usize, ClientEvent), ClientError> {
        let mut rest = input;
        let event = self.advance(&mut rest);
        if event.is_err() {
            self.state = State::Finished;
        }
        let event = event?;
        if event == ClientEvent::StartTls && !rest.is_empty() {
            self.state = State::Finished;
            return Err(ClientError::PlaintextBehindStartTls);
        }
        Ok((input.len() - rest.len(), event))
    }

    fn advance(&mut self, rest: &mut &[u8]) -> Result<ClientEvent, ClientError> {
        loop {
            let need = match self.state {
                State::Greeting => GREETING_BYTES,
                State::Reply(_) => OPTION_REPLY_HEADER_BYTES,
                State::ReplyData { length, .. } => length,
                State::ExportNameReply if self.no_zeroes => 10,
                State::ExportNameReply => 10 + EXPORT_NAME_PADDING_BYTES,
                State::AwaitTls => return Err(ClientError::PlaintextBehindStartTls),
                State::Finished => return Err(ClientError::Finished),
            };
            let take = rest.len().min(need - self.held.len());
            let (head, tail) = rest.split_at(take);
            self.held.extend_from_slice(head);
            *rest = tail;
            if self.held.len() < need {
                return Ok(ClientEvent::NeedInput);
            }
            let item = std::mem::take(&mut self.held);
            let event = match self.state {
                State::Greeting => self.greeting(&item)?,
                State::Reply(option) => self.reply_header(option, &item)?,
                State::ReplyData { option, reply, .. } => self.reply(option, reply, &item)?,
                _ => Some(self.export_name_reply(&item)?),
            };
            if let Some(event) = event {
                return Ok(event);
            }
        }
    }

    fn greeting(&mut self, held: &[u8]) -> Result<Option<ClientEvent>, ClientError> {
        let mut fields = Fields(held);
        let (first, second) = (fields.u64(), fields.u64());
        if first != Some(GREETING_MAGIC) {
            return Err(ClientError::NotNbd);
        }
        match second {
            Some(OPTION_MAGIC) => {}
            Some(OLDSTYLE_MAGIC) => return Err(ClientError::Oldstyle),
            _ => return Err(ClientError::NotNbd),
        }
        let offered = HandshakeFlags(fields.u16().unwrap_or(0));
        let taken = offered & HandshakeFlags::KNOWN;
        self.no_zeroes = taken.contains(HandshakeFlags::NO_ZEROES);
        self.output.extend_from_slice(&u32::from(taken.0).to_be_bytes());
        if taken.contains(HandshakeFlags::FIXED_NEWSTYLE) {
            self.ask_from(OptionKind::StartTls);
            return Ok(None);
        }
        let wanted = match self.options.goal {
            _ if self.options.tls => Some("TLS"),
            Goal::Go => None,
            Goal::Info => Some("the description of an export"),
            Goal::List => Some("a list of exports"),
        };
        if let Some(wanted) = wanted {
            return Err(ClientError::NotFixedNewstyle { wanted });
        }
        self.ask(OptionKind::ExportName, &[]);
        Ok(None)
    }

    /// Asks for the first thing that is wanted, from the given step on.
    pub(super) fn ask_from(&mut self, step: OptionKind) {
        let chunked = self.session.style.is_chunked();
        let lists_contexts = matches!(self.options.contexts, ContextsWanted::All { .. });
        let has_export = self.options.goal != Goal::List;
        let (wanted, next) = match step {
            OptionKind::StartTls => {
                (self.options.tls && !self.session.tls, OptionKind::ExtendedHeaders)
            }
            OptionKind::ExtendedHeaders => {
                (self.options.extended && has_export, OptionKind::StructuredReply)
            }
            OptionKind::StructuredReply => {
                let wanted = self.options.structured && has_export && !chunked;
                (wanted, OptionKind::ListMetaContext)
            }
            OptionKind::ListMetaContext => (chunked && lists_contexts, OptionKind::SetMetaContext),
            OptionKind::SetMetaContext => {
                (chunked && !self.progress.wanted_contexts.is_empty(), OptionKind::Go)
            }
            _ => {
                let last = match self.options.goal {
                    Goal::Go => OptionKind::Go,
                    Goal::Info => OptionKind::Info,
                    Goal::List => OptionKind::List,
                };
                return self.ask_last(last);
            }
        };
        if !wanted {
            return self.ask_from(next);
        }
        let data = match step {
            OptionKind::ListMetaContext => {
                ContextQuery::encode(&self.options.export, std::iter::empty())
            }
            OptionKind::SetMetaContext => {
                let names = self.progress.wanted_contexts.iter().map(String::as_str);
                ContextQuery::encode(&self.options.export, names)
            }
            _ => Vec::new(),
        };
        self.ask(step, &data);
    }

    fn ask_last(&mut self, option: OptionKind) {
        if option == OptionKind::List {
            return self.ask(option, &[]);
        }
        let facts = [info::NAME, info::DESCRIPTION, info::BLOCK_SIZE];
        self.ask(option, &InfoQuery::encode(&self.options.export, &facts));
    }

    /// Sends an option and waits for its reply. `EXPORT_NAME` brings its own data.
    pub(super) fn ask(&mut self, option: OptionKind, data: &[u8]) {
        if option == OptionKind::ExportName {
            encode_option(&mut self.output, option, self.options.export.as_bytes());
            self.state = State::ExportNameReply;
        } else {
            encode_option(&mut self.output, option, data);
            self.state = State::Reply(option);
        }
    }

    fn reply_header(
        &mut self,
        option: OptionKind,
        held: &[u8],
    ) -> Result<Option<ClientEvent>, ClientError> {
        let broken = |what| Err(ClientError::Protocol { option: option.name(), what });
        let Some(header) = decode_option_reply(held) else {
            return broken("a reply does not start with the magic number");
        };
        if header.option != option {
            return broken("a reply to an option that was not sent");
        }
        let length = header.length as usize;
        if length > MAX_OPTION_REPLY_BYTES {
            return broken("a reply longer than any can be");
        }
        self.replies_seen += 1;
        if self.replies_seen > MAX_OPTION_REPLIES {
            return broken("too many replies");
        }
        self.state = State::ReplyData { option, reply: header.reply, length };
        Ok(None)
    }

    fn reply(
        &mut self,
        option: OptionKind,
        reply: OptionReply,
        data: &[u8],
    ) -> Result<Option<ClientEvent>, ClientError> {
        self.state = State::Reply(option);
        match reply {
            OptionReply::Error(reason) => self.on_error(option, reason, data).map(|()| None),
            OptionReply::Ack if data.is_empty() => self.on_ack(option),
            OptionReply::Ack => Err(ClientError::Protocol {
                option: option.name(),
                what: "an acknowledgement with data",
            }),
            _ => self
                .on_fact(option, reply, data)
                .map_err(|what| ClientError::Protocol { option: option.name(), what }),
        }
    }

    pub(super) fn await_tls(&mut self) -> ClientEvent {
        self.state = State::AwaitTls;
        ClientEvent::StartTls
    }

    /// The end of the handshake; whoever does not go on to use the export says goodbye.
    pub(super) fn finish(&mut self) -> ClientEvent {
        self.state = State::Finished;
        if self.options.goal != Goal::Go {
            self.say_goodbye();
        }
        let mut session = std::mem::take(&mut self.session);
        if !session.style.is_chunked() {
            session.flags = session.flags.without(TransmissionFlags::SEND_DF);
        }
        if !session.style.is_extended() {
            session.flags = session.flags.without(TransmissionFlags::BLOCK_STATUS_PAYLOAD);
        }
        match self.options.goal {
            Goal::Go => ClientEvent::Ready(Box::new(session)),
            Goal::Info => ClientEvent::Info(Box::new(session)),
            Goal::List => ClientEvent::ListEnd,
        }
    }

    pub(super) fn say_goodbye(&mut self) {
        encode_option(&mut self.output, OptionKind::Abort, &[]);
    }

    fn export_name_reply(&mut self, held: &[u8]) -> Result<ClientEvent, ClientError> {
        let mut fields = Fields(held);
        self.set_size_and_flags(&mut fields).map_err(|what| ClientError::Protocol {
            option: OptionKind::ExportName.name(),
            what,
        })?;
        Ok(self.finish())
    }

    /// The transport is now under TLS.
    ///
    /// # Panics
    /// Unless the last event was [`ClientEvent::StartTls`].
    pub fn tls_established(&mut self) {
        assert!(matches!(self.state, State::AwaitTls), "TLS comes when the server consents");
        self.session.tls = true;
        self.ask_from(OptionKind::ExtendedHeaders);
    }
}
