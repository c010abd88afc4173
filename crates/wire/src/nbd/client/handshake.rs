//! The state machine behind [`ClientHandshake`].

use super::{ClientError, ClientEvent, ClientOptions};

/// One connection's handshake on the client's side.
#[derive(Debug)]
pub struct ClientHandshake {
    options: ClientOptions,
    output: Vec<u8>,
}

impl ClientHandshake {
    /// A fresh connection.
    pub fn new(options: ClientOptions) -> Self {
        Self { options, output: Vec::new() }
    }

    /// Bytes to send; the driver takes them out.
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// Takes input, up to the next event. Returns how many bytes were used and the event.
    ///
    /// # Errors
    /// If the server refuses what is needed, or breaks the protocol.
    pub fn handle(&mut self, input: &[u8]) -> Result<(usize, ClientEvent), ClientError> {
        unimplemented!("{input:?} {:?}", self.options)
    }

    /// The transport is now under TLS.
    ///
    /// # Panics
    /// Unless the last event was [`ClientEvent::StartTls`].
    pub fn tls_established(&mut self) {
        unimplemented!()
    }
}
