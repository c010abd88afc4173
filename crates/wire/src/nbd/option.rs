//! Options and option replies: the headers and data layouts of the handshake.
