//! The state machine behind [`ServerHandshake`].

use super::{ExportInfo, HandshakeError, Refusal, ServerEvent, ServerOptions};

/// One connection's handshake on the server's side. The greeting is in the output from the start.
#[derive(Debug)]
pub struct ServerHandshake {
    options: ServerOptions,
    output: Vec<u8>,
}

impl ServerHandshake {
    /// A fresh connection.
    pub fn new(options: ServerOptions) -> Self {
        Self { options, output: Vec::new() }
    }

    /// Bytes to send; the driver takes them out.
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// Takes input, up to the next event. Returns how many bytes were used and the event.
    ///
    /// # Errors
    /// If the client broke the protocol in a way that has no reply.
    pub fn handle(&mut self, input: &[u8]) -> Result<(usize, ServerEvent), HandshakeError> {
        unimplemented!("{input:?} {:?}", self.options)
    }

    /// The transport is now under TLS. What was negotiated before is void.
    ///
    /// # Panics
    /// Unless the last event was [`ServerEvent::StartTls`].
    pub fn tls_established(&mut self) {
        unimplemented!()
    }

    /// Lists one export, by name and description; the description may be empty. The output may be
    /// sent between entries.
    ///
    /// # Panics
    /// Unless the last event was [`ServerEvent::List`].
    pub fn list_entry(&mut self, name: &str, description: &str) {
        unimplemented!("{name} {description}")
    }

    /// Ends the list, or refuses to give one.
    ///
    /// # Panics
    /// Unless the last event was [`ServerEvent::List`].
    pub fn list_end(&mut self, result: Result<(), Refusal>) {
        unimplemented!("{result:?}")
    }

    /// Answers [`ServerEvent::List`] in one go, with names and descriptions.
    pub fn reply_list(&mut self, exports: &[(&str, &str)]) {
        for (name, description) in exports {
            self.list_entry(name, description);
        }
        self.list_end(Ok(()));
    }

    /// Answers [`ServerEvent::Lookup`].
    ///
    /// # Panics
    /// Unless the last event was [`ServerEvent::Lookup`], or if the description of the export
    /// contradicts the protocol (a size or block size that cannot be, more contexts than allowed).
    pub fn reply_lookup(&mut self, answer: Result<ExportInfo, Refusal>) {
        unimplemented!("{answer:?}")
    }

    /// From now on every option but a goodbye is refused, because the server is going down.
    pub fn shut_down(&mut self) {
        unimplemented!()
    }
}
