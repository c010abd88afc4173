//! A connected byte stream: TCP or unix socket, plain or under TLS, movable between threads.
//!
//! The runtime ties a socket to the thread that polls it. To hand a connection to the core that
//! owns its backend, the socket is [detached](Transport::detach) here and
//! [attached](Transport::attach) there; TLS state travels along.

use std::io;
use std::net::{IpAddr, Shutdown};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use evenkeel_engine::policy::Address;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsStream;

use crate::out_queue::unacknowledged_bytes;

/// When a silent peer is asked whether it is still there, how often, and after how long without an
/// answer, or with bytes that it does not take, it counts as dead.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(30);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(5);
const DEAD_AFTER: Duration = Duration::from_mins(1);

/// What the kernel takes of requests to a server beyond what it has sent.
const UNSENT_BYTES_MAX: u32 = 128 << 10;

/// Sends small messages at once, and notices peers that vanished without a word.
pub(crate) fn tune(stream: &TcpStream) -> io::Result<()> {
    let socket = SockRef::from(stream);
    socket.set_tcp_nodelay(true)?;
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_AFTER).with_interval(KEEPALIVE_EVERY);
    socket.set_tcp_keepalive(&keepalive)?;
    socket.set_tcp_user_timeout(Some(DEAD_AFTER))
}

/// A socket, at home on a runtime or between two.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
    DetachedTcp(std::net::TcpStream),
    DetachedUnix(std::os::unix::net::UnixStream),
    /// Only while it changes hands.
    Gone,
}

/// A socket, plain or under TLS.
#[derive(Debug)]
pub(crate) enum Transport {
    Plain(Socket),
    Tls(Box<TlsStream<Socket>>),
}

impl Socket {
    /// Connects on the current runtime.
    pub(crate) async fn connect(address: &Address) -> io::Result<Self> {
        match address {
            Address::Tcp(host) => {
                let stream = TcpStream::connect(host.as_str()).await?;
                tune(&stream)?;
                Ok(Self::Tcp(stream))
            }
            Address::Unix(path) => Ok(Self::Unix(UnixStream::connect(path).await?)),
        }
    }

    /// Connects to a server. What this process has sent and the server has not acknowledged goes
    /// with the process, or after `patience`, so that nobody meets it later.
    pub(crate) async fn connect_upstream(
        address: &Address,
        patience: Option<Duration>,
    ) -> io::Result<Self> {
        let socket = Self::connect(address).await?;
        if let Self::Tcp(stream) = &socket {
            let options = SockRef::from(stream);
            options.set_linger(Some(Duration::ZERO))?;
            options.set_tcp_notsent_lowat(UNSENT_BYTES_MAX)?;
            if let Some(patience) = patience {
                options.set_tcp_user_timeout(Some(patience))?;
            }
        }
        Ok(socket)
    }

    /// This side's network address, if it has one.
    fn local(&self) -> Option<IpAddr> {
        match self {
            Self::Tcp(stream) => stream.local_addr().ok().map(|address| address.ip()),
            _ => None,
        }
    }

    /// The peer's network address, if it has one.
    pub(crate) fn peer(&self) -> Option<IpAddr> {
        match self {
            Self::Tcp(stream) => stream.peer_addr().ok().map(|address| address.ip()),
            _ => None,
        }
    }

    /// The process at the other end of a unix socket.
    pub(crate) fn process(&self) -> Option<i32> {
        match self {
            Self::Unix(stream) => stream.peer_cred().ok()?.pid(),
            _ => None,
        }
    }

    fn detach(&mut self) -> io::Result<()> {
        *self = match std::mem::replace(self, Self::Gone) {
            Self::Tcp(stream) => Self::DetachedTcp(stream.into_std()?),
            Self::Unix(stream) => Self::DetachedUnix(stream.into_std()?),
            other => other,
        };
        Ok(())
    }

    fn attach(&mut self) -> io::Result<()> {
        *self = match std::mem::replace(self, Self::Gone) {
            Self::DetachedTcp(stream) => Self::Tcp(TcpStream::from_std(stream)?),
            Self::DetachedUnix(stream) => Self::Unix(UnixStream::from_std(stream)?),
            other => other,
        };
        Ok(())
    }
}

impl Transport {
    fn socket(&mut self) -> &mut Socket {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => stream.get_mut().0,
        }
    }

    /// This side's network address, if it has one.
    pub(crate) fn local(&self) -> Option<IpAddr> {
        match self {
            Self::Plain(socket) => socket.local(),
            Self::Tls(stream) => stream.get_ref().0.local(),
        }
    }

    /// What was sent is delivered before the connection ends.
    pub(crate) fn let_linger(&self) {
        let socket = match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => stream.get_ref().0,
        };
        if let Socket::Tcp(stream) = socket {
            // At worst the peer sees a reset.
            let _ = SockRef::from(stream).set_linger(None);
        }
    }

    /// Ends this side of the connection, so that the other one reads to its end.
    ///
    /// # Errors
    /// If something that was sent has not reached the peer's machine, or the connection is gone.
    pub(crate) fn half_close(&self) -> io::Result<()> {
        let socket = match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => stream.get_ref().0,
        };
        match socket {
            Socket::Tcp(stream) if unacknowledged_bytes(stream)? > 0 => {
                Err(io::ErrorKind::WouldBlock.into())
            }
            Socket::Tcp(stream) => SockRef::from(stream).shutdown(Shutdown::Write),
            // What was sent is in the peer's queue.
            Socket::Unix(stream) => SockRef::from(stream).shutdown(Shutdown::Write),
            _ => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Takes the socket off this thread's runtime.
    pub(crate) fn detach(&mut self) -> io::Result<()> {
        self.socket().detach()
    }

    /// Puts a detached socket on this thread's runtime.
    pub(crate) fn attach(&mut self) -> io::Result<()> {
        self.socket().attach()
    }
}

/// Runs `$call` on whichever stream it is.
macro_rules! on_socket {
    ($socket:expr, $stream:ident => $call:expr) => {
        match $socket {
            Socket::Tcp($stream) => $call,
            Socket::Unix($stream) => $call,
            _ => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    };
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        on_socket!(self.get_mut(), stream => Pin::new(stream).poll_read(cx, buf))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        on_socket!(self.get_mut(), stream => Pin::new(stream).poll_write(cx, buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        on_socket!(self.get_mut(), stream => Pin::new(stream).poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_socket!(self.get_mut(), stream => Pin::new(stream).poll_shutdown(cx))
    }
}

/// Runs `$call` on the socket or the TLS stream.
macro_rules! on_transport {
    ($transport:expr, $stream:ident => $call:expr) => {
        match $transport {
            Transport::Plain($stream) => $call,
            Transport::Tls($stream) => $call,
        }
    };
}

impl AsyncRead for Transport {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        on_transport!(self.get_mut(), stream => Pin::new(stream).poll_read(cx, buf))
    }
}

impl AsyncWrite for Transport {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        on_transport!(self.get_mut(), stream => Pin::new(stream).poll_write(cx, buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        on_transport!(self.get_mut(), stream => Pin::new(stream).poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_transport!(self.get_mut(), stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_transport!(self.get_mut(), stream => Pin::new(stream).poll_shutdown(cx))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    async fn pair() -> (Transport, TcpStream) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let address = Address::Tcp(listener.local_addr().expect("bound").to_string());
        let socket = Socket::connect_upstream(&address, None).await.expect("it listens");
        let (peer, _) = listener.accept().await.expect("it was connected to");
        (Transport::Plain(socket), peer)
    }

    #[tokio::test]
    async fn a_half_closed_connection_is_read_to_its_end() {
        let (mut transport, mut peer) = pair().await;
        transport.write_all(b"a request").await.expect("sent");
        let mut read = [0; 9];
        peer.read_exact(&mut read).await.expect("it came");
        transport.half_close().expect("all has reached the peer");
        assert_eq!(peer.read(&mut read).await.expect("in order"), 0, "nothing more comes");
        peer.write_all(b"an answer").await.expect("this side is open");
        drop(peer);
        let mut rest = String::new();
        transport.read_to_string(&mut rest).await.expect("in order");
        assert_eq!(rest, "an answer");
    }

    #[tokio::test]
    async fn what_has_not_reached_the_peer_is_not_sent_by_a_half_close() {
        let (mut transport, peer) = pair().await;
        let much = vec![7; 64 << 10];
        while tokio::time::timeout(Duration::from_millis(100), transport.write_all(&much))
            .await
            .is_ok()
        {}
        let refused = transport.half_close().expect_err("the peer has read nothing");
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
        drop(peer);
    }
}
