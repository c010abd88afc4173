//! An NBD server that carries out late what it had read, also from a connection that is gone.

use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::ops::{Range, RangeInclusive};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use evenkeel_core::prng::Prng;

use super::Scratch;
use super::fake_server::{Offer, negotiate, simple};
use super::nbd::{self, WRITE, be32, be64};

/// What a connection has under way that is held.
#[derive(Default)]
struct Late {
    threads: RefCell<Vec<JoinHandle<()>>>,
    /// Nothing is answered any more.
    is_over: Arc<AtomicBool>,
}

/// A server in threads of this process, whose disk is a vector.
#[derive(Clone)]
pub(crate) struct LateServer {
    pub(crate) path: PathBuf,
    size_bytes: u64,
    /// So long a write is held while that is wanted, drawn anew for each.
    held_for: RangeInclusive<Duration>,
    draws: Arc<Mutex<Prng>>,
    /// A connection ends, once its client has half-closed it or it is cut, after the writes that
    /// are held; these are not answered.
    pub(crate) ends_last: bool,
    disk: Arc<Mutex<Vec<u8>>>,
    /// Connections that stand.
    streams: Arc<Mutex<Vec<UnixStream>>>,
    /// Whether writes to slots are held from now on.
    holds: Arc<AtomicBool>,
    /// Writes that are held, and that were carried out late.
    pub(crate) held: Arc<AtomicU32>,
    pub(crate) late: Arc<AtomicU32>,
}

impl LateServer {
    pub(crate) fn start(
        scratch: &Scratch,
        name: &str,
        size_bytes: u64,
        held_for: RangeInclusive<Duration>,
        ends_last: bool,
    ) -> Self {
        let path = scratch.join(format!("{name}.sock"));
        let listener = UnixListener::bind(&path).expect("bind in scratch");
        let size = usize::try_from(size_bytes).expect("it is small");
        let server = Self {
            path,
            size_bytes,
            held_for,
            draws: Arc::new(Mutex::new(Prng::new(size_bytes))),
            ends_last,
            streams: Arc::default(),
            disk: Arc::new(Mutex::new(vec![0; size])),
            holds: Arc::default(),
            held: Arc::default(),
            late: Arc::default(),
        };
        let serving = server.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (one, stream) = (serving.clone(), stream.expect("accept"));
                std::thread::spawn(move || drop(one.serve(&stream)));
            }
        });
        server
    }

    /// Whether servers hold writes to slots from now on.
    pub(crate) fn hold(servers: &[Self], holds: bool) {
        for server in servers {
            server.holds.store(holds, Ordering::SeqCst);
        }
    }

    /// Ends all connections. What was read from them is carried out all the same.
    pub(crate) fn cut(&self) {
        let how = if self.ends_last { Shutdown::Read } else { Shutdown::Both };
        for stream in self.streams.lock().expect("no panic").drain(..) {
            let _ = stream.shutdown(how);
        }
    }

    /// Answers something that nobody has asked.
    pub(crate) fn confuse(&self) {
        for stream in &*self.streams.lock().expect("no panic") {
            let _ = (&*stream).write_all(&simple(u64::MAX, 0, &[]));
        }
    }

    fn serve(&self, stream: &UnixStream) -> io::Result<()> {
        self.streams.lock().expect("no panic").push(stream.try_clone()?);
        let late = Late::default();
        let served = self.serve_until(stream, &late);
        if self.ends_last {
            late.is_over.store(true, Ordering::SeqCst);
            late.threads.into_inner().into_iter().for_each(|one| one.join().expect("no panic"));
            stream.shutdown(Shutdown::Both)?;
        }
        served
    }

    fn serve_until(&self, mut stream: &UnixStream, late: &Late) -> io::Result<()> {
        negotiate(
            &mut stream.try_clone()?,
            Offer { size_bytes: self.size_bytes, structured: false, flags: 0 },
        )?;
        loop {
            let mut header = [0; 28];
            stream.read_exact(&mut header)?;
            let (command, cookie) =
                (u16::from_be_bytes([header[6], header[7]]), be64(&header[8..16]));
            let [start, length] = [be64(&header[16..24]), be32(&header[24..]).into()]
                .map(|number| usize::try_from(number).expect("within the disk"));
            let range = start..start + length;
            let mut data = Vec::new();
            match command {
                nbd::READ => data.extend(&self.disk.lock().expect("no panic")[range]),
                WRITE => {
                    let mut bytes = vec![0; length];
                    stream.read_exact(&mut bytes)?;
                    // Beats and notes stand before the slots.
                    let is_held = start >= 1 << 16 && self.holds.load(Ordering::SeqCst);
                    let (server, answer) = (self.clone(), stream.try_clone()?);
                    if is_held {
                        server.held.fetch_add(1, Ordering::SeqCst);
                        let is_over = Arc::clone(&late.is_over);
                        late.threads.borrow_mut().push(std::thread::spawn(move || {
                            server.write_late(range, &bytes);
                            if !is_over.load(Ordering::SeqCst) {
                                // Whether anybody still listens is all the same.
                                let _ = (&answer).write_all(&simple(cookie, 0, &[]));
                            }
                        }));
                        continue;
                    }
                    self.disk.lock().expect("no panic")[range].copy_from_slice(&bytes);
                }
                nbd::FLUSH => {}
                _ => return Ok(()),
            }
            stream.write_all(&simple(cookie, 0, &data))?;
        }
    }

    fn write_late(&self, range: Range<usize>, bytes: &[u8]) {
        let (least, most) = (*self.held_for.start(), *self.held_for.end());
        let more = self.draws.lock().expect("no panic").below(1000);
        let spread = most.saturating_sub(least);
        std::thread::sleep(least + spread * u32::try_from(more).expect("small") / 1000);
        self.disk.lock().expect("no panic")[range].copy_from_slice(bytes);
        self.late.fetch_add(1, Ordering::SeqCst);
    }
}
