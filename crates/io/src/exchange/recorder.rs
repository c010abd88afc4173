//! Writes down what is decided from what ([`evenkeel_wire::exchange::recording`]), for whoever
//! wants to know later why. The disk may be slow: only the thread of the exchange waits for it.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use evenkeel_core::control::name::DeviceId;
use evenkeel_core::control::summary::Summary;
use evenkeel_wire::exchange::recording::{Event, MAGIC, push};
use evenkeel_wire::exchange::{Datagram, Terms};

/// A recording ends at this size: some days of a few gates.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// A file that takes events.
#[derive(Debug)]
pub(super) struct Recorder {
    path: PathBuf,
    /// None once it is full or the disk refused.
    file: Option<File>,
    written_bytes: u64,
    buffer: Vec<u8>,
}

impl Recorder {
    /// A new file, in place of one that is there.
    pub(super) fn new(path: &Path) -> io::Result<Self> {
        let mut file = File::create(path)?;
        file.write_all(MAGIC)?;
        let written_bytes = MAGIC.len() as u64;
        Ok(Self { path: path.to_owned(), file: Some(file), written_bytes, buffer: Vec::new() })
    }

    /// Where it writes.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes what was decided at a device, and from which word of this gate.
    pub(super) fn note_decision(
        &mut self,
        device: DeviceId,
        terms: Terms,
        own: Summary,
        slots: u32,
    ) {
        let mut parts = own.into_parts();
        let last = parts.pop();
        let datagram = |summary| Datagram { device, terms, summary, ..Datagram::default() };
        for part in parts {
            self.note(&Event::Told { datagram: datagram(part) });
        }
        if let Some(last) = last {
            self.note(&Event::Decided { slots, datagram: datagram(last) });
        }
    }

    /// Writes an event; one that does not fit any more ends the recording.
    pub(super) fn note(&mut self, event: &Event) {
        let Some(file) = &mut self.file else { return };
        self.buffer.clear();
        push(&mut self.buffer, event);
        self.written_bytes += self.buffer.len() as u64;
        let outcome = if self.written_bytes > FILE_BYTES_MAX {
            Err(io::Error::from(io::ErrorKind::FileTooLarge))
        } else {
            file.write_all(&self.buffer)
        };
        if let Err(error) = outcome {
            let file = self.path.display();
            tracing::warn!(%file, %error, "the exchange is no longer recorded");
            self.file = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_wire::exchange::recording::Events;

    use super::*;

    #[test]
    fn what_is_noted_is_in_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("exchange.rec");
        let mut recorder = Recorder::new(&path).unwrap();
        let datagram = Datagram { device: DeviceId(3), ..Datagram::default() };
        let event = Event::Decided { slots: 7, datagram };
        recorder.note(&event);
        let bytes = std::fs::read(&path).unwrap();
        let mut events = Events::of(&bytes).unwrap();
        assert_eq!(events.next_event(), Ok(Some(event)));
        assert_eq!(events.next_event(), Ok(None));
    }
}
