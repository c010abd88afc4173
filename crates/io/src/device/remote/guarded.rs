//! The socket of a link, behind the gatekeeper: the one way by which bytes of requests reach a
//! server.
//!
//! Every write asks immediately before it, and by a clock that counts suspended time. A refusal
//! breaks the connection, with what was queued or half sent: the next one has to show what it is
//! before anything is sent again.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::link::Link;
use crate::transport::Transport;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Guarded {
    transport: Transport,
    link: Rc<Link>,
}

impl Guarded {
    pub(super) fn new(transport: Transport, link: Rc<Link>) -> Self {
        Self { transport, link }
    }

    /// Nothing is under way: the goodbye is delivered before the connection ends.
    pub(super) fn let_linger(&self) {
        self.transport.let_linger();
    }

    /// Tells the server that nothing more comes, if all that was sent has reached it; if not, what
    /// is still here would be sent without a right to.
    pub(super) fn half_close(&self) -> io::Result<()> {
        self.transport.half_close()
    }

    fn ask(&self) -> io::Result<()> {
        if self.link.may_write() {
            return Ok(());
        }
        let why = "the right to send to this server has lapsed: the lease is looked at first";
        Err(io::Error::new(io::ErrorKind::ConnectionAborted, why))
    }
}

impl AsyncRead for Guarded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.transport).poll_read(cx, buf)
    }
}

impl AsyncWrite for Guarded {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.ask()?;
        Pin::new(&mut self.transport).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.ask()?;
        Pin::new(&mut self.transport).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.transport.is_write_vectored()
    }

    /// Under TLS this sends what was sealed before.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.ask()?;
        Pin::new(&mut self.transport).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.transport).poll_shutdown(cx)
    }
}
