//! What the server's replies mean to the client, and what they may not say.

use super::{
    ClientError, ClientEvent, ClientHandshake, ContextsWanted, ListedExport, RefusedReason,
};
use crate::nbd::fields::Fields;
use crate::nbd::option::{OptionKind, OptionReply, info, string};
use crate::nbd::proto::{
    BlockSize, Context, MAX_CONTEXTS, MAX_EXPORT_BYTES, ReplyStyle, TransmissionFlags,
};

/// What has been learned on the way.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Contexts to select: those of the options, or those that the server listed.
    pub(super) wanted_contexts: Vec<String>,
    /// The server told size and flags.
    has_export: bool,
}

type Fact = Result<Option<ClientEvent>, &'static str>;

impl ClientHandshake {
    pub(super) fn on_ack(
        &mut self,
        option: OptionKind,
    ) -> Result<Option<ClientEvent>, ClientError> {
        match option {
            OptionKind::StartTls => return Ok(Some(self.await_tls())),
            OptionKind::ExtendedHeaders => {
                self.session.style = ReplyStyle::Extended;
                self.ask_from(OptionKind::ListMetaContext);
            }
            OptionKind::StructuredReply => {
                self.session.style = ReplyStyle::Structured;
                self.ask_from(OptionKind::ListMetaContext);
            }
            OptionKind::ListMetaContext => self.ask_from(OptionKind::SetMetaContext),
            OptionKind::SetMetaContext => self.ask_from(OptionKind::Go),
            OptionKind::Go | OptionKind::Info if !self.progress.has_export => {
                let what = "consent without size and flags of the export";
                return Err(ClientError::Protocol { option: option.name(), what });
            }
            _ => return Ok(Some(self.finish())),
        }
        Ok(None)
    }

    /// An error reply: go on without what was refused, if that is possible.
    pub(super) fn on_error(
        &mut self,
        option: OptionKind,
        reason: RefusedReason,
        message: &[u8],
    ) -> Result<(), ClientError> {
        let is_final = matches!(reason, RefusedReason::TlsRequired | RefusedReason::Shutdown);
        match option {
            OptionKind::ExtendedHeaders if !is_final => {
                self.ask_from(OptionKind::StructuredReply);
            }
            OptionKind::StructuredReply if !is_final => {
                self.ask_from(OptionKind::ListMetaContext);
            }
            OptionKind::ListMetaContext | OptionKind::SetMetaContext if !is_final => {
                self.session.contexts.clear();
                self.ask_from(OptionKind::Go);
            }
            OptionKind::Go
                if reason == RefusedReason::Unsupported && !self.session.style.is_extended() =>
            {
                self.ask(OptionKind::ExportName, &[]);
            }
            _ => {
                self.say_goodbye();
                let (option, message) = (option.name(), message.to_vec());
                return Err(ClientError::Refused { option, reason, message });
            }
        }
        Ok(())
    }

    pub(super) fn on_fact(&mut self, option: OptionKind, reply: OptionReply, data: &[u8]) -> Fact {
        match (option, reply) {
            (OptionKind::List, OptionReply::Server) => listed(data).map(Some),
            (OptionKind::Go | OptionKind::Info, OptionReply::Info) => {
                self.on_info(data).map(|()| None)
            }
            (OptionKind::ListMetaContext, OptionReply::MetaContext) => {
                let (_, name) = context(data)?;
                self.offer_context(name);
                Ok(None)
            }
            (OptionKind::SetMetaContext, OptionReply::MetaContext) => {
                let (id, name) = context(data)?;
                self.select_context(id, name).map(|()| None)
            }
            _ => Err("a reply of a type that does not belong to the option"),
        }
    }

    fn on_info(&mut self, data: &[u8]) -> Result<(), &'static str> {
        let mut fields = Fields(data);
        let item = fields.u16().ok_or("an information reply without a type")?;
        match item {
            info::EXPORT if data.len() != 12 => Err("export information of the wrong length"),
            info::EXPORT => self.set_size_and_flags(&mut fields),
            info::NAME => {
                self.session.canonical_name = Some(text(fields.0)?);
                Ok(())
            }
            info::DESCRIPTION => {
                self.session.description = Some(text(fields.0)?);
                Ok(())
            }
            info::BLOCK_SIZE if data.len() != 14 => Err("block sizes of the wrong length"),
            info::BLOCK_SIZE => self.set_block_size(&mut fields),
            _ => Ok(()),
        }
    }

    /// Sizes beyond 63 bits would turn negative in somebody's file offset.
    pub(super) fn set_size_and_flags(
        &mut self,
        fields: &mut Fields<'_>,
    ) -> Result<(), &'static str> {
        let (size_bytes, flags) =
            fields.u64().zip(fields.u16()).ok_or("export information cut short")?;
        if size_bytes > MAX_EXPORT_BYTES {
            return Err("an export larger than any can be");
        }
        let flags = TransmissionFlags(flags);
        if !flags.contains(TransmissionFlags::HAS_FLAGS) {
            return Err("transmission flags without the bit that makes them valid");
        }
        self.session.size_bytes = size_bytes;
        self.session.flags = flags & TransmissionFlags::KNOWN;
        self.progress.has_export = true;
        Ok(())
    }

    fn set_block_size(&mut self, fields: &mut Fields<'_>) -> Result<(), &'static str> {
        let mut size = || fields.u32().ok_or("block sizes cut short");
        let block_size =
            BlockSize { minimum: size()?, preferred: size()?, maximum_payload: size()? };
        if !block_size.is_valid() {
            return Err("block sizes that contradict each other");
        }
        self.session.block_size = block_size;
        self.session.block_size_given = true;
        Ok(())
    }

    fn offer_context(&mut self, name: String) {
        let ContextsWanted::All { max } = self.options.contexts else { return };
        let wanted = &mut self.progress.wanted_contexts;
        // A name that ends in a colon is a wildcard, not a context.
        if wanted.len() < max.min(MAX_CONTEXTS) && !name.ends_with(':') && !wanted.contains(&name) {
            wanted.push(name);
        }
    }

    fn select_context(&mut self, id: u32, name: String) -> Result<(), &'static str> {
        if !self.progress.wanted_contexts.contains(&name) {
            return Err("a metadata context that was not asked for");
        }
        let selected = &mut self.session.contexts;
        if selected.iter().any(|context| context.id == id || context.name == name) {
            return Err("the same metadata context twice");
        }
        selected.push(Context { id, name });
        Ok(())
    }
}

fn text(bytes: &[u8]) -> Result<String, &'static str> {
    string(bytes).map(str::to_owned).ok_or("a text that is too long, not UTF-8, or has a NUL")
}

fn listed(data: &[u8]) -> Result<ClientEvent, &'static str> {
    let mut fields = Fields(data);
    let name = fields.string().ok_or("a name longer than its reply")?;
    Ok(ClientEvent::Listed(ListedExport { name: text(name)?, description: text(fields.0)? }))
}

fn context(data: &[u8]) -> Result<(u32, String), &'static str> {
    let mut fields = Fields(data);
    let id = fields.u32().ok_or("a metadata context without a number")?;
    Ok((id, text(fields.0)?))
}
