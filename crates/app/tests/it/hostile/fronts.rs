//! Servers of a spread volume that lie about what they are. Until one has shown that it is what it
//! was, nothing else is asked of it, and nothing is written to it.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::{Besieged, policy};
use crate::harness::fake_server::{
    FakeServer, Offer, Request, negotiate, read_request_and_data, simple,
};
use crate::harness::gate::Gate;
use crate::harness::nbd::{Client, READ, WRITE};
use crate::harness::skip::needs;
use crate::harness::storage::Server;
use crate::harness::target::Address;
use crate::harness::{Scratch, noise, wait_for};

const SIZE_BYTES: usize = 4 << 20;
const FRONT_BYTES: u32 = 12 << 10;
const OBJECT_BYTES: u64 = 64 << 10;
const OBJECTS: u64 = 12;

/// What is answered to whoever asks for the front of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lie {
    Error,
    Zeroes,
    Garbage,
    /// What is there, but for a bit of each head.
    Damaged,
    /// Part of it, and then no more.
    Cut,
    Nothing,
}

/// A server whose disk is in memory, and that tells the truth until it is to lie.
#[derive(Default)]
struct Liar {
    disk: Mutex<Vec<u8>>,
    lie: Mutex<Option<Lie>>,
    /// What it was asked beside its front while it lied.
    strays: AtomicU32,
}

impl Liar {
    fn lie(&self) -> Option<Lie> {
        *self.lie.lock().expect("no test has failed")
    }

    /// From now on it lies so, or not, on connections that are new.
    fn begin(&self, lie: Option<Lie>) {
        *self.lie.lock().expect("no test has failed") = lie;
    }

    fn serve(&self, stream: &mut UnixStream) -> io::Result<()> {
        negotiate(stream, Offer { size_bytes: SIZE_BYTES as u64, structured: false, flags: 0 })?;
        let lie = self.lie();
        loop {
            let (request, data) = read_request_and_data(stream)?;
            if self.lie() != lie {
                return Err(io::Error::other("the server was replaced"));
            }
            match lie {
                None => stream.write_all(&self.answer(request, &data))?,
                Some(lie) if request.command == READ && request.offset == 0 => {
                    assert_eq!(request.length, FRONT_BYTES);
                    self.answer_falsely(stream, request, lie)?;
                }
                Some(_) => {
                    self.strays.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    fn answer(&self, request: Request, data: &[u8]) -> Vec<u8> {
        let mut disk = self.disk.lock().expect("no test has failed");
        disk.resize(SIZE_BYTES, 0);
        let start = usize::try_from(request.offset).expect("a small disk");
        let range = start..start + request.length as usize;
        match request.command {
            READ => return simple(request.cookie, 0, &disk[range]),
            WRITE => disk[range].copy_from_slice(data),
            _ => {}
        }
        simple(request.cookie, 0, &[])
    }

    fn answer_falsely(
        &self,
        stream: &mut UnixStream,
        request: Request,
        lie: Lie,
    ) -> io::Result<()> {
        let mut truth = self.answer(request, &[]);
        let front = truth.len() - FRONT_BYTES as usize;
        match lie {
            Lie::Error => truth = simple(request.cookie, 5, &[]),
            Lie::Zeroes => truth[front..].fill(0),
            Lie::Garbage => truth[front..].fill(0xee),
            Lie::Damaged => [front + 100, front + 4196].iter().for_each(|at| truth[*at] ^= 1),
            Lie::Cut => truth.truncate(front + 5000),
            Lie::Nothing => truth.clear(),
        }
        stream.write_all(&truth)?;
        if lie == Lie::Cut { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
    }
}

/// A spread volume over the liar and two honest servers.
fn besiege(scratch: Scratch, liar: &FakeServer, honest: &[Server; 2]) -> Besieged {
    let sockets = honest.iter().map(|server| match &server.target.address {
        Address::Unix(path) => path.clone(),
        Address::Tcp(_) => panic!("servers are local"),
    });
    let sockets = std::iter::once(liar.path.clone()).chain(sockets);
    let backend = |(index, socket): (usize, std::path::PathBuf)| {
        format!(
            "[[backend]]\nname = \"s{index}\"\nupstream = \"nbd+unix:///?socket={}\"\n\
             connections = 1\nwrites_survive_restart = true\npatience = \"300 ms\"\n",
            socket.display()
        )
    };
    let backends: String = sockets.enumerate().map(backend).collect();
    let more = format!(
        "{backends}[[backend]]\nname = \"pool\"\nchoices = [\"s0\", \"s1\", \"s2\"]\n\
         object = \"64 KiB\"\nlease = \"1 s\"\n\
         [[export]]\nname = \"bad\"\nbackend = \"pool\"\n"
    );
    let gate = Gate::start(&scratch, &policy(&more));
    Besieged { gate, scratch }
}

#[test]
fn a_server_that_lies_about_what_it_is_gets_no_byte_until_it_is_what_it_was() {
    needs!("nbdkit");
    let scratch = Scratch::new();
    let liar = Arc::new(Liar::default());
    let serving = Arc::clone(&liar);
    let server = FakeServer::start(&scratch, move |stream| serving.serve(stream));
    let honest = ["s1", "s2"].map(|name| Server::nbdkit_named(&scratch, name, &["memory", "4M"]));
    let mut besieged = besiege(scratch, &server, &honest);
    let target = besieged.gate.plain("bad");
    let mut client = wait_for("the volume to be open", || Client::try_open(&target));
    let content = |object: u64| noise(object, 4096);
    for object in 0..OBJECTS {
        assert_eq!(client.write(object * OBJECT_BYTES, &content(object)), Ok(()));
    }
    for lie in
        [Lie::Error, Lie::Zeroes, Lie::Garbage, Lie::Damaged, Lie::Cut, Lie::Nothing].map(Some)
    {
        let before = server.connections();
        liar.begin(lie);
        wait_for("the gate to connect anew", || (server.connections() > before).then_some(()));
        let mut errors = 0;
        for object in 0..OBJECTS {
            match client.read(object * OBJECT_BYTES, 4096) {
                Ok(found) => assert!(found == content(object), "{lie:?}: object {object}"),
                Err(_) => errors += 1,
            }
            // Whatever was written is what stands there.
            let _ = client.write(object * OBJECT_BYTES, &content(object));
        }
        assert!(errors > 0, "{lie:?}: nothing lies on that server");
        assert_eq!(liar.strays.load(Ordering::Relaxed), 0, "{lie:?}: it was asked for more");
        liar.begin(None);
        wait_for("all objects to be served again", || {
            std::thread::sleep(Duration::from_millis(50));
            let mut objects = 0..OBJECTS;
            let is_right =
                |found: Result<Vec<u8>, u32>, object| found.is_ok_and(|it| it == content(object));
            objects
                .all(|object| is_right(client.read(object * OBJECT_BYTES, 4096), object))
                .then_some(())
        });
    }
    besieged.assert_unharmed();
}
