//! A stream whose peer has to take what it is sent within a time, however it dawdles.
//!
//! ```text
//! write 80 kB --> 40 kB taken: the time begins --> the rest taken: it ends, all is well
//!                                              --> a byte now and then: over, an error
//! ```

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// The stream.
#[derive(Debug)]
pub(super) struct Patient<S> {
    stream: S,
    time: Duration,
    /// Runs while something waits to be taken.
    over: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    /// The peer has this time for each write, from when it did not take all of it at once.
    pub(super) fn new(stream: S, time: Duration) -> Self {
        Self { stream, time, over: None }
    }

    /// What a write of `length` bytes came to.
    fn wrote(
        &mut self,
        context: &mut Context<'_>,
        length: usize,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match written {
            Poll::Ready(Ok(taken)) if taken >= length => self.over = None,
            Poll::Ready(Err(_)) => {}
            Poll::Ready(Ok(_)) | Poll::Pending => {
                let time = self.time;
                let over = self.over.get_or_insert_with(|| Box::pin(sleep(time)));
                if over.as_mut().poll(context).is_ready() {
                    return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                }
            }
        }
        written
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.wrote(context, bytes.len(), written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.wrote(context, parts.iter().map(|part| part.len()).sum(), written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    const TIME: Duration = Duration::from_millis(300);

    #[tokio::test]
    async fn a_peer_that_takes_a_byte_now_and_then_is_given_up() {
        let (ours, mut peer) = duplex(64);
        let mut ours = Patient::new(ours, TIME);
        let dawdling = tokio::spawn(async move {
            while peer.read_u8().await.is_ok() {
                sleep(TIME / 10).await;
            }
        });
        let begun = tokio::time::Instant::now();
        let refused = ours.write_all(&[0; 4096]).await.expect_err("it takes far too long");
        assert_eq!(refused.kind(), io::ErrorKind::TimedOut);
        assert!(begun.elapsed() >= TIME);
        drop(ours);
        dawdling.await.expect("no panic");
    }

    #[tokio::test]
    async fn a_pause_between_two_writes_is_nobody_s_delay() {
        let (ours, mut peer) = duplex(64);
        let mut ours = Patient::new(ours, TIME);
        for _ in 0..3 {
            ours.write_all(&[0; 64]).await.expect("there is room");
            sleep(2 * TIME).await;
            peer.read_exact(&mut [0; 64]).await.expect("all is there");
        }
    }
}
