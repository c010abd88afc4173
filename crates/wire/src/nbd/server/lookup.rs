//! What the driver's answer about an export turns into: facts, metadata contexts, or a session.

use super::handshake::{MAX_QUERIES, State};
use super::{ExportInfo, Refusal, ServerEvent, ServerHandshake, ServerSession};
use crate::nbd::option::{ContextQuery, InfoQuery, OptionKind, OptionReply, info};
use crate::nbd::proto::{
    BlockSize, Context, EXPORT_NAME_PADDING_BYTES, HandshakeFlags, MAX_CONTEXTS, MAX_EXPORT_BYTES,
    MAX_STRING_BYTES, TransmissionFlags,
};
use crate::nbd::text::truncated;

/// Metadata contexts and the export that they were selected for.
#[derive(Clone, Debug)]
pub(super) struct Selected {
    export: String,
    contexts: Vec<Context>,
}

impl ServerHandshake {
    /// Answers [`ServerEvent::Lookup`].
    ///
    /// # Panics
    /// Unless the last event was [`ServerEvent::Lookup`], or if the description of the export
    /// contradicts the protocol (a size or block size that cannot be, more contexts than allowed).
    pub fn reply_lookup(&mut self, answer: Result<ExportInfo, Refusal>) {
        let State::AwaitLookup(option) = std::mem::replace(&mut self.state, State::Header) else {
            panic!("the answer about an export comes when it is asked for");
        };
        let data = std::mem::take(&mut self.held);
        match answer {
            Err(refusal) => self.reply_refusal(option, &refusal),
            Ok(export) => {
                assert!(export.size_bytes <= MAX_EXPORT_BYTES, "an export's size fits 63 bits");
                assert!(export.block_size.is_valid(), "block sizes obey the protocol");
                assert!(export.contexts.len() <= MAX_CONTEXTS, "contexts are few");
                match option {
                    OptionKind::ExportName => self.enter_by_name(&data, &export),
                    OptionKind::Info | OptionKind::Go => self.describe(option, &data, &export),
                    _ => self.select_contexts(option, &data, &export.contexts),
                }
            }
        }
    }

    fn reply_refusal(&mut self, option: OptionKind, refusal: &Refusal) {
        if let Refusal::BlockSizeRequired(block_size) = refusal
            && matches!(option, OptionKind::Info | OptionKind::Go)
        {
            self.reply_block_size(option, *block_size);
        }
        if let ServerEvent::Closed(reason) = self.refuse(option, refusal) {
            self.state = State::Closed(reason);
        }
    }

    fn enter_by_name(&mut self, name: &[u8], export: &ExportInfo) {
        let name = str::from_utf8(name).expect("checked before the look-up");
        let session = self.session(name, export, false);
        self.output.extend_from_slice(&session.size_bytes.to_be_bytes());
        self.output.extend_from_slice(&session.flags.0.to_be_bytes());
        if !self.client_flags.contains(HandshakeFlags::NO_ZEROES) {
            self.output.extend_from_slice(&[0; EXPORT_NAME_PADDING_BYTES]);
        }
        self.state = State::Ready(Box::new(session));
    }

    fn describe(&mut self, option: OptionKind, data: &[u8], export: &ExportInfo) {
        let query = InfoQuery::decode(data).expect("checked before the look-up");
        let obeys_block_size = query.asks_for(info::BLOCK_SIZE);
        let session = self.session(query.export, export, obeys_block_size);
        let size_and_flags =
            [&session.size_bytes.to_be_bytes()[..], &session.flags.0.to_be_bytes()];
        self.reply_info(option, info::EXPORT, &size_and_flags);
        let name = export.canonical_name.as_deref().unwrap_or(query.export);
        if query.asks_for(info::NAME) && name.len() <= MAX_STRING_BYTES {
            self.reply_info(option, info::NAME, &[name.as_bytes()]);
        }
        if let Some(description) = &export.description
            && query.asks_for(info::DESCRIPTION)
        {
            let description = truncated(description, MAX_STRING_BYTES);
            self.reply_info(option, info::DESCRIPTION, &[description.as_bytes()]);
        }
        if obeys_block_size || export.block_size != BlockSize::default() {
            self.reply_block_size(option, export.block_size);
        }
        self.reply(option, OptionReply::Ack, &[]);
        if option == OptionKind::Go {
            self.state = State::Ready(Box::new(session));
        }
    }

    fn reply_block_size(&mut self, option: OptionKind, block_size: BlockSize) {
        let BlockSize { minimum, preferred, maximum_payload } = block_size;
        let [minimum, preferred, maximum] =
            [minimum, preferred, maximum_payload].map(u32::to_be_bytes);
        self.reply_info(option, info::BLOCK_SIZE, &[&minimum, &preferred, &maximum]);
    }

    fn reply_info(&mut self, option: OptionKind, item: u16, parts: &[&[u8]]) {
        let item = item.to_be_bytes();
        self.reply(option, OptionReply::Info, &[&[&item[..]], parts].concat());
    }

    /// What the session would be if it began now.
    fn session(&self, name: &str, export: &ExportInfo, obeys_block_size: bool) -> ServerSession {
        let contexts = self.contexts_for(name, &export.contexts);
        ServerSession {
            export: name.to_owned(),
            size_bytes: export.size_bytes,
            flags: self.told_flags(export.flags, !contexts.is_empty()),
            block_size: export.block_size,
            obeys_block_size,
            style: self.style,
            contexts,
            tls: self.tls,
        }
    }

    /// Contexts hold for the export that they were selected for, as far as it still has them.
    fn contexts_for(&self, name: &str, offered: &[String]) -> Vec<Context> {
        let selected = self.selected.iter().filter(|selected| selected.export == name);
        selected
            .flat_map(|selected| &selected.contexts)
            .filter(|context| offered.contains(&context.name))
            .cloned()
            .collect()
    }

    /// The export's flags, less what the session cannot carry.
    fn told_flags(&self, flags: TransmissionFlags, has_contexts: bool) -> TransmissionFlags {
        let mut told = (flags & TransmissionFlags::KNOWN)
            .with(TransmissionFlags::HAS_FLAGS)
            .without(TransmissionFlags::SEND_RESIZE);
        if !self.style.is_chunked() {
            told = told.without(TransmissionFlags::SEND_DF);
        }
        if !(self.style.is_extended() && has_contexts) {
            told = told.without(TransmissionFlags::BLOCK_STATUS_PAYLOAD);
        }
        if !told.contains(TransmissionFlags::SEND_WRITE_ZEROES) {
            told = told.without(TransmissionFlags::SEND_FAST_ZERO);
        }
        told
    }

    /// `LIST_META_CONTEXT` shows what matches, or everything if nothing was asked; the number in
    /// its replies means nothing. `SET_META_CONTEXT` selects what matches by its whole name.
    fn select_contexts(&mut self, option: OptionKind, data: &[u8], offered: &[String]) {
        let query = ContextQuery::decode(data, MAX_QUERIES).expect("checked before the look-up");
        let selects = option == OptionKind::SetMetaContext;
        let matches = |name: &str| {
            let shows_all = !selects && query.queries.is_empty();
            shows_all
                || query.queries.contains(&name)
                || (!selects && query.queries.iter().any(|query| is_wildcard_for(query, name)))
        };
        let mut contexts = Vec::new();
        for (id, name) in (1u32..).zip(offered).filter(|(_, name)| matches(name)) {
            let shown_id = if selects { id } else { 0 };
            let parts = [&shown_id.to_be_bytes()[..], name.as_bytes()];
            self.reply(option, OptionReply::MetaContext, &parts);
            contexts.push(Context { id, name: name.clone() });
        }
        if selects {
            self.selected = Some(Selected { export: query.export.to_owned(), contexts });
        }
        self.reply(option, OptionReply::Ack, &[]);
    }
}

/// Whether a query such as `base:` or `qemu:dirty-bitmap:` is a wildcard for a context.
fn is_wildcard_for(query: &str, name: &str) -> bool {
    query.ends_with(':') && name.starts_with(query)
}
