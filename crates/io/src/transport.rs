//! A connected byte stream: TCP or unix socket, plain or under TLS, movable between threads.
//!
//! The runtime ties a socket to the thread that polls it. To hand a connection to the core that
//! owns its backend, the socket is [detached](Transport::detach) here and
//! [attached](Transport::attach) there; TLS state travels along.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use evenkeel_engine::policy::Address;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsStream;

/// When a silent peer is asked whether it is still there, how often, and after how long without an
/// answer, or with bytes that it does not take, it counts as dead.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(30);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(5);
const DEAD_AFTER: Duration = Duration::from_mins(1);

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

    /// The peer's network address, if it has one.
    pub(crate) fn peer(&self) -> Option<IpAddr> {
        match self {
            Self::Tcp(stream) => stream.peer_addr().ok().map(|address| address.ip()),
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
