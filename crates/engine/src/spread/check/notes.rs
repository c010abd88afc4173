//! Directories, tables and choices of a spread volume, copy by copy: what an opening passes over as
//! well.
//!
//! An owner writes the two copies of its half in turn, so the older one is of the state before the
//! last write. If the newer one is damaged, the older one is used, and what was noted last is
//! missing. Which of them was the newer one, a damaged block tells by what is left of its label.

use std::collections::BTreeMap;

use super::super::directory::{Directories, Listed};
use super::super::format::choices::Page;
use super::super::format::directory::DirectoryPart;
use super::super::format::table::TablePart;
use super::super::layout::{COPIES, ENTRIES_PER_BLOCK, KEEPERS_MAX, Layout, Note};
use super::super::reading::may_be_newer;
use super::super::volume::Volume;
use crate::care::{Doubt, Finding, Reads, Report, Severity, each_block};
use crate::lease::Half;
use crate::notes::VolumeId;
use crate::notes::block::{Block, BlockKind, Label};

/// What is known of the volume.
pub(super) struct Known<'a> {
    pub(super) volume: &'a Volume,
    pub(super) layout: Layout,
    /// Where the last opening that came to its end has noted.
    pub(super) half: Half,
    /// By server: whether it has noted anything.
    pub(super) is_there: Vec<bool>,
}

/// What stands in a copy of a block.
#[derive(Clone, Debug)]
enum Copy {
    /// Its generation and number.
    Whole(u64, u64),
    Blank,
    Damaged(Box<Block>),
    Unreadable,
}

impl Copy {
    fn age(&self) -> Option<(u64, u64)> {
        if let Self::Whole(generation, number) = self { Some((*generation, *number)) } else { None }
    }

    fn what(&self) -> &'static str {
        match self {
            Self::Whole(..) => "it is whole",
            Self::Blank => "it is blank",
            Self::Damaged(_) => "it is damaged",
            Self::Unreadable => "it cannot be read",
        }
    }
}

/// The copies of each block, by server.
pub(super) struct Notes<'a> {
    known: Known<'a>,
    found: Vec<BTreeMap<Note, Vec<Copy>>>,
}

impl<'a> Notes<'a> {
    pub(super) fn read(known: Known<'a>, reads: &mut dyn Reads) -> Self {
        let mut notes = Self { found: Vec::new(), known };
        let mut directories = Directories::default();
        for server in 0..notes.known.layout.servers.len() {
            notes.found.push(BTreeMap::new());
            if notes.known.is_there[server] {
                notes.read_directory(server, &mut directories, reads);
            }
        }
        // What cannot be read is reported with the copies.
        let _ = directories.finish(notes.known.volume);
        for server in 0..notes.known.layout.servers.len() {
            if notes.known.is_there[server] {
                notes.read_listed(server, &directories, reads);
            }
        }
        notes
    }

    fn read_directory(
        &mut self,
        server: usize,
        directories: &mut Directories,
        reads: &mut dyn Reads,
    ) {
        let Known { volume, layout, .. } = &self.known;
        let copies = &mut self.found[server];
        each_block(reads, server, layout.directory_range(server), |offset, block| {
            let (note, _) = layout.note_at(server, offset);
            match block {
                Some(block) => directories.take(volume, server, offset, block),
                None => directories.fail(layout, server, offset),
            }
            copies.entry(note).or_default().push(copy_of(volume.id(), (note, offset), block));
        });
    }

    fn read_listed(&mut self, server: usize, directories: &Directories, reads: &mut dyn Reads) {
        let Known { volume, layout, .. } = &self.known;
        let copies = &mut self.found[server];
        // Copy 0 of a run comes first, then copy 1, and so on.
        for range in directories.ranges(layout, server) {
            each_block(reads, server, range, |offset, block| {
                let (note, _) = layout.note_at(server, offset);
                if directories.listed(layout, server, note) == Listed::Yes {
                    let copy = copy_of(volume.id(), (note, offset), block);
                    copies.entry(note).or_default().push(copy);
                }
            });
        }
    }

    /// Tells what is wrong.
    pub(super) fn report(&self, report: &mut Report) {
        for server in 0..self.found.len() {
            for (note, copies) in &self.found[server] {
                self.report_block((server, *note), copies, report);
            }
        }
        for page in 0..self.known.layout.pages {
            self.report_page(page, report);
        }
    }

    /// The copies of the half that is written to.
    fn of_half(&self) -> [usize; 2] {
        let first = usize::try_from(self.known.half.first_copy()).expect("few copies");
        [first, first + 1]
    }

    /// Copies that should be whole and are not.
    fn bad_copies(&self, copies: &[Copy]) -> Vec<usize> {
        let [first, second] = self.of_half();
        let is_bad = |at: usize| match &copies[at] {
            Copy::Whole(..) => false,
            Copy::Damaged(_) | Copy::Unreadable => true,
            // The first write of a block goes to the first copy, the second to the other one.
            Copy::Blank => at == first && copies[second].age().is_some(),
        };
        [first, second].into_iter().filter(|at| is_bad(*at)).collect()
    }

    /// Whether a bad copy may have been newer than what is used.
    fn may_be_newer(&self, (server, note): (usize, Note), at: usize, copies: &[Copy]) -> bool {
        let newest = copies.iter().filter_map(Copy::age).max();
        let (Copy::Damaged(block), Some((generation, number))) = (&copies[at], newest) else {
            return true;
        };
        let offset = self.known.layout.note_offset(server, note, at as u64);
        let label = Label { volume: self.known.volume.id(), number, offset };
        may_be_newer(kind_of(note), (&label, generation), block)
    }

    fn report_block(&self, (server, note): (usize, Note), copies: &[Copy], report: &mut Report) {
        let is_whole = copies.iter().any(|copy| copy.age().is_some());
        let bad = if is_whole { self.bad_copies(copies) } else { self.of_half().to_vec() };
        for at in bad {
            let (severity, consequence, doubt) = if is_whole {
                let is_newer =
                    matches!(note, Note::Table(_)) && self.may_be_newer((server, note), at, copies);
                let consequence = if is_newer {
                    "if it was the newer copy, the objects that were placed or freed last there \
                     are not as they were left; if a power cut tore it, nothing is missing"
                } else {
                    "the other copy is the only one"
                };
                let doubt = if is_newer { Doubt::MayBeOlder } else { Doubt::None };
                (Severity::Warning, consequence.to_owned(), doubt)
            } else {
                (severity_of_loss(note), self.loss(server, note), Doubt::None)
            };
            report.push(Finding {
                severity,
                member: Some(server),
                offset: Some(self.known.layout.note_offset(server, note, at as u64)),
                part: format!("{}, copy {at}", name(note)),
                what: copies[at].what().to_owned(),
                consequence,
                remedy: remedy(is_whole, note).to_owned(),
                doubt,
            });
        }
    }

    fn loss(&self, server: usize, note: Note) -> String {
        match note {
            Note::Directory(_) => "no copy is whole: blocks of the table that were never written \
                                   count as lost, and their slots as taken"
                .to_owned(),
            Note::Table(block) => {
                let first = block * ENTRIES_PER_BLOCK;
                let slots = self.known.layout.servers[server].slots;
                let last = (first + ENTRIES_PER_BLOCK).min(slots) - 1;
                format!("no copy is whole: what lies in slots {first} to {last} is lost")
            }
            Note::Page(_) => "no copy of this server is whole".to_owned(),
        }
    }

    /// Tells of a page that keepers do not agree on, or of which a choice may be missing.
    fn report_page(&self, page: u32, report: &mut Report) {
        let note = Note::Page(page);
        let keepers = self.found.iter().enumerate();
        let keepers: Vec<(usize, &Vec<Copy>)> =
            keepers.filter_map(|(server, found)| Some((server, found.get(&note)?))).collect();
        let newest = |copies: &[Copy]| copies.iter().filter_map(Copy::age).max();
        let known = keepers.iter().filter_map(|(_, copies)| newest(copies)).max();
        let may_hide = |(server, copies): &&(usize, &Vec<Copy>)| {
            let at = *server;
            let mut bad = self.bad_copies(copies).into_iter();
            bad.any(|copy| self.may_be_newer((at, note), copy, copies))
        };
        // A choice counts once two of three keepers have it, or all of fewer.
        let hidden = keepers.iter().filter(may_hide).count();
        let needed = if keepers.len() >= KEEPERS_MAX { KEEPERS_MAX - 1 } else { keepers.len() };
        let mut tell = |severity, member, what: String, consequence: &str, doubt| {
            report.push(Finding {
                severity,
                member,
                offset: None,
                part: name(note),
                what,
                consequence: consequence.to_owned(),
                remedy: "evenkeel volume repair writes it again on all that keep it".to_owned(),
                doubt,
            });
        };
        if hidden >= needed && known.is_some() {
            let consequence = "if they were the newer ones, choices that were noted last are \
                               missing; if a power cut tore them, nothing is";
            let what = format!("copies on {hidden} servers are bad");
            tell(Severity::Warning, None, what, consequence, Doubt::MayBeOlder);
        }
        for (server, copies) in keepers {
            let (own, known) = (newest(copies), known);
            if own.is_some() && own.map(|age| age.1) < known.map(|age| age.1) {
                let what = "other servers have a later version".to_owned();
                let consequence = "the next opening writes it again";
                tell(Severity::Note, Some(server), what, consequence, Doubt::None);
            }
        }
    }
}

fn copy_of(volume: VolumeId, (note, offset): (Note, u64), block: Option<&Block>) -> Copy {
    let Some(block) = block else { return Copy::Unreadable };
    let found = match note {
        Note::Directory(index) => DirectoryPart::decode(volume, offset, block)
            .filter(|part| part.index == index)
            .map(|part| (part.generation, part.number)),
        Note::Table(index) => TablePart::decode(volume, offset, block)
            .filter(|part| part.index == index)
            .map(|part| (part.generation, part.number)),
        Note::Page(index) => Page::decode(volume, offset, block)
            .filter(|page| page.index == index)
            .map(|page| (page.generation, page.number)),
    };
    match found {
        Some((generation, number)) => Copy::Whole(generation, number),
        None if block.iter().all(|byte| *byte == 0) => Copy::Blank,
        None => Copy::Damaged(Box::new(*block)),
    }
}

fn severity_of_loss(note: Note) -> Severity {
    match note {
        Note::Table(_) => Severity::Error,
        Note::Directory(_) | Note::Page(_) => Severity::Warning,
    }
}

fn kind_of(note: Note) -> BlockKind {
    match note {
        Note::Directory(_) => BlockKind::Directory,
        Note::Table(_) => BlockKind::Table,
        Note::Page(_) => BlockKind::Choices,
    }
}

fn name(note: Note) -> String {
    match note {
        Note::Directory(block) => format!("block {block} of the directory"),
        Note::Table(block) => format!("block {block} of the table"),
        Note::Page(page) => format!("page {page} of the choices"),
    }
}

fn remedy(is_whole: bool, note: Note) -> &'static str {
    match (is_whole, note) {
        (true, _) => "evenkeel volume repair writes it again",
        (false, Note::Page(_)) => {
            "evenkeel volume repair takes it from the other servers that keep the choices, or \
             makes it anew from the tables"
        }
        (false, Note::Directory(_)) => {
            "move the objects of this server to others (`leaving`), and have it join again"
        }
        (false, Note::Table(_)) => "restore the volume from a backup",
    }
}

const _: () = assert!(COPIES == 4, "two of each half");
